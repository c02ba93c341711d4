//! A client: bytes on their way in both directions, and what it remembers of them.

use std::collections::BTreeMap;

use crate::amqp::method::{
    BasicAck, BasicCancel, BasicConsume, BasicNack, BasicPublish, BasicQos, ChannelOpen, ConfirmSelect,
};
use crate::amqp::properties::put_content;
use crate::amqp::{Method, PropertyFields};
use crate::broker::ConnectionId;
use crate::broker::tests::client::read;
use crate::journal::Dice;

use super::ledger::{Ledger, MessageName};

pub const QUEUES: [&str; 4] = ["durable.a", "durable.b", "durable.c", "transient"];

/// A settlement on its way: what it settles, and how.
#[derive(Debug)]
enum Sent {
    Settled(Vec<MessageName>),
    Requeued(Vec<u64>),
}

#[derive(Debug)]
pub struct Actor {
    pub id: ConnectionId,
    /// Written and not yet taken by the broker.
    pub pipe: Vec<u8>,
    /// How many bytes were ever written, and how many of them have arrived.
    written: u64,
    arrived: u64,
    inbox: Vec<u8>,
    publisher: u64,
    numbers: u64,
    /// By publisher's confirm number.
    unconfirmed: BTreeMap<u64, MessageName>,
    published: u64,
    /// By delivery tag.
    held: BTreeMap<u64, MessageName>,
    /// Settlements by where in what was written they end.
    settling: Vec<(u64, Sent)>,
    consumes: bool,
    has_cancelled: bool,
    prefetch: u16,
    /// The last message of each publisher and queue that came here unflagged.
    last: BTreeMap<(usize, u64), u64>,
}

impl Actor {
    pub fn new(id: ConnectionId, publisher: u64) -> Self {
        let mut actor = Self {
            id,
            pipe: Vec::new(),
            written: 0,
            arrived: 0,
            inbox: Vec::new(),
            publisher,
            numbers: 0,
            unconfirmed: BTreeMap::new(),
            published: 0,
            held: BTreeMap::new(),
            settling: Vec::new(),
            consumes: false,
            has_cancelled: false,
            prefetch: 0,
            last: BTreeMap::new(),
        };
        actor.write(&ChannelOpen::default().into());
        actor.write(&ConfirmSelect { no_wait: true }.into());
        actor
    }

    pub fn write(&mut self, method: &Method<'_>) {
        let before = self.pipe.len();
        method.encode(1, &mut self.pipe);
        self.written += (self.pipe.len() - before) as u64;
    }

    pub fn publish(&mut self, dice: &mut Dice, ledger: &mut Ledger) {
        let queue = dice.below(QUEUES.len() as u64) as usize;
        self.numbers += 1;
        self.published += 1;
        let name = MessageName { queue, publisher: self.publisher, number: self.numbers };
        let is_persistent = dice.once_in(2);
        ledger.attempted(name, is_persistent && queue < 3);
        self.unconfirmed.insert(self.published, name);
        let before = self.pipe.len();
        BasicPublish { exchange: "", routing_key: QUEUES[queue], ..Default::default() }.encode(1, &mut self.pipe);
        let mut properties = Vec::new();
        let delivery_mode = Some(if is_persistent { 2 } else { 1 });
        PropertyFields { delivery_mode, ..Default::default() }.encode(&mut properties);
        let size = if dice.once_in(10) { 9000 } else { 20 };
        put_content(&mut self.pipe, 1, &properties, &name.body(size), 4096);
        self.written += (self.pipe.len() - before) as u64;
    }

    pub fn consume(&mut self, dice: &mut Dice) {
        if self.consumes {
            return;
        }
        self.consumes = true;
        self.prefetch = dice.below(4) as u16 * 5;
        self.write(&BasicQos { prefetch_size: 0, prefetch_count: self.prefetch, global: false }.into());
        let queue = QUEUES[dice.below(4) as usize];
        self.write(&BasicConsume { queue, consumer_tag: "c", no_wait: true, ..Default::default() }.into());
    }

    pub fn cancel(&mut self) {
        if self.consumes && !self.has_cancelled {
            self.has_cancelled = true;
            self.write(&BasicCancel { consumer_tag: "c", no_wait: true }.into());
        }
    }

    /// Settle something that it holds, in some way.
    pub fn settle(&mut self, dice: &mut Dice) {
        let tags: Vec<u64> = self.held.keys().copied().collect();
        if tags.is_empty() {
            return;
        }
        let delivery_tag = tags[dice.below(tags.len() as u64) as usize];
        let multiple = dice.once_in(3);
        let chosen: Vec<u64> = match multiple {
            true => tags.iter().copied().filter(|tag| *tag <= delivery_tag).collect(),
            false => vec![delivery_tag],
        };
        let names = chosen.iter().filter_map(|tag| self.held.remove(tag)).collect();
        let sent = if dice.once_in(3) {
            self.write(&BasicNack { delivery_tag, multiple, requeue: true }.into());
            Sent::Requeued(chosen)
        } else if dice.once_in(8) {
            self.write(&BasicNack { delivery_tag, multiple, requeue: false }.into());
            Sent::Settled(names)
        } else {
            self.write(&BasicAck { delivery_tag, multiple }.into());
            Sent::Settled(names)
        };
        self.settling.push((self.written, sent));
    }

    /// Takes `count` bytes out of the pipe, which have reached the broker: what they settle is settled from now on.
    pub fn arrived(&mut self, count: usize, ledger: &mut Ledger) {
        self.pipe.drain(..count);
        self.arrived += count as u64;
        let arrived = self.arrived;
        self.settling.retain(|(end, sent)| {
            if *end > arrived {
                return true;
            }
            if let Sent::Settled(names) = sent {
                names.iter().for_each(|name| ledger.settled(*name));
            }
            false
        });
    }

    /// The same, when the broker may not have looked at all of them yet.
    pub fn arrived_unread(&mut self, count: usize) {
        self.pipe.drain(..count);
        self.arrived += count as u64;
    }

    /// The connection is gone. What it settled and the broker may not have looked at may be settled or not.
    pub fn lost(self, ledger: &mut Ledger) {
        for (end, sent) in self.settling {
            if let Sent::Settled(names) = sent
                && end <= self.arrived
            {
                names.iter().for_each(|name| ledger.doubted(*name));
            }
        }
    }

    /// Bytes came from the broker.
    pub fn came(&mut self, bytes: &[u8], ledger: &mut Ledger) -> Result<(), String> {
        self.inbox.extend_from_slice(bytes);
        let (received, used) = read(&self.inbox);
        for received in &received {
            match received.method() {
                Method::BasicDeliver(deliver) => {
                    let name = MessageName::read(&received.body).ok_or("a body that nobody sent")?;
                    self.delivered(deliver.delivery_tag, deliver.redelivered, name, ledger)?;
                }
                Method::BasicAck(ack) => {
                    let remaining = self.unconfirmed.split_off(&(ack.delivery_tag + 1));
                    let confirmed = std::mem::replace(&mut self.unconfirmed, remaining);
                    for (number, name) in confirmed {
                        if ack.multiple || number == ack.delivery_tag {
                            ledger.confirmed(name);
                        } else {
                            self.unconfirmed.insert(number, name);
                        }
                    }
                }
                Method::BasicNack(nack) => drop(self.unconfirmed.remove(&nack.delivery_tag)),
                Method::ChannelOpenOk(_)
                | Method::BasicQosOk(_)
                | Method::ConnectionBlocked(_)
                | Method::ConnectionUnblocked(_) => {}
                other => return Err(format!("the broker said {other:?}")),
            }
        }
        // An incomplete delivery at the end is read again when all of it has come.
        self.inbox.drain(..used);
        Ok(())
    }

    fn delivered(&mut self, tag: u64, redelivered: bool, name: MessageName, ledger: &mut Ledger) -> Result<(), String> {
        ledger.delivered(name, redelivered)?;
        self.held.insert(tag, name);
        // What it holds, and what it gave back and the broker has certainly not heard of yet.
        let unheard = self.settling.iter().filter(|(end, _)| *end > self.arrived);
        let under_way: usize = unheard.map(|(_, sent)| sent.count()).sum();
        let out = self.held.len() + under_way;
        if self.prefetch != 0 && out > usize::from(self.prefetch) {
            return Err(format!("{out} are out over a prefetch of {}", self.prefetch));
        }
        if !redelivered {
            let last = self.last.entry((name.queue, name.publisher)).or_default();
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
            Self::Settled(names) => names.len(),
            Self::Requeued(tags) => tags.len(),
        }
    }
}
