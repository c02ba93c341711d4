//! Encodes a message: which symbols and numbers its topic, properties and body are to a segment.

use crate::allowance::{ELEMENT_NS, NEEDLES_NS};
use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::index::clause::NumberKind;
use crate::index::ids::AttributeId;
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::layout::symbol_table::{find, find_hashed, prefetch_hashed};
use crate::index::leaf::message_codes::{AttributeCode, ListKind};
use crate::index::segment::Segment;
use crate::index::segment::attributes::{NamedAttributes, TextAttributes};
use crate::index::term::Scalar;
use crate::index::value_class::ValueClass;
use crate::message::{Body, Message, Resolved, Value};
use crate::text::Signature;

use super::hashed_message::{HashedMessage, HashedProperty, LazyHash};
use super::scratch::SegmentScratch;

/// The cost of looking up a name in a message, relative to checking that the segment does not know the name of a property.
const LOOK_UP_COST: usize = 4;

impl Segment {
    /// Write the codes of `message` and the groups of its access keys to `scratch`.
    pub fn encode(
        &self,
        hashed: &mut HashedMessage<'_, '_>,
        topic_symbols: &[(AttributeId, SymbolInfo)],
        hierarchies: &Hierarchies,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let message = hashed.message;
        scratch.codes.begin(self.attributes.count());
        scratch.groups.clear();
        if let Some(topic) = self.attributes.topic {
            let scalar = Scalar::Text(message.topic);
            self.encode_scalar(topic, scalar, hashed.topic_hash.of(scalar), scratch)?;
        }
        topic_symbols.iter().for_each(|(attribute, symbol)| scratch.add(*attribute, *symbol));
        if self.attributes.name_count() * LOOK_UP_COST > message.properties.len() {
            self.encode_properties(hashed, hierarchies, scratch)?;
        } else {
            for (name, named) in self.attributes.names() {
                if let Some(values) = message.look_up(name, false) {
                    self.encode_value(named, message, (&values, &LazyHash::default()), hierarchies, scratch)?;
                }
            }
        }
        for (name, named) in &self.attributes.any_case {
            if let Some(values) = message.look_up(name, true) {
                self.encode_value(*named, message, (&values, &LazyHash::default()), hierarchies, scratch)?;
            }
        }
        self.encode_body(message, scratch)?;
        scratch.codes.sort_several();
        Ok(())
    }

    /// Encode each property that the segment knows.
    #[inline]
    fn encode_properties(
        &self,
        hashed: &mut HashedMessage<'_, '_>,
        hierarchies: &Hierarchies,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let message = hashed.message;
        let mut asked = std::mem::take(&mut scratch.asked);
        self.find_asked(hashed.properties(), &mut asked)?;
        for (property, named) in &asked {
            let HashedProperty { value, value_hash, .. } = &hashed.properties()[*property];
            let mut encode =
                |values: &_| self.encode_value(*named, message, (values, value_hash), hierarchies, scratch);
            match value {
                Value::List(_) => Resolved::of(value).map_or(Ok(()), |values| encode(&values))?,
                one => encode(&Resolved::One(one))?,
            }
        }
        scratch.asked = asked;
        // A literal name wins over what it leads to in a mapping; it has been encoded above.
        let properties = message.properties;
        for (name, named) in self.attributes.dotted().filter(|(name, _)| !properties.contains_key(*name)) {
            if let Some(values) = message.look_up(name, false) {
                self.encode_value(named, message, (&values, &LazyHash::default()), hierarchies, scratch)?;
            }
        }
        Ok(())
    }

    /// The `properties` that the segment knows, by index, and their attributes. Their symbols lie all over the table, so
    /// all are prefetched before the first is looked up.
    #[inline]
    fn find_asked(
        &self,
        properties: &[HashedProperty<'_>],
        asked: &mut Vec<(usize, NamedAttributes)>,
    ) -> Result<(), EngineError> {
        asked.clear();
        for (index, property) in properties.iter().enumerate() {
            let Some(named) = self.attributes.find(property.name, property.name_hash) else { continue };
            if let Some(attribute) = named.property
                && self.attributes.info(attribute).has_symbols
                && let Some(scalar) = Scalar::of(property.value)
            {
                prefetch_hashed(&self.store, attribute, property.value_hash.of(scalar))?;
            }
            asked.push((index, named));
        }
        Ok(())
    }

    #[inline]
    fn encode_value(
        &self,
        named: NamedAttributes,
        message: &Message<'_>,
        (values, hash): (&Resolved<'_>, &LazyHash),
        hierarchies: &Hierarchies,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        if let Resolved::Many(values) = values
            && !message.allowance().spend(values.len(), ELEMENT_NS)
        {
            return Ok(());
        }
        if let Some(property) = named.property {
            self.encode_property(property, values, hash, scratch)?;
        }
        if !named.texts.is_empty() {
            self.encode_texts(named.texts, message, values, scratch)?;
        }
        let Some(ancestors) = named.ancestors else { return Ok(()) };
        let Some(hierarchy) = hierarchies.get(&*self.attributes.info(ancestors).name) else { return Ok(()) };
        match values {
            Resolved::One(value) => self.encode_ancestors(ancestors, value, hierarchy, scratch),
            Resolved::Many(values) => {
                values.iter().try_for_each(|value| self.encode_ancestors(ancestors, value, hierarchy, scratch))
            }
        }
    }

    #[inline]
    fn encode_property(
        &self,
        attribute: AttributeId,
        values: &Resolved<'_>,
        hash: &LazyHash,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let info = self.attributes.info(attribute);
        if info.group.is_some() {
            scratch.groups.push(info.group);
        }
        match values {
            Resolved::One(Value::Null) => scratch.codes.set_class(attribute, ValueClass::Null),
            Resolved::One(Value::Present) => scratch.codes.set_class(attribute, ValueClass::Valueless),
            Resolved::One(number) => {
                match Scalar::of(number).filter(|_| info.has_symbols) {
                    Some(scalar) => self.encode_scalar(attribute, scalar, hash.of(scalar), scratch)?,
                    None => scratch.codes.set_class(attribute, ValueClass::Other),
                }
                if info.has_ranges {
                    numbers_of(number).for_each(|(kind, number)| scratch.codes.set_number(attribute, kind, number));
                }
                if info.has_times {
                    self.encode_time(attribute, number, scratch)?;
                }
            }
            Resolved::Many(values) => self.encode_list(attribute, info, values, scratch)?,
        }
        Ok(())
    }

    /// Encode each element of a list, and what a text reads as where queries name times.
    fn encode_list(
        &self,
        attribute: AttributeId,
        info: &AttributeInfo,
        values: &[&Value],
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let mut kind = ListKind::Named;
        for value in values {
            let is_named = self.encode_element(attribute, value, scratch)?;
            let time = value.as_time().filter(|_| info.has_times);
            if Scalar::of(value).is_none() || time.is_some() {
                kind = ListKind::Mixed;
            } else if !is_named && kind == ListKind::Named {
                kind = ListKind::Plain;
            }
            if let Some(time) = time {
                self.encode_element(attribute, &time, scratch)?;
            }
        }
        scratch.codes.set_list(attribute, kind);
        Ok(())
    }

    /// Encode one element of a list. Returns whether it has a symbol.
    fn encode_element(
        &self,
        attribute: AttributeId,
        value: &Value,
        scratch: &mut SegmentScratch,
    ) -> Result<bool, EngineError> {
        let symbol = self.push_group(attribute, value, scratch)?;
        if let Some(symbol) = symbol {
            scratch.codes.add_element(attribute, symbol);
        }
        if self.attributes.info(attribute).has_ranges {
            numbers_of(value).for_each(|(kind, number)| scratch.codes.add_element_number(attribute, kind, number));
        }
        Ok(symbol.is_some())
    }

    /// Add the group of the queries that ask for `value`; returns the symbol of the value.
    fn push_group(
        &self,
        attribute: AttributeId,
        value: &Value,
        scratch: &mut SegmentScratch,
    ) -> Result<Option<SymbolInfo>, EngineError> {
        let Some(scalar) = Scalar::of(value) else { return Ok(None) };
        let symbol = find(&self.store, attribute, scalar)?;
        scratch.groups.extend(symbol.map(|symbol| symbol.group).filter(|group| group.is_some()));
        Ok(symbol)
    }

    /// Encode the time that a text reads as. Where queries name both the text and the time, the attribute counts as a list:
    /// each predicate may hold of either.
    fn encode_time(
        &self,
        attribute: AttributeId,
        text: &Value,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let Some(time) = text.as_time() else { return Ok(()) };
        numbers_of(&time).for_each(|(kind, number)| scratch.codes.set_number(attribute, kind, number));
        let is_text_named = matches!(scratch.codes.get(attribute), Some(AttributeCode::Symbol));
        match self.push_group(attribute, &time, scratch)? {
            Some(symbol) if is_text_named => {
                scratch.codes.set_list(attribute, ListKind::Mixed);
                scratch.codes.add_element(attribute, symbol);
                self.encode_element(attribute, text, scratch)?;
                let numbers = numbers_of(&time);
                numbers.for_each(|(kind, number)| scratch.codes.add_element_number(attribute, kind, number));
            }
            Some(symbol) => scratch.codes.set_symbol(attribute, symbol),
            None => {}
        }
        Ok(())
    }

    #[inline(always)] // a scalar that is passed in memory is read before it has been written as a whole
    fn encode_scalar(
        &self,
        attribute: AttributeId,
        scalar: Scalar<'_>,
        hash: u64,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        match find_hashed(&self.store, attribute, scalar, hash)? {
            None => scratch.codes.set_class(attribute, ValueClass::Other),
            Some(symbol) => {
                scratch.codes.set_symbol(attribute, symbol);
                if symbol.group.is_some() {
                    scratch.groups.push(symbol.group);
                }
            }
        }
        Ok(())
    }

    /// Encode the needles and words that stand in the texts of a property.
    fn encode_texts(
        &self,
        TextAttributes { needles, words }: TextAttributes,
        message: &Message<'_>,
        values: &Resolved<'_>,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let values = match values {
            Resolved::One(value) => std::slice::from_ref(value),
            Resolved::Many(values) => values.as_slice(),
        };
        let texts = || {
            values.iter().filter_map(|value| match value {
                Value::Text(text) => Some(&**text),
                _ => None,
            })
        };
        if let Some(needles) = needles {
            texts()
                .filter(|text| message.allowance().spend(text.len(), NEEDLES_NS))
                .try_for_each(|text| self.encode_needles(needles, text, scratch))?;
        }
        if let Some(words) = words {
            let mut add = |symbol| scratch.add(words.id, symbol);
            for text in texts() {
                let read = |signature: &Signature| words.words(&self.store, signature, message.allowance(), &mut add);
                message.with_signature_of(text, read).transpose()?;
            }
        }
        Ok(())
    }

    /// Encode the needles and words that stand in the body.
    fn encode_body(&self, message: &Message<'_>, scratch: &mut SegmentScratch) -> Result<(), EngineError> {
        let Body::Text(body) = message.body else { return Ok(()) };
        let TextAttributes { needles, words } = self.attributes.body_texts;
        if let Some(needles) = needles.filter(|_| message.allowance().spend(body.len(), NEEDLES_NS)) {
            self.encode_needles(needles, body, scratch)?;
        }
        if let Some(words) = words.filter(|_| message.can_read_words(body)) {
            let mut add = |symbol| scratch.add(words.id, symbol);
            self.text_search.body_words(&self.store, words, message, body, &mut add)?;
        }
        Ok(())
    }

    fn encode_needles(
        &self,
        attribute: AttributeId,
        text: &str,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let mut work = std::mem::take(&mut scratch.needles);
        let mut add = |symbol| scratch.add(attribute, symbol);
        let done = self.text_search.needles(&self.store, attribute, text, &mut work, &mut add);
        scratch.needles = work;
        done
    }

    /// Encode `value` and all its ancestors. Cost: its depth.
    fn encode_ancestors(
        &self,
        attribute: AttributeId,
        value: &Value,
        hierarchy: &Hierarchy,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let Value::Text(text) = value else { return Ok(()) };
        for name in hierarchy.lineage(text) {
            if let Some(symbol) = find(&self.store, attribute, Scalar::Text(name))? {
                scratch.add(attribute, symbol);
            }
        }
        Ok(())
    }
}

/// The numbers that ranges compare a value by, with the kind of each.
fn numbers_of(value: &Value) -> impl Iterator<Item = (NumberKind, f64)> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "rounding keeps a value on its side of a bound, or moves it to the bound, which is then verified"
    )]
    let numbers = match value {
        Value::Int(value) => [Some((NumberKind::Number, *value as f64)), None],
        Value::Float(value) => [Some((NumberKind::Number, *value)), None],
        Value::Timestamp(micros) => [Some((NumberKind::Time, *micros as f64)), Some((NumberKind::Day, *micros as f64))],
        Value::Day(micros) => [Some((NumberKind::Day, *micros as f64)), None],
        _ => [None, None],
    };
    numbers.into_iter().flatten()
}
