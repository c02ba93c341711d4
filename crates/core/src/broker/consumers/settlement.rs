//! The ways in which a client settles deliveries: it acknowledges, rejects or requeues them.

/// A way to settle a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// The message is done with.
    Acknowledge,
    /// The message goes back to where it was.
    Requeue,
    /// The message is dropped.
    Discard,
}

/// An ack, nack or reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settle {
    pub tag: u64,
    pub multiple: bool,
    pub settlement: Settlement,
}

impl Settle {
    /// The last tag that it settles with `multiple`: 0 stands for all.
    pub fn through(self) -> u64 {
        if self.tag == 0 { u64::MAX } else { self.tag }
    }
}
