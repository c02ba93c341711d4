//! A transaction that is carried out: what is left of it.

use std::sync::Arc;

use crate::broker::connections::connection::PeerInfo;
use crate::broker::consumers::settlement::Settlement;
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::ids::{ChannelSlot, Handle};
use crate::broker::publishing::confirms::DiskMarks;
use crate::broker::publishing::transactions::transaction::{PendingMessage, PendingSettlement};
use crate::broker::publishing::transactions::transaction_check::CheckedRoute;

/// Maximum number of deliveries that are settled before somebody looks whether the turn is over.
const SETTLED_AT_ONCE: usize = 256;

/// A transaction that is carried out.
#[derive(Debug)]
pub(crate) struct CommitInProgress {
    pub channel: Handle<ChannelSlot>,
    /// The client, who is written into messages to addresses.
    pub sender: Arc<PeerInfo>,
    pub messages: std::iter::Zip<std::vec::IntoIter<PendingMessage>, std::vec::IntoIter<CheckedRoute>>,
    /// Whether it settles deliveries.
    pub settles: bool,
    /// The settled deliveries, the last first.
    pub settlements: Vec<(Settlement, std::vec::IntoIter<Delivery>)>,
    /// The marks that the answer has to wait for, one of each log.
    pub marks: DiskMarks,
    /// The memory of the transaction, as it was when it began.
    pub size_bytes: u64,
}

impl CommitInProgress {
    /// Let the answer wait for these marks.
    pub fn promise(&mut self, marks: DiskMarks) {
        for mark in marks {
            match self.marks.iter_mut().find(|promised| promised.log == mark.log) {
                Some(promised) => promised.sequence = promised.sequence.max(mark.sequence),
                None => self.marks.push(mark),
            }
        }
    }

    /// The next deliveries to settle, all in one way.
    pub fn next_settlement(&mut self) -> Option<PendingSettlement> {
        let (settlement, deliveries) = self.settlements.last_mut()?;
        let next = PendingSettlement {
            settlement: *settlement,
            deliveries: deliveries.by_ref().take(SETTLED_AT_ONCE).collect(),
        };
        if deliveries.len() == 0 {
            self.settlements.pop();
        }
        Some(next)
    }

    /// The deliveries that it has not settled yet.
    #[cfg(test)]
    pub fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.settlements.iter().flat_map(|(_, deliveries)| deliveries.as_slice())
    }
}
