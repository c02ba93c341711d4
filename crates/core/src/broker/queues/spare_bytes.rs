//! The memory of a large message that is gone, kept for a moment for the next one.
//!
//! To get memory from the system page by page takes longer than to copy a message into it.

/// The minimum size of what is kept: the allocator maps what is larger one by one, and unmaps it at once.
const BYTES_MIN: usize = 512 * 1024;

/// The memory of one message at most.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpareBytes {
    bytes: Vec<u8>,
    /// Whether it was unused at the last [`SpareBytes::age`].
    is_old: bool,
}

impl SpareBytes {
    /// Keep the memory of a message that is gone, if it is larger than what is kept.
    #[inline]
    pub fn offer(&mut self, bytes: Option<Vec<u8>>) {
        if let Some(bytes) = bytes.filter(|bytes| bytes.capacity() >= BYTES_MIN) {
            self.keep(bytes);
        }
    }

    #[cold]
    fn keep(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() > self.bytes.capacity() {
            self.bytes = bytes;
            self.bytes.clear();
        }
        self.is_old = false;
    }

    /// Take the memory for a message of this size; None if it is too small, or more than twice as large.
    pub fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let fits = (size..=size.saturating_mul(2)).contains(&self.bytes.capacity());
        (fits && size >= BYTES_MIN).then(|| std::mem::take(&mut self.bytes))
    }

    /// Free what nobody has taken since the last call.
    pub fn age(&mut self) {
        if std::mem::replace(&mut self.is_old, true) {
            self.bytes = Vec::new();
        }
    }

    /// The memory that is kept.
    pub fn size_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> Option<Vec<u8>> {
        Some(vec![7; size])
    }

    #[test]
    fn the_next_message_of_about_the_size_gets_it() {
        let mut spare = SpareBytes::default();
        spare.offer(message(BYTES_MIN - 1));
        assert_eq!(spare.size_bytes(), 0, "small ones are the allocator's");
        spare.offer(message(4 * BYTES_MIN));
        spare.offer(message(2 * BYTES_MIN));
        assert_eq!(spare.size_bytes(), 4 * BYTES_MIN as u64);
        assert_eq!((spare.take(BYTES_MIN), spare.take(4 * BYTES_MIN + 1)), (None, None));
        let room = spare.take(3 * BYTES_MIN).expect("it fits");
        assert_eq!((room.len(), room.capacity(), spare.size_bytes()), (0, 4 * BYTES_MIN, 0));
    }

    #[test]
    fn what_nobody_takes_is_freed() {
        let mut spare = SpareBytes::default();
        spare.offer(message(BYTES_MIN));
        spare.age();
        spare.offer(message(BYTES_MIN));
        spare.age();
        assert_eq!(spare.size_bytes(), BYTES_MIN as u64, "one that is as large came since");
        spare.age();
        assert_eq!(spare.size_bytes(), 0);
    }
}
