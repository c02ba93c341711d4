//! The bytes that wait to be written to one connection, in their order.
//!
//! The body of a large message is not copied here: its frames are made piece by piece, when the socket takes them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::amqp::frame::{FRAME_END, FRAME_OVERHEAD_BYTES, body_frame_header, body_piece_bytes};
use crate::amqp::properties::{put_content, put_header};

use crate::broker::parts::Parts;
use crate::broker::queues::message_bytes::SharedBody;

/// The capacity that a buffer keeps though it has held less lately.
const KEPT_BYTES: usize = 1024 * 1024;

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

    /// The part of the body that its next frames have: as many as fit into `count` bytes, or one.
    fn next_part(&self, count: usize) -> &[u8] {
        let piece_bytes = body_piece_bytes(self.frame_max);
        let frames = (count / (piece_bytes + FRAME_OVERHEAD_BYTES)).max(1);
        let remaining = &self.body.body()[self.framed..];
        &remaining[..remaining.len().min(frames * piece_bytes)]
    }

    /// The number of bytes that [`Unframed::put_frames`] puts behind `before` others; None if there is no room for a frame
    /// among `count_max` bytes. A larger one goes alone.
    fn frames_len(&self, count_max: usize, before: usize) -> Option<usize> {
        let room = count_max.checked_sub(before).filter(|room| *room > 0)?;
        let part = self.next_part(room).len();
        let len = part + part.div_ceil(body_piece_bytes(self.frame_max)) * FRAME_OVERHEAD_BYTES;
        (len <= room || before == 0).then_some(len)
    }

    /// Put its next frames: as many as fit into `count` bytes, or one. Returns whether all are made.
    fn put_frames(&mut self, count: usize, put: &mut dyn FnMut(&[u8])) -> bool {
        let part = self.next_part(count);
        for piece in part.chunks(body_piece_bytes(self.frame_max)) {
            put(&body_frame_header(self.channel, piece.len()));
            put(piece);
            put(&[FRAME_END]);
        }
        self.framed += part.len();
        self.framed == self.body.body().len()
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

    /// The number of bytes that [`OutputBuffer::hand_over`] puts.
    #[inline]
    pub fn next_len(&self, count_max: usize) -> usize {
        let waiting = (self.bytes.len() - self.taken).min(count_max);
        if self.unframed.is_empty() { waiting } else { self.len_with_frames(waiting, count_max) }
    }

    #[cold]
    fn len_with_frames(&self, waiting: usize, count_max: usize) -> usize {
        let mut len = waiting;
        for next in &self.unframed {
            let Some(frames) = next.frames_len(count_max, len) else { break };
            len += frames;
            if frames < next.len() - next.behind.len() || next.behind.len() > count_max.saturating_sub(len) {
                break;
            }
            len += next.behind.len();
        }
        len
    }

    /// Take the first bytes that wait, and call `put` with them, piece by piece: at most `count_max`, unless a single frame of
    /// a body is larger. Returns the bytes of the message whose last frame was made last.
    #[inline]
    pub fn hand_over(&mut self, count_max: usize, put: &mut dyn FnMut(&[u8])) -> Option<Arc<Vec<u8>>> {
        let waiting = self.bytes.len() - self.taken;
        let count = waiting.min(count_max);
        put(&self.bytes[self.taken..self.taken + count]);
        self.take(count);
        if self.unframed.is_empty() { None } else { self.put_frames(count, count_max, put) }
    }

    #[cold]
    fn put_frames(&mut self, before: usize, count_max: usize, put: &mut dyn FnMut(&[u8])) -> Option<Arc<Vec<u8>>> {
        let (mut len, mut finished) = (before, None);
        while let Some(next) = self.unframed.front_mut()
            && let Some(frames) = next.frames_len(count_max, len)
        {
            let is_finished = next.put_frames(count_max - len, put);
            len += frames;
            if !is_finished {
                break;
            }
            let Some(Unframed { body, behind, .. }) = self.unframed.pop_front() else { break };
            finished = Some(body.bytes);
            if behind.len() > count_max.saturating_sub(len) {
                debug_assert!(self.bytes.is_empty(), "they came before the frames");
                self.bytes.extend_from_slice(&behind);
                break;
            }
            put(&behind);
            len += behind.len();
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

    /// Take `count` bytes from the front.
    fn take(&mut self, count: usize) {
        self.peak = self.peak.max(self.bytes.len());
        self.taken += count;
        debug_assert!(self.taken <= self.bytes.len(), "more was taken than waited");
        if self.taken == self.bytes.len() {
            self.taken = 0;
            self.bytes.clear();
        }
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
    use crate::amqp::frame::put_body;
    use crate::testing::fewer;

    /// Append what is handed over next. Returns how many bytes that were.
    fn take(buffer: &mut OutputBuffer, count_max: usize, out: &mut Vec<u8>) -> usize {
        let (before, expected) = (out.len(), buffer.next_len(count_max));
        buffer.hand_over(count_max, &mut |piece| out.extend_from_slice(piece));
        assert_eq!(out.len() - before, expected);
        expected
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut buffer, mut out) = (OutputBuffer::default(), Vec::new());
        let mut next = 0_u32;
        for round in 0..fewer(1000) {
            for _ in 0..round % 7 {
                buffer.tail().extend_from_slice(&next.to_be_bytes());
                next += 1;
            }
            take(&mut buffer, round % 11, &mut out);
        }
        take(&mut buffer, usize::MAX, &mut out);
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
                buffer.append_body(7, SharedBody::rest(Arc::clone(&bytes), start), frame_max);
                expected.extend_from_slice(&[number; 5]);
                put_body(&mut expected, 7, &whole[start..], frame_max);
                assert_eq!(buffer.len(), expected.len());
            }
            buffer.tail().push(9);
            expected.push(9);
            while !buffer.is_empty() {
                let before = buffer.len();
                let taken = take(&mut buffer, count, &mut out);
                assert_eq!(buffer.len(), before - taken, "frames are counted before they are made");
                assert!(taken > 0 && taken <= count.max(frame_max));
            }
            assert_eq!((out, Arc::strong_count(&bytes)), (expected, 1));
        }
    }

    #[test]
    fn what_is_taken_in_pieces_is_not_moved() {
        let mut buffer = OutputBuffer::default();
        buffer.tail().resize(1 << 20, 7);
        let start = buffer.bytes.as_ptr();
        for piece in 1..=8 {
            buffer.take(1 << 16);
            assert_eq!((buffer.bytes.as_ptr(), buffer.taken), (start, piece << 16));
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
