//! A connection that asks for much at once: others have their turn in between.

use super::client::{TestBroker, names, published};
use crate::amqp::PropertyFields;
use crate::amqp::method::{ExchangeDeclare, QueueBind, QueueDeclare};
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

/// How many bindings lead to the queue `name`.
fn bound(world: &TestBroker, name: &str) -> usize {
    let topology = world.broker.topology();
    let vhost = topology.vhost("/").expect("the vhost of tests");
    topology.bindings(vhost).filter(|binding| binding.target == crate::broker::topology::Target::Queue(name)).count()
}

fn has_more(world: &TestBroker, id: ConnectionId) -> bool {
    assert_eq!(world.broker.has_work(), !world.broker.wants_input(id), "it is read when it is done, not before");
    world.broker.has_work()
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_read_with_thousands_of_bindings_is_done_a_little_at_a_time() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "bound");
    world.broker.receive(id, &binds("bound", 5_000), 0);
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
        assert!(first.abs_diff(second) <= 7, "{first} and {second}");
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
