//! Dynamic hierarchies (the ITMO paper): groupings of an attribute's values that may change at any time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::EngineError;
use crate::json;
use crate::message::Value;
use crate::query::expr::PropertyName;

/// The tree of one attribute: value → parent. Several roots are allowed. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchy {
    parents: Arc<HashMap<String, Option<String>>>,
}

impl Hierarchy {
    /// Checks a tree and takes it. Cost: linear in its values.
    ///
    /// # Errors
    /// The tree has a cycle, or a parent that is not itself declared.
    pub fn new(parents: HashMap<String, Option<String>>) -> Result<Self, EngineError> {
        // Values known to reach a root; each is visited once, however deep the tree is.
        let mut rooted: HashSet<&str> = HashSet::with_capacity(parents.len());
        for value in parents.keys() {
            let mut walked = Vec::new();
            let mut next = Some(value.as_str());
            while let Some(name) = next.filter(|name| !rooted.contains(name)) {
                let parent = parents.get(name).ok_or_else(|| undeclared(name))?;
                walked.push(name);
                if walked.len() > parents.len() {
                    return Err(EngineError::Hierarchy(format!("a cycle through '{value}'")));
                }
                next = parent.as_deref();
            }
            rooted.extend(walked);
        }
        Ok(Self { parents: Arc::new(parents) })
    }

    /// Reads a tree from a JSON object: value → parent, or null for a root. Cost: linear in the text.
    ///
    /// # Errors
    /// The text is no JSON object of texts and nulls; the errors of [`Self::new`].
    pub fn from_json(text: &str) -> Result<Self, EngineError> {
        let members = json::parse_object(text.as_bytes(), &|_| true).map_err(EngineError::Hierarchy)?;
        let mut parents = HashMap::with_capacity(members.len());
        for (value, parent) in members {
            let parent = match parent {
                Value::Text(parent) => Some(parent.to_string()),
                Value::Null => None,
                _ => return Err(EngineError::Hierarchy(format!("expected a text or null as the parent of '{value}'"))),
            };
            parents.insert(value.to_string(), parent);
        }
        Self::new(parents)
    }

    /// True when `value` is in the tree and is `ancestor` or below it. Cost: the depth of `value`.
    #[must_use]
    pub fn is_under(&self, value: &str, ancestor: &str) -> bool {
        self.lineage(value).any(|name| name == ancestor)
    }

    /// `value`, its parent, and so on up to the root; nothing when it is not in the tree.
    pub fn lineage(&self, value: &str) -> impl Iterator<Item = &str> {
        let first = self.parents.get_key_value(value).map(|(name, _)| name.as_str());
        std::iter::successors(first, |name| self.parents.get(*name).and_then(|parent| parent.as_deref()))
    }

    /// The pairs of value and parent, in no particular order.
    pub fn parents(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.parents.iter().map(|(value, parent)| (value.as_str(), parent.as_deref()))
    }
}

fn undeclared(parent: &str) -> EngineError {
    EngineError::Hierarchy(format!("the parent '{parent}' is not declared: a root is declared as {{'{parent}': None}}"))
}

/// The hierarchies by attribute.
pub type Hierarchies = HashMap<String, Hierarchy>;

/// The hierarchy of the attribute that `name` names. Where case does not matter, it is looked up like a property: the exact
/// name wins, then the first in code points.
#[must_use]
pub fn of_attribute<'h>(hierarchies: &'h Hierarchies, name: &PropertyName) -> Option<&'h Hierarchy> {
    hierarchies.get(&*name.text).or_else(|| {
        let alike = |attribute: &&String| name.any_case && attribute.to_lowercase() == *name.text;
        hierarchies.get(hierarchies.keys().filter(alike).min()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fewer;

    fn tree(parents: &[(&str, Option<&str>)]) -> Result<Hierarchy, EngineError> {
        Hierarchy::new(parents.iter().map(|(value, parent)| ((*value).to_owned(), parent.map(str::to_owned))).collect())
    }

    #[test]
    fn cycles_and_unknown_parents_are_refused() {
        let reason = |parents| tree(parents).expect_err("no tree").to_string();
        assert!(reason(&[("a", Some("a"))]).contains("a cycle through 'a'"));
        assert!(reason(&[("a", Some("b"))]).contains("the parent 'b' is not declared"));
        assert!(tree(&[("a", Some("b")), ("b", Some("c")), ("c", Some("b")), ("d", None)]).is_err());
        assert!(tree(&[("a", Some("b")), ("b", Some("gone")), ("d", None)]).is_err());
        let forest = tree(&[("a", Some("b")), ("b", Some("d")), ("c", Some("b")), ("d", None), ("e", None)]);
        assert!(forest.is_ok_and(|tree| tree.is_under("c", "d") && !tree.is_under("c", "e")));
    }

    #[test]
    fn a_tree_is_read_from_json_or_refused_with_the_reason() {
        let text = r#"{"American": "Options", "Options": null, "t\u00fcr": "Options"}"#;
        let expected = tree(&[("American", Some("Options")), ("Options", None), ("t\u{fc}r", Some("Options"))]);
        assert_eq!(Hierarchy::from_json(text).expect("read"), expected.expect("a tree"));
        let reason = |text| Hierarchy::from_json(text).expect_err("no tree").to_string();
        assert!(reason("[]").contains("expected a JSON object"));
        assert!(reason(r#"{"a": nul"#).contains("at line 1"));
        assert!(reason(r#"{"a": 5}"#).contains("expected a text or null as the parent of 'a'"));
        assert!(reason(r#"{"a": "b"}"#).contains("the parent 'b' is not declared"));
    }

    #[test]
    fn a_tree_is_checked_in_linear_time_however_deep_it_is() {
        let count = fewer(200_000); // quadratic, it would take a quarter of an hour
        let name = |i: usize| i.to_string();
        let mut parents: HashMap<_, _> = (1..count).map(|i| (name(i), Some(name(i - 1)))).collect();
        parents.insert(name(0), None);
        let chain = Hierarchy::new(parents.clone());
        assert!(chain.is_ok_and(|tree| tree.is_under(&name(count - 1), "0")));
        parents.insert(name(0), Some(name(count - 1)));
        assert!(Hierarchy::new(parents).is_err());
    }
}
