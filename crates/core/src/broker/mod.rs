//! The data plane of the AMQP broker: bytes in, bytes out, without a socket, clock or thread of its own.
//!
//! A caller (the shell) owns sockets and time. It hands whole socket reads to [`Broker::receive`], asks
//! [`Broker::take_dirty`] which connections have something to write, and writes what [`Broker::output`] returns. Every
//! mistake of a client becomes a `channel.close` or `connection.close` in its output and affects nobody else: no public
//! method fails because of what came over the wire. The same calls in the same order always have the same effect.
//!
//! ```text
//! receive ──► frames (connections/input) ──► methods (connections/dispatch) ──► declaring, consumers, publishing
//!                 └─ content ─► publishing ─► topology (route) ─► queues ─► consumers (deliver) ─► output
//!                                    └─ durability (journal) ─► committed ─► confirm
//! ```
//! Each room owns the state that it is about, as a part of [`Broker`] with private fields: `Clients`, `Queues`,
//! `MessageStore`, `Letters`, `Publishing`, `Backpressure`, `Durability`, `Streams`, `Turn`. What needs several parts is
//! a method of [`Broker`], in the room of the step that it carries out. Files named by a noun hold data, files named by a
//! verb hold such methods.
//!
//! A connection knows its channels, a channel its consumers and unacknowledged deliveries, a queue its consumers: all by
//! number (`ids.rs`), and all from the top down, so that removing something walks what is below it.
//!
//! Bounds: [`BrokerOptions`], and `topology`'s.

mod access;
mod addresses;
mod ask_disk;
mod clock;
mod connections;
mod consumers;
mod declaring;
mod dense_map;
mod disk_waits;
mod durability;
mod errors;
mod ids;
mod limits;
mod management;
mod options;
mod parts;
mod publishing;
mod queues;
mod sharded_table;
#[cfg(test)]
mod simulation;
mod slab;
mod streams;
#[cfg(test)]
mod tests;
pub mod topology;
mod unique;

pub use access::control::{Access, Control, Resource, UserLimits, Verb};
use access::permissions::Permissions;
pub use addresses::settings::{AddressSettings, Addresses};
use clock::Clock;
pub use clock::Micros;
use connections::clients::Clients;
pub use connections::connection::Login;
pub use connections::output::Flow;
use connections::turn::Turn;
use disk_waits::DiskWaits;
pub use durability::durable;
use durability::journal_access::Durability;
pub use durability::recovery::{RecoveryReport, Storage, StorageError};
pub use ids::ConnectionId;
pub use limits::fixed_limits;
pub use management::event::Event;
use management::event::Events;
pub use management::memory::MemoryUse;
pub use management::metrics::{JournalMetrics, Metrics};
pub use management::overview::{ConnectionOverview, ConsumerOverview, QueueOverview};
pub use options::BrokerOptions;
use publishing::pending::Publishing;
use publishing::shortage::Backpressure;
use publishing::waiting_senders::WaitingSenders;
use queues::all_queues::Queues;
use queues::letter::Letters;
use queues::message_store::MessageStore;
pub use queues::policy::QueueKind;
use streams::all_streams::Streams;
pub use streams::progress::ReaderProgress;
pub use streams::reader_offset::ReaderOverview;
pub use streams::stream_record;
use topology::Topology;
use unique::Unique;

/// The cost of taking away a binding of a removed queue or exchange.
const SWEEP_STEPS: u32 = 6;

/// The data plane. A process has one, and uses it from one thread.
pub struct Broker {
    options: BrokerOptions,
    clock: Clock,
    unique: Unique,
    permissions: Permissions,
    topology: Topology,
    clients: Clients,
    turn: Turn,
    queues: Queues,
    messages: MessageStore,
    letters: Letters,
    publishing: Publishing,
    backpressure: Backpressure,
    waiting_senders: WaitingSenders,
    streams: Streams,
    durability: Durability,
    disk_waits: DiskWaits,
    events: Events,
    metrics: Metrics,
    is_stopping: bool,
    /// Faults planted in the broker, so that simulations can show that they detect them.
    #[cfg(test)]
    faults: simulation::Faults,
}

impl Broker {
    /// A broker with only the vhost `/`. `now` is the caller's monotonic clock, `wall_us` microseconds
    /// since 1970.
    #[must_use]
    pub fn new(options: BrokerOptions, control: Box<dyn Control + Send>, now: Micros, wall_us: i64) -> Self {
        let mut topology = Topology::with_limits(options.queries.within_memory(options.memory_bytes_max));
        topology.add_vhost("/");
        Self {
            clock: Clock::new(now, wall_us),
            unique: Unique::new(options.seed),
            permissions: Permissions::new(control),
            topology,
            clients: Clients::default(),
            turn: Turn::new(options.turn_budget),
            queues: Queues::default(),
            messages: MessageStore::default(),
            letters: Letters::default(),
            publishing: Publishing::new(options.memory_bytes_max, options.seed),
            backpressure: Backpressure::default(),
            waiting_senders: WaitingSenders::default(),
            streams: Streams::default(),
            durability: Durability::default(),
            disk_waits: DiskWaits::default(),
            events: Events::default(),
            metrics: Metrics::default(),
            is_stopping: false,
            options,
            #[cfg(test)]
            faults: simulation::Faults::default(),
        }
    }

    /// Tell the broker the time, for heartbeats and other work that is not urgent. Call it about ten times a second.
    pub fn tick(&mut self, now: Micros, wall_us: i64) {
        self.clock.tick(now);
        self.clock.set_wall(now, wall_us);
        self.check_connections();
        self.expire();
        self.streams.expire(&self.queues, self.clock.wall_us());
        self.record_offsets();
        self.durability.remove_untaken(self.clock.now());
        self.messages.free_spare();
        self.refuse_held();
        self.shed_unfinished();
        self.spill_older();
        self.feed_sparingly();
        self.try_held_letters();
        self.try_held_frames();
        self.queues.try_awaiting_memory();
        self.streams.try_awaiting_memory();
        self.try_disk_again();
        self.try_blocked_again();
        self.finish();
    }

    /// Whether deferred work remains (frames, reading or expiry): then call [`Broker::work`] when nothing else is waiting.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.turn.has_next()
            || self.streams.has_live()
            || self.streams.has_readers()
            || self.queues.has_relieved()
            || self.queues.has_unreachable()
            || self.queues.has_abandoned()
            || self.topology.has_gone()
            || self.clients.has_orphans()
            || self.can_spill_entries()
            || (!self.is_stopping && self.queues.is_due(self.clock.now()))
            || self.letters.has_work()
            || self.queues.has_runnable()
            || self.publishing.has_commit()
            || self.durability.can_evict()
            || self.disk_waits.are_due(self.clock.now())
    }

    /// Whether a client has published a little of late and waits for the answer: then whoever calls does little at once.
    #[must_use]
    pub fn is_attentive(&self) -> bool {
        self.turn.is_attentive()
    }

    /// Go on with work that was put off, for some milliseconds, and expire what is due. Call it when [`Broker::has_work`],
    /// and at the time that [`Broker::take_alarm`] has told.
    pub fn work(&mut self, now: Micros) {
        self.clock.advance(now);
        self.queues.timers().forget_alarm();
        self.turn.begin_round();
        self.next_turn();
        self.turn.begin();
        self.expire();
        self.try_disk_again();
        self.turn.begin();
        self.go_on_with_commit();
        self.evict();
        self.letters.allow_many();
        self.sweep_topology();
        self.finish();
    }

    /// Take away some bindings of removed queues and exchanges: as many as half of what is left of the turn has time for.
    fn sweep_topology(&mut self) {
        self.turn.begin();
        let count = self.turn.left() / 2 / SWEEP_STEPS;
        if self.topology.sweep(count as usize) {
            self.turn.spend(count * SWEEP_STEPS);
        }
    }

    /// Forget the cached permissions of this user, or of all users, because they have changed.
    pub fn forget_permissions(&mut self, user: Option<&str>) {
        self.permissions.forget(user);
    }

    /// Take the events since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    /// Ends every public call: delivers, releases some unreachable entries, records what was settled, confirms, and checks
    /// whether anything is short.
    fn finish(&mut self) {
        self.remove_abandoned();
        self.settle_orphans();
        self.turn.begin();
        self.run();
        if self.let_senders_go_on() {
            self.run();
        }
        self.turn.begin();
        self.deliver_live();
        self.read_streams();
        self.send_letters();
        self.sweep();
        self.spill_entries();
        self.record_settled();
        if self.durability.sync_settlements() {
            // There was nothing to record, so that no sync will follow.
            self.settle_waiting();
        }
        self.confirm();
        if self.check_shortage() {
            self.run();
            self.send_letters();
            self.record_settled();
            self.confirm();
        }
        self.turn.begin();
    }
}
