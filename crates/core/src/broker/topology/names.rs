//! Under which names a query finds the parts of an AMQP message.
//!
//! Properties of AMQP have their names, headers have theirs, and reach into nested tables by dotted names. A header
//! that is called like a property is seen in its place where the property is not set; `user_id`, which the broker has
//! checked, cannot be given by a header. Names that begin with a NUL are ours, and no header is ever put under one:
//! a JSON body, and headers that are called like properties, which a headers exchange tells from them.

use crate::query::expr::{Expr, Operand, Predicate, PropertyName, Reference};

/// Where the value of a JSON body is.
pub(super) const JSON: &str = "\0body";
/// Nothing is ever here: the body of a binding that does not look at bodies.
const NOTHING: &str = "\0nothing";

/// The names of AMQP's properties.
pub(super) const PROPERTIES: [&str; 13] = [
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
/// The same, as headers of a headers exchange.
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

/// The name under which a header that is called like a property is kept beside it; None for all other headers.
pub(super) fn beside_property(header: &str) -> Option<&'static str> {
    PROPERTIES.iter().position(|name| *name == header).map(|place| AS_HEADERS[place])
}

/// How a binding looks at bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all: the body is absent.
    #[default]
    None,
    /// As text, where it is UTF-8.
    Text,
    /// As text, and its fields as properties under `body.`, where it is JSON.
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

/// Which parts of a message a query asks for, apart from its routing key.
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
    /// True when it is asked for anything.
    #[must_use]
    pub fn any(self) -> bool {
        self.properties || self.text || self.json
    }
}

/// `expr` as it is asked of messages of which a binding sees the body as `mode` says; and what that needs.
///
/// All bindings of an exchange share one message, so what a binding may not see has a name that is never there.
pub(super) fn resolve(expr: Expr, mode: BodyMode) -> (Expr, Needs) {
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
    let (first, rest) = name.text.split_once('.')?;
    let is_body = if name.any_case { first.eq_ignore_ascii_case("body") } else { first == "body" };
    is_body.then(|| PropertyName { text: format!("{JSON}.{rest}").into(), any_case: name.any_case })
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
