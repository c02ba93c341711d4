//! One state of an engine, as a message is read for it and then matched.

use std::sync::Arc;

use crate::error::EngineError;
use crate::json;
use crate::message::{Message, Properties};

use super::versions::version::Version;
use super::{Engine, MatchedIds, Scratch, SubscriptionId};

/// One state of an engine. A message that was read for it may lack what its queries do not ask for, so it is matched
/// against no other.
#[derive(Clone, Debug)]
pub struct EngineView(Arc<Version>);

impl Engine {
    /// The state of the engine now. It keeps the memory of that state until it is dropped.
    #[must_use]
    pub fn view(&self) -> EngineView {
        EngineView(self.current())
    }
}

impl EngineView {
    /// Whether a property called `name`, with dots where it stands in a mapping, may make a difference. Cost: a look-up per
    /// segment.
    #[must_use]
    #[inline]
    pub fn may_ask(&self, name: &str) -> bool {
        self.0.may_ask(name)
    }

    /// The properties of a record, one JSON object; the last of equal keys counts. Of what no query asks for only the form
    /// is checked.
    ///
    /// Cost: linear in the text; in the queries, too, if something in it cannot be a property.
    ///
    /// # Errors
    /// The text is no JSON object, with the position; or what a query asks for cannot be a property.
    pub fn read_record(&self, text: &[u8]) -> Result<Properties, EngineError> {
        let read = json::parse_object(text, &|name| self.may_ask(name));
        let Err(reason) = read else { return read.map_err(EngineError::Row) };
        // Only a removed query may have asked for what cannot be a property.
        json::parse_object(text, &|_| false).map_err(|_| EngineError::Row(reason))?;
        let asked = self.0.asked()?;
        json::parse_object(text, &|name| asked.has(name)).map_err(EngineError::Row)
    }

    /// Match as [`Engine::match_into`] does.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        self.0.match_into(message, scratch, matched)
    }

    /// Every subscription whose query is true of `message`, for a bitmap or their number: without a list of them.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn matched_ids(&self, message: &Message<'_>, scratch: &mut Scratch) -> Result<MatchedIds, EngineError> {
        self.0.matched_ids(message, scratch)
    }
}
