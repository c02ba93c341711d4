//! What a client says of deliveries: acknowledged, rejected, or put back.

/// How a delivery is settled.
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
