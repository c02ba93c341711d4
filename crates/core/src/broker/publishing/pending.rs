//! The state of publishing between messages: room for routes, and the confirms and answers that wait for a disk.

use crate::broker::durable::DefinitionId;
use crate::broker::ids::{ChannelSlot, Handle};
use crate::broker::publishing::confirms::{DiskMark, DiskMarks};
use crate::broker::publishing::route_memos::RouteMemos;
use crate::broker::publishing::transactions::commit::CommitInProgress;
use crate::broker::topology::{QueueId, Reading, RouteScratch};

/// Buffers and lists of publishing, kept so that nothing is allocated per message.
#[derive(Debug)]
pub(crate) struct Publishing {
    /// Room for routing.
    pub(super) route_scratch: RouteScratch,
    /// The routes of late.
    pub(super) route_memos: RouteMemos,
    /// The queues that the current message goes to.
    pub(super) routed: Vec<QueueId>,
    /// The definitions of those queues in `routed` that are durable.
    pub(super) durable_ids: Vec<DefinitionId>,
    /// Channels that have published since their last confirm.
    pub(super) confirming: Vec<ChannelSlot>,
    /// Channels whose confirms or answers wait for a disk.
    pub(super) awaiting: Vec<Handle<ChannelSlot>>,
    /// The marks that the answer to the current method must wait for.
    promised: DiskMarks,
    /// The transaction that is carried out.
    pub(super) commit: Option<Box<CommitInProgress>>,
}

impl Publishing {
    /// Nothing is published yet. `memory_bytes_max` is all that the broker may take.
    pub fn new(memory_bytes_max: u64, seed: u64) -> Self {
        Self {
            route_scratch: RouteScratch::default(),
            route_memos: RouteMemos::new(memory_bytes_max, seed),
            routed: Vec::new(),
            durable_ids: Vec::new(),
            confirming: Vec::new(),
            awaiting: Vec::new(),
            promised: DiskMarks::new(),
            commit: None,
        }
    }

    /// The memory of remembered routes.
    pub fn route_bytes(&self) -> u64 {
        self.route_memos.memory_bytes() as u64
    }

    /// Begin a method. Marks that earlier work waits for do not delay its answer.
    pub fn begin_method(&mut self) {
        self.promised.clear();
    }

    /// Let the answer to the current method wait for this mark.
    pub fn promise(&mut self, mark: DiskMark) {
        match self.promised.iter_mut().find(|promised| promised.log == mark.log) {
            Some(promised) => promised.sequence = promised.sequence.max(mark.sequence),
            None => self.promised.push(mark),
        }
    }

    /// Take the marks that the answer to the current method must wait for.
    pub fn take_promised(&mut self) -> DiskMarks {
        std::mem::take(&mut self.promised)
    }

    /// Whether a transaction is carried out.
    #[inline]
    pub fn has_commit(&self) -> bool {
        self.commit.is_some()
    }

    /// Whether the transaction of this channel is carried out.
    pub fn is_committing(&self, channel: Handle<ChannelSlot>) -> bool {
        self.commit.as_ref().is_some_and(|commit| commit.channel == channel)
    }

    /// The memory of the transaction that is carried out.
    pub fn commit_bytes(&self) -> u64 {
        self.commit.as_ref().map_or(0, |commit| commit.size_bytes)
    }

    /// The transaction that is carried out.
    #[cfg(test)]
    pub fn commit(&self) -> Option<&CommitInProgress> {
        self.commit.as_deref()
    }

    /// Room for routing.
    pub fn route_scratch(&mut self) -> &mut RouteScratch {
        &mut self.route_scratch
    }

    /// The time that matching the last message has taken.
    pub fn reading(&self) -> Reading {
        self.route_scratch.reading()
    }

    /// Channels whose confirms or answers wait for a disk.
    pub fn awaiting(&self) -> &[Handle<ChannelSlot>] {
        &self.awaiting
    }
}
