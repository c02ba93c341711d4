//! The bytes that wait to be written to one connection, in their order.

/// The maximum capacity that an empty buffer keeps for what comes next.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes that are appended at the end and taken from the front. What remains is not moved when some are taken, so that
/// a large message costs no more per byte than a small one.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the front that have been taken.
    taken: usize,
}

impl OutputBuffer {
    /// The number of bytes that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether no byte waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The vector to append to. Its beginning is not for the caller.
    ///
    /// Cost: amortised, each byte is moved at most once, because at least as many bytes were taken as are moved.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if self.taken > 0 && self.taken >= self.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        &mut self.bytes
    }

    /// The first bytes that wait, at most `count_max`.
    pub fn front(&self, count_max: usize) -> &[u8] {
        &self.bytes[self.taken..][..self.len().min(count_max)]
    }

    /// Take `count` bytes from the front.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
        debug_assert!(self.taken <= self.bytes.len(), "more was taken than waited");
        if self.is_empty() {
            self.clear();
        }
    }

    /// Drop all bytes.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Free the memory of an empty buffer.
    pub fn trim(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fewer;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut buffer, mut out) = (OutputBuffer::default(), Vec::new());
        let mut next = 0_u32;
        for round in 0..fewer(1000) {
            for _ in 0..round % 7 {
                buffer.tail().extend_from_slice(&next.to_be_bytes());
                next += 1;
            }
            let front = buffer.front(round % 11);
            out.extend_from_slice(front);
            let count = front.len();
            buffer.take(count);
        }
        out.extend_from_slice(buffer.front(usize::MAX));
        let expected: Vec<u8> = (0..next).flat_map(u32::to_be_bytes).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_is_taken_in_pieces_is_not_moved() {
        let mut buffer = OutputBuffer::default();
        buffer.tail().resize(1 << 20, 7);
        let start = buffer.front(1).as_ptr();
        for piece in 1..=8 {
            buffer.take(1 << 16);
            assert_eq!(buffer.front(1).as_ptr() as usize, start as usize + (piece << 16));
        }
    }

    #[test]
    fn a_large_buffer_is_given_back_when_it_is_empty() {
        let mut buffer = OutputBuffer::default();
        buffer.tail().resize(4 * KEPT_BYTES_MAX, 7);
        buffer.take(4 * KEPT_BYTES_MAX);
        assert_eq!((buffer.len(), buffer.bytes.capacity()), (0, 0));
        buffer.tail().resize(1000, 7);
        buffer.take(1000);
        assert!(buffer.bytes.capacity() >= 1000);
        buffer.trim();
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
