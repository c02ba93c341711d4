//! The content of a basic.publish: its header and its body, in any number of frames and reads.
//!
//! Nearly always header and body follow the method in the same read; then the message is published from that read. Otherwise
//! its parts are collected here.

use crate::amqp::method::BasicPublish;
use crate::amqp::{AmqpError, ContentHeader, DecodeError, Frame, FrameKind, MethodId, ReplyCode, next_frame};

use crate::broker::parts::JoinedParts;

/// Maximum size of the buffer that is allocated for an announced body before the body arrives.
const ROOM_AT_ONCE: usize = 128 * 1024;

/// The flags of basic.publish, in its last octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishFlags(u8);

impl PublishFlags {
    pub fn mandatory(self) -> bool {
        self.0 & 1 != 0
    }

    pub fn immediate(self) -> bool {
        self.0 & 2 != 0
    }
}

/// A basic.publish: the exchange and routing key as they are kept, and the flags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publish<'a> {
    pub route: &'a [u8],
    pub flags: PublishFlags,
}

impl<'a> Publish<'a> {
    /// Decode the payload of the method frame: class, method, a reserved number, two short strings, flags.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        const TRUNCATED: DecodeError = DecodeError::syntax("the fields of basic.publish do not fit its frame");
        let exchange = usize::from(*payload.get(6).ok_or(TRUNCATED)?);
        let routing_key = usize::from(*payload.get(7 + exchange).ok_or(TRUNCATED)?);
        let end = 8 + exchange + routing_key;
        if payload.len() != end + 1 {
            return Err(TRUNCATED);
        }
        Ok(Self { route: &payload[6..end], flags: PublishFlags(payload[end]) })
    }
}

/// Whether the payload of a method frame is a basic.publish.
#[inline]
pub(crate) fn is_publish(payload: &[u8]) -> bool {
    payload.starts_with(&[0, 60, 0, 40])
}

/// The content of a message that is complete in one read.
pub(crate) struct WholeContent<'a> {
    pub properties: &'a [u8],
    pub body: &'a [u8],
    pub used: usize,
}

/// The content at the start of `bytes`, if it is complete, with at most one body frame, of the same channel. Anything else,
/// errors included, is processed frame by frame.
#[inline]
pub(crate) fn whole_content(bytes: &[u8], channel: u16, frame_max: usize) -> Option<WholeContent<'_>> {
    let (header, header_used) = next_frame(bytes, frame_max).ok()??;
    if header.kind != FrameKind::Header || header.channel != channel {
        return None;
    }
    let ([0, 60, 0, 0, size @ ..], properties) = header.payload.split_first_chunk::<12>()? else { return None };
    let size = u64::from_be_bytes(*size);
    if size == 0 {
        return Some(WholeContent { properties, body: &[], used: header_used });
    }
    let (body, body_used) = next_frame(&bytes[header_used..], frame_max).ok()??;
    let is_all = body.kind == FrameKind::Body && body.channel == channel && body.payload.len() as u64 == size;
    is_all.then_some(WholeContent { properties, body: body.payload, used: header_used + body_used })
}

/// A message that arrives in several frames.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The bytes that have arrived. The store keeps this buffer when the message is complete.
    pub joined: JoinedParts,
    missing: usize,
    pub flags: PublishFlags,
}

impl Incoming {
    /// Begin with the method of the message.
    pub fn new(publish: &Publish<'_>) -> Self {
        let joined = JoinedParts { bytes: publish.route.to_vec(), route: publish.route.len(), properties: 0 };
        Self { joined, missing: 0, flags: publish.flags }
    }

    /// Add the content header. Returns whether the message is complete, because it has no body.
    ///
    /// # Errors
    /// A header that cannot be decoded, or (406, which closes only the channel) a body that is larger than `body_max`.
    pub fn header(&mut self, frame: &Frame<'_>, body_max: usize) -> Result<bool, AmqpError> {
        let header = ContentHeader::decode(frame.payload).map_err(|error| error.at(BasicPublish::ID))?;
        self.missing = usize::try_from(header.body_size).unwrap_or(usize::MAX);
        check_size(self.missing, body_max)?;
        let properties = header.properties.as_bytes();
        self.joined.properties = properties.len();
        self.joined.bytes.reserve_exact(properties.len() + self.missing.min(ROOM_AT_ONCE));
        self.joined.bytes.extend_from_slice(properties);
        Ok(self.missing == 0)
    }

    /// Add a body frame, or a piece of one. Returns whether the message is complete.
    ///
    /// # Errors
    /// 501: more bytes than the header announced.
    pub fn body(&mut self, payload: &[u8]) -> Result<bool, AmqpError> {
        let Some(missing) = self.missing.checked_sub(payload.len()) else {
            let reason = format!("content overflow: {} bytes were left to come", self.missing);
            return Err(AmqpError::new(ReplyCode::FrameError, &reason, MethodId::NONE));
        };
        self.make_room(payload.len());
        self.missing = missing;
        self.joined.bytes.extend_from_slice(payload);
        Ok(missing == 0)
    }

    /// The number of bytes of the body that are still to come.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// The size of the whole message, when its header is there.
    pub fn size(&self) -> usize {
        self.joined.bytes.len() + self.missing
    }

    /// Go on in another buffer, which has room for the whole message.
    pub fn move_into(&mut self, mut room: Vec<u8>) {
        room.extend_from_slice(&self.joined.bytes);
        self.joined.bytes = room;
    }

    /// Make room for `count` bytes. When the first room is full, the body is large, and gets room for all that is missing:
    /// to grow by pieces would copy it again and again. Room that is not written to takes no memory.
    fn make_room(&mut self, count: usize) {
        let bytes = &mut self.joined.bytes;
        if bytes.capacity() - bytes.len() < count {
            bytes.reserve_exact(self.missing.max(count));
        }
    }
}

/// A body frame of which a part has come, which is with its message already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutBody {
    pub channel: u16,
    /// The number of bytes of its payload that are still to come. The end octet follows them.
    pub missing: usize,
}

/// Refuse a body that is too large, as soon as it is announced.
#[inline]
pub(crate) fn check_size(size: usize, body_max: usize) -> Result<(), AmqpError> {
    if size <= body_max {
        return Ok(());
    }
    let reason = format!("message size {size} is larger than configured max size {body_max}");
    Err(AmqpError::new(ReplyCode::PreconditionFailed, &reason, BasicPublish::ID))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::properties::put_content;

    fn published(body: &[u8], frame_max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let publish = BasicPublish { exchange: "logs", routing_key: "a.b", mandatory: true, ..Default::default() };
        publish.encode(3, &mut bytes);
        put_content(&mut bytes, 3, &[0x10, 0, 2], body, frame_max);
        bytes
    }

    fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Ok(Some((frame, used))) = next_frame(&bytes[at..], 1 << 20) {
            frames.push(frame);
            at += used;
        }
        frames
    }

    #[test]
    fn a_message_is_the_same_whole_or_in_pieces() {
        for (body, frame_max) in [(&b""[..], 4096), (b"hello", 4096), (&[7; 10_000], 4096)] {
            let bytes = published(body, frame_max);
            let frames = frames(&bytes);
            let publish = Publish::decode(frames[0].payload).expect("a publish");
            assert!(is_publish(frames[0].payload) && publish.flags.mandatory() && !publish.flags.immediate());
            let mut incoming = Incoming::new(&publish);
            let mut is_complete = incoming.header(&frames[1], 1 << 20).expect("a header");
            for frame in &frames[2..] {
                assert!(!is_complete);
                is_complete = incoming.body(frame.payload).expect("a body");
            }
            assert!(is_complete);
            assert_eq!(incoming.joined.bytes.capacity(), incoming.joined.bytes.len(), "room for nothing else");
            let parts = incoming.joined.parts();
            assert_eq!((parts.exchange(), parts.routing_key(), parts.body), (&b"logs"[..], &b"a.b"[..], body));
            let remaining = &bytes[8 + frames[0].payload.len()..];
            match whole_content(remaining, 3, 1 << 20) {
                Some(whole) => {
                    assert_eq!((whole.properties, whole.body, whole.used), (parts.properties, body, remaining.len()));
                }
                None => assert!(frames.len() > 3),
            }
            assert!(whole_content(remaining, 4, 1 << 20).is_none(), "another channel's");
            assert!(whole_content(&remaining[..remaining.len() - 1], 3, 1 << 20).is_none(), "not all there");
        }
    }

    #[test]
    fn a_body_is_as_long_as_announced_and_no_longer_than_allowed() {
        let bytes = published(&[7; 5_000], 4096);
        let frames = frames(&bytes);
        let publish = Publish::decode(frames[0].payload).expect("a publish");
        let refused = Incoming::new(&publish).header(&frames[1], 4_999).expect_err("too large");
        assert_eq!(refused.code, ReplyCode::PreconditionFailed);
        let mut incoming = Incoming::new(&publish);
        assert_eq!(incoming.header(&frames[1], 5_000), Ok(false));
        assert_eq!(incoming.body(frames[2].payload), Ok(false));
        let overflow = incoming.body(frames[2].payload).expect_err("more than announced");
        assert_eq!(overflow.text, "FRAME_ERROR - content overflow: 912 bytes were left to come");
    }

    #[test]
    fn a_publish_that_does_not_fit_its_frame_is_refused() {
        for payload in [&[0, 60, 0, 40, 0, 0][..], &[0, 60, 0, 40, 0, 0, 9, 1, 0], &[0, 60, 0, 40, 0, 0, 0, 0]] {
            assert!(Publish::decode(payload).is_err());
        }
        assert!(Publish::decode(&[0, 60, 0, 40, 0, 0, 0, 0, 0]).is_ok());
    }
}
