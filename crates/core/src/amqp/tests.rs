//! Tests the whole codec with seeded random input: round trips, any cut of the stream, garbage, bombs.

use std::time::{Duration, Instant};

use super::fields;
use super::frame::{FRAME_OVERHEAD_BYTES, HEARTBEAT, begin_frame, end_frame};
use super::method::{self, BasicDeliver, FieldKind, SPECS};
use super::raw_table::{TABLE_DEPTH_MAX, TABLE_SIZE_BYTES_MAX};
use super::*;
use crate::testing::{Random, fewer, rounds};

const FRAME_SIZE_MAX: usize = 128 * 1024;

const ALPHABET: [char; 8] = ['a', 'Z', '.', '#', 'é', '€', '😀', '\0'];

impl Random {
    fn field_value(&mut self, depth: usize) -> FieldValue {
        let bits = self.bits();
        match self.below(if depth < 4 { 17 } else { 14 }) {
            0 => FieldValue::Bool(bits & 1 == 1),
            1 => FieldValue::I8(bits as i8),
            2 => FieldValue::U8(bits as u8),
            3 => FieldValue::I16(bits as i16),
            4 => FieldValue::U16(bits as u16),
            5 => FieldValue::I32(bits as i32),
            6 => FieldValue::U32(bits as u32),
            7 => FieldValue::I64(bits as i64),
            8 => FieldValue::F32(bits as i32 as f32),
            9 => FieldValue::F64(bits as i64 as f64),
            10 => FieldValue::Decimal { scale: bits as u8, unscaled: (bits >> 8) as i32 },
            11 => FieldValue::Text(self.bytes(20).into()),
            12 => FieldValue::Timestamp(bits),
            13 => [FieldValue::Void, FieldValue::Bytes(self.bytes(20).into())][self.below(2)].clone(),
            14 => FieldValue::Array((0..self.below(4)).map(|_| self.field_value(depth + 1)).collect()),
            _ => FieldValue::Table(self.field_table(depth + 1)),
        }
    }

    fn field_table(&mut self, depth: usize) -> Table {
        (0..self.below(5)).map(|_| (self.text(&ALPHABET, 8), self.field_value(depth))).collect()
    }

    /// Random values for the fields of a method.
    fn method_fields(&mut self, spec: &method::MethodSpec) -> Table {
        let value = |random: &mut Self, kind| match kind {
            FieldKind::Bit => FieldValue::Bool(random.bits() & 1 == 1),
            FieldKind::Octet => FieldValue::U8(random.bits() as u8),
            FieldKind::Short => FieldValue::U16(random.bits() as u16),
            FieldKind::Long => FieldValue::U32(random.bits() as u32),
            FieldKind::LongLong => FieldValue::I64(random.bits() as i64),
            FieldKind::ShortString => random.text(&ALPHABET, 60).as_str().into(),
            FieldKind::LongString => FieldValue::Bytes(random.bytes(300).into()),
            FieldKind::Table => FieldValue::Table(random.field_table(2)),
        };
        spec.fields.iter().map(|&(name, kind)| (name, value(self, kind))).collect()
    }

    fn encoded_properties(&mut self) -> Vec<u8> {
        let texts: Vec<String> = (0..10).map(|_| self.text(&ALPHABET, 20)).collect();
        let headers = self.field_table(2).to_bytes();
        let flags = self.bits();
        let text = |index: usize| (flags >> index & 1 == 1).then(|| texts[index].as_str());
        let mut bytes = Vec::new();
        let fields = PropertyFields {
            content_type: text(0),
            content_encoding: text(1),
            headers: (flags >> 16 & 1 == 1).then(|| RawTable::new(&headers)),
            delivery_mode: (flags >> 17 & 1 == 1).then_some(flags as u8),
            priority: (flags >> 18 & 1 == 1).then_some(flags as u8),
            correlation_id: text(2),
            reply_to: text(3),
            expiration: text(4),
            message_id: text(5),
            timestamp: (flags >> 19 & 1 == 1).then_some(flags),
            message_type: text(6),
            user_id: text(7),
            app_id: text(8),
            cluster_id: text(9),
        };
        fields.encode(&mut bytes);
        assert_eq!(BasicProperties::parse(&bytes).unwrap().fields(), fields);
        bytes
    }

    /// One frame of any kind.
    fn frame(&mut self, out: &mut Vec<u8>) {
        let channel = self.bits() as u16;
        match self.below(4) {
            0 => {
                let spec = &SPECS[self.below(SPECS.len())];
                fields::encode(spec.name, &self.method_fields(spec), channel, out).unwrap();
            }
            1 => {
                let properties = self.encoded_properties();
                ContentHeader { body_size: self.bits(), properties: BasicProperties::parse(&properties).unwrap() }
                    .encode(channel, out);
            }
            2 => {
                let start = begin_frame(out, FrameKind::Body, channel);
                out.extend(self.bytes(100));
                end_frame(out, start);
            }
            _ => out.extend(HEARTBEAT),
        }
    }
}

/// Read whatever stands in `frame` with everything that can; the errors are of no interest, only that they are values.
fn read_all(frame: Frame<'_>) {
    let payload = frame.payload;
    if let Ok(method) = Method::decode(payload) {
        let mut again = Vec::new();
        method.encode(frame.channel, &mut again);
        assert!(!format!("{method:?}").is_empty());
        assert_eq!(Method::decode(next_frame(&again, usize::MAX).unwrap().unwrap().0.payload), Ok(method));
    }
    if let Ok((spec, fields)) = fields::decode(payload) {
        assert_eq!(Method::decode(payload).map(|method| method.name()), Ok(spec.name));
        assert!(fields.iter().len() == spec.fields.len());
    }
    if let Ok(header) = ContentHeader::decode(payload) {
        read_properties(header.properties);
    }
    if let Ok(properties) = BasicProperties::parse(payload) {
        read_properties(properties);
    }
    let _ = BasicProperties::from_checked(payload).fields();
    let raw = RawTable::new(payload);
    assert_eq!(raw.check().err(), raw.parse().err());
    if let Ok(table) = raw.parse() {
        // NaN is unlike itself, and `L` is written as `l`: their texts are alike all the same.
        let bytes = table.to_bytes();
        assert_eq!(format!("{table:?}"), format!("{:?}", RawTable::new(&bytes)));
    }
}

fn read_properties(properties: BasicProperties<'_>) {
    let mut again = Vec::new();
    properties.fields().encode(&mut again);
    assert_eq!(again, properties.as_bytes());
    if let Some(headers) = properties.headers() {
        assert_eq!(headers.check(), Ok(()));
    }
}

#[test]
fn every_method_reads_as_it_was_written_by_both_codecs() {
    let mut random = Random(0x7A31);
    for spec in SPECS {
        for _ in rounds(0..50) {
            let (values, channel) = (random.method_fields(spec), random.bits() as u16);
            let mut bytes = Vec::new();
            fields::encode(spec.name, &values, channel, &mut bytes).unwrap();
            let (frame, consumed) = next_frame(&bytes, FRAME_SIZE_MAX).unwrap().unwrap();
            assert_eq!((frame.kind, frame.channel, consumed), (FrameKind::Method, channel, bytes.len()));
            let (name, read) = fields::decode(frame.payload).map(|(spec, read)| (spec.name, read)).unwrap();
            assert_eq!((name, &read), (spec.name, &values));
            let method = Method::decode(frame.payload).unwrap();
            assert_eq!((method.name(), method.id()), (spec.name, spec.id));
            let mut again = Vec::new();
            method.encode(channel, &mut again);
            assert_eq!(again, bytes, "{method:?}");
        }
    }
}

#[test]
fn names_and_numbers_of_methods_are_unique() {
    for (index, spec) in SPECS.iter().enumerate() {
        assert!(SPECS[..index].iter().all(|other| other.name != spec.name && other.id != spec.id), "{}", spec.name);
    }
}

#[test]
fn every_cut_of_the_stream_gives_the_same_frames() {
    let mut random = Random(0xC07);
    for _ in rounds(0..40) {
        let mut stream = Vec::new();
        (0..8).for_each(|_| random.frame(&mut stream));
        let whole = frames(&stream);
        assert_eq!(whole.len(), 8);
        // Every length of the first part, and then pieces of any size.
        for cut in rounds(0..=stream.len()) {
            let (mut got, mut buffer, mut position) = (Vec::new(), Vec::new(), cut);
            buffer.extend_from_slice(&stream[..cut]);
            loop {
                while let Some((frame, consumed)) = next_frame(&buffer, FRAME_SIZE_MAX).unwrap() {
                    got.push((frame.kind, frame.channel, frame.payload.to_vec()));
                    buffer.drain(..consumed);
                }
                if position == stream.len() {
                    break;
                }
                let next = (position + 1 + random.below(60)).min(stream.len());
                buffer.extend_from_slice(&stream[position..next]);
                position = next;
            }
            assert_eq!(got, whole);
            assert!(buffer.is_empty());
        }
    }
}

fn frames(mut bytes: &[u8]) -> Vec<(FrameKind, u16, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((frame, consumed)) = next_frame(bytes, FRAME_SIZE_MAX).unwrap() {
        frames.push((frame.kind, frame.channel, frame.payload.to_vec()));
        bytes = &bytes[consumed..];
    }
    frames
}

#[test]
fn garbage_and_damage_are_read_or_refused() {
    let mut random = Random(0xBAD);
    for round in rounds(0..30_000) {
        let mut bytes = Vec::new();
        if round % 3 == 0 {
            bytes = random.bytes(60);
        } else {
            random.frame(&mut bytes);
            for _ in 0..=random.below(3) {
                let place = random.below(bytes.len());
                bytes[place] = random.bits() as u8;
            }
        }
        if let Ok(Some((frame, consumed))) = next_frame(&bytes, FRAME_SIZE_MAX) {
            assert_eq!(consumed, frame.payload.len() + FRAME_OVERHEAD_BYTES);
            read_all(frame);
        }
        read_all(Frame { kind: FrameKind::Method, channel: 1, payload: &bytes });
    }
}

#[test]
fn a_truncated_payload_is_refused_at_every_length() {
    let mut random = Random(0x7C);
    for spec in SPECS {
        let mut bytes = Vec::new();
        fields::encode(spec.name, &random.method_fields(spec), 1, &mut bytes).unwrap();
        let payload = next_frame(&bytes, FRAME_SIZE_MAX).unwrap().unwrap().0.payload;
        for cut in rounds(0..payload.len()) {
            assert!(Method::decode(&payload[..cut]).is_err(), "{} cut to {cut} bytes", spec.name);
        }
        assert_eq!(Method::decode(&[payload, b"x"].concat()).unwrap_err().code, ReplyCode::SyntaxError);
    }
    let properties = random.encoded_properties();
    for cut in 0..properties.len() {
        assert!(BasicProperties::parse(&properties[..cut]).is_err());
    }
}

#[test]
fn wrong_frames_are_refused_as_soon_as_they_show() {
    assert_eq!(next_frame(b"GET / HTTP/1.1\r\n", 4096), Err(FrameError::UnknownKind(b'G')));
    let oversize = FrameError::Oversize { size_bytes: 4097, size_bytes_max: 4096 };
    assert_eq!(next_frame(&[1, 0, 0, 0, 0, 15, 0xF9], 4096), Err(oversize));
    assert_eq!(next_frame(&[1, 0, 0, 0, 0, 15, 0xF8], 4096), Ok(None));
    assert!(matches!(next_frame(&[3, 0, 0, 255, 255, 255, 255], usize::MAX), Ok(None)));
    assert_eq!(next_frame(&[1, 0, 0, 0, 0, 0, 1, 7, 0xCD], 4096), Err(FrameError::NoEnd(0xCD)));
    assert_eq!(next_frame(&[8, 0, 1, 0, 0, 0, 0, 0xCE], 4096), Err(FrameError::BadHeartbeat));
    assert_eq!(next_frame(&[8, 0, 0, 0, 0, 0, 1], 4096), Err(FrameError::BadHeartbeat));
    let told = AmqpError::from(oversize);
    assert_eq!((told.code.number(), told.scope), (501, Scope::Connection));
    assert_eq!(told.text, "FRAME_ERROR - a frame of 4097 bytes is over the agreed frame_max of 4096");
}

#[test]
fn a_method_that_does_not_exist_is_not_implemented() {
    let error = Method::decode(&[0, 60, 0, 99]).unwrap_err();
    assert_eq!(error.code, ReplyCode::NotImplemented);
    assert_eq!(MethodId::of_payload(&[0, 60, 0, 99]).to_string(), "60.99");
    assert_eq!(MethodId::of_payload(&[0, 60, 0, 40, 9]).to_string(), "basic.publish");
    assert_eq!(MethodId::of_payload(&[0, 60, 0]), MethodId::NONE);
}

#[test]
fn tables_keep_their_values_and_their_order() {
    let mut random = Random(0x7AB1E);
    for _ in rounds(0..2_000) {
        let table = random.field_table(1);
        let bytes = table.to_bytes();
        let raw = RawTable::new(&bytes);
        assert_eq!(raw.check(), Ok(()));
        assert_eq!(raw.parse().as_ref(), Ok(&table));
        let names: Vec<&str> = raw.iter().map(|field| field.unwrap().0).collect();
        assert_eq!(names, table.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for name in names {
            assert_eq!(raw.get(name).is_some(), table.get(name).is_some());
        }
    }
}

#[test]
fn a_table_is_changed_by_name() {
    let mut table = Table::new();
    table.insert("x-message-ttl", 1_000);
    table.insert("x-queue-type", "stream");
    table.insert("x-message-ttl", 2_000_i64);
    assert_eq!(table.len(), 2);
    assert_eq!(table.get("x-message-ttl").and_then(FieldValue::as_i64), Some(2_000));
    assert_eq!(table.remove("x-message-ttl"), Some(FieldValue::I64(2_000)));
    assert_eq!(table.get("x-queue-type").and_then(FieldValue::as_str), Some("stream"));
    assert_eq!(table.remove("x-message-ttl"), None);
}

#[test]
fn both_letters_of_64_bits_are_signed() {
    let bytes = b"\x01al\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01bL\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE";
    let table = RawTable::new(bytes).parse().unwrap();
    assert_eq!(table.get("a"), Some(&FieldValue::I64(-1)));
    assert_eq!(table.get("b"), Some(&FieldValue::I64(-2)));
}

/// Run `refuse` and see that it answers at once: what a bomb costs must not depend on what it claims. A table over the
/// bounds is the channel's mistake (406), one that is cut short the connection's (502).
fn refused_quickly<T: std::fmt::Debug>(refuse: impl Fn() -> Result<T, DecodeError>) {
    let start = Instant::now();
    let code = refuse().unwrap_err().code;
    assert!(matches!(code, ReplyCode::SyntaxError | ReplyCode::PreconditionFailed), "{code:?}");
    assert!(cfg!(miri) || start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
}

/// Tables (or arrays) nested `depth` deep, made from the inside out.
fn nested(depth: usize, kind: u8) -> Vec<u8> {
    let field_bytes = if kind == b'F' { 6 } else { 5 };
    let mut bytes = Vec::new();
    for level in (0..depth - 1).rev() {
        if kind == b'F' || level == depth - 2 {
            bytes.push(0); // an empty name; only the outermost array has one
        }
        bytes.push(kind);
        bytes.extend(((level * field_bytes) as u32).to_be_bytes());
    }
    bytes
}

#[test]
fn tables_nest_32_levels_and_no_deeper() {
    for kind in [b'F', b'A'] {
        for depth in [2, TABLE_DEPTH_MAX] {
            let bytes = nested(depth, kind);
            assert_eq!(RawTable::new(&bytes).check(), Ok(()), "{depth} levels of {}", kind as char);
            assert!(RawTable::new(&bytes).parse().is_ok());
        }
        for depth in [TABLE_DEPTH_MAX + 1, TABLE_DEPTH_MAX + fewer(10_000)] {
            let bytes = nested(depth, kind);
            refused_quickly(|| RawTable::new(&bytes).check());
            refused_quickly(|| RawTable::new(&bytes).parse());
        }
    }
    let mut deep = Table::new();
    for _ in 0..TABLE_DEPTH_MAX {
        deep = Table::from_iter([("t", deep)]);
    }
    let arguments = Table::from_iter([("queue", FieldValue::from("q")), ("arguments", FieldValue::Table(deep))]);
    let mut out = vec![7];
    assert!(fields::encode("queue.declare", &arguments, 1, &mut out).is_err());
    assert_eq!(out, [7], "nothing of a frame that was refused stays");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn large_tables_are_refused_before_they_are_read() {
    let million = b"\x01aV".repeat(1_000_000);
    refused_quickly(|| RawTable::new(&million).check());
    refused_quickly(|| RawTable::new(&million).parse());
    let fits = b"\x00V".repeat(TABLE_SIZE_BYTES_MAX / 2);
    assert_eq!(RawTable::new(&fits).parse().unwrap().len(), TABLE_SIZE_BYTES_MAX / 2);
    for kind in *b"SxAF" {
        let bomb = [&[1, b'a', kind][..], &u32::MAX.to_be_bytes(), b"little"].concat();
        refused_quickly(|| RawTable::new(&bomb).check());
        refused_quickly(|| RawTable::new(&bomb).parse());
        refused_quickly(|| RawTable::new(&[b"\x01bA\0\0\0\x05", &bomb[2..7]].concat()).parse());
    }
    let header = [&[0, 60, 0, 0][..], &[255; 8], &[0x20, 0], &u32::MAX.to_be_bytes()].concat();
    refused_quickly(|| ContentHeader::decode(&header).map(|header| header.body_size));
    let declare = [&[0, 50, 0, 10, 0, 0, 1, b'q', 0][..], &u32::MAX.to_be_bytes()].concat();
    refused_quickly(|| Method::decode(&declare).map(|method| method.name()));
}

#[test]
fn properties_are_refused_when_flags_or_values_are_wrong() {
    for (bytes, why) in [
        (&[][..], "no flags"),
        (&[0, 1], "another word of flags"),
        (&[0, 2], "a property that does not exist"),
        (&[0x80, 0], "a value that is not there"),
        (&[0, 0, 1], "a value that no flag announces"),
        (&[0x80, 0, 1, 0xFF], "text that is no UTF-8"),
        (&[0x20, 0, 0, 0, 0, 3, 1, b'a', b'?'], "headers of unknown type"),
    ] {
        assert_eq!(BasicProperties::parse(bytes).map_err(|error| error.code), Err(ReplyCode::SyntaxError), "{why}");
    }
    let other_class = ContentHeader::decode(&[0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(other_class.unwrap_err().code, ReplyCode::UnexpectedFrame);
}

#[test]
fn a_header_is_added_to_properties_or_replaced() {
    let mut random = Random(0x4EAD);
    for _ in rounds(0..500) {
        let bytes = random.encoded_properties();
        let properties = BasicProperties::parse(&bytes).unwrap();
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        properties.encode_with_header("x-stream-offset", &FieldValue::I64(7), &mut once);
        BasicProperties::parse(&once).unwrap().encode_with_header("x-stream-offset", &FieldValue::I64(8), &mut twice);
        let changed = BasicProperties::parse(&twice).unwrap();
        let mut expected = properties.headers().map_or(Table::new(), |headers| headers.parse().unwrap());
        expected.push("x-stream-offset", 8_i64);
        assert_eq!(changed.headers().unwrap().parse(), Ok(expected));
        assert_eq!(PropertyFields { headers: properties.headers(), ..changed.fields() }, properties.fields());
    }
}

#[test]
fn a_delivery_is_split_into_frames_of_the_agreed_size() {
    let properties = Random(5).encoded_properties();
    let deliver = BasicDeliver { consumer_tag: "c", delivery_tag: 1, exchange: "e", ..Default::default() };
    for (body_bytes, body_frames) in [(0, 0), (1, 1), (4088, 1), (4089, 2), (10_000, 3)] {
        let body = &(0..=255).collect::<Vec<u8>>().repeat(40)[..body_bytes];
        let mut out = Vec::new();
        deliver.encode_with_content(3, &properties, body, 4096, &mut out);
        let frames = frames(&out);
        assert_eq!(frames.len(), 2 + body_frames);
        assert!(frames.iter().all(|(_, channel, payload)| *channel == 3 && payload.len() <= 4088));
        assert_eq!(Method::decode(&frames[0].2), Ok(Method::BasicDeliver(deliver)));
        let header = ContentHeader::decode(&frames[1].2).unwrap();
        assert_eq!((header.body_size, header.properties.as_bytes()), (body_bytes as u64, &properties[..]));
        assert_eq!(frames[2..].iter().map(|(_, _, payload)| &payload[..]).collect::<Vec<_>>().concat(), body);
    }
}

#[test]
fn texts_that_are_too_long_are_cut_between_characters_or_refused_by_name() {
    let long = "€".repeat(100);
    let mut out = Vec::new();
    method::BasicCancel { consumer_tag: &long, no_wait: true }.encode(1, &mut out);
    let payload = next_frame(&out, FRAME_SIZE_MAX).unwrap().unwrap().0.payload;
    assert_eq!(
        Method::decode(payload),
        Ok(Method::BasicCancel(method::BasicCancel { consumer_tag: &long[..255], no_wait: true }))
    );
    let refused = fields::encode("basic.cancel", &Table::from_iter([("consumer_tag", long.as_str())]), 1, &mut out);
    assert_eq!(refused.unwrap_err().to_string(), "basic.cancel: 'consumer_tag' must be text of at most 255 bytes");
    let arguments = Table::from_iter([("arguments", Table::from_iter([(long.as_str(), true)]))]);
    let refused = fields::encode("queue.declare", &arguments, 1, &mut out).unwrap_err().to_string();
    assert_eq!(refused, "queue.declare: 'arguments' must be a table with names of at most 255 bytes");
    let refused = fields::encode("basic.cancel", &Table::from_iter([("tag", "x")]), 1, &mut out);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "basic.cancel has no field 'tag': its fields are consumer_tag, no_wait"
    );
}
