//! The numbers of the index: subscriptions, queries, attributes, symbols, groups and leaves, each a type of its own.

use std::sync::atomic::{AtomicU64, Ordering};

/// A subscription's number: given in ascending order, never used again. 64 bits: nobody counts that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// Defines numbers of 32 bits: 4 billion of each are plenty for one segment, for half the memory of 64 bits.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        #[allow(dead_code, reason = "not every kind of number uses every method")]
        impl $name {
            /// No such number.
            pub const NONE: Self = Self(u32::MAX);

            /// The number of the item at `index`.
            ///
            /// # Panics
            /// At 2^32, which does not fit into memory.
            #[inline]
            pub fn of(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 items fit in memory"))
            }

            /// The number as it lies in a file.
            #[inline(always)]
            pub const fn from_le_bytes(bytes: [u8; 4]) -> Self {
                Self(u32::from_le_bytes(bytes))
            }

            /// The number as an index of a list.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// True unless this is [`Self::NONE`].
            #[inline(always)]
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    )*};
}

ids! {
    /// A distinct query of a segment. Equal queries are stored once.
    QueryId;
    /// A branch of a query while a segment is built: an OR of ANDs has several.
    BranchId;
    /// An attribute within a segment.
    AttributeId;
    /// A symbol while a segment is built: a value that queries name for an attribute.
    SymbolId;
    /// A symbol of a finished segment: its number among the symbols of its attribute.
    SymbolCode;
    /// The position of a symbol in the table of symbols.
    SymbolPosition;
    /// A group: the queries that share an access key.
    GroupId;
    /// A leaf: up to 64 queries of a group.
    LeafId;
    /// A predicate that no clause can express.
    SharedPredicateId;
}

/// The summary of a value: one bit per leaf, 0 where the value rules out the whole leaf.
///
/// 31 bits are its number. The highest bit marks the summary of a rare value, which is stored as its difference from the
/// summary of values that no query names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryId(pub u32);

impl SummaryId {
    /// Rules out nothing.
    pub const NONE: Self = Self(u32::MAX);
    /// Marks the summary of a rare value.
    const RARE: u32 = 1 << 31;

    /// The whole summary with this number.
    ///
    /// # Panics
    /// At 2^31, which does not fit into memory.
    pub fn whole(number: usize) -> Self {
        let number = u32::try_from(number).ok().filter(|number| *number < Self::RARE);
        Self(number.expect("fewer than 2^31 summaries fit in memory"))
    }

    /// The summary of a rare value whose difference is stored from `start` on.
    ///
    /// # Panics
    /// At 2^31, which does not fit into memory.
    pub fn rare(start: usize) -> Self {
        let start = u32::try_from(start).ok().filter(|start| *start < Self::RARE - 1);
        Self(start.expect("fewer than 2^31 leaves of rare values fit in memory") | Self::RARE)
    }

    /// True of the summary of a rare value.
    #[inline(always)]
    pub const fn is_rare(self) -> bool {
        self.0 & Self::RARE != 0
    }

    /// The number of a whole summary, or where the difference of a rare one starts.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 & !Self::RARE) as usize
    }
}

/// Tells tries of topic patterns apart for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrieId(u64);

impl Default for TrieId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
