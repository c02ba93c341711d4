//! Decodes the elementary types from a slice and appends them to a buffer.

use super::error::DecodeError;
use super::short_string::put_short;

const TRUNCATED: DecodeError = DecodeError::syntax("the fields end too early");

/// A cursor over the bytes of one frame's payload. Every access is checked; none allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireDecoder<'a> {
    remaining: &'a [u8],
    /// The bits of the octet being decoded, the next one lowest; consecutive bits share octets.
    bits: u8,
    bit_count: u8,
}

macro_rules! numbers {
    ($($name:ident: $type:ty),*) => {
        $(#[inline]
        pub(crate) fn $name(&mut self) -> Result<$type, DecodeError> {
            let (bytes, remaining) = self.remaining.split_first_chunk().ok_or(TRUNCATED)?;
            self.remaining = remaining;
            self.bit_count = 0;
            Ok(<$type>::from_be_bytes(*bytes))
        })*
    };
}

impl<'a> WireDecoder<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { remaining: bytes, bits: 0, bit_count: 0 }
    }

    numbers!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f32: f32, f64: f64);

    /// The next of several consecutive bits.
    #[inline]
    pub(crate) fn bit(&mut self) -> Result<bool, DecodeError> {
        if self.bit_count == 0 {
            self.bits = self.u8()?;
            self.bit_count = 8;
        }
        let bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.bit_count -= 1;
        Ok(bit)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, remaining) = self.remaining.split_at_checked(count).ok_or(TRUNCATED)?;
        self.remaining = remaining;
        self.bit_count = 0;
        Ok(bytes)
    }

    /// A length octet, and that many bytes.
    #[inline]
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u8()?;
        self.bytes(usize::from(count))
    }

    /// A short string: names, keys, texts. Bytes that are not UTF-8 are refused, so that all later code may use text.
    #[inline]
    pub(crate) fn short(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.short_bytes()?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::syntax("a short string is not valid UTF-8"))
    }

    /// A length of 32 bits, and that many bytes.
    #[inline]
    pub(crate) fn long_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()?;
        // A 32-bit length always fits where Rust's std runs with 32-bit pointers or more.
        self.bytes(count as usize)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    #[inline]
    pub(crate) fn remaining(&self) -> &'a [u8] {
        self.remaining
    }

    /// Checks that nothing follows the last field.
    #[inline]
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining.is_empty() { Ok(()) } else { Err(DecodeError::syntax("bytes follow the last field")) }
    }
}

/// Appends fields to a buffer, packing consecutive bits into octets.
#[derive(Debug)]
pub(crate) struct WireEncoder<'o> {
    out: &'o mut Vec<u8>,
    /// The bit for the next flag in the last octet; 0 when the last field was not a bit.
    next_bit: u8,
}

impl<'o> WireEncoder<'o> {
    #[inline]
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, next_bit: 0 }
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.next_bit = 0;
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn bit(&mut self, bit: bool) {
        if self.next_bit == 0 {
            self.out.push(0);
            self.next_bit = 1;
        }
        if bit && let Some(octet) = self.out.last_mut() {
            *octet |= self.next_bit;
        }
        self.next_bit <<= 1; // after the eighth bit it is 0: the next flag opens another octet
    }

    #[inline]
    pub(crate) fn short(&mut self, text: &str) {
        self.next_bit = 0;
        put_short(self.out, text);
    }

    /// Appends a length of 32 bits and the bytes. Bytes over 4 GiB, which no frame can hold, are cut.
    #[inline]
    pub(crate) fn long_bytes(&mut self, bytes: &[u8]) {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.bytes(&count.to_be_bytes());
        self.out.extend_from_slice(&bytes[..count as usize]);
    }
}
