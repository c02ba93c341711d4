//! Counts the predicates by which a message fails to satisfy a query.

use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::Query;
use crate::query::expr::Expr;

impl Query {
    /// 0 when the query is true of `message`, else the number of predicates that would have to become true.
    ///
    /// A predicate counts 0 when true and 1 when false or unknown. AND sums, and OR takes the minimum; NOT is pushed to
    /// the predicates first. Cost: every predicate once.
    #[must_use]
    pub fn distance(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> usize {
        distance(self.expr(), false, message, hierarchies)
    }
}

fn distance(expr: &Expr, negated: bool, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> usize {
    let each = |children: &[Expr]| -> Vec<usize> {
        children.iter().map(|child| distance(child, negated, message, hierarchies)).collect()
    };
    match (expr, negated) {
        (Expr::Predicate(predicate), _) => usize::from(predicate.evaluate(message, hierarchies) != Some(!negated)),
        (Expr::Not(inner), _) => distance(inner, !negated, message, hierarchies),
        (Expr::And(children), false) | (Expr::Or(children), true) => each(children).into_iter().sum(),
        (Expr::Or(children), false) | (Expr::And(children), true) => each(children).into_iter().min().unwrap_or(0),
    }
}
