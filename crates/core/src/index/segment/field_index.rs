//! The criteria of a segment's fields queries: a list of queries for each field and each value that is asked for.

use hashbrown::HashMap;

use crate::index::ids::QueryId;
use crate::index::term::{Scalar, SymbolTerm};
use crate::message::{Message, Resolved, Value};
use crate::query::Query;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, PropertyName, Reference};

/// A [`Scalar`] that owns its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum OwnedScalar {
    Text(Box<str>),
    Bits(u8, u64),
}

impl From<Scalar<'_>> for OwnedScalar {
    fn from(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Text(text.into()),
            Scalar::Bits(kind, bits) => Self::Bits(kind, bits),
        }
    }
}

impl OwnedScalar {
    fn is_time(&self) -> bool {
        matches!(self, Self::Bits(kind, _) if SymbolTerm::is_time(*kind))
    }
}

/// A key to look up an [`OwnedScalar`] without a copy of the text.
#[derive(PartialEq, Eq)]
struct BorrowedScalar<'a>(Scalar<'a>);

impl std::hash::Hash for BorrowedScalar<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // As `OwnedScalar` derives it: the variant, then its contents.
        match self.0 {
            Scalar::Text(text) => (0_isize, text).hash(state),
            Scalar::Bits(kind, bits) => (1_isize, kind, bits).hash(state),
        }
    }
}

impl hashbrown::Equivalent<OwnedScalar> for BorrowedScalar<'_> {
    fn equivalent(&self, wanted: &OwnedScalar) -> bool {
        match (self.0, wanted) {
            (Scalar::Text(a), OwnedScalar::Text(b)) => *a == **b,
            (Scalar::Bits(a, b), OwnedScalar::Bits(c, d)) => (a, b) == (*c, *d),
            _ => false,
        }
    }
}

/// The criteria on one field: indexes of [`FieldIndex::queries`], one per criterion.
#[derive(Debug, Default)]
struct FieldCriteria {
    present: Vec<u32>,
    values: HashMap<OwnedScalar, Vec<u32>>,
    /// True when one of the values is a time.
    has_times: bool,
}

impl FieldCriteria {
    fn bytes(&self) -> usize {
        let text_bytes = |wanted: &OwnedScalar| if let OwnedScalar::Text(text) = wanted { text.len() } else { 0 };
        let value_bytes = |(wanted, indexes): (&OwnedScalar, &Vec<u32>)| {
            size_of_val(wanted) + text_bytes(wanted) + size_of_val(indexes) + size_of_val(&**indexes)
        };
        size_of::<Self>() + size_of_val(&*self.present) + self.values.iter().map(value_bytes).sum::<usize>()
    }
}

/// The criteria of a segment's fields queries.
#[derive(Debug, Default)]
pub struct FieldIndex {
    fields: HashMap<Box<str>, FieldCriteria>,
    /// The queries whose criteria are all in `fields`, with the number of these.
    pub queries: Vec<(QueryId, usize)>,
    /// True when some name may lead into mappings, and is looked up by all its parts.
    has_dots: bool,
    /// The queries with other criteria, which are evaluated one by one.
    pub others: Vec<QueryId>,
}

impl FieldIndex {
    /// The memory, in bytes.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, criteria)| size_of_val(name) + name.len() + criteria.bytes());
        size_of_val(&*self.queries) + size_of_val(&*self.others) + fields.sum::<usize>()
    }

    /// Add a query.
    pub fn add(&mut self, id: QueryId, query: &Query) {
        let Some(criteria) = query.criteria().iter().map(criterion).collect::<Option<Vec<_>>>() else {
            self.others.push(id);
            return;
        };
        let index = u32::try_from(self.queries.len()).expect("fewer than 2^32 queries fit in memory");
        self.queries.push((id, criteria.len()));
        for (name, wanted) in criteria {
            self.has_dots |= name.contains('.');
            let field = self.fields.entry(name.into()).or_default();
            match wanted {
                None => field.present.push(index),
                Some(wanted) => {
                    field.has_times |= wanted.is_time();
                    field.values.entry(wanted).or_default().push(index);
                }
            }
        }
    }

    /// The index of a query for each criterion that `message` meets, in no particular order.
    pub fn met(&self, message: &Message<'_>) -> Vec<u32> {
        let mut met = Vec::new();
        if self.fields.len() <= message.properties.len() || self.has_dots {
            for (name, field) in &self.fields {
                if let Some(values) = message.look_up(name, false) {
                    field.collect(&values, &mut met);
                }
            }
        } else {
            for (name, value) in message.properties {
                if let Some((field, values)) = self.fields.get(name).zip(Resolved::of(value)) {
                    field.collect(&values, &mut met);
                }
            }
        }
        met
    }
}

impl FieldCriteria {
    fn collect(&self, values: &Resolved<'_>, met: &mut Vec<u32>) {
        met.extend_from_slice(&self.present);
        let mut collect = |scalar| {
            if let Some(asking) = self.values.get(&BorrowedScalar(scalar)) {
                met.extend_from_slice(asking);
            }
        };
        let values = match values {
            Resolved::One(value) => std::slice::from_ref(value),
            Resolved::Many(values) => values.as_slice(),
        };
        let times: Vec<_> =
            if self.has_times { values.iter().filter_map(|value| value.as_time()).collect() } else { Vec::new() };
        match (values, times.as_slice()) {
            ([value], []) => Scalar::of(value).into_iter().for_each(collect),
            _ => {
                // Any of the elements meets a criterion, and only once.
                let scalars = values.iter().copied().chain(&times).filter_map(Scalar::of);
                let distinct: hashbrown::HashSet<_> = scalars.collect();
                distinct.into_iter().for_each(&mut collect);
            }
        }
    }
}

/// The field that a criterion asks for, and the value; None for other kinds of predicates.
fn criterion(expr: &Expr) -> Option<(&str, Option<OwnedScalar>)> {
    let Expr::Predicate(predicate) = expr else { return None };
    let (reference, wanted) = match predicate {
        Predicate::Exists(reference) => (reference, None),
        Predicate::Compare(Operand::Reference(reference), Comparison::Equal, Operand::Literal(value))
            if !matches!(value, Value::Day(_)) =>
        {
            (reference, Some(Scalar::of_literal(value)?.into()))
        }
        _ => return None,
    };
    match reference {
        Reference::Property(PropertyName { text, any_case: false }) => Some((text, wanted)),
        _ => None,
    }
}
