//! Begins to consume from a stream: where a reader starts, and what it asks for.
//!
//! `x-stream-offset` says where (first, last, next, a number, a time), `x-query` which messages. A named reader starts where it
//! was, and a reader of a stream without history at the next message.

use crate::amqp::method::BasicConsume;
use crate::amqp::{AmqpError, RawTable, RawValue, ReplyCode};
use crate::journal::{Log, Sequence, Start};

use crate::broker::Broker;
use crate::broker::disk_waits::DiskWait;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, LogId};
use crate::broker::streams::cursor::Cursor;
use crate::broker::streams::named_readers::READER;
use crate::broker::streams::numbers::Numbers;
use crate::broker::streams::reading::OFFSET;
use crate::broker::streams::skipping::Skipping;
use crate::broker::streams::stream::StreamReader;
use crate::broker::topology::{ConsumerFilter, QueueId, check_query_arguments};

impl Broker {
    /// Begin to consume from a stream: a reader with an offset and a query of its own.
    pub(crate) fn read_stream(
        &mut self,
        channel: ChannelSlot,
        queue: QueueId,
        consume: &BasicConsume<'_>,
    ) -> Result<Option<Box<StreamReader>>, AmqpError> {
        let Some(log) = self.queues[queue].stream.as_ref().map(|stream| stream.log) else { return Ok(None) };
        let refused = |reason: &str| error(ReplyCode::PreconditionFailed, reason);
        if consume.no_ack && consume.arguments.get(READER).is_some() {
            return Err(refused("a named reader must acknowledge: its offset is behind what it has acknowledged"));
        }
        let it = &self.clients[channel];
        if !consume.no_ack && it.prefetch == 0 && it.credit.limit() == 0 {
            let reason = format!("consumer prefetch count is not set for stream '{}'", consume.queue);
            return Err(refused(&reason));
        }
        let filter = self.consumer_filter(channel, consume.arguments)?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        let name = self.reader_name(queue, consume)?;
        if name.is_some() {
            self.durability.check_room()?;
        }
        let offset = name.as_ref().and_then(|name| self.offset_of(queue, name));
        let cursor = self.cursor(log, consume.arguments, offset)?;
        if let Some(filter) = &filter {
            let added = self.topology.add_filter(vhost, owner, filter);
            self.spend_compiled();
            added?;
        }
        let skipping = Skipping::of(filter.as_ref());
        let named = name.and_then(|name| self.begin_named(queue, name, &cursor));
        Ok(Some(Box::new(StreamReader {
            cursor,
            filter,
            skipping,
            named,
            missed: 0,
            is_live: false,
            is_listed: false,
            fallbacks: 0,
            awaited_bytes: 0,
            disk_wait: DiskWait::default(),
        })))
    }

    /// The query of a consumer; None where it has none.
    fn consumer_filter(
        &mut self,
        channel: ChannelSlot,
        arguments: RawTable<'_>,
    ) -> Result<Option<ConsumerFilter>, AmqpError> {
        check_query_arguments(arguments)?;
        self.check_stored_query(channel, arguments)?;
        let permissions = &mut self.permissions;
        ConsumerFilter::parse(arguments, &mut |key| permissions.stored_query(key), self.topology.hierarchies())
    }

    /// The offset from which a consumer reads: its reader's, or that of its arguments.
    ///
    /// # Errors
    /// 406: the offset is none, or its time has passed in a stream without history.
    fn cursor(&self, log: LogId, arguments: RawTable<'_>, offset: Option<Sequence>) -> Result<Cursor, AmqpError> {
        let refused = |reason: &str| error(ReplyCode::PreconditionFailed, reason);
        let invalid = |reason: String| refused(&format!("invalid arg 'x-stream-offset' of a consumer: {reason}"));
        if let Some(numbers) = self.streams.numbers(log) {
            return start_without_history(arguments, numbers).map(Cursor::Number).map_err(invalid);
        }
        let log = self.streams.log(log).ok_or_else(|| refused("the stream is gone"))?;
        let begin = || start(arguments, log, self.clock.wall_us());
        let start = offset.map_or_else(begin, |offset| Ok(Start::Sequence(offset))).map_err(invalid)?;
        log.reader(start).map(|reader| Cursor::Log(Box::new(reader))).map_err(|error| refused(&error.to_string()))
    }
}

/// The start of a reader of a stream without history: its next message, or the one with a number.
fn start_without_history(arguments: RawTable<'_>, numbers: &Numbers) -> Result<Sequence, String> {
    let Some(value) = arguments.get(OFFSET) else { return Ok(numbers.next()) };
    match (value.as_str(), value.as_i64().map(u64::try_from)) {
        (Some("first" | "last" | "next"), _) => Ok(numbers.next()),
        (None, Some(Ok(number))) => Ok(Sequence(number)),
        _ => Err("the stream keeps no history: expected next, or a number".to_owned()),
    }
}

/// The start of a reader according to `x-stream-offset`; without it, behind the last message.
fn start(arguments: RawTable<'_>, log: &Log, wall_us: i64) -> Result<Start, String> {
    const EXPECTED: &str = "expected first, last, next, a number, a timestamp, or an age as in '1h'";
    let number = |number: i64| u64::try_from(number).map(|number| Start::Sequence(Sequence(number)));
    match arguments.get(OFFSET) {
        None => Ok(Start::Next),
        Some(RawValue::Timestamp(seconds)) => {
            Ok(Start::Time(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000)))
        }
        Some(value) => match (value.as_str(), value.as_i64()) {
            (Some("first"), _) => Ok(Start::First),
            (Some("last"), _) => Ok(Start::Sequence(log.synced())),
            (Some("next"), _) => Ok(Start::Next),
            (_, Some(value)) => number(value).map_err(|_| EXPECTED.to_owned()),
            _ => {
                let age_s = crate::broker::queues::policy::age_s(value).map_err(|_| EXPECTED.to_owned())?;
                let age_us = i64::try_from(age_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
                Ok(Start::Time(wall_us.saturating_sub(age_us)))
            }
        },
    }
}
