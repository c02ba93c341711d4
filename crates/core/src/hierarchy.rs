//! Dynamic hierarchies (paper 004, ITMO): groupings of an attribute's values that change at any time.

use std::collections::HashMap;

use crate::error::EngineError;

/// One attribute's tree: value → parent. Several roots are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchy {
    parents: HashMap<String, Option<String>>,
}

impl Hierarchy {
    /// Check and take a tree.
    ///
    /// # Errors
    /// A cycle, or a parent that is not itself declared.
    pub fn new(parents: HashMap<String, Option<String>>) -> Result<Self, EngineError> {
        for (value, parent) in &parents {
            let mut next = parent.as_deref();
            let mut steps = 0;
            while let Some(name) = next {
                next = parents
                    .get(name)
                    .ok_or_else(|| EngineError::Hierarchy(format!("the parent '{name}' is not declared")))?
                    .as_deref();
                steps += 1;
                if steps > parents.len() {
                    return Err(EngineError::Hierarchy(format!("a cycle through '{value}'")));
                }
            }
        }
        Ok(Self { parents })
    }

    /// True when `value` is in the tree and is `ancestor` or below it. Cost: the depth of `value`.
    #[must_use]
    pub fn is_under(&self, value: &str, ancestor: &str) -> bool {
        self.lineage(value).any(|name| name == ancestor)
    }

    /// `value`, its parent, and so on to the root; nothing when it is not in the tree.
    pub fn lineage(&self, value: &str) -> impl Iterator<Item = &str> {
        let first = self.parents.get_key_value(value).map(|(name, _)| name.as_str());
        std::iter::successors(first, |name| self.parents.get(*name).and_then(|parent| parent.as_deref()))
    }

    /// Value and parent, in no particular order.
    pub fn parents(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.parents.iter().map(|(value, parent)| (value.as_str(), parent.as_deref()))
    }
}

/// Attribute → its hierarchy.
pub type Hierarchies = HashMap<String, Hierarchy>;
