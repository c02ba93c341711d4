//! Purges and deletions: what they dropped does not come back once they are answered.

use super::client::{Easy, TestBroker, names};
use super::keeping::{crash, declare, drain, publish};
use crate::amqp::Method;
use crate::amqp::method::{BasicAck, BasicGet, QueueDeclare, QueueDelete, QueuePurge};
use crate::broker::{BrokerOptions, ConnectionId, UserLimits};
use crate::journal::SimulatedDisk;

const PURGE: QueuePurge<'static> = QueuePurge { ticket: 0, queue: "work", no_wait: false };

/// A broker with `count` messages on disk, of which the first is unacknowledged.
fn filled(disk: &SimulatedDisk, count: usize) -> (TestBroker, ConnectionId) {
    let mut world = TestBroker::on_disk(disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    (0..count).for_each(|_| publish(&mut world, id, "work", "x"));
    world.commit();
    assert_eq!(names(&world.ask(id, 1, BasicGet { queue: "work", ..Default::default() })), ["basic.get-ok"]);
    (world, id)
}

/// The number that purge-ok tells, if it has come.
fn purged(world: &mut TestBroker, id: ConnectionId) -> Option<u32> {
    let seen = world.seen(id);
    match seen.first()?.method() {
        Method::QueuePurgeOk(ok) => Some(ok.message_count),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_purge_is_answered_when_nothing_of_it_can_come_back() {
    for count in [3, 5_000] {
        let disk = SimulatedDisk::new();
        let (mut world, id) = filled(&disk, count);
        world.send(id, 1, PURGE);
        let mut calls = 0;
        while world.broker.has_work() {
            assert_eq!(purged(&mut world, id), None);
            world.broker.work(world.now);
            calls += 1;
        }
        assert_eq!(calls, (count - 1) / 1000, "it takes some calls, so that nobody waits for it");
        assert_eq!(purged(&mut world, id), None, "it is not on disk");
        world.commit();
        assert_eq!(purged(&mut world, id), Some(count as u32 - 1));
        let mut world = crash(&disk, world);
        assert_eq!(drain(&mut world, "work").len(), 1, "what somebody has is not purged");
    }
}

#[test]
fn a_purge_that_was_not_answered_may_come_back() {
    let disk = SimulatedDisk::new();
    let (mut world, id) = filled(&disk, 5_000);
    world.send(id, 1, PURGE);
    world.commit();
    assert_eq!(purged(&mut world, id), None, "some of it is on disk");
    let mut world = crash(&disk, world);
    let left = drain(&mut world, "work").len();
    assert!((1..5_000).contains(&left), "{left}");
}

#[test]
fn control_a_purge_that_is_answered_early_may_come_back() {
    let disk = SimulatedDisk::new();
    let (mut world, id) = filled(&disk, 5_000);
    world.broker.faults.settles_early = true;
    world.send(id, 1, PURGE);
    assert_eq!(purged(&mut world, id), Some(4_999));
    let mut world = crash(&disk, world);
    assert!(drain(&mut world, "work").len() > 1);
}

#[test]
fn purges_are_answered_in_their_order_also_when_the_second_finds_nothing() {
    let disk = SimulatedDisk::new();
    let (mut world, first) = filled(&disk, 5_000);
    let second = world.connect();
    world.send(first, 1, PURGE);
    world.send(second, 1, PURGE);
    assert_eq!((purged(&mut world, first), purged(&mut world, second)), (None, None));
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
    assert_eq!(purged(&mut world, second), None, "what the first has dropped could come back");
    world.commit();
    assert_eq!((purged(&mut world, first), purged(&mut world, second)), (Some(4_999), Some(0)));
    world.send(second, 1, PURGE);
    assert_eq!(purged(&mut world, second), Some(0), "there is nothing to wait for");
}

#[test]
fn a_purge_of_what_is_not_on_disk_waits_for_no_disk() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.publish(id, "", "work", b"transient");
    world.send(id, 1, PURGE);
    assert_eq!(purged(&mut world, id), Some(1));
    world.declare(id, "passing");
    world.publish(id, "", "passing", b"transient");
    world.send(id, 1, QueuePurge { queue: "passing", ..Default::default() });
    assert_eq!(purged(&mut world, id), Some(1));
    let mut world = TestBroker::default();
    let id = world.connect();
    declare_in_memory(&mut world, id);
    publish(&mut world, id, "work", "x");
    world.send(id, 1, PURGE);
    assert_eq!(purged(&mut world, id), Some(1));
}

fn declare_in_memory(world: &mut TestBroker, id: ConnectionId) {
    world.send(id, 1, QueueDeclare { queue: "work", durable: true, ..Default::default() });
    assert_eq!(names(&world.seen(id)), ["queue.declare-ok"]);
}

#[test]
fn a_deletion_is_answered_when_nothing_of_it_can_come_back() {
    let disk = SimulatedDisk::new();
    let (mut world, id) = filled(&disk, 5_000);
    world.send(id, 1, QueueDelete { queue: "work", ..Default::default() });
    assert_eq!(names(&world.seen(id)), [""; 0]);
    world.commit();
    assert_eq!(names(&world.seen(id)), ["queue.delete-ok"]);
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    let mut world = crash(&disk, world);
    let id = world.connect();
    declare(&mut world, id, "work");
    assert_eq!(drain(&mut world, "work"), []);
    assert_eq!(world.broker.metrics().messages, 0);
}

#[test]
fn queues_that_a_user_declared_count_after_a_restart() {
    let disk = SimulatedDisk::new();
    let control = || Easy { limits: UserLimits { queues: Some(3), ..UserLimits::default() } };
    let open = || TestBroker::open_with(&disk, BrokerOptions::default(), control()).expect("opened").0;
    let mut world = open();
    let id = world.connect();
    ["one", "two", "three"].into_iter().for_each(|queue| declare(&mut world, id, queue));
    drop(world);
    let mut world = open();
    let id = world.connect();
    let refused = world.ask(id, 1, QueueDeclare { queue: "four", ..Default::default() });
    let (_, code, text) = super::client::closed(&refused).expect("refused");
    assert_eq!(code, 406);
    assert!(text.contains("queue limit (3) of user 'guest' is reached"), "{text}");
    let id = world.connect();
    world.send(id, 1, QueueDelete { queue: "two", ..Default::default() });
    world.commit();
    assert_eq!(names(&world.seen(id)), ["queue.delete-ok"]);
    declare(&mut world, id, "four");
}
