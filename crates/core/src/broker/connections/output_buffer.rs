//! The bytes that wait to be written to one connection, in their order.
//!
//! The body of a large message is not copied here: its frames are made piece by piece, when the socket takes them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::amqp::frame::{FRAME_OVERHEAD_BYTES, body_piece_bytes, put_body};
use crate::amqp::properties::{put_content, put_header};

use crate::broker::parts::Parts;
use crate::broker::queues::message_bytes::SharedBody;

/// The capacity that a buffer keeps though it has held less lately.
const KEPT_BYTES: usize = 1024 * 1024;

/// From this size on, all that waits is handed over in the buffer that it was written to. Less is copied, so that small
/// connections do not end up with the buffers of large ones.
const SWAP_BYTES_MIN: usize = 32 * 1024;

/// The size of a connection's output at which its consumers wait when the buffers of all connections take a sixteenth of
/// the memory. The owner of its socket holds as much again at the most, so that both stay within a quarter of a mebibyte.
pub(crate) const CROWDED_BYTES: usize = 96 * 1024;

/// A body whose frames are still to be made, and the bytes behind it.
#[derive(Debug)]
struct Unframed {
    body: SharedBody,
    /// The number of bytes of the body that are in frames already.
    framed: usize,
    channel: u16,
    frame_max: usize,
    behind: Vec<u8>,
}

impl Unframed {
    /// The number of bytes that its frames and those behind them take.
    fn len(&self) -> usize {
        let body = self.body.body().len() - self.framed;
        body + body.div_ceil(body_piece_bytes(self.frame_max)) * FRAME_OVERHEAD_BYTES + self.behind.len()
    }

    /// Append its next frames, about `count` bytes of them. Returns whether all are made.
    fn put_frames(&mut self, out: &mut Vec<u8>, count: usize) -> bool {
        let piece_bytes = body_piece_bytes(self.frame_max);
        let frames = (count / (piece_bytes + FRAME_OVERHEAD_BYTES)).max(1);
        let remaining = &self.body.body()[self.framed..];
        let part = &remaining[..remaining.len().min(frames * piece_bytes)];
        put_body(out, self.channel, part, self.frame_max);
        self.framed += part.len();
        part.len() == remaining.len()
    }

    /// The memory that it takes, as if nobody else had the body.
    fn memory_bytes(&self) -> usize {
        self.body.bytes.len() + self.behind.capacity()
    }
}

/// Bytes that are appended at the end and taken from the front. What remains is not moved when some are taken, so that
/// a large message costs no more per byte than a small one.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the front that have been taken.
    taken: usize,
    /// What comes after `bytes`.
    unframed: VecDeque<Unframed>,
    /// The most that it has held since [`OutputBuffer::shrink`].
    peak: usize,
}

impl OutputBuffer {
    /// The number of bytes that wait.
    #[inline]
    pub fn len(&self) -> usize {
        let unframed = if self.unframed.is_empty() { 0 } else { self.unframed.iter().map(Unframed::len).sum() };
        self.bytes.len() - self.taken + unframed
    }

    /// Whether no byte waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that it takes, with the bodies that wait.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.unframed.iter().map(Unframed::memory_bytes).sum::<usize>()
    }

    /// The vector to append to. Its beginning is not for the caller.
    ///
    /// Cost: amortised, each byte is moved at most once, because at least as many bytes were taken as are moved.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        self.drop_taken();
        match self.unframed.back_mut() {
            Some(last) => &mut last.behind,
            None => &mut self.bytes,
        }
    }

    /// Append the header and the body of a message. The frames of a body that is `shared` are made when they are handed over.
    pub fn append_content(&mut self, channel: u16, parts: &Parts<'_>, shared: Option<SharedBody>, frame_max: usize) {
        match shared {
            None => put_content(self.tail(), channel, parts.properties, parts.body, frame_max),
            Some(body) => {
                put_header(self.tail(), channel, parts.properties, parts.body.len() as u64);
                self.append_body(channel, body, frame_max);
            }
        }
    }

    /// Append the frames of a body. They are made when they are handed over.
    pub fn append_body(&mut self, channel: u16, body: SharedBody, frame_max: usize) {
        let unframed = Unframed { body, framed: 0, channel, frame_max, behind: Vec::new() };
        self.unframed.push_back(unframed);
    }

    /// Make frames of bodies until `count` bytes wait in one piece. Returns the bytes of the message that was finished last.
    #[inline]
    pub fn fill(&mut self, count: usize) -> Option<Arc<Vec<u8>>> {
        if self.unframed.is_empty() { None } else { self.put_frames(count) }
    }

    #[cold]
    fn put_frames(&mut self, count: usize) -> Option<Arc<Vec<u8>>> {
        self.drop_taken();
        let mut finished = None;
        while let Some(missing) = count.checked_sub(self.bytes.len() - self.taken).filter(|missing| *missing > 0)
            && let Some(next) = self.unframed.front_mut()
        {
            let is_finished = next.put_frames(&mut self.bytes, missing);
            if is_finished && let Some(next) = self.unframed.pop_front() {
                self.bytes.extend_from_slice(&next.behind);
                finished = Some(next.body.bytes);
            }
        }
        finished
    }

    /// Move what waits to the beginning, when at least as many bytes were taken as are moved.
    #[inline]
    fn drop_taken(&mut self) {
        if self.taken > 0 && self.taken >= self.bytes.len() - self.taken {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// The first bytes that wait in one piece, at most `count_max`. Call [`OutputBuffer::fill`] first.
    pub fn front(&self, count_max: usize) -> &[u8] {
        let waiting = &self.bytes[self.taken..];
        &waiting[..waiting.len().min(count_max)]
    }

    /// Take `count` bytes from the front.
    pub fn take(&mut self, count: usize) {
        self.peak = self.peak.max(self.bytes.len());
        self.taken += count;
        debug_assert!(self.taken <= self.bytes.len(), "more was taken than waited");
        if self.taken == self.bytes.len() {
            self.taken = 0;
            self.bytes.clear();
        }
    }

    /// Move the first bytes that wait to the end of `bytes`, at most `count_max`. Returns how many. All of very many bytes
    /// are moved to an empty vector without a copy. Call [`OutputBuffer::fill`] first.
    pub fn move_to(&mut self, bytes: &mut Vec<u8>, count_max: usize) -> usize {
        let count = self.front(count_max).len();
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
        if self.bytes.capacity() > 2 * (self.bytes.len() - self.taken) {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.shrink_to_fit();
        }
    }

    /// Drop all bytes.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.bytes.clear();
        self.unframed.clear();
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
    fn a_body_becomes_frames_piece_by_piece() {
        let whole: Vec<u8> = (0..100_000_u32).map(|index| index as u8).collect();
        for (frame_max, count, start) in
            [(4096, 1, 0), (4096, 10_000, 7), (1 << 20, 5_000, 7), (131_072, 262_144, 99_999)]
        {
            let (mut buffer, mut out, mut expected) = (OutputBuffer::default(), Vec::new(), Vec::new());
            let bytes = Arc::new(whole.clone());
            for number in 0..3_u8 {
                buffer.tail().extend_from_slice(&[number; 5]);
                buffer.append_body(7, SharedBody { bytes: Arc::clone(&bytes), start }, frame_max);
                expected.extend_from_slice(&[number; 5]);
                put_body(&mut expected, 7, &whole[start..], frame_max);
                assert_eq!(buffer.len(), expected.len());
            }
            buffer.tail().push(9);
            expected.push(9);
            let mut finished = 0;
            while !buffer.is_empty() {
                let before = buffer.len();
                finished += usize::from(buffer.fill(count).is_some());
                assert_eq!(buffer.len(), before, "frames are counted before they are made");
                let piece = buffer.front(count).to_vec();
                assert!(!piece.is_empty() && (buffer.front(count).len() == count || piece.len() == before));
                buffer.take(piece.len());
                out.extend_from_slice(&piece);
            }
            assert_eq!((out, finished > 0, Arc::strong_count(&bytes)), (expected, true, 1));
        }
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
