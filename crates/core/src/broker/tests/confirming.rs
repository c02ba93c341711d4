//! What publishers are told of messages that are refused beside others that wait for the disk.

use super::client::{PERSISTENT, ReceivedMethod, TestBroker, published, table, text};
use crate::amqp::method::QueueDeclare;
use crate::amqp::{FieldValue, Method};
use crate::broker::BrokerOptions;
use crate::broker::simulation::Faults;
use crate::journal::SimulatedDisk;

/// Acks and nacks as signed numbers, with a star where they cover all before.
fn told(seen: &[ReceivedMethod]) -> Vec<String> {
    let told = seen.iter().filter_map(|seen| match seen.method() {
        Method::BasicAck(ack) => Some(format!("+{}{}", ack.delivery_tag, if ack.multiple { "*" } else { "" })),
        Method::BasicNack(nack) => Some(format!("-{}{}", nack.delivery_tag, if nack.multiple { "*" } else { "" })),
        _ => None,
    });
    told.collect()
}

/// Publish to a queue of two messages, three times, and then to one that takes all.
fn refused_between_others(faults: Faults) -> (Vec<String>, Vec<String>) {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    world.broker.faults = faults;
    let id = world.connect();
    let arguments = table(&[("x-max-length", FieldValue::I32(2)), ("x-overflow", text("reject-publish"))]);
    world.send(id, 1, QueueDeclare { queue: "small", durable: true, arguments, ..Default::default() });
    world.send(id, 1, QueueDeclare { queue: "large", durable: true, ..Default::default() });
    world.commit();
    world.seen(id);
    world.confirm_select(id);
    for queue in ["small", "small", "small", "large", "large"] {
        world.broker.receive(id, &published("", queue, &PERSISTENT, b"x"), 0);
    }
    let before = told(&world.seen(id));
    world.commit();
    (before, told(&world.seen(id)))
}

#[test]
fn no_ack_covers_a_message_that_was_refused() {
    let (before, after) = refused_between_others(Faults::default());
    assert_eq!(before, ["-3"]);
    assert_eq!(after, ["+2*", "+5*"]);
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_whose_acks_cover_refused_messages_is_caught() {
    let (_, after) = refused_between_others(Faults { acks_refused: true, ..Faults::default() });
    assert_eq!(after, ["+5*"], "a client that trusts the last word has lost number 3");
}
