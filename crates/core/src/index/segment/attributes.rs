//! The attributes of a segment, and how the names in a message lead to them.

use hashbrown::{HashMap, HashTable};

use crate::index::codec::RecordDecoder;
use crate::index::ids::AttributeId;
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::origin::AttributeOrigin;
use crate::name_hash::hash_name;

use super::text_search::WordAttribute;

/// The attributes that a name of a property leads to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedAttributes {
    /// The property.
    pub property: Option<AttributeId>,
    /// The value and its ancestors.
    pub ancestors: Option<AttributeId>,
    /// The needles and words in its texts.
    pub texts: TextAttributes,
}

/// The attributes of the needles and words in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAttributes {
    /// Needles.
    pub needles: Option<AttributeId>,
    /// Words.
    pub words: Option<WordAttribute>,
}

impl TextAttributes {
    /// True when there is nothing to look for.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// All attributes of a segment.
#[derive(Debug, Default)]
pub struct Attributes {
    all: Vec<AttributeInfo>,
    /// Properties by their names, with the hashes of these.
    names: HashTable<(u64, Box<str>, NamedAttributes)>,
    /// The names of properties that may lead into mappings.
    dotted: Vec<Box<str>>,
    /// Properties by names whose case does not matter.
    pub any_case: HashMap<Box<str>, NamedAttributes>,
    /// The topic.
    pub topic: Option<AttributeId>,
    /// The needles and words in the topic.
    pub topic_texts: TextAttributes,
    /// The patterns that the topic matches.
    pub patterns: Option<AttributeId>,
    /// The needles and words in the body.
    pub body_texts: TextAttributes,
    /// The attributes with summaries.
    pub with_summaries: Vec<AttributeId>,
}

impl Attributes {
    /// Read the section of attributes.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut decoder = RecordDecoder::new(bytes, &[]);
        let mut attributes = Self::default();
        while !decoder.is_at_end() {
            attributes.push(AttributeInfo::decode(&mut decoder)?)?;
        }
        Ok(attributes)
    }

    fn push(&mut self, attribute: AttributeInfo) -> Result<(), String> {
        let id = u32::try_from(self.all.len()).map(AttributeId).map_err(|_| "too many attributes".to_owned())?;
        let words = WordAttribute { id, has_pairs: attribute.has_word_pairs };
        match attribute.origin {
            AttributeOrigin::Topic => self.topic = Some(id),
            AttributeOrigin::TopicNeedles => self.topic_texts.needles = Some(id),
            AttributeOrigin::TopicWords => self.topic_texts.words = Some(words),
            AttributeOrigin::Patterns => self.patterns = Some(id),
            // Leaves do not ask about parts of the body that no query is filed under (`compile/grouping.rs`).
            AttributeOrigin::BodyNeedles => self.body_texts.needles = attribute.has_keys.then_some(id),
            AttributeOrigin::BodyWords => self.body_texts.words = attribute.has_keys.then_some(words),
            AttributeOrigin::AnyCase => self.any_case_named(&attribute.name).property = Some(id),
            AttributeOrigin::AnyCaseNeedles => self.any_case_named(&attribute.name).texts.needles = Some(id),
            AttributeOrigin::AnyCaseWords => self.any_case_named(&attribute.name).texts.words = Some(words),
            AttributeOrigin::Property => self.named(&attribute.name).property = Some(id),
            AttributeOrigin::Ancestors => self.named(&attribute.name).ancestors = Some(id),
            AttributeOrigin::Needles => self.named(&attribute.name).texts.needles = Some(id),
            AttributeOrigin::Words => self.named(&attribute.name).texts.words = Some(words),
        }
        if attribute.has_summaries() {
            self.with_summaries.push(id);
        }
        self.all.push(attribute);
        Ok(())
    }

    fn named(&mut self, name: &str) -> &mut NamedAttributes {
        let hash = hash_name(name);
        if self.find(name, hash).is_none() && name.contains('.') {
            self.dotted.push(name.into());
        }
        let entry = self.names.entry(hash, |(_, other, _)| **other == *name, |(hash, ..)| *hash);
        &mut entry.or_insert_with(|| (hash, name.into(), NamedAttributes::default())).into_mut().2
    }

    fn any_case_named(&mut self, name: &str) -> &mut NamedAttributes {
        self.any_case.entry(name.into()).or_default()
    }

    /// The number of attributes.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The information about an attribute.
    #[inline]
    pub fn info(&self, attribute: AttributeId) -> &AttributeInfo {
        &self.all[attribute.index()]
    }

    /// The number of different names of properties.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Every name of a property.
    pub fn names(&self) -> impl Iterator<Item = (&str, NamedAttributes)> {
        self.names.iter().map(|(_, name, named)| (&**name, *named))
    }

    /// The attributes that `name`, which has the hash `hash`, leads to.
    #[inline]
    pub fn find(&self, name: &str, hash: u64) -> Option<NamedAttributes> {
        self.names
            .find(hash, |(other_hash, other, _)| *other_hash == hash && **other == *name)
            .map(|(.., named)| *named)
    }

    /// The names that may lead into mappings.
    pub fn dotted(&self) -> impl Iterator<Item = (&str, NamedAttributes)> {
        self.dotted.iter().filter_map(|name| Some((&**name, self.find(name, hash_name(name))?)))
    }
}
