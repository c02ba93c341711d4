//! The bitmap engine of the OpenAMQ and Malamute papers: every operation that they list.
//!
//! The bitmap is compressed (crate `roaring`).

use std::io::{self, Read, Write};

use roaring::RoaringBitmap;

/// The bits 0 to `size`, compressed. The size is at most 2^32.
#[derive(Clone, Debug, PartialEq)]
pub struct Bitmap {
    bits: RoaringBitmap,
    size: u64,
}

/// The maximum size of a bitmap.
pub const SIZE_MAX: u64 = 1 << 32;

const MAGIC: &[u8; 8] = b"TAMISBM1";

impl Bitmap {
    /// A bitmap of `size` zeros; `size` is at most [`SIZE_MAX`].
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { bits: RoaringBitmap::new(), size: size.min(SIZE_MAX) }
    }

    /// A bitmap of `size` bits of which those of `bytes` are ones, the lowest bit of the first byte being the bit `start`, and
    /// those in `others`, best ascending; what is not below the size is left out. Cost: a step for a word of the bytes, and for
    /// each other.
    #[must_use]
    pub fn of_bits(size: u64, start: u64, bytes: &[u8], others: impl Iterator<Item = u64> + Clone) -> Self {
        let mut bitmap = Self::new(size);
        let room = usize::try_from(bitmap.size.saturating_sub(start).div_ceil(8)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        if let Some(start) = u32::try_from(start).ok().filter(|_| !bytes.is_empty()) {
            bitmap.bits = RoaringBitmap::from_lsb0_bytes(start, bytes);
        }
        if let Ok(end) = u32::try_from(bitmap.size) {
            bitmap.bits.remove_range(end..); // of the last byte
        }
        let size = bitmap.size;
        let others = others.filter(|index| *index < size).filter_map(|index| u32::try_from(index).ok());
        // Appending is ten times as fast as inserting.
        bitmap.bits |= RoaringBitmap::from_sorted_iter(others.clone()).unwrap_or_else(|_| others.collect());
        bitmap
    }

    /// The number of bits.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of the bit, when it is below the size.
    #[must_use]
    pub fn checked(&self, index: u64) -> Option<u32> {
        (index < self.size).then(|| u32::try_from(index).ok()).flatten()
    }

    /// Sets a bit.
    pub fn set(&mut self, index: u32) {
        self.bits.insert(index);
    }

    /// Clears a bit.
    pub fn clear(&mut self, index: u32) {
        self.bits.remove(index);
    }

    /// Whether a bit is set.
    #[must_use]
    pub fn test(&self, index: u32) -> bool {
        self.bits.contains(index)
    }

    /// Clears every bit.
    pub fn reset(&mut self) {
        self.bits.clear();
    }

    /// The number of bits that are set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bits.len()
    }

    /// The bits set in both. None when the sizes differ, as for `or` and `xor`.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        self.combine(other, &self.bits & &other.bits)
    }

    /// The bits set in either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Option<Self> {
        self.combine(other, &self.bits | &other.bits)
    }

    /// The bits set in exactly one of the two.
    #[must_use]
    pub fn xor(&self, other: &Self) -> Option<Self> {
        self.combine(other, &self.bits ^ &other.bits)
    }

    fn combine(&self, other: &Self, bits: RoaringBitmap) -> Option<Self> {
        (self.size == other.size).then_some(Self { bits, size: self.size })
    }

    /// Every bit inverted, within the size.
    #[must_use]
    pub fn not(&self) -> Self {
        let mut all = RoaringBitmap::new();
        if let Some(last) = self.last() {
            all.insert_range(0..=last);
        }
        Self { bits: all - &self.bits, size: self.size }
    }

    fn last(&self) -> Option<u32> {
        self.size.checked_sub(1).and_then(|last| u32::try_from(last).ok())
    }

    /// The lowest set bit.
    #[must_use]
    pub fn first_set(&self) -> Option<u32> {
        self.bits.min()
    }

    /// The highest set bit.
    #[must_use]
    pub fn last_set(&self) -> Option<u32> {
        self.bits.max()
    }

    /// The lowest set bit after `index`.
    #[must_use]
    pub fn next_set(&self, index: u32) -> Option<u32> {
        self.bits.range(index.checked_add(1)?..).next()
    }

    /// The highest set bit before `index`.
    #[must_use]
    pub fn previous_set(&self, index: u32) -> Option<u32> {
        self.bits.range(..index).next_back()
    }

    /// The lowest zero.
    #[must_use]
    pub fn first_clear(&self) -> Option<u32> {
        self.clear_from(0)
    }

    /// The highest zero.
    #[must_use]
    pub fn last_clear(&self) -> Option<u32> {
        self.clear_up_to(self.last()?)
    }

    /// The lowest zero after `index`.
    #[must_use]
    pub fn next_clear(&self, index: u32) -> Option<u32> {
        self.clear_from(index.checked_add(1)?)
    }

    /// The highest zero before `index`.
    #[must_use]
    pub fn previous_clear(&self, index: u32) -> Option<u32> {
        self.clear_up_to(index.checked_sub(1)?)
    }

    /// The lowest zero at or after `start`: where a run of ones from `start` on ends.
    fn clear_from(&self, start: u32) -> Option<u32> {
        let last = self.last().filter(|last| start <= *last)?;
        let (mut low, mut high) = (u64::from(start), u64::from(last) + 1);
        while low < high {
            let middle = u32::try_from(low.midpoint(high)).ok()?;
            if self.bits.contains_range(start..=middle) { low = u64::from(middle) + 1 } else { high = middle.into() }
        }
        self.checked(low)
    }

    /// The highest zero at or before `end`: where a run of ones up to `end` begins.
    fn clear_up_to(&self, end: u32) -> Option<u32> {
        let (mut low, mut high) = (0, u64::from(end) + 1); // the answer is the last of `low..high` below a run of ones
        while low < high {
            let middle = u32::try_from(low.midpoint(high)).ok()?;
            if self.bits.contains_range(middle..=end) { high = middle.into() } else { low = u64::from(middle) + 1 }
        }
        u32::try_from(low.checked_sub(1)?).ok()
    }

    /// Writes a mark, the size, and roaring's portable format.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(MAGIC)?;
        to.write_all(&self.size.to_le_bytes())?;
        self.bits.serialize_into(to)
    }

    /// Reads what [`Self::write`] wrote, and not a byte more.
    ///
    /// # Errors
    /// The error of the reader; `InvalidData` for bytes that are no bitmap, or that set a bit beyond its size.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let damaged = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
        let (mut magic, mut size) = ([0; 8], [0; 8]);
        from.read_exact(&mut magic)?;
        from.read_exact(&mut size)?;
        let size = u64::from_le_bytes(size);
        if magic != *MAGIC || size > SIZE_MAX {
            return Err(damaged("it does not begin as one"));
        }
        let bits = RoaringBitmap::deserialize_from(from)?;
        if bits.max().is_some_and(|max| u64::from(max) >= size) {
            return Err(damaged("a bit beyond its size"));
        }
        Ok(Self { bits, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn the_whole_range_of_sizes_works_at_its_edges() {
        let mut all = Bitmap::new(SIZE_MAX).not();
        assert_eq!(all.count(), SIZE_MAX);
        assert_eq!((all.first_clear(), all.last_clear(), all.last_set()), (None, None, Some(u32::MAX)));
        all.clear(u32::MAX);
        assert_eq!((all.first_clear(), all.next_clear(7)), (Some(u32::MAX), Some(u32::MAX)));
        assert_eq!(all.previous_clear(u32::MAX), None);
        let none = Bitmap::new(0);
        assert_eq!((none.first_set(), none.first_clear(), none.not().count()), (None, None, 0));
    }
}
