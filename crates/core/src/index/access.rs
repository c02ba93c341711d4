//! Access keys: a query is filed under necessary equalities (paper 004, ITMO: the baseline of one hash predicate a
//! query), and a message asks for the keys of its values. Whatever is found is evaluated in full.
//!
//! A set of keys is *necessary* when the query can only be true of a message that has one of them:
//! for `name = constant` and `name IN (...)` the values; for AND the keys of any operand; for OR those of all operands
//! together; for NOT none. The tree is never expanded.

use crate::message::{Found, Message, Properties, Value, lookup};
use crate::query::expr::{Comparison, Expr, Name, Operand, Predicate, Reference};
use crate::topic::TopicPattern;

use super::hash::AttributeHash;

/// A query is filed under at most this many keys; one that needs more is walked for every message.
pub const KEYS_MAX: usize = 256;

/// What a key asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'q> {
    /// The topic of the message.
    Topic,
    /// A property, by its name.
    Property(&'q str),
}

/// One necessary equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessKey<'q> {
    /// Whose value it is.
    pub attribute: Attribute<'q>,
    /// Attribute and value, hashed.
    pub hash: u64,
    /// A Boolean has two values: a poor key.
    pub is_bool: bool,
}

/// The cheapest necessary keys of `expr`, each once: none at all when it is never true, None when it has no such set
/// within [`KEYS_MAX`]. `share` estimates which part of all messages has a key. Cost: linear in the tree.
pub fn necessary_keys<'q>(expr: &'q Expr, share: &impl Fn(&AccessKey<'q>) -> f64) -> Option<Vec<AccessKey<'q>>> {
    let mut keys = match expr {
        Expr::Predicate(predicate) => keys_of_predicate(predicate)?,
        Expr::Not(_) => return None,
        Expr::And(children) => {
            let cost = |keys: &Vec<AccessKey<'q>>| keys.iter().map(share).sum::<f64>();
            let choices = children.iter().filter_map(|child| necessary_keys(child, share));
            choices.map(|keys| (cost(&keys), keys)).min_by(|a, b| a.0.total_cmp(&b.0))?.1
        }
        Expr::Or(children) => {
            let mut together = Vec::new();
            for child in children {
                together.extend(necessary_keys(child, share)?);
                if together.len() > KEYS_MAX {
                    return None;
                }
            }
            together
        }
    };
    keys.sort_unstable_by_key(|key| key.hash);
    keys.dedup_by_key(|key| key.hash);
    (keys.len() <= KEYS_MAX).then_some(keys)
}

fn keys_of_predicate(predicate: &Predicate) -> Option<Vec<AccessKey<'_>>> {
    match predicate {
        Predicate::Constant(false) => Some(Vec::new()),
        Predicate::Truth(reference) => keys_of_values(reference, &[Value::Bool(true)]),
        Predicate::Compare(Operand::Reference(reference), Comparison::Equal, Operand::Literal(value))
        | Predicate::Compare(Operand::Literal(value), Comparison::Equal, Operand::Reference(reference)) => {
            keys_of_values(reference, std::slice::from_ref(value))
        }
        Predicate::In(Operand::Reference(reference), values) => keys_of_values(reference, values.values()),
        Predicate::Topic(pattern) => key_of_topic(pattern).map(|key| vec![key]),
        _ => None,
    }
}

/// The keys of `reference` being one of `values`; none for the body, nor for names without regard to case.
fn keys_of_values<'q>(reference: &'q Reference, values: &[Value]) -> Option<Vec<AccessKey<'q>>> {
    let (attribute, hash) = match reference {
        Reference::Topic => (Attribute::Topic, AttributeHash::TOPIC),
        Reference::Property(Name { text, any_case: false }) => {
            (Attribute::Property(text), AttributeHash::property(text))
        }
        Reference::Property(_) | Reference::Body => return None,
    };
    let key = |value| {
        let is_bool = matches!(value, &Value::Bool(_));
        hash.value(value).map(|hash| AccessKey { attribute, hash, is_bool })
    };
    (values.len() <= KEYS_MAX).then(|| values.iter().map(key).collect())?
}

/// A pattern without wildcards is the one topic that it spells.
fn key_of_topic(pattern: &TopicPattern) -> Option<AccessKey<'static>> {
    let has_wildcard = pattern.text().split('.').any(|word| matches!(word, "*" | "#"));
    let hash = AttributeHash::TOPIC.text(pattern.text());
    (!has_wildcard).then_some(AccessKey { attribute: Attribute::Topic, hash, is_bool: false })
}

/// The keys that `message` has among those of `names`, ascending, each once, into `probes`.
///
/// Asks for each of the names, `name_count` in all; or goes through the message's own properties where they are fewer
/// and none is nested, so that a name reaches no further than a look-up by key does.
///
/// # Errors
/// What reading a name gives.
pub fn probe<'n, E>(
    message: &Message<'_>,
    name_count: usize,
    names: impl Iterator<Item = Result<&'n str, E>>,
    probes: &mut Vec<u64>,
) -> Result<(), E> {
    probes.clear();
    probes.push(AttributeHash::TOPIC.text(message.topic));
    if name_count > message.properties.len() && is_flat(message.properties) {
        for (name, value) in message.properties {
            probe_value(AttributeHash::property(name), value, probes);
        }
    } else {
        for name in names {
            let name = name?;
            match lookup(message.properties, name) {
                None => {}
                Some(Found::One(value)) => probe_value(AttributeHash::property(name), value, probes),
                Some(Found::Many(values)) => {
                    let attribute = AttributeHash::property(name);
                    values.into_iter().for_each(|value| probe_value(attribute, value, probes));
                }
            }
        }
    }
    probes.sort_unstable();
    probes.dedup();
    Ok(())
}

fn probe_value(attribute: AttributeHash, value: &Value, probes: &mut Vec<u64>) {
    match value {
        Value::List(elements) => elements.iter().for_each(|element| probe_value(attribute, element, probes)),
        scalar => probes.extend(attribute.value(scalar)),
    }
}

fn is_flat(properties: &Properties) -> bool {
    fn without_mapping(value: &Value) -> bool {
        match value {
            Value::Map(_) => false,
            Value::List(elements) => elements.iter().all(without_mapping),
            _ => true,
        }
    }
    properties.values().all(without_mapping)
}
