//! Any bytes are AMQP frames or refused, and decoded values encode to bytes that decode to the same values.
//!
//! The input is read as a stream of frames and, so that no header has to be guessed, as the payload of every kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::amqp::{
    ContentHeader, FieldValue, Frame, FrameKind, Method, BasicProperties, RawTable, fields, next_frame,
};

const FRAME_SIZE_MAX: usize = 128 * 1024;

fn method(frame: Frame<'_>) {
    let by_name = fields::decode(frame.payload);
    let Ok(method) = Method::decode(frame.payload) else {
        assert!(by_name.is_err(), "only one of the two codecs reads it");
        return;
    };
    let mut again = Vec::new();
    method.encode(frame.channel, &mut again);
    let (read, _) = next_frame(&again, usize::MAX).expect("we write frames").expect("and whole ones");
    assert_eq!(Method::decode(read.payload), Ok(method));
    if let Ok((spec, values)) = by_name {
        assert_eq!(spec.name, method.name());
        let mut by_name = Vec::new();
        fields::encode(spec.name, &values, frame.channel, &mut by_name).expect("what was read can be written");
    }
}

fn properties(bytes: &[u8]) {
    let _ = BasicProperties::from_checked(bytes).fields();
    let Ok(properties) = BasicProperties::parse(bytes) else { return };
    let mut again = Vec::new();
    properties.fields().encode(&mut again);
    assert_eq!(again, bytes);
    again.clear();
    properties.encode_with_header("x-stream-offset", &FieldValue::I64(1), &mut again);
    let number = BasicProperties::from_checked(&again).headers().and_then(|headers| headers.get("x-stream-offset"));
    assert_eq!(number.and_then(|value| value.as_i64()), Some(1));
}

fn table(bytes: &[u8]) {
    let raw = RawTable::new(bytes);
    let parsed = raw.parse();
    assert_eq!(raw.check().err(), parsed.as_ref().err().copied());
    if let Ok(table) = parsed {
        // NaN is unlike itself, hence the texts.
        assert_eq!(format!("{table:?}"), format!("{:?}", RawTable::new(&table.to_bytes())));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((frame, consumed))) = next_frame(rest, FRAME_SIZE_MAX) {
        match frame.kind {
            FrameKind::Method => method(frame),
            FrameKind::Header => {
                if let Ok(header) = ContentHeader::decode(frame.payload) {
                    properties(header.properties.as_bytes());
                }
            }
            FrameKind::Body | FrameKind::Heartbeat => {}
        }
        rest = &rest[consumed..];
    }
    method(Frame { kind: FrameKind::Method, channel: 1, payload: bytes });
    properties(bytes);
    table(bytes);
});
