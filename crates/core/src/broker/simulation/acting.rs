//! The actions of a client: it publishes in all ways, consumes, fetches, settles and commits.

use crate::amqp::method::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicNack, BasicPublish, BasicQos, TxCommit, TxRollback,
};
use crate::amqp::properties::put_content;
use crate::amqp::{FieldValue, PropertyFields, RawTable};
use crate::broker::tests::client::{table, text};
use crate::journal::Dice;

use super::actor::{Actor, Sent, Transacted, UncommittedSettlement};
use super::ledger::{Ledger, MessageName};
use super::paths::{QUEUES, STREAM, WAYS, Way, is_addressed, is_durable};

impl Actor {
    pub fn publish(&mut self, dice: &mut Dice, ledger: &mut Ledger) {
        let way = WAYS[dice.below(WAYS.len() as u64) as usize];
        self.numbers += 1;
        self.published += 1;
        let is_persistent = dice.once_in(2);
        let name = |group| MessageName { group, publisher: self.publisher, number: self.numbers };
        let names: Vec<MessageName> = way.groups.iter().map(|group| name(*group)).collect();
        for name in &names {
            let is_always_kept = name.group == STREAM || is_addressed(name.group);
            let survives = is_durable(name.group) && (is_persistent || is_always_kept);
            ledger.attempted(*name, survives, self.is_transactional);
        }
        if self.is_transactional {
            self.uncommitted.extend(names);
        } else {
            self.unconfirmed.insert(self.published, names);
        }
        // A mistake: the transaction must be refused as a whole.
        let is_wrong = self.is_transactional && dice.once_in(60);
        self.has_mistake |= is_wrong;
        let expiration = if is_wrong { Some("soon") } else { way.expiration };
        let size = if dice.once_in(10) { 9000 } else { 20 };
        let body = MessageName::body(self.publisher, self.numbers, size);
        self.write_bytes(|pipe| put_message(pipe, &Way { expiration, ..way }, is_persistent, &body));
    }

    pub fn transact(&mut self, dice: &mut Dice) {
        if !self.is_transactional {
            return;
        }
        let names = std::mem::take(&mut self.uncommitted);
        let settlements = std::mem::take(&mut self.uncommitted_settlements);
        let has_mistake = std::mem::take(&mut self.has_mistake);
        if dice.once_in(5) {
            self.held.extend(settlements.into_iter().map(|it| (it.tag, it.holding)));
            return self.write(&TxRollback {}.into());
        }
        self.write(&TxCommit {}.into());
        let settled = settlements.iter().filter(|it| it.is_settled).map(|it| it.holding.name).collect();
        let end = self.written;
        self.committing.push_back(Transacted { names: names.clone(), settled, end, has_mistake });
        self.sent.push((end, Sent::Committed(names, settlements.iter().filter(|it| !it.holding.is_got).count())));
    }

    pub fn consume(&mut self, dice: &mut Dice) {
        if self.consumed.is_some() {
            return;
        }
        let queue = dice.below(QUEUES.len() as u64) as usize;
        let is_stream = QUEUES[queue].group == STREAM;
        self.consumed = Some(queue);
        self.prefetch = dice.below(4) as u16 * 5 + if is_stream { 5 } else { 0 };
        self.write(&BasicQos { prefetch_size: 0, prefetch_count: self.prefetch, global: false }.into());
        let arguments = if is_stream { table(&[("x-stream-offset", text("first"))]) } else { RawTable::default() };
        let consume = BasicConsume {
            queue: QUEUES[queue].name,
            consumer_tag: "c",
            no_wait: true,
            arguments,
            ..Default::default()
        };
        self.write(&consume.into());
    }

    pub fn cancel(&mut self) {
        if self.consumed.is_some() && !self.has_cancelled {
            self.has_cancelled = true;
            self.write(&BasicCancel { consumer_tag: "c", no_wait: true }.into());
        }
    }

    pub fn get(&mut self, dice: &mut Dice) {
        let queue = dice.below(QUEUES.len() as u64) as usize;
        if QUEUES[queue].group != STREAM {
            self.getting.push_back(queue);
            self.write(&BasicGet { queue: QUEUES[queue].name, ..Default::default() }.into());
        }
    }

    /// Settle something that it holds, in some way. In a transaction this waits for the commit.
    pub fn settle(&mut self, dice: &mut Dice) {
        let tags: Vec<u64> = self.held.keys().copied().collect();
        if tags.is_empty() {
            return;
        }
        let delivery_tag = tags[dice.below(tags.len() as u64) as usize];
        let multiple = dice.once_in(3);
        let chosen = tags.into_iter().filter(|tag| *tag == delivery_tag || (multiple && *tag < delivery_tag));
        let holdings: Vec<_> = chosen.filter_map(|tag| Some((tag, self.held.remove(&tag)?))).collect();
        let count = holdings.iter().filter(|(_, holding)| !holding.is_got).count();
        let requeue = dice.once_in(3);
        let is_rejected = !requeue && dice.once_in(4);
        if requeue || is_rejected {
            self.write(&BasicNack { delivery_tag, multiple, requeue }.into());
        } else {
            self.write(&BasicAck { delivery_tag, multiple }.into());
        }
        let is_settled = |queue: usize| {
            let plan = QUEUES[queue];
            plan.group != STREAM && !requeue && !(is_rejected && plan.sends_on)
        };
        if self.is_transactional {
            let settlements = holdings.into_iter().map(|(tag, holding)| {
                let is_settled = is_settled(holding.queue);
                UncommittedSettlement { tag, holding, is_settled }
            });
            self.uncommitted_settlements.extend(settlements);
            if dice.once_in(3) {
                self.transact(dice);
            }
            return;
        }
        let settled = holdings.iter().filter(|(_, it)| is_settled(it.queue)).map(|(_, it)| it.name);
        self.sent.push((self.written, Sent::Settled(settled.collect(), count)));
    }
}

/// Append a message's frames.
fn put_message(out: &mut Vec<u8>, way: &Way, is_persistent: bool, body: &[u8]) {
    BasicPublish { exchange: way.exchange, routing_key: way.routing_key, ..Default::default() }.encode(1, out);
    let headers: crate::amqp::Table = [("number", FieldValue::I32(way.number))].into_iter().collect();
    let headers = headers.to_bytes();
    let fields = PropertyFields {
        headers: Some(RawTable::new(&headers)),
        delivery_mode: Some(if is_persistent { 2 } else { 1 }),
        expiration: way.expiration,
        ..Default::default()
    };
    let mut properties = Vec::new();
    fields.encode(&mut properties);
    put_content(out, 1, &properties, body, 4096);
}
