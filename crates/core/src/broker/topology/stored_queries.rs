//! Stored queries: bindings name queries of the store by their keys, and follow their changes.

use hashbrown::{HashMap, HashSet};

use crate::amqp::{AmqpError, RawTable};

use super::conditions::filter::{self, StoredQuery};
use super::{ConditionId, ExchangeId, Topology};

/// The outcome of replacing stored queries.
#[derive(Debug, Default)]
pub struct Replaced {
    /// The number of bindings that have the new query now.
    pub bindings: usize,
    /// Keys of queries that cannot be bound, each once, and why: their bindings keep the query that they had.
    pub refused: Vec<(String, AmqpError)>,
    /// Whether more bindings have to follow: call it again, without the refused queries.
    pub has_more: bool,
}

/// Maximum number of conditions that are replaced in one call.
pub(super) const REPLACED_AT_ONCE: usize = 200;

impl Topology {
    /// Give bindings that name one of `queries` by its key its new text: some of them, where there are many. Bindings whose
    /// query was removed from the store keep its last text.
    ///
    /// Cost: a check of every condition with a stored query, and for each that changes a removal and an addition.
    pub fn replace_stored(&mut self, queries: &HashMap<String, StoredQuery>) -> Replaced {
        let mut replaced = Replaced::default();
        for (count, (exchange, number, key)) in
            self.conditions_of(queries, REPLACED_AT_ONCE + 1).into_iter().enumerate()
        {
            // A condition may have many bindings, which change together.
            if count == REPLACED_AT_ONCE || replaced.bindings >= REPLACED_AT_ONCE {
                replaced.has_more = true;
                break;
            }
            let stored = &queries[&key];
            match self.replace_query(exchange, number, stored) {
                Ok(()) => replaced.bindings += self.record_stored(exchange, number),
                Err(_) if replaced.refused.iter().any(|(refused, _)| *refused == key) => {}
                Err(error) => replaced.refused.push((key, error)),
            }
        }
        replaced
    }

    /// Give one condition its new query.
    ///
    /// # Errors
    /// 406: the query cannot be read, or is over a limit; then nothing has changed.
    fn replace_query(
        &mut self,
        exchange: ExchangeId,
        number: ConditionId,
        stored: &StoredQuery,
    ) -> Result<(), AmqpError> {
        let there = &self.exchanges[exchange];
        let (vhost, had_queries) = (there.vhost, there.queries.is_some());
        let condition = &there.conditions[number];
        let (connection, price_before, bytes_before) = (condition.connection, condition.price, condition.bytes());
        let (hierarchies, bytes_max) = (self.checked_hierarchies(), self.compiled_bytes_max());
        let (compiled, _) =
            there.compile(&condition.key, &condition.arguments, Some(stored), hierarchies, bytes_max)?;
        let price = self.admit(vhost, connection, compiled.query(), price_before)?;
        self.prices.replace(vhost, connection, price_before, price);
        let origin = self.engine_origin();
        let there = &mut self.exchanges[exchange];
        there.replace_stored(number, stored, (compiled, price), &origin);
        self.engine_count += usize::from(!had_queries && there.queries.is_some());
        self.condition_bytes = self.condition_bytes + there.conditions[number].bytes() - bytes_before;
        Ok(())
    }

    /// The keys of the store that bindings name, each once.
    #[must_use]
    pub fn stored_keys(&self) -> Vec<String> {
        let live = self.exchanges.iter().filter(|(_, exchange)| !exchange.is_gone);
        let conditions = live.flat_map(|(_, exchange)| exchange.conditions.iter());
        let stored = conditions.filter(|(_, condition)| condition.stored.is_some());
        let keys = stored.filter_map(|(_, condition)| {
            filter::stored_key(RawTable::new(&condition.arguments)).ok().flatten().map(str::to_owned)
        });
        keys.collect::<HashSet<_>>().into_iter().collect()
    }

    /// The first conditions whose text differs from that in `queries`, with the key that each names.
    fn conditions_of(
        &self,
        queries: &HashMap<String, StoredQuery>,
        count_max: usize,
    ) -> Vec<(ExchangeId, ConditionId, String)> {
        let mut conditions = Vec::new();
        for (exchange, entry) in self.exchanges.iter().filter(|(_, exchange)| !exchange.is_gone) {
            for (number, condition) in entry.conditions.iter() {
                let Some(stored) = condition.stored.as_deref() else { continue };
                let Ok(Some(key)) = filter::stored_key(RawTable::new(&condition.arguments)) else { continue };
                if queries.get(key).is_some_and(|now| now != stored) {
                    conditions.push((exchange, number, key.to_owned()));
                    if conditions.len() == count_max {
                        return conditions;
                    }
                }
            }
        }
        conditions
    }

    /// Record the bindings of a condition again, if they survive a restart. Returns the number of its bindings.
    fn record_stored(&mut self, exchange: ExchangeId, condition: ConditionId) -> usize {
        self.version += 1;
        let destinations = self.exchanges[exchange].conditions[condition].destinations.clone();
        for destination in &destinations {
            let Some(number) = self.find_binding(exchange, condition, *destination) else { continue };
            if self.survives(number) {
                self.record(|topology| topology.binding_definition(number));
            }
        }
        destinations.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::amqp::{BasicProperties, FieldValue, PropertyFields, Table};
    use crate::query::selector::{SelectorDialect, parse};

    const ME: Owner = 1;

    fn table(fields: &[(&str, &str)]) -> Vec<u8> {
        let text = |value: &str| FieldValue::Text(value.as_bytes().into());
        fields.iter().map(|(name, value)| (*name, text(value))).collect::<Table>().to_bytes()
    }

    fn selector(text: &str) -> StoredQuery {
        StoredQuery { language: "selector".into(), text: text.into() }
    }

    fn queries(pairs: &[(&str, &str)]) -> HashMap<String, StoredQuery> {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), selector(text))).collect()
    }

    struct StoredWorld {
        topology: Topology,
        vhost: VhostId,
        queues: Vec<QueueId>,
    }

    impl StoredWorld {
        /// Queues q0, q1 ... each bound to `exchange` by the stored query of one key.
        fn new(exchange: &str, keys: &[&str], now: &HashMap<String, StoredQuery>) -> Self {
            Self::of(Topology::new(), exchange, keys, now)
        }

        fn of(mut topology: Topology, exchange: &str, keys: &[&str], now: &HashMap<String, StoredQuery>) -> Self {
            let vhost = topology.add_vhost("/");
            let mut queues = Vec::new();
            for (number, key) in keys.iter().enumerate() {
                let name = format!("q{number}");
                let settings = QueueSettings {
                    durable: true,
                    exclusive: false,
                    auto_delete: false,
                    arguments: RawTable::new(&[]),
                    creator: None,
                };
                queues.push(topology.declare_queue(vhost, &name, &settings, ME, false).expect("a queue").0);
                let arguments = table(&[("x-query-key", key)]);
                let arguments = RawTable::new(&arguments);
                let bind = Bind { source: exchange, target: Target::Queue(&name), key: "", arguments };
                topology.bind(vhost, &bind, ME, &mut |key| Ok(now[key].clone())).expect("bound");
            }
            topology.take_changes(&mut Vec::new());
            Self { topology, vhost, queues }
        }

        /// The numbers of the queues that a message with header `n` goes to.
        fn route(&mut self, exchange: &str, n: i32) -> Vec<usize> {
            let headers = [("n", FieldValue::I32(n))].into_iter().collect::<Table>().to_bytes();
            let mut bytes = Vec::new();
            PropertyFields { headers: Some(RawTable::new(&headers)), ..PropertyFields::default() }.encode(&mut bytes);
            let published = Published {
                exchange,
                routing_key: "",
                further_keys: &[],
                properties: BasicProperties::from_checked(&bytes),
                body: b"",
            };
            let mut found = Vec::new();
            let mut scratch = RouteScratch::default();
            self.topology.route(self.vhost, &published, &mut scratch, &mut found).expect("routed");
            let mut positions: Vec<_> =
                found.iter().map(|id| self.queues.iter().position(|queue| queue == id).expect("a queue")).collect();
            positions.sort_unstable();
            positions
        }
    }

    #[test]
    fn bindings_ask_what_the_store_says_now_and_no_other_changes() {
        for exchange in ["amq.fanout", "amq.headers", "amq.topic"] {
            let mut world = StoredWorld::new(exchange, &["a", "a", "b"], &queries(&[("a", "n = 1"), ("b", "n = 1")]));
            assert_eq!(world.route(exchange, 1), [0, 1, 2], "{exchange}");
            // To all messages, to none, and to some.
            for (text, at_one, at_two) in
                [("n = 2", vec![2], vec![0, 1]), ("TRUE", vec![0, 1, 2], vec![0, 1]), ("n = 1", vec![0, 1, 2], vec![])]
            {
                let replaced = world.topology.replace_stored(&queries(&[("a", text), ("c", "TRUE")]));
                assert_eq!((replaced.bindings, replaced.refused.len()), (2, 0));
                assert_eq!((world.route(exchange, 1), world.route(exchange, 2)), (at_one, at_two), "{exchange} {text}");
                assert_eq!(world.topology.replace_stored(&queries(&[("a", text)])).bindings, 0, "it says so already");
            }
        }
    }

    #[test]
    fn many_bindings_follow_their_query_some_at_a_time() {
        let keys = vec!["a"; 2 * REPLACED_AT_ONCE + 50];
        let mut world = StoredWorld::new("amq.fanout", &keys, &queries(&[("a", "n = 1")]));
        // Bindings with the same condition change together, so that these have conditions of their own.
        for (number, queue) in world.queues.clone().into_iter().enumerate() {
            let arguments = table(&[("x-query-key", "a")]);
            let (key, name) = (number.to_string(), format!("q{number}"));
            let bind = Bind {
                source: "amq.topic",
                target: Target::Queue(&name),
                key: &key,
                arguments: RawTable::new(&arguments),
            };
            world.topology.bind(world.vhost, &bind, ME, &mut |_| Ok(selector("n = 1"))).expect("bound");
            assert!(world.topology.queue_info(queue).is_some());
        }
        let changed = queries(&[("a", "n = 2")]);
        let mut calls = Vec::new();
        loop {
            let replaced = world.topology.replace_stored(&changed);
            calls.push(replaced.bindings);
            if !replaced.has_more {
                break;
            }
        }
        assert!(calls.len() >= 3, "{calls:?}");
        assert_eq!(calls.iter().sum::<usize>(), 2 * keys.len());
        assert_eq!(world.route("amq.fanout", 2).len(), keys.len());
    }

    #[test]
    fn a_query_that_cannot_be_bound_is_told_and_changes_nothing() {
        let mut world = StoredWorld::new("amq.fanout", &["a", "a", "b"], &queries(&[("a", "n = 1"), ("b", "n = 2")]));
        let replaced = world.topology.replace_stored(&queries(&[("a", "n >> 1"), ("b", "n = 3")]));
        assert_eq!((replaced.bindings, replaced.refused.len()), (1, 1));
        assert_eq!(replaced.refused[0].0, "a");
        assert!(replaced.refused[0].1.text.contains("position 3"), "{}", replaced.refused[0].1.text);
        assert_eq!((world.route("amq.fanout", 1), world.route("amq.fanout", 3)), (vec![0, 1], vec![2]));
    }

    /// A query that takes more memory with each value.
    fn of_values(count: usize) -> String {
        format!("n IN ({})", (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn the_queries_of_a_connection_that_is_gone_can_become_larger_and_smaller() {
        let at_first = queries(&[("a", "n = 1"), ("b", &of_values(300))]);
        let mut world = StoredWorld::new("amq.fanout", &["a", "b"], &at_first);
        let before = world.topology.prices.bytes();
        world.topology.forget_connection(ME);
        for count in [3, 100, 1, 200, 2, 50] {
            let replaced =
                world.topology.replace_stored(&queries(&[("a", &of_values(count)), ("b", &of_values(count))]));
            assert_eq!((replaced.bindings, replaced.refused.len()), (2, 0), "{count}: {:?}", replaced.refused);
            assert_eq!(world.route("amq.fanout", 0), [0, 1]);
        }
        world.topology.replace_stored(&at_first);
        assert_eq!(world.topology.prices.bytes(), before);
    }

    #[test]
    fn a_query_takes_the_place_of_the_one_before_within_the_limits() {
        let bytes = |text: &str| parse(text, SelectorDialect::Jms).expect("a query").price().bytes;
        let (small, large) = (of_values(100), of_values(300));
        let limits = QueryLimits { connection_bytes_max: bytes(&small) + 1000, ..QueryLimits::default() };
        let topology = Topology::with_limits(limits);
        let mut world = StoredWorld::of(topology, "amq.fanout", &["a"], &queries(&[("a", &small)]));
        let other = small.replace("99", "9999");
        assert_eq!(world.topology.replace_stored(&queries(&[("a", &other)])).refused.len(), 0, "it is as large");
        let refused = world.topology.replace_stored(&queries(&[("a", &large)])).refused;
        assert!(refused[0].1.text.contains("those of the connection"), "{}", refused[0].1.text);
        assert_eq!(world.topology.replace_stored(&queries(&[("a", &small)])).refused.len(), 0, "nothing was counted");
    }

    #[test]
    fn what_changed_is_recorded_under_the_same_key() {
        let mut world = StoredWorld::new("amq.fanout", &["a"], &queries(&[("a", "n = 1")]));
        assert_eq!(world.topology.stored_keys(), ["a"]);
        let before: Vec<_> = world.topology.definitions().map(|definition| definition.key()).collect();
        world.topology.replace_stored(&queries(&[("a", "n = 2")]));
        let mut changes = Vec::new();
        world.topology.take_changes(&mut changes);
        let [TopologyChange::Added(definition)] = &changes[..] else { panic!("{changes:?}") };
        assert!(before.contains(&definition.key()));
        let mut again = StoredWorld { topology: Topology::new(), ..world };
        for definition in world.topology.definitions() {
            again.topology.recover(&definition).expect("recovered");
        }
        assert_eq!((again.route("amq.fanout", 1), again.route("amq.fanout", 2)), (vec![], vec![0]));
    }

    #[test]
    fn bindings_can_be_taken_away_after_their_query_has_changed() {
        let mut world = StoredWorld::new("amq.fanout", &["a", "b"], &queries(&[("a", "TRUE"), ("b", "TRUE")]));
        world.topology.replace_stored(&queries(&[("a", "n = 1")]));
        let arguments = table(&[("x-query-key", "a")]);
        let arguments = RawTable::new(&arguments);
        let bind = Bind { source: "amq.fanout", target: Target::Queue("q0"), key: "", arguments };
        assert_eq!(world.topology.unbind(world.vhost, &bind, ME), Ok(true));
        assert_eq!(world.route("amq.fanout", 1), [1]);
    }
}
