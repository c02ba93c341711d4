//! Methods: one struct each, decoded from the payload of a method frame and encoded as one.
//!
//! The table at the end names every method and field once. The structs, [`Method`], both directions of the codec and
//! [`SPECS`], which `fields.rs` reads, are generated from it. Strings and tables are borrowed from the payload.
//! Fields that the specification reserves keep their old names (`ticket`, `capabilities` ...) and are encoded as given:
//! `..Default::default()`.
//!
//! Source: AMQP 0-9-1 specification, section 1 (classes), with RabbitMQ's extensions.

use std::fmt;

use super::error::DecodeError;
use super::frame::{FrameKind, begin_frame, end_frame};
use super::method_id::MethodId;
use super::raw_table::RawTable;
use super::reply::ReplyCode;
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
    /// One bit; consecutive bits share octets.
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

/// The description of a method, without values.
#[derive(Clone, Copy, Debug)]
pub struct MethodSpec {
    /// The method's name: `queue.declare`.
    pub name: &'static str,
    /// The method's numbers.
    pub id: MethodId,
    /// The method's fields, in their order on the wire.
    pub fields: &'static [(&'static str, FieldKind)],
}

/// The method with these numbers, if there is one.
#[must_use]
pub fn spec_of(id: MethodId) -> Option<&'static MethodSpec> {
    SPECS.iter().find(|spec| spec.id == id)
}

/// The method of this name, if there is one.
#[must_use]
pub fn spec_named(name: &str) -> Option<&'static MethodSpec> {
    SPECS.iter().find(|spec| spec.name == name)
}

/// A type of fields, which can be decoded and encoded.
trait MethodField<'a>: Sized {
    const KIND: FieldKind;
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError>;
    fn write(&self, writer: &mut WireEncoder<'_>);
}

macro_rules! number_fields {
    ($($type:ty, $kind:ident, $read:ident;)*) => {
        $(impl<'a> MethodField<'a> for $type {
            const KIND: FieldKind = FieldKind::$kind;
            #[inline]
            fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
                decoder.$read()
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
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        decoder.bit()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.bit(*self);
    }
}

impl<'a> MethodField<'a> for &'a str {
    const KIND: FieldKind = FieldKind::ShortString;
    #[inline]
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        decoder.short()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.short(self);
    }
}

impl<'a> MethodField<'a> for &'a [u8] {
    const KIND: FieldKind = FieldKind::LongString;
    #[inline]
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        decoder.long_bytes()
    }
    #[inline]
    fn write(&self, writer: &mut WireEncoder<'_>) {
        writer.long_bytes(self);
    }
}

impl<'a> MethodField<'a> for RawTable<'a> {
    const KIND: FieldKind = FieldKind::Table;
    #[inline]
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        decoder.long_bytes().map(RawTable::new)
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
                /// The method's numbers.
                pub const ID: MethodId = MethodId { class_id: $class, method_id: $method };

                /// The method's name.
                pub const NAME: &'static str = $name;

                const SPEC: MethodSpec = MethodSpec {
                    name: $name,
                    id: Self::ID,
                    fields: &[$((stringify!($field), <$type as MethodField>::KIND)),*],
                };

                /// Appends the whole method frame. Short strings are cut to 255 bytes, between characters.
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
            /// Decodes the method in a method frame's payload. Its tables are not decoded: see [`RawTable::check`].
            ///
            /// # Errors
            /// 540 for a method that does not exist, 502 when the fields do not fit the payload or a name is not UTF-8.
            #[inline]
            pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
                let mut decoder = WireDecoder::new(payload);
                let id = decoder.u32()?;
                Ok(match (id >> 16, id & 0xFFFF) {
                    $(($class, $method) => Self::$variant({
                        let method = $variant { $($field: <$type as MethodField>::read(&mut decoder)?),* };
                        decoder.finish()?;
                        method
                    }),)*
                    _ => return Err(UNKNOWN_METHOD),
                })
            }

            /// Appends the whole method frame.
            pub fn encode(&self, channel: u16, out: &mut Vec<u8>) {
                match self { $(Self::$variant(method) => method.encode(channel, out)),* }
            }

            /// The method's name: `queue.declare`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $variant::NAME),* }
            }

            /// The method's numbers.
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
    /// The server offers its version, properties and ways to log in.
    ConnectionStart<'a> = "connection.start" 10 10 {
        version_major: u8, version_minor: u8, server_properties: RawTable<'a>, mechanisms: &'a [u8], locales: &'a [u8],
    }
    /// The client chooses how to log in.
    ConnectionStartOk<'a> = "connection.start-ok" 10 11 {
        client_properties: RawTable<'a>, mechanism: &'a str, response: &'a [u8], locale: &'a str,
    }
    /// The login needs another step.
    ConnectionSecure<'a> = "connection.secure" 10 20 { challenge: &'a [u8] }
    /// The client answers the challenge of the login.
    ConnectionSecureOk<'a> = "connection.secure-ok" 10 21 { response: &'a [u8] }
    /// The server proposes its limits.
    ConnectionTune = "connection.tune" 10 30 { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The client confirms the limits that hold.
    ConnectionTuneOk = "connection.tune-ok" 10 31 { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The client enters a virtual host.
    ConnectionOpen<'a> = "connection.open" 10 40 { virtual_host: &'a str, capabilities: &'a str, insist: bool }
    /// The client has entered the virtual host.
    ConnectionOpenOk<'a> = "connection.open-ok" 10 41 { known_hosts: &'a str }
    /// One side ends the connection.
    ConnectionClose<'a> = "connection.close" 10 50 { reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16 }
    /// The other side confirms the end of the connection.
    ConnectionCloseOk = "connection.close-ok" 10 51 {}
    /// The broker stops reading from this publisher for now (RabbitMQ).
    ConnectionBlocked<'a> = "connection.blocked" 10 60 { reason: &'a str }
    /// The broker reads from this publisher again (RabbitMQ).
    ConnectionUnblocked = "connection.unblocked" 10 61 {}
    /// The client sends a new password or token for the connection (RabbitMQ).
    ConnectionUpdateSecret<'a> = "connection.update-secret" 10 70 { new_secret: &'a [u8], reason: &'a str }
    /// The new password or token holds from now on (RabbitMQ).
    ConnectionUpdateSecretOk = "connection.update-secret-ok" 10 71 {}

    /// The client opens the channel that the frame names.
    ChannelOpen<'a> = "channel.open" 20 10 { out_of_band: &'a str }
    /// The channel is open.
    ChannelOpenOk<'a> = "channel.open-ok" 20 11 { channel_id: &'a [u8] }
    /// One side stops or resumes content.
    ChannelFlow = "channel.flow" 20 20 { active: bool }
    /// The other side confirms the flow.
    ChannelFlowOk = "channel.flow-ok" 20 21 { active: bool }
    /// One side ends the channel.
    ChannelClose<'a> = "channel.close" 20 40 { reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16 }
    /// The other side confirms the end of the channel.
    ChannelCloseOk = "channel.close-ok" 20 41 {}

    /// The client creates an exchange, or checks for one.
    ExchangeDeclare<'a> = "exchange.declare" 40 10 {
        ticket: u16, exchange: &'a str, exchange_type: &'a str, passive: bool, durable: bool, auto_delete: bool,
        internal: bool, no_wait: bool, arguments: RawTable<'a>,
    }
    /// The exchange exists.
    ExchangeDeclareOk = "exchange.declare-ok" 40 11 {}
    /// The client deletes an exchange.
    ExchangeDelete<'a> = "exchange.delete" 40 20 { ticket: u16, exchange: &'a str, if_unused: bool, no_wait: bool }
    /// The exchange is deleted.
    ExchangeDeleteOk = "exchange.delete-ok" 40 21 {}
    /// The client binds an exchange to another (RabbitMQ).
    ExchangeBind<'a> = "exchange.bind" 40 30 {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// The exchanges are bound (RabbitMQ).
    ExchangeBindOk = "exchange.bind-ok" 40 31 {}
    /// The client unbinds an exchange from another (RabbitMQ).
    ExchangeUnbind<'a> = "exchange.unbind" 40 40 {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// The exchanges are unbound (RabbitMQ).
    ExchangeUnbindOk = "exchange.unbind-ok" 40 51 {}

    /// The client creates a queue, or checks for one.
    QueueDeclare<'a> = "queue.declare" 50 10 {
        ticket: u16, queue: &'a str, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, no_wait: bool,
        arguments: RawTable<'a>,
    }
    /// The queue exists, with this name and these counts.
    QueueDeclareOk<'a> = "queue.declare-ok" 50 11 { queue: &'a str, message_count: u32, consumer_count: u32 }
    /// The client binds a queue to an exchange.
    QueueBind<'a> = "queue.bind" 50 20 {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, no_wait: bool, arguments: RawTable<'a>,
    }
    /// The queue is bound.
    QueueBindOk = "queue.bind-ok" 50 21 {}
    /// The client drops the messages of a queue.
    QueuePurge<'a> = "queue.purge" 50 30 { ticket: u16, queue: &'a str, no_wait: bool }
    /// The queue is purged, with the number of messages dropped.
    QueuePurgeOk = "queue.purge-ok" 50 31 { message_count: u32 }
    /// The client deletes a queue.
    QueueDelete<'a> = "queue.delete" 50 40 { ticket: u16, queue: &'a str, if_unused: bool, if_empty: bool, no_wait: bool }
    /// The queue is deleted, with the number of its messages.
    QueueDeleteOk = "queue.delete-ok" 50 41 { message_count: u32 }
    /// The client unbinds a queue from an exchange.
    QueueUnbind<'a> = "queue.unbind" 50 50 {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, arguments: RawTable<'a>,
    }
    /// The queue is unbound.
    QueueUnbindOk = "queue.unbind-ok" 50 51 {}

    /// The client sets how many unacknowledged messages a consumer or the channel takes.
    BasicQos = "basic.qos" 60 10 { prefetch_size: u32, prefetch_count: u16, global: bool }
    /// The prefetch holds.
    BasicQosOk = "basic.qos-ok" 60 11 {}
    /// The client starts a consumer of a queue.
    BasicConsume<'a> = "basic.consume" 60 20 {
        ticket: u16, queue: &'a str, consumer_tag: &'a str, no_local: bool, no_ack: bool, exclusive: bool, no_wait: bool,
        arguments: RawTable<'a>,
    }
    /// The consumer has started, with this tag.
    BasicConsumeOk<'a> = "basic.consume-ok" 60 21 { consumer_tag: &'a str }
    /// The client, or the server by itself, ends a consumer.
    BasicCancel<'a> = "basic.cancel" 60 30 { consumer_tag: &'a str, no_wait: bool }
    /// The consumer has ended.
    BasicCancelOk<'a> = "basic.cancel-ok" 60 31 { consumer_tag: &'a str }
    /// The client publishes a message; its content follows.
    BasicPublish<'a> = "basic.publish" 60 40 {
        ticket: u16, exchange: &'a str, routing_key: &'a str, mandatory: bool, immediate: bool,
    }
    /// The server returns a mandatory message that is routed to no queue; its content follows.
    BasicReturn<'a> = "basic.return" 60 50 {
        reply_code: u16, reply_text: &'a str, exchange: &'a str, routing_key: &'a str,
    }
    /// The server delivers a message to a consumer; its content follows.
    BasicDeliver<'a> = "basic.deliver" 60 60 {
        consumer_tag: &'a str, delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str,
    }
    /// The client asks for one message.
    BasicGet<'a> = "basic.get" 60 70 { ticket: u16, queue: &'a str, no_ack: bool }
    /// The server delivers the message that was asked for; its content follows.
    BasicGetOk<'a> = "basic.get-ok" 60 71 {
        delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str, message_count: u32,
    }
    /// The queue has no message.
    BasicGetEmpty<'a> = "basic.get-empty" 60 72 { cluster_id: &'a str }
    /// The client acknowledges a message, or all up to it; or the server confirms a message.
    BasicAck = "basic.ack" 60 80 { delivery_tag: u64, multiple: bool }
    /// The client rejects a message.
    BasicReject = "basic.reject" 60 90 { delivery_tag: u64, requeue: bool }
    /// The client asks to deliver unacknowledged messages again, without an answer.
    BasicRecoverAsync = "basic.recover-async" 60 100 { requeue: bool }
    /// The client asks to deliver unacknowledged messages again.
    BasicRecover = "basic.recover" 60 110 { requeue: bool }
    /// The unacknowledged messages are delivered again.
    BasicRecoverOk = "basic.recover-ok" 60 111 {}
    /// The client rejects a message, or all up to it; or the server refuses a published message (RabbitMQ).
    BasicNack = "basic.nack" 60 120 { delivery_tag: u64, multiple: bool, requeue: bool }

    /// The client asks to confirm what is published on this channel (RabbitMQ).
    ConfirmSelect = "confirm.select" 85 10 { no_wait: bool }
    /// Publishes on the channel are confirmed (RabbitMQ).
    ConfirmSelectOk = "confirm.select-ok" 85 11 {}

    /// The client makes the channel transactional.
    TxSelect = "tx.select" 90 10 {}
    /// The channel is transactional.
    TxSelectOk = "tx.select-ok" 90 11 {}
    /// The client commits the transaction.
    TxCommit = "tx.commit" 90 20 {}
    /// The transaction is committed.
    TxCommitOk = "tx.commit-ok" 90 21 {}
    /// The client rolls the transaction back.
    TxRollback = "tx.rollback" 90 30 {}
    /// The transaction is rolled back.
    TxRollbackOk = "tx.rollback-ok" 90 31 {}
}

#[cfg(test)]
impl BasicDeliver<'_> {
    /// Appends the frames of a whole delivery: the method, the header and the body in frames of `frame_size_max`.
    /// `properties` are the bytes of [`super::BasicProperties::as_bytes`], which are passed on unchanged.
    #[inline]
    pub fn encode_with_content(
        &self,
        channel: u16,
        properties: &[u8],
        body: &[u8],
        frame_size_max: usize,
        out: &mut Vec<u8>,
    ) {
        // One growth instead of one per field; the little that is left over is soon filled by the next delivery.
        out.reserve(
            96 + self.consumer_tag.len() + self.exchange.len() + self.routing_key.len() + properties.len() + body.len(),
        );
        self.encode(channel, out);
        super::properties::put_content(out, channel, properties, body, frame_size_max);
    }
}
