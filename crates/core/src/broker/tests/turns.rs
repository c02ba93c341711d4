//! A connection that asks for much at once: others have their turn in between.

use super::client::{TestBroker, bodies, closed, names, published, table};
use super::memory::rest;
use crate::amqp::method::{BasicConsume, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete};
use crate::amqp::{FieldValue, PropertyFields, RawTable};
use crate::broker::{BrokerOptions, ConnectionId};
use crate::testing::or_few;

fn binds(queue: &str, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let routing_key = &format!("a.{number}.*");
        QueueBind { queue, exchange: "amq.topic", routing_key, no_wait: true, ..Default::default() }
            .encode(1, &mut bytes);
    }
    QueueDeclare { queue, passive: true, ..Default::default() }.encode(1, &mut bytes);
    bytes
}

/// A connection that asks for so many bindings of its queue `bound`, in one read.
fn ask_for_bindings(world: &mut TestBroker, count: usize) -> ConnectionId {
    let id = world.connect();
    world.declare(id, "bound");
    world.broker.receive(id, &binds("bound", count), 0);
    id
}

/// How many bindings lead to the queue `name`.
fn bound(world: &TestBroker, name: &str) -> usize {
    let topology = world.broker.topology();
    topology.bindings().filter(|(_, binding)| binding.target == crate::broker::topology::Target::Queue(name)).count()
}

fn has_more(world: &TestBroker, id: ConnectionId) -> bool {
    assert_eq!(world.broker.has_work(), !world.broker.wants_input(id), "it is read when it is done, not before");
    world.broker.has_work()
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_read_with_thousands_of_bindings_is_done_a_little_at_a_time() {
    let mut world = TestBroker::default();
    let id = ask_for_bindings(&mut world, 5_000);
    let (mut before, mut turns) = (0, 1);
    loop {
        let now = bound(&world, "bound");
        assert!(now > before && now - before <= 600, "{} bindings in one turn", now - before);
        before = now;
        if !has_more(&world, id) {
            break;
        }
        assert_eq!(names(&world.seen(id)), [""; 0], "what is written in between does not bring it its turn");
        world.broker.work(0);
        turns += 1;
    }
    assert_eq!((bound(&world, "bound"), names(&world.seen(id))), (5_000, vec!["queue.declare-ok"]));
    assert!(turns > 8, "{turns} turns");
}

/// Queues bound to amq.fanout, each with a consumer on a connection of its own.
fn consumers(world: &mut TestBroker, count: usize, arguments: RawTable<'static>) -> Vec<ConnectionId> {
    let connect = |number: usize| {
        let id = world.connect();
        let queue = &*Box::leak(format!("q{number}").into_boxed_str());
        world.send(id, 1, QueueDeclare { queue, arguments, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
        world.send(id, 1, BasicConsume { queue, no_ack: true, ..Default::default() });
        rest(world);
        assert_eq!(names(&world.seen(id)).last(), Some(&"basic.consume-ok"));
        id
    };
    (0..count).map(connect).collect()
}

#[test]
fn a_large_message_to_many_that_wait_is_delivered_a_little_at_a_time() {
    let mut world = TestBroker::new(BrokerOptions { turn_budget: 64, ..BrokerOptions::default() });
    let readers = consumers(&mut world, 20, RawTable::default());
    let publisher = world.connect();
    rest(&mut world);
    world.publish(publisher, "amq.fanout", "", &[b'x'; 20_000]);
    let delivered = |world: &TestBroker| world.broker.metrics().delivered;
    let mut before = 0;
    while world.broker.has_work() {
        world.broker.work(0);
        assert!(delivered(&world) - before < 15, "{} of 10 steps in one call", delivered(&world) - before);
        before = delivered(&world);
    }
    for id in readers {
        assert_eq!(bodies(&world.seen(id)).len(), 1);
    }
}

#[test]
fn what_could_not_stay_in_its_queue_is_delivered_at_once() {
    for limit in ["x-max-length", "x-message-ttl"] {
        let mut world = TestBroker::new(BrokerOptions { turn_budget: 64, ..BrokerOptions::default() });
        let readers = consumers(&mut world, 20, table(&[(limit, FieldValue::I32(0))]));
        let publisher = world.connect();
        rest(&mut world);
        world.publish(publisher, "amq.fanout", "", &[b'x'; 20_000]);
        rest(&mut world);
        let all: Vec<usize> = readers.iter().map(|id| bodies(&world.seen(*id)).len()).collect();
        assert_eq!(all, [1; 20], "{limit}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn messages_to_many_queues_are_put_there_a_little_at_a_time() {
    let mut world = TestBroker::default();
    let id = world.connect();
    for number in 0..1_000 {
        let queue = &*Box::leak(format!("q{number}").into_boxed_str());
        world.send(id, 1, QueueDeclare { queue, no_wait: true, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
    }
    let message = published("amq.fanout", "", &PropertyFields::default(), b"x");
    world.broker.receive(id, &message.repeat(100), 0);
    let mut before = 0;
    loop {
        let enqueued = world.broker.metrics().enqueued;
        assert!(enqueued > before && enqueued - before <= 10_000, "{} entries in one turn", enqueued - before);
        before = enqueued;
        if !has_more(&world, id) {
            break;
        }
        world.broker.work(0);
    }
    assert_eq!(before, 100_000);
}

#[test]
fn who_asks_for_much_takes_turns_with_others_who_do() {
    let mut world = TestBroker::new(BrokerOptions { turn_budget: 100, ..BrokerOptions::default() });
    let count = or_few(100, 60);
    let ids = [world.connect(), world.connect()];
    let queues = ["first", "second"];
    for (id, queue) in ids.into_iter().zip(queues) {
        world.declare(id, queue);
        world.broker.receive(id, &binds(queue, count), 0);
    }
    for _ in 0..10 {
        let [first, second] = queues.map(|queue| bound(&world, queue));
        assert!(first.abs_diff(second) <= 2 * 7, "{first} and {second}");
        world.broker.work(0);
    }
    world.broker.disconnect(ids[0], 0);
    while world.broker.has_work() {
        world.broker.work(0);
    }
    assert_eq!(queues.map(|queue| bound(&world, queue) == count), [false, true], "one has gone in the middle");
    let id = world.connect();
    let seen = world.ask(id, 1, ExchangeDeclare { exchange: "e", exchange_type: "topic", ..Default::default() });
    assert_eq!(names(&seen), ["exchange.declare-ok"]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_waits_for_a_consumer_comes_a_little_at_a_time() {
    const COUNT: u64 = 3_000;
    let mut world = TestBroker::new(BrokerOptions { turn_budget: 500, ..BrokerOptions::default() });
    let id = world.connect();
    world.declare(id, "work");
    (0..COUNT).for_each(|_| world.publish(id, "", "work", b""));
    let reader = world.connect();
    let mut before = world.consume(reader, "work", "c", true).len() as u64;
    assert!(world.broker.has_work() && before > 0);
    while world.broker.has_work() {
        world.broker.work(0);
        let now = world.broker.metrics().delivered;
        assert!((1..=1_000).contains(&(now - before)), "{} deliveries in one call", now - before);
        before = now;
    }
    assert_eq!(before, COUNT);
}

/// A time that stands still, and one that passes a millisecond whenever somebody looks.
const CLOCKS: [fn() -> u64; 2] = [
    || 0,
    || {
        static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        NOW.fetch_add(1_000, std::sync::atomic::Ordering::Relaxed)
    },
];

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_turn_ends_in_time_though_its_steps_take_long() {
    let done = CLOCKS.map(|clock| {
        let mut world = TestBroker::default();
        world.broker.measure_turns(clock);
        ask_for_bindings(&mut world, 500);
        bound(&world, "bound")
    });
    assert!(done[0] > 400 && done[1] < 50, "{done:?} bindings in the first turn");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn bindings_of_a_deleted_queue_go_in_turns_until_none_is_left() {
    let mut world = TestBroker::default();
    let id = ask_for_bindings(&mut world, 5_000);
    rest(&mut world);
    assert_eq!(bound(&world, "bound"), 5_000);
    world.ask(id, 1, QueueDelete { queue: "bound", ..Default::default() });
    let mut turns = 0;
    while world.broker.has_work() {
        world.broker.work(0);
        turns += 1;
        assert!(turns < 100, "it ends");
    }
    assert!(turns > 5, "{turns}: no call takes all of them");
    assert!(!world.broker.topology().has_gone());
}

#[test]
fn when_a_round_is_used_up_turns_are_short_until_the_next() {
    let mut world = TestBroker::new(BrokerOptions { turn_budget: 6_400, ..BrokerOptions::default() });
    let ids: Vec<ConnectionId> = (0..6).map(|_| world.connect()).collect();
    let names = ["a", "b", "c", "d", "e", "f"];
    for (id, name) in ids.iter().zip(names) {
        world.declare(*id, name);
    }
    world.broker.work(0);
    let done: Vec<usize> = ids
        .iter()
        .zip(names)
        .map(|(id, name)| {
            world.broker.receive(*id, &binds(name, 1_000), 0);
            bound(&world, name)
        })
        .collect();
    assert!(done[..2].iter().all(|count| *count > 300), "{done:?}");
    assert!(done[5] < 10, "{done:?}");
    world.broker.work(0);
    assert!(names.iter().map(|name| bound(&world, name)).sum::<usize>() > done.iter().sum::<usize>() + 300);
}

#[test]
fn while_a_client_publishes_now_and_then_turns_are_short() {
    let mut world = TestBroker::new(BrokerOptions { turn_budget: 3_200, ..BrokerOptions::default() });
    let [one, many] = [world.connect(), world.connect()];
    world.declare(one, "waited for");
    let first_turn = |world: &mut TestBroker, queue: &'static str| {
        world.declare(many, queue);
        world.broker.work(0);
        world.broker.receive(many, &binds(queue, 1_000), 0);
        let done = bound(world, queue);
        go_on(world, |_| 0);
        done
    };
    let whole = first_turn(&mut world, "a");
    assert!(whole > 150, "{whole} bindings in a turn");
    (0..8).for_each(|_| world.publish(one, "", "waited for", b"x"));
    let short = first_turn(&mut world, "b");
    assert!((1..=whole / 3).contains(&short), "{short} bindings in a turn, {whole} before");
    (0..300).for_each(|_| world.broker.work(0));
    assert!(first_turn(&mut world, "c") > 150, "nobody waits any more");
    let message = published("", "waited for", &PropertyFields::default(), b"x");
    for _ in 0..5 {
        world.broker.receive(one, &message.repeat(500), 0);
        (0..4).for_each(|_| world.publish(one, "", "waited for", b"x"));
    }
    assert!(first_turn(&mut world, "d") > 150, "one that publishes a lot waits for itself");
}

/// Let the broker go on until nothing is put off. Returns the most that `count` has moved in one call.
fn go_on(world: &mut TestBroker, count: impl Fn(&TestBroker) -> u64) -> u64 {
    let (mut before, mut most) = (count(world), 0);
    while world.broker.has_work() {
        world.broker.work(world.now);
        let now = count(world);
        most = most.max(now.abs_diff(before));
        before = now;
    }
    most
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_large_message_pushes_many_small_ones_out_a_few_at_a_time() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let arguments = table(&[("x-max-length-bytes", FieldValue::I32(200_000))]);
    world.ask(id, 1, QueueDeclare { queue: "ring", arguments, ..Default::default() });
    (0..5_000).for_each(|number: u32| world.publish(id, "", "ring", format!("{number:020}").as_bytes()));
    assert_eq!(world.broker.metrics().dropped, 0);
    world.publish(id, "", "ring", &[b'x'; 199_900]);
    let dropped = |world: &TestBroker| world.broker.metrics().dropped;
    assert!((1..=1_000).contains(&dropped(&world)), "{} in one call", dropped(&world));
    assert!(go_on(&mut world, dropped) <= 4_000);
    assert_eq!(dropped(&world) + world.broker.metrics().messages, 5_001);
    assert!(world.broker.metrics().messages < 10);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_auto_delete_queues_of_a_connection_that_goes_are_removed_some_at_a_time() {
    for exclusive in [false, true] {
        let mut world = TestBroker::default();
        let id = world.connect();
        for number in 0..3_000 {
            let queue = &*Box::leak(format!("auto{number}").into_boxed_str());
            let declare = QueueDeclare { queue, exclusive, auto_delete: true, no_wait: true, ..Default::default() };
            world.send(id, 1, declare);
            world.send(id, 1, BasicConsume { queue, no_wait: true, ..Default::default() });
        }
        let queues = |world: &TestBroker| world.broker.topology().counts().1 as u64;
        go_on(&mut world, queues);
        assert_eq!(queues(&world), 3_000);
        world.broker.disconnect(id, 0);
        assert!(queues(&world) >= 1_500, "{} are left", queues(&world));
        if !exclusive {
            // One that is used again stays.
            let other = world.connect();
            let queue = world.broker.queues().next().expect("a queue")().name;
            let queue = &*Box::leak(queue.into_boxed_str());
            world.send(other, 1, BasicConsume { queue, no_wait: true, ..Default::default() });
            assert!(go_on(&mut world, queues) <= 1_000);
            assert_eq!(queues(&world), 1);
            continue;
        }
        assert!(go_on(&mut world, queues) <= 1_000);
        assert_eq!(queues(&world), 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_delivery_that_is_overdue_is_found_behind_many_that_have_time() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "many");
    world.declare(id, "one");
    (0..40_000).for_each(|_| world.publish(id, "", "many", b""));
    world.publish(id, "", "one", b"");
    world.consume(id, "many", "patient", false);
    go_on(&mut world, |_| 0);
    world.seen(id);
    let arguments = table(&[("x-consumer-timeout", FieldValue::I32(1_000))]);
    world.ask(id, 1, BasicConsume { queue: "one", arguments, ..Default::default() });
    let mut looks = 0;
    while world.broker.metrics().consumer_timeouts == 0 {
        looks += 1;
        assert!(looks < 100, "it is never found");
        world.now += 500_000;
        world.broker.tick(world.now, super::client::EPOCH_US + world.now as i64);
        go_on(&mut world, |_| 0);
    }
    assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), Some(406));
}
