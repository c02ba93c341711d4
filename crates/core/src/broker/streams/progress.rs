//! The positions of the readers of streams, for management.

use crate::broker::Broker;
use crate::broker::consumers::consumer::Consumer;

/// The progress of a reader in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderProgress {
    /// It is at the end, and gets messages from memory.
    pub is_live: bool,
    /// The number of messages from the one that it reads next to the end.
    pub lag: u64,
}

/// The readers of all streams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReaderCounts {
    pub live: u64,
    pub replaying: u64,
    pub lag_max: u64,
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
        Some(ReaderProgress { is_live: reader.is_live, lag: end.0.saturating_sub(next.0) })
    }

    /// Count the readers of all streams. Cost: some nanoseconds per reader.
    pub(crate) fn count_readers(&self) -> ReaderCounts {
        let mut counts = ReaderCounts::default();
        let queues = self.streams.queues().iter().filter_map(|id| self.queues.get(*id));
        for consumer in queues.flat_map(|queue| &queue.consumers).filter_map(|slot| self.clients.consumer_in(*slot)) {
            if let Some(progress) = self.progress_of(consumer) {
                counts.live += u64::from(progress.is_live);
                counts.replaying += u64::from(!progress.is_live);
                counts.lag_max = counts.lag_max.max(progress.lag);
            }
        }
        counts
    }
}
