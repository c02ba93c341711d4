//! The parts of a message that the queries of a version ask for, so that others need not be read.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use crate::message::OTHER_NAMES;
use crate::query::Query;
use crate::query::expr::{Predicate, Reference};

/// The parts of a message that queries ask for. `a.b` asks for `a` too, which may be a mapping.
#[derive(Clone, Debug, Default)]
pub struct AskedParts {
    /// Whether a query asks for the topic.
    pub topic: bool,
    /// Whether a query asks for the body.
    pub body: bool,
    /// The names of the expensive predicates, which are called with all parts.
    pub expensive: BTreeSet<Box<str>>,
    exact: HashSet<Box<str>>,
    any_case: HashSet<Box<str>>,
}

impl AskedParts {
    /// Add what `query` asks for.
    pub fn add(&mut self, query: &Query) {
        for predicate in query.expr().predicates() {
            if let Predicate::Opaque(opaque) = predicate {
                (self.topic, self.body) = (true, true);
                self.expensive.insert(opaque.name().into());
            }
            predicate.references().into_iter().for_each(|reference| self.add_reference(reference));
        }
    }

    fn add_reference(&mut self, reference: &Reference) {
        match reference {
            Reference::Topic => self.topic = true,
            Reference::Body => self.body = true,
            Reference::Property(name) => {
                add_with_parents(if name.any_case { &mut self.any_case } else { &mut self.exact }, &name.text);
            }
        }
    }

    /// Whether a property called `name` can make a difference: also as a part of the message, whose names are those of a
    /// record's keys.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        !self.expensive.is_empty()
            || self.exact.contains(name)
            || self.topic && name == "topic"
            || self.body && name.eq_ignore_ascii_case("body")
            || (!self.any_case.is_empty() && self.has_any_case(&name.to_lowercase()))
    }

    fn has_any_case(&self, name: &str) -> bool {
        self.any_case.contains(name)
            || OTHER_NAMES.iter().any(|(ours, other)| *other == name && self.any_case.contains(*ours))
    }
}

fn add_with_parents(names: &mut HashSet<Box<str>>, name: &str) {
    let ends = name.match_indices('.').map(|(dot, _)| dot).chain([name.len()]);
    ends.for_each(|end| _ = names.insert(name[..end].into()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

    fn asked(text: &str, dialect: SelectorDialect) -> AskedParts {
        let mut asked = AskedParts::default();
        asked.add(&parse(text, dialect).expect(text));
        asked
    }

    #[test]
    fn a_dotted_name_asks_for_every_mapping_on_its_way_and_nothing_else() {
        let names = asked("a.b.c = 1 OR NOT (x > y)", SelectorDialect::Jms);
        assert!(["a", "a.b", "a.b.c", "x", "y"].iter().all(|name| names.has(name)));
        assert!(["A", "b", "a.c", "a.b.c.d", ""].iter().all(|name| !names.has(name)));
    }

    #[test]
    fn topic_and_body_are_asked_for_by_their_predicates_only() {
        let parts = |text| asked(text, SelectorDialect::Jms);
        assert!(!parts("a = 1").topic && !parts("a = 1").body);
        assert!(parts("TOPIC('a.#')").has("topic") && !parts("TOPIC('a.#')").has("Topic"));
        assert!(parts("body = 'x'").has("Body") && !parts("body = 'x'").has("topic"));
        assert!(parts("TOPIC('a.#')").topic && parts("topic LIKE 'x%'").topic);
        let quoted = parts("CONTAINS(body, 'frost') AND \"topic\" = 'x'");
        assert!(quoted.body && quoted.has("topic") && !quoted.topic);
    }

    #[test]
    fn names_without_regard_to_case_ask_for_any_spelling() {
        let names = asked("Source = \"CNN\"", SelectorDialect::Cbm);
        assert!(names.has("source") && names.has("SOURCE") && !names.has("sources") && !names.has("From"));
        assert!(asked("From = \"James\"", SelectorDialect::Cbm).has("From"));
    }
}
