//! The bytes that a connection has sent and that wait: the beginning of a frame, or frames that have to wait their turn.

/// The capacity that a buffer keeps when little or nothing waits: frames of methods and small messages are cut by the end of a read.
const KEPT_BYTES: usize = 4096;

/// Bytes that are appended at the end and used from the front. Using some moves the others only when they are fewer, so that
/// a large read costs no more per byte than a small one, however many turns it takes.
#[derive(Debug, Default)]
pub(crate) struct InputBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the front that have been used.
    used: usize,
}

impl InputBuffer {
    /// The bytes that wait.
    #[inline]
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.used
    }

    /// The memory that it takes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Add bytes at the end.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Note that the first `count` bytes have been used.
    #[inline]
    pub fn take(&mut self, count: usize) {
        self.used += count;
        let waiting = self.waiting().len();
        if waiting == 0 {
            self.clear();
        } else if waiting <= self.used {
            self.bytes.drain(..self.used);
            self.used = 0;
            if self.bytes.capacity() > KEPT_BYTES.max(4 * waiting) {
                self.bytes.shrink_to_fit();
            }
        }
    }

    fn clear(&mut self) {
        self.used = 0;
        match self.bytes.capacity() > KEPT_BYTES {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn bytes_are_used_in_their_order() {
        let (mut random, mut buffer) = (Random(5), InputBuffer::default());
        let (mut sent, mut used) = (0_u32, 0_u32);
        for _ in 0..2_000 {
            for _ in 0..random.below(5) {
                buffer.append(&[sent as u8]);
                sent += 1;
            }
            assert_eq!(buffer.waiting().len() as u32, sent - used);
            assert_eq!(buffer.is_empty(), sent == used);
            let count = random.below(buffer.waiting().len() + 1);
            for byte in &buffer.waiting()[..count] {
                assert_eq!(*byte, used as u8);
                used += 1;
            }
            buffer.take(count);
            assert!(buffer.bytes.len() <= 2 * buffer.waiting().len(), "what was used is dropped");
        }
    }

    #[test]
    fn the_memory_of_a_large_read_goes_with_it() {
        let mut buffer = InputBuffer::default();
        buffer.append(&[7; 1 << 18]);
        buffer.take((1 << 18) - 3);
        assert_eq!((buffer.waiting(), buffer.capacity() <= KEPT_BYTES), (&[7; 3][..], true));
        buffer.append(&[8; 1 << 18]);
        buffer.take((1 << 18) + 3);
        assert_eq!((buffer.is_empty(), buffer.capacity()), (true, 0));
    }
}
