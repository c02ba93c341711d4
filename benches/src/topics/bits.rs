//! A plain bitmap that grows.

/// Bits from 0; those beyond the end are clear.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Set a bit.
    pub fn set(&mut self, index: u32) {
        let block = index as usize / 64;
        if self.0.len() <= block {
            self.0.resize(block + 1, 0);
        }
        self.0[block] |= 1 << (index % 64);
    }

    /// Become a copy of `other`.
    pub fn assign(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// Keep what is in any of `rows` too; without rows, nothing.
    pub fn and_any(&mut self, rows: [Option<&Self>; 2]) {
        let block = |row: Option<&Self>, index: usize| row.and_then(|row| row.0.get(index)).copied().unwrap_or(0);
        for (index, own) in self.0.iter_mut().enumerate() {
            *own &= block(rows[0], index) | block(rows[1], index);
        }
    }

    /// The bits that are set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(|(block, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros());
                left &= left.wrapping_sub(1);
                bit.map(|bit| block * 64 + bit)
            })
        })
    }
}
