//! A set of small numbers that is emptied by counting up instead of clearing.

/// The set of those of `0..size` that were met since [`Stamps::begin`].
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    stamps: Vec<u32>,
    generation: u32,
}

impl Stamps {
    /// Empty the set, for numbers below `size`.
    pub fn begin(&mut self, size: usize) {
        self.stamps.resize(size, 0);
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill(0);
            1
        });
    }

    /// Put `number` in; true when it was not there.
    pub fn insert(&mut self, number: u32) -> bool {
        std::mem::replace(&mut self.stamps[number as usize], self.generation) != self.generation
    }
}
