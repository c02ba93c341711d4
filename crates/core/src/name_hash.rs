//! The hash of a property's name.
//!
//! It is the same for all messages of a process, so that messages with the same names hold them in the same order, which
//! makes matching predictable for the processor. It differs from process to process, so that nobody can choose names that
//! collide.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

/// Builds the hashers of names.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameHashing;

impl BuildHasher for NameHashing {
    type Hasher = <RandomState as BuildHasher>::Hasher;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
        STATE.build_hasher()
    }
}

/// The hash of `name`.
#[inline]
#[must_use]
pub fn hash_name(name: &str) -> u64 {
    NameHashing.hash_one(name)
}
