//! Carries out transactions that were checked, in as many calls as it takes.
//!
//! Nothing can refuse a transaction any more once this begins, and it is carried out to its end even when its client goes. Its
//! channel is not read until then.

use std::sync::Arc;

use crate::amqp::method::TxCommitOk;
use crate::amqp::{AmqpError, BasicProperties};
use crate::broker::Broker;
use crate::broker::durability::journal_access::Room;
use crate::broker::errors::FailedAt;
use crate::broker::ids::{COMMITS, ChannelSlot, Handle, JOURNAL};
use crate::broker::parts::Arrived;
use crate::broker::publishing::confirms::{DiskMark, DiskMarks};
use crate::broker::publishing::further_keys::may_have_copies;
use crate::broker::publishing::publish::{Terms, cannot_keep, expiration};
use crate::broker::publishing::transactions::commit::CommitInProgress;
use crate::broker::publishing::transactions::transaction::{PendingMessage, PendingSettlement};
use crate::broker::publishing::transactions::transaction_check::CheckedRoute;
use crate::broker::topology::QueueId;
use crate::journal::AppendError;

impl Broker {
    /// Carry out the transaction of a channel, whose messages take these routes, as far as the turn goes.
    pub(in crate::broker::publishing) fn carry_out(&mut self, channel: ChannelSlot, routes: Vec<CheckedRoute>) {
        let sender = Arc::clone(&self.clients[self.clients[channel].connection].about);
        let it = &mut self.clients[channel];
        let handle = it.handle(channel);
        let Some(transaction) = &mut it.transaction else { return };
        let size_bytes = transaction.size_bytes() as u64;
        let settlements = transaction.take_settlements();
        let commit = CommitInProgress {
            channel: handle,
            sender,
            messages: transaction.take_messages().into_iter().zip(routes),
            settles: !settlements.is_empty(),
            settlements: settlements
                .into_iter()
                .rev()
                .map(|pending| (pending.settlement, pending.deliveries.into_iter()))
                .collect(),
            marks: self.publishing.take_promised(),
            size_bytes,
        };
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        self.publishing.commit = Some(Box::new(commit));
        self.go_on_with_commit();
    }

    /// Go on with the transaction that is carried out, as far as the turn goes.
    pub(crate) fn go_on_with_commit(&mut self) {
        let Some(mut commit) = self.publishing.commit.take() else { return };
        let mut done = Ok(true);
        while let Ok(true) = done {
            if self.turn.is_over() {
                self.publishing.commit = Some(commit);
                return;
            }
            done = self.take_step(&mut commit);
        }
        self.durability.end_reservation();
        self.end_commit(*commit, done.err());
    }

    /// Publish a message, or settle some deliveries. Returns false when there is nothing more.
    fn take_step(&mut self, commit: &mut CommitInProgress) -> Result<bool, AmqpError> {
        if let Some((message, route)) = commit.messages.next() {
            self.publish_checked(commit, message, &route).map_err(FailedAt::at_publish)?;
            return Ok(true);
        }
        let Some(settlement) = commit.next_settlement() else { return Ok(false) };
        self.turn.spend(settlement.deliveries.len() as u32);
        if self.clients.channel_of(commit.channel).is_some() {
            self.settle_committed(commit.channel.id, vec![settlement]);
        } else {
            self.settle_without_channel(settlement);
        }
        Ok(true)
    }

    /// Publish a message of a transaction to those of its queues that are still there.
    ///
    /// # Errors
    /// 406: the disk takes nothing any more.
    fn publish_checked(
        &mut self,
        commit: &mut CommitInProgress,
        message: PendingMessage,
        route: &CheckedRoute,
    ) -> Result<(), AmqpError> {
        self.turn.note_publish();
        self.turn.spend(1 + route.queues.len() as u32);
        let mut routed = std::mem::take(&mut self.publishing.routed);
        routed.clear();
        let is_there = |queue: &&Handle<QueueId>| self.queues.is_there(**queue);
        routed.extend(route.queues.iter().filter(is_there).map(|queue| queue.id));
        let terms = Terms { is_addressed: route.is_addressed, ..terms_of(&message)? };
        let kept = self.keep_checked(commit, message, &mut routed, terms);
        self.publishing.routed = routed;
        kept.map_err(|reason| cannot_keep(&reason))
    }

    fn keep_checked(
        &mut self,
        commit: &mut CommitInProgress,
        message: PendingMessage,
        routed: &mut Vec<QueueId>,
        mut terms: Terms,
    ) -> Result<(), AppendError> {
        let PendingMessage { joined, flags } = message;
        self.metrics.published += 1;
        if routed.is_empty() {
            self.metrics.unroutable += 1;
            if flags.mandatory() && self.clients.channel_of(commit.channel).is_some() {
                self.metrics.returned += 1;
                self.clients.return_message(commit.channel.id, &mut Arrived::Joined(joined));
            }
            return Ok(());
        }
        let mut message = Arrived::Joined(joined);
        if terms.is_addressed {
            message = self.with_sender(&commit.sender.identity, &message, routed, &mut terms);
        }
        message.share_large();
        let mut marks = DiskMarks::new();
        if !self.streams.is_empty() {
            self.append_to_streams(&message, terms.may_have_copies, routed, &mut marks)?;
            routed.retain(|queue| self.queues[*queue].stream.is_none());
        }
        let is_durable = self.durability.is_on() && terms.is_persistent;
        let saved = match is_durable {
            true => self.save_in(Room::Reserved, message.content(), routed, terms.time_to_live_ms)?,
            false => None,
        };
        marks.extend(saved.map(|(saved, _)| DiskMark { log: JOURNAL, sequence: saved.sequence.0 }));
        commit.promise(marks);
        self.put_into_queues(&mut message, saved, routed, terms);
        Ok(())
    }

    /// Answer a transaction that is carried out, or failed because of the disk, and let its connection go on.
    fn end_commit(&mut self, mut commit: CommitInProgress, failed: Option<AmqpError>) {
        let left = std::mem::take(&mut commit.settlements).into_iter().rev();
        let left =
            left.map(|(settlement, left)| PendingSettlement { settlement, deliveries: left.collect() }).collect();
        let slot = commit.channel.id;
        let Some(channel) = self.clients.channel_of(commit.channel) else { return self.put_all_back(left) };
        let (connection, number) = (channel.connection, channel.number);
        if let Some(error) = failed {
            if let Some(transaction) = &mut channel.transaction {
                transaction.put_back(left);
            }
            self.refuse(connection, number, error);
        } else {
            self.answer_commit(slot, commit);
        }
        self.release(connection);
    }

    /// Answer a commit as soon as no crash can take it back: neither its messages nor what it settled.
    fn answer_commit(&mut self, channel: ChannelSlot, mut commit: CommitInProgress) {
        self.publishing.begin_method();
        if !self.options.confirms_received {
            if commit.settles {
                commit.promise(smallvec::smallvec![DiskMark {
                    log: COMMITS,
                    sequence: self.durability.commit_settled()
                }]);
            }
            commit.marks.into_iter().for_each(|mark| self.publishing.promise(mark));
        }
        let answered = self.reply(channel, TxCommitOk {}.into());
        debug_assert!(answered.is_ok(), "an answer is written or held back");
    }
}

/// The properties of a message of a transaction that queues obey.
fn terms_of(message: &PendingMessage) -> Result<Terms, AmqpError> {
    let properties = BasicProperties::from_checked(message.joined.parts().properties);
    Ok(Terms {
        is_persistent: properties.is_persistent(),
        may_have_copies: may_have_copies(&properties),
        is_addressed: false,
        time_to_live_ms: expiration(&properties)?,
    })
}
