//! A channel: which frames may come next on it, and what it has outstanding.

use crate::amqp::{AmqpError, FrameKind, ReplyCode};

use crate::broker::connections::content::Incoming;
use crate::broker::consumers::credit::Credit;
use crate::broker::consumers::unacknowledged::Unacknowledged;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, ConsumerSlot, Handle, Serial};
use crate::broker::publishing::confirms::{Confirms, DiskMarks};
use crate::broker::publishing::transactions::transaction::Transaction;
use crate::broker::publishing::waiting_senders::WaitingMessage;
use crate::broker::streams::reader_offset::LeftReaders;

/// The frames that a channel waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// Any method.
    Open,
    /// The content header of a basic.publish.
    Header,
    /// More of the body of a basic.publish.
    Body,
    /// We closed it with an error, and wait for the client's close-ok. What the client sent before that is dropped.
    Closing,
}

/// The kinds of input that the state of a channel distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Method,
    Publish,
    Close,
    CloseOk,
    Header,
    Body,
}

/// The step that follows an [`Input`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The input is processed.
    Take,
    /// The input is dropped: it was on its way when we closed the channel.
    Drop,
    /// The channel is closed, by whichever side.
    Close,
    /// 505: the input may not come now.
    Unexpected,
    /// 503: a close-ok to no close.
    Invalid,
}

/// The table of a channel's states. It does not say what a method does, nor whether a header is followed by a body.
pub(crate) const fn step(state: ChannelState, input: Input) -> Step {
    match (state, input) {
        (ChannelState::Open, Input::Method | Input::Publish) => Step::Take,
        (ChannelState::Header, Input::Header) | (ChannelState::Body, Input::Body) => Step::Take,
        // A peer may give up in the middle of a message.
        (_, Input::Close) => Step::Close,
        (ChannelState::Closing, Input::CloseOk) => Step::Close,
        (ChannelState::Closing, _) => Step::Drop,
        (_, Input::CloseOk) => Step::Invalid,
        (ChannelState::Open, Input::Header | Input::Body) => Step::Unexpected,
        (ChannelState::Header | ChannelState::Body, _) => Step::Unexpected,
    }
}

/// The text of a 505, for a channel in `state`.
pub(crate) fn unexpected(state: ChannelState, kind: FrameKind) -> &'static str {
    match (state, kind) {
        (ChannelState::Header, FrameKind::Method) => {
            "expected content header for class 60, got non content header frame instead"
        }
        (ChannelState::Header, _) => "expected content header for class 60, got content body frame instead",
        (ChannelState::Body, _) => "expected content body, got non content body frame instead",
        _ => "expected method frame, got non method frame instead",
    }
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub connection: ConnectionSlot,
    pub number: u16,
    pub serial: Serial,
    pub state: ChannelState,
    /// Whether the client takes deliveries, as channel.flow says.
    pub is_flowing: bool,
    /// Whether the channel is in the broker's list of channels that wait for a disk.
    pub is_awaiting: bool,
    /// Whether the channel has published since its last confirm.
    pub has_published: bool,
    /// The last delivery tag given.
    pub delivery_tag: u64,
    /// basic.qos without `global`: the prefetch of consumers that begin later.
    pub prefetch: u16,
    /// basic.qos with `global`: shared by all consumers of the channel.
    pub credit: Credit,
    pub unacknowledged: Unacknowledged,
    /// The slots of the consumers, oldest first.
    pub consumers: Vec<ConsumerSlot>,
    /// The consumer that took credit of the channel last.
    pub served: Option<ConsumerSlot>,
    /// The name of the queue declared last, which an empty name refers to.
    pub last_queue: Box<str>,
    /// The message whose frames are arriving.
    pub incoming: Option<Box<Incoming>>,
    pub confirms: Option<Box<Confirms>>,
    pub transaction: Option<Box<Transaction>>,
    /// The memory of `incoming`, `waiting` and `transaction` when it was last counted.
    pub unfinished_bytes: u64,
    /// Answers that wait for a disk, oldest first.
    pub held: std::collections::VecDeque<(DiskMarks, Vec<u8>)>,
    /// The message that waits for room in a queue.
    pub waiting: Option<Box<WaitingMessage>>,
    /// The shortest time within which some of its deliveries have to be settled.
    pub timeout_ms_min: Option<u64>,
    /// The first delivery that nobody has looked at, whether it was settled in its time: 0 when the next look begins anew.
    pub next_looked_at: u64,
    /// Named readers that were cancelled before everything that they got was acknowledged.
    pub left_readers: Option<Box<LeftReaders>>,
}

impl Channel {
    pub fn new(connection: ConnectionSlot, number: u16, serial: Serial) -> Self {
        Self {
            connection,
            number,
            serial,
            state: ChannelState::Open,
            is_flowing: true,
            is_awaiting: false,
            has_published: false,
            delivery_tag: 0,
            prefetch: 0,
            credit: Credit::default(),
            unacknowledged: Unacknowledged::default(),
            consumers: Vec::new(),
            served: None,
            last_queue: Box::default(),
            incoming: None,
            confirms: None,
            transaction: None,
            unfinished_bytes: 0,
            held: std::collections::VecDeque::new(),
            waiting: None,
            timeout_ms_min: None,
            next_looked_at: 0,
            left_readers: None,
        }
    }

    /// The handle of what is in this slot.
    #[inline]
    pub fn handle(&self, slot: ChannelSlot) -> Handle<ChannelSlot> {
        Handle { id: slot, serial: self.serial }
    }

    /// Note that some deliveries have to be settled within a time, if there is one.
    pub fn limit_time(&mut self, timeout_ms: Option<u64>) {
        self.timeout_ms_min = self.timeout_ms_min.into_iter().chain(timeout_ms).min();
    }

    /// Confirm messages from now on.
    ///
    /// # Errors
    /// 406: the channel is transactional.
    pub fn select_confirms(&mut self) -> Result<(), AmqpError> {
        if self.transaction.is_some() {
            return Err(error(ReplyCode::PreconditionFailed, "cannot switch from tx to confirm mode"));
        }
        self.confirms.get_or_insert_default();
        Ok(())
    }

    /// Keep what is published and settled for a transaction from now on.
    ///
    /// # Errors
    /// 406: messages are confirmed.
    pub fn select_transactions(&mut self) -> Result<(), AmqpError> {
        if self.confirms.is_some() {
            return Err(error(ReplyCode::PreconditionFailed, "cannot switch from confirm to tx mode"));
        }
        self.transaction.get_or_insert_default();
        Ok(())
    }

    /// The queue that a name means: an empty name means the queue that was declared last.
    ///
    /// # Errors
    /// 404: no queue was declared.
    pub fn queue_name<'a>(&'a self, name: &'a str) -> Result<&'a str, AmqpError> {
        match (name, &*self.last_queue) {
            ("", "") => Err(error(ReplyCode::NotFound, "no previously declared queue")),
            ("", last) => Ok(last),
            (name, _) => Ok(name),
        }
    }

    /// Deliveries that are not settled: those that wait, and those that an open transaction settles.
    #[cfg(test)]
    pub fn outstanding(&self) -> impl Iterator<Item = &crate::broker::consumers::unacknowledged::Delivery> {
        let settled = self.transaction.iter().flat_map(|transaction| transaction.deliveries());
        self.unacknowledged.iter().chain(settled)
    }

    /// The index of the consumer behind the one that was served last.
    pub fn next_in_turn(&self) -> usize {
        let served = self.served.and_then(|served| self.consumers.iter().position(|consumer| *consumer == served));
        served.map_or(0, |index| index + 1)
    }

    /// The memory of an incomplete message, of one that waits, and of a transaction.
    pub fn unfinished(&self) -> u64 {
        let incoming = self.incoming.as_ref().map_or(0, |incoming| incoming.joined.bytes.len());
        let transaction = self.transaction.as_ref().map_or(0, |transaction| transaction.size_bytes());
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.joined.bytes.len());
        (incoming + transaction + waiting) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ChannelState; 4] =
        [ChannelState::Open, ChannelState::Header, ChannelState::Body, ChannelState::Closing];

    #[test]
    fn content_comes_only_behind_its_method_and_nothing_comes_between() {
        for input in [Input::Method, Input::Publish, Input::Header, Input::Body] {
            let takers: Vec<ChannelState> =
                STATES.into_iter().filter(|state| step(*state, input) == Step::Take).collect();
            let expected = match input {
                Input::Header => ChannelState::Header,
                Input::Body => ChannelState::Body,
                _ => ChannelState::Open,
            };
            assert_eq!(takers, [expected], "{input:?}");
        }
    }

    #[test]
    fn a_closing_channel_drops_everything_until_it_is_closed() {
        for input in [Input::Method, Input::Publish, Input::Header, Input::Body] {
            assert_eq!(step(ChannelState::Closing, input), Step::Drop);
        }
        assert_eq!(step(ChannelState::Closing, Input::CloseOk), Step::Close);
        assert!(STATES.into_iter().all(|state| step(state, Input::Close) == Step::Close));
        assert_eq!(step(ChannelState::Open, Input::CloseOk), Step::Invalid);
    }
}
