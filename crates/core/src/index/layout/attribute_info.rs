//! The information about each attribute in a segment, and the section that stores it.

use crate::index::codec::{RecordDecoder, encode_text};
use crate::index::ids::{GroupId, SummaryId};
use crate::index::origin::AttributeOrigin;
use crate::index::value_class::ByClass;

/// The information about an attribute in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeInfo {
    /// The origin of its values.
    pub origin: AttributeOrigin,
    /// The property's name; empty for the topic.
    pub name: Box<str>,
    /// True when queries name values of it.
    pub has_symbols: bool,
    /// True when ranges look at its number.
    pub has_ranges: bool,
    /// True when queries compare it with times, so that texts are read as times, too.
    pub has_times: bool,
    /// True when queries name pairs of its words.
    pub has_word_pairs: bool,
    /// True when queries are filed under its symbols.
    pub has_keys: bool,
    /// The group of queries filed under its presence, or [`GroupId::NONE`].
    pub group: GroupId,
    /// Summaries of the classes of values; [`SummaryId::NONE`] where nothing is ruled out. The summary of
    /// `ValueClass::Other` is also that of symbols which have none of their own.
    pub summaries: ByClass<SummaryId>,
    /// The summary of the leaves with queries that do not simply hold of a list when they hold of some element;
    /// [`SummaryId::NONE`] where there are none.
    pub undecided: SummaryId,
}

impl AttributeInfo {
    /// An attribute that rules out nothing, and of which nothing is asked.
    pub fn new(origin: AttributeOrigin, name: Box<str>) -> Self {
        let (summaries, group) = (ByClass([SummaryId::NONE; 4]), GroupId::NONE);
        let undecided = SummaryId::NONE;
        Self {
            origin,
            name,
            has_symbols: false,
            has_ranges: false,
            has_times: false,
            has_word_pairs: false,
            has_keys: false,
            group,
            summaries,
            undecided,
        }
    }

    /// True when its values rule out leaves.
    pub fn has_summaries(&self) -> bool {
        self.summaries.0 != [SummaryId::NONE; 4]
    }

    /// Read one of the attributes that [`encode_attributes`] wrote.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn decode(decoder: &mut RecordDecoder<'_>) -> Result<Self, String> {
        let origin = decoder.one_of(&AttributeOrigin::ALL, "origin of an attribute")?;
        let (has_symbols, has_ranges) = (decoder.flag()?, decoder.flag()?);
        let (has_times, has_word_pairs, has_keys) = (decoder.flag()?, decoder.flag()?, decoder.flag()?);
        let name = decoder.text()?.into();
        let group = GroupId(decoder.half_word()?);
        let mut summaries = [SummaryId::NONE; 4];
        for summary in &mut summaries {
            *summary = SummaryId(decoder.half_word()?);
        }
        let undecided = SummaryId(decoder.half_word()?);
        Ok(Self {
            origin,
            name,
            has_symbols,
            has_ranges,
            has_times,
            has_word_pairs,
            has_keys,
            group,
            summaries: ByClass(summaries),
            undecided,
        })
    }
}

/// The attributes as a section.
pub fn encode_attributes(attributes: &[AttributeInfo]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for attribute in attributes {
        bytes.push(attribute.origin as u8);
        let AttributeInfo { has_symbols, has_ranges, has_times, has_word_pairs, has_keys, .. } = *attribute;
        bytes.extend([has_symbols, has_ranges, has_times, has_word_pairs, has_keys].map(u8::from));
        encode_text(&attribute.name, &mut bytes);
        let summaries = attribute.summaries.0.into_iter().chain([attribute.undecided]);
        let numbers = [attribute.group.0].into_iter().chain(summaries.map(|summary| summary.0));
        numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    bytes
}
