//! Metrics: counters and gauges of the whole broker.

use crate::broker::topology::Reading;
use crate::journal::Statistics;

/// Counts of what the broker has done since it was opened, and of what it has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Messages that clients published.
    pub published: u64,
    /// Published messages that were routed to no queue.
    pub unroutable: u64,
    /// Unroutable messages that were returned because they were mandatory.
    pub returned: u64,
    /// Entries put into queues: a message counts once per queue.
    pub enqueued: u64,
    /// Deliveries to consumers and to basic.get.
    pub delivered: u64,
    /// Deliveries of entries that had been delivered before.
    pub redelivered: u64,
    /// Deliveries that were acknowledged.
    pub acknowledged: u64,
    /// Deliveries that were put back.
    pub requeued: u64,
    /// Entries that were dropped because a queue was full, or rejected without requeue.
    pub dropped: u64,
    /// Entries whose time had run out.
    pub expired: u64,
    /// Dead letters that were put into queues and streams.
    pub letters: u64,
    /// Dead letters that went nowhere: no exchange or queue took them, or they would have gone round for ever.
    pub letters_unroutable: u64,
    /// Messages that a full queue refused.
    pub refused: u64,
    /// Messages that had to wait until a full queue had room.
    pub senders_waited: u64,
    /// Messages that wait until a full queue has room.
    pub senders_waiting: u64,
    /// Channels that were closed because a delivery was not settled in its time.
    pub consumer_timeouts: u64,
    /// Mailboxes.
    pub mailboxes: u64,
    /// Messages that wait in mailboxes.
    pub mailbox_messages: u64,
    /// Services.
    pub services: u64,
    /// Requests that wait for a worker.
    pub service_requests_waiting: u64,
    /// Requests that workers have and have not acknowledged.
    pub service_requests_at_work: u64,
    /// Workers that can take a request.
    pub service_workers_ready: u64,
    /// Readers at the end of their stream, which get messages from memory.
    pub stream_readers_live: u64,
    /// Readers that read on in the log of their stream.
    pub stream_readers_replaying: u64,
    /// The credit that the readers of streams with a limit have left, together.
    pub stream_credit: u64,
    /// The number of messages that the reader of a stream that is furthest behind has yet to read, named readers that are away
    /// included.
    pub stream_lag_max: u64,
    /// Publisher confirms: acks, each of which may stand for many messages.
    pub confirms: u64,
    /// Messages with a body that was too large for a query that asked for it.
    pub bodies_unread: u64,
    /// Messages whose matching would have taken too long.
    pub matches_cut: u64,
    /// Memory of compiled queries, bindings, exchanges and queues.
    pub topology_bytes: u64,
    /// Messages that could not be read back from the journal.
    pub lost: u64,
    /// Bytes read from connections.
    pub bytes_in: u64,
    /// Bytes handed out to be written.
    pub bytes_out: u64,
    /// Connections that were ever opened.
    pub connections_made: u64,
    /// Channels and connections that were closed for what their client did.
    pub errors: u64,
    /// Open connections.
    pub connections: u64,
    /// Open channels.
    pub channels: u64,
    /// Consumers.
    pub consumers: u64,
    /// Queues.
    pub queues: u64,
    /// Messages that are ready in queues or delivered and not acknowledged; one in several queues counts once.
    pub messages: u64,
    /// Entries of queues that wait for a consumer.
    pub messages_ready: u64,
    /// Deliveries that wait for their acknowledgement.
    pub messages_unacknowledged: u64,
    /// Dead letters that wait until they can be published.
    pub letters_waiting: u64,
    /// Memory of messages, including incomplete ones and those of open transactions.
    pub message_bytes: u64,
    /// 1 while publishers are blocked.
    pub blocked: u64,
    /// Events that were dropped because nobody read them.
    pub events_dropped: u64,
}

impl Metrics {
    /// Count a message that queries could not read whole.
    pub(crate) fn count_reading(&mut self, reading: Reading) {
        self.bodies_unread += u64::from(reading.is_body_unread);
        self.matches_cut += u64::from(reading.is_over);
    }
}

/// Counts of what the journal and the logs of streams have done since they were opened, and their sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalMetrics {
    /// Bytes of the journal's segments on disk.
    pub file_bytes: u64,
    /// Bytes of live records of the journal: the others wait for compaction.
    pub live_bytes: u64,
    /// Segments of the journal.
    pub segments: u64,
    /// Bytes that wait to be written to the journal.
    pub waiting_bytes: u64,
    /// Counts of what was written to the journal.
    pub statistics: Statistics,
    /// Bytes of streams on disk.
    pub stream_bytes: u64,
}
