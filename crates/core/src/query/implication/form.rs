//! Joins claims under AND and OR.

use super::budget::Budget;
use super::claim::{Atom, Claim, Claimed, claimed};
use super::region::{Region, Set};
use crate::query::expr::Expr;

/// The condition under which a query is true, as a formula of claims without NOT.
#[derive(Clone, Debug)]
pub(super) enum Form<'q> {
    /// True of every message.
    Always,
    /// True of no message.
    Never,
    /// True where this claim holds.
    Atom(Atom<'q>),
    /// True where all of these hold; two or more, none of them one of the first two or an AND itself.
    And(Vec<Form<'q>>),
    /// True where any of these holds; two or more, none of them one of the first two or an OR itself.
    Or(Vec<Form<'q>>),
}

impl<'q> Form<'q> {
    /// The form of `expr` being true.
    pub(super) fn of(expr: &'q Expr, budget: &mut Budget) -> Self {
        Self::when(expr, true, budget)
    }

    /// The form of `expr` being true, or false: by De Morgan, which holds in three-valued logic.
    fn when(expr: &'q Expr, wanted: bool, budget: &mut Budget) -> Self {
        let parts = |children: &'q [Expr], budget: &mut Budget| -> Vec<Self> {
            children.iter().map(|child| Self::when(child, wanted, budget)).collect()
        };
        match (expr, wanted) {
            (Expr::Predicate(predicate), _) => match claimed(predicate, wanted) {
                Claimed::Always => Self::Always,
                Claimed::Never => Self::Never,
                Claimed::Atom(atom) => Self::Atom(atom),
            },
            (Expr::Not(inner), _) => Self::when(inner, !wanted, budget),
            (Expr::And(children), true) | (Expr::Or(children), false) => Self::all_of(parts(children, budget)),
            (Expr::Or(children), true) | (Expr::And(children), false) => Self::any_of(parts(children, budget), budget),
        }
    }

    fn all_of(forms: Vec<Self>) -> Self {
        let mut flat = Vec::with_capacity(forms.len());
        for form in forms {
            match form {
                Self::Never => return Self::Never,
                Self::Always => {}
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::Always,
            1 => flat.remove(0),
            _ => Self::And(flat),
        }
    }

    fn any_of(forms: Vec<Self>, budget: &mut Budget) -> Self {
        let mut flat = Vec::with_capacity(forms.len());
        for form in forms {
            match form {
                Self::Always => return Self::Always,
                Self::Never => {}
                Self::Or(inner) => inner.into_iter().for_each(|form| push_alternative(&mut flat, form, budget)),
                other => push_alternative(&mut flat, other, budget),
            }
        }
        if has_two_that_complete_each_other(&flat, budget) {
            return Self::Always;
        }
        match flat.len() {
            0 => Self::Never,
            1 => flat.remove(0),
            _ => Self::Or(flat),
        }
    }

    /// True when it cannot hold together with the claims in `known`, which are left unchanged.
    pub(super) fn is_never<'f>(&'f self, known: &mut Vec<&'f Atom<'q>>, budget: &mut Budget) -> bool {
        if budget.is_spent() {
            return false;
        }
        match self {
            Self::Always => false,
            Self::Never => true,
            Self::Atom(_) => all_is_never(std::slice::from_ref(self), known, budget),
            Self::And(children) => all_is_never(children, known, budget),
            Self::Or(children) => children.iter().all(|child| child.is_never(known, budget)),
        }
    }

    /// True when `other` holds wherever this form does.
    pub(super) fn implies(&self, other: &Form<'_>, budget: &mut Budget) -> bool {
        if budget.is_spent() {
            return false;
        }
        match (self, other) {
            (Self::Never, _) | (_, Form::Always) => true,
            (Self::Always, _) | (_, Form::Never) => false,
            (Self::Or(children), _) => children.iter().all(|child| child.implies(other, budget)),
            (_, Form::And(children)) => children.iter().all(|child| self.implies(child, budget)),
            (Self::Atom(a), Form::Atom(b)) => a.implies(b, budget),
            (Self::And(children), Form::Atom(_)) => children.iter().any(|child| child.implies(other, budget)),
            (Self::Atom(_), Form::Or(alternatives)) => alternatives.iter().any(|form| self.implies(form, budget)),
            (Self::And(children), Form::Or(alternatives)) => {
                alternatives.iter().any(|form| self.implies(form, budget))
                    || children.iter().any(|child| child.implies(other, budget))
            }
        }
    }
}

/// Adds an alternative; one that tests the same subject for other values becomes one alternative with more values.
fn push_alternative<'q>(alternatives: &mut Vec<Form<'q>>, form: Form<'q>, budget: &mut Budget) {
    if let Form::Atom(Atom { subject, claim: Claim::Some(new) }) = &form
        && let Region { set: Set::Values(more), is_complement: false } = new
    {
        budget.spend(alternatives.len());
        let same_subject = alternatives.iter_mut().find_map(|other| match other {
            Form::Atom(Atom {
                subject: own,
                claim: Claim::Some(Region { set: Set::Values(values), is_complement }),
            }) if !*is_complement && own == subject => Some(values),
            _ => None,
        });
        if let (Some(values), false) = (same_subject, budget.is_spent()) {
            budget.spend(values.len() + more.len());
            let Set::Values(both) = Set::values(values.drain(..).chain(more.iter().cloned())) else { return };
            *values = both;
            return;
        }
    }
    alternatives.push(form);
}

fn has_two_that_complete_each_other(forms: &[Form<'_>], budget: &mut Budget) -> bool {
    let atoms: Vec<&Atom<'_>> = atoms(forms).collect();
    (1..atoms.len()).any(|later| {
        !budget.is_spent()
            && atoms[..later].iter().any(|a| a.completes(atoms[later], budget) || atoms[later].completes(a, budget))
    })
}

/// True when not all of `children` can hold together with the claims in `known`.
fn all_is_never<'f, 'q>(children: &'f [Form<'q>], known: &mut Vec<&'f Atom<'q>>, budget: &mut Budget) -> bool {
    let known_before = known.len();
    let found = claims_are_at_odds(children, known, budget)
        || children.iter().any(|child| matches!(child, Form::Or(_)) && child.is_never(known, budget));
    known.truncate(known_before);
    found
}

/// Adds the claims among `children` to `known`; true when they contradict each other.
fn claims_are_at_odds<'f, 'q>(children: &'f [Form<'q>], known: &mut Vec<&'f Atom<'q>>, budget: &mut Budget) -> bool {
    let first_new = known.len();
    for atom in atoms(children) {
        if budget.is_spent() {
            return false;
        }
        if known.iter().any(|other| atom.contradicts(other, budget)) {
            return true;
        }
        known.push(atom);
    }
    known[first_new..].iter().any(|atom| !budget.is_spent() && atom.is_ruled_out_by(known, budget))
}

fn atoms<'f, 'q>(forms: &'f [Form<'q>]) -> impl Iterator<Item = &'f Atom<'q>> {
    forms.iter().filter_map(|form| match form {
        Form::Atom(atom) => Some(atom),
        _ => None,
    })
}
