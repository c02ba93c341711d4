//! Publisher confirms: messages are numbered as they are published, and acknowledged in as few acks as possible.
//!
//! A message is confirmed when every log that keeps it has synced it, and at once when none keeps it. Acks go out in order,
//! so that one with `multiple` covers many messages; a refused message gets a nack of its own, at once.

use std::collections::VecDeque;

use crate::amqp::method::BasicAck;

use crate::broker::Broker;
use crate::broker::ids::{ChannelSlot, Handle, LogId};

/// How far a log must be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskMark {
    pub log: LogId,
    pub sequence: u64,
}

/// All marks that must be reached. Nearly always there is one, or none.
pub(crate) type DiskMarks = smallvec::SmallVec<[DiskMark; 1]>;

/// What to tell the publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub tag: u64,
    pub multiple: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Confirms {
    published: u64,
    /// All messages up to here have been acked or nacked.
    told: u64,
    /// Messages that wait for a disk, by number.
    waiting: VecDeque<(u64, DiskMarks)>,
}

impl Confirms {
    /// Count a message. It is confirmed as soon as all before it are. Returns its number.
    #[inline]
    pub fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// Confirm the last message, which has this number, only when these marks are reached.
    pub fn wait(&mut self, number: u64, marks: DiskMarks) {
        debug_assert_eq!(number, self.published);
        if !marks.is_empty() {
            self.waiting.push_back((number, marks));
        }
    }

    /// The next ack, if any: for all messages that can be confirmed and have not been.
    pub fn acknowledge(&mut self, is_reached: impl Fn(DiskMark) -> bool) -> Option<Acknowledged> {
        while let Some((_, marks)) = self.waiting.front() {
            if !marks.iter().all(|mark| is_reached(*mark)) {
                break;
            }
            self.waiting.pop_front();
        }
        let done = self.waiting.front().map_or(self.published, |(number, _)| number - 1);
        if done == self.told {
            return None;
        }
        let multiple = done - self.told > 1;
        self.told = done;
        Some(Acknowledged { tag: done, multiple })
    }

    /// The last message was nacked. Messages before it are acked first, or by a later ack, whose range then covers this
    /// number without confirming it.
    pub fn refuse(&mut self, number: u64) {
        if self.told + 1 == number {
            self.told = number;
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Broker {
    /// Count a message that is published. Returns its number, when the channel's messages are confirmed.
    #[inline]
    pub(crate) fn count_publish(&mut self, channel: ChannelSlot) -> Option<u64> {
        let it = &mut self.clients[channel];
        let confirms: &mut Confirms = it.confirms.as_mut()?;
        if !it.has_published {
            it.has_published = true;
            self.publishing.confirming.push(channel);
        }
        Some(confirms.publish())
    }

    /// Let the confirm of the last message, or the answer to its commit, wait for the logs that keep it.
    pub(crate) fn await_marks(&mut self, channel: ChannelSlot, number: Option<u64>, marks: DiskMarks) {
        if self.options.confirms_received {
            return;
        }
        let it = &mut self.clients[channel];
        if let (Some(number), Some(confirms)) = (number, &mut it.confirms) {
            confirms.wait(number, marks);
        } else if it.transaction.is_some() {
            marks.into_iter().for_each(|mark| self.publishing.promise(mark));
        }
    }

    /// Confirm what was published in this call and waits for no disk.
    pub(crate) fn confirm(&mut self) {
        let mut confirming = std::mem::take(&mut self.publishing.confirming);
        for channel in confirming.drain(..) {
            if let Some(it) = self.clients.channel_in(channel)
                && it.has_published
            {
                it.has_published = false;
                self.acknowledge(channel);
            }
        }
        self.publishing.confirming = confirming;
    }

    /// Confirm what is done on a channel. After the journal has failed nothing is confirmed any more.
    fn acknowledge(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let Some(mut confirms) = self.clients[channel].confirms.take() else { return };
        let acknowledged = confirms.acknowledge(|mark: DiskMark| self.is_reached(mark));
        let is_waiting = confirms.is_waiting();
        let it = &mut self.clients[channel];
        it.confirms = Some(confirms);
        let (connection, number) = (it.connection, it.number);
        if let Some(ack) = acknowledged {
            self.metrics.confirms += 1;
            self.clients.answer(connection, number, BasicAck { delivery_tag: ack.tag, multiple: ack.multiple }.into());
        }
        if is_waiting {
            self.await_disk(channel);
        }
    }

    /// Look at this channel again when the disk has moved.
    pub(crate) fn await_disk(&mut self, channel: ChannelSlot) {
        let it = &mut self.clients[channel];
        if !it.is_awaiting {
            it.is_awaiting = true;
            let handle = Handle { id: channel, serial: it.serial };
            self.publishing.awaiting.push(handle);
        }
    }

    /// Confirm and answer what waited for the disk, which has moved.
    pub(crate) fn settle_waiting(&mut self) {
        for handle in std::mem::take(&mut self.publishing.awaiting) {
            if let Some(channel) = self.clients.channel_of(handle) {
                channel.is_awaiting = false;
                self.acknowledge(handle.id);
                self.answer_held(handle.id);
            }
        }
    }

    /// Give the answers that need not wait any longer.
    fn answer_held(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let mut held = std::mem::take(&mut self.clients[channel].held);
        let connection = self.clients[channel].connection;
        while let Some((marks, bytes)) = held.front() {
            if !marks.iter().all(|mark| self.is_reached(*mark)) {
                self.clients[channel].held = held;
                return self.await_disk(channel);
            }
            self.clients[connection].out.extend_from_slice(bytes);
            self.clients.touch(connection);
            held.pop_front();
        }
        self.wake_channel(channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> DiskMarks {
        smallvec::smallvec![DiskMark { log: LogId(0), sequence }]
    }

    fn told(confirms: &mut Confirms, synced: u64) -> Option<(u64, bool)> {
        confirms.acknowledge(|mark| mark.sequence <= synced).map(|ack| (ack.tag, ack.multiple))
    }

    #[test]
    fn a_run_is_told_in_one_ack() {
        let mut confirms = Confirms::default();
        assert_eq!(told(&mut confirms, 0), None);
        confirms.publish();
        assert_eq!(told(&mut confirms, 0), Some((1, false)));
        for _ in 0..3 {
            confirms.publish();
        }
        assert_eq!((told(&mut confirms, 0), told(&mut confirms, 0)), (Some((4, true)), None));
    }

    #[test]
    fn nothing_is_told_before_it_is_on_disk() {
        let mut confirms = Confirms::default();
        for sequence in [10, 20, 30] {
            let number = confirms.publish();
            confirms.wait(number, mark(sequence));
        }
        confirms.publish();
        assert_eq!(told(&mut confirms, 9), None);
        assert_eq!(told(&mut confirms, 20), Some((2, true)));
        assert!(confirms.is_waiting());
        assert_eq!(told(&mut confirms, 30), Some((4, true)), "the transient one went behind the third");
        assert!(!confirms.is_waiting());
    }

    #[test]
    fn a_message_in_two_logs_waits_for_both() {
        let mut confirms = Confirms::default();
        let number = confirms.publish();
        confirms.wait(
            number,
            smallvec::smallvec![DiskMark { log: LogId(0), sequence: 5 }, DiskMark { log: LogId(1), sequence: 7 }],
        );
        assert_eq!(confirms.acknowledge(|mark| mark.log == LogId(0)), None);
        assert!(confirms.acknowledge(|_| true).is_some());
    }

    #[test]
    fn a_refused_message_is_not_acknowledged_as_well() {
        let mut confirms = Confirms::default();
        let number = confirms.publish();
        confirms.refuse(number);
        assert_eq!(told(&mut confirms, 0), None);
        confirms.publish();
        assert_eq!(told(&mut confirms, 0), Some((2, false)));
    }
}
