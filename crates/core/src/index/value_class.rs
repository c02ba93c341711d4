//! The classes of values that need no symbol: absent, null, without a value, and any value that no query names.

/// The class of an attribute's value that has no symbol. The numbers are part of the snapshot's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueClass {
    /// The message lacks the attribute.
    Absent = 0,
    /// The attribute is null.
    Null = 1,
    /// The attribute is present without a value.
    Valueless = 2,
    /// The attribute has a value that no query names.
    Other = 3,
}

impl ValueClass {
    /// All classes, by number.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Null, Self::Valueless, Self::Other];
}

/// A set of classes, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSet(u8);

impl ClassSet {
    /// No class.
    pub const EMPTY: Self = Self(0);

    /// The set of `classes`.
    pub const fn of<const COUNT: usize>(classes: [ValueClass; COUNT]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < COUNT {
            bits |= 1 << classes[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// True when `class` is in the set.
    pub const fn has(self, class: ValueClass) -> bool {
        self.0 >> class as u8 & 1 == 1
    }

    /// The classes that are in both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The classes that are in either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An item for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass<T>(pub [T; 4]);

impl<T: Copy> ByClass<T> {
    /// The item of `class`.
    #[inline(always)]
    pub fn get(&self, class: ValueClass) -> T {
        self.0[class as usize]
    }
}
