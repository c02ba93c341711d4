//! Evaluates a tree without its expensive predicates first, then asks only those that can still change the result.
//!
//! An expensive predicate is thus called only when no cheaper one has decided, wherever it stands in the tree.
//! Three-valued logic does not depend on the order, so the result is that of evaluating from left to right.

use crate::allowance::ELEMENT_NS;
use crate::expensive::Opaque;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::expr::{Expr, Predicate};
use crate::query::truth::Truth;

/// Maximum number of operands whose evaluation costs so little that the message's allowance need not pay for it.
const FREE_MAX: usize = 16;

/// The result of a tree without calling an expensive predicate whose answer the message does not remember.
enum Partial<'q> {
    Known(Truth),
    Open(Residual<'q>),
}

/// The part of a tree that expensive predicates decide.
enum Residual<'q> {
    Expensive(&'q Opaque),
    Not(Box<Residual<'q>>),
    And(Operands<'q>),
    Or(Operands<'q>),
}

/// The undecided operands, cheapest first, and the possible results of all operands, including the known ones.
struct Operands<'q> {
    open: Vec<Residual<'q>>,
    can_be_true: bool,
    can_be_false: bool,
    /// The cost of calling all of them.
    cost_ns: f64,
}

impl Expr {
    /// True, false or unknown (None) of `message`; stops as soon as it is decided.
    #[must_use]
    pub fn evaluate(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Truth {
        match self.partial(message, hierarchies) {
            Partial::Known(truth) => truth,
            // The message remembers the answers of the first call.
            Partial::Open(residual) if residual.is(true, message) => Some(true),
            Partial::Open(residual) => residual.is(false, message).then_some(false),
        }
    }

    /// Whether the query is true of `message`, without distinguishing false from unknown: expensive predicates are not called
    /// once it cannot become true.
    #[must_use]
    pub fn is_true(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> bool {
        match self.partial(message, hierarchies) {
            Partial::Known(truth) => truth == Some(true),
            Partial::Open(residual) => residual.is(true, message),
        }
    }

    #[inline(always)] // in `fold`: a predicate, the usual operand, is known without a detour
    fn partial(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Partial<'_> {
        match self {
            Self::Predicate(Predicate::Opaque(opaque)) => partial_expensive(opaque, message),
            Self::Predicate(predicate) => Partial::Known(predicate.evaluate(message, hierarchies)),
            Self::Not(inner) => partial_not(inner, message, hierarchies),
            Self::And(children) => fold::<false>(children, message, hierarchies),
            Self::Or(children) => fold::<true>(children, message, hierarchies),
        }
    }
}

/// Kleene OR when `deciding` is true, AND when it is false: the deciding value wins, then undecided, then unknown.
fn fold<'q, const DECIDING: bool>(
    children: &'q [Expr],
    message: &Message<'_>,
    hierarchies: Option<&Hierarchies>,
) -> Partial<'q> {
    if children.len() > FREE_MAX && !message.allowance().spend(children.len(), ELEMENT_NS) {
        return Partial::Known(None);
    }
    let mut result = Some(!DECIDING);
    for (index, child) in children.iter().enumerate() {
        match child.partial(message, hierarchies) {
            Partial::Known(Some(truth)) if truth == DECIDING => return Partial::Known(Some(DECIDING)),
            Partial::Known(Some(_)) => {}
            Partial::Known(None) => result = None,
            Partial::Open(first) => {
                return fold_open(first, &children[index + 1..], DECIDING, result.is_none(), message, hierarchies);
            }
        }
    }
    Partial::Known(result)
}

fn partial_expensive<'q>(opaque: &'q Opaque, message: &Message<'_>) -> Partial<'q> {
    message.remembered(opaque.serial()).map_or(Partial::Open(Residual::Expensive(opaque)), Partial::Known)
}

fn partial_not<'q>(inner: &'q Expr, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Partial<'q> {
    match inner.partial(message, hierarchies) {
        Partial::Known(truth) => Partial::Known(truth.map(|truth| !truth)),
        Partial::Open(residual) => Partial::Open(Residual::Not(Box::new(residual))),
    }
}

/// Continues [`fold`] from the first undecided operand on, outside the code of queries that have none.
#[cold]
fn fold_open<'q>(
    first: Residual<'q>,
    others: &'q [Expr],
    deciding: bool,
    mut unknown: bool,
    message: &Message<'_>,
    hierarchies: Option<&Hierarchies>,
) -> Partial<'q> {
    let mut open = Vec::new();
    for child in others {
        match child.partial(message, hierarchies) {
            Partial::Known(Some(truth)) if truth == deciding => return Partial::Known(Some(deciding)),
            Partial::Known(Some(_)) => {}
            Partial::Known(None) => unknown = true,
            Partial::Open(residual) => open.push(residual),
        }
    }
    if open.is_empty() && !unknown {
        return Partial::Open(first); // the others change nothing
    }
    open.insert(0, first);
    // One operand is enough to decide; for the other value, all must have it, including the known ones.
    let can_decide = open.iter().any(|operand| operand.can_be(deciding));
    let can_all = !unknown && open.iter().all(|operand| operand.can_be(!deciding));
    if !can_decide && !can_all {
        return Partial::Known(None);
    }
    open.sort_by(|a, b| a.cost_ns().total_cmp(&b.cost_ns()));
    let cost_ns = open.iter().map(Residual::cost_ns).sum();
    Partial::Open(if deciding {
        Residual::Or(Operands { open, can_be_true: can_decide, can_be_false: can_all, cost_ns })
    } else {
        Residual::And(Operands { open, can_be_true: can_all, can_be_false: can_decide, cost_ns })
    })
}

impl Residual<'_> {
    /// Whether its result is `wanted`; calls no more predicates than that needs.
    fn is(&self, wanted: bool, message: &Message<'_>) -> bool {
        self.can_be(wanted)
            && match self {
                Self::Expensive(opaque) => opaque.evaluate(message) == Some(wanted),
                Self::Not(inner) => inner.is(!wanted, message),
                Self::And(operands) if wanted => operands.open.iter().all(|operand| operand.is(wanted, message)),
                Self::Or(operands) if !wanted => operands.open.iter().all(|operand| operand.is(wanted, message)),
                Self::And(operands) | Self::Or(operands) => {
                    operands.open.iter().any(|operand| operand.is(wanted, message))
                }
            }
    }

    /// Whether some answers of the expensive predicates would make it `wanted`; calls none. Constant time below AND and
    /// OR.
    fn can_be(&self, wanted: bool) -> bool {
        match self {
            Self::Expensive(_) => true,
            Self::Not(inner) => inner.can_be(!wanted),
            Self::And(operands) | Self::Or(operands) if wanted => operands.can_be_true,
            Self::And(operands) | Self::Or(operands) => operands.can_be_false,
        }
    }

    fn cost_ns(&self) -> f64 {
        match self {
            Self::Expensive(opaque) => opaque.cost_ns(),
            Self::Not(inner) => inner.cost_ns(),
            Self::And(operands) | Self::Or(operands) => operands.cost_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expensive::InjectedCost;
    use crate::message::{Body, Properties, Value};
    use crate::query::expr::Reference;
    use crate::testing::{Random, rounds};

    /// Truths by index: false and true as properties, unknown as an absent one.
    const NAMES: [&str; 3] = ["no", "yes", "absent"];
    const TRUTHS: [Truth; 3] = [Some(false), Some(true), None];

    fn properties() -> Properties {
        [("no".into(), Value::Bool(false)), ("yes".into(), Value::Bool(true))].into_iter().collect()
    }

    fn cheap(index: usize) -> Expr {
        Predicate::Truth(Reference::property(NAMES[index])).into()
    }

    fn expensive(index: usize, cost_ns: f64) -> (Expr, Opaque) {
        let opaque = Opaque::new(InjectedCost::new("expensive", cost_ns, move |_| TRUTHS[index]));
        (Predicate::Opaque(opaque.clone()).into(), opaque)
    }

    /// Kleene's logic by numbers, false 0, unknown 1, true 2, with one number for every expensive predicate, or what it is.
    fn by_definition(expr: &Expr, expensive: Option<u8>, message: &Message<'_>) -> u8 {
        let each =
            |children: &[Expr]| children.iter().map(|c| by_definition(c, expensive, message)).collect::<Vec<_>>();
        match (expr, expensive) {
            (Expr::Predicate(Predicate::Opaque(_)), Some(expensive)) => expensive,
            (Expr::Predicate(predicate), _) => rank(predicate.evaluate(message, None)),
            (Expr::Not(inner), _) => 2 - by_definition(inner, expensive.map(|expensive| 2 - expensive), message),
            (Expr::And(children), _) => each(children).into_iter().min().expect("operands"),
            (Expr::Or(children), _) => each(children).into_iter().max().expect("operands"),
        }
    }

    fn rank(truth: Truth) -> u8 {
        truth.map_or(1, |truth| 2 * u8::from(truth))
    }

    fn tree(random: &mut Random, shared: &[(Expr, Opaque)], depth: usize) -> Expr {
        let children =
            |random: &mut Random| (0..2 + random.below(3)).map(|_| tree(random, shared, depth - 1)).collect();
        match random.below(if depth == 0 { 4 } else { 9 }) {
            0 | 1 => cheap(random.below(3)),
            2 | 3 => shared[random.below(shared.len())].0.clone(),
            4 => tree(random, shared, depth - 1).negate(),
            5 | 6 => Expr::and(children(random)),
            _ => Expr::or(children(random)),
        }
    }

    #[test]
    fn the_answer_is_that_of_the_definition_and_each_is_asked_at_most_once() {
        let (mut random, properties) = (Random(4), properties());
        for _ in rounds(0..3_000) {
            let shared: Vec<_> = (0..4).map(|index| expensive(index % 3, 1.0 + index as f64)).collect();
            let expr = tree(&mut random, &shared, 4);
            let message = || Message::new("", &properties, Body::Absent);
            // Expensive predicates as low and as high as their position under NOT allows: the result that they cannot change.
            let [low, high] = [0, 2].map(|expensive| by_definition(&expr, Some(expensive), &message()));
            let expected = by_definition(&expr, None, &message());
            let calls = || shared.iter().map(|(_, opaque)| opaque.counts().calls).collect::<Vec<_>>();

            let (asked, before) = (message(), calls());
            assert_eq!(rank(expr.evaluate(&asked, None)), expected, "{expr}");
            assert!(calls().iter().zip(&before).all(|(after, before)| after - before <= 1), "{expr}");
            assert!(low < high || calls() == before, "nothing was open: {expr}");
            let before = calls();
            assert_eq!(expr.is_true(&asked, None), expected == 2, "{expr}");
            assert_eq!(calls(), before, "the message remembers: {expr}");
            assert_eq!(expr.is_true(&message(), None), expected == 2, "{expr}");
            assert!(high == 2 || calls() == before, "it could not be true: {expr}");
        }
    }

    /// The number of calls of an expensive predicate by `evaluate`, then by `is_true` of another message.
    fn calls(make: impl Fn(Expr) -> Expr) -> (u64, u64) {
        let properties = properties();
        let (expr, opaque) = expensive(1, 10.0);
        let expr = make(expr);
        _ = expr.evaluate(&Message::new("", &properties, Body::Absent), None);
        let evaluated = opaque.counts().calls;
        _ = expr.is_true(&Message::new("", &properties, Body::Absent), None);
        (evaluated, opaque.counts().calls - evaluated)
    }

    #[test]
    fn nothing_expensive_is_asked_when_something_cheaper_decides_wherever_it_stands() {
        let [no, yes, absent] = [0, 1, 2].map(|index| move || cheap(index));
        assert_eq!(calls(|expensive| Expr::and(vec![expensive, no()])), (0, 0));
        assert_eq!(calls(|expensive| Expr::or(vec![expensive, yes()])), (0, 0));
        assert_eq!(calls(|expensive| Expr::and(vec![Expr::or(vec![expensive, no()]), no()])), (0, 0));
        let inside = |expensive: Expr| Expr::or(vec![Expr::and(vec![expensive, no()]), no()]);
        assert_eq!(
            calls(|expensive| Expr::and(vec![Expr::or(vec![expensive.clone(), no()]), inside(expensive)])),
            (0, 0)
        );
        assert_eq!(calls(|expensive| Expr::and(vec![expensive, yes()])), (1, 1));
        // An unknown operand: false or unknown is still to be found out, true is not.
        assert_eq!(calls(|expensive| Expr::and(vec![expensive, absent()])), (1, 0));
        assert_eq!(calls(|expensive| Expr::or(vec![expensive, absent()]).negate()), (1, 0));
    }

    #[test]
    fn the_cheaper_of_two_expensive_predicates_is_asked_first() {
        let properties = properties();
        let ((costlier, skipped), (cheaper, asked)) = (expensive(1, 500.0), expensive(0, 10.0));
        let expr = Expr::and(vec![costlier, cheaper]);
        assert_eq!(expr.evaluate(&Message::new("", &properties, Body::Absent), None), Some(false));
        assert_eq!((skipped.counts().calls, asked.counts().calls), (0, 1));
    }
}
