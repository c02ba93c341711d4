//! Overviews of connections, queues and consumers for management: copies, made when asked for.

use crate::amqp::method::SPECS;
use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::ids::{ChannelSlot, ConnectionId};
use crate::broker::management::metrics::{JournalMetrics, Metrics};
use crate::broker::queues::policy::QueueKind;
use crate::broker::streams::progress::ReaderProgress;
use crate::broker::streams::reader_offset::ReaderOverview;
use crate::broker::topology::{AddressKind, QueueInfo, Topology};

/// A connection, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionOverview {
    /// Its id.
    pub id: ConnectionId,
    /// Its user.
    pub user: String,
    /// Its vhost.
    pub vhost: String,
    /// The client's address.
    pub peer: String,
    /// The name that the client gave itself.
    pub client_name: String,
    /// The address of its mailbox; empty for none.
    pub identity: String,
    /// When it was opened, on the monotonic clock.
    pub since: Micros,
    /// `running`, `blocked` or `closing`.
    pub state: &'static str,
    /// The number of open channels.
    pub channels: usize,
    /// The number of deliveries that it has not acknowledged.
    pub unacknowledged: usize,
    /// Bytes that were read from it.
    pub bytes_in: u64,
    /// Bytes that were written to it.
    pub bytes_out: u64,
    /// Bytes that wait to be written to it.
    pub bytes_waiting: usize,
}

/// A queue, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOverview {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: QueueKind,
    /// It survives a restart.
    pub durable: bool,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// The connection that has it exclusively.
    pub owner: Option<ConnectionId>,
    /// The fields of its arguments, as an AMQP table without its length.
    pub arguments: Vec<u8>,
    /// Entries that wait for a consumer; of a stream, the messages that it keeps.
    pub ready: usize,
    /// The directory of its log, when it is a stream.
    pub log: Option<std::path::PathBuf>,
    /// Bytes of the messages that wait; of a stream, those of its log's records (0 without history).
    pub ready_bytes: u64,
    /// Entries that were delivered and not acknowledged.
    pub unacknowledged: u32,
    /// The number of its consumers.
    pub consumers: usize,
    /// The number of entries that were ever put into it.
    pub published: u64,
    /// Its named readers, when it is a stream.
    pub readers: Vec<ReaderOverview>,
}

/// A consumer, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOverview {
    /// Its connection.
    pub connection: ConnectionId,
    /// The number of its channel.
    pub channel: u16,
    /// Its tag.
    pub tag: String,
    /// Its vhost.
    pub vhost: String,
    /// Its queue.
    pub queue: String,
    /// It does not acknowledge.
    pub no_ack: bool,
    /// It has the queue to itself.
    pub exclusive: bool,
    /// Its prefetch; 0 is no limit.
    pub prefetch_count: u16,
    /// Its deliveries that are not acknowledged.
    pub unacknowledged: u32,
    /// The number of messages that it may get before it acknowledges; None without a limit.
    pub credit: Option<u32>,
    /// Its offset in the stream, if it reads one.
    pub progress: Option<ReaderProgress>,
}

impl Broker {
    /// Counters and gauges. Cost: some nanoseconds per queue.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let (connections, channels, consumers) = self.clients.counts();
        let readers = self.count_readers();
        let (mailboxes, services) =
            (self.count_addresses(AddressKind::Mailbox), self.count_addresses(AddressKind::Service));
        Metrics {
            connections: connections as u64,
            channels: channels as u64,
            consumers: consumers as u64,
            queues: self.queues.len() as u64,
            senders_waiting: self.waiting_senders.len() as u64,
            mailboxes: mailboxes.queues,
            mailbox_messages: mailboxes.ready,
            services: services.queues,
            service_requests_waiting: services.ready,
            service_requests_at_work: services.unacknowledged,
            service_workers_ready: services.consumers_ready,
            stream_readers_live: readers.live,
            stream_readers_replaying: readers.replaying,
            stream_credit: readers.credit,
            stream_lag_max: readers.lag_max,
            messages: self.messages.len() as u64,
            messages_ready: self.queues.iter().map(|(_, queue)| queue.ready().len() as u64).sum(),
            messages_unacknowledged: self.queues.iter().map(|(_, queue)| u64::from(queue.unacknowledged)).sum(),
            letters_waiting: self.letters.len() as u64,
            message_bytes: self.messages.resident_bytes()
                + self.backpressure.unfinished_bytes
                + self.letters.size_bytes(),
            topology_bytes: self.topology.memory_bytes(),
            blocked: self.backpressure.is_on().into(),
            events_dropped: self.events.dropped,
            ..self.metrics
        }
    }

    /// The numbers of connections, channels and consumers.
    #[must_use]
    pub fn client_counts(&self) -> (usize, usize, usize) {
        self.clients.counts()
    }

    /// The name of the method that was carried out last, as in `queue.bind`; empty before the first.
    #[must_use]
    pub fn last_method(&self) -> &'static str {
        let method = self.turn.method();
        SPECS.iter().find(|spec| spec.id == method).map_or("", |spec| spec.name)
    }

    /// Numbers of the journal; None without a journal.
    #[must_use]
    pub fn journal_metrics(&self) -> Option<JournalMetrics> {
        self.durability.metrics(self.streams.file_bytes())
    }

    /// Exchanges, the names of queues, and bindings.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All connections, in no particular order; an overview is made when it is called for.
    pub fn connections(&self) -> impl Iterator<Item = impl FnOnce() -> ConnectionOverview> {
        self.clients.connections().map(move |(slot, connection)| {
            move || {
                let principal = self.permissions.principal(connection.principal);
                let unacknowledged = |(_, channel): &(u16, ChannelSlot)| self.clients[*channel].unacknowledged.len();
                ConnectionOverview {
                    id: self.clients.id(slot),
                    user: principal.user.to_string(),
                    vhost: principal.vhost.to_string(),
                    peer: connection.about.peer.to_string(),
                    client_name: connection.about.client_name.to_string(),
                    identity: connection.about.identity.to_string(),
                    since: connection.about.since,
                    state: match connection.state {
                        ConnectionState::Open if connection.is_blocked => "blocked",
                        ConnectionState::Open => "running",
                        ConnectionState::Closing(_) | ConnectionState::Ended(_) => "closing",
                    },
                    channels: connection.channels.len(),
                    unacknowledged: connection.channels.iter().map(unacknowledged).sum(),
                    bytes_in: connection.bytes_in,
                    bytes_out: connection.bytes_out,
                    bytes_waiting: connection.out.len(),
                }
            }
        })
    }

    /// All queues, in no particular order; an overview is made when it is called for.
    pub fn queues(&self) -> impl Iterator<Item = impl FnOnce() -> QueueOverview> {
        self.queues.iter().filter_map(move |(id, queue)| {
            let QueueInfo { vhost, name, settings, owner, .. } = self.topology.queue_info(id)?;
            Some(move || QueueOverview {
                vhost: self.name_of(vhost),
                name: name.to_owned(),
                kind: queue.policy.kind,
                durable: settings.durable,
                auto_delete: settings.auto_delete,
                owner: owner.map(ConnectionId::from_bits),
                arguments: settings.arguments.as_bytes().to_vec(),
                ready: queue
                    .stream
                    .as_ref()
                    .map_or(queue.ready().len(), |stream| self.streams.length(stream.log) as usize),
                log: queue.stream.as_ref().map(|stream| stream.dir.clone()),
                ready_bytes: queue
                    .stream
                    .as_ref()
                    .map_or(queue.ready_bytes(), |stream| self.streams.size_bytes(stream.log)),
                unacknowledged: queue.unacknowledged,
                consumers: queue.consumers.len(),
                published: queue.published,
                readers: self.readers_of(id),
            })
        })
    }

    /// All consumers, in no particular order; an overview is made when it is called for.
    pub fn consumers(&self) -> impl Iterator<Item = impl FnOnce() -> ConsumerOverview> {
        self.clients.consumers().filter_map(move |(_, consumer)| {
            let info = self.topology.queue_info(consumer.queue)?;
            Some(move || ConsumerOverview {
                connection: self.clients.id(consumer.connection),
                channel: self.clients[consumer.channel].number,
                tag: String::from_utf8_lossy(consumer.name()).into_owned(),
                vhost: self.name_of(info.vhost),
                queue: info.name.to_owned(),
                no_ack: consumer.no_ack,
                exclusive: consumer.is_exclusive,
                prefetch_count: consumer.credit.limit(),
                unacknowledged: consumer.credit.outstanding(),
                credit: self.credit_of(consumer),
                progress: self.progress_of(consumer),
            })
        })
    }

    pub(crate) fn name_of(&self, vhost: crate::broker::topology::VhostId) -> String {
        self.topology.vhosts().find(|(id, _)| *id == vhost).map_or_else(String::new, |(_, name)| name.to_owned())
    }
}
