//! Frames: the typed, numbered pieces that the stream of bytes consists of.
//!
//! ```text
//! octet 0     1         3             7                  7 + size
//!       kind  channel   size          payload            0xCE
//! ```
//!
//! Source: AMQP 0-9-1 specification, section 4.2.3.

use std::fmt;

/// The number of bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 7;

/// The number of bytes that are not payload: the header and the end octet.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;

/// A whole heartbeat frame.
pub const HEARTBEAT: [u8; FRAME_OVERHEAD_BYTES] = [FrameKind::Heartbeat as u8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// The last octet of every frame. Any other octet there shows that the peers have lost synchronisation.
pub const FRAME_END: u8 = 0xCE;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A method, which `method.rs` decodes.
    Method = 1,
    /// A content header, which `properties.rs` decodes.
    Header = 2,
    /// A piece of a message's body.
    Body = 3,
    /// A heartbeat, without content.
    Heartbeat = 8,
}

/// One frame, borrowed from the stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The channel it belongs to; 0 is the connection itself.
    pub channel: u16,
    /// The bytes between the header and the end octet.
    pub payload: &'a [u8],
}

/// Bytes that are no frame. Every such error closes the connection with 501.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A kind that does not exist.
    UnknownKind(u8),
    /// The header announces a frame that is larger than the agreed maximum.
    Oversize {
        /// The size of the announced frame.
        size_bytes: u64,
        /// The agreed maximum.
        size_bytes_max: usize,
    },
    /// Another octet stands where the end octet must.
    NoEnd(u8),
    /// A heartbeat with a channel or a payload.
    BadHeartbeat,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "unknown frame type {kind}"),
            Self::Oversize { size_bytes, size_bytes_max } => {
                write!(f, "a frame of {size_bytes} bytes is over the agreed frame_max of {size_bytes_max}")
            }
            Self::NoEnd(octet) => write!(f, "a frame ends with octet {octet} instead of {FRAME_END}"),
            Self::BadHeartbeat => f.write_str("a heartbeat has a channel or a payload"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The first frame of `bytes` and its size, or None while it is incomplete.
///
/// `frame_size_max` bounds the whole frame, as `connection.tune` does; 0 has no special meaning here. An error is
/// detected at the seventh byte or at the end octet, so a caller that stops reading at `frame_size_max` bytes never
/// waits for more.
///
/// # Errors
/// The bytes cannot be a frame, and the stream cannot be read any further.
#[inline]
pub fn next_frame(bytes: &[u8], frame_size_max: usize) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((&[kind, channel_high, channel_low, s3, s2, s1, s0], remaining)) =
        bytes.split_first_chunk::<FRAME_HEADER_BYTES>()
    else {
        return Ok(None);
    };
    let kind = match kind {
        1 => FrameKind::Method,
        2 => FrameKind::Header,
        3 => FrameKind::Body,
        8 => FrameKind::Heartbeat,
        other => return Err(FrameError::UnknownKind(other)),
    };
    let payload_bytes = u32::from_be_bytes([s3, s2, s1, s0]);
    let size_bytes = u64::from(payload_bytes) + FRAME_OVERHEAD_BYTES as u64;
    if size_bytes > frame_size_max as u64 {
        return Err(FrameError::Oversize { size_bytes, size_bytes_max: frame_size_max });
    }
    let channel = u16::from_be_bytes([channel_high, channel_low]);
    if kind == FrameKind::Heartbeat && (channel != 0 || payload_bytes != 0) {
        return Err(FrameError::BadHeartbeat);
    }
    // At most `frame_size_max`, so it fits a usize.
    let Some((payload, [end, ..])) = remaining.split_at_checked(payload_bytes as usize) else { return Ok(None) };
    if *end != FRAME_END {
        return Err(FrameError::NoEnd(*end));
    }
    Ok(Some((Frame { kind, channel, payload }, size_bytes as usize)))
}

/// The position of a frame that [`begin_frame`] began in its buffer.
#[derive(Debug)]
#[must_use = "the frame has no size and no end before end_frame"]
pub struct FrameStart(usize);

/// Appends the header of a frame; the caller appends its payload next, and [`end_frame`] closes it.
#[inline]
pub fn begin_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> FrameStart {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[kind as u8, high, low, 0, 0, 0, 0]);
    FrameStart(start)
}

/// Fills in the size of the frame begun at `start`, and appends its end octet.
#[inline]
pub fn end_frame(out: &mut Vec<u8>, start: FrameStart) {
    let payload_bytes = out.len() - start.0 - FRAME_HEADER_BYTES;
    debug_assert!(payload_bytes <= u32::MAX as usize);
    out[start.0 + 3..start.0 + FRAME_HEADER_BYTES].copy_from_slice(&(payload_bytes as u32).to_be_bytes());
    out.push(FRAME_END);
}

/// The bytes of a body that a frame of at most `frame_size_max` bytes takes.
#[inline]
pub fn body_piece_bytes(frame_size_max: usize) -> usize {
    frame_size_max.saturating_sub(FRAME_OVERHEAD_BYTES).clamp(1, u32::MAX as usize)
}

/// Appends `body` as body frames of at most `frame_size_max` bytes each, including their overhead; none for an empty
/// body.
#[inline]
pub fn put_body(out: &mut Vec<u8>, channel: u16, body: &[u8], frame_size_max: usize) {
    for piece in body.chunks(body_piece_bytes(frame_size_max)) {
        out.reserve(piece.len() + FRAME_OVERHEAD_BYTES);
        out.extend_from_slice(&body_frame_header(channel, piece.len()));
        out.extend_from_slice(piece);
        out.push(FRAME_END);
    }
}

/// What stands in front of the payload of a body frame.
#[inline]
pub(crate) fn body_frame_header(channel: u16, payload_bytes: usize) -> [u8; FRAME_HEADER_BYTES] {
    let [c1, c0] = channel.to_be_bytes();
    let [s3, s2, s1, s0] = (payload_bytes as u32).to_be_bytes();
    [FrameKind::Body as u8, c1, c0, s3, s2, s1, s0]
}
