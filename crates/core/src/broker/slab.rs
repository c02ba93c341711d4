//! A vector with holes, in pages: a value keeps its number until it is removed, and free numbers are used again.
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

/// The number of slots of a page. Pages never move, so that a slab of millions grows without copying.
const PAGE_SLOTS: usize = 1024;

/// A page of slots. Its memory is freed when it is empty.
#[derive(Debug, Clone)]
struct Page<T> {
    slots: Vec<SlabSlot<T>>,
    /// The first hole, within the page.
    hole: u32,
    count: u32,
}

impl<T> Page<T> {
    fn insert(&mut self, value: T) -> usize {
        self.count += 1;
        if self.hole == NO_SLOT {
            self.slots.push(SlabSlot::Full(value));
            return self.slots.len() - 1;
        }
        let index = self.hole as usize;
        if let SlabSlot::Hole(next) = self.slots[index] {
            self.hole = next;
        }
        self.slots[index] = SlabSlot::Full(value);
        index
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        match std::mem::replace(&mut self.slots[index], SlabSlot::Hole(self.hole)) {
            SlabSlot::Full(value) => {
                self.hole = index as u32;
                self.count -= 1;
                Some(value)
            }
            SlabSlot::Hole(_) => None,
        }
    }

    fn is_full(&self) -> bool {
        self.count as usize == PAGE_SLOTS
    }

    /// Forget the holes of an empty page, with the memory of the page.
    fn free(&mut self) {
        *self = Self::default();
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), hole: NO_SLOT, count: 0 }
    }
}

/// Values of type `T`, known by ids of type `Id`.
#[derive(Debug, Clone)]
pub(crate) struct Slab<Id, T> {
    pages: Vec<Page<T>>,
    /// The pages that are not full; the last one is filled first.
    with_room: Vec<u32>,
    /// The page that was emptied last: it keeps its memory, so that a slab of few values allocates nothing.
    spare: usize,
    count: usize,
    ids: PhantomData<fn() -> Id>,
}

impl<Id, T> Default for Slab<Id, T> {
    fn default() -> Self {
        Self { pages: Vec::new(), with_room: Vec::new(), spare: 0, count: 0, ids: PhantomData }
    }
}

impl<Id: SlotId, T> Slab<Id, T> {
    /// Keep a value. Returns its id.
    pub fn insert(&mut self, value: T) -> Id {
        self.count += 1;
        let number = match self.with_room.last() {
            Some(number) => *number as usize,
            None => self.add_page(),
        };
        let page = &mut self.pages[number];
        if page.slots.capacity() == 0 && number > 0 {
            page.slots.reserve_exact(PAGE_SLOTS);
        }
        let index = page.insert(value);
        if page.is_full() {
            self.with_room.pop();
        }
        Id::from_index((number * PAGE_SLOTS + index) as u32)
    }

    fn add_page(&mut self) -> usize {
        self.pages.push(Page::default());
        self.with_room.push((self.pages.len() - 1) as u32);
        self.pages.len() - 1
    }

    /// Take a value out. Its id may be given to another one.
    pub fn remove(&mut self, id: Id) -> T {
        let number = id.index() / PAGE_SLOTS;
        let page = &mut self.pages[number];
        if page.is_full() {
            self.with_room.push(number as u32);
        }
        let Some(value) = page.remove(id.index() % PAGE_SLOTS) else { panic!("slot {} is empty", id.index()) };
        self.count -= 1;
        if page.count == 0 {
            self.keep_spare(number);
        }
        value
    }

    /// Keep the memory of a page that is empty now, and free that of the one before.
    fn keep_spare(&mut self, number: usize) {
        let before = std::mem::replace(&mut self.spare, number);
        if before != number && self.pages[before].count == 0 {
            self.pages[before].free();
        }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        match self.pages.get(id.index() / PAGE_SLOTS)?.slots.get(id.index() % PAGE_SLOTS) {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.pages.get_mut(id.index() / PAGE_SLOTS)?.slots.get_mut(id.index() % PAGE_SLOTS) {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// One more than the greatest index ever in use: where a walk in slices starts again.
    pub fn end(&self) -> u32 {
        self.pages.last().map_or(0, |page| (self.pages.len() - 1) * PAGE_SLOTS + page.slots.len()) as u32
    }

    /// Every value with its id, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let slots = (0..).step_by(PAGE_SLOTS).zip(&self.pages);
        slots.flat_map(|(base, page)| (base..).zip(&page.slots)).filter_map(|(index, slot)| match slot {
            SlabSlot::Full(value) => Some((Id::from_index(index), value)),
            SlabSlot::Hole(_) => None,
        })
    }

    /// The number of slots that have memory.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.pages.iter().map(|page| page.slots.capacity()).sum()
    }
}

impl<Id: SlotId, T> Index<Id> for Slab<Id, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id) -> &T {
        match &self.pages[id.index() / PAGE_SLOTS].slots[id.index() % PAGE_SLOTS] {
            SlabSlot::Full(value) => value,
            SlabSlot::Hole(_) => panic!("slot {} is empty", id.index()),
        }
    }
}

impl<Id: SlotId, T> IndexMut<Id> for Slab<Id, T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        match &mut self.pages[id.index() / PAGE_SLOTS].slots[id.index() % PAGE_SLOTS] {
            SlabSlot::Full(value) => value,
            SlabSlot::Hole(_) => panic!("slot {} is empty", id.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::broker::ids::ConsumerSlot;
    use crate::testing::{Random, fewer};

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

    #[test]
    fn a_slab_agrees_with_a_map_and_frees_its_pages() {
        let mut random = Random(7);
        let mut slab = Slab::<ConsumerSlot, u64>::default();
        let mut expected = BTreeMap::new();
        for growing in [true, false, true, false] {
            for round in 0..fewer(8_000) as u64 {
                if random.below(8) < if growing { 6 } else { 2 } {
                    let id = slab.insert(round);
                    assert_eq!(expected.insert(id.index(), round), None, "a number in use was given again");
                } else if let Some(index) = random_key(&mut random, &expected) {
                    let value = slab.remove(ConsumerSlot::from_index(index as u32));
                    assert_eq!(Some(value), expected.remove(&index));
                }
            }
            assert!(
                slab.iter()
                    .map(|(id, value)| (id.index(), *value))
                    .eq(expected.iter().map(|(id, value)| (*id, *value)))
            );
            assert_eq!(slab.len(), expected.len());
        }
        for index in expected.into_keys() {
            slab.remove(ConsumerSlot::from_index(index as u32));
        }
        assert!(slab.capacity() <= PAGE_SLOTS, "{} slots have memory", slab.capacity());
        assert_eq!((slab.len(), slab.iter().count()), (0, 0));
    }

    fn random_key(random: &mut Random, map: &BTreeMap<usize, u64>) -> Option<usize> {
        let last = *map.last_key_value()?.0;
        map.range(random.below(last + 1)..).next().map(|(key, _)| *key)
    }
}
