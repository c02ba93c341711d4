//! The positions and the credit of the readers of streams, and what waits in mailboxes and services, for management.

use crate::broker::Broker;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::topology::AddressKind;

/// The progress of a reader in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderProgress {
    /// It is at the end, and gets messages from memory.
    pub is_live: bool,
    /// The number of messages from the one that it reads next to the end.
    pub lag: u64,
    /// How often it has fallen back from live delivery to the log.
    pub fallbacks: u64,
}

/// The readers of all streams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReaderCounts {
    pub live: u64,
    pub replaying: u64,
    /// The credit that readers with a limit have left, together.
    pub credit: u64,
    /// The lag of the reader that is furthest behind, among those that read and the named ones that are away.
    pub lag_max: u64,
}

/// The messages in the queues of one kind of address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AddressCounts {
    pub queues: u64,
    /// Messages that wait to be delivered.
    pub ready: u64,
    /// Messages that were delivered and not settled.
    pub unacknowledged: u64,
    /// Consumers that can take a message.
    pub consumers_ready: u64,
}

impl Broker {
    /// The progress of a consumer in its stream; None if it reads none.
    pub(crate) fn progress_of(&self, consumer: &Consumer) -> Option<ReaderProgress> {
        let reader = consumer.reader.as_ref()?;
        let stream = self.queues.get(consumer.queue)?.stream.as_ref()?;
        let mut next = reader.cursor.position();
        if reader.is_live {
            next = stream.live.as_ref().and_then(|live| live.tail.next()).map_or(next, |front| front.max(next));
        }
        let end = self.streams.synced(stream.log)?.next();
        let lag = end.0.saturating_sub(next.0);
        Some(ReaderProgress { is_live: reader.is_live, lag, fallbacks: reader.fallbacks })
    }

    /// Count the readers of all streams. Cost: some nanoseconds per reader and per named reader.
    pub(crate) fn count_readers(&self) -> ReaderCounts {
        let mut counts = ReaderCounts::default();
        for queue in self.streams.queues().iter().filter_map(|id| self.queues.get(*id)) {
            for consumer in queue.consumers.iter().filter_map(|slot| self.clients.consumer_in(*slot)) {
                if let Some(progress) = self.progress_of(consumer) {
                    counts.live += u64::from(progress.is_live);
                    counts.replaying += u64::from(!progress.is_live);
                    counts.lag_max = counts.lag_max.max(progress.lag);
                    counts.credit += u64::from(self.credit_of(consumer).unwrap_or(0));
                }
            }
            let Some(stream) = &queue.stream else { continue };
            let end = self.streams.synced(stream.log).unwrap_or_default().next();
            let away = stream.offsets.values().filter(|offset| !offset.is_read);
            let lags = away.filter_map(|offset| Some(end.0.saturating_sub(offset.recorded?.next.0)));
            counts.lag_max = counts.lag_max.max(lags.max().unwrap_or(0));
        }
        counts
    }

    /// The number of messages that may be delivered to a consumer before it acknowledges; None without a limit.
    pub(crate) fn credit_of(&self, consumer: &Consumer) -> Option<u32> {
        if consumer.no_ack {
            return None;
        }
        let shared = self.clients[consumer.channel].credit.left();
        consumer.credit.left().into_iter().chain(shared).min()
    }

    /// Count what waits in the queues of one kind of address. Cost: some nanoseconds per queue and consumer.
    pub(crate) fn count_addresses(&self, kind: AddressKind) -> AddressCounts {
        let mut counts = AddressCounts::default();
        for (_, queue) in self.queues.iter().filter(|(_, queue)| queue.policy.address == Some(kind)) {
            counts.queues += 1;
            counts.ready += queue.ready().len() as u64;
            counts.unacknowledged += u64::from(queue.unacknowledged);
            counts.consumers_ready +=
                queue.consumers.iter().filter(|slot| self.clients.can_take(**slot)).count() as u64;
        }
        counts
    }
}
