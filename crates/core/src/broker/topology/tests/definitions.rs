//! Tests that definitions come back unchanged after a restart.

use super::*;
use crate::testing::Random;
use crate::testing::rounds;

fn encoded(topology: &Topology) -> Vec<Vec<u8>> {
    let bytes = |definition: Definition| {
        let mut bytes = Vec::new();
        definition.encode(&mut bytes);
        assert_eq!(Definition::decode(&bytes), Ok(definition));
        bytes
    };
    let mut all: Vec<_> = topology.definitions().map(bytes).collect();
    all.sort();
    all
}

/// Everything at random, with what is transient, exclusive and goes by itself.
fn change(random: &mut Random, world: &mut TestTopology) {
    const KINDS: [ExchangeKind; 3] = [ExchangeKind::Topic, ExchangeKind::Fanout, ExchangeKind::Query];
    let exchanges = ["e0", "e1", "e2", "e3", "amq.topic"];
    let queues = ["q0", "q1", "q2", "q3"];
    let (exchange, queue, vhost) = (random.pick(&exchanges), random.pick(&queues), world.vhost);
    // Whatever is refused is no change.
    match random.below(10) {
        0 | 1 => {
            let arguments = if random.one_in(2) { table([("alternate-exchange", "e0".into())]) } else { none() };
            let bytes = arguments.to_bytes();
            let settings = ExchangeSettings {
                kind: KINDS[random.below(3)],
                durable: !random.one_in(3),
                auto_delete: random.one_in(2),
                internal: random.one_in(4),
                arguments: RawTable::new(&bytes),
            };
            _ = world.topology.declare_exchange(vhost, exchange, &settings);
        }
        2 | 3 => {
            let bytes = table([("x-expires", 1000.into())]).to_bytes();
            let creator = random.pick(&["ann", "bob"]).into();
            let settings = QueueSettings {
                durable: !random.one_in(3),
                exclusive: random.one_in(4),
                auto_delete: random.one_in(2),
                arguments: if random.one_in(2) { RawTable::new(&bytes) } else { RawTable::default() },
                creator: random.one_in(2).then_some(&creator),
            };
            _ = world.topology.declare_queue(vhost, queue, &settings, ME, false);
        }
        4 => _ = world.topology.delete_exchange(vhost, exchange, random.one_in(2)),
        5 => _ = world.topology.delete_queue(vhost, queue, ME, (false, false), |_| (0, 0)),
        other => {
            let target =
                if random.one_in(3) { Target::Exchange(random.pick(&exchanges)) } else { Target::Queue(queue) };
            let arguments = match random.below(3) {
                0 => none(),
                1 => table([("x-query", "n = 1".into())]),
                _ => table([("x-query-key", "stored".into())]),
            };
            let bytes = arguments.to_bytes();
            let key = random.pick(&["a", "b.*"]);
            let bind = Bind { source: exchange, target, key, arguments: RawTable::new(&bytes) };
            if other == 6 {
                _ = world.topology.unbind(vhost, &bind, ME);
            } else {
                let stored = || StoredQuery { language: "boolean".into(), text: "n == 2".into() };
                _ = world.topology.bind(vhost, &bind, ME, &mut |_| Ok(stored()));
            }
        }
    }
}

#[test]
fn changes_read_back_in_their_order_make_what_survives() {
    for seed in rounds(0..200) {
        let mut random = Random(seed);
        let mut world = TestTopology::new();
        let (mut live, mut changes) = (Topology::new(), Vec::new());
        for _ in rounds(0..20) {
            for _ in 0..10 {
                change(&mut random, &mut world);
            }
            changes.clear();
            world.topology.take_changes(&mut changes);
            for change in &changes {
                match change {
                    TopologyChange::Added(definition) => {
                        let queue = live.recover(definition).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                        assert_eq!(queue.is_some(), matches!(definition, Definition::Queue { .. }));
                    }
                    TopologyChange::Removed(key) => {
                        let key = DefinitionKey::from_bytes(key.as_bytes());
                        _ = live.recover_removed(&key).expect("a key");
                    }
                }
            }
            assert_eq!(encoded(&live), encoded(&world.topology), "seed {seed}");
            let mut again = Topology::new();
            for definition in world.topology.definitions() {
                again.recover(&definition).expect("in an order in which it can be read");
            }
            assert_eq!(encoded(&again), encoded(&world.topology), "seed {seed}");
            let mut nothing = Vec::new();
            again.take_changes(&mut nothing);
            assert_eq!(nothing, []);
        }
    }
}

#[test]
fn a_recovered_binding_asks_what_the_stored_query_was_when_it_was_bound() {
    let mut world = TestTopology::new();
    world.queue("q");
    let bytes = table([("x-query-key", "mine".into())]).to_bytes();
    let bind = Bind { source: "amq.fanout", target: Target::Queue("q"), key: "", arguments: RawTable::new(&bytes) };
    let refused = world.topology.bind(world.vhost, &bind, ME, &mut |_| Err("there is none".to_owned()));
    assert_eq!(refused.expect_err("unknown").text, "PRECONDITION_FAILED - x-query-key 'mine': there is none");
    let stored = StoredQuery { language: "boolean".into(), text: "n == 2".into() };
    world.topology.bind(world.vhost, &bind, ME, &mut |_| Ok(stored.clone())).expect("bound");
    let mut again = TestTopology::new();
    for definition in world.topology.definitions() {
        again.topology.recover(&definition).expect("recovered");
    }
    assert_eq!(again.route("amq.fanout", "", &table([("n", 2.into())]), ""), ["q"]);
    assert_eq!(again.route("amq.fanout", "", &table([("n", 1.into())]), ""), [""; 0]);
}

#[test]
fn bytes_that_are_no_definition_are_refused() {
    let mut world = TestTopology::new();
    world.queue("q");
    world.exchange("x", ExchangeKind::Query, &none());
    world.bind("x", Target::Queue("q"), "k", &table([("x-query", "n = 1".into())])).expect("bound");
    let mut random = Random(7);
    for definition in world.topology.definitions() {
        let mut bytes = Vec::new();
        definition.encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(Definition::decode(&bytes[..length]).is_err());
        }
        for _ in rounds(0..2_000) {
            let mut damaged = bytes.clone();
            let place = random.below(damaged.len());
            damaged[place] = random.below(256) as u8;
            // Whatever it is taken for is checked when it is used.
            if let Ok(definition) = Definition::decode(&damaged) {
                _ = TestTopology::new().topology.recover(&definition);
            }
            let mut key = definition.key().as_bytes().to_vec();
            let place = random.below(key.len());
            key[place] = random.below(256) as u8;
            _ = TestTopology::new().topology.recover_removed(&DefinitionKey::from_bytes(&key));
        }
    }
}
