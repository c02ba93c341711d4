//! Random methods in random order, and bytes that are not methods, are sent to the broker.
//!
//! Whatever it receives, the broker goes on, its invariants hold, and another client is served.

use super::client::{TestBroker, bodies, published, read};
use super::invariants::violation;
use crate::amqp::method::*;
use crate::amqp::properties::put_content;
use crate::amqp::{Method, PropertyFields};
use crate::broker::{BrokerOptions, Flow, Login, Metrics};
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::{or_few, rounds};

const NAMES: [&str; 8] = ["", "a", "b", "c", "amq.topic", "amq.fanout", "forbidden", "mine"];
const KINDS: [&str; 5] = ["direct", "fanout", "topic", "headers", "x-query"];

fn method(dice: &mut Dice, tags: &[u64]) -> Method<'static> {
    // Mostly names of what there is, and tags of what came.
    let any = if dice.once_in(20) { NAMES.len() as u64 } else { 3 };
    let queue = NAMES[1..][dice.below(any.min(7)) as usize];
    let exchange = if dice.once_in(20) { queue } else { NAMES[4 + dice.below(2) as usize] };
    let (other, routing_key) = (NAMES[dice.below(8) as usize], NAMES[dice.below(4) as usize]);
    let mut flag = || dice.once_in(3);
    let (durable, exclusive, auto_delete, passive, no_wait, multiple) =
        (flag(), flag(), flag(), flag(), flag(), flag());
    let delivery_tag = match tags.len() as u64 {
        0 => 0,
        count => tags[dice.below(count) as usize] + u64::from(dice.once_in(50)),
    };
    let prefetch_count = dice.below(4) as u16;
    let kind = KINDS[dice.below(5) as usize];
    match dice.below(30) {
        0 => QueueDeclare { queue, durable, exclusive, auto_delete, passive, no_wait, ..Default::default() }.into(),
        1..4 => QueueDeclare { queue, durable: queue == "a", no_wait, ..Default::default() }.into(),
        4 if passive => {
            QueueDelete { queue, if_unused: durable, if_empty: exclusive, no_wait, ..Default::default() }.into()
        }
        5 => QueuePurge { queue, no_wait, ..Default::default() }.into(),
        6 | 7 => QueueBind { queue, exchange, routing_key, no_wait, ..Default::default() }.into(),
        8 => QueueUnbind { queue, exchange, routing_key, ..Default::default() }.into(),
        9 => ExchangeDeclare {
            exchange,
            exchange_type: kind,
            durable,
            auto_delete,
            passive,
            no_wait,
            ..Default::default()
        }
        .into(),
        10 => ExchangeDelete { exchange, if_unused: durable, no_wait, ..Default::default() }.into(),
        11 => ExchangeBind { destination: other, source: exchange, routing_key, no_wait, ..Default::default() }.into(),
        12 => {
            ExchangeUnbind { destination: other, source: exchange, routing_key, no_wait, ..Default::default() }.into()
        }
        13..16 => {
            let consumer_tag = if multiple { other } else { "" };
            let exclusive = exclusive && durable;
            BasicConsume { queue, consumer_tag, no_ack: durable, exclusive, no_wait, ..Default::default() }.into()
        }
        16 => BasicCancel { consumer_tag: other, no_wait }.into(),
        17 => BasicQos { prefetch_size: 0, prefetch_count, global: multiple }.into(),
        18 | 19 => BasicGet { queue, no_ack: durable, ..Default::default() }.into(),
        20 | 21 => BasicAck { delivery_tag, multiple: multiple || delivery_tag == 0 }.into(),
        22 => BasicNack { delivery_tag, multiple: multiple || delivery_tag == 0, requeue: durable }.into(),
        23 if delivery_tag > 0 => BasicReject { delivery_tag, requeue: durable }.into(),
        24 => BasicRecover { requeue: delivery_tag > 0 || durable }.into(),
        25 => ConfirmSelect { no_wait }.into(),
        26 => [Method::from(TxSelect {}), TxCommit {}.into(), TxRollback {}.into()][dice.below(3) as usize],
        27 => ChannelFlow { active: !durable }.into(),
        28 if durable => ChannelClose::default().into(),
        29 if durable && exclusive => ChannelOpen::default().into(),
        _ => BasicGet { queue: "a", no_ack: durable, ..Default::default() }.into(),
    }
}

/// Some bytes that a client might send; seldom sound ones throughout.
fn nonsense(dice: &mut Dice, tags: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + dice.below(6) {
        let channel = dice.below(3) as u16;
        match dice.below(100) {
            0..65 => method(dice, tags).encode(1, &mut bytes),
            65..96 => {
                let exchange = if dice.once_in(3) { NAMES[4 + dice.below(2) as usize] } else { "" };
                let routing_key = NAMES[dice.below(4) as usize];
                let mandatory = dice.once_in(2);
                BasicPublish { exchange, routing_key, mandatory, ..Default::default() }.encode(1, &mut bytes);
                let delivery_mode = Some(1 + dice.below(2) as u8);
                let mut properties = Vec::new();
                let expiration = dice.once_in(4).then_some("10");
                PropertyFields { delivery_mode, expiration, ..Default::default() }.encode(&mut properties);
                put_content(&mut bytes, 1, &properties, &vec![0; dice.below(300) as usize], 128);
            }
            96 => method(dice, tags).encode(channel, &mut bytes),
            97 => put_content(&mut bytes, 1, &[], &vec![0; dice.below(3) as usize], 128),
            _ => bytes.extend(crate::amqp::frame::HEARTBEAT),
        }
    }
    if dice.once_in(60) && !bytes.is_empty() {
        for _ in 0..1 + dice.below(3) {
            let place = dice.below(bytes.len() as u64) as usize;
            bytes[place] = dice.roll() as u8;
        }
    }
    bytes
}

fn run(seed: u64, steps: usize) -> Metrics {
    let mut dice = Dice::new(seed);
    let disk = SimulatedDisk::new();
    let options = BrokerOptions { output_bytes_max: 4000, memory_bytes_max: 200_000, ..BrokerOptions::default() };
    let mut world = match dice.once_in(2) {
        true => TestBroker::on_disk(&disk, options).0,
        false => TestBroker::new(options),
    };
    let bystander = world.connect();
    let arguments = Default::default();
    world.send(bystander, 1, QueueDeclare { queue: "mine", exclusive: true, arguments, ..Default::default() });
    world.send(bystander, 1, BasicConsume { queue: "mine", no_ack: true, no_wait: true, ..Default::default() });
    world.commit();
    world.seen(bystander);
    let (mut clients, mut tags) = (Vec::new(), Vec::<Vec<u64>>::new());
    for _ in 0..steps {
        world.now += dice.below(30_000);
        if clients.len() < 4 {
            let id = world.connect_as(Login { frame_max: 4096, ..Login::default() });
            let mut open = Vec::new();
            ChannelOpen::default().encode(1, &mut open);
            ChannelOpen::default().encode(2, &mut open);
            world.broker.receive(id, &open, world.now);
            clients.push(id);
            tags.push(Vec::new());
        }
        let index = dice.below(clients.len() as u64) as usize;
        let id = clients[index];
        if world.broker.wants_input(id) {
            let bytes = nonsense(&mut dice, &tags[index]);
            tags[index].clear();
            let cut = dice.below(bytes.len() as u64 + 1) as usize;
            world.broker.receive(id, &bytes[..cut], world.now);
            world.broker.receive(id, &bytes[cut..], world.now);
        }
        if dice.once_in(3) {
            world.commit();
        }
        if dice.once_in(4) {
            world.broker.tick(world.now, 0);
        }
        let mut bytes = Vec::new();
        let mut is_over = world.broker.output(id, &mut bytes) == Flow::Ended;
        let mut answer = Vec::new();
        for seen in &read(&bytes).0 {
            is_over |= matches!(seen.method(), Method::ConnectionClose(_));
            match seen.method() {
                Method::BasicDeliver(it) if seen.channel == 1 => tags[index].push(it.delivery_tag),
                Method::BasicGetOk(it) if seen.channel == 1 => tags[index].push(it.delivery_tag),
                _ => {}
            }
            if matches!(seen.method(), Method::ChannelClose(_) | Method::ChannelCloseOk(_)) {
                ChannelCloseOk {}.encode(seen.channel, &mut answer);
                ChannelOpen::default().encode(seen.channel, &mut answer);
            }
        }
        world.broker.receive(id, &answer, world.now);
        if is_over || dice.once_in(20) {
            world.broker.disconnect(id, world.now);
            clients.swap_remove(index);
            tags.swap_remove(index);
        }
        assert_eq!(violation(&world.broker), None, "seed {seed}");
    }
    world.broker.receive(bystander, &published("", "mine", &PropertyFields::default(), b"here"), world.now);
    assert_eq!(bodies(&world.seen(bystander)).last().map(String::as_str), Some("here"), "seed {seed}");
    let metrics = world.broker.metrics();
    clients.into_iter().for_each(|id| world.broker.disconnect(id, world.now));
    metrics
}

#[test]
fn whatever_comes_the_broker_stands() {
    let (mut delivered, mut acknowledged, mut errors) = (0, 0, 0);
    for seed in rounds(rounds(0..200)) {
        let metrics = run(seed, or_few(300, 40));
        delivered += metrics.delivered;
        acknowledged += metrics.acknowledged;
        errors += metrics.errors;
    }
    println!("{delivered} delivered, {acknowledged} acknowledged, {errors} errors");
    assert!(
        cfg!(miri) || delivered > 10_000 && acknowledged > 1_000 && errors > 1_000,
        "too much nonsense to tell anything"
    );
}
