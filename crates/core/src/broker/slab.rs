//! A vector with holes: values live at a number that stays theirs until they are removed, and numbers are used again.
//!
//! Everything of the broker that refers to something else does so by such a number: one array look-up, no counting of
//! references, no cycles. Whoever removes a value removes the references to it; a stale number is our own bug and panics.

use std::ops::{Index, IndexMut};

/// The last hole of the list, and the number that names nothing.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
enum Slot<T> {
    Full(T),
    /// The next hole, so that the free list needs no memory of its own.
    Hole(u32),
}

#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    hole: u32,
    count: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), hole: NONE, count: 0 }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> u32 {
        self.count += 1;
        if self.hole == NONE {
            self.slots.push(Slot::Full(value));
            return (self.slots.len() - 1) as u32;
        }
        let number = self.hole;
        if let Slot::Hole(next) = self.slots[number as usize] {
            self.hole = next;
        }
        self.slots[number as usize] = Slot::Full(value);
        number
    }

    pub fn remove(&mut self, number: u32) -> T {
        let slot = std::mem::replace(&mut self.slots[number as usize], Slot::Hole(self.hole));
        match slot {
            Slot::Full(value) => {
                self.hole = number;
                self.count -= 1;
                value
            }
            Slot::Hole(_) => panic!("number {number} is empty"),
        }
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        match self.slots.get(number as usize) {
            Some(Slot::Full(value)) => Some(value),
            _ => None,
        }
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.slots.get_mut(number as usize) {
            Some(Slot::Full(value)) => Some(value),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// One more than the greatest number in use: where a walk in slices starts again.
    pub fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Every value with its number, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| match slot {
            Slot::Full(value) => Some((number as u32, value)),
            Slot::Hole(_) => None,
        })
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        match &self.slots[number as usize] {
            Slot::Full(value) => value,
            Slot::Hole(_) => panic!("number {number} is empty"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        match &mut self.slots[number as usize] {
            Slot::Full(value) => value,
            Slot::Hole(_) => panic!("number {number} is empty"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_after_its_value_is_gone() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(a), slab.get(a), slab[b]), ('a', None, 'b'));
        assert_eq!((slab.insert('c'), slab.insert('d')), (a, 2));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &'c'), (1, &'b'), (2, &'d')]);
        assert_eq!((slab.len(), slab.end()), (3, 3));
    }
}
