//! Filters and messages in the form that the algorithms read.
//!
//! NOT has been pushed down to the predicates, by De Morgan's laws, which hold in three-valued logic. What is left is
//! AND and OR of literals, in which "not true" needs no splitting into false and unknown: a literal on an absent
//! attribute is not true, negated or not.

use tamis_core::message::Properties;

/// The number of an attribute: its place in the schema. 8 bits: the workload has 24.
pub type FilterAttribute = u8;

/// The value of an attribute that a message does not have.
pub const ABSENT: i64 = i64::MIN;

/// The condition of a literal on the value of its attribute, if present.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FilterTest {
    /// It is one of these, which ascend.
    OneOf(Box<[i64]>),
    /// It is none of these, which ascend.
    NoneOf(Box<[i64]>),
    /// It lies in this closed interval.
    Within(i64, i64),
    /// It lies outside of this closed interval.
    Outside(i64, i64),
}

impl FilterTest {
    /// The negation.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::OneOf(values) => Self::NoneOf(values),
            Self::NoneOf(values) => Self::OneOf(values),
            Self::Within(low, high) => Self::Outside(low, high),
            Self::Outside(low, high) => Self::Within(low, high),
        }
    }
}

/// A predicate, negated or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterLiteral {
    /// Whose value it asks for.
    pub attribute: FilterAttribute,
    /// The condition.
    pub test: FilterTest,
}

impl FilterLiteral {
    /// True of a message with these values; not when the attribute is absent.
    #[must_use]
    pub fn is_true(&self, values: &[i64]) -> bool {
        let value = values[usize::from(self.attribute)];
        value != ABSENT
            && match &self.test {
                FilterTest::OneOf(wanted) => wanted.contains(&value), // few: a walk is quicker than a search
                FilterTest::NoneOf(unwanted) => !unwanted.contains(&value),
                FilterTest::Within(low, high) => (*low..=*high).contains(&value),
                FilterTest::Outside(low, high) => !(*low..=*high).contains(&value),
            }
    }

    /// The values that make it true, when it is an equality.
    #[must_use]
    pub fn equality(&self) -> Option<&[i64]> {
        match &self.test {
            FilterTest::OneOf(values) => Some(values),
            _ => None,
        }
    }
}

/// A filter's condition, its operands in the order in which they were written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tree {
    /// All of them.
    And(Vec<Tree>),
    /// Any of them.
    Or(Vec<Tree>),
    /// One predicate.
    Literal(FilterLiteral),
}

impl Tree {
    /// True of a message with these values; stops as soon as that is decided.
    #[must_use]
    pub fn is_true(&self, values: &[i64]) -> bool {
        match self {
            Self::And(operands) => operands.iter().all(|operand| operand.is_true(values)),
            Self::Or(operands) => operands.iter().any(|operand| operand.is_true(values)),
            Self::Literal(literal) => literal.is_true(values),
        }
    }
}

/// One standing filter, in the forms that the algorithms take in.
#[derive(Clone, Debug)]
pub struct BooleanFilter {
    /// Its condition.
    pub tree: Tree,
    /// The same as the text of a selector, NOT where it was written.
    pub selector: String,
}

/// One message.
#[derive(Clone, Debug)]
pub struct FilterMessage {
    /// Its place among all messages.
    pub number: usize,
    /// The value of each attribute, or [`ABSENT`].
    pub values: Box<[i64]>,
    /// The same with names and texts, as a program would hand it over.
    pub properties: Properties,
}

/// The kinds of values of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text; numbered in the order of appearance.
    Text,
    /// False is 0, true is 1.
    Bool,
    /// Integers.
    Int,
}

/// One attribute of the workload.
#[derive(Clone, Debug)]
pub struct SchemaColumn {
    /// Its name.
    pub name: String,
    /// The kind of its values.
    pub kind: ColumnKind,
    /// How many values there are, where the workload says so.
    pub cardinality: Option<u64>,
}

/// The attributes, by number, and the texts, by number.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// By attribute.
    pub columns: Vec<SchemaColumn>,
    /// By the number that stands for the text.
    pub texts: Vec<String>,
}
