//! A client: bytes on their way in both directions, and what it remembers of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::amqp::Method;
use crate::amqp::method::{BasicAck, BasicNack, ChannelOpen, ConfirmSelect, TxSelect};
use crate::broker::ConnectionId;
use crate::broker::tests::client::read;

use super::ledger::{Ledger, MessageName};
use super::paths::{QUEUES, QueueIndex, STREAM, is_moving};

/// What a client has written that changes what the ledger expects, as soon as the broker has looked at it.
#[derive(Debug)]
pub(super) enum Sent {
    /// Settlements: of these messages, and the number of deliveries of its consumer.
    Settled(Vec<MessageName>, usize),
    /// A transaction: its messages, and the number of deliveries of its consumer that it settles.
    Committed(Vec<MessageName>, usize),
}

/// A transaction that was committed and not answered.
#[derive(Debug)]
pub(super) struct Transacted {
    pub names: Vec<MessageName>,
    /// The messages that are done with once it is carried out.
    pub settled: Vec<MessageName>,
    /// Where in what was written it ends.
    pub end: u64,
    pub has_mistake: bool,
}

/// A settlement in an open transaction.
#[derive(Debug)]
pub(super) struct UncommittedSettlement {
    pub tag: u64,
    pub holding: Holding,
    /// The message is done with, and neither comes back nor goes on.
    pub is_settled: bool,
}

/// A delivery that is not settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    pub name: MessageName,
    pub queue: QueueIndex,
    /// It was fetched by basic.get, which takes no credit.
    pub is_got: bool,
}

#[derive(Debug)]
pub struct Actor {
    pub id: ConnectionId,
    /// Written and not yet taken by the broker.
    pub pipe: Vec<u8>,
    /// How many bytes were ever written, and how many of them have arrived.
    pub(super) written: u64,
    arrived: u64,
    inbox: Vec<u8>,
    pub(super) publisher: u64,
    pub(super) numbers: u64,
    pub(super) is_transactional: bool,
    /// The messages of the open transaction.
    pub(super) uncommitted: Vec<MessageName>,
    pub(super) uncommitted_settlements: Vec<UncommittedSettlement>,
    pub(super) committing: VecDeque<Transacted>,
    /// Whether something in the open transaction must be refused.
    pub(super) has_mistake: bool,
    /// By publisher's confirm number: the message, once for each queue that takes it.
    pub(super) unconfirmed: BTreeMap<u64, Vec<MessageName>>,
    nacked: BTreeSet<u64>,
    pub(super) published: u64,
    /// By delivery tag.
    pub(super) held: BTreeMap<u64, Holding>,
    /// By where in what was written they end.
    pub(super) sent: Vec<(u64, Sent)>,
    /// The queues that it asked for a message, and has no answer from.
    pub(super) getting: VecDeque<QueueIndex>,
    pub(super) consumed: Option<QueueIndex>,
    pub(super) has_cancelled: bool,
    pub(super) prefetch: u16,
    /// The broker has closed its channel.
    pub is_over: bool,
    /// The last message of each publisher and queue that came here unflagged.
    last: BTreeMap<(QueueIndex, u64), u64>,
}

impl Actor {
    pub fn new(id: ConnectionId, publisher: u64, is_transactional: bool) -> Self {
        let mut actor = Self {
            id,
            pipe: Vec::new(),
            written: 0,
            arrived: 0,
            inbox: Vec::new(),
            publisher,
            numbers: 0,
            is_transactional,
            uncommitted: Vec::new(),
            uncommitted_settlements: Vec::new(),
            committing: VecDeque::new(),
            has_mistake: false,
            unconfirmed: BTreeMap::new(),
            nacked: BTreeSet::new(),
            published: 0,
            held: BTreeMap::new(),
            sent: Vec::new(),
            getting: VecDeque::new(),
            consumed: None,
            has_cancelled: false,
            prefetch: 0,
            is_over: false,
            last: BTreeMap::new(),
        };
        actor.write(&ChannelOpen::default().into());
        match is_transactional {
            true => actor.write(&TxSelect {}.into()),
            false => actor.write(&ConfirmSelect { no_wait: true }.into()),
        }
        actor
    }

    pub fn write(&mut self, method: &Method<'_>) {
        self.write_bytes(|pipe| method.encode(1, pipe));
    }

    pub(super) fn write_bytes(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.pipe.len();
        write(&mut self.pipe);
        self.written += (self.pipe.len() - before) as u64;
    }

    /// Takes `count` bytes out of the pipe, which have reached the broker, with what they settle and commit.
    pub fn arrived(&mut self, count: usize, ledger: &mut Ledger) {
        self.arrived_unread(count);
        let arrived = self.arrived;
        self.sent.retain(|(end, sent)| {
            if *end > arrived {
                return true;
            }
            match sent {
                Sent::Settled(names, _) => names.iter().for_each(|name| ledger.settled(*name)),
                Sent::Committed(names, _) => names.iter().for_each(|name| ledger.committed(*name)),
            }
            false
        });
    }

    /// The same, when the broker may not have looked at all of them yet.
    pub fn arrived_unread(&mut self, count: usize) {
        self.pipe.drain(..count);
        self.arrived += count as u64;
    }

    /// The broker may have looked at what it was given: committed messages may come from now on.
    pub fn looked_at(&mut self, ledger: &mut Ledger) {
        let looked = self.sent.iter().filter(|(end, _)| *end <= self.arrived);
        for (_, sent) in looked {
            if let Sent::Committed(names, _) = sent {
                names.iter().for_each(|name| ledger.committed(*name));
            }
        }
    }

    /// The connection is gone. What the broker may not have looked at may have happened or not.
    pub fn lost(self, ledger: &mut Ledger) {
        for (end, sent) in self.sent {
            let (Sent::Settled(names, _) | Sent::Committed(names, _)) = sent;
            if end <= self.arrived {
                names.iter().for_each(|name| ledger.doubted(*name));
            }
        }
        let arrived = self.committing.iter().filter(|it| it.end <= self.arrived && !it.has_mistake);
        arrived.flat_map(|it| &it.settled).for_each(|name| ledger.doubted(*name));
    }

    /// Bytes came from the broker.
    pub fn came(&mut self, bytes: &[u8], ledger: &mut Ledger) -> Result<(), String> {
        self.inbox.extend_from_slice(bytes);
        let (received, used) = read(&self.inbox);
        for received in &received {
            match received.method() {
                Method::BasicDeliver(it) => {
                    let queue = self.consumed.ok_or("a delivery to nobody")?;
                    self.delivered(it.delivery_tag, it.redelivered, queue, &received.body, false, ledger)?;
                }
                Method::BasicGetOk(it) => {
                    let queue = self.getting.pop_front().ok_or("an answer that nobody asked for")?;
                    self.delivered(it.delivery_tag, it.redelivered, queue, &received.body, true, ledger)?;
                }
                Method::BasicGetEmpty(_) => drop(self.getting.pop_front()),
                Method::BasicAck(ack) => self.acknowledged(&ack, ledger)?,
                Method::BasicNack(nack) => self.refused(&nack, ledger)?,
                Method::TxCommitOk(_) => {
                    let committed = self.committing.pop_front().ok_or("a commit that nobody asked for")?;
                    committed.names.into_iter().for_each(|name| ledger.confirmed(name));
                    committed.settled.into_iter().for_each(|name| ledger.settled_for_good(name));
                }
                Method::ChannelClose(_) if self.is_transactional => self.closed(ledger)?,
                Method::ChannelOpenOk(_)
                | Method::BasicQosOk(_)
                | Method::TxSelectOk(_)
                | Method::TxRollbackOk(_)
                | Method::ConnectionBlocked(_)
                | Method::ConnectionUnblocked(_) => {}
                other => return Err(format!("the broker said {other:?}")),
            }
        }
        // An incomplete delivery at the end is read again when all of it has come.
        self.inbox.drain(..used);
        Ok(())
    }

    fn acknowledged(&mut self, ack: &BasicAck, ledger: &mut Ledger) -> Result<(), String> {
        let first = match (ack.multiple, self.unconfirmed.first_key_value()) {
            (true, Some((first, _))) => *first,
            _ => ack.delivery_tag,
        };
        if let Some(number) = self.nacked.range(first..=ack.delivery_tag).next() {
            return Err(format!("number {number} was refused, and acknowledged as well"));
        }
        let remaining = self.unconfirmed.split_off(&(ack.delivery_tag + 1));
        let mut confirmed = std::mem::replace(&mut self.unconfirmed, remaining);
        let kept = confirmed.split_off(&first);
        self.unconfirmed.append(&mut confirmed);
        kept.into_values().flatten().for_each(|name| ledger.confirmed(name));
        Ok(())
    }

    fn refused(&mut self, nack: &BasicNack, ledger: &mut Ledger) -> Result<(), String> {
        self.nacked.insert(nack.delivery_tag);
        let names = self.unconfirmed.remove(&nack.delivery_tag).unwrap_or_default();
        names.into_iter().try_for_each(|name| ledger.refused(name))
    }

    /// The broker refused a transaction: of one with a mistake nothing has happened. What became of others that were not
    /// answered nobody can tell.
    fn closed(&mut self, ledger: &mut Ledger) -> Result<(), String> {
        self.is_over = true;
        self.sent.retain(|(_, sent)| !matches!(sent, Sent::Committed(..)));
        for transacted in self.committing.drain(..) {
            for name in transacted.names {
                if transacted.has_mistake {
                    ledger.not_committed(name)?;
                }
                ledger.doubted(name);
            }
            if !transacted.has_mistake {
                transacted.settled.into_iter().for_each(|name| ledger.doubted(name));
            }
        }
        Ok(())
    }

    fn delivered(
        &mut self,
        tag: u64,
        redelivered: bool,
        queue: QueueIndex,
        body: &[u8],
        is_got: bool,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let name = MessageName::read(QUEUES[queue].group, body)?;
        ledger.delivered(name, redelivered)?;
        self.held.insert(tag, Holding { name, queue, is_got });
        // What it holds, and what it gave back and the broker has certainly not heard of yet.
        let unheard = self.sent.iter().filter(|(end, _)| *end > self.arrived);
        let under_way: usize = unheard.map(|(_, sent)| sent.count()).sum();
        let out = self.held.values().filter(|held| !held.is_got).count() + under_way;
        if self.prefetch != 0 && out > usize::from(self.prefetch) {
            return Err(format!("{out} are out over a prefetch of {}", self.prefetch));
        }
        if !redelivered && !is_moving(name.group) && (name.group != STREAM || !is_got) {
            let last = self.last.entry((queue, name.publisher)).or_default();
            if name.number <= *last {
                return Err(format!("{name:?} came after number {last}"));
            }
            *last = name.number;
        }
        Ok(())
    }
}

impl Sent {
    fn count(&self) -> usize {
        match self {
            Self::Settled(_, count) | Self::Committed(_, count) => *count,
        }
    }
}
