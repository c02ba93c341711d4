//! Connections end in bounded time, also when the client does not read what is left for it.

use super::client::{TestBroker, closed, names};
use crate::amqp::method::{ConnectionClose, ConnectionCloseOk};
use crate::broker::{ConnectionId, Flow, Login};

const SECOND_US: u64 = 1_000_000;

/// A client that has stopped reading, with deliveries that wait for it.
fn clogged(world: &mut TestBroker, heartbeat_s: u16) -> ConnectionId {
    let publisher = world.connect();
    let id = world.connect_as(Login { heartbeat_s, ..Login::default() });
    world.ask(id, 1, crate::amqp::method::ChannelOpen::default());
    world.declare(id, "work");
    world.consume(id, "work", "c", true);
    world.publish(publisher, "", "work", b"never read");
    world.broker.set_writable(id, false);
    id
}

/// Let time pass; the client says nothing and its socket takes nothing.
fn wait(world: &mut TestBroker, seconds: u64) {
    for _ in 0..seconds {
        world.now += SECOND_US;
        (0..10).for_each(|_| world.broker.tick(world.now, 0));
    }
}

#[test]
fn a_missed_heartbeat_ends_a_connection_that_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 10);
    wait(&mut world, 18);
    assert!(!world.broker.is_over(id), "it has another 2 seconds");
    wait(&mut world, 4);
    assert!(world.broker.is_over(id));
    let mut bytes = Vec::new();
    assert_eq!((world.broker.output(id, &mut bytes), bytes.len()), (Flow::Ended, 0));
}

#[test]
fn a_connection_that_an_operator_closes_ends_though_its_client_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.broker.close(id, "an operator", world.now);
    wait(&mut world, 9);
    assert!(!world.broker.is_over(id), "it has 10 seconds to answer");
    wait(&mut world, 3);
    assert!(world.broker.is_over(id));
}

#[test]
fn a_close_of_the_client_itself_ends_though_it_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.send(id, 0, ConnectionClose::default());
    wait(&mut world, 9);
    assert!(!world.broker.is_over(id), "it has 10 seconds to read");
    wait(&mut world, 3);
    assert!(world.broker.is_over(id));
}

#[test]
fn who_reads_gets_everything_before_the_end() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.send(id, 0, ConnectionClose::default());
    world.broker.set_writable(id, true);
    assert_eq!(names(&world.seen(id)), ["basic.deliver", "connection.close-ok"]);
    let id = world.connect();
    world.broker.close(id, "an operator", world.now);
    assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), Some(320));
    world.send(id, 0, ConnectionCloseOk {});
    assert!(world.broker.is_over(id));
}
