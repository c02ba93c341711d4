//! Methods: one struct each, decoded from the payload of a method frame and encoded as one.
//!
//! The table at the end names every method and field once; from it come the structs, [`Method`], both directions of the
//! codec and [`SPECS`], which [`super::fields`] reads. Strings and tables are borrowed from the payload. Fields that the
//! specification reserves keep their old names (`ticket`, `capabilities` ...) and are written as given: `..Default::default()`.
//!
//! Source: AMQP 0-9-1 specification, section 1 (classes), with RabbitMQ's extensions.

use std::fmt;

use super::error::DecodeError;
use super::frame::{FrameKind, begin_frame, end_frame};
use super::method_id::MethodId;
use super::reply::ReplyCode;
use super::table::RawTable;
use super::wire::{WireDecoder, WireEncoder};

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match spec_of(*self) {
            Some(spec) => f.write_str(spec.name),
            None => write!(f, "{}.{}", self.class_id, self.method_id),
        }
    }
}

/// The type of a method's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One bit; bits that follow each other share octets.
    Bit,
    /// 8 bits.
    Octet,
    /// 16 bits.
    Short,
    /// 32 bits.
    Long,
    /// 64 bits.
    LongLong,
    /// Text of at most 255 bytes.
    ShortString,
    /// Bytes with a 32-bit length.
    LongString,
    /// A field table.
    Table,
}

/// What there is to know about a method without its values.
#[derive(Clone, Copy, Debug)]
pub struct MethodSpec {
    /// Its name: `queue.declare`.
    pub name: &'static str,
    /// Its numbers.
    pub id: MethodId,
    /// Its fields, in their order on the wire.
    pub fields: &'static [(&'static str, FieldKind)],
}

/// The method of these numbers, if there is one.
#[must_use]
pub fn spec_of(id: MethodId) -> Option<&'static MethodSpec> {
    SPECS.iter().find(|spec| spec.id == id)
}

/// The method of that name, if there is one.
#[must_use]
pub fn spec_named(name: &str) -> Option<&'static MethodSpec> {
    SPECS.iter().find(|spec| spec.name == name)
}

/// A type of fields: how it is read and written.
trait MethodField<'a>: Sized {
    const KIND: FieldKind;
    fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError>;
    fn write(&self, writer: &mut WireEncoder<'_>);
}

macro_rules! number_fields {
    ($($type:ty, $kind:ident, $read:ident;)*) => {
        $(impl<'a> MethodField<'a> for $type {
            const KIND: FieldKind = FieldKind::$kind;
            #[inline]
            fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
                reader.$read()
            }
            #[inline]
            fn write(&self, writer: &mut WireEncoder<'_>) {
                writer.bytes(&self.to_be_bytes());
            }
        })*
    };
}

number_fields! {
    u8, Octet, u8;
    u16, Short, u16;
    u32, Long, u32;
    u64, LongLong, u64;
}

impl<'a> MethodField<'a> for bool {
    const KIND: FieldKind = FieldKind::Bit;
    #[inline]
    fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        reader.bit()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.bit(*self);
    }
}

impl<'a> MethodField<'a> for &'a str {
    const KIND: FieldKind = FieldKind::ShortString;
    #[inline]
    fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        reader.short()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.short(self);
    }
}

impl<'a> MethodField<'a> for &'a [u8] {
    const KIND: FieldKind = FieldKind::LongString;
    #[inline]
    fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        reader.long_bytes()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.long_bytes(self);
    }
}

impl<'a> MethodField<'a> for RawTable<'a> {
    const KIND: FieldKind = FieldKind::Table;
    #[inline]
    fn read(reader: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        reader.long_bytes().map(RawTable::new)
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.long_bytes(self.as_bytes());
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident $(<$life:lifetime>)? = $name:literal $class:literal $method:literal {
        $($field:ident: $type:ty),* $(,)?
    })*) => {
        $(
            $(#[$doc])*
            #[doc = ""]
            #[doc = concat!("`", $name, "`, ", $class, ".", $method, "; the fields are those of the specification.")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[allow(missing_docs)] // the specification's own names and meanings
            pub struct $variant $(<$life>)? { $(pub $field: $type),* }

            impl $(<$life>)? $variant $(<$life>)? {
                /// Its numbers.
                pub const ID: MethodId = MethodId { class_id: $class, method_id: $method };

                /// Its name.
                pub const NAME: &'static str = $name;

                const SPEC: MethodSpec = MethodSpec {
                    name: $name,
                    id: Self::ID,
                    fields: &[$((stringify!($field), <$type as MethodField>::KIND)),*],
                };

                /// Append the whole method frame. Short strings are cut to 255 bytes, between characters.
                #[inline]
                pub fn encode(&self, channel: u16, out: &mut Vec<u8>) {
                    let frame = begin_frame(out, FrameKind::Method, channel);
                    let mut writer = WireEncoder::new(out);
                    writer.bytes(&u32::to_be_bytes($class << 16 | $method));
                    $(self.$field.write(&mut writer);)*
                    end_frame(out, frame);
                }
            }
        )*

        /// Any method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // each is documented at its struct
        pub enum Method<'a> { $($variant($variant $(<$life>)?)),* }

        impl<'a> Method<'a> {
            /// The method of a method frame's payload. Tables in it are unread: see [`RawTable::check`].
            ///
            /// # Errors
            /// 540 for a method that does not exist, 502 when the fields do not fit the payload or a name is no UTF-8.
            #[inline]
            pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = WireDecoder::new(payload);
                let id = reader.u32()?;
                Ok(match (id >> 16, id & 0xFFFF) {
                    $(($class, $method) => Self::$variant({
                        let method = $variant { $($field: <$type as MethodField>::read(&mut reader)?),* };
                        reader.finish()?;
                        method
                    }),)*
                    _ => return Err(UNKNOWN_METHOD),
                })
            }

            /// Append the whole method frame.
            pub fn encode(&self, channel: u16, out: &mut Vec<u8>) {
                match self { $(Self::$variant(method) => method.encode(channel, out)),* }
            }

            /// Its name: `queue.declare`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $variant::NAME),* }
            }

            /// Its numbers.
            #[must_use]
            pub fn id(&self) -> MethodId {
                match self { $(Self::$variant(_) => $variant::ID),* }
            }
        }

        $(impl<'a> From<$variant $(<$life>)?> for Method<'a> {
            fn from(method: $variant $(<$life>)?) -> Self {
                Self::$variant(method)
            }
        })*

        /// Every method, in the order of their numbers.
        pub static SPECS: &[MethodSpec] = &[$($variant::SPEC),*];
    };
}

const UNKNOWN_METHOD: DecodeError = DecodeError { code: ReplyCode::NotImplemented, reason: "unknown method" };

methods! {
    /// The server's first word.
    ConnectionStart<'a> = "connection.start" 10 10 {
        version_major: u8, version_minor: u8, server_properties: RawTable<'a>, mechanisms: &'a [u8], locales: &'a [u8],
    }
    /// The client chooses how to log in.
    ConnectionStartOk<'a> = "connection.start-ok" 10 11 {
        client_properties: RawTable<'a>, mechanism: &'a str, response: &'a [u8], locale: &'a str,
    }
    /// The login needs another step.
    ConnectionSecure<'a> = "connection.secure" 10 20 { challenge: &'a [u8] }
    /// That step.
    ConnectionSecureOk<'a> = "connection.secure-ok" 10 21 { response: &'a [u8] }
    /// The server's limits.
    ConnectionTune = "connection.tune" 10 30 { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The limits that hold.
    ConnectionTuneOk = "connection.tune-ok" 10 31 { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The client enters a virtual host.
    ConnectionOpen<'a> = "connection.open" 10 40 { virtual_host: &'a str, capabilities: &'a str, insist: bool }
    /// It may.
    ConnectionOpenOk<'a> = "connection.open-ok" 10 41 { known_hosts: &'a str }
    /// One side ends the connection.
    ConnectionClose<'a> = "connection.close" 10 50 { reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16 }
    /// The other has understood.
    ConnectionCloseOk = "connection.close-ok" 10 51 {}
    /// The broker reads no more of this publisher for now (RabbitMQ).
    ConnectionBlocked<'a> = "connection.blocked" 10 60 { reason: &'a str }
    /// It reads again (RabbitMQ).
    ConnectionUnblocked = "connection.unblocked" 10 61 {}
    /// A new password or token for the connection (RabbitMQ).
    ConnectionUpdateSecret<'a> = "connection.update-secret" 10 70 { new_secret: &'a [u8], reason: &'a str }
    /// It holds from now on (RabbitMQ).
    ConnectionUpdateSecretOk = "connection.update-secret-ok" 10 71 {}

    /// Open the channel that the frame names.
    ChannelOpen<'a> = "channel.open" 20 10 { out_of_band: &'a str }
    /// It is open.
    ChannelOpenOk<'a> = "channel.open-ok" 20 11 { channel_id: &'a [u8] }
    /// Stop or go on with content.
    ChannelFlow = "channel.flow" 20 20 { active: bool }
    /// Understood.
    ChannelFlowOk = "channel.flow-ok" 20 21 { active: bool }
    /// One side ends the channel.
    ChannelClose<'a> = "channel.close" 20 40 { reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16 }
    /// The other has understood.
    ChannelCloseOk = "channel.close-ok" 20 41 {}

    /// Make an exchange, or check one.
    ExchangeDeclare<'a> = "exchange.declare" 40 10 {
        ticket: u16, exchange: &'a str, exchange_type: &'a str, passive: bool, durable: bool, auto_delete: bool,
        internal: bool, no_wait: bool, arguments: RawTable<'a>,
    }
    /// It is there.
    ExchangeDeclareOk = "exchange.declare-ok" 40 11 {}
    /// Remove an exchange.
    ExchangeDelete<'a> = "exchange.delete" 40 20 { ticket: u16, exchange: &'a str, if_unused: bool, no_wait: bool }
    /// It is gone.
    ExchangeDeleteOk = "exchange.delete-ok" 40 21 {}
    /// Route from an exchange to another (RabbitMQ).
    ExchangeBind<'a> = "exchange.bind" 40 30 {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// They are bound (RabbitMQ).
    ExchangeBindOk = "exchange.bind-ok" 40 31 {}
    /// Route so no longer (RabbitMQ).
    ExchangeUnbind<'a> = "exchange.unbind" 40 40 {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// They are not bound (RabbitMQ).
    ExchangeUnbindOk = "exchange.unbind-ok" 40 51 {}

    /// Make a queue, or check one.
    QueueDeclare<'a> = "queue.declare" 50 10 {
        ticket: u16, queue: &'a str, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, no_wait: bool,
        arguments: RawTable<'a>,
    }
    /// It is there, with its name and what it holds.
    QueueDeclareOk<'a> = "queue.declare-ok" 50 11 { queue: &'a str, message_count: u32, consumer_count: u32 }
    /// Route from an exchange to a queue.
    QueueBind<'a> = "queue.bind" 50 20 {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// They are bound.
    QueueBindOk = "queue.bind-ok" 50 21 {}
    /// Drop what a queue holds.
    QueuePurge<'a> = "queue.purge" 50 30 { ticket: u16, queue: &'a str, no_wait: bool }
    /// So many were dropped.
    QueuePurgeOk = "queue.purge-ok" 50 31 { message_count: u32 }
    /// Remove a queue.
    QueueDelete<'a> = "queue.delete" 50 40 { ticket: u16, queue: &'a str, if_unused: bool, if_empty: bool, no_wait: bool }
    /// It is gone, and so many messages with it.
    QueueDeleteOk = "queue.delete-ok" 50 41 { message_count: u32 }
    /// Route so no longer.
    QueueUnbind<'a> = "queue.unbind" 50 50 {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, arguments: RawTable<'a>,
    }
    /// They are not bound.
    QueueUnbindOk = "queue.unbind-ok" 50 51 {}

    /// How many unacknowledged messages a consumer or the channel takes.
    BasicQos = "basic.qos" 60 10 { prefetch_size: u32, prefetch_count: u16, global: bool }
    /// So it is.
    BasicQosOk = "basic.qos-ok" 60 11 {}
    /// Deliver the messages of a queue.
    BasicConsume<'a> = "basic.consume" 60 20 {
        ticket: u16, queue: &'a str, consumer_tag: &'a str, no_local: bool, no_ack: bool, exclusive: bool, no_wait: bool,
        arguments: RawTable<'a>,
    }
    /// They will come under that tag.
    BasicConsumeOk<'a> = "basic.consume-ok" 60 21 { consumer_tag: &'a str }
    /// Deliver no more; from the server, that it does not.
    BasicCancel<'a> = "basic.cancel" 60 30 { consumer_tag: &'a str, no_wait: bool }
    /// Understood.
    BasicCancelOk<'a> = "basic.cancel-ok" 60 31 { consumer_tag: &'a str }
    /// A message enters; its content follows.
    BasicPublish<'a> = "basic.publish" 60 40 {
        ticket: u16, exchange: &'a str, routing_key: &'a str, mandatory: bool, immediate: bool,
    }
    /// A mandatory message found no queue; its content follows.
    BasicReturn<'a> = "basic.return" 60 50 {
        reply_code: u16, reply_text: &'a str, exchange: &'a str, routing_key: &'a str,
    }
    /// A message for a consumer; its content follows.
    BasicDeliver<'a> = "basic.deliver" 60 60 {
        consumer_tag: &'a str, delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str,
    }
    /// Ask for one message.
    BasicGet<'a> = "basic.get" 60 70 { ticket: u16, queue: &'a str, no_ack: bool }
    /// Here it is; its content follows.
    BasicGetOk<'a> = "basic.get-ok" 60 71 {
        delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str, message_count: u32,
    }
    /// There is none.
    BasicGetEmpty<'a> = "basic.get-empty" 60 72 { cluster_id: &'a str }
    /// Done with a message, or with all up to it; from the server, that it was confirmed.
    BasicAck = "basic.ack" 60 80 { delivery_tag: u64, multiple: bool }
    /// Not done with a message.
    BasicReject = "basic.reject" 60 90 { delivery_tag: u64, requeue: bool }
    /// Deliver again what is not acknowledged, without an answer.
    BasicRecoverAsync = "basic.recover-async" 60 100 { requeue: bool }
    /// Deliver again what is not acknowledged.
    BasicRecover = "basic.recover" 60 110 { requeue: bool }
    /// It is delivered again.
    BasicRecoverOk = "basic.recover-ok" 60 111 {}
    /// Not done with a message, or with all up to it; from the server, that it was not taken (RabbitMQ).
    BasicNack = "basic.nack" 60 120 { delivery_tag: u64, multiple: bool, requeue: bool }

    /// Confirm what is published on this channel (RabbitMQ).
    ConfirmSelect = "confirm.select" 85 10 { no_wait: bool }
    /// So it is (RabbitMQ).
    ConfirmSelectOk = "confirm.select-ok" 85 11 {}

    /// Begin transactions.
    TxSelect = "tx.select" 90 10 {}
    /// So it is.
    TxSelectOk = "tx.select-ok" 90 11 {}
    /// Let it happen.
    TxCommit = "tx.commit" 90 20 {}
    /// It has.
    TxCommitOk = "tx.commit-ok" 90 21 {}
    /// Let it not happen.
    TxRollback = "tx.rollback" 90 30 {}
    /// It has not.
    TxRollbackOk = "tx.rollback-ok" 90 31 {}
}

#[cfg(test)]
impl BasicDeliver<'_> {
    /// Append the frames of a whole delivery: the method, the header and the body in frames of `frame_size_max`.
    /// `properties` are the bytes of [`super::BasicProperties::as_bytes`], which are sent on as they came.
    #[inline]
    pub fn encode_with_content(
        &self,
        channel: u16,
        properties: &[u8],
        body: &[u8],
        frame_size_max: usize,
        out: &mut Vec<u8>,
    ) {
        // One growth instead of one a field; what is left over is little and soon filled by the next delivery.
        out.reserve(
            96 + self.consumer_tag.len() + self.exchange.len() + self.routing_key.len() + properties.len() + body.len(),
        );
        self.encode(channel, out);
        super::properties::put_content(out, channel, properties, body, frame_size_max);
    }
}
