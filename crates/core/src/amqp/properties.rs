//! Content headers: the size of a message's body and its properties.
//!
//! [`BasicProperties`] keeps the bytes as they came, checked once and passed on unchanged; only the requested values
//! are decoded.
//!
//! Source: AMQP 0-9-1 specification, section 4.2.6.1 and class basic.

use std::fmt;

use super::error::DecodeError;
use super::frame::{FRAME_END, FrameKind, put_body};
use super::raw_table::RawTable;
use super::reply::ReplyCode;
use super::short_string::put_short;
use super::table::FieldValue;
use super::wire::{WireDecoder, WireEncoder};

/// The class of all content: basic.
const CLASS_BASIC: u16 = 60;

/// The number of bytes of a content header before its properties: class, weight, body size.
const HEADER_FIXED_BYTES: usize = 12;

/// Room for the headers that the broker adds to a delivery, so that they are written without growing: those of a stream
/// take 48 bytes.
const ADDED_HEADERS_BYTES: usize = 64;

/// The payload of a content header frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// The number of bytes of body that follow, in any number of frames. The peer claims it: allocate as they arrive.
    pub body_size: u64,
    /// The message's properties.
    pub properties: BasicProperties<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Decodes the payload of a header frame, and checks all its properties.
    ///
    /// # Errors
    /// 505 for content of another class than basic; 502 for properties that cannot be decoded.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut decoder = WireDecoder::new(payload);
        let class_id = decoder.u16()?;
        if class_id != CLASS_BASIC {
            return Err(DecodeError {
                code: ReplyCode::UnexpectedFrame,
                reason: "a content header of another class than basic",
            });
        }
        if decoder.u16()? != 0 {
            return Err(DecodeError::syntax("a content header with a weight"));
        }
        let body_size = decoder.u64()?;
        Ok(Self { body_size, properties: BasicProperties::parse(decoder.remaining())? })
    }

    /// Appends the whole header frame.
    #[inline]
    pub fn encode(&self, channel: u16, out: &mut Vec<u8>) {
        put_header(out, channel, self.properties.0, self.body_size);
    }
}

/// Appends a header frame and the body's frames. Empty `properties` mean that none is set.
#[inline]
pub fn put_content(out: &mut Vec<u8>, channel: u16, properties: &[u8], body: &[u8], frame_size_max: usize) {
    put_header(out, channel, properties, body.len() as u64);
    put_body(out, channel, body, frame_size_max);
}

/// Appends a header frame. Empty `properties` mean that none is set.
#[inline]
pub fn put_header(out: &mut Vec<u8>, channel: u16, properties: &[u8], body_size: u64) {
    let properties = if properties.is_empty() { &NO_PROPERTIES } else { properties };
    let [c1, c0] = channel.to_be_bytes();
    // Properties came in a frame or were made for one, so they are far below 4 GiB.
    let [s3, s2, s1, s0] = ((HEADER_FIXED_BYTES + properties.len()) as u32).to_be_bytes();
    let [b7, b6, b5, b4, b3, b2, b1, b0] = body_size.to_be_bytes();
    const CLASS: u8 = CLASS_BASIC as u8;
    out.extend_from_slice(&[
        FrameKind::Header as u8,
        c1,
        c0,
        s3,
        s2,
        s1,
        s0,
        0,
        CLASS,
        0,
        0,
        b7,
        b6,
        b5,
        b4,
        b3,
        b2,
        b1,
        b0,
    ]);
    out.extend_from_slice(properties);
    out.push(FRAME_END);
}

const NO_PROPERTIES: [u8; 2] = [0, 0];

/// The flags of the properties. They also define their order: the highest comes first.
mod flag {
    pub(super) const CONTENT_TYPE: u16 = 1 << 15;
    pub(super) const CONTENT_ENCODING: u16 = 1 << 14;
    pub(super) const HEADERS: u16 = 1 << 13;
    pub(super) const DELIVERY_MODE: u16 = 1 << 12;
    pub(super) const PRIORITY: u16 = 1 << 11;
    pub(super) const CORRELATION_ID: u16 = 1 << 10;
    pub(super) const REPLY_TO: u16 = 1 << 9;
    pub(super) const EXPIRATION: u16 = 1 << 8;
    pub(super) const MESSAGE_ID: u16 = 1 << 7;
    pub(super) const TIMESTAMP: u16 = 1 << 6;
    pub(super) const TYPE: u16 = 1 << 5;
    pub(super) const USER_ID: u16 = 1 << 4;
    pub(super) const APP_ID: u16 = 1 << 3;
    pub(super) const CLUSTER_ID: u16 = 1 << 2;
    /// Another word of flags follows (bit 0), or no property at all (bit 1).
    pub(super) const UNKNOWN: u16 = 0b11;
}

/// A message's properties as they came: two bytes of flags, then the values of those that are set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BasicProperties<'a>(&'a [u8]);

impl Default for BasicProperties<'_> {
    fn default() -> Self {
        Self(&NO_PROPERTIES)
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $flag:ident $read:ident;)*) => {
        $($(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name(&self) -> Option<$type> {
            self.seek(flag::$flag)?.$read().ok()
        })*
    };
}

/// Walks over the properties at the start of `bytes`, to the byte behind them.
#[inline]
fn check(bytes: &[u8]) -> Result<WireDecoder<'_>, DecodeError> {
    let mut decoder = WireDecoder::new(bytes);
    let flags = decoder.u16()?;
    if flags & flag::UNKNOWN != 0 {
        return Err(DecodeError::syntax("a content header sets unknown property flags"));
    }
    let mut left = flags;
    while left != 0 {
        let highest = 1 << (15 - left.leading_zeros());
        left ^= highest;
        match highest {
            flag::HEADERS => RawTable::new(decoder.long_bytes()?).check()?,
            flag::DELIVERY_MODE | flag::PRIORITY => drop(decoder.u8()?),
            flag::TIMESTAMP => drop(decoder.u64()?),
            _ => drop(decoder.short()?),
        }
    }
    Ok(decoder)
}

impl<'a> BasicProperties<'a> {
    /// Checks the properties in `bytes`, so that every getter can decode the values that are set.
    ///
    /// # Errors
    /// Unknown flags, missing or surplus bytes, text that is not UTF-8, or headers that are no table or too large.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        check(bytes)?.finish()?;
        Ok(Self(bytes))
    }

    /// Checks the properties at the start of `bytes`, which define their own end, and returns them with the bytes
    /// behind them.
    ///
    /// # Errors
    /// The errors of [`BasicProperties::parse`], except surplus bytes.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let remaining = check(bytes)?.remaining();
        Ok((Self(&bytes[..bytes.len() - remaining.len()]), remaining))
    }

    /// Properties that were checked before and then stored. Where they are damaged, getters return None.
    #[inline]
    #[must_use]
    pub const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes, flags first, which [`put_content`] and [`BasicProperties::from_checked`] accept.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The position of the value of `flag`, or None when it is not set.
    #[inline]
    fn seek(&self, flag: u16) -> Option<WireDecoder<'a>> {
        let mut decoder = WireDecoder::new(self.0);
        let flags = decoder.u16().ok()?;
        if flags & flag == 0 {
            return None;
        }
        // The values with a higher flag stand before it.
        let mut before = flags & !(flag | (flag - 1));
        while before != 0 {
            let highest = 1 << (15 - before.leading_zeros());
            before ^= highest;
            match highest {
                flag::HEADERS => drop(decoder.long_bytes().ok()?),
                flag::DELIVERY_MODE | flag::PRIORITY => drop(decoder.u8().ok()?),
                flag::TIMESTAMP => drop(decoder.u64().ok()?),
                _ => drop(decoder.short_bytes().ok()?),
            }
        }
        Some(decoder)
    }

    getters! {
        /// The body's media type.
        content_type: &'a str = CONTENT_TYPE short;
        /// The body's encoding: `gzip`.
        content_encoding: &'a str = CONTENT_ENCODING short;
        /// 1 transient, 2 persistent.
        delivery_mode: u8 = DELIVERY_MODE u8;
        /// Priority, as given.
        priority: u8 = PRIORITY u8;
        /// The identity of the request that this message answers.
        correlation_id: &'a str = CORRELATION_ID short;
        /// The queue for replies.
        reply_to: &'a str = REPLY_TO short;
        /// The time to live in milliseconds, as decimal text.
        expiration: &'a str = EXPIRATION short;
        /// The application's identity of the message.
        message_id: &'a str = MESSAGE_ID short;
        /// The time in seconds since 1970-01-01 UTC.
        timestamp: u64 = TIMESTAMP u64;
        /// The application's type of the message (`type` on the wire).
        message_type: &'a str = TYPE short;
        /// The user who published it.
        user_id: &'a str = USER_ID short;
        /// The application that published it.
        app_id: &'a str = APP_ID short;
        /// Unused since AMQP 0-9-1, but passed on.
        cluster_id: &'a str = CLUSTER_ID short;
    }

    /// The message's headers.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> Option<RawTable<'a>> {
        self.seek(flag::HEADERS)?.long_bytes().ok().map(RawTable::new)
    }

    /// Whether the message survives a restart of the broker in a durable queue.
    #[inline]
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.delivery_mode() == Some(2)
    }

    /// All values at once, to change some and encode them again.
    #[must_use]
    pub fn fields(&self) -> PropertyFields<'a> {
        PropertyFields {
            content_type: self.content_type(),
            content_encoding: self.content_encoding(),
            headers: self.headers(),
            delivery_mode: self.delivery_mode(),
            priority: self.priority(),
            correlation_id: self.correlation_id(),
            reply_to: self.reply_to(),
            expiration: self.expiration(),
            message_id: self.message_id(),
            timestamp: self.timestamp(),
            message_type: self.message_type(),
            user_id: self.user_id(),
            app_id: self.app_id(),
            cluster_id: self.cluster_id(),
        }
    }

    /// Appends these properties with one more header, `name`, such as `x-stream-offset` in each delivery of a stream.
    /// An existing header of that name is replaced.
    pub fn encode_with_header(&self, name: &str, value: &FieldValue, out: &mut Vec<u8>) {
        self.encode_with_headers(&[(name, Some(value))], out);
    }

    /// Appends these properties with other headers of these names: each replaces all that there are; None leaves them out.
    pub fn encode_with_headers(&self, changes: &[(&str, Option<&FieldValue>)], out: &mut Vec<u8>) {
        let mut headers = Vec::with_capacity(self.as_bytes().len() + ADDED_HEADERS_BYTES);
        for (key, raw) in self.headers().iter().flat_map(RawTable::fields_as_bytes) {
            if changes.iter().all(|(name, _)| *name != key) {
                headers.extend_from_slice(raw);
            }
        }
        for (name, value) in changes {
            if let Some(value) = value {
                put_short(&mut headers, name);
                value.encode(&mut headers);
            }
        }
        PropertyFields { headers: Some(RawTable::new(&headers)), ..self.fields() }.encode(out);
    }
}

impl fmt::Debug for BasicProperties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(f)
    }
}

/// The values of properties, ready to be encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as the getters of `BasicProperties`
pub struct PropertyFields<'a> {
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub headers: Option<RawTable<'a>>,
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<&'a str>,
    pub reply_to: Option<&'a str>,
    pub expiration: Option<&'a str>,
    pub message_id: Option<&'a str>,
    pub timestamp: Option<u64>,
    pub message_type: Option<&'a str>,
    pub user_id: Option<&'a str>,
    pub app_id: Option<&'a str>,
    pub cluster_id: Option<&'a str>,
}

impl PropertyFields<'_> {
    /// Appends the bytes of [`BasicProperties`]. Texts are cut to 255 bytes, between characters.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&NO_PROPERTIES);
        let mut flags = 0;
        let mut writer = WireEncoder::new(out);
        let mut text = |writer: &mut WireEncoder<'_>, flag: u16, value: Option<&str>| {
            if let Some(value) = value {
                flags |= flag;
                writer.short(value);
            }
        };
        text(&mut writer, flag::CONTENT_TYPE, self.content_type);
        text(&mut writer, flag::CONTENT_ENCODING, self.content_encoding);
        if let Some(headers) = self.headers {
            writer.long_bytes(headers.as_bytes());
        }
        if let Some(mode) = self.delivery_mode {
            writer.bytes(&[mode]);
        }
        if let Some(priority) = self.priority {
            writer.bytes(&[priority]);
        }
        text(&mut writer, flag::CORRELATION_ID, self.correlation_id);
        text(&mut writer, flag::REPLY_TO, self.reply_to);
        text(&mut writer, flag::EXPIRATION, self.expiration);
        text(&mut writer, flag::MESSAGE_ID, self.message_id);
        if let Some(timestamp) = self.timestamp {
            writer.bytes(&timestamp.to_be_bytes());
        }
        text(&mut writer, flag::TYPE, self.message_type);
        text(&mut writer, flag::USER_ID, self.user_id);
        text(&mut writer, flag::APP_ID, self.app_id);
        text(&mut writer, flag::CLUSTER_ID, self.cluster_id);
        for (flag, is_set) in [
            (flag::HEADERS, self.headers.is_some()),
            (flag::DELIVERY_MODE, self.delivery_mode.is_some()),
            (flag::PRIORITY, self.priority.is_some()),
            (flag::TIMESTAMP, self.timestamp.is_some()),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        out[start..start + 2].copy_from_slice(&flags.to_be_bytes());
    }
}
