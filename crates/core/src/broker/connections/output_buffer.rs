//! The bytes that wait to be written to one connection, in their order.

/// The capacity that a buffer keeps though it has held less lately.
const KEPT_BYTES: usize = 1024 * 1024;

/// From this size on, all that waits is handed over in the buffer that it was written to. Less is copied, so that small
/// connections do not end up with the buffers of large ones.
const SWAP_BYTES_MIN: usize = 32 * 1024;

/// The size of a connection's output at which its consumers wait when the buffers of all connections take a sixteenth of
/// the memory. The owner of its socket holds as much again at the most, so that both stay within a quarter of a mebibyte.
pub(crate) const CROWDED_BYTES: usize = 96 * 1024;

/// Bytes that are appended at the end and taken from the front. What remains is not moved when some are taken, so that
/// a large message costs no more per byte than a small one.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the front that have been taken.
    taken: usize,
    /// The most that it has held since [`OutputBuffer::shrink`].
    peak: usize,
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

    /// The memory that it takes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
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
        self.peak = self.peak.max(self.bytes.len());
        self.taken += count;
        debug_assert!(self.taken <= self.bytes.len(), "more was taken than waited");
        if self.is_empty() {
            self.clear();
        }
    }

    /// Move the first bytes that wait to the end of `bytes`, at most `count_max`. Returns how many. All of very many bytes
    /// are moved to an empty vector without a copy.
    pub fn move_to(&mut self, bytes: &mut Vec<u8>, count_max: usize) -> usize {
        let count = self.len().min(count_max);
        if count >= SWAP_BYTES_MIN && count == self.bytes.len() && bytes.is_empty() {
            self.peak = self.peak.max(count);
            std::mem::swap(bytes, &mut self.bytes);
        } else {
            bytes.extend_from_slice(self.front(count));
            self.take(count);
        }
        count
    }

    /// Free the room that what waits does not need, if that is most of it.
    pub fn shrink_to_fit(&mut self) {
        if self.bytes.capacity() > 2 * self.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.shrink_to_fit();
        }
    }

    /// Drop all bytes.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.bytes.clear();
    }

    /// Free the memory of an empty buffer that has used less than half of it since the last call. A large message that is
    /// followed by others finds its memory still there, because to get it anew takes as long as to write the message.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 2 * self.peak.max(KEPT_BYTES) {
            self.bytes = Vec::new();
        }
        self.peak = 0;
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
    fn a_large_buffer_is_given_back_when_little_is_written() {
        let mut buffer = OutputBuffer::default();
        buffer.tail().resize(4 * KEPT_BYTES, 7);
        buffer.take(4 * KEPT_BYTES);
        buffer.shrink();
        assert!(buffer.is_empty() && buffer.bytes.capacity() >= 4 * KEPT_BYTES, "the next may be as large");
        buffer.tail().resize(1000, 7);
        buffer.take(1000);
        buffer.shrink();
        assert_eq!(buffer.bytes.capacity(), 0);
        buffer.tail().resize(1000, 7);
        buffer.take(1000);
        buffer.shrink();
        assert!(buffer.bytes.capacity() >= 1000, "small ones stay");
        buffer.trim();
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
