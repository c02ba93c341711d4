//! What expires, when, and what nobody gets after its time.

use super::client::{EPOCH_US, PERSISTENT, TestBroker, bodies, closed, names, published, table, text};
use super::keeping::{crash, declare, drain, publish};
use crate::amqp::method::{BasicCancel, BasicGet, BasicNack, QueueDeclare};
use crate::amqp::{FieldValue, Method, PropertyFields};
use crate::broker::durable::{Content, Durable, DurableOptions, RecoveredDefinition};
use crate::broker::topology::Definition;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::{Committer, SimulatedDisk};
use crate::testing::or_few;
use std::path::Path;
use std::sync::Arc;

/// The longest time to live: ten years, in milliseconds.
const TEN_YEARS_MS: i64 = 315_360_000_000;

/// Declare a queue with arguments.
fn declare_with(world: &mut TestBroker, id: ConnectionId, queue: &'static str, fields: &[(&str, FieldValue)]) {
    let arguments = table(fields);
    world.send(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
    if world.broker.journal_metrics().is_some() {
        world.commit();
    }
    assert_eq!(names(&world.seen(id)), ["queue.declare-ok"]);
}

/// Publish a persistent message with an expiration.
fn publish_for(world: &mut TestBroker, id: ConnectionId, queue: &str, milliseconds: &str, body: &str) {
    let properties = PropertyFields { expiration: Some(milliseconds), ..PERSISTENT };
    world.broker.receive(id, &published("", queue, &properties, body.as_bytes()), world.now);
}

fn dead_letters_to(queue: &str) -> [(&'static str, FieldValue); 2] {
    [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(queue))]
}

/// The number of messages that are ready in a queue, as clients are told.
fn count(world: &mut TestBroker, id: ConnectionId, queue: &'static str) -> u32 {
    let seen = world.ask(id, 1, QueueDeclare { queue, passive: true, ..Default::default() });
    match seen[0].method() {
        Method::QueueDeclareOk(ok) => ok.message_count,
        other => panic!("{other:?}"),
    }
}

fn tick(world: &mut TestBroker, now: u64) {
    world.now = now;
    world.broker.tick(now, EPOCH_US + now as i64);
    finish_work(world);
}

fn finish_work(world: &mut TestBroker) {
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
}

/// Stop a broker in good order, and open it again: time begins at 0 anew, at the same wall clock time.
fn stop(disk: &SimulatedDisk, mut world: TestBroker) -> TestBroker {
    world.broker.stop("over", world.now);
    world.commit();
    drop(world);
    TestBroker::on_disk(disk, BrokerOptions::default()).0
}

#[test]
fn time_to_live_goes_on_while_the_broker_is_away() {
    for restart in [crash, stop] {
        let disk = SimulatedDisk::new();
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let id = world.connect();
        declare(&mut world, id, "dead");
        declare_with(&mut world, id, "work", &dead_letters_to("dead"));
        publish_for(&mut world, id, "work", "1000", "short");
        publish_for(&mut world, id, "work", "3000", "longer");
        publish(&mut world, id, "work", "for ever");
        world.commit();
        let mut world = restart(&disk, world);
        let id = world.connect();
        tick(&mut world, 999_000);
        assert_eq!((count(&mut world, id, "work"), count(&mut world, id, "dead")), (3, 0));
        tick(&mut world, 1_000_000);
        assert_eq!((count(&mut world, id, "work"), count(&mut world, id, "dead")), (2, 1));
        tick(&mut world, 3_000_000);
        let left: Vec<String> = drain(&mut world, "work").into_iter().map(|(body, _)| body).collect();
        assert_eq!(left, ["for ever"]);
        let dead: Vec<String> = drain(&mut world, "dead").into_iter().map(|(body, _)| body).collect();
        assert_eq!((dead, world.broker.metrics().expired), (vec!["short".to_owned(), "longer".to_owned()], 2));
    }
}

#[test]
fn the_time_that_the_broker_was_away_counts() {
    for (away_us, ready, alarm) in [(900_000, 2, 100_000), (3_000_000, 1, 2_000_000)] {
        let disk = SimulatedDisk::new();
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let id = world.connect();
        declare(&mut world, id, "work");
        // So long before the broker is opened again, on the wall clock.
        world.broker.tick(0, EPOCH_US - away_us);
        publish_for(&mut world, id, "work", "1000", "short");
        publish_for(&mut world, id, "work", "5000", "longer");
        world.commit();
        let mut world = crash(&disk, world);
        let id = world.connect();
        finish_work(&mut world);
        assert_eq!((count(&mut world, id, "work"), world.broker.take_alarm()), (ready, Some(alarm)));
    }
}

#[test]
fn control_without_its_time_to_live_on_disk_a_message_stays() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    world.broker.faults.forgets_expiration = true;
    let id = world.connect();
    declare(&mut world, id, "work");
    publish_for(&mut world, id, "work", "1000", "short");
    world.commit();
    let mut world = crash(&disk, world);
    tick(&mut world, 1_000_000);
    assert_eq!(drain(&mut world, "work").len(), 1);
}

#[test]
fn the_shorter_of_two_times_to_live_counts_before_and_after_a_restart() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare_with(&mut world, id, "work", &[("x-message-ttl", FieldValue::I32(2000))]);
    publish_for(&mut world, id, "work", "1000", "own");
    publish_for(&mut world, id, "work", "5000", "of the queue");
    world.commit();
    let expiring = |world: &mut TestBroker, id| {
        tick(world, 1_000_000);
        assert_eq!(count(world, id, "work"), 1);
        tick(world, 2_000_000);
        assert_eq!(count(world, id, "work"), 0);
    };
    let mut again = crash(&disk, world);
    let id = again.connect();
    expiring(&mut again, id);
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_with(&mut world, id, "work", &[("x-message-ttl", FieldValue::I32(2000))]);
    publish_for(&mut world, id, "work", "1000", "own");
    publish_for(&mut world, id, "work", "5000", "of the queue");
    expiring(&mut world, id);
}

#[test]
fn a_recovered_message_that_is_rejected_becomes_a_dead_letter_whatever_its_time() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "dead");
    declare_with(&mut world, id, "work", &dead_letters_to("dead"));
    publish_for(&mut world, id, "work", "1000", "late");
    world.commit();
    let mut world = crash(&disk, world);
    let id = world.connect();
    let got = world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    assert_eq!(bodies(&got), ["late"]);
    // Its time is up while somebody has it.
    tick(&mut world, 2_000_000);
    world.send(id, 1, BasicNack { delivery_tag: 1, multiple: false, requeue: false });
    assert_eq!((count(&mut world, id, "work"), count(&mut world, id, "dead")), (0, 1));
}

#[test]
fn messages_of_an_earlier_version_expire_as_their_properties_say() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    drop(world);
    record_as_version_1(&disk, "work", Some("1000"), b"short");
    record_as_version_1(&disk, "work", None, b"for ever");
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    tick(&mut world, 999_000);
    assert_eq!(count(&mut world, id, "work"), 2);
    tick(&mut world, 1_000_000);
    assert_eq!(count(&mut world, id, "work"), 1);
    assert_eq!(drain(&mut world, "work"), [("for ever".to_owned(), true)]);
}

/// Put a persistent message into a queue in the journal, as an earlier version did.
fn record_as_version_1(disk: &SimulatedDisk, queue: &str, expiration: Option<&str>, body: &[u8]) {
    let committer = Committer::manual(|| ());
    let journal = Path::new("/data/journal");
    let options = DurableOptions { segment_bytes: 1 << 20, ..DurableOptions::default() };
    let (mut durable, recovered) = Durable::open(Arc::new(disk.clone()), journal, options, &committer).expect("opened");
    let is_it = |it: &&RecoveredDefinition| matches!(Definition::decode(&it.value), Ok(Definition::Queue { name, .. }) if name == queue);
    let id = recovered.definitions.iter().find(is_it).expect("the queue").id;
    let mut properties = Vec::new();
    PropertyFields { expiration, ..PERSISTENT }.encode(&mut properties);
    let route = [&[0, queue.len() as u8], queue.as_bytes()].concat();
    durable.message_of_version_1(Content { route: &route, properties: &properties, body, shared: None }, id, EPOCH_US);
    committer.commit_once();
}

/// A queue with many messages whose time is up, and one that lives for ever.
fn late(count: usize) -> (TestBroker, ConnectionId) {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_with(&mut world, id, "work", &[]);
    (0..count).for_each(|_| publish_for(&mut world, id, "work", "10", "late"));
    publish(&mut world, id, "work", "for ever");
    world.now += 1_000_000;
    (world, id)
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_is_past_its_time_is_never_got_however_much_there_is() {
    let (mut world, id) = late(50_000);
    let get = BasicGet { queue: "work", no_ack: true, ..Default::default() };
    world.send(id, 1, get);
    assert_eq!(names(&world.seen(id)), [""; 0], "the call ended with its turn");
    let expired = world.broker.metrics().expired;
    assert!((1..10_000).contains(&expired), "{expired} in one call");
    finish_work(&mut world);
    assert_eq!(bodies(&world.seen(id)), ["for ever"]);
    assert_eq!(names(&world.ask(id, 1, get)), ["basic.get-empty"]);
    assert_eq!((world.broker.metrics().expired, world.broker.metrics().messages), (50_000, 0));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_is_past_its_time_is_never_delivered_however_much_there_is() {
    let (mut world, id) = late(50_000);
    assert_eq!(bodies(&world.consume(id, "work", "c", true)), [""; 0]);
    assert!(world.broker.metrics().expired < 10_000, "the call ended with its turn");
    finish_work(&mut world);
    assert_eq!(bodies(&world.seen(id)), ["for ever"]);
    assert_eq!(world.broker.metrics().expired, 50_000);
}

#[test]
fn the_caller_is_told_when_the_next_message_expires() {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_with(&mut world, id, "work", &[]);
    assert_eq!(world.broker.take_alarm(), None);
    publish_for(&mut world, id, "work", "50", "front");
    publish_for(&mut world, id, "work", "20", "behind it");
    assert_eq!((world.broker.take_alarm(), world.broker.take_alarm()), (Some(50_000), None));
    // What stands behind has its turn when it is at the head.
    let got = world.ask(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
    assert_eq!(bodies(&got), ["front"]);
    assert_eq!(world.broker.take_alarm(), Some(20_000));
    world.now = 19_999;
    world.broker.work(world.now);
    assert_eq!((world.broker.metrics().expired, world.broker.take_alarm()), (0, Some(20_000)));
    world.now = 20_000;
    world.broker.work(world.now);
    assert_eq!((world.broker.metrics().expired, world.broker.take_alarm()), (1, None));
}

#[test]
fn a_ladder_of_dead_letters_takes_as_long_as_its_steps() {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_with(&mut world, id, "end", &[]);
    for (queue, next) in [("first", "second"), ("second", "end")] {
        let [exchange, key] = dead_letters_to(next);
        declare_with(&mut world, id, queue, &[("x-message-ttl", FieldValue::I32(1)), exchange, key]);
    }
    publish(&mut world, id, "first", "x");
    while let Some(alarm) = world.broker.take_alarm() {
        world.now = alarm;
        world.broker.work(world.now);
    }
    assert_eq!((world.now, count(&mut world, id, "end")), (2_000, 1));
}

#[test]
fn an_unused_queue_goes_when_its_time_is_up_and_not_before() {
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_with(&mut world, id, "work", &[("x-expires", FieldValue::I32(200))]);
    assert_eq!(world.broker.take_alarm(), Some(200_000));
    // It is used, and later consumed.
    world.now = 150_000;
    world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    tick(&mut world, 349_999);
    assert_eq!((world.broker.queues().count(), world.broker.take_alarm()), (1, Some(350_000)));
    world.consume(id, "work", "c", true);
    tick(&mut world, 1_000_000);
    assert_eq!((world.broker.queues().count(), world.broker.take_alarm()), (1, None));
    world.ask(id, 1, BasicCancel { consumer_tag: "c", no_wait: true });
    assert_eq!(world.broker.take_alarm(), Some(1_200_000));
    tick(&mut world, 1_200_000);
    assert_eq!(world.broker.queues().count(), 0);
}

#[test]
fn times_to_live_of_ten_years_are_taken_and_longer_ones_refused() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    let [exchange, key] = dead_letters_to("work");
    let ttl = |milliseconds| [("x-message-ttl", FieldValue::I64(milliseconds))];
    declare_with(&mut world, id, "work", &ttl(TEN_YEARS_MS));
    declare_with(
        &mut world,
        id,
        "celery_delayed_27",
        &[
            ("x-message-ttl", FieldValue::I64(134_217_728_000)),
            ("x-queue-type", text("quorum")),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-overflow", text("reject-publish")),
            exchange,
            key,
        ],
    );
    publish_for(&mut world, id, "work", "315360000000", "x");
    world.commit();
    assert_eq!(closed(&world.seen(id)), None);
    let mut world = crash(&disk, world);
    tick(&mut world, TEN_YEARS_MS as u64 * 1000 - 1);
    let id = world.connect();
    assert_eq!(count(&mut world, id, "work"), 1);
    tick(&mut world, TEN_YEARS_MS as u64 * 1000);
    assert_eq!(count(&mut world, id, "work"), 0);
    for argument in ["x-message-ttl", "x-expires"] {
        let id = world.connect();
        let arguments = table(&[(argument, FieldValue::I64(TEN_YEARS_MS + 1))]);
        let (_, code, text) =
            closed(&world.ask(id, 1, QueueDeclare { queue: "too long", arguments, ..Default::default() }))
                .expect("refused");
        assert_eq!(code, 406);
        assert!(
            text.contains("315360000001 is not between") && text.contains("and 315360000000 milliseconds"),
            "{text}"
        );
    }
    for expiration in ["315360000001", "18446744073709551615", "99999999999999999999", "-1", "soon", ""] {
        let id = world.connect();
        publish_for(&mut world, id, "work", expiration, "x");
        let (_, code, text) = closed(&world.seen(id)).expect("refused");
        assert_eq!(code, 406, "{expiration}");
        assert!(text.contains("expected milliseconds between 0 and 315360000000"), "{text}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn many_queues_expire_in_the_order_of_their_times() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let total = or_few(2_000, 20) as u64;
    for number in 0..total {
        let queue: &'static str = Box::leak(format!("q{number}").into_boxed_str());
        world.send(id, 1, QueueDeclare { queue, no_wait: true, ..Default::default() });
        let milliseconds = (number * 7919 % total + 1).to_string();
        publish_for(&mut world, id, queue, &milliseconds, "x");
    }
    for milliseconds in 1..=total {
        assert_eq!(world.broker.take_alarm(), Some(milliseconds * 1000));
        world.now = milliseconds * 1000;
        world.broker.work(world.now);
        assert_eq!(world.broker.metrics().expired, milliseconds);
    }
    assert_eq!(world.broker.take_alarm(), None);
    assert_eq!(world.seen(id), []);
}
