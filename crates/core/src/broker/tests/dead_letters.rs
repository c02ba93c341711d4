//! Dead letters: nothing is lost on the way, however many there are, and no call takes long for them.

use super::client::{EPOCH_US, Easy, PERSISTENT, TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{BasicGet, BasicNack, ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete};
use crate::amqp::{FieldValue, Method, PropertyFields};
use crate::broker::durable::DurableOptions;
use crate::broker::queues::held_letters::HELD_MAX;
use crate::broker::simulation::Faults;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::or_few;

const MESSAGES: usize = or_few(300, 60);
const BODY_BYTES: usize = 10_000;

/// Why messages are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nack,
    Expiry,
    Length,
}

const WAYS: [Way; 3] = [Way::Nack, Way::Expiry, Way::Length];

struct World {
    disk: SimulatedDisk,
    world: TestBroker,
    id: ConnectionId,
}

/// A broker whose journal takes a quarter of a megabyte before publishers wait.
fn opened(disk: &SimulatedDisk, memory_bytes_max: u64, faults: Faults) -> TestBroker {
    let journal = DurableOptions { segment_bytes: 1 << 20, pending_bytes_max: 1 << 20 };
    let options = BrokerOptions { memory_bytes_max, ..BrokerOptions::default() };
    let mut world = TestBroker::open_journal(disk, options, Easy::default(), journal).expect("opened").0;
    world.broker.faults = faults;
    world
}

impl World {
    /// `work` has many persistent messages that are on disk, and `dead` takes its dead letters.
    fn full(way: Way, memory_bytes_max: u64, faults: Faults) -> Self {
        Self::full_with(way, memory_bytes_max, faults, |world, id| {
            world.send(id, 1, QueueDeclare { queue: "dead", durable: true, ..Default::default() });
        })
    }

    /// The same, where `declare` makes `dead`.
    fn full_with(
        way: Way,
        memory_bytes_max: u64,
        faults: Faults,
        declare: impl Fn(&mut TestBroker, ConnectionId),
    ) -> Self {
        let disk = SimulatedDisk::new();
        let mut world = opened(&disk, memory_bytes_max, faults);
        let id = world.connect();
        let mut arguments = vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
        match way {
            Way::Nack => {}
            Way::Expiry => arguments.push(("x-message-ttl", FieldValue::I32(1000))),
            Way::Length => arguments.push(("x-max-length-bytes", FieldValue::I32((MESSAGES * BODY_BYTES * 2) as i32))),
        }
        world.send(
            id,
            1,
            QueueDeclare { queue: "work", durable: true, arguments: table(&arguments), ..Default::default() },
        );
        declare(&mut world, id);
        world.commit();
        let mut full = Self { disk, world, id };
        (0..MESSAGES).for_each(|number| full.publish(number, BODY_BYTES));
        full.world.seen(id);
        // Nobody waits for an answer any more, so that rounds are whole: as much as may be is dropped at once.
        (0..300).for_each(|_| full.go_on());
        full
    }

    fn publish(&mut self, number: usize, size: usize) {
        let mut body = format!("{number} ").into_bytes();
        body.resize(size, b'.');
        let bytes = published("", "work", &PERSISTENT, &body);
        self.world.broker.receive(self.id, &bytes, self.world.now);
        self.go_on();
    }

    /// Let the disk have what was written, and the broker begin its next round.
    fn go_on(&mut self) {
        self.world.commit();
        self.world.broker.work(self.world.now);
    }

    /// Let all of `work` be dropped, in one call.
    fn drop_all(&mut self, way: Way) {
        match way {
            Way::Nack => {
                for _ in 0..MESSAGES {
                    self.world.ask(self.id, 1, BasicGet { queue: "work", ..Default::default() });
                }
                let all = BasicNack { delivery_tag: 0, multiple: true, requeue: false };
                self.world.send(self.id, 1, all);
            }
            Way::Expiry => {
                self.world.now += 1_100_000;
                self.world.broker.tick(self.world.now, EPOCH_US + self.world.now as i64);
            }
            // As large as the queue may be, so that it has no room for anything else.
            Way::Length => {
                let bytes = published("", "work", &PERSISTENT, &vec![b'!'; MESSAGES * BODY_BYTES * 2 - 1000]);
                self.world.broker.receive(self.id, &bytes, self.world.now);
            }
        }
    }

    fn crash(self) -> Self {
        let Self { disk, world, .. } = self;
        drop(world);
        disk.power_cut(&mut Dice::new(7));
        let mut world = opened(&disk, 1 << 30, Faults::default());
        let id = world.connect();
        Self { disk, world, id }
    }

    /// The numbers of the messages in a queue, ascending.
    fn numbers(&mut self, queue: &'static str) -> Vec<usize> {
        let mut numbers = Vec::new();
        loop {
            let seen = self.world.ask(self.id, 1, BasicGet { queue, no_ack: true, ..Default::default() });
            let Some(body) = bodies(&seen).pop() else { break };
            numbers.extend(body.split(' ').next().and_then(|number| number.parse::<usize>().ok()));
        }
        numbers.sort_unstable();
        numbers
    }

    /// Whether each message is somewhere after a crash that comes after `commits` commits.
    fn keeps_all(way: Way, commits: usize, faults: Faults) -> bool {
        let mut full = Self::full(way, 1 << 30, faults);
        full.drop_all(way);
        (0..commits).for_each(|_| full.go_on());
        let mut full = full.crash();
        let mut found = full.numbers("work");
        found.extend(full.numbers("dead"));
        // What was dropped again after the restart is on its way.
        while full.world.broker.metrics().letters_waiting > 0 {
            full.go_on();
            found.extend(full.numbers("dead"));
        }
        found.sort_unstable();
        found.dedup();
        found.len() == MESSAGES
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn a_crash_at_any_time_leaves_each_message_or_its_letter() {
    for way in [Way::Nack, Way::Expiry] {
        for commits in [0, 1, 2, 5, 20] {
            assert!(World::keeps_all(way, commits, Faults::default()), "{way:?} after {commits} commits");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn letters_that_wait_when_the_broker_stops_make_no_crash_of_the_stop() {
    let mut full = World::full(Way::Nack, 1 << 30, Faults::default());
    full.drop_all(Way::Nack);
    full.world.broker.stop("over", full.world.now);
    assert!(full.world.broker.metrics().letters_waiting > 0, "they come back");
    let mut rounds = 0;
    while full.world.broker.has_work() {
        full.go_on();
        rounds += 1;
        assert!(rounds < 100, "it comes to rest");
    }
    full.world.commit();
    let World { disk, world, .. } = full;
    drop(world);
    let (_, report) = TestBroker::on_disk(&disk, BrokerOptions::default());
    assert!(report.is_clean);
    assert_eq!(report.messages, MESSAGES, "in one queue or the other");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_settles_before_the_letter_is_on_disk_is_caught() {
    let faults = Faults { letters_unsaved: true, ..Faults::default() };
    for way in [Way::Nack, Way::Expiry] {
        assert!((1..5).any(|commits| !World::keeps_all(way, commits, faults)), "{way:?}");
    }
}

/// Make `dead` and `next`, which refuse all letters and make further ones of them, and `last`, which takes them.
fn declare_chain(world: &mut TestBroker, id: ConnectionId) {
    for (queue, to) in [("dead", "next"), ("next", "last")] {
        let arguments = table(&[
            ("x-max-length", FieldValue::I32(0)),
            ("x-overflow", text("reject-publish-dlx")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(to)),
        ]);
        world.send(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
    }
    world.send(id, 1, QueueDeclare { queue: "last", durable: true, ..Default::default() });
}

/// Whether a crash after some commits leaves each message, or the letter at the end of the chain.
fn a_chain_keeps_all(way: Way, commits: usize, faults: Faults) -> bool {
    let mut full = World::full_with(way, 1 << 30, faults, declare_chain);
    full.drop_all(way);
    (0..commits).for_each(|_| full.go_on());
    let mut full = full.crash();
    let mut found = full.numbers("work");
    while full.world.broker.metrics().letters_waiting > 0 {
        full.go_on();
    }
    found.extend(full.numbers("last"));
    found.sort_unstable();
    found.dedup();
    found.len() == MESSAGES
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn a_crash_at_any_time_leaves_each_message_whose_letter_is_refused_or_the_last_of_its_letters() {
    for way in [Way::Nack, Way::Expiry] {
        for commits in [0, 1, 2, 3, 5, 20] {
            assert!(a_chain_keeps_all(way, commits, Faults::default()), "{way:?} after {commits} commits");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_settles_before_the_last_letter_is_on_disk_is_caught() {
    let faults = Faults { further_unawaited: true, ..Faults::default() };
    assert!((1..5).any(|commits| !a_chain_keeps_all(Way::Nack, commits, faults)));
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn letters_that_are_refused_arrive_once_at_the_end_of_the_chain_and_nothing_is_left() {
    let mut full = World::full_with(Way::Nack, 1 << 30, Faults::default(), declare_chain);
    full.drop_all(Way::Nack);
    for _ in 0..MESSAGES {
        full.go_on();
    }
    assert_eq!(full.world.broker.metrics().letters_waiting, 0);
    assert_eq!(full.numbers("last"), (0..MESSAGES).collect::<Vec<_>>());
    assert_eq!(full.world.broker.metrics().messages, 0);
    let mut full = full.crash();
    assert_eq!((full.numbers("work"), full.numbers("dead"), full.numbers("next")), (vec![], vec![], vec![]));
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn letters_wait_until_the_journal_has_room_and_all_arrive_once() {
    for way in WAYS {
        // The largest message of a journal with such small segments.
        if way == Way::Length {
            continue;
        }
        let mut full = World::full(way, 1 << 30, Faults::default());
        full.drop_all(way);
        let metrics = full.world.broker.metrics();
        assert!(metrics.letters_waiting > 0 && metrics.letters < MESSAGES as u64 / 2, "{way:?} {metrics:?}");
        for _ in 0..MESSAGES {
            full.go_on();
        }
        assert_eq!(full.world.broker.metrics().letters_waiting, 0);
        assert_eq!(full.numbers("dead"), (0..MESSAGES).collect::<Vec<_>>(), "{way:?}");
        assert_eq!(full.world.broker.metrics().messages, 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn bodies_that_left_memory_stay_away_while_their_letters_wait() {
    let memory_bytes_max = (MESSAGES * BODY_BYTES / 10) as u64;
    for way in [Way::Nack, Way::Expiry] {
        let mut full = World::full(way, memory_bytes_max, Faults::default());
        let before = full.world.broker.metrics().message_bytes;
        full.drop_all(way);
        let mut most = 0;
        for _ in 0..MESSAGES {
            most = most.max(full.world.broker.metrics().message_bytes);
            full.go_on();
        }
        assert!(most < before + memory_bytes_max, "{way:?}: {before} bytes before, {most} while letters waited");
        assert_eq!(full.numbers("dead").len(), MESSAGES, "{way:?}");
    }
}

#[test]
fn one_call_publishes_some_letters_and_the_others_have_their_turn() {
    const COUNT: usize = or_few(5_000, 1_000);
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "dead");
    let arguments = table(&[("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))]);
    world.ask(id, 1, QueueDeclare { queue: "work", arguments, ..Default::default() });
    for _ in 0..COUNT {
        world.publish(id, "", "work", b"x");
    }
    for _ in 0..COUNT {
        world.send(id, 1, BasicGet { queue: "work", ..Default::default() });
    }
    world.seen(id);
    world.send(id, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    let mut calls = 0;
    while world.broker.metrics().letters < COUNT as u64 {
        let before = world.broker.metrics().letters;
        assert!(world.broker.has_work());
        world.broker.work(0);
        assert!(world.broker.metrics().letters - before <= 512);
        calls += 1;
    }
    assert!(calls > COUNT / 512 - 2 && !world.broker.has_work(), "{calls} calls");
    assert_eq!(world.broker.metrics().messages_ready, COUNT as u64);
}

#[test]
#[cfg_attr(miri, ignore = "too many messages for miri")]
fn publishers_wait_for_letters_that_are_too_many() {
    const COUNT: usize = 80_000;
    let mut world = TestBroker::new(BrokerOptions { turn_budget: u32::MAX, ..BrokerOptions::default() });
    let id = world.connect();
    world.declare(id, "dead");
    let arguments = table(&[
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
        ("x-message-ttl", FieldValue::I32(1)),
    ]);
    world.ask(id, 1, QueueDeclare { queue: "work", arguments, ..Default::default() });
    let message = published("", "work", &PropertyFields::default(), b"x");
    let all = message.repeat(COUNT);
    world.broker.receive(id, &all, 0);
    for tick in 0..COUNT as u64 / 10_000 {
        world.now = 2_000 + tick;
        world.broker.tick(world.now, EPOCH_US);
    }
    let metrics = world.broker.metrics();
    assert!(metrics.blocked == 1 && metrics.letters_waiting > 32_768, "{metrics:?}");
    world.broker.receive(id, &message, world.now);
    assert!(!world.broker.wants_input(id));
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
    assert!(world.broker.metrics().blocked == 0 && world.broker.wants_input(id));
    assert_eq!(names(&world.seen(id)), [""; 0], "it passes by itself");
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn a_queue_is_deleted_when_its_letters_are_on_disk() {
    let mut full = World::full(Way::Nack, 1 << 30, Faults::default());
    full.drop_all(Way::Nack);
    full.world.send(full.id, 1, QueueDelete { queue: "work", ..Default::default() });
    assert_eq!(names(&full.world.seen(full.id)), [""; 0], "the answer waits for the letters");
    let other = full.world.connect();
    let again = QueueDeclare { queue: "work", durable: true, ..Default::default() };
    let (_, code, text) = closed(&full.world.ask(other, 1, again)).expect("refused");
    assert_eq!((code, text.contains("its dead letters are not on disk yet")), (405, true), "{text}");
    let mut seen = Vec::new();
    for _ in 0..MESSAGES {
        full.world.commit();
        seen.extend(full.world.seen(full.id));
    }
    assert_eq!(names(&seen), ["queue.delete-ok"]);
    full.world.send(full.id, 1, again);
    full.publish(7777, 10);
    let mut full = full.crash();
    assert_eq!((full.numbers("work"), full.numbers("dead").len()), (vec![7777], MESSAGES));
}

#[test]
#[cfg_attr(miri, ignore = "too much data for miri")]
fn a_crash_while_a_deleted_queue_has_letters_loses_none() {
    for commits in [0, 1, 3, 10] {
        let mut full = World::full(Way::Nack, 1 << 30, Faults::default());
        full.drop_all(Way::Nack);
        full.world.send(full.id, 1, QueueDelete { queue: "work", ..Default::default() });
        (0..commits).for_each(|_| full.world.commit());
        let mut full = full.crash();
        let declare = QueueDeclare { queue: "work", passive: true, ..Default::default() };
        let is_back = matches!(full.world.ask(full.id, 1, declare)[0].method(), Method::QueueDeclareOk(_));
        assert!(is_back, "it was not answered");
        let mut found = full.numbers("work");
        found.extend(full.numbers("dead"));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), MESSAGES, "after {commits} commits");
    }
}

#[test]
fn a_letter_in_a_stream_is_on_disk_before_its_original_is_settled() {
    let disk = SimulatedDisk::new();
    let mut world = opened(&disk, 1 << 30, Faults::default());
    let id = world.connect();
    let arguments = table(&[("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("log"))]);
    world.send(id, 1, QueueDeclare { queue: "work", durable: true, arguments, ..Default::default() });
    let arguments = table(&[("x-queue-type", text("stream"))]);
    world.send(id, 1, QueueDeclare { queue: "log", durable: true, arguments, ..Default::default() });
    world.commit_streams();
    world.broker.receive(id, &published("", "work", &PERSISTENT, b"x"), 0);
    world.commit();
    world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    world.ask(id, 1, BasicNack { delivery_tag: 1, multiple: false, requeue: false });
    assert_eq!((world.broker.metrics().letters, world.broker.metrics().letters_waiting), (1, 1));
    world.commit();
    assert_eq!((world.broker.metrics().letters_waiting, world.broker.metrics().messages), (0, 0));
}

/// Reject a message of `work` in a world that `declare` has made. Returns the queues that have it then.
fn rejected(queues: &[&'static str], declare: impl Fn(&mut TestBroker, ConnectionId)) -> Vec<&'static str> {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare(&mut world, id);
    world.publish(id, "", "work", b"x");
    world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    world.ask(id, 1, BasicNack { delivery_tag: 1, multiple: false, requeue: false });
    let mut has = |queue: &&'static str| {
        let seen = world.ask(id, 1, BasicGet { queue, no_ack: true, ..Default::default() });
        !bodies(&seen).is_empty()
    };
    queues.iter().copied().filter(|queue| has(queue)).collect()
}

fn declare_with(world: &mut TestBroker, id: ConnectionId, queue: &'static str, arguments: &[(&str, FieldValue)]) {
    world.ask(id, 1, QueueDeclare { queue, arguments: table(arguments), ..Default::default() });
}

#[test]
fn letters_reach_internal_exchanges_and_alternates_and_cycles_of_exchanges_end() {
    let exchange = |exchange, arguments| ExchangeDeclare {
        exchange,
        exchange_type: "fanout",
        internal: true,
        arguments,
        ..Default::default()
    };
    let found = rejected(&["dead"], |world, id| {
        world.ask(id, 1, exchange("inner", table(&[])));
        world.declare(id, "dead");
        world.ask(id, 1, QueueBind { queue: "dead", exchange: "inner", ..Default::default() });
        declare_with(world, id, "work", &[("x-dead-letter-exchange", text("inner"))]);
    });
    assert_eq!(found, ["dead"]);
    // Two internal exchanges, each the other's alternate and bound to it, and a queue behind the second one.
    let found = rejected(&["dead"], |world, id| {
        world.ask(id, 1, exchange("one", table(&[("alternate-exchange", text("two"))])));
        world.ask(id, 1, exchange("two", table(&[("alternate-exchange", text("one"))])));
        world.declare(id, "dead");
        world.ask(id, 1, QueueBind { queue: "dead", exchange: "two", ..Default::default() });
        world.ask(id, 1, ExchangeBind { source: "two", destination: "one", ..Default::default() });
        declare_with(world, id, "work", &[("x-dead-letter-exchange", text("one"))]);
    });
    assert_eq!(found, ["dead"]);
}

#[test]
fn what_a_full_queue_refuses_becomes_a_letter_where_that_is_declared() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "dead");
    world.confirm_select(id);
    let arguments = [
        ("x-max-length", FieldValue::I32(1)),
        ("x-overflow", text("reject-publish-dlx")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    declare_with(&mut world, id, "work", &arguments);
    world.publish(id, "", "work", b"kept");
    world.publish(id, "", "work", b"refused");
    assert_eq!(names(&world.seen(id)), ["basic.ack", "basic.nack"]);
    for (queue, body) in [("work", "kept"), ("dead", "refused")] {
        assert_eq!(bodies(&world.ask(id, 1, BasicGet { queue, no_ack: true, ..Default::default() })), [body]);
    }
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().refused), (0, 1));
}

#[test]
fn a_cycle_without_a_rejection_in_it_ends_also_behind_one() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let round = |to: &'static str| {
        [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(to)),
            ("x-message-ttl", FieldValue::I32(10)),
        ]
    };
    declare_with(&mut world, id, "work", &round("b")[..2]);
    declare_with(&mut world, id, "b", &round("c"));
    declare_with(&mut world, id, "c", &round("b"));
    world.publish(id, "", "work", b"x");
    world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    world.ask(id, 1, BasicNack { delivery_tag: 1, multiple: false, requeue: false });
    for _ in 0..20 {
        world.now += 20_000;
        world.broker.tick(world.now, EPOCH_US + world.now as i64);
    }
    let metrics = world.broker.metrics();
    assert_eq!(
        (metrics.messages, metrics.letters, metrics.letters_unroutable),
        (0, 2, 1),
        "into b, into c, and no further"
    );
}

#[test]
fn letters_to_many_queues_are_divided_over_many_calls() {
    const QUEUES: u64 = 200;
    const LETTERS: u64 = 100;
    let mut world = TestBroker::default();
    let id = world.connect();
    for number in 0..QUEUES {
        let queue: &'static str = format!("dead.{number}").leak();
        world.send(id, 1, QueueDeclare { queue, no_wait: true, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
    }
    let arguments = table(&[("x-dead-letter-exchange", text("amq.fanout"))]);
    world.send(id, 1, QueueDeclare { queue: "work", arguments, ..Default::default() });
    for _ in 0..LETTERS {
        world.publish(id, "", "work", b"x");
        world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    }
    let (mut before, mut most) = (0, 0);
    world.send(id, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    loop {
        let letters = world.broker.metrics().letters;
        most = most.max(letters - before);
        before = letters;
        if !world.broker.has_work() {
            break;
        }
        world.broker.work(world.now);
    }
    assert_eq!(before, LETTERS, "all of them arrive");
    assert!(most * QUEUES <= 10_000, "{most} letters to {QUEUES} queues in one call");
}

/// A queue `work` with further arguments whose dead letters go to the queue `dead`, and may not be dropped.
fn declare_certain(world: &mut TestBroker, id: ConnectionId, further: &[(&str, FieldValue)]) {
    let mut arguments = vec![
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
        ("x-dead-letter-strategy", text("at-least-once")),
    ];
    arguments.extend_from_slice(further);
    let arguments = table(&arguments);
    world.send(id, 1, QueueDeclare { queue: "work", durable: true, arguments, ..Default::default() });
}

/// A queue `dead` that refuses all but one message.
fn declare_small(world: &mut TestBroker, id: ConnectionId) {
    let arguments = table(&[("x-max-length", FieldValue::I32(1)), ("x-overflow", text("reject-publish"))]);
    world.send(id, 1, QueueDeclare { queue: "dead", durable: true, arguments, ..Default::default() });
}

/// Publish messages with these bodies to `work`, and reject them.
fn reject(world: &mut TestBroker, id: ConnectionId, bodies: &[&str]) {
    for body in bodies {
        world.broker.receive(id, &published("", "work", &PERSISTENT, body.as_bytes()), world.now);
        world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    }
    world.send(id, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    if !world.broker.durability.is_on() {
        return;
    }
    (0..3).for_each(|_| world.commit());
}

/// Of three letters of `work` the first is in `dead`, and the others wait for room there.
fn with_two_held(disk: &SimulatedDisk) -> (TestBroker, ConnectionId) {
    let mut world = opened(disk, 1 << 30, Faults::default());
    let id = world.connect();
    declare_certain(&mut world, id, &[]);
    declare_small(&mut world, id);
    world.commit();
    reject(&mut world, id, &["1", "2", "3"]);
    (world, id)
}

fn tick(world: &mut TestBroker) {
    world.now += 100_000;
    world.broker.tick(world.now, EPOCH_US + world.now as i64);
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
}

fn take(world: &mut TestBroker, id: ConnectionId, queue: &'static str) -> Option<String> {
    bodies(&world.ask(id, 1, BasicGet { queue, no_ack: true, ..Default::default() })).pop()
}

#[test]
fn letters_that_may_not_be_dropped_wait_until_their_queue_has_room() {
    let disk = SimulatedDisk::new();
    let (mut world, id) = with_two_held(&disk);
    tick(&mut world);
    assert_eq!((world.broker.metrics().letters, world.broker.metrics().letters_waiting), (1, 2));
    let mut found = Vec::new();
    for _ in 0..3 {
        found.extend(take(&mut world, id, "dead"));
        tick(&mut world);
    }
    assert_eq!(found, ["1", "2", "3"]);
    assert_eq!((world.broker.metrics().letters_waiting, world.broker.metrics().messages), (0, 0));
}

#[test]
fn a_crash_leaves_letters_that_wait_for_room_at_their_source() {
    let disk = SimulatedDisk::new();
    drop(with_two_held(&disk));
    disk.power_cut(&mut Dice::new(7));
    let mut world = opened(&disk, 1 << 30, Faults::default());
    let id = world.connect();
    assert_eq!(take(&mut world, id, "dead").as_deref(), Some("1"));
    let left = [take(&mut world, id, "work"), take(&mut world, id, "work"), take(&mut world, id, "work")];
    assert_eq!(left, [Some("2".to_owned()), Some("3".to_owned()), None]);
}

#[test]
fn letters_that_may_not_be_dropped_wait_until_they_are_routed_to_a_queue() {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_certain(&mut world, id, &[]);
    reject(&mut world, id, &["1", "2"]);
    tick(&mut world);
    assert_eq!((world.broker.metrics().letters_unroutable, world.broker.metrics().letters_waiting), (0, 2));
    world.declare(id, "dead");
    tick(&mut world);
    let found = [take(&mut world, id, "dead"), take(&mut world, id, "dead")];
    assert_eq!(found, [Some("1".to_owned()), Some("2".to_owned())]);
}

#[test]
fn letters_that_wait_take_room_at_their_source() {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_certain(&mut world, id, &[("x-max-length", FieldValue::I32(2)), ("x-overflow", text("reject-publish"))]);
    reject(&mut world, id, &["1", "2"]);
    world.seen(id);
    world.confirm_select(id);
    world.publish(id, "", "work", b"3");
    assert_eq!(names(&world.seen(id)), ["basic.nack"]);
    world.declare(id, "dead");
    tick(&mut world);
    world.publish(id, "", "work", b"4");
    assert_eq!(names(&world.seen(id)), ["basic.ack"]);
}

#[test]
fn letters_that_wait_go_with_their_source() {
    let disk = SimulatedDisk::new();
    let mut world = opened(&disk, 1 << 30, Faults::default());
    let id = world.connect();
    declare_certain(&mut world, id, &[]);
    world.commit();
    reject(&mut world, id, &["1", "2"]);
    world.send(id, 1, QueueDelete { queue: "work", ..Default::default() });
    (0..3).for_each(|_| world.commit());
    assert_eq!(names(&world.seen(id)).last(), Some(&"queue.delete-ok"));
    let metrics = world.broker.metrics();
    assert_eq!((metrics.letters_waiting, metrics.messages, metrics.letters_unroutable), (0, 0, 2));
}

#[test]
#[cfg_attr(miri, ignore = "too many messages for miri")]
fn a_queue_whose_letters_wait_makes_no_further_ones_beyond_a_maximum() {
    const FURTHER: usize = 2 * HELD_MAX;
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_certain(&mut world, id, &[("x-message-ttl", FieldValue::I32(10_000))]);
    (0..HELD_MAX + FURTHER).for_each(|_| world.publish(id, "", "work", b"x"));
    world.now = 10_000_000;
    (0..5).for_each(|_| tick(&mut world));
    let waiting = world.broker.metrics().letters_waiting as usize;
    assert!((HELD_MAX..2 * HELD_MAX).contains(&waiting), "{waiting} letters wait");
    assert_eq!(world.broker.metrics().messages_ready as usize, HELD_MAX + FURTHER - waiting);
    assert_eq!(take(&mut world, id, "work"), None, "its time is up");
    world.declare(id, "dead");
    (0..60).for_each(|_| tick(&mut world));
    let metrics = world.broker.metrics();
    assert_eq!((metrics.letters_waiting, metrics.letters as usize), (0, HELD_MAX + FURTHER));
}

#[test]
fn a_strategy_for_letters_needs_an_exchange_that_they_go_to() {
    for strategy in ["at-least-once", "at-most-once"] {
        let mut world = TestBroker::default();
        let id = world.connect();
        let arguments = table(&[("x-dead-letter-strategy", text(strategy))]);
        let seen = world.ask(id, 1, QueueDeclare { queue: "work", arguments, ..Default::default() });
        let (_, code, reason) = closed(&seen).expect("a refusal");
        assert_eq!(code, 406);
        assert!(
            reason.contains("'x-dead-letter-strategy'") && reason.contains("needs x-dead-letter-exchange"),
            "{reason}"
        );
    }
}

#[test]
fn letters_may_not_be_dropped_only_where_the_maximum_drops_nothing() {
    let maximum = || ("x-max-length", FieldValue::I32(2));
    for (further, expected) in [
        (vec![maximum()], Some(406)),
        (vec![maximum(), ("x-overflow", text("drop-head"))], Some(406)),
        (vec![maximum(), ("x-overflow", text("reject-publish"))], None),
        (vec![maximum(), ("x-overflow", text("block"))], None),
        (vec![], None),
    ] {
        let mut world = TestBroker::default();
        let id = world.connect();
        declare_certain(&mut world, id, &further);
        let refused = closed(&world.seen(id));
        assert_eq!(refused.as_ref().map(|(_, code, _)| *code), expected, "{further:?}");
        assert!(refused.is_none_or(|(_, _, text)| text.contains("at-least-once needs an x-overflow")));
    }
}
