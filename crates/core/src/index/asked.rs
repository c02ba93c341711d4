//! The parts of a message that queries ask for, so that others need not be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::expensive::Opaque;
use crate::index::codec::{RecordDecoder, encode_text};
use crate::index::name_filter::NameFilter;
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
    exact: HashSet<Arc<str>>,
    any_case: HashSet<Arc<str>>,
    /// The names that make a difference.
    filter: NameFilter,
}

impl AskedParts {
    /// Add what `query` asks for.
    pub fn add(&mut self, query: &Query) {
        query.expr().for_each_predicate(&mut |predicate| {
            if let Predicate::Opaque(opaque) = predicate {
                self.add_expensive(opaque);
            }
            predicate.for_each_reference(&mut |reference| self.add_reference(reference));
        });
    }

    fn add_expensive(&mut self, opaque: &Opaque) {
        (self.topic, self.body) = (true, true);
        self.filter.fill();
        if !self.expensive.contains(opaque.name()) {
            self.expensive.insert(opaque.name().into());
        }
    }

    fn add_reference(&mut self, reference: &Reference) {
        match reference {
            Reference::Topic => self.ask_for_parts(true, false),
            Reference::Body => self.ask_for_parts(false, true),
            Reference::Property(name) if name.any_case => {
                self.filter.fill(); // the filter knows one spelling of a name
                add_with_parents(&mut self.any_case, &name.text, &mut |_| {});
            }
            Reference::Property(name) => {
                add_with_parents(&mut self.exact, &name.text, &mut |name| self.filter.insert(name));
            }
        }
    }

    fn ask_for_parts(&mut self, topic: bool, body: bool) {
        if topic && !self.topic {
            self.filter.insert("topic");
        }
        if body && !self.body {
            spellings("body").for_each(|name| self.filter.insert(&name));
        }
        (self.topic, self.body) = (self.topic || topic, self.body || body);
    }

    /// The names of which [`Self::has`] is true, and perhaps others.
    pub fn filter(&self) -> &NameFilter {
        &self.filter
    }

    /// Write the names and parts as a section; the expensive predicates have one of their own.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.topic), u8::from(self.body)];
        for (names, is_any_case) in [(&self.exact, false), (&self.any_case, true)] {
            let mut names: Vec<_> = names.iter().collect();
            names.sort_unstable();
            for name in names {
                bytes.push(u8::from(is_any_case));
                encode_text(name, &mut bytes);
            }
        }
        bytes
    }

    /// Read what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn decode(bytes: &[u8], opaques: &[Opaque]) -> Result<Self, String> {
        let mut decoder = RecordDecoder::new(bytes, &[]);
        let mut asked = Self::default();
        asked.ask_for_parts(decoder.flag()?, decoder.flag()?);
        while !decoder.is_at_end() {
            let is_any_case = decoder.flag()?;
            let name = decoder.text()?.into();
            if is_any_case {
                asked.filter.fill();
                asked.any_case.insert(name);
            } else {
                asked.filter.insert(&name);
                asked.exact.insert(name);
            }
        }
        opaques.iter().for_each(|opaque| asked.add_expensive(opaque));
        Ok(asked)
    }

    /// Whether a property called `name` can make a difference: also as a part of the message, whose names are those of a
    /// record's keys. What stands in a mapping is named with dots.
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

/// Add `name` and those of the mappings on its way to `names`, and call `added` for each unless `name` was there.
fn add_with_parents(names: &mut HashSet<Arc<str>>, name: &Arc<str>, added: &mut dyn FnMut(&str)) {
    if names.contains(name) {
        return;
    }
    added(name);
    names.insert(Arc::clone(name));
    for (dot, _) in name.match_indices('.') {
        added(&name[..dot]);
        names.insert(name[..dot].into());
    }
}

/// `name` with each of its letters small or large.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    (0..1_u32 << name.len()).map(|large| {
        let spell = |(index, letter): (usize, char)| {
            if large >> index & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
        };
        name.chars().enumerate().map(spell).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

    fn asked(text: &str, dialect: SelectorDialect) -> AskedParts {
        let mut asked = AskedParts::default();
        asked.add(&parse(text, dialect).expect(text));
        let names =
            ["a", "a.b", "a.b.c", "x", "y", "topic", "body", "Body", "BODY", "source", "SOURCE", "From", "other"];
        let read = AskedParts::decode(&asked.encode(), &[]).expect("whole");
        for name in names.into_iter().filter(|name| asked.has(name)) {
            assert!(asked.filter().may_have(name) && read.filter().may_have(name), "{text}: {name}");
        }
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
