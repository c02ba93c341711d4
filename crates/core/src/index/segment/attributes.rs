//! The attributes of a segment, and how a message finds them.

use hashbrown::{HashMap, HashTable};

use crate::index::codec::{Reader, encode_text};
use crate::index::compile::interner::{Attribute, AttributeId, NONE, Origin};
use crate::index::matching::hashed_message::hash_name;

/// What a segment knows of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeInfo {
    /// Where its values come from.
    pub origin: Origin,
    /// The property's name; empty for the topic.
    pub name: Box<str>,
    /// True when ranges look at its number.
    pub has_ranges: bool,
    /// True when queries are filed under its symbols.
    pub has_keys: bool,
    /// The group of queries filed under its presence, or [`NONE`].
    pub group: u32,
    /// Summary rows of a message without the attribute, with null, without a value, with a value that no query names;
    /// [`NONE`] where nothing is ruled out. The last is also that of values which have none of their own.
    pub rows: [u32; 4],
}

impl AttributeInfo {
    /// Of an attribute that rules out nothing.
    pub fn new(attribute: &Attribute) -> Self {
        let Attribute { origin, name, has_ranges, .. } = attribute;
        let (origin, name, has_ranges) = (*origin, name.clone(), *has_ranges);
        Self { origin, name, has_ranges, has_keys: false, group: NONE, rows: [NONE; 4] }
    }

    /// True when leaves are ruled out by its values.
    pub fn has_rows(&self) -> bool {
        self.rows != [NONE; 4]
    }
}

/// The attributes as a section.
pub fn encode_attributes(attributes: &[AttributeInfo]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for attribute in attributes {
        bytes.extend([attribute.origin as u8, u8::from(attribute.has_ranges), u8::from(attribute.has_keys)]);
        encode_text(&attribute.name, &mut bytes);
        let numbers = [attribute.group].into_iter().chain(attribute.rows);
        numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    bytes
}

/// A name that a message may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// The property.
    pub property: Option<AttributeId>,
    /// What it is below.
    pub ancestors: Option<AttributeId>,
    /// What stands in its texts.
    pub atoms: TextAtoms,
}

/// What may stand in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAtoms {
    /// Needles.
    pub needles: Option<AttributeId>,
    /// Words.
    pub words: Option<AttributeId>,
}

impl TextAtoms {
    /// True when there is nothing to look for.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// All attributes of a segment.
#[derive(Debug, Default)]
pub struct Attributes {
    /// By number.
    pub all: Vec<AttributeInfo>,
    /// Properties by their names, with the hashes of those.
    names: HashTable<(u64, Box<str>, Named)>,
    /// Those of them that may reach into mappings.
    dotted: Vec<Box<str>>,
    /// The same of names that are found without regard to case.
    pub any_case: HashMap<Box<str>, Named>,
    /// The topic.
    pub topic: Option<AttributeId>,
    /// What stands in it.
    pub topic_atoms: TextAtoms,
    /// The patterns that it matches.
    pub patterns: Option<AttributeId>,
    /// What is looked for in the body.
    pub body_atoms: TextAtoms,
    /// Those with summary rows.
    pub with_rows: Vec<AttributeId>,
}

impl Attributes {
    /// Read what [`encode_attributes`] wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes, &[]);
        let mut attributes = Self::default();
        while !reader.rest.is_empty() {
            attributes.push(read(&mut reader)?)?;
        }
        Ok(attributes)
    }

    fn push(&mut self, attribute: AttributeInfo) -> Result<(), String> {
        let id = AttributeId::try_from(self.all.len()).map_err(|_| "too many attributes".to_owned())?;
        match attribute.origin {
            Origin::Topic => self.topic = Some(id),
            Origin::TopicNeedles => self.topic_atoms.needles = Some(id),
            Origin::TopicWords => self.topic_atoms.words = Some(id),
            Origin::Patterns => self.patterns = Some(id),
            // Leaves do not ask about what no query is filed under: see the builder.
            Origin::BodyNeedles => self.body_atoms.needles = attribute.has_keys.then_some(id),
            Origin::BodyWords => self.body_atoms.words = attribute.has_keys.then_some(id),
            Origin::AnyCase => self.any_case_named(&attribute.name).property = Some(id),
            Origin::AnyCaseNeedles => self.any_case_named(&attribute.name).atoms.needles = Some(id),
            Origin::AnyCaseWords => self.any_case_named(&attribute.name).atoms.words = Some(id),
            Origin::Property => self.named(&attribute.name).property = Some(id),
            Origin::Ancestors => self.named(&attribute.name).ancestors = Some(id),
            Origin::Needles => self.named(&attribute.name).atoms.needles = Some(id),
            Origin::Words => self.named(&attribute.name).atoms.words = Some(id),
        }
        if attribute.has_rows() {
            self.with_rows.push(id);
        }
        self.all.push(attribute);
        Ok(())
    }

    fn named(&mut self, name: &str) -> &mut Named {
        let hash = hash_name(name);
        if self.find(name, hash).is_none() && name.contains('.') {
            self.dotted.push(name.into());
        }
        let entry = self.names.entry(hash, |(_, other, _)| **other == *name, |(hash, ..)| *hash);
        &mut entry.or_insert_with(|| (hash, name.into(), Named::default())).into_mut().2
    }

    /// How many names of properties there are.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Every name of a property.
    pub fn names(&self) -> impl Iterator<Item = (&str, Named)> {
        self.names.iter().map(|(_, name, named)| (&**name, *named))
    }

    /// What a name is that hashes to `hash`.
    #[inline]
    pub fn find(&self, name: &str, hash: u64) -> Option<Named> {
        self.names
            .find(hash, |(other_hash, other, _)| *other_hash == hash && **other == *name)
            .map(|(.., named)| *named)
    }

    /// The names that may reach into mappings.
    pub fn dotted(&self) -> impl Iterator<Item = (&str, Named)> {
        self.dotted.iter().filter_map(|name| Some((&**name, self.find(name, hash_name(name))?)))
    }

    fn any_case_named(&mut self, name: &str) -> &mut Named {
        self.any_case.entry(name.into()).or_default()
    }
}

fn read(reader: &mut Reader<'_>) -> Result<AttributeInfo, String> {
    let origin = reader.one_of(&Origin::ALL, "origin of an attribute")?;
    let (has_ranges, has_keys) = (reader.flag()?, reader.flag()?);
    let name = reader.text()?.into();
    let group = reader.half_word()?;
    let mut rows = [NONE; 4];
    for row in &mut rows {
        *row = reader.half_word()?;
    }
    Ok(AttributeInfo { origin, name, has_ranges, has_keys, group, rows })
}
