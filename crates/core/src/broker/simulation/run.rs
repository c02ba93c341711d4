//! One simulation.

use std::collections::BTreeMap;

use crate::amqp::Method;
use crate::amqp::method::{BasicGet, QueueDeclare};
use crate::broker::tests::client::TestBroker;
use crate::broker::tests::invariants::violation;
use crate::broker::{BrokerOptions, Flow};
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::or_few;

use super::Faults;
use super::actor::{Actor, QUEUES};
use super::ledger::{Ledger, MessageName};

const STEPS: usize = or_few(2500, 100);
const ACTORS_MAX: usize = 6;

/// The result of a run, to check that another one with the same seed has the same result.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    delivered: u64,
    left: usize,
    metrics: crate::broker::Metrics,
}

struct Simulation {
    dice: Dice,
    disk: SimulatedDisk,
    world: TestBroker,
    faults: Faults,
    actors: Vec<Actor>,
    ledger: Ledger,
    publishers: u64,
    is_full: bool,
}

/// Run the simulation of `seed`.
///
/// # Errors
/// The failure, in words.
pub fn run(seed: u64, faults: Faults) -> Result<Outcome, String> {
    let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(seed));
    let world = open(&disk, &mut dice, faults)?;
    let mut simulation = Simulation {
        dice,
        disk,
        world,
        faults,
        actors: Vec::new(),
        ledger: Ledger::default(),
        publishers: 0,
        is_full: false,
    };
    simulation.declare()?;
    simulation.disk.ignore_syncs(faults.disk_pretends);
    for step in 0..STEPS {
        simulation.step().map_err(|violation| format!("step {step}: {violation}"))?;
        if let Some(violation) = violation(&simulation.world.broker) {
            return Err(format!("step {step}: {violation}"));
        }
    }
    simulation.end()
}

fn open(disk: &SimulatedDisk, dice: &mut Dice, faults: Faults) -> Result<TestBroker, String> {
    // Sometimes little memory, so that messages have to leave it.
    let memory_bytes_max = if dice.once_in(2) { 60_000 } else { 1 << 30 };
    let output_bytes_max = 2_000 + dice.below(20_000) as usize;
    // Short turns, so that what a client sends is done in several.
    let turn_budget = 20 + dice.below(200) as u32;
    let options = BrokerOptions { memory_bytes_max, output_bytes_max, turn_budget, ..BrokerOptions::default() };
    let (mut world, found) = TestBroker::open(disk, options)?;
    world.broker.faults = faults;
    if found.damage.is_empty() && found.skipped.is_empty() { Ok(world) } else { Err(format!("damage: {found:?}")) }
}

impl Simulation {
    fn declare(&mut self) -> Result<(), String> {
        let id = self.world.connect();
        for (number, queue) in QUEUES.into_iter().enumerate() {
            self.world.send(id, 1, QueueDeclare { queue, durable: number < 3, ..Default::default() });
        }
        self.world.commit();
        let declared = self.world.seen(id).iter().filter(|it| matches!(it.method(), Method::QueueDeclareOk(_))).count();
        self.world.broker.disconnect(id, self.world.now);
        if declared == QUEUES.len() { Ok(()) } else { Err(format!("{declared} queues were declared")) }
    }

    fn step(&mut self) -> Result<(), String> {
        self.world.now += self.dice.below(50_000);
        match self.dice.below(1000) {
            0..20 => self.connect(),
            20..300 => self.with_actor(|actor, dice, ledger| actor.publish(dice, ledger)),
            300..340 => self.with_actor(|actor, dice, _| actor.consume(dice)),
            340..350 => self.with_actor(|actor, _, _| actor.cancel()),
            350..500 => self.with_actor(|actor, dice, _| actor.settle(dice)),
            500..720 => self.arrive(),
            720..840 => return self.read(),
            840..850 => self.world.broker.work(self.world.now),
            850..930 => self.world.commit(),
            930..950 => self.world.broker.tick(self.world.now, self.world.now as i64),
            950..960 => self.choke(),
            960..970 => self.disconnect(),
            970..975 => self.fill(),
            // Three in four of these do nothing, so that something can gather between two accidents.
            975..985 if self.dice.once_in(4) => return self.crash(),
            985..990 if self.dice.once_in(4) => return self.stop(),
            _ => {}
        }
        Ok(())
    }

    fn connect(&mut self) {
        if self.actors.len() < ACTORS_MAX {
            let id = self.world.connect_as(crate::broker::Login::default());
            self.publishers += 1;
            self.actors.push(Actor::new(id, self.publishers));
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.actors.len() as u64;
        (count > 0).then(|| self.dice.below(count) as usize)
    }

    fn with_actor(&mut self, act: impl FnOnce(&mut Actor, &mut Dice, &mut Ledger)) {
        if let Some(index) = self.pick() {
            act(&mut self.actors[index], &mut self.dice, &mut self.ledger);
        }
    }

    /// Some bytes of a client reach the broker, cut anywhere. One that is not read has to wait.
    fn arrive(&mut self) {
        let Some(index) = self.pick() else { return };
        let actor = &mut self.actors[index];
        let is_read = self.world.broker.wants_input(actor.id);
        // Callers may hand over what they had read before they were told to stop.
        if !is_read && !self.dice.once_in(4) {
            return;
        }
        let count = match self.dice.once_in(3) {
            true => actor.pipe.len(),
            false => self.dice.below(actor.pipe.len() as u64 + 1) as usize,
        };
        self.world.broker.receive(actor.id, &actor.pipe[..count], self.world.now);
        // What the broker has not looked at yet, because it is to be read no further, has arrived all the same: the
        // ledger learns of it when it has been looked at.
        if self.world.broker.wants_input(actor.id) {
            actor.arrived(count, &mut self.ledger);
        } else {
            actor.arrived_unread(count);
        }
    }

    /// A client reads some of what the broker has for it.
    fn read(&mut self) -> Result<(), String> {
        let Some(index) = self.pick() else { return Ok(()) };
        self.read_of(index)
    }

    fn read_of(&mut self, index: usize) -> Result<(), String> {
        let mut bytes = Vec::new();
        let actor = &mut self.actors[index];
        if self.world.broker.output(actor.id, &mut bytes) == Flow::Ended {
            return Err("the broker ended a connection".to_owned());
        }
        actor.came(&bytes, &mut self.ledger)?;
        if self.world.broker.wants_input(actor.id) {
            actor.arrived(0, &mut self.ledger);
        }
        Ok(())
    }

    fn choke(&mut self) {
        let is_writable = self.dice.once_in(2);
        if let Some(index) = self.pick() {
            self.world.broker.set_writable(self.actors[index].id, is_writable);
        }
    }

    fn disconnect(&mut self) {
        if let Some(index) = self.pick() {
            let actor = self.actors.swap_remove(index);
            self.world.broker.disconnect(actor.id, self.world.now);
            actor.lost(&mut self.ledger);
        }
    }

    fn fill(&mut self) {
        self.is_full = !self.is_full;
        self.disk.limit(self.is_full.then_some(0));
    }

    /// The power goes.
    fn crash(&mut self) -> Result<(), String> {
        if self.dice.once_in(2) {
            self.world.broker.commit_once();
        }
        for actor in std::mem::take(&mut self.actors) {
            actor.lost(&mut self.ledger);
        }
        self.ledger.crashed();
        self.reopen(true)
    }

    /// The broker is stopped in good order.
    fn stop(&mut self) -> Result<(), String> {
        for index in 0..self.actors.len() {
            self.read_of(index)?;
        }
        for actor in std::mem::take(&mut self.actors) {
            actor.lost(&mut self.ledger);
        }
        self.is_full = false;
        self.disk.limit(None);
        self.world.commit();
        self.world.broker.stop("over", self.world.now);
        self.world.commit();
        self.ledger.stopped();
        self.reopen(false)
    }

    fn reopen(&mut self, has_crashed: bool) -> Result<(), String> {
        self.is_full = false;
        self.disk.limit(None);
        if has_crashed {
            self.disk.power_cut(&mut self.dice);
        }
        let now = self.world.now;
        let fresh = open(&self.disk, &mut self.dice, self.faults)?;
        // The old broker writes nothing on its way out: its committer has no thread.
        self.world = fresh;
        self.world.now = now;
        self.declare()
    }

    /// Everybody leaves, and what is left is fetched.
    fn end(mut self) -> Result<Outcome, String> {
        self.disk.limit(None);
        self.world.commit();
        self.world.commit();
        for index in 0..self.actors.len() {
            self.read_of(index)?;
        }
        for actor in std::mem::take(&mut self.actors) {
            self.world.broker.disconnect(actor.id, self.world.now);
            actor.lost(&mut self.ledger);
        }
        let id = self.world.connect();
        let mut left: Vec<MessageName> = Vec::new();
        for queue in QUEUES {
            loop {
                self.world.send(id, 1, BasicGet { queue, no_ack: true, ..Default::default() });
                let seen = self.world.seen(id);
                let Some(Method::BasicGetOk(ok)) = seen.first().map(|seen| seen.method()) else { break };
                let name = MessageName::read(&seen[0].body).ok_or("a body that nobody sent")?;
                self.ledger.delivered(name, ok.redelivered)?;
                left.push(name);
            }
        }
        let mut last = BTreeMap::new();
        for name in &left {
            let before = last.insert((name.queue, name.publisher), name.number);
            if before.is_some_and(|before| before >= name.number) {
                return Err(format!("{name:?} stands behind number {before:?}"));
            }
        }
        left.sort_unstable();
        if left.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a message is there twice".to_owned());
        }
        if let Some(lost) = self.ledger.lost(&left) {
            return Err(lost);
        }
        for _ in 0..100 {
            self.world.broker.tick(self.world.now, 0);
        }
        let metrics = self.world.broker.metrics();
        if (metrics.messages, metrics.message_bytes) != (0, 0) || self.world.broker.metrics().lost > 0 {
            return Err(format!("something is left behind: {metrics:?}"));
        }
        Ok(Outcome { delivered: self.ledger.delivered, left: left.len(), metrics })
    }
}
