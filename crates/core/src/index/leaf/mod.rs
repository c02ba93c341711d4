//! A leaf: up to 64 queries side by side, one bit each, in one contiguous block of memory.
//!
//! For each attribute that some of its queries ask about, a leaf holds a *mask* per value that they name: a 1 for each
//! query that the value does not rule out (the inverted bitmaps of the OpenAMQ and Malamute papers). The masks of a
//! message's values are ANDed, the most selective attribute first. The bits that remain are candidates, whose numbers are
//! then compared.
//!
//! A leaf is words of eight bytes, little-endian, the same in memory and in a file:
//! ```text
//! head         queries (8 bits), attributes (16), choices (8), bounds (16), flags (8), flags of the subscribers (8)
//! first query  the number of the first query (32 bits), where the bounds start (32)
//! subscribers  the position of its first subscription (32), where the subscribers start (32)
//! verify       with VERIFY: the queries that have to be evaluated
//! attributes   of each: number (32), where its `other` is (32); values (32), flags (32)
//! choices      of each: how many attributes; the queries without this choice; the attributes, as above
//! masks        with LISTS: the queries that no list decides, of every element, of plain lists; with CLASSES: absent, null, valueless; with OPEN: the queries that do not ask, else `other` says it;
//!              other; then the masks, with LISTED after the codes of their values, ascending, two per word; without, the
//!              first mask is that of code 0, the next that of code 1
//! bounds       for each attribute and kind, or of several (`bounds.rs`, `scattered.rs`)
//! mixed        with MIXED: choices of ranges and more (`choices.rs`)
//! subscribers  whose ids match (`subscribers.rs`), to the end of the leaf
//! ```

pub mod bounds;
pub mod bounds_view;
pub mod candidates;
pub mod choices;
pub mod choices_view;
pub mod encode;
pub mod masks;
pub mod masks_view;
pub mod message_codes;
pub mod number;
pub mod query;
pub mod scattered;
pub mod subscribers;
