//! The end of a simulation: everybody leaves, time passes, what is left is fetched and checked.

use std::collections::BTreeMap;

use crate::amqp::Method;
use crate::amqp::method::{BasicAck, BasicConsume, BasicGet, BasicQos};
use crate::broker::tests::client::{EPOCH_US, table, text};

use super::ledger::MessageName;
use super::paths::{QUEUES, QueuePlan, STREAM, TIME_US_MAX, is_moving};
use super::run::{Outcome, Simulation};

impl Simulation {
    /// Everybody leaves, and what is left is fetched.
    pub(super) fn end(mut self) -> Result<Outcome, String> {
        self.disk.limit(None);
        self.rest();
        for index in 0..self.actors.len() {
            self.read_of(index)?;
        }
        while !self.actors.is_empty() {
            self.disconnect_one(0);
        }
        self.disk.slow_down_reads(1);
        // Twice: what somebody rejected last is moved in the first while, and its time is over in the second.
        for _ in 0..2 {
            self.world.now += TIME_US_MAX;
            self.rest();
        }
        let mut left: Vec<MessageName> = Vec::new();
        for plan in QUEUES {
            let drained = if plan.group == STREAM { self.read_all(plan)? } else { self.drain(plan)? };
            if plan.has_time && !drained.is_empty() {
                return Err(format!("{:?} is in '{}' after its time", drained[0], plan.name));
            }
            check_order(plan, &drained)?;
            left.extend(drained);
        }
        self.ledger.check(&left)?;
        self.rest();
        let metrics = self.world.broker.metrics();
        if (metrics.messages, metrics.letters_waiting, metrics.lost) != (0, 0, 0) {
            return Err(format!("something is left behind: {metrics:?}"));
        }
        Ok(Outcome { delivered: self.ledger.delivered, left: left.len(), metrics })
    }

    /// Let the broker do all that it has to do: write, tick, and go on with what it put off.
    fn rest(&mut self) {
        for _ in 0..100 {
            self.world.commit();
            self.world.broker.tick(self.world.now, EPOCH_US + self.world.now as i64);
            self.world.broker.work(self.world.now);
        }
    }

    /// Fetch all messages of a queue.
    fn drain(&mut self, plan: &QueuePlan) -> Result<Vec<MessageName>, String> {
        let id = self.connect_as_ann()?;
        let mut left = Vec::new();
        loop {
            self.world.send(id, 1, BasicGet { queue: plan.name, ..Default::default() });
            let seen = self.world.try_seen(id)?;
            let Some(Method::BasicGetOk(ok)) = seen.first().map(|seen| seen.method()) else { break };
            self.world.send(id, 1, BasicAck { delivery_tag: ok.delivery_tag, multiple: false });
            let name = MessageName::read(plan.group, &seen[0].body)?;
            self.ledger.delivered(name, ok.redelivered)?;
            left.push(name);
        }
        self.world.broker.disconnect(id, self.world.now);
        Ok(left)
    }

    /// Read a stream from its first message to its last.
    fn read_all(&mut self, plan: &QueuePlan) -> Result<Vec<MessageName>, String> {
        let id = self.world.connect();
        self.world.send(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 100, global: false });
        let arguments = table(&[("x-stream-offset", text("first"))]);
        self.world.send(id, 1, BasicConsume { queue: plan.name, arguments, ..Default::default() });
        let mut left = Vec::new();
        let mut silent = 0;
        while silent < 10 {
            self.world.commit();
            self.world.broker.work(self.world.now);
            silent += 1;
            for seen in self.world.try_seen(id)? {
                if let Method::BasicDeliver(it) = seen.method() {
                    silent = 0;
                    let name = MessageName::read(plan.group, &seen.body)?;
                    self.ledger.delivered(name, it.redelivered)?;
                    left.push(name);
                    self.world.send(id, 1, BasicAck { delivery_tag: it.delivery_tag, multiple: false });
                }
            }
        }
        self.world.broker.disconnect(id, self.world.now);
        Ok(left)
    }
}

/// Messages of one publisher stand in their order, where nothing has moved them.
fn check_order(plan: &QueuePlan, left: &[MessageName]) -> Result<(), String> {
    let mut last = BTreeMap::new();
    for name in left.iter().filter(|name| !is_moving(name.group)) {
        let before = last.insert(name.publisher, name.number);
        if before.is_some_and(|before| before >= name.number) {
            return Err(format!("{name:?} of '{}' stands behind number {before:?}", plan.name));
        }
    }
    Ok(())
}
