//! Hit counts of fields queries (the OpenAMQ paper): how many criteria of each are met, without asking each query.
//!
//! For every field a list of the criteria that ask for its presence, and one for each value that is asked for. A message
//! collects the lists of its fields; a query is in them as often as it has criteria that are met. Made when hits are
//! first asked for, and kept.

use hashbrown::HashMap;

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::message::{Message, Resolved, lookup};
use crate::query::Query;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, PropertyName, Reference};

use crate::index::Hit;
use crate::index::compile::builder::Slot;
use crate::index::compile::interner::Scalar;
use crate::index::segment::Segment;

/// A value as the lists know it: [`Scalar`] with a text of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Text(Box<str>),
    Bits(u8, u64),
}

impl From<Scalar<'_>> for Wanted {
    fn from(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Text(text.into()),
            Scalar::Bits(kind, bits) => Self::Bits(kind, bits),
        }
    }
}

/// A look-up key without a copy of the text.
#[derive(PartialEq, Eq)]
struct Seen<'a>(Scalar<'a>);

impl std::hash::Hash for Seen<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // As `Wanted` derives it: the variant, then what is in it.
        match self.0 {
            Scalar::Text(text) => (0_isize, text).hash(state),
            Scalar::Bits(kind, bits) => (1_isize, kind, bits).hash(state),
        }
    }
}

impl hashbrown::Equivalent<Wanted> for Seen<'_> {
    fn equivalent(&self, wanted: &Wanted) -> bool {
        match (self.0, wanted) {
            (Scalar::Text(a), Wanted::Text(b)) => *a == **b,
            (Scalar::Bits(a, b), Wanted::Bits(c, d)) => (a, b) == (*c, *d),
            _ => false,
        }
    }
}

/// Who asks for a field: places in [`FieldsIndex::slots`], once for each criterion.
#[derive(Debug, Default)]
struct Field {
    present: Vec<u32>,
    values: HashMap<Wanted, Vec<u32>>,
}

/// The criteria of a segment's fields queries.
#[derive(Debug, Default)]
pub struct FieldsIndex {
    fields: HashMap<Box<str>, Field>,
    /// Queries whose criteria are all in `fields`, with how many they have.
    slots: Vec<(Slot, usize)>,
    /// Some name may reach into mappings, and is looked up by all its parts.
    has_dots: bool,
    /// Queries that have other criteria: asked one by one.
    others: Vec<Slot>,
}

impl FieldsIndex {
    fn of(segment: &Segment) -> Result<Self, EngineError> {
        let mut index = Self::default();
        // By the first of their subscriptions, so that what is met comes in the order of ids where each has one.
        let mut slots = Vec::new();
        for slot in segment.fields()? {
            slots.push((segment.id(segment.places(slot)?.start)?, slot));
        }
        slots.sort_unstable();
        for (_, slot) in slots {
            let query = segment.decode(slot)?;
            index.add(slot, &query);
        }
        Ok(index)
    }

    fn add(&mut self, slot: Slot, query: &Query) {
        let Some(criteria) = query.criteria().iter().map(criterion).collect::<Option<Vec<_>>>() else {
            self.others.push(slot);
            return;
        };
        let place = u32::try_from(self.slots.len()).expect("fewer than 2^32 queries fit in memory");
        self.slots.push((slot, criteria.len()));
        for (name, wanted) in criteria {
            self.has_dots |= name.contains('.');
            let field = self.fields.entry(name.into()).or_default();
            match wanted {
                None => field.present.push(place),
                Some(wanted) => field.values.entry(wanted).or_default().push(place),
            }
        }
    }

    /// The places of all criteria that `message` meets, in no particular order.
    fn met(&self, message: &Message<'_>) -> Vec<u32> {
        let mut met = Vec::new();
        if self.fields.len() <= message.properties.len() || self.has_dots {
            for (name, field) in &self.fields {
                if let Some(found) = lookup(message.properties, name) {
                    field.collect(&found, &mut met);
                }
            }
        } else {
            for (name, value) in message.properties {
                if let Some((field, found)) = self.fields.get(name).zip(Resolved::of(value)) {
                    field.collect(&found, &mut met);
                }
            }
        }
        met
    }
}

impl Field {
    fn collect(&self, found: &Resolved<'_>, met: &mut Vec<u32>) {
        met.extend_from_slice(&self.present);
        let mut collect = |scalar| {
            if let Some(asking) = self.values.get(&Seen(scalar)) {
                met.extend_from_slice(asking);
            }
        };
        match found {
            Resolved::One(value) => Scalar::of(value).into_iter().for_each(collect),
            Resolved::Many(values) => {
                // A criterion is met by any of the elements, and once.
                let scalars = values.iter().filter_map(|value| Scalar::of(value));
                let distinct: hashbrown::HashSet<_> = scalars.collect();
                distinct.into_iter().for_each(&mut collect);
            }
        }
    }
}

/// The field that a criterion asks for, and the value; None when it is another kind of predicate.
fn criterion(expr: &Expr) -> Option<(&str, Option<Wanted>)> {
    let Expr::Predicate(predicate) = expr else { return None };
    let (reference, wanted) = match predicate {
        Predicate::Exists(reference) => (reference, None),
        Predicate::Compare(Operand::Reference(reference), Comparison::Equal, Operand::Literal(value)) => {
            (reference, Some(Scalar::of_literal(value)?.into()))
        }
        _ => return None,
    };
    match reference {
        Reference::Property(PropertyName { text, any_case: false }) => Some((text, wanted)),
        _ => None,
    }
}

impl Segment {
    /// Append the fields queries of which at least one criterion is true of `message`, in no particular order.
    ///
    /// Cost: a look-up for each field that is asked for, and a step for each criterion that is met.
    ///
    /// # Errors
    /// A damaged file.
    pub fn hits_into(
        &self,
        message: &Message<'_>,
        hierarchies: &Hierarchies,
        version: u64,
        hits: &mut Vec<Hit>,
    ) -> Result<(), EngineError> {
        let index = match self.fields_index.get() {
            Some(index) => index,
            None => {
                let index = FieldsIndex::of(self)?;
                self.fields_index.get_or_init(|| index)
            }
        };
        let sections = self.index()?;
        let mut push = |slot, count, criteria| {
            self.for_each_id(&sections, slot, version, |id| hits.push(Hit { id, hits: count, criteria }))
        };
        let mut met = index.met(message);
        met.sort_unstable();
        for run in met.chunk_by(|a, b| a == b) {
            let (slot, criteria) = index.slots[run[0] as usize];
            push(slot, run.len(), criteria)?;
        }
        for &slot in &index.others {
            let query = self.query(slot)?;
            if let Some((count, criteria)) = count_hits(query, message, hierarchies) {
                push(slot, count, criteria)?;
            }
        }
        Ok(())
    }
}

/// How many criteria of `query` are true of `message`, and how many there are; None when none is.
pub fn count_hits(query: &Query, message: &Message<'_>, hierarchies: &Hierarchies) -> Option<(usize, usize)> {
    let criteria = query.criteria();
    let hits = criteria.iter().filter(|expr| expr.evaluate(message, Some(hierarchies)) == Some(true)).count();
    (hits > 0).then_some((hits, criteria.len()))
}
