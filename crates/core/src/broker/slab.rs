//! A vector with holes: a value keeps its number until it is removed, and free numbers are used again.
//!
//! Everything in the broker that refers to something else does so by such a number: one array look-up, no reference
//! counts, no cycles. Whoever removes a value removes the references to it; a stale number is a bug and panics.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The end of the list of holes.
const NO_SLOT: u32 = u32::MAX;

/// The type of a slab's numbers, one for each kind of value. 32 bits: four billion at a time.
pub(crate) trait SlotId: Copy {
    /// The id of the slot at `index`.
    fn from_index(index: u32) -> Self;
    /// The index of its slot.
    fn index(self) -> usize;
}

/// A reusable, numbered position.
#[derive(Debug, Clone)]
enum SlabSlot<T> {
    Full(T),
    /// The next hole, so that the list of holes needs no memory of its own.
    Hole(u32),
}

/// Values of type `T`, known by ids of type `Id`.
#[derive(Debug, Clone)]
pub(crate) struct Slab<Id, T> {
    slots: Vec<SlabSlot<T>>,
    hole: u32,
    count: usize,
    ids: PhantomData<fn() -> Id>,
}

impl<Id, T> Default for Slab<Id, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), hole: NO_SLOT, count: 0, ids: PhantomData }
    }
}

impl<Id: SlotId, T> Slab<Id, T> {
    /// Keep a value. Returns its id.
    pub fn insert(&mut self, value: T) -> Id {
        self.count += 1;
        if self.hole == NO_SLOT {
            self.slots.push(SlabSlot::Full(value));
            return Id::from_index((self.slots.len() - 1) as u32);
        }
        let index = self.hole;
        if let SlabSlot::Hole(next) = self.slots[index as usize] {
            self.hole = next;
        }
        self.slots[index as usize] = SlabSlot::Full(value);
        Id::from_index(index)
    }

    /// Take a value out. Its id may be given to another one.
    pub fn remove(&mut self, id: Id) -> T {
        let index = id.index();
        let slot = std::mem::replace(&mut self.slots[index], SlabSlot::Hole(self.hole));
        match slot {
            SlabSlot::Full(value) => {
                self.hole = index as u32;
                self.count -= 1;
                value
            }
            SlabSlot::Hole(_) => panic!("slot {index} is empty"),
        }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        match self.slots.get(id.index()) {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.slots.get_mut(id.index()) {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// One more than the greatest index in use: where a walk in slices starts again.
    pub fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Every value with its id, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot {
            SlabSlot::Full(value) => Some((Id::from_index(index as u32), value)),
            SlabSlot::Hole(_) => None,
        })
    }
}

impl<Id: SlotId, T> Index<Id> for Slab<Id, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id) -> &T {
        match &self.slots[id.index()] {
            SlabSlot::Full(value) => value,
            SlabSlot::Hole(_) => panic!("slot {} is empty", id.index()),
        }
    }
}

impl<Id: SlotId, T> IndexMut<Id> for Slab<Id, T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        match &mut self.slots[id.index()] {
            SlabSlot::Full(value) => value,
            SlabSlot::Hole(_) => panic!("slot {} is empty", id.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ids::ConsumerSlot;

    #[test]
    fn a_number_is_used_again_only_after_its_value_is_gone() {
        let mut slab = Slab::<ConsumerSlot, char>::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(a), slab.get(a), slab[b]), ('a', None, 'b'));
        assert_eq!((slab.insert('c'), slab.insert('d')), (a, ConsumerSlot::from_index(2)));
        assert_eq!(
            slab.iter().map(|(id, value)| (id.index(), value)).collect::<Vec<_>>(),
            [(0, &'c'), (1, &'b'), (2, &'d')]
        );
        assert_eq!((slab.len(), slab.end()), (3, 3));
    }
}
