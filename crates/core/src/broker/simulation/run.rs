//! One simulation.

use std::sync::Arc;

use crate::amqp::Method;
use crate::amqp::method::{BasicGet, ChannelOpen};
use crate::broker::durable::DurableOptions;
use crate::broker::tests::client::{EPOCH_US, Easy, ReceivedMethod, TestBroker, closed};
use crate::broker::tests::invariants::violation;
use crate::broker::{Broker, BrokerOptions, ConnectionId, Flow, Login, Storage};
use crate::journal::{Committer, Dice, SimulatedDisk};
use crate::testing::or_few;

use super::Faults;
use super::actor::Actor;
use super::ledger::Ledger;
use super::paths::{QUEUES, declarations, is_addressed};

const STEPS: usize = or_few(2500, 100);
const ACTORS_MAX: usize = 6;

/// The result of a run, to check that another one with the same seed has the same result.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub(super) delivered: u64,
    pub(super) left: usize,
    pub(super) metrics: crate::broker::Metrics,
}

pub(super) struct Simulation {
    dice: Dice,
    pub(super) disk: SimulatedDisk,
    pub(super) world: TestBroker,
    faults: Faults,
    pub(super) actors: Vec<Actor>,
    pub(super) ledger: Ledger,
    publishers: u64,
    is_full: bool,
}

/// Run the simulation of `seed`.
///
/// # Errors
/// The failure, in words.
pub fn run(seed: u64, faults: Faults) -> Result<Outcome, String> {
    let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(seed));
    let world = open(&disk, &mut dice, faults, 0)?;
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
    simulation.make_addresses()?;
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

fn open(disk: &SimulatedDisk, dice: &mut Dice, faults: Faults, now: u64) -> Result<TestBroker, String> {
    // Sometimes little memory, so that messages have to leave it; enough to declare everything again after a crash.
    let memory_bytes_max = if dice.once_in(2) { 120_000 } else { 1 << 30 };
    let output_bytes_max = 2_000 + dice.below(20_000) as usize;
    // Sometimes most of what is read is not in memory.
    disk.slow_down_reads(1 + dice.below(4));
    // Short turns, so that what a client sends is done in several.
    let turn_budget = 20 + dice.below(200) as u32;
    let options = BrokerOptions { memory_bytes_max, output_bytes_max, turn_budget, ..BrokerOptions::default() };
    let storage = Storage {
        disk: Arc::new(disk.clone()),
        dir: "/data".into(),
        committer: Committer::manual(|| ()),
        journal: DurableOptions { segment_bytes: 1 << 20, ..DurableOptions::default() },
    };
    let (broker, found) = Broker::open(options, Box::new(Easy::default()), storage, now, EPOCH_US + now as i64)
        .map_err(|error| error.to_string())?;
    let mut world = TestBroker { broker, now };
    world.broker.faults = faults;
    if found.damage.is_empty() && found.skipped.is_empty() { Ok(world) } else { Err(format!("damage: {found:?}")) }
}

/// Every client may read the mailbox.
fn ann() -> Login {
    Login { identity: "ann".to_owned(), ..Login::default() }
}

impl Simulation {
    fn declare(&mut self) -> Result<(), String> {
        let id = self.world.connect();
        let methods = declarations();
        let count = methods.len();
        for method in methods {
            self.world.send(id, 1, method);
        }
        let declared = self.all_seen(id)?;
        self.world.broker.disconnect(id, self.world.now);
        match closed(&declared) {
            None if declared.len() == count => Ok(()),
            refusal => Err(format!("{} of {count} were declared: {refusal:?}", declared.len())),
        }
    }

    /// Everything that the broker writes for a connection until it has nothing more to do.
    fn all_seen(&mut self, id: ConnectionId) -> Result<Vec<ReceivedMethod>, String> {
        let (mut seen, mut quiet) = (Vec::new(), 0);
        // A stream is declared when its files are there, which takes a commit of its own.
        while quiet < 2 {
            while self.world.broker.has_work() {
                self.world.broker.work(self.world.now);
            }
            self.world.commit();
            let more = self.world.try_seen(id)?;
            quiet = if more.is_empty() && !self.world.broker.has_work() { quiet + 1 } else { 0 };
            seen.extend(more);
        }
        Ok(seen)
    }

    /// Make the queues with an address: later they are recovered, however little memory there is.
    fn make_addresses(&mut self) -> Result<(), String> {
        let id = self.connect_as_ann()?;
        for plan in QUEUES.iter().filter(|plan| is_addressed(plan.group)) {
            self.world.send(id, 1, BasicGet { queue: plan.name, ..Default::default() });
        }
        let seen = self.all_seen(id)?;
        if seen.iter().filter(|seen| matches!(seen.method(), Method::BasicGetEmpty(_))).count() != 2 {
            return Err(format!("not all were made: {seen:?}"));
        }
        self.world.broker.disconnect(id, self.world.now);
        Ok(())
    }

    /// A client that may read the mailbox, with channel 1 open.
    pub(super) fn connect_as_ann(&mut self) -> Result<ConnectionId, String> {
        let id = self.world.connect_as(ann());
        self.world.send(id, 1, ChannelOpen::default());
        self.world.try_seen(id)?;
        Ok(id)
    }

    fn step(&mut self) -> Result<(), String> {
        self.world.now += self.dice.below(50_000);
        match self.dice.below(1000) {
            0..20 => self.connect(),
            20..260 => self.with_actor(|actor, dice, ledger| actor.publish(dice, ledger)),
            260..310 => self.with_actor(|actor, dice, _| actor.transact(dice)),
            310..325 => self.with_actor(|actor, dice, _| actor.get(dice)),
            325..340 => self.with_actor(|actor, dice, _| actor.consume(dice)),
            340..350 => self.with_actor(|actor, _, _| actor.cancel()),
            350..500 => self.with_actor(|actor, dice, _| actor.settle(dice)),
            500..720 => self.arrive(),
            720..840 => return self.read(),
            840..850 => self.world.broker.work(self.world.now),
            850..930 => self.world.commit(),
            930..950 => self.tick(),
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
            let id = self.world.connect_as(ann());
            self.publishers += 1;
            let is_transactional = self.dice.once_in(3);
            let mut actor = Actor::new(id, self.publishers, is_transactional);
            if self.dice.once_in(2) {
                actor.consume(&mut self.dice);
            }
            self.actors.push(actor);
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
            actor.looked_at(&mut self.ledger);
        }
    }

    fn tick(&mut self) {
        self.world.broker.tick(self.world.now, EPOCH_US + self.world.now as i64);
    }

    /// A client reads some of what the broker has for it.
    fn read(&mut self) -> Result<(), String> {
        let Some(index) = self.pick() else { return Ok(()) };
        self.read_of(index)?;
        if self.actors[index].is_over {
            self.disconnect_one(index);
        }
        Ok(())
    }

    pub(super) fn read_of(&mut self, index: usize) -> Result<(), String> {
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
            self.disconnect_one(index);
        }
    }

    pub(super) fn disconnect_one(&mut self, index: usize) {
        let actor = self.actors.swap_remove(index);
        self.world.broker.disconnect(actor.id, self.world.now);
        actor.lost(&mut self.ledger);
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
        // Sometimes right after everybody has read all answers.
        if self.dice.once_in(2) {
            for index in 0..self.actors.len() {
                self.read_of(index)?;
            }
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
        // The old broker writes nothing on its way out: its committer has no thread.
        self.world = open(&self.disk, &mut self.dice, self.faults, now)?;
        self.declare()
    }
}
