//! A message that a queue has dropped and sends on, with the reason.

use crate::broker::topology::VhostId;

/// Why a queue dropped a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A consumer rejected it without requeueing.
    Rejected,
    Expired,
    /// The queue was full.
    MaxLength,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// A dropped message on its way to an exchange.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(super) vhost: VhostId,
    pub(super) exchange: Box<str>,
    pub(super) routing_key: Box<str>,
    pub(super) properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}
