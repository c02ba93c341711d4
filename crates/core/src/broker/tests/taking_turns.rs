//! Consumers that share the credit of their channel take turns, on one queue or on several.

use super::client::{TestBroker, bodies};
use crate::amqp::Method;
use crate::amqp::method::{BasicAck, BasicQos};
use crate::broker::ConnectionId;

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// Consumers `a`, `b` and `c` under a channel-wide prefetch; the bodies are the queues' names.
fn busy_channel(world: &mut TestBroker, prefetch_count: u16, messages: usize) -> ConnectionId {
    let (publisher, id) = (world.connect(), world.connect());
    QUEUES.iter().for_each(|queue| world.declare(id, queue));
    world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count, global: true });
    for _ in 0..messages {
        QUEUES.iter().for_each(|queue| world.publish(publisher, "", queue, queue.as_bytes()));
    }
    id
}

/// Acknowledge each delivery as soon as it comes, until `count` have come. Returns them in their order.
fn taken(
    world: &mut TestBroker,
    id: ConnectionId,
    mut seen: Vec<super::client::ReceivedMethod>,
    count: usize,
) -> String {
    let mut order = String::new();
    while order.len() < count {
        order.extend(bodies(&seen));
        let tags = seen.iter().filter_map(|seen| match seen.method() {
            Method::BasicDeliver(it) => Some(it.delivery_tag),
            _ => None,
        });
        let tags: Vec<u64> = tags.collect();
        assert!(!tags.is_empty(), "nothing came after {order}");
        seen = tags
            .into_iter()
            .flat_map(|delivery_tag| world.ask(id, 1, BasicAck { delivery_tag, multiple: false }))
            .collect();
    }
    order
}

#[test]
fn queues_of_one_channel_share_its_prefetch() {
    for prefetch_count in [1, 4, 20] {
        let mut world = TestBroker::default();
        let id = busy_channel(&mut world, prefetch_count, 100);
        let seen = QUEUES.iter().flat_map(|queue| world.consume(id, queue, queue, false)).collect();
        let order = taken(&mut world, id, seen, 99);
        for queue in QUEUES {
            let share = order.matches(queue).count();
            assert!((25..=50).contains(&share), "prefetch {prefetch_count}: {share} of 99 from {queue}: {order}");
        }
    }
}

#[test]
fn a_prefetch_of_each_consumer_does_not_put_it_first() {
    let mut world = TestBroker::default();
    let id = busy_channel(&mut world, 1, 30);
    world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
    let seen = QUEUES.iter().flat_map(|queue| world.consume(id, queue, queue, false)).collect();
    assert_eq!(taken(&mut world, id, seen, 9), "abcabcabc");
}

#[test]
fn a_prefetch_of_each_consumer_is_not_shared() {
    let mut world = TestBroker::default();
    let id = busy_channel(&mut world, 0, 10);
    world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 2, global: false });
    let seen: Vec<_> = QUEUES.iter().flat_map(|queue| world.consume(id, queue, queue, false)).collect();
    assert_eq!(bodies(&seen).concat(), "aabbcc");
}

#[test]
fn consumers_of_one_queue_under_one_prefetch_alternate() {
    let mut world = TestBroker::default();
    let (publisher, id) = (world.connect(), world.connect());
    world.declare(id, "work");
    world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: true });
    (0..20).for_each(|_| world.publish(publisher, "", "work", b"m"));
    let mut seen = world.consume(id, "work", "1", false);
    seen.extend(world.consume(id, "work", "2", false));
    let mut order = String::new();
    while order.len() < 10 {
        assert_eq!(seen.len(), 1);
        let Method::BasicDeliver(it) = seen[0].method() else { panic!("{seen:?}") };
        order.push_str(it.consumer_tag);
        let delivery_tag = it.delivery_tag;
        seen = world.ask(id, 1, BasicAck { delivery_tag, multiple: false });
    }
    assert_eq!(order, "1212121212");
}

#[test]
fn a_steady_load_on_one_queue_starves_no_other() {
    let mut world = TestBroker::default();
    let id = busy_channel(&mut world, 1, 30);
    let publisher = world.connect();
    let seen: Vec<_> = QUEUES.iter().flat_map(|queue| world.consume(id, queue, queue, false)).collect();
    let mut order = bodies(&seen).concat();
    for delivery_tag in 1..=30 {
        world.publish(publisher, "", "c", b"c");
        order.extend(bodies(&world.ask(id, 1, BasicAck { delivery_tag, multiple: false })));
    }
    assert!(QUEUES.iter().all(|queue| order.matches(queue).count() >= 8), "{order}");
}
