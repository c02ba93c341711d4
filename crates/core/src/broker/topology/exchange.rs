//! An exchange: the conditions of its bindings, and the engine that matches those with queries.
//!
//! Bindings with the same key and arguments are one [`Condition`] with several destinations: routing a message to a thousand
//! queues that are bound alike takes one look-up and a copy.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;

use crate::amqp::{AmqpError, RawTable};
use crate::hierarchy::Hierarchies;
use crate::index::{Engine, NameFilter, SubscriptionId};
use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, Reference};
use crate::query::price::Price;
use crate::topic::{TopicDialect, TopicPattern};

use super::conditions::filter::{self, StoredQuery};
use super::conditions::headers;
use super::conditions::names::Needs;
use super::settings::{ALTERNATE, ExchangeKind, ExchangeSettings};
use super::{BindingId, ConditionId, Destination, Owner, VhostId, errors};
use crate::broker::sharded_table::ShardedTable;
use crate::broker::slab::Slab;

/// An exchange of a vhost.
#[derive(Debug)]
pub(super) struct Exchange {
    pub vhost: VhostId,
    pub name: Arc<str>,
    pub kind: ExchangeKind,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Box<[u8]>,
    pub alternate: Option<Box<str>>,
    /// Bindings of other exchanges that lead here.
    pub incoming: Vec<BindingId>,
    /// The number of its bindings, without those to removed queues.
    pub binding_count: usize,
    /// Whether the exchange was removed, and its bindings are being taken away.
    pub is_gone: bool,
    pub conditions: Slab<ConditionId, Condition>,
    /// Conditions by routing key and arguments.
    by_identity: ShardedTable<ConditionId>,
    hasher: DefaultHashBuilder,
    /// Conditions that every message meets.
    pub always: Vec<ConditionId>,
    /// The number of conditions that are met by their key alone.
    pub by_key: usize,
    /// Conditions that are queries.
    pub queries: Option<Box<ConditionQueries>>,
}

/// The condition of all bindings with the same key and arguments, and their destinations.
#[derive(Debug)]
pub(super) struct Condition {
    pub key: Box<str>,
    /// The fields of the table, sorted by name: the same arguments in another order are the same binding.
    pub arguments: Box<[u8]>,
    pub stored: Option<Box<StoredQuery>>,
    pub destinations: SmallVec<[Destination; 2]>,
    matched_by: MatchedBy,
    /// The price of its query, and the connection that made it.
    pub price: Price,
    pub connection: Owner,
}

/// The index by which messages meet a condition.
#[derive(Clone, Copy, Debug)]
enum MatchedBy {
    /// Every message meets it: its index in `always`.
    Always(u32),
    /// No message meets it.
    Never,
    /// Messages with its key meet it.
    Key,
    /// Messages that the engine matches meet it.
    Query(SubscriptionId, Needs),
}

/// A compiled condition, not yet in an index.
pub(super) enum CompiledCondition {
    Always,
    Never,
    Key,
    Query(Arc<Query>, Needs),
}

impl CompiledCondition {
    /// Its query, if it is one.
    pub fn query(&self) -> Option<&Query> {
        match self {
            Self::Query(query, _) => Some(query),
            Self::Always | Self::Never | Self::Key => None,
        }
    }
}

/// The settings of the engine of an exchange, which is made for its first query.
pub(super) struct EngineOrigin {
    /// The number of the scratch buffer for matching that it uses.
    pub room: usize,
    pub hierarchies: Arc<Hierarchies>,
}

/// The conditions of an exchange that are queries: one engine, one match per message.
#[derive(Debug)]
pub(super) struct ConditionQueries {
    pub engine: Engine,
    conditions: ShardedTable<(SubscriptionId, ConditionId)>,
    /// The numbers of conditions that need properties, text and JSON.
    counts: [usize; 3],
    /// The names of properties that make a difference to a query, and perhaps others.
    pub names: NameFilter,
    /// The scratch buffer for matching that it uses: topics are cached there, and two engines that see the same topics would
    /// evict each other's.
    pub room: usize,
    /// Queries of conditions that were removed, and that the engine still has.
    removed: Vec<SubscriptionId>,
}

/// The hash of an id, which clients do not choose.
fn hash(id: SubscriptionId) -> u64 {
    FixedState::default().hash_one(id)
}

impl ConditionQueries {
    fn new(origin: &EngineOrigin) -> Self {
        let engine = Engine::quick_to_change();
        engine.set_hierarchies(Arc::clone(&origin.hierarchies));
        Self {
            engine,
            conditions: ShardedTable::default(),
            counts: [0; 3],
            names: NameFilter::default(),
            room: origin.room,
            removed: Vec::new(),
        }
    }

    /// The condition whose query the engine has under this id.
    #[inline]
    pub fn condition(&self, id: SubscriptionId) -> ConditionId {
        let found = self.conditions.find(hash(id), |(other, _)| *other == id);
        found.expect("an engine has the queries of conditions").1
    }

    /// The parts of a message that at least one of the queries needs.
    pub fn needs(&self) -> Needs {
        let [properties, text, json] = self.counts.map(|count| count > 0);
        Needs { properties, text, json }
    }

    fn count(&mut self, needs: Needs, change: impl Fn(&mut usize)) {
        for (count, needed) in self.counts.iter_mut().zip([needs.properties, needs.text, needs.json]) {
            if needed {
                change(count);
            }
        }
    }
}

impl Exchange {
    pub fn new(vhost: VhostId, name: Arc<str>, settings: &ExchangeSettings<'_>) -> Result<Self, AmqpError> {
        let alternate = match settings.arguments.get(ALTERNATE) {
            None => None,
            Some(value) => Some(value.as_str().ok_or_else(|| {
                errors::precondition(&format!("invalid arg '{ALTERNATE}' for exchange '{name}': expected a name"))
            })?),
        };
        Ok(Self {
            vhost,
            kind: settings.kind,
            durable: settings.durable,
            auto_delete: settings.auto_delete,
            internal: settings.internal,
            arguments: settings.arguments.as_bytes().into(),
            alternate: alternate.map(Box::from),
            name,
            incoming: Vec::new(),
            binding_count: 0,
            is_gone: false,
            conditions: Slab::default(),
            by_identity: ShardedTable::default(),
            hasher: DefaultHashBuilder::default(),
            always: Vec::new(),
            by_key: 0,
            queries: None,
        })
    }

    pub fn settings(&self) -> ExchangeSettings<'_> {
        ExchangeSettings {
            kind: self.kind,
            durable: self.durable,
            auto_delete: self.auto_delete,
            internal: self.internal,
            arguments: RawTable::new(&self.arguments),
        }
    }

    fn hash(&self, key: &str, arguments: &[u8]) -> u64 {
        self.hasher.hash_one((key, arguments))
    }

    /// The condition with this key and these (sorted) arguments.
    pub fn find(&self, key: &str, arguments: &[u8]) -> Option<ConditionId> {
        let is_it = |number: &ConditionId| {
            let condition = &self.conditions[*number];
            *condition.key == *key && *condition.arguments == *arguments
        };
        self.by_identity.find(self.hash(key, arguments), is_it).copied()
    }

    /// The condition that this routing key meets by itself. Cost: a look-up.
    #[inline]
    pub fn find_key(&self, key: &str) -> Option<&Condition> {
        if self.by_key == 0 {
            return None;
        }
        let condition = &self.conditions[self.find(key, &[])?];
        matches!(condition.matched_by, MatchedBy::Key).then_some(condition)
    }

    /// Compile a condition; `hierarchies` are those that its query may follow, None for what was bound before a restart;
    /// `bytes_max` is the most that its patterns may take. Returns it with what can hardly be meant in its query, a line each.
    ///
    /// # Errors
    /// 406 for invalid arguments, with the position in a query.
    pub fn compile(
        &self,
        key: &str,
        arguments: &[u8],
        stored: Option<&StoredQuery>,
        hierarchies: Option<&Hierarchies>,
        bytes_max: usize,
    ) -> Result<(CompiledCondition, Vec<String>), AmqpError> {
        let arguments = RawTable::new(arguments);
        let (query, warnings) = match filter::parse(arguments, stored, hierarchies, bytes_max)? {
            Some(bound) => (Some((bound.expr, bound.needs)), bound.warnings),
            None => (None, Vec::new()),
        };
        Ok((compile(self.kind, key, arguments, query)?, warnings))
    }

    /// Keep a condition; `origin` is for a new engine, if this is the first query.
    pub fn add(&mut self, condition: Condition, compiled: CompiledCondition, origin: &EngineOrigin) -> ConditionId {
        let hash = self.hash(&condition.key, &condition.arguments);
        let number = self.conditions.insert(condition);
        self.conditions[number].matched_by = self.file(number, compiled, origin);
        let (conditions, hasher) = (&self.conditions, &self.hasher);
        self.by_identity.insert_unique(hash, number, |other| {
            let condition = &conditions[*other];
            hasher.hash_one((&*condition.key, &*condition.arguments))
        });
        number
    }

    fn file(&mut self, number: ConditionId, compiled: CompiledCondition, origin: &EngineOrigin) -> MatchedBy {
        match compiled {
            CompiledCondition::Never => MatchedBy::Never,
            CompiledCondition::Always => {
                self.always.push(number);
                MatchedBy::Always((self.always.len() - 1) as u32)
            }
            CompiledCondition::Key => {
                self.by_key += 1;
                MatchedBy::Key
            }
            CompiledCondition::Query(query, needs) => {
                let queries = self.queries.get_or_insert_with(|| Box::new(ConditionQueries::new(origin)));
                let id = queries.engine.add(query);
                queries.conditions.insert_unique(hash(id), (id, number), |(id, _)| hash(*id));
                queries.count(needs, |count| *count += 1);
                queries.names = queries.engine.names_asked();
                MatchedBy::Query(id, needs)
            }
        }
    }

    /// Remove a condition, which has lost its last destination. If it is a query, the engine has it until
    /// [`Self::remove_queries`].
    pub fn remove(&mut self, number: ConditionId) -> Condition {
        let condition = self.conditions.remove(number);
        if self.is_gone {
            return condition; // the indices go with the exchange
        }
        let hash = self.hash(&condition.key, &condition.arguments);
        self.by_identity.remove(hash, |other| *other == number);
        self.unfile(condition.matched_by);
        condition
    }

    /// Give a condition another query of the store; `origin` is for a new engine, if this is the first query.
    pub fn replace_stored(
        &mut self,
        number: ConditionId,
        stored: &StoredQuery,
        (compiled, price): (CompiledCondition, Price),
        origin: &EngineOrigin,
    ) {
        let before = self.conditions[number].matched_by;
        // The new query is added first, so that the engine stays when there is no other query.
        let filed = self.file(number, compiled, origin);
        let condition = &mut self.conditions[number];
        condition.matched_by = filed;
        condition.stored = Some(Box::new(stored.clone()));
        condition.price = price;
        self.unfile(before);
        self.remove_queries();
    }

    /// Take a condition out of its index.
    fn unfile(&mut self, matched_by: MatchedBy) {
        match matched_by {
            MatchedBy::Never => {}
            MatchedBy::Key => self.by_key -= 1,
            MatchedBy::Always(index) => {
                self.always.swap_remove(index as usize);
                if let Some(moved) = self.always.get(index as usize) {
                    self.conditions[*moved].matched_by = MatchedBy::Always(index);
                }
            }
            MatchedBy::Query(id, needs) => self.remove_query(id, needs),
        }
    }

    fn remove_query(&mut self, id: SubscriptionId, needs: Needs) {
        let Some(queries) = &mut self.queries else { return };
        queries.conditions.remove(hash(id), |(other, _)| *other == id);
        if queries.conditions.len() == 0 {
            return self.discard_queries();
        }
        queries.count(needs, |count| *count -= 1);
        queries.removed.push(id);
    }

    /// Drop the engine, in a thread if it is large.
    pub fn discard_queries(&mut self) {
        if let Some(queries) = self.queries.take() {
            queries.engine.discard();
        }
    }

    /// Take the queries of removed conditions out of the engine, all at once: each of its changes makes a version.
    pub fn remove_queries(&mut self) {
        if let Some(queries) = self.queries.as_mut().filter(|queries| !queries.removed.is_empty()) {
            let removed = queries.engine.remove_all(&mut queries.removed);
            removed.expect("an engine in memory has no file that could be damaged");
            queries.removed.clear();
            queries.names = queries.engine.names_asked();
        }
    }
}

impl Condition {
    /// A condition without destinations that is in no index yet.
    pub fn new(key: &str, arguments: &[u8], stored: Option<StoredQuery>, price: Price, connection: Owner) -> Self {
        Self {
            key: key.into(),
            arguments: arguments.into(),
            stored: stored.map(Box::new),
            destinations: SmallVec::new(),
            matched_by: MatchedBy::Never,
            price,
            connection,
        }
    }
}

/// Compile the condition of a binding.
fn compile(
    kind: ExchangeKind,
    key: &str,
    arguments: RawTable<'_>,
    query: Option<(Expr, Needs)>,
) -> Result<CompiledCondition, AmqpError> {
    let (query, mut needs) = match query {
        None | Some((Expr::Predicate(Predicate::Constant(true)), _)) => (None, Needs::default()),
        Some((expr, needs)) => (Some(expr), needs),
    };
    // `find_key` looks for bindings without arguments.
    let is_plain = query.is_none() && arguments.is_empty();
    let condition = match kind {
        ExchangeKind::Fanout | ExchangeKind::Query => None,
        ExchangeKind::Address(_) => return Ok(CompiledCondition::Never),
        ExchangeKind::Direct if is_plain => return Ok(CompiledCondition::Key),
        ExchangeKind::Direct => Some(key_is(key)),
        ExchangeKind::Topic => match TopicPattern::new(key, TopicDialect::Amqp) {
            pattern if pattern.text() == "#" => None,
            pattern if pattern.is_literal() && is_plain => return Ok(CompiledCondition::Key),
            pattern => Some(Predicate::Topic(pattern).into()),
        },
        ExchangeKind::Headers => {
            let condition = headers::condition(arguments)?;
            needs.properties |= condition.is_some();
            condition
        }
    };
    let expr = match (condition, query) {
        (None, None) => return Ok(CompiledCondition::Always),
        (Some(Expr::Predicate(Predicate::Constant(false))), _) => return Ok(CompiledCondition::Never),
        (Some(expr), None) | (None, Some(expr)) => expr,
        (Some(condition), Some(query)) => Expr::and(vec![condition, query]),
    };
    let query = Query::again(expr).map_err(|error| errors::precondition(&format!("{error} in a binding")))?;
    Ok(CompiledCondition::Query(Arc::new(query), needs))
}

/// The routing key equals `key`: in a direct exchange, `*` has no meaning.
fn key_is(key: &str) -> Expr {
    let literal = Operand::Literal(Value::Text(key.into()));
    Predicate::Compare(Operand::Reference(Reference::Topic), Comparison::Equal, literal).into()
}
