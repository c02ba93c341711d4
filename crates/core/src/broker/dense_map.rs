//! A map from dense ids to values: what the broker keeps for each queue of the topology.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::broker::slab::SlotId;

/// Values of type `T` at ids of type `Id`, as an array.
#[derive(Debug)]
pub(crate) struct DenseMap<Id, T> {
    values: Vec<Option<T>>,
    count: usize,
    ids: PhantomData<fn() -> Id>,
}

impl<Id, T> Default for DenseMap<Id, T> {
    fn default() -> Self {
        Self { values: Vec::new(), count: 0, ids: PhantomData }
    }
}

impl<Id: SlotId, T> DenseMap<Id, T> {
    /// Keep a value at `id`, replacing any earlier one.
    pub fn insert(&mut self, id: Id, value: T) {
        let index = id.index();
        if index >= self.values.len() {
            self.values.resize_with(index + 1, || None);
        }
        self.count += usize::from(self.values[index].replace(value).is_none());
    }

    /// Take the value at `id` out, if there is one.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let value = self.values.get_mut(id.index())?.take();
        self.count -= usize::from(value.is_some());
        value
    }

    /// The value at `id`, if there is one.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        self.values.get(id.index())?.as_ref()
    }

    /// The value at `id`, if there is one.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.values.get_mut(id.index())?.as_mut()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Every value with its id, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.values
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((Id::from_index(index as u32), value.as_ref()?)))
    }
}

impl<Id: SlotId, T> Index<Id> for DenseMap<Id, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id) -> &T {
        self.values[id.index()].as_ref().expect("an id that is in use")
    }
}

impl<Id: SlotId, T> IndexMut<Id> for DenseMap<Id, T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.values[id.index()].as_mut().expect("an id that is in use")
    }
}
