//! Transactions: all of one happens when it is committed, or nothing.

use super::client::{Easy, PERSISTENT, ReceivedMethod, TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{
    BasicAck, BasicGet, BasicNack, BasicRecover, ChannelClose, ExchangeDeclare, ExchangeDelete, QueueBind,
    QueueDeclare, QueueDelete, QueueUnbind, TxCommit, TxRollback, TxSelect,
};
use crate::amqp::{FieldValue, Method, PropertyFields, RawTable};
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::durable::DurableOptions;
use crate::broker::simulation::Faults;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::{Dice, SimulatedDisk};

fn transactional(world: &mut TestBroker) -> ConnectionId {
    let id = world.connect();
    assert_eq!(names(&world.ask(id, 1, TxSelect {})), ["tx.select-ok"]);
    id
}

fn code(seen: &[ReceivedMethod]) -> Option<u16> {
    closed(seen).map(|(_, code, _)| code)
}

/// Let the broker go on until nothing is put off. Returns in how many calls.
fn turns(world: &mut TestBroker) -> usize {
    let mut count = 0;
    while world.broker.has_work() {
        world.broker.work(world.now);
        count += 1;
    }
    count
}

/// Queues of the fan-out, by their names.
fn fan_out(world: &mut TestBroker, id: ConnectionId, count: usize, arguments: RawTable<'static>) -> Vec<&'static str> {
    let names = (0..count).map(|number| &*Box::leak(format!("fan{number}").into_boxed_str()));
    let queues: Vec<&'static str> = names.collect();
    for queue in &queues {
        world.send(id, 1, QueueDeclare { queue, durable: true, no_wait: true, arguments, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
    }
    queues
}

/// A transaction with `count` messages to the fan-out.
fn large(world: &mut TestBroker, count: usize) -> ConnectionId {
    let (id, before) = (transactional(world), world.broker.metrics().published);
    (0..count).for_each(|number| world.publish(id, "amq.fanout", "", number.to_string().as_bytes()));
    assert_eq!(world.broker.metrics().published, before);
    id
}

fn get(world: &mut TestBroker, id: ConnectionId, queue: &'static str) -> Vec<String> {
    bodies(&world.ask(id, 1, BasicGet { queue, ..Default::default() }))
}

#[test]
fn what_a_message_says_of_itself_is_refused_when_it_is_published() {
    for (properties, exchange, expected) in [
        (PropertyFields { expiration: Some("soon"), ..Default::default() }, "", 406),
        (PropertyFields { user_id: Some("somebody"), ..Default::default() }, "", 406),
        (PropertyFields::default(), "none", 404),
        (PropertyFields::default(), "forbidden", 403),
        (PropertyFields::default(), "inner", 403),
    ] {
        let mut world = TestBroker::default();
        let owner = world.connect();
        world.declare(owner, "work");
        let inner =
            ExchangeDeclare { exchange: "inner", exchange_type: "fanout", internal: true, ..Default::default() };
        world.ask(owner, 1, inner);
        let id = transactional(&mut world);
        world.publish(id, "", "work", b"good");
        assert_eq!(names(&world.seen(id)), [""; 0]);
        world.broker.receive(id, &published(exchange, "work", &properties, b"bad"), 0);
        assert_eq!(code(&world.seen(id)), Some(expected), "{exchange} {properties:?}");
        assert_eq!(world.broker.metrics().published, 0);
    }
}

/// Publish to a queue and to an exchange that is deleted before the commit. Returns the code, and what was published.
fn commit_without_exchange(faults: Faults) -> (Option<u16>, u64) {
    let mut world = TestBroker::default();
    world.broker.faults = faults;
    let owner = world.connect();
    world.declare(owner, "work");
    world.ask(owner, 1, ExchangeDeclare { exchange: "logs", exchange_type: "fanout", ..Default::default() });
    let id = transactional(&mut world);
    world.publish(id, "", "work", b"1");
    world.publish(id, "logs", "work", b"2");
    world.ask(owner, 1, ExchangeDelete { exchange: "logs", ..Default::default() });
    (code(&world.ask(id, 1, TxCommit {})), world.broker.metrics().published)
}

#[test]
fn a_commit_that_became_impossible_does_nothing() {
    assert_eq!(commit_without_exchange(Faults::default()), (Some(404), 0));
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_commit_that_begins_without_a_check_is_caught() {
    let faults = Faults { commits_unchecked: true, ..Faults::default() };
    assert_eq!(commit_without_exchange(faults), (Some(404), 1), "the first message was published");
}

#[test]
fn a_full_queue_refuses_the_whole_transaction() {
    let mut world = TestBroker::default();
    let owner = world.connect();
    world.declare(owner, "work");
    let arguments = table(&[("x-max-length", FieldValue::I32(3)), ("x-overflow", text("reject-publish"))]);
    world.ask(owner, 1, QueueDeclare { queue: "small", arguments, ..Default::default() });
    world.publish(owner, "", "small", b"0");
    for (count, expected) in [(3, Some(406)), (2, None)] {
        let id = transactional(&mut world);
        world.publish(id, "", "work", b"beside");
        (0..count).for_each(|_| world.publish(id, "", "small", b"x"));
        let before = world.broker.metrics().messages;
        let seen = world.ask(id, 1, TxCommit {});
        assert_eq!(code(&seen), expected, "{count} messages");
        let published = if expected.is_none() { count + 1 } else { 0 };
        assert_eq!(world.broker.metrics().messages - before, published);
    }
}

#[test]
#[cfg_attr(miri, ignore = "fills the journal")]
fn a_transaction_that_the_journal_cannot_hold_is_refused_whole() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let owner = world.connect();
    world.send(owner, 1, QueueDeclare { queue: "work", durable: true, ..Default::default() });
    world.commit();
    let id = transactional(&mut world);
    world.broker.receive(id, &published("", "work", &PERSISTENT, b"1"), 0);
    world.broker.receive(id, &published("", "work", &PERSISTENT, &[0; 600_000]), 0);
    let seen = world.ask(id, 1, TxCommit {});
    let (_, code, text) = closed(&seen).expect("refused");
    assert_eq!((code, world.broker.metrics().published), (406, 0));
    assert!(text.contains("the message cannot be kept: a record of 600"), "{text}");
    // Many small messages for very many queues: their records are mostly numbers of queues.
    for queue in 0..500 {
        let queue: &'static str = Box::leak(format!("q{queue}").into_boxed_str());
        world.send(owner, 1, QueueDeclare { queue, durable: true, ..Default::default() });
        world.send(owner, 1, QueueBind { queue, exchange: "amq.fanout", ..Default::default() });
    }
    world.commit();
    let id = transactional(&mut world);
    for _ in 0..20_000 {
        world.broker.receive(id, &published("amq.fanout", "", &PERSISTENT, b"x"), 0);
    }
    world.send(id, 1, TxCommit {});
    turns(&mut world);
    let seen = world.seen(id);
    let (_, code, text) = closed(&seen).expect("refused");
    assert_eq!((code, world.broker.metrics().published), (406, 0));
    assert!(text.contains("the journal has no room for the transaction"), "{text}");
}

/// Commit while others have filled the room of the journal. Returns the answers before and after the disk has taken it.
fn commit_when_crowded(faults: Faults, properties: &PropertyFields<'_>) -> [Vec<&'static str>; 2] {
    let journal = DurableOptions { segment_bytes: 1 << 20, pending_bytes_max: 1 << 20 };
    let disk = SimulatedDisk::new();
    let mut world =
        TestBroker::open_journal(&disk, BrokerOptions::default(), Easy::default(), journal).expect("opened").0;
    world.broker.faults = faults;
    let other = world.connect();
    world.send(other, 1, QueueDeclare { queue: "work", durable: true, ..Default::default() });
    world.commit();
    let id = transactional(&mut world);
    world.broker.receive(id, &published("", "work", properties, b"1"), 0);
    world.broker.receive(other, &published("", "work", &PERSISTENT, &[0; 300_000]), 0);
    world.send(id, 1, TxCommit {});
    // What comes behind the commit waits for it.
    world.send(id, 1, QueueDeclare { queue: "work", passive: true, ..Default::default() });
    turns(&mut world);
    let before = names(&world.seen(id));
    (0..3).for_each(|_| world.commit());
    turns(&mut world);
    [before, names(&world.seen(id))]
}

#[test]
fn a_commit_waits_while_others_have_filled_the_journal_as_a_publisher_does() {
    for properties in [PERSISTENT, PropertyFields::default()] {
        let answers = commit_when_crowded(Faults::default(), &properties);
        assert_eq!(answers, [vec![], vec!["tx.commit-ok", "queue.declare-ok"]]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_commit_that_is_refused_because_of_others_is_caught() {
    let faults = Faults { commits_crowded: true, ..Faults::default() };
    assert_eq!(commit_when_crowded(faults, &PERSISTENT)[0], ["channel.close"]);
}

#[test]
fn a_delivery_is_settled_once_in_a_transaction() {
    let mut world = TestBroker::default();
    let owner = world.connect();
    world.declare(owner, "from");
    world.declare(owner, "to");
    world.publish(owner, "", "from", b"1");
    let id = transactional(&mut world);
    assert_eq!(get(&mut world, id, "from"), ["1"]);
    world.publish(id, "", "to", b"copy");
    assert_eq!(names(&world.ask(id, 1, BasicAck { delivery_tag: 1, multiple: false })), [""; 0]);
    let seen = world.ask(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(code(&seen), Some(406));
    assert_eq!((get(&mut world, owner, "to"), get(&mut world, owner, "from")), (vec![], vec!["1".to_owned()]));
}

#[test]
fn recover_leaves_alone_what_an_open_transaction_has_settled() {
    let mut world = TestBroker::default();
    let owner = world.connect();
    world.declare(owner, "work");
    ["1", "2", "3"].iter().for_each(|body| world.publish(owner, "", "work", body.as_bytes()));
    let id = transactional(&mut world);
    (0..3).for_each(|_| drop(get(&mut world, id, "work")));
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    world.send(id, 1, BasicNack { delivery_tag: 2, multiple: false, requeue: true });
    assert_eq!(names(&world.ask(id, 1, BasicRecover { requeue: true })), ["basic.recover-ok"]);
    assert_eq!((world.broker.metrics().messages_ready, world.broker.metrics().messages), (1, 3));
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"]);
    assert_eq!((world.broker.metrics().messages_ready, world.broker.metrics().messages), (2, 2));
    assert_eq!([get(&mut world, owner, "work"), get(&mut world, owner, "work")].concat(), ["2", "3"]);
}

#[test]
fn what_a_transaction_settled_waits_again_when_it_is_rolled_back_or_its_channel_closes() {
    let mut world = TestBroker::default();
    let owner = world.connect();
    world.declare(owner, "work");
    ["1", "2"].iter().for_each(|body| world.publish(owner, "", "work", body.as_bytes()));
    let id = transactional(&mut world);
    (0..2).for_each(|_| drop(get(&mut world, id, "work")));
    world.send(id, 1, BasicAck { delivery_tag: 0, multiple: true });
    assert!(world.broker.metrics().message_bytes > 0);
    assert_eq!(names(&world.ask(id, 1, TxRollback {})), ["tx.rollback-ok"]);
    world.send(id, 1, BasicAck { delivery_tag: 2, multiple: false });
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"]);
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    world.broker.disconnect(id, 0);
    assert_eq!(get(&mut world, owner, "work"), ["1"]);
    assert_eq!(world.broker.metrics().messages, 1);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_large_commit_is_carried_out_a_little_at_a_time() {
    const COUNT: usize = 600;
    const ALL: u64 = 200 * COUNT as u64;
    let mut world = TestBroker::default();
    let owner = world.connect();
    fan_out(&mut world, owner, 200, RawTable::default());
    let id = large(&mut world, COUNT);
    world.send(id, 1, TxCommit {});
    // What comes behind the commit waits for it.
    world.send(id, 1, QueueDeclare { queue: "fan0", passive: true, ..Default::default() });
    let (mut before, mut turns, mut late, mut seen) = (0, 0, 0, Vec::new());
    while world.broker.has_work() {
        let now = world.broker.metrics().enqueued;
        assert!(now - before <= 20_000, "{} entries in one call", now - before);
        seen.extend(world.seen(id));
        let is_done = now - turns >= ALL; // others have published one in each turn
        assert!(is_done || seen.is_empty(), "no answer before the end");
        late += u32::from(is_done && seen.is_empty());
        world.publish(owner, "", "fan1", b"others go on");
        (before, turns) = (now, turns + 1);
        world.broker.work(0);
    }
    assert!(turns > 10 && late <= 1, "{turns} turns, and the answer comes {late} later");
    seen.extend(world.seen(id));
    assert_eq!(names(&seen), ["tx.commit-ok", "queue.declare-ok"]);
    assert_eq!(world.broker.memory().unfinished, 0);
    let Method::QueueDeclareOk(ok) = seen[1].method() else { panic!("{seen:?}") };
    assert_eq!(ok.message_count as usize, COUNT);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_commit_that_has_begun_ends_though_its_client_goes_and_its_exchange_is_taken_away() {
    const COUNT: usize = 300;
    let mut world = TestBroker::default();
    let owner = world.connect();
    fan_out(&mut world, owner, 200, RawTable::default());
    world.declare(owner, "from");
    world.publish(owner, "", "from", b"1");
    let id = large(&mut world, COUNT);
    assert_eq!(get(&mut world, id, "from"), ["1"]);
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    world.send(id, 1, TxCommit {});
    while !world.broker.publishing.has_commit() {
        world.broker.work(0);
    }
    assert_eq!(names(&world.seen(id)), [""; 0], "it is not at its end");
    world.broker.disconnect(id, 0);
    (1..200).for_each(|number| {
        let queue = &*Box::leak(format!("fan{number}").into_boxed_str());
        world.send(owner, 1, QueueUnbind { queue, exchange: "amq.fanout", ..Default::default() });
    });
    world.send(owner, 1, QueueDelete { queue: "fan0", no_wait: true, ..Default::default() });
    turns(&mut world);
    let metrics = world.broker.metrics();
    assert_eq!(
        (metrics.messages, metrics.messages_ready),
        (COUNT as u64, 199 * COUNT as u64),
        "without the deleted queue"
    );
    assert_eq!(get(&mut world, owner, "from"), [""; 0], "the acknowledgement was committed");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn commits_are_carried_out_one_after_the_other() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let owner = world.connect();
    let arguments = table(&[("x-max-length", FieldValue::I32(1_000)), ("x-overflow", text("reject-publish"))]);
    fan_out(&mut world, owner, 100, arguments);
    world.commit();
    let ids = [0; 3].map(|_| large(&mut world, 400));
    ids.iter().for_each(|id| world.send(*id, 1, TxCommit {}));
    while world.broker.has_work() {
        world.broker.work(0);
        world.commit();
    }
    let answers = ids.map(|id| names(&world.seen(id)));
    assert_eq!(answers.iter().filter(|names| **names == ["tx.commit-ok"]).count(), 2, "{answers:?}");
    assert_eq!(answers.iter().filter(|names| **names == ["channel.close"]).count(), 1, "{answers:?}");
    assert_eq!(world.broker.metrics().messages_ready, 2 * 400 * 100, "all of a transaction or nothing");
}

/// The number of messages that a transaction settles.
const MANY: u64 = 50_000;

/// A connection with a transaction and very many unacknowledged deliveries of the queue `work`, whose bodies ascend.
fn with_many_deliveries(world: &mut TestBroker) -> ConnectionId {
    let owner = world.connect();
    world.declare(owner, "work");
    (0..MANY).for_each(|number| world.publish(owner, "", "work", number.to_string().as_bytes()));
    let id = transactional(world);
    (0..MANY).for_each(|_| world.send(id, 1, BasicGet { queue: "work", ..Default::default() }));
    while world.broker.metrics().messages_ready > 0 || world.broker.has_work() {
        world.more(id);
    }
    world.seen(id);
    id
}

/// The same, all of them acknowledged in the transaction.
fn with_many_acknowledgements(world: &mut TestBroker) -> ConnectionId {
    let id = with_many_deliveries(world);
    world.send(id, 1, BasicAck { delivery_tag: 0, multiple: true });
    turns(world);
    assert_eq!(waiting(world), 0);
    id
}

/// The number of deliveries that wait for their acknowledgement.
fn waiting(world: &TestBroker) -> u64 {
    world.broker.clients.delivery_room().waiting() as u64
}

/// Whether all messages are in their queue again, in order, and marked as delivered before.
fn are_all_back(world: &mut TestBroker) -> bool {
    let id = world.connect();
    let mut seen = world.consume(id, "work", "all", true);
    while world.broker.has_work() {
        seen.extend(world.more(id));
    }
    let is_again = |seen: &ReceivedMethod| matches!(seen.method(), Method::BasicDeliver(it) if it.redelivered);
    bodies(&seen).into_iter().eq((0..MANY).map(|number| number.to_string())) && seen.iter().all(is_again)
}

#[test]
#[cfg_attr(miri, ignore = "too many messages for miri")]
fn many_acknowledgements_are_rolled_back_a_little_at_a_time() {
    let mut world = TestBroker::default();
    let id = with_many_acknowledgements(&mut world);
    world.send(id, 1, TxRollback {});
    world.send(id, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: true });
    world.send(id, 1, TxCommit {});
    let mut before = waiting(&world);
    assert!((1..=10_000).contains(&before), "{before} in one call");
    while waiting(&world) < MANY {
        world.broker.work(0);
        let after = waiting(&world);
        assert!(after - before <= 20_000, "{} in one call", after - before);
        before = after;
    }
    turns(&mut world);
    assert_eq!(names(&world.seen(id)), ["tx.rollback-ok", "tx.commit-ok"]);
    assert!(are_all_back(&mut world));
}

#[test]
#[cfg_attr(miri, ignore = "too many messages for miri")]
fn what_a_closed_channel_had_acknowledged_in_a_transaction_goes_back_a_little_at_a_time() {
    let close: [fn(&mut TestBroker, ConnectionId); 3] = [
        |world, id| world.send(id, 1, ChannelClose::default()),
        |world, id| world.broker.disconnect(id, 0),
        |world, id| {
            // In the middle of a rollback.
            world.send(id, 1, TxRollback {});
            world.broker.disconnect(id, 0);
        },
    ];
    for close in close {
        let mut world = TestBroker::default();
        let id = with_many_acknowledgements(&mut world);
        close(&mut world, id);
        let moved = |world: &TestBroker| waiting(world) + 2 * world.broker.metrics().messages_ready;
        let mut before = moved(&world);
        assert!(before <= 40_000, "{before} in one call");
        while world.broker.has_work() {
            world.broker.work(0);
            let after = moved(&world);
            assert!(after - before <= 40_000, "{} in one call", after - before);
            before = after;
        }
        assert_eq!((waiting(&world), world.broker.metrics().messages_ready), (0, MANY));
        assert!(are_all_back(&mut world));
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many messages for miri")]
fn many_acknowledgements_of_a_transaction_are_kept_and_carried_out_a_little_at_a_time() {
    for is_committed in [true, false] {
        let mut world = TestBroker::default();
        let id = with_many_deliveries(&mut world);
        let before = world.broker.memory().unfinished;
        world.send(id, 1, BasicAck { delivery_tag: 0, multiple: true });
        let kept = |world: &TestBroker| (world.broker.memory().unfinished - before) / size_of::<Delivery>() as u64;
        assert!((1..=10_000).contains(&kept(&world)), "{} are kept in one call", kept(&world));
        if !is_committed {
            world.broker.work(0);
            world.broker.disconnect(id, 0);
            turns(&mut world);
            assert_eq!(world.broker.metrics().messages_ready, MANY, "nothing was committed");
            continue;
        }
        world.send(id, 1, TxCommit {});
        let (mut acknowledged, mut calls) = (0, 0);
        while world.broker.has_work() {
            world.broker.work(0);
            let now = world.broker.metrics().acknowledged;
            assert!(now - acknowledged <= 20_000, "{} in one call", now - acknowledged);
            (acknowledged, calls) = (now, calls + 1);
        }
        assert!(calls > 4, "{calls} calls");
        assert_eq!((names(&world.seen(id)), acknowledged), (vec!["tx.commit-ok"], MANY));
        assert_eq!(world.broker.metrics().messages, 0);
    }
}

/// A durable queue with `count` messages on disk, all acknowledged in a transaction of the returned connection.
fn with_acknowledged(world: &mut TestBroker, count: usize) -> ConnectionId {
    let id = world.connect();
    world.ask(id, 1, QueueDeclare { queue: "kept", durable: true, ..Default::default() });
    (0..count).for_each(|_| world.broker.receive(id, &published("", "kept", &PERSISTENT, b"x"), world.now));
    world.commit();
    world.ask(id, 1, TxSelect {});
    (0..count).for_each(|_| assert_eq!(get(world, id, "kept"), ["x"]));
    world.send(id, 1, BasicAck { delivery_tag: 0, multiple: true });
    id
}

/// The messages of the queue after a power cut.
fn left_after_cut(disk: &SimulatedDisk, world: TestBroker) -> u32 {
    drop(world);
    disk.power_cut(&mut Dice::new(1));
    let mut world = TestBroker::on_disk(disk, BrokerOptions::default()).0;
    let id = world.connect();
    let answer = world.ask(id, 1, QueueDeclare { queue: "kept", passive: true, ..Default::default() });
    let Method::QueueDeclareOk(ok) = answer[0].method() else { panic!("{:?}", names(&answer)) };
    ok.message_count
}

#[test]
fn a_commit_is_answered_when_its_acknowledgements_are_on_disk() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = with_acknowledged(&mut world, 8);
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), [""; 0]);
    world.commit();
    assert_eq!(names(&world.seen(id)), ["tx.commit-ok"]);
    assert_eq!(left_after_cut(&disk, world), 0);
}

#[test]
fn control_what_a_commit_that_is_answered_early_acknowledged_comes_back() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = with_acknowledged(&mut world, 8);
    world.broker.faults.settles_early = true;
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"]);
    assert_eq!(left_after_cut(&disk, world), 8);
}

#[test]
fn a_commit_of_acknowledgements_that_no_disk_has_waits_for_none() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    world.commit();
    let id = world.connect();
    world.declare(id, "passing");
    world.publish(id, "", "passing", b"x");
    world.ask(id, 1, TxSelect {});
    assert_eq!(get(&mut world, id, "passing"), ["x"]);
    world.send(id, 1, BasicAck { delivery_tag: 0, multiple: true });
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"]);
}
