//! The claims that a predicate makes about a message when it is true, or when it is false.
//!
//! A property may be a list. Then a predicate is true when *some* element is in its set ([`Claim::Some`]), and false
//! when *every* element is outside ([`Claim::All`]). Two claims about some element never contradict each other: `a = 1
//! AND a = 2` is true of the list `[1, 2]`. Topic, body and computed values are one value, for which both kinds of
//! claim are the same.
//! kinds of claim are the same.

use std::borrow::Cow;

use super::budget::Budget;
use super::patterns;
use super::region::{Region, Set};
use crate::message::{Body, Message, Properties, Value};
use crate::query::expr::{Operand, Predicate, Reference};

/// One claim about the message.
#[derive(Clone, Debug)]
pub(super) struct Atom<'q> {
    pub(super) subject: Subject<'q>,
    pub(super) claim: Claim<'q>,
}

/// The subject of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Subject<'q> {
    /// A part of the message.
    Reference(&'q Reference),
    /// A value computed from the message.
    Computed(&'q Operand),
    /// A comparison of two values of the message.
    Pair(&'q Operand, &'q Operand),
    /// A predicate of which only its truth is known.
    Predicate(&'q Predicate),
}

/// The kinds of claims. All but the first two kinds are true or false of every message, never unknown.
#[derive(Clone, Debug)]
pub(super) enum Claim<'q> {
    /// Some element is in the region.
    Some(Region<'q>),
    /// There are elements, and all of them are known and in the region.
    All(Region<'q>),
    /// The value is absent, null or cannot be computed.
    Null,
    /// The negation of the former.
    NotNull,
    /// The property is not in the message.
    Absent,
    /// The property is in the message, even if it is null or without a value.
    Present,
}

/// The claim of a predicate, or of its negation.
pub(super) enum Claimed<'q> {
    Always,
    Never,
    Atom(Atom<'q>),
}

impl<'q> From<Atom<'q>> for Claimed<'q> {
    fn from(atom: Atom<'q>) -> Self {
        match &atom.claim {
            Claim::Some(region) | Claim::All(region) if region.is_empty() => Self::Never,
            _ => Self::Atom(atom),
        }
    }
}

/// The claim of `predicate` when it is true, or with `wanted` false when it is false.
pub(super) fn claimed(predicate: &Predicate, wanted: bool) -> Claimed<'_> {
    if let Some(truth) = same_for_every_message(predicate) {
        return if truth == Some(wanted) { Claimed::Always } else { Claimed::Never };
    }
    let atom = |subject, claim| Claimed::from(Atom { subject, claim });
    match predicate {
        Predicate::Compare(left, op, right) => match (constant(left), constant(right)) {
            (_, Some(right)) => of_values(subject(left), Region::compared(*op, right), wanted),
            (Some(left), None) => of_values(subject(right), Region::compared(op.mirrored(), left), wanted),
            (None, None) => {
                let region = Region::outcomes(*op);
                atom(Subject::Pair(left, right), Claim::Some(if wanted { region } else { region.complement() }))
            }
        },
        Predicate::Between(operand, low, high) => match (constant(low), constant(high)) {
            // A text that reads as a time may lie between a time and a text.
            (Some(low), Some(high)) if low.is_time() == high.is_time() => {
                of_values(subject(operand), Region::between(low, high), wanted)
            }
            _ => undecided(predicate, wanted),
        },
        Predicate::In(operand, values) => {
            let values = Set::values(values.values().iter().map(Cow::Borrowed));
            of_values(subject(operand), values.into(), wanted)
        }
        // Its value is the answer: so it is true or false, and nothing else, when this is.
        Predicate::Truth(reference) => {
            let region = Region::from(Set::values([Cow::Owned(Value::Bool(wanted))]));
            let claim = if wanted { Claim::Some(region) } else { Claim::All(region) };
            atom(Subject::Reference(reference), claim)
        }
        Predicate::Topic(pattern) if patterns::is_literal(pattern) => {
            let name = Cow::Owned(Value::Text(pattern.text().into()));
            of_values(Subject::Reference(&Reference::Topic), Set::values([name]).into(), wanted)
        }
        Predicate::Topic(_) => of_values(Subject::Reference(&Reference::Topic), Set::Texts(predicate).into(), wanted),
        Predicate::Like(operand, _) => of_values(subject(operand), Set::Texts(predicate).into(), wanted),
        Predicate::Contains(reference, _)
        | Predicate::Near(reference, ..)
        | Predicate::Prefix(reference, _)
        | Predicate::Regex(reference, _) => {
            of_values(Subject::Reference(reference), Set::Texts(predicate).into(), wanted)
        }
        Predicate::IsNull(operand) => atom(subject(operand), if wanted { Claim::Null } else { Claim::NotNull }),
        Predicate::Exists(reference) => {
            atom(Subject::Reference(reference), if wanted { Claim::Present } else { Claim::Absent })
        }
        _ => undecided(predicate, wanted),
    }
}

/// The answer of a predicate that does not depend on the message; None when it does, or when that is not known.
fn same_for_every_message(predicate: &Predicate) -> Option<Option<bool>> {
    let is_constant = match predicate {
        Predicate::Constant(_) => true,
        Predicate::Compare(left, _, right) => {
            // A comparison with a value that cannot be computed is unknown, whatever the other side is.
            let is_unknown = |operand: &Operand| operand.is_constant() && value_of(operand).is_unknown();
            (left.is_constant() && right.is_constant()) || is_unknown(left) || is_unknown(right)
        }
        Predicate::Between(operand, low, high) => operand.is_constant() && low.is_constant() && high.is_constant(),
        Predicate::In(operand, _) | Predicate::Like(operand, _) | Predicate::IsNull(operand) => operand.is_constant(),
        Predicate::Topic(pattern) => return patterns::is_everything(pattern).then_some(Some(true)),
        _ => false,
    };
    if is_constant {
        let nothing = Properties::default();
        return Some(predicate.evaluate(&Message::new("", &nothing, Body::Absent), None));
    }
    // Every message has a topic, and it is text.
    match predicate {
        Predicate::Exists(Reference::Topic) => Some(Some(true)),
        Predicate::IsNull(Operand::Reference(Reference::Topic)) => Some(Some(false)),
        Predicate::Prefix(Reference::Topic, prefix) if prefix.is_empty() => Some(Some(true)),
        // Text is no boolean.
        Predicate::Truth(Reference::Topic | Reference::Body) => Some(None),
        _ => None,
    }
}

fn undecided(predicate: &Predicate, wanted: bool) -> Claimed<'_> {
    let region = if wanted { Region::decided() } else { Region::decided().complement() };
    Atom { subject: Subject::Predicate(predicate), claim: Claim::Some(region) }.into()
}

/// The claim of a predicate that is true of a value in `region` and false of any other known value.
fn of_values<'q>(subject: Subject<'q>, region: Region<'q>, wanted: bool) -> Claimed<'q> {
    let claim = match (wanted, subject.is_one_value()) {
        (true, _) => Claim::Some(region),
        (false, true) => Claim::Some(region.complement()),
        (false, false) => Claim::All(region.complement()),
    };
    Atom { subject, claim }.into()
}

fn subject(operand: &Operand) -> Subject<'_> {
    match operand {
        Operand::Reference(reference) => Subject::Reference(reference),
        computed => Subject::Computed(computed),
    }
}

/// The value of a constant operand, when it can be computed.
fn constant(operand: &Operand) -> Option<Cow<'_, Value>> {
    let value = match operand {
        Operand::Literal(value) => Cow::Borrowed(value),
        computed if computed.is_constant() => Cow::Owned(value_of(computed)),
        _ => return None,
    };
    (!value.is_unknown()).then_some(value)
}

fn value_of(constant: &Operand) -> Value {
    let nothing = Properties::default();
    constant.scalar(&Message::new("", &nothing, Body::Absent))
}

impl<'q> Subject<'q> {
    /// False for what may be a list.
    fn is_one_value(&self) -> bool {
        !matches!(self, Self::Reference(Reference::Property(_)))
    }

    /// True when the claim can only hold if `reference` is in the message and not null.
    fn needs(&self, reference: &Reference) -> bool {
        match self {
            Self::Reference(own) => *own == reference,
            Self::Computed(operand) => operand.refers_to(reference),
            Self::Pair(left, right) => left.refers_to(reference) || right.refers_to(reference),
            Self::Predicate(Predicate::Under(own, _)) => own == reference,
            Self::Predicate(_) => false,
        }
    }

    /// The parts of the message for which [`Self::needs`] may be true.
    pub(super) fn references(&self) -> Vec<&'q Reference> {
        let mut found = Vec::new();
        match self {
            Self::Reference(reference) => found.push(*reference),
            Self::Computed(operand) => operand.for_each_reference(&mut |reference| found.push(reference)),
            Self::Pair(left, right) => {
                [left, right].into_iter().for_each(|side| side.for_each_reference(&mut |part| found.push(part)));
            }
            Self::Predicate(Predicate::Under(reference, _)) => found.push(reference),
            Self::Predicate(_) => {}
        }
        found
    }
}

impl Operand {
    fn refers_to(&self, reference: &Reference) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Reference(own) => own == reference,
            Self::Negate(inner) => inner.refers_to(reference),
            Self::Arithmetic(left, _, right) => left.refers_to(reference) || right.refers_to(reference),
        }
    }
}

impl<'q> Atom<'q> {
    /// True when `other` holds of every message of which this claim holds.
    pub(super) fn implies(&self, other: &Self, budget: &mut Budget) -> bool {
        budget.spend(1);
        if let Claim::NotNull | Claim::Present = other.claim
            && let Subject::Reference(reference) = other.subject
            && self.shows_to_be_there(reference)
        {
            return true;
        }
        if self.subject != other.subject {
            return false;
        }
        match (&self.claim, &other.claim) {
            (Claim::Some(_) | Claim::All(_) | Claim::NotNull, Claim::NotNull)
            | (Claim::Null | Claim::Absent, Claim::Null)
            | (Claim::Absent, Claim::Absent)
            | (Claim::Present, Claim::Present) => true,
            (Claim::Some(a) | Claim::All(a), Claim::Some(b)) | (Claim::All(a), Claim::All(b)) => a.is_within(b, budget),
            _ => false,
        }
    }

    /// True when the two claims never hold of one message.
    pub(super) fn contradicts(&self, other: &Self, budget: &mut Budget) -> bool {
        if let Some(opposite) = other.opposite() {
            return self.implies(&opposite, budget);
        }
        if let Some(opposite) = self.opposite() {
            return other.implies(&opposite, budget);
        }
        budget.spend(1);
        if self.subject != other.subject {
            return false;
        }
        match (&self.claim, &other.claim) {
            // One element of a list may be in the one region and another element in the other.
            (Claim::Some(a), Claim::Some(b)) => self.subject.is_one_value() && a.is_apart_from(b, budget),
            (Claim::Some(a) | Claim::All(a), Claim::Some(b) | Claim::All(b)) => a.is_apart_from(b, budget),
            _ => false,
        }
    }

    /// True when one of the two holds of every message.
    pub(super) fn completes(&self, other: &Self, budget: &mut Budget) -> bool {
        self.opposite().is_some_and(|opposite| opposite.implies(other, budget))
    }

    /// True when no element can satisfy both this claim and what all of `others` claim of every element.
    pub(super) fn is_ruled_out_by(&self, others: &[&Self], budget: &mut Budget) -> bool {
        let (Claim::Some(region) | Claim::All(region)) = &self.claim else { return false };
        let Region { set: Set::Values(values), is_complement: false } = region else { return false };
        let of_every_element: Vec<&Region<'q>> = others.iter().filter_map(|other| self.also_of_each(other)).collect();
        budget.spend(others.len());
        values.iter().all(|value| of_every_element.iter().any(|region| region.excludes(value, budget)))
    }

    /// The region that, by `other`, also contains the elements about which this claim says something.
    fn also_of_each<'a>(&self, other: &'a Self) -> Option<&'a Region<'q>> {
        match &other.claim {
            _ if self.subject != other.subject => None,
            Claim::All(region) => Some(region),
            Claim::Some(region) => self.subject.is_one_value().then_some(region),
            _ => None,
        }
    }

    /// The claim that holds exactly when this one does not; None for one that may also be unknown.
    fn opposite(&self) -> Option<Self> {
        let claim = match &self.claim {
            Claim::Null => Claim::NotNull,
            Claim::NotNull => Claim::Null,
            Claim::Absent => Claim::Present,
            Claim::Present => Claim::Absent,
            Claim::Some(region) if self.subject == Subject::Reference(&Reference::Topic) => {
                Claim::Some(region.complement())
            }
            Claim::Some(_) | Claim::All(_) => return None,
        };
        Some(Self { subject: self.subject, claim })
    }

    /// True when it can only hold of messages in which `reference` is present and not null.
    fn shows_to_be_there(&self, reference: &Reference) -> bool {
        match self.claim {
            Claim::Some(_) | Claim::All(_) | Claim::NotNull => self.subject.needs(reference),
            Claim::Null | Claim::Absent | Claim::Present => false,
        }
    }
}
