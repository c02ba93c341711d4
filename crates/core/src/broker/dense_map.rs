//! Values at numbers that somebody else gives: what the broker keeps of queues, by the topology's numbers.

use std::ops::{Index, IndexMut};

#[derive(Debug)]
pub(crate) struct DenseMap<T> {
    values: Vec<Option<T>>,
    count: usize,
}

impl<T> Default for DenseMap<T> {
    fn default() -> Self {
        Self { values: Vec::new(), count: 0 }
    }
}

impl<T> DenseMap<T> {
    pub fn put(&mut self, number: u32, value: T) {
        let index = number as usize;
        if index >= self.values.len() {
            self.values.resize_with(index + 1, || None);
        }
        self.count += usize::from(self.values[index].replace(value).is_none());
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take();
        self.count -= usize::from(value.is_some());
        value
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Every value with its number, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.values.iter().enumerate().filter_map(|(number, value)| Some((number as u32, value.as_ref()?)))
    }
}

impl<T> Index<u32> for DenseMap<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        self.values[number as usize].as_ref().expect("a number that is in use")
    }
}

impl<T> IndexMut<u32> for DenseMap<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.values[number as usize].as_mut().expect("a number that is in use")
    }
}
