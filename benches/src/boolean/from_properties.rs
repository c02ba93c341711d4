//! One access predicate, given messages as tamis is: with names and texts, which two hash tables turn into numbers.

use hashbrown::HashMap;
use tamis_core::message::Value;

use super::BooleanMatcher;
use super::access_predicate::AccessPredicate;
use super::filter::{ABSENT, BooleanFilter, FilterAttribute, FilterMessage, Schema};
use crate::stamps::Stamps;

/// The number of a value that no filter names.
const UNKNOWN: i64 = i64::MAX;

/// A hash table of conjunctions behind tables of names and texts.
#[derive(Debug)]
pub struct FromProperties {
    names: HashMap<String, FilterAttribute>,
    texts: HashMap<String, i64>,
    matcher: AccessPredicate,
}

impl BooleanMatcher for FromProperties {
    const NAME: &'static str = "access predicate from text";
    type Scratch = (Stamps, Vec<i64>);

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        let names = schema.columns.iter().map(|column| column.name.clone());
        let texts = schema.texts.iter().cloned();
        Self {
            names: names.zip(0..).collect(),
            texts: texts.zip(0..).collect(),
            matcher: AccessPredicate::build(filters, schema),
        }
    }

    fn match_into(&self, message: &FilterMessage, (seen, values): &mut Self::Scratch, matched: &mut Vec<u32>) {
        values.clear();
        values.resize(self.names.len(), ABSENT);
        for (name, value) in &message.properties {
            if let Some(attribute) = self.names.get(&**name) {
                values[usize::from(*attribute)] = match value {
                    Value::Text(text) => self.texts.get(&**text).copied().unwrap_or(UNKNOWN),
                    Value::Bool(truth) => i64::from(*truth),
                    Value::Int(number) => *number,
                    _ => UNKNOWN,
                };
            }
        }
        self.matcher.match_values(values, seen, matched);
    }
}
