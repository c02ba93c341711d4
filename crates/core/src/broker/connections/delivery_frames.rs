//! The frames of deliveries, gets and returns, made of pieces that are encoded already.

use crate::amqp::properties::put_content;

use crate::broker::parts::Parts;

/// The start of basic.deliver: class 60, method 60.
pub(crate) const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// The start of basic.get-ok: class 60, method 71.
pub(crate) const GET_OK: [u8; 4] = [0, 60, 0, 71];

/// Append a method frame. Inlined, so that pieces of a known size are a move or two.
#[inline]
pub(crate) fn put_method(out: &mut Vec<u8>, channel: u16, pieces: [&[u8]; 4]) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    let [c1, c0] = channel.to_be_bytes();
    let [s3, s2, s1, s0] = (size as u32).to_be_bytes();
    out.extend_from_slice(&[1, c1, c0, s3, s2, s1, s0]);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.push(0xCE);
}

/// Append a complete delivery, whose body is copied. `tag` is the consumer's, as a short string.
#[inline]
pub(crate) fn put_delivery(
    out: &mut Vec<u8>,
    channel: u16,
    tag: &[u8],
    numbers: &[u8; 9],
    parts: &Parts<'_>,
    frame_max: usize,
) {
    out.reserve(64 + tag.len() + parts.size());
    put_method(out, channel, [&DELIVER, tag, numbers, parts.route]);
    put_content(out, channel, parts.properties, parts.body, frame_max);
}

/// The delivery tag of a delivery, and whether it was delivered before, as they stand in its method.
#[inline]
pub(crate) fn delivery_numbers(delivery_tag: u64, redelivered: bool) -> [u8; 9] {
    let mut numbers = [0; 9];
    numbers[..8].copy_from_slice(&delivery_tag.to_be_bytes());
    numbers[8] = redelivered.into();
    numbers
}

/// The start of basic.return: class 60, method 50.
pub(crate) const RETURN: [u8; 4] = [0, 60, 0, 50];
/// The reply code 312, and its name as a short string.
pub(crate) const NO_ROUTE: &[u8] = b"\x01\x38\x08NO_ROUTE";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::method::{BasicDeliver, BasicReturn};

    const PARTS: Parts<'_> = Parts { route: b"\x04logs\x03a.b", properties: &[0x10, 0, 2], body: b"hello" };

    #[test]
    fn a_delivery_is_what_the_codec_writes() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        put_delivery(&mut out, 7, b"\x03ctg", &delivery_numbers(300, true), &PARTS, 4096);
        let method = BasicDeliver {
            consumer_tag: "ctg",
            delivery_tag: 300,
            redelivered: true,
            exchange: "logs",
            routing_key: "a.b",
        };
        method.encode_with_content(7, PARTS.properties, PARTS.body, 4096, &mut expected);
        assert_eq!(out, expected);
    }

    #[test]
    fn a_return_is_what_the_codec_writes() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        put_method(&mut out, 7, [&RETURN, NO_ROUTE, PARTS.route, &[]]);
        let method = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange: "logs", routing_key: "a.b" };
        method.encode(7, &mut expected);
        assert_eq!(out, expected);
    }
}
