//! Queries: their expression tree, their languages, their evaluation, and their canonical text.
//!
//! The tree is in [`expr`], the languages by name in [`named`], the evaluation in [`evaluate`], the canonical
//! text in [`render`], and the shape for algorithms outside the core in [`structure`].

mod evaluation;
pub mod expr;
pub mod implication;
mod language;
mod patterns;
pub mod price;
pub mod render;
pub mod structure;
pub mod truth;
mod warning;

pub use evaluation::{distance, evaluate, explain, highlight};
pub use language::{boolean, criteria, named, selector};
pub use patterns::like;
pub use warning::QueryWarning;

use std::collections::BTreeSet;

use crate::error::QueryError;
use crate::expensive::Opaque;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::topic::TopicPattern;
use expr::{Expr, Predicate, Reference};
use price::Price;

/// The maximum size of a query's text, and of its canonical text.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The maximum nesting of parentheses, NOT and signs.
pub const DEPTH_MAX: usize = 100;
/// The maximum number of predicates in a query; an IN list counts as one.
pub const TERMS_MAX: usize = 1_000;
/// The maximum memory of the compiled patterns of a query: regular expressions and LIKE.
pub const COMPILED_BYTES_MAX: usize = 4 << 20;
/// The maximum number of values in an IN list.
pub const IN_VALUES_MAX: usize = 10_000;

/// The maximum memory of a query that is made of others: what one text can make, twice.
const PRICE_BYTES_MAX: u64 = 2 * COMPILED_BYTES_MAX as u64;

/// A standing question: a tree, and whether it was made of field criteria (which have hit counts).
#[derive(Clone, Debug)]
pub struct Query {
    expr: Expr,
    is_fields: bool,
    warnings: Box<[QueryWarning]>,
}

/// Two queries are equal when their trees are: `tamis.selector(str(q)) == q`, unless the query has an expensive
/// predicate.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.expr == other.expr
    }
}

impl Query {
    /// A query from a tree that was built by code rather than parsed from text.
    ///
    /// # Errors
    /// The tree is over the limits, so that its canonical text could not be parsed.
    pub fn new(expr: Expr) -> Result<Self, QueryError> {
        let query = Self { expr, is_fields: false, warnings: Box::default() };
        query.check_limits()?;
        Ok(query)
    }

    /// A query from the tree of an earlier query. Its text is not measured again, which would take most of the time.
    ///
    /// # Errors
    /// The tree has more terms or is deeper than a query may be.
    pub(crate) fn again(expr: Expr) -> Result<Self, QueryError> {
        let query = Self { expr, is_fields: false, warnings: Box::default() };
        query.check_shape()?;
        Ok(query)
    }

    /// A query from field criteria (the OpenAMQ paper): their AND when `all`, else their OR.
    ///
    /// # Errors
    /// There are more criteria than a query may have terms.
    pub fn fields(criteria: Vec<Expr>, all: bool) -> Result<Self, QueryError> {
        let expr = if all { Expr::and(criteria) } else { Expr::or(criteria) };
        Ok(Self { is_fields: true, ..Self::new(expr)? })
    }

    /// The warnings about probable mistakes in its text. A query from a snapshot has none.
    #[must_use]
    pub fn warnings(&self) -> &[QueryWarning] {
        &self.warnings
    }

    /// Set the warnings: those of the queries that it was made of.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = QueryWarning>) -> Self {
        self.warnings = warnings.into_iter().collect();
        self
    }

    /// The tree.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The memory that the query takes, and its time at worst. Cost: linear in its predicates.
    #[must_use]
    pub fn price(&self) -> Price {
        self.expr.price()
    }

    /// Whether compiling it again takes much longer than reading it.
    #[must_use]
    pub fn is_expensive_to_compile(&self) -> bool {
        self.expr.has(&|predicate| matches!(predicate, Predicate::Regex(..)))
    }

    /// The pattern of a query that asks for a topic and nothing else.
    #[must_use]
    pub fn topic_pattern(&self) -> Option<&TopicPattern> {
        match &self.expr {
            Expr::Predicate(Predicate::Topic(pattern)) => Some(pattern),
            _ => None,
        }
    }

    /// True when the query came from field criteria, so that `Engine::hits` counts it.
    #[must_use]
    pub fn is_fields(&self) -> bool {
        self.is_fields
    }

    /// The criteria of a fields query: the operands of its AND or OR, or its only predicate.
    #[must_use]
    pub fn criteria(&self) -> &[Expr] {
        match &self.expr {
            Expr::And(children) | Expr::Or(children) => children,
            single => std::slice::from_ref(single),
        }
    }

    /// Sets whether the query was made of field criteria; snapshots keep this mark.
    #[must_use]
    pub fn with_fields_mark(mut self, is_fields: bool) -> Self {
        self.is_fields = is_fields;
        self
    }

    /// Evaluates the query: true, false, or None for unknown. The time per predicate is linear in the message.
    #[must_use]
    pub fn evaluate(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Option<bool> {
        self.expr.evaluate(message, hierarchies)
    }

    /// Whether the query is true of `message`. Expensive predicates are not called once it cannot be true, unlike in
    /// [`Self::evaluate`].
    #[must_use]
    pub fn is_true(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> bool {
        self.expr.is_true(message, hierarchies)
    }

    /// The expensive predicates, from left to right. A query that has one cannot be restored from text or bytes.
    pub fn opaques(&self) -> impl Iterator<Item = &Opaque> {
        self.expr.predicates().into_iter().filter_map(|predicate| match predicate {
            Predicate::Opaque(opaque) => Some(opaque),
            _ => None,
        })
    }

    /// The names of the properties that are tested with UNDER, sorted, each once. Without a hierarchy for each of them, the
    /// query can never be as meant.
    #[must_use]
    pub fn hierarchies(&self) -> Vec<&str> {
        let names = self.expr.predicates().into_iter().filter_map(|predicate| match predicate {
            Predicate::Under(Reference::Property(name), _) => Some(&*name.text),
            _ => None,
        });
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn check_limits(&self) -> Result<(), QueryError> {
        self.check_shape()?;
        if self.price().bytes > PRICE_BYTES_MAX {
            return Err(too_much(format!("at most {PRICE_BYTES_MAX} bytes when compiled")));
        }
        if self.to_string().len() > TEXT_BYTES_MAX {
            return Err(too_much(format!("a query whose text is at most {TEXT_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<(), QueryError> {
        if self.expr.terms() > TERMS_MAX {
            return Err(too_much(format!("at most {TERMS_MAX} terms")));
        }
        if self.expr.nesting() > DEPTH_MAX {
            return Err(too_much(format!("nesting of at most {DEPTH_MAX}")));
        }
        Ok(())
    }
}

fn too_much(expected: String) -> QueryError {
    QueryError { text: String::new(), position: 0, expected, hint: None }
}
