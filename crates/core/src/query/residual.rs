//! Dear predicates last: a tree is first evaluated without them, and only what that leaves open asks them.
//!
//! So a dear predicate is asked only where nothing cheaper has decided, wherever it stands in the tree. Three-valued
//! logic does not depend on the order, so the answer is that of evaluating from left to right.

use crate::dear::Opaque;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::evaluate::Truth;
use crate::query::expr::{Expr, Predicate};

/// What is known of a tree without asking a dear predicate that the message does not remember.
enum Partial<'q> {
    Known(Truth),
    Open(Residual<'q>),
}

/// The part of a tree that dear predicates decide.
enum Residual<'q> {
    Dear(&'q Opaque),
    Not(Box<Residual<'q>>),
    And(Operands<'q>),
    Or(Operands<'q>),
}

/// The operands that are open, the cheapest first; the others did not decide.
struct Operands<'q> {
    open: Vec<Residual<'q>>,
    /// One of the others is unknown, so an AND cannot be true any more, and an OR cannot be false.
    unknown: bool,
}

impl Expr {
    /// True, false or unknown (None) of `message`; stops as soon as it is decided.
    #[must_use]
    pub fn evaluate(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Truth {
        match self.partial(message, hierarchies) {
            Partial::Known(truth) => truth,
            // The message remembers what the first question asked.
            Partial::Open(residual) if residual.is(true, message) => Some(true),
            Partial::Open(residual) => residual.is(false, message).then_some(false),
        }
    }

    /// Whether it is true of `message`, without finding out whether it is false or unknown otherwise: dear predicates
    /// are not asked once it cannot become true.
    #[must_use]
    pub fn is_true(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> bool {
        match self.partial(message, hierarchies) {
            Partial::Known(truth) => truth == Some(true),
            Partial::Open(residual) => residual.is(true, message),
        }
    }

    fn partial(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Partial<'_> {
        match self {
            Self::Predicate(Predicate::Opaque(opaque)) => {
                message.remembered(opaque.serial()).map_or(Partial::Open(Residual::Dear(opaque)), Partial::Known)
            }
            Self::Predicate(predicate) => Partial::Known(predicate.evaluate(message, hierarchies)),
            Self::Not(inner) => match inner.partial(message, hierarchies) {
                Partial::Known(truth) => Partial::Known(truth.map(|truth| !truth)),
                Partial::Open(residual) => Partial::Open(Residual::Not(Box::new(residual))),
            },
            Self::And(children) => fold(children, false, message, hierarchies),
            Self::Or(children) => fold(children, true, message, hierarchies),
        }
    }
}

/// Kleene OR when `deciding` is true, AND when it is false: the deciding value wins, then what is open, then unknown.
fn fold<'q>(
    children: &'q [Expr],
    deciding: bool,
    message: &Message<'_>,
    hierarchies: Option<&Hierarchies>,
) -> Partial<'q> {
    let (mut open, mut unknown) = (Vec::new(), false);
    for child in children {
        match child.partial(message, hierarchies) {
            Partial::Known(Some(truth)) if truth == deciding => return Partial::Known(Some(deciding)),
            Partial::Known(Some(_)) => {}
            Partial::Known(None) => unknown = true,
            Partial::Open(residual) => open.push(residual),
        }
    }
    if open.is_empty() {
        return Partial::Known((!unknown).then_some(!deciding));
    }
    open.sort_by(|a, b| a.cost_ns().total_cmp(&b.cost_ns()));
    let operands = Operands { open, unknown };
    Partial::Open(if deciding { Residual::Or(operands) } else { Residual::And(operands) })
}

impl Residual<'_> {
    /// Whether it comes out as `wanted`; asks no more than that needs.
    fn is(&self, wanted: bool, message: &Message<'_>) -> bool {
        match self {
            Self::Dear(opaque) => opaque.evaluate(message) == Some(wanted),
            Self::Not(inner) => inner.is(!wanted, message),
            Self::And(operands) if wanted => operands.all(wanted, message),
            Self::Or(operands) if !wanted => operands.all(wanted, message),
            Self::And(operands) | Self::Or(operands) => operands.open.iter().any(|open| open.is(wanted, message)),
        }
    }

    fn cost_ns(&self) -> f64 {
        match self {
            Self::Dear(opaque) => opaque.cost_ns(),
            Self::Not(inner) => inner.cost_ns(),
            Self::And(operands) | Self::Or(operands) => operands.open.iter().map(Self::cost_ns).sum(),
        }
    }
}

impl Operands<'_> {
    fn all(&self, wanted: bool, message: &Message<'_>) -> bool {
        !self.unknown && self.open.iter().all(|open| open.is(wanted, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dear::InjectedCost;
    use crate::message::{Body, Properties, Value};
    use crate::query::expr::Reference;

    /// Truths by place, false and true as properties, unknown as an absent one.
    const NAMES: [&str; 3] = ["no", "yes", "absent"];
    const TRUTHS: [Truth; 3] = [Some(false), Some(true), None];

    fn properties() -> Properties {
        [("no".into(), Value::Bool(false)), ("yes".into(), Value::Bool(true))].into_iter().collect()
    }

    fn cheap(place: usize) -> Expr {
        Predicate::Truth(Reference::property(NAMES[place])).into()
    }

    fn dear(place: usize, cost_ns: f64) -> (Expr, Opaque) {
        let opaque = Opaque::new(InjectedCost::new("dear", cost_ns, move |_| TRUTHS[place]));
        (Predicate::Opaque(opaque.clone()).into(), opaque)
    }

    /// Kleene's logic on what is no tree: false < unknown < true.
    fn by_definition(expr: &Expr, message: &Message<'_>) -> Truth {
        let rank = |truth: Truth| truth.map_or(1, |truth| 2 * u8::from(truth));
        let truths = |children: &[Expr]| children.iter().map(|c| by_definition(c, message)).collect::<Vec<_>>();
        match expr {
            Expr::Predicate(predicate) => predicate.evaluate(message, None),
            Expr::Not(inner) => by_definition(inner, message).map(|truth| !truth),
            Expr::And(children) => truths(children).into_iter().min_by_key(|t| rank(*t)).expect("operands"),
            Expr::Or(children) => truths(children).into_iter().max_by_key(|t| rank(*t)).expect("operands"),
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
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
        for _ in 0..3_000 {
            let shared: Vec<_> = (0..4).map(|place| dear(place % 3, 1.0 + place as f64)).collect();
            let expr = tree(&mut random, &shared, 4);
            let expected = by_definition(&expr, &Message::new("", &properties, Body::Absent));
            let calls = || shared.iter().map(|(_, opaque)| opaque.counts().calls).collect::<Vec<_>>();
            let before = calls();
            let message = Message::new("", &properties, Body::Absent);
            assert_eq!(expr.evaluate(&message, None), expected, "{expr}");
            assert!(calls().iter().zip(&before).all(|(after, before)| after - before <= 1), "{expr}");
            let again = calls();
            assert_eq!(expr.is_true(&message, None), expected == Some(true), "{expr}");
            assert_eq!(calls(), again, "the message remembers: {expr}");
            let message = Message::new("", &properties, Body::Absent);
            assert_eq!(expr.is_true(&message, None), expected == Some(true), "{expr}");
        }
    }

    /// How often a dear predicate is asked by `evaluate`, then by `is_true` of another message.
    fn calls(make: impl Fn(Expr) -> Expr) -> (u64, u64) {
        let properties = properties();
        let (expr, opaque) = dear(1, 10.0);
        let expr = make(expr);
        _ = expr.evaluate(&Message::new("", &properties, Body::Absent), None);
        let evaluated = opaque.counts().calls;
        _ = expr.is_true(&Message::new("", &properties, Body::Absent), None);
        (evaluated, opaque.counts().calls - evaluated)
    }

    #[test]
    fn nothing_dear_is_asked_when_something_cheaper_decides_wherever_it_stands() {
        let [no, yes, absent] = [0, 1, 2].map(|place| move || cheap(place));
        assert_eq!(calls(|dear| Expr::and(vec![dear, no()])), (0, 0));
        assert_eq!(calls(|dear| Expr::or(vec![dear, yes()])), (0, 0));
        assert_eq!(calls(|dear| Expr::and(vec![Expr::or(vec![dear, no()]), no()])), (0, 0));
        let inside = |dear: Expr| Expr::or(vec![Expr::and(vec![dear, no()]), no()]);
        assert_eq!(calls(|dear| Expr::and(vec![Expr::or(vec![dear.clone(), no()]), inside(dear)])), (0, 0));
        assert_eq!(calls(|dear| Expr::and(vec![dear, yes()])), (1, 1));
        // An unknown operand: false or unknown is still to be found out, true is not.
        assert_eq!(calls(|dear| Expr::and(vec![dear, absent()])), (1, 0));
        assert_eq!(calls(|dear| Expr::or(vec![dear, absent()]).negate()), (1, 0));
    }

    #[test]
    fn the_cheaper_of_two_dear_predicates_is_asked_first() {
        let properties = properties();
        let ((dearer, skipped), (cheaper, asked)) = (dear(1, 500.0), dear(0, 10.0));
        let expr = Expr::and(vec![dearer, cheaper]);
        assert_eq!(expr.evaluate(&Message::new("", &properties, Body::Absent), None), Some(false));
        assert_eq!((skipped.counts().calls, asked.counts().calls), (0, 1));
    }
}
