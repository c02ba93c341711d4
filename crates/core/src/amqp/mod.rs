//! AMQP 0-9-1 on the wire: bytes in, values out, and back.
//!
//! There is no socket, clock, thread or state of a connection here.
//!
//! [`frame::next_frame`] cuts the stream into frames; [`method::Method::decode`] decodes a method frame,
//! [`properties::ContentHeader::decode`] a content header, and [`raw_table::RawTable`] the tables in both. Decoded values
//! borrow from their bytes, so that the broker copies a message only once. [`fields`] decodes and encodes the same
//! methods by name, for bindings that know no Rust types.
//!
//! Bounds: a frame holds no more than the caller's `frame_size_max`, a table no more than
//! [`raw_table::TABLE_SIZE_BYTES_MAX`] bytes and [`raw_table::TABLE_DEPTH_MAX`] levels. Larger ones are refused before anything
//! is allocated for them.
//!
//! Source: AMQP 0-9-1 specification, sections 2.3 and 4.2; RabbitMQ's errata for the types of field values and its
//! extensions (`basic.nack`, `confirm`, `exchange.bind`, `connection.blocked`, `connection.update-secret`).

pub mod error;
pub mod fields;
pub mod frame;
pub mod method;
mod method_id;
pub mod properties;
pub mod raw_table;
pub mod reply;
mod short_string;
pub mod table;
mod wire;

pub use error::{AmqpError, DecodeError, ErrorReply};
pub use frame::{Frame, FrameError, FrameKind, next_frame};
pub use method::Method;
pub use method_id::MethodId;
pub use properties::{BasicProperties, ContentHeader, PropertyFields};
pub use raw_table::{RawTable, RawValue};
pub use reply::{ReplyCode, Scope};
pub use table::{FieldValue, Table};

#[cfg(test)]
mod tests;
