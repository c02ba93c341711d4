//! The files of a new stream are made by the committer, while its declaration waits and everybody else goes on.

use super::client::{Easy, TestBroker, closed, names, table, text};
use crate::amqp::method::{BasicGet, QueueDeclare, QueueDelete};
use crate::amqp::{FieldValue, Method};
use crate::broker::{BrokerOptions, ConnectionId, UserLimits};
use crate::journal::{Dice, SimulatedDisk};

fn on(disk: &SimulatedDisk) -> TestBroker {
    TestBroker::on_disk(disk, BrokerOptions::default()).0
}

/// A declaration of a stream.
pub(super) fn stream(queue: &'static str, more: &[(&str, FieldValue)]) -> QueueDeclare<'static> {
    let arguments = table(&[&[("x-queue-type", text("stream"))], more].concat());
    QueueDeclare { queue, durable: true, arguments, ..Default::default() }
}

/// The names of the folders of streams.
fn folders(disk: &SimulatedDisk) -> Vec<String> {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with("/data/streams"));
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.iter().nth(3)?.to_string_lossy().into_owned())).collect();
    names.dedup();
    names
}

fn seen(world: &mut TestBroker, id: ConnectionId) -> Vec<&'static str> {
    names(&world.seen(id))
}

#[test]
fn no_file_is_made_in_a_call_that_declares_a_stream_and_nobody_else_waits() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let (id, other) = (world.connect(), world.connect());
    world.send(id, 1, stream("log", &[]));
    world.send(id, 1, QueueDeclare { queue: "next", ..Default::default() });
    assert_eq!((folders(&disk).len(), seen(&mut world, id).len()), (0, 0));
    world.declare(other, "usual");
    world.publish(other, "", "usual", b"x");
    let got = world.ask(other, 1, BasicGet { queue: "usual", no_ack: true, ..Default::default() });
    assert_eq!(names(&got), ["basic.get-ok"]);
    let passive = QueueDeclare { queue: "log", passive: true, ..Default::default() };
    assert_eq!(closed(&world.ask(other, 1, passive)).map(|it| it.1), Some(404), "it is not there yet");
    world.commit();
    assert_eq!((folders(&disk).len(), seen(&mut world, id).len()), (1, 0), "its definition is not on disk");
    world.commit();
    assert_eq!(seen(&mut world, id), ["queue.declare-ok", "queue.declare-ok"], "in their order");
}

#[test]
fn a_second_declaration_waits_and_is_compared_with_the_first() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let [first, same, different] = [(); 3].map(|()| world.connect());
    world.send(first, 1, stream("log", &[]));
    world.send(same, 1, stream("log", &[]));
    world.send(different, 1, stream("log", &[("x-max-length-bytes", FieldValue::I32(1 << 20))]));
    world.commit();
    assert_eq!(closed(&world.seen(different)).map(|it| it.1), Some(406));
    world.commit();
    assert_eq!((seen(&mut world, first), seen(&mut world, same)), (vec!["queue.declare-ok"], vec!["queue.declare-ok"]));
    (0..5).for_each(|_| world.commit());
    assert_eq!(folders(&disk).len(), 1);
}

#[test]
fn those_who_come_when_the_log_is_there_are_answered_too() {
    for count in 2..6 {
        let disk = SimulatedDisk::new();
        let mut world = on(&disk);
        let clients: Vec<ConnectionId> = (0..count).map(|_| world.connect()).collect();
        for id in &clients {
            world.send(*id, 1, stream("log", &[]));
            // The log is there, and the first declaration has not come back for it.
            world.broker.commit_once();
        }
        (0..5).for_each(|_| world.commit());
        let answers: Vec<_> = clients.iter().map(|id| seen(&mut world, *id)).collect();
        assert_eq!(answers, vec![vec!["queue.declare-ok"]; count]);
        assert_eq!(folders(&disk).len(), 1);
    }
}

#[test]
fn those_who_wait_for_a_log_that_somebody_declares_otherwise_are_answered_too() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let small = [("x-max-length-bytes", FieldValue::I32(1 << 20))];
    let [first, other, third] = [(); 3].map(|()| world.connect());
    world.send(first, 1, stream("log", &[]));
    world.send(third, 1, stream("log", &[]));
    world.broker.commit_once();
    world.send(other, 1, stream("log", &small));
    (0..8).for_each(|_| world.commit());
    let mut codes = Vec::new();
    for id in [first, other, third] {
        let answers = world.seen(id);
        codes.push((names(&answers), closed(&answers).map(|it| it.1)));
    }
    assert!(codes.iter().all(|(answers, _)| answers.len() == 1), "{codes:?}");
    assert!(codes.iter().any(|(answers, _)| answers == &["queue.declare-ok"]), "{codes:?}");
}

#[test]
fn one_who_declares_otherwise_gets_files_of_its_own_when_the_first_has_gone() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let (gone, id) = (world.connect(), world.connect());
    world.send(gone, 1, stream("log", &[]));
    world.send(id, 1, stream("log", &[("x-max-length-bytes", FieldValue::I32(1 << 20))]));
    world.broker.disconnect(gone, world.now);
    (0..6).for_each(|_| world.commit());
    assert_eq!((seen(&mut world, id), folders(&disk).len()), (vec!["queue.declare-ok"], 1));
}

#[test]
fn what_nobody_has_come_for_is_removed() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let gone = world.connect();
    world.send(gone, 1, stream("log", &[]));
    world.broker.disconnect(gone, world.now);
    world.commit();
    assert_eq!(folders(&disk).len(), 1);
    world.now = 20_000_000;
    world.broker.tick(world.now, 0);
    (0..3).for_each(|_| world.commit());
    assert_eq!(folders(&disk).len(), 0);
    let id = world.connect();
    world.send(id, 1, stream("log", &[]));
    world.commit_streams();
    assert_eq!(seen(&mut world, id), ["queue.declare-ok"]);
}

#[test]
fn a_stream_without_a_name_keeps_the_one_that_it_is_given() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let id = world.connect();
    world.send(id, 1, stream("", &[]));
    world.commit_streams();
    let answers = world.seen(id);
    let Method::QueueDeclareOk(ok) = answers[0].method() else { panic!("{:?}", names(&answers)) };
    assert!(ok.queue.starts_with("amq.gen-") && folders(&disk).len() == 1);
}

#[test]
fn a_stream_on_a_full_disk_is_refused_and_leaves_nothing() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    world.commit();
    let id = world.connect();
    disk.limit(Some(0));
    world.send(id, 1, stream("log", &[]));
    world.commit();
    let (_, code, reason) = closed(&world.seen(id)).expect("refused");
    assert!(code == 506 && reason.contains("the stream 'log' cannot be opened: "), "{code}: {reason}");
    disk.limit(None);
    let id = world.connect();
    (0..3).for_each(|_| world.commit());
    assert_eq!(folders(&disk).len(), 0);
    world.send(id, 1, stream("log", &[]));
    world.commit_streams();
    assert_eq!(seen(&mut world, id), ["queue.declare-ok"]);
}

#[test]
fn a_user_who_has_all_queues_makes_no_files() {
    let disk = SimulatedDisk::new();
    let limits = UserLimits { queues: Some(0), ..UserLimits::default() };
    let control = Easy { limits };
    let mut world = TestBroker::open_with(&disk, BrokerOptions::default(), control).expect("opened").0;
    let id = world.connect();
    let refused = closed(&world.ask(id, 1, stream("log", &[]))).expect("refused");
    world.commit();
    assert!(refused.1 == 406 && folders(&disk).is_empty(), "{refused:?}");
}

#[test]
fn a_name_that_was_deleted_just_now_can_be_a_stream_again() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let id = world.connect();
    for _ in 0..3 {
        world.send(id, 1, stream("log", &[]));
        world.send(id, 1, QueueDelete { queue: "log", ..Default::default() });
    }
    (0..20).for_each(|_| world.commit());
    assert_eq!(seen(&mut world, id), ["queue.declare-ok", "queue.delete-ok"].repeat(3));
    assert_eq!(folders(&disk).len(), 0);
}

#[test]
fn a_power_cut_while_a_stream_is_made_leaves_all_of_it_or_nothing() {
    for (commits, seed) in (0..4).flat_map(|commits| (0..20).map(move |seed| (commits, seed))) {
        let disk = SimulatedDisk::new();
        let mut world = on(&disk);
        let id = world.connect();
        world.send(id, 1, QueueDeclare { queue: "usual", durable: true, ..Default::default() });
        world.commit();
        world.seen(id);
        world.send(id, 1, stream("log", &[]));
        (0..commits).for_each(|_| world.commit());
        let was_told = !world.seen(id).is_empty();
        assert_eq!(was_told, commits >= 2);
        drop(world);
        disk.power_cut(&mut Dice::new(seed));
        let mut world = on(&disk);
        let id = world.connect();
        let passive = QueueDeclare { queue: "log", passive: true, ..Default::default() };
        let is_there = closed(&world.ask(id, 1, passive)).is_none();
        assert!(is_there || !was_told, "{commits} commits, seed {seed}");
        // The number of the folder may be the same: what is left of the old one is removed before.
        let id = world.connect();
        world.send(id, 1, stream("log", &[]));
        (0..5).for_each(|_| world.commit());
        assert_eq!((seen(&mut world, id), folders(&disk).len()), (vec!["queue.declare-ok"], 1), "{commits}, {seed}");
        world.publish(id, "", "log", b"x");
        world.commit();
        assert_eq!(world.broker.fatal(), None);
    }
}

#[test]
fn the_files_of_a_stream_stay_until_its_deletion_is_on_disk() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk);
    let id = world.connect();
    world.send(id, 1, stream("log", &[]));
    world.commit_streams();
    world.send(id, 1, QueueDelete { queue: "log", ..Default::default() });
    (0..3).for_each(|tick| world.broker.tick(tick, 0));
    assert_eq!(folders(&disk).len(), 1, "nothing was synced since");
    (0..5).for_each(|_| world.commit());
    assert_eq!(folders(&disk).len(), 0);
}

#[test]
fn there_are_no_more_streams_than_may_keep_a_file_open() {
    let disk = SimulatedDisk::new();
    let options = BrokerOptions { streams_max: 2, ..BrokerOptions::default() };
    let mut world = TestBroker::on_disk(&disk, options.clone()).0;
    let [id, second, other] = [(); 3].map(|()| world.connect());
    world.send(id, 1, stream("first", &[]));
    world.send(second, 1, stream("second", &[]));
    let refused = closed(&world.ask(other, 1, stream("third", &[])));
    let text = "RESOURCE_ERROR - there are 2 streams already, and no more are allowed";
    assert_eq!(refused, Some((0, 506, text.to_owned())), "while they are made");
    (0..3).for_each(|_| world.commit());
    assert_eq!((seen(&mut world, id), seen(&mut world, second)), (vec!["queue.declare-ok"], vec!["queue.declare-ok"]));
    let other = world.connect();
    assert_eq!(closed(&world.ask(other, 1, stream("third", &[]))).map(|it| it.1), Some(506));
    world.send(id, 1, stream("first", &[]));
    assert_eq!(seen(&mut world, id), ["queue.declare-ok"], "it is there");
    world.send(id, 1, QueueDelete { queue: "first", ..Default::default() });
    world.send(id, 1, stream("third", &[]));
    (0..5).for_each(|_| world.commit());
    assert_eq!(seen(&mut world, id), ["queue.delete-ok", "queue.declare-ok"]);
    // A broker that may have fewer opens those that it has.
    drop(world);
    let mut world = TestBroker::on_disk(&disk, BrokerOptions { streams_max: 1, ..options }).0;
    let id = world.connect();
    assert_eq!(names(&world.ask(id, 1, stream("second", &[]))), ["queue.declare-ok"]);
    assert_eq!(closed(&world.ask(id, 1, stream("fourth", &[]))).map(|it| it.1), Some(506));
}
