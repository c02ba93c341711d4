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

/// Declares ids of slabs, each as `pub(crate) struct ConsumerSlot(u32);`.
macro_rules! slot_ids {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident($number:vis u32);)*) => {
        $($(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name($number u32);

        impl $crate::broker::slab::SlotId for $name {
            #[inline]
            fn from_index(index: u32) -> Self {
                Self(index)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        })*
    };
}
pub(crate) use slot_ids;

/// A reusable, numbered position.
#[derive(Debug, Clone)]
enum SlabSlot<T> {
    Full(T),
    /// The next hole, so that the list of holes needs no memory of its own.
    Hole(u32),
}

/// The number of slots of a page. Pages behind the first never move, so that a slab of millions grows without copying.
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
    /// Take a hole out of the list, or make one at the end. Returns its index.
    #[inline]
    fn take_hole(&mut self) -> usize {
        self.count += 1;
        if self.hole == NO_SLOT {
            self.slots.push(SlabSlot::Hole(NO_SLOT));
            return self.slots.len() - 1;
        }
        let index = self.hole as usize;
        if let SlabSlot::Hole(next) = self.slots[index] {
            self.hole = next;
        }
        index
    }

    /// Fill a hole that was taken. Inlined, so that a large value is made where it is kept.
    #[inline(always)]
    fn fill(&mut self, index: usize, value: T) {
        self.slots[index] = SlabSlot::Full(value);
    }

    #[inline]
    fn remove(&mut self, index: usize) -> Option<T> {
        match std::mem::replace(self.slots.get_mut(index)?, SlabSlot::Hole(self.hole)) {
            SlabSlot::Full(value) => {
                self.hole = index as u32;
                self.count -= 1;
                Some(value)
            }
            SlabSlot::Hole(_) => None,
        }
    }

    /// Drop a value where it is. Returns false if there is none.
    #[inline]
    fn discard(&mut self, index: usize) -> bool {
        let Some(slot @ SlabSlot::Full(_)) = self.slots.get_mut(index) else { return false };
        *slot = SlabSlot::Hole(self.hole);
        self.hole = index as u32;
        self.count -= 1;
        true
    }

    #[inline]
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
    /// The first page, which grows slot by slot: a slab of few values is an array, looked up without a detour.
    first: Page<T>,
    /// The pages behind the first.
    pages: Vec<Page<T>>,
    /// The numbers of those that are not full; the last one is filled first, after the first page.
    with_room: Vec<u32>,
    /// The page that was emptied last: it keeps its memory, so that a slab of few values allocates nothing.
    spare: usize,
    /// The number of pages behind the first that have memory.
    pages_held: usize,
    count: usize,
    ids: PhantomData<fn() -> Id>,
}

impl<Id, T> Default for Slab<Id, T> {
    fn default() -> Self {
        Self {
            first: Page::default(),
            pages: Vec::new(),
            with_room: Vec::new(),
            spare: 0,
            pages_held: 0,
            count: 0,
            ids: PhantomData,
        }
    }
}

impl<Id: SlotId, T> Slab<Id, T> {
    /// Keep a value. Returns its id. Inlined, so that a large value is made where it is kept.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> Id {
        self.count += 1;
        let (number, index) = if self.first.is_full() { self.take_hole_behind() } else { (0, self.first.take_hole()) };
        self.page_mut(number).fill(index, value);
        Id::from_index((number * PAGE_SLOTS + index) as u32)
    }

    /// Take a hole behind the first page, which is full. Returns the number of its page, and its index there.
    fn take_hole_behind(&mut self) -> (usize, usize) {
        if self.with_room.is_empty() {
            self.pages.push(Page::default());
            self.with_room.push(self.pages.len() as u32);
        }
        let number = self.with_room[self.with_room.len() - 1] as usize;
        if self.pages[number - 1].slots.capacity() == 0 {
            self.pages_held += 1;
            self.pages[number - 1].slots.reserve_exact(PAGE_SLOTS);
        }
        let page = &mut self.pages[number - 1];
        let index = page.take_hole();
        if page.is_full() {
            self.with_room.pop();
        }
        (number, index)
    }

    /// Take a value out. Its id may be given to another one.
    #[inline]
    pub fn remove(&mut self, id: Id) -> T {
        let number = id.index() / PAGE_SLOTS;
        let page = self.page_mut(number);
        let Some(value) = page.remove(id.index() % PAGE_SLOTS) else { no_value(id) };
        let left = page.count;
        self.note_hole(number, left);
        value
    }

    /// Drop a value where it is, which takes less than to take it out. Its id may be given to another one.
    #[inline]
    pub fn discard(&mut self, id: Id) {
        let number = id.index() / PAGE_SLOTS;
        let page = self.page_mut(number);
        if !page.discard(id.index() % PAGE_SLOTS) {
            no_value(id);
        }
        let left = page.count;
        self.note_hole(number, left);
    }

    /// Note that a page has one value less, and how many it has left.
    #[inline]
    fn note_hole(&mut self, number: usize, left: u32) {
        self.count -= 1;
        if left as usize == PAGE_SLOTS - 1 && number > 0 {
            self.with_room.push(number as u32);
        }
        if left == 0 && number != self.spare {
            self.keep_spare(number);
        }
    }

    /// Keep the memory of a page that is empty now, and free that of the one before.
    fn keep_spare(&mut self, number: usize) {
        let before = std::mem::replace(&mut self.spare, number);
        let page = self.page_mut(before);
        if page.count == 0 {
            page.free();
            self.pages_held -= usize::from(before > 0);
        }
    }

    #[inline]
    fn page_mut(&mut self, number: usize) -> &mut Page<T> {
        if number == 0 { &mut self.first } else { &mut self.pages[number - 1] }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        let slot = match id.index() {
            index @ 0..PAGE_SLOTS => self.first.slots.get(index),
            index => self.pages.get(index / PAGE_SLOTS - 1)?.slots.get(index % PAGE_SLOTS),
        };
        match slot {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The value with this id, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let slot = match id.index() {
            index @ 0..PAGE_SLOTS => self.first.slots.get_mut(index),
            index => self.pages.get_mut(index / PAGE_SLOTS - 1)?.slots.get_mut(index % PAGE_SLOTS),
        };
        match slot {
            Some(SlabSlot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Its memory: of pages, also where they have holes.
    pub fn size_bytes(&self) -> usize {
        (self.first.slots.capacity() + self.pages_held * PAGE_SLOTS) * size_of::<SlabSlot<T>>()
            + self.pages.capacity() * size_of::<Page<T>>()
    }

    /// One more than the greatest index ever in use: where a walk in slices starts again.
    pub fn end(&self) -> u32 {
        (self.pages.len() * PAGE_SLOTS + self.pages.last().unwrap_or(&self.first).slots.len()) as u32
    }

    /// Every value with its id, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let slots = (0..).step_by(PAGE_SLOTS).zip(self.all_pages());
        slots.flat_map(|(base, page)| (base..).zip(&page.slots)).filter_map(|(index, slot)| match slot {
            SlabSlot::Full(value) => Some((Id::from_index(index), value)),
            SlabSlot::Hole(_) => None,
        })
    }

    fn all_pages(&self) -> impl Iterator<Item = &Page<T>> {
        std::iter::once(&self.first).chain(&self.pages)
    }

    /// The number of slots that have memory.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.all_pages().map(|page| page.slots.capacity()).sum()
    }
}

impl<Id: SlotId, T> Index<Id> for Slab<Id, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id) -> &T {
        match self.get(id) {
            Some(value) => value,
            None => no_value(id),
        }
    }
}

impl<Id: SlotId, T> IndexMut<Id> for Slab<Id, T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        match self.get_mut(id) {
            Some(value) => value,
            None => no_value(id),
        }
    }
}

#[cold]
fn no_value(id: impl SlotId) -> ! {
    panic!("slot {} is empty", id.index())
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
                    let (id, value) = (ConsumerSlot::from_index(index as u32), expected.remove(&index));
                    match random.below(2) {
                        0 => assert_eq!(Some(slab.remove(id)), value),
                        _ => slab.discard(id),
                    }
                }
            }
            let of_lists = slab.pages.capacity() * size_of::<Page<u64>>();
            assert_eq!(slab.size_bytes(), slab.capacity() * size_of::<SlabSlot<u64>>() + of_lists);
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
