//! The clauses of one predicate, or of its negation.

use smallvec::smallvec;

use crate::index::clause::{ListRule, Symbols, ValueTest};
use crate::index::ids::AttributeId;
use crate::index::origin::AttributeOrigin;
use crate::index::term::{Scalar, SymbolTerm};
use crate::index::value_class::{ClassSet, ValueClass};
use crate::message::Value;
use crate::query::expr::{Comparison, Operand, Predicate, PropertyName, Reference};
use crate::text::needles::Anchor;

use super::clauses::{Clauses, present};
use super::comparisons::{known_reference, mirrored};
use super::interner::Interner;

/// At most this many of the references in a computation are tested for presence.
const REFERENCES_MAX: usize = 4;

impl Clauses {
    /// The clauses of `predicate`, or of its negation.
    pub fn of_predicate(predicate: &Predicate, is_negated: bool, interner: &mut Interner) -> Self {
        let truth = Value::Bool(!is_negated);
        match predicate {
            Predicate::Constant(value) if *value != is_negated => Self::default(),
            Predicate::Constant(_) => Self::never(),
            Predicate::Truth(reference) => {
                let list_rule = if is_negated { ListRule::Undecided } else { ListRule::Some };
                Self::equality(reference, std::slice::from_ref(&truth), list_rule, interner)
            }
            Predicate::Compare(Operand::Reference(reference), op, Operand::Literal(literal)) => {
                Self::comparison(reference, *op, literal, is_negated, interner)
            }
            Predicate::Compare(Operand::Literal(literal), op, Operand::Reference(reference)) => {
                Self::comparison(reference, mirrored(*op), literal, is_negated, interner)
            }
            Predicate::Compare(left, _, right) => Self::computed(&[left, right], interner),
            Predicate::Between(Operand::Reference(reference), Operand::Literal(low), Operand::Literal(high)) => {
                Self::range(reference, Some((low, false)), Some((high, false)), is_negated, interner)
            }
            Predicate::Between(value, low, high) => match is_negated {
                // NOT BETWEEN can be true with one bound unknown.
                true => Self::computed(&[value], interner),
                false => Self::computed(&[value, low, high], interner),
            },
            Predicate::In(Operand::Reference(reference), values) => match is_negated {
                true => Self::inequality(reference, values.values(), ListRule::Every, interner),
                false => Self::equality(reference, values.values(), ListRule::Some, interner),
            },
            Predicate::Like(Operand::Reference(reference), pattern) => {
                Self::like(reference, pattern, is_negated, interner)
            }
            Predicate::In(operand, _) | Predicate::Like(operand, _) => Self::computed(&[operand], interner),
            Predicate::IsNull(Operand::Reference(reference)) => Self::is_null(reference, is_negated, interner),
            Predicate::Exists(reference) => Self::exists(reference, is_negated, interner),
            Predicate::Topic(pattern) if pattern.is_literal() => {
                let topic = Value::Text(pattern.text().into());
                let op = if is_negated { Comparison::NotEqual } else { Comparison::Equal };
                Self::comparison(&Reference::Topic, op, &topic, false, interner)
            }
            Predicate::Topic(pattern) if !is_negated => {
                let attribute = interner.attribute(AttributeOrigin::Patterns, "");
                let symbol = interner.symbol(attribute, SymbolTerm::Pattern(pattern.dialect(), pattern.text()));
                Self::one_of(attribute, Symbols::from_slice(&[symbol]), ListRule::Some, interner)
            }
            Predicate::Under(Reference::Property(PropertyName { text: name, any_case: false }), ancestor)
                if !is_negated =>
            {
                let attribute = interner.attribute(AttributeOrigin::Ancestors, name);
                let symbol = interner.symbol(attribute, Scalar::Text(ancestor));
                Self::one_of(attribute, Symbols::from_slice(&[symbol]), ListRule::Some, interner)
            }
            Predicate::Prefix(reference, prefix) if !is_negated && !prefix.is_empty() => {
                Self::needles(reference, &[(prefix, Anchor::Start)], true, interner)
            }
            Predicate::Regex(reference, pattern) if !is_negated => Self::regex(reference, pattern, interner),
            Predicate::Contains(reference, phrase) if !is_negated => Self::phrase(reference, phrase.words(), interner),
            Predicate::Near(reference, a, b, _) if !is_negated => {
                Self::both_words(reference, &a.words()[0], &b.words()[0], interner)
            }
            Predicate::Contains(reference, _)
            | Predicate::Near(reference, ..)
            | Predicate::Prefix(reference, _)
            | Predicate::Regex(reference, _)
            | Predicate::Under(reference, _) => Self::known(reference, interner),
            Predicate::IsNull(_) | Predicate::Topic(_) | Predicate::Opaque(_) => Self::unknown(),
        }
    }

    /// True, if at all, of messages in which `reference` has a value, or a list with one. The clause is necessary: what it is
    /// joined with decides.
    pub fn known(reference: &Reference, interner: &mut Interner) -> Self {
        let Some(attribute) = known_reference(reference, interner) else { return Self::unknown() };
        let access = present(attribute, interner);
        let tests = smallvec![ValueTest::known(attribute)];
        Self { tests, needs_evaluation: true, access, ..Self::default() }
    }

    /// True, if at all, of messages in which everything that the operands refer to has a value.
    fn computed(operands: &[&Operand], interner: &mut Interner) -> Self {
        let mut references = Vec::new();
        operands.iter().for_each(|operand| collect_references(operand, &mut references));
        references.truncate(REFERENCES_MAX);
        let mut all = Self::unknown();
        references.into_iter().for_each(|reference| all.and(Self::known(reference, interner), interner));
        all
    }

    fn is_null(reference: &Reference, is_negated: bool, interner: &mut Interner) -> Self {
        const NULL: ClassSet = ClassSet::of([ValueClass::Absent, ValueClass::Null]);
        const NOT_NULL: ClassSet = ClassSet::of([ValueClass::Valueless, ValueClass::Other]);
        Self::of_classes(reference, if is_negated { NOT_NULL } else { NULL }, interner)
    }

    fn exists(reference: &Reference, is_negated: bool, interner: &mut Interner) -> Self {
        const ABSENT: ClassSet = ClassSet::of([ValueClass::Absent]);
        const PRESENT: ClassSet = ClassSet::of([ValueClass::Null, ValueClass::Valueless, ValueClass::Other]);
        Self::of_classes(reference, if is_negated { ABSENT } else { PRESENT }, interner)
    }

    /// True when the value of `reference` is in one of `classes`; every symbol counts as `Other`.
    fn of_classes(reference: &Reference, classes: ClassSet, interner: &mut Interner) -> Self {
        let is_property = |id: &AttributeId, interner: &Interner| interner.origin(*id) != AttributeOrigin::Topic;
        let attribute = known_reference(reference, interner).filter(|id| is_property(id, interner));
        let Some(attribute) = attribute else { return Self::unknown() };
        let access = if classes.has(ValueClass::Absent) { None } else { present(attribute, interner) };
        Self { tests: smallvec![ValueTest { classes, ..ValueTest::known(attribute) }], access, ..Self::default() }
    }
}

fn collect_references<'q>(operand: &'q Operand, references: &mut Vec<&'q Reference>) {
    match operand {
        Operand::Literal(_) => {}
        Operand::Reference(reference) => references.push(reference),
        Operand::Negate(inner) => collect_references(inner, references),
        Operand::Arithmetic(left, _, right) => {
            collect_references(left, references);
            collect_references(right, references);
        }
    }
}
