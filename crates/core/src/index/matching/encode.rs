//! Encodes a message: which symbols and numbers its topic, properties and body are to a segment.

use crate::allowance::{ELEMENT_NS, NEEDLES_NS, words_ns};
use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::index::clause::NumberKind;
use crate::index::ids::AttributeId;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::layout::symbol_table::{find, find_hashed, prefetch_hashed};
use crate::index::leaf::message_codes::AttributeCode;
use crate::index::segment::Segment;
use crate::index::segment::attributes::{NamedAttributes, TextAttributes};
use crate::index::segment::text_search::words_of;
use crate::index::term::Scalar;
use crate::index::value_class::ValueClass;
use crate::message::{Body, Message, Resolved, Value};

use super::hashed_message::{HashedMessage, HashedProperty, HashedValue};
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
                if let Some(value) = hashed.look_up(name) {
                    self.encode_value(named, message, &value, hierarchies, scratch)?;
                }
            }
        }
        for (name, named) in &self.attributes.any_case {
            if let Some(values) = message.look_up(name, true) {
                self.encode_value(*named, message, &values.into(), hierarchies, scratch)?;
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
            self.encode_value(*named, message, &hashed.properties()[*property].value, hierarchies, scratch)?;
        }
        scratch.asked = asked;
        // A literal name wins over what it leads to in a mapping; it has been encoded above.
        let properties = message.properties;
        for (name, named) in self.attributes.dotted().filter(|(name, _)| !properties.contains_key(*name)) {
            if let Some(value) = hashed.look_up(name) {
                self.encode_value(named, message, &value, hierarchies, scratch)?;
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
            if let (Some(attribute), Resolved::One(value)) = (named.property, &property.value.values)
                && self.attributes.info(attribute).has_symbols
                && let Some(scalar) = Scalar::of(value)
            {
                prefetch_hashed(&self.store, attribute, property.value.hash.of(scalar))?;
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
        value: &HashedValue<'_>,
        hierarchies: &Hierarchies,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        if let Resolved::Many(values) = &value.values
            && !message.allowance().spend(values.len(), ELEMENT_NS)
        {
            return Ok(());
        }
        if let Some(property) = named.property {
            self.encode_property(property, value, scratch)?;
        }
        if !named.texts.is_empty() {
            self.encode_texts(named.texts, message, &value.values, scratch)?;
        }
        let Some(ancestors) = named.ancestors else { return Ok(()) };
        let Some(hierarchy) = hierarchies.get(&*self.attributes.info(ancestors).name) else { return Ok(()) };
        match &value.values {
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
        value: &HashedValue<'_>,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let info = self.attributes.info(attribute);
        if info.group.is_some() {
            scratch.groups.push(info.group);
        }
        match &value.values {
            Resolved::One(Value::Null) => scratch.codes.set_class(attribute, ValueClass::Null),
            Resolved::One(Value::Present) => scratch.codes.set_class(attribute, ValueClass::Valueless),
            Resolved::One(number) => {
                match Scalar::of(number).filter(|_| info.has_symbols) {
                    Some(scalar) => self.encode_scalar(attribute, scalar, value.hash.of(scalar), scratch)?,
                    None => scratch.codes.set_class(attribute, ValueClass::Other),
                }
                if info.has_ranges {
                    encode_number(attribute, number, scratch);
                }
                if info.has_times {
                    self.encode_time(attribute, number, scratch)?;
                }
            }
            Resolved::Many(values) => {
                scratch.codes.set_list(attribute);
                for value in values {
                    self.encode_element(attribute, value, scratch)?;
                    if let Some(time) = value.as_time().filter(|_| info.has_times) {
                        self.encode_element(attribute, &time, scratch)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Encode one element of a list.
    fn encode_element(
        &self,
        attribute: AttributeId,
        value: &Value,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        if let Some(symbol) = self.push_group(attribute, value, scratch)? {
            scratch.codes.add_element(attribute, symbol);
        }
        Ok(())
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
        encode_number(attribute, &time, scratch);
        let is_text_named = matches!(scratch.codes.get(attribute), Some(AttributeCode::Symbol));
        match self.push_group(attribute, &time, scratch)? {
            Some(symbol) if is_text_named => {
                scratch.codes.set_list(attribute);
                scratch.codes.add_element(attribute, symbol);
                self.encode_element(attribute, text, scratch)?;
            }
            Some(symbol) => scratch.codes.set_symbol(attribute, symbol),
            None => {}
        }
        Ok(())
    }

    #[inline]
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
        let can_pay = |text: &str, ns| message.allowance().spend(text.len(), ns);
        if let Some(needles) = needles {
            texts()
                .filter(|text| can_pay(text, NEEDLES_NS))
                .try_for_each(|text| self.encode_needles(needles, text, scratch))?;
        }
        if let Some(words) = words {
            let mut add = |symbol| scratch.add(words, symbol);
            texts()
                .filter(|text| can_pay(text, words_ns(text)))
                .try_for_each(|text| words_of(&self.store, words, text, &mut add))?;
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
            let mut add = |symbol| scratch.add(words, symbol);
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

fn encode_number(attribute: AttributeId, value: &Value, scratch: &mut SegmentScratch) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "rounding keeps a value on its side of a bound, or moves it to the bound, which is then verified"
    )]
    match value {
        Value::Int(value) => scratch.codes.set_number(attribute, NumberKind::Number, *value as f64),
        Value::Float(value) => scratch.codes.set_number(attribute, NumberKind::Number, *value),
        Value::Timestamp(micros) => {
            scratch.codes.set_number(attribute, NumberKind::Time, *micros as f64);
            scratch.codes.set_number(attribute, NumberKind::Day, *micros as f64);
        }
        Value::Day(micros) => scratch.codes.set_number(attribute, NumberKind::Day, *micros as f64),
        _ => {}
    }
}
