//! The names by which a query refers to the parts of an AMQP message.
//!
//! AMQP's properties and headers have their own names; dotted names reach into nested tables. A header that is called like
//! a property stands in for it when the property is not set, except `user_id`, which the broker has checked. Names that
//! begin with a NUL are internal, and no header is ever put under one: they are for a JSON body, and for headers that are
//! called like properties, which a headers exchange distinguishes from them.

use crate::query::expr::{Expr, Operand, Predicate, PropertyName, Reference};

/// The name of a JSON body.
pub(in crate::broker::topology) const JSON: &str = "\0body";
/// The name of the body in queries that do not look at bodies: it is always absent.
const NOTHING: &str = "\0nothing";

/// The names of AMQP's properties.
pub(in crate::broker::topology) const PROPERTIES: [&str; 13] = [
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
];
/// The names of headers that are called like properties, for a headers exchange.
const AS_HEADERS: [&str; 13] = [
    "\0content_type",
    "\0content_encoding",
    "\0delivery_mode",
    "\0priority",
    "\0correlation_id",
    "\0reply_to",
    "\0expiration",
    "\0message_id",
    "\0timestamp",
    "\0type",
    "\0user_id",
    "\0app_id",
    "\0cluster_id",
];

/// The internal name of a header that is called like a property; None for all other headers.
pub(in crate::broker::topology) fn beside_property(header: &str) -> Option<&'static str> {
    PROPERTIES.iter().position(|name| *name == header).map(|index| AS_HEADERS[index])
}

/// The form in which the query of a binding sees bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// The body is absent.
    #[default]
    None,
    /// The body is text, if it is UTF-8.
    Text,
    /// The body is text, and its fields are properties under `body.`, if it is JSON.
    Json,
}

impl BodyMode {
    /// The mode called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The parts of a message that a query refers to, besides the routing key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Properties or headers.
    pub properties: bool,
    /// The body as text.
    pub text: bool,
    /// The body as JSON.
    pub json: bool,
}

impl Needs {
    /// Whether it refers to any of them.
    #[must_use]
    pub fn any(self) -> bool {
        self.properties || self.text || self.json
    }
}

/// Rewrite `expr` for messages whose body has the form `mode`. Returns it with the parts that it needs.
///
/// All bindings of an exchange share one view of the message, so that what a query must not see gets a name that is always
/// absent.
pub(in crate::broker::topology) fn resolve(expr: Expr, mode: BodyMode) -> (Expr, Needs) {
    let mut needs = Needs::default();
    let expr = in_expr(expr, &mut |reference| match reference {
        Reference::Topic => Reference::Topic,
        Reference::Body if mode == BodyMode::None => Reference::property(NOTHING),
        Reference::Body => {
            needs.text = true;
            Reference::Body
        }
        Reference::Property(name) => match json_field(&name).filter(|_| mode == BodyMode::Json) {
            Some(field) => {
                needs.json = true;
                Reference::Property(field)
            }
            None => {
                needs.properties = true;
                Reference::Property(name)
            }
        },
    });
    (expr, needs)
}

fn json_field(name: &PropertyName) -> Option<PropertyName> {
    let text = json_name(&name.text)?.into(); // without regard to case, names are written in lower case
    Some(PropertyName { text, any_case: name.any_case })
}

/// The internal name of a field of the body, which queries call `body.field`; None for all other names.
pub(in crate::broker::topology) fn json_name(name: &str) -> Option<String> {
    name.strip_prefix("body.").map(|field| format!("{JSON}.{field}"))
}

/// Let `body` in `expr` be the property of that name, in any case. Returns whether it was in there.
pub(in crate::broker::topology) fn body_as_header(expr: Expr) -> (bool, Expr) {
    let mut is_there = false;
    let expr = in_expr(expr, &mut |reference| match reference {
        Reference::Body => {
            is_there = true;
            Reference::Property(PropertyName { text: "body".into(), any_case: true })
        }
        other => other,
    });
    (is_there, expr)
}

/// Whether a query reads the body, as `body` or as one of its fields.
pub(in crate::broker::topology) fn reads_body(expr: &Expr) -> bool {
    let mut reads = false;
    in_expr(expr.clone(), &mut |reference| {
        reads |= match &reference {
            Reference::Topic => false,
            Reference::Body => true,
            Reference::Property(name) => json_field(name).is_some(),
        };
        reference
    });
    reads
}

type ReferenceMap<'a> = &'a mut dyn FnMut(Reference) -> Reference;

fn in_expr(expr: Expr, map: ReferenceMap<'_>) -> Expr {
    match expr {
        Expr::Predicate(predicate) => in_predicate(predicate, map).into(),
        Expr::Not(inner) => in_expr(*inner, map).negate(),
        Expr::And(children) => Expr::And(children.into_iter().map(|child| in_expr(child, map)).collect()),
        Expr::Or(children) => Expr::Or(children.into_iter().map(|child| in_expr(child, map)).collect()),
    }
}

fn in_predicate(predicate: Predicate, map: ReferenceMap<'_>) -> Predicate {
    match predicate {
        Predicate::Constant(_) | Predicate::Topic(_) | Predicate::Opaque(_) => predicate,
        Predicate::Truth(reference) => Predicate::Truth(map(reference)),
        Predicate::Compare(left, op, right) => Predicate::Compare(in_operand(left, map), op, in_operand(right, map)),
        Predicate::Between(operand, low, high) => {
            Predicate::Between(in_operand(operand, map), in_operand(low, map), in_operand(high, map))
        }
        Predicate::In(operand, values) => Predicate::In(in_operand(operand, map), values),
        Predicate::Like(operand, pattern) => Predicate::Like(in_operand(operand, map), pattern),
        Predicate::IsNull(operand) => Predicate::IsNull(in_operand(operand, map)),
        Predicate::Exists(reference) => Predicate::Exists(map(reference)),
        Predicate::Contains(reference, phrase) => Predicate::Contains(map(reference), phrase),
        Predicate::Near(reference, a, b, distance) => Predicate::Near(map(reference), a, b, distance),
        Predicate::Prefix(reference, prefix) => Predicate::Prefix(map(reference), prefix),
        Predicate::Regex(reference, pattern) => Predicate::Regex(map(reference), pattern),
        Predicate::Under(reference, ancestor) => Predicate::Under(map(reference), ancestor),
    }
}

fn in_operand(operand: Operand, map: ReferenceMap<'_>) -> Operand {
    match operand {
        Operand::Literal(_) => operand,
        Operand::Reference(reference) => Operand::Reference(map(reference)),
        Operand::Negate(inner) => Operand::Negate(Box::new(in_operand(*inner, map))),
        Operand::Arithmetic(left, op, right) => {
            Operand::Arithmetic(Box::new(in_operand(*left, map)), op, Box::new(in_operand(*right, map)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{self, SelectorDialect};

    fn needs(text: &str, mode: BodyMode) -> Needs {
        let query = selector::parse(text, SelectorDialect::Jms).expect(text);
        resolve(query.expr().clone(), mode).1
    }

    #[test]
    fn a_query_needs_what_it_names() {
        let [properties, text, json] = [(true, false, false), (false, true, false), (false, false, true)]
            .map(|(properties, text, json)| Needs { properties, text, json });
        assert_eq!(needs("TOPIC('a.#') AND topic = 'a.b'", BodyMode::Json), Needs::default());
        assert_eq!(needs("-(1 + x * 2) < y", BodyMode::Json), properties);
        assert_eq!(needs("CONTAINS(body, 'x') OR body LIKE 'y%'", BodyMode::Text), text);
        assert_eq!(needs("CONTAINS(body, 'x')", BodyMode::None), Needs::default());
        assert_eq!(needs("body.x = 1 OR body.y.z IS NULL", BodyMode::Json), json);
        assert_eq!(needs("body.x = 1", BodyMode::Text), properties);
        assert_eq!(needs("bodyx.x BETWEEN 1 AND 2", BodyMode::Json), properties);
    }
}
