//! Estimates the cost of evaluating a predicate, to decide which to evaluate first.

use crate::query::expr::{Expr, Operand, Predicate};

/// The cost of comparing a property with a constant.
const COMPARISON_NS: f64 = 5.0;
/// The cost of a test of membership in an IN list, by a hash or a binary search.
const IN_NS: f64 = 15.0;
/// The cost of one level of a hierarchy.
const UNDER_NS: f64 = 30.0;
/// The cost of matching a pattern with one short text.
const LIKE_NS: f64 = 50.0;
/// The cost of matching the words of a topic one after another.
const TOPIC_NS: f64 = 50.0;
/// The cost of a look-up in the signature, which has to be made first.
const WORDS_NS: f64 = 100.0;
/// The cost of searching one short text.
const REGEX_NS: f64 = 200.0;

impl Predicate {
    /// The cost of the predicate in nanoseconds: the declared cost of an expensive predicate, for any other an estimate
    /// that assumes short texts and flat messages. Constant time, except for arithmetic, where it is linear in the
    /// operators.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        match self {
            Self::Constant(_) => 0.0,
            Self::Truth(_) | Self::Exists(_) => COMPARISON_NS,
            Self::Compare(left, _, right) => COMPARISON_NS + left.cost_ns() + right.cost_ns(),
            Self::Between(operand, low, high) => {
                2.0 * COMPARISON_NS + operand.cost_ns() + low.cost_ns() + high.cost_ns()
            }
            Self::In(operand, _) => IN_NS + operand.cost_ns(),
            Self::Like(operand, _) => LIKE_NS + operand.cost_ns(),
            Self::IsNull(operand) => COMPARISON_NS + operand.cost_ns(),
            Self::Contains(..) | Self::Near(..) => WORDS_NS,
            Self::Topic(_) => TOPIC_NS,
            Self::Prefix(..) => COMPARISON_NS,
            Self::Regex(..) => REGEX_NS,
            Self::Under(..) => UNDER_NS,
            Self::Opaque(opaque) => opaque.cost_ns(),
        }
    }
}

impl Operand {
    /// The additional cost of computing the operand: that of one comparison per operator.
    fn cost_ns(&self) -> f64 {
        match self {
            Self::Literal(_) | Self::Reference(_) => 0.0,
            Self::Negate(inner) => COMPARISON_NS + inner.cost_ns(),
            Self::Arithmetic(left, _, right) => COMPARISON_NS + left.cost_ns() + right.cost_ns(),
        }
    }
}

impl Expr {
    /// The cost of evaluating the whole tree, in nanoseconds: the sum of its predicates. Linear in the tree.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        match self {
            Self::Predicate(predicate) => predicate.cost_ns(),
            Self::Not(inner) => inner.cost_ns(),
            Self::And(children) | Self::Or(children) => children.iter().map(Self::cost_ns).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::query::selector::{SelectorDialect, parse};

    #[test]
    fn what_is_more_expensive_is_estimated_more_expensive() {
        let rising = [
            "TRUE",
            "a = 1",
            "a + 1 = 2",
            "a IN (1, 2)",
            "a UNDER 'x'",
            "a LIKE 'x%'",
            "CONTAINS(body, 'x')",
            "REGEX(a, 'x')",
            "REGEX(a, 'x') AND b = 1",
        ];
        let cost = |text: &str| parse(text, SelectorDialect::Jms).expect(text).expr().cost_ns();
        assert!(rising.windows(2).all(|pair| cost(pair[0]) < cost(pair[1])), "{:?}", rising.map(cost));
    }
}
