//! The kinds of addresses: mailboxes and services, whose queues are made on demand and named after the address.

/// The kind of an address. Each kind has a predeclared exchange in every vhost, whose routing keys are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressKind {
    /// Messages for one client, which reads them under its identity.
    Mailbox,
    /// Requests for whichever worker is ready.
    Service,
}

impl AddressKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Mailbox, Self::Service];

    /// The name of its exchange, and of that exchange's type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Service => "service",
        }
    }

    /// The prefix of its queues' names. Clients cannot declare such names.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Mailbox => "amq.mailbox.",
            Self::Service => "amq.service.",
        }
    }

    /// The name of the queue of an address.
    #[must_use]
    pub fn queue_name(self, address: &str) -> String {
        format!("{}{address}", self.prefix())
    }

    /// The address whose queue has this name, if it is one's.
    #[inline]
    #[must_use]
    pub fn of_queue(name: &str) -> Option<(Self, &str)> {
        if !name.starts_with("amq.") {
            return None;
        }
        Self::ALL.into_iter().find_map(|kind| Some((kind, name.strip_prefix(kind.prefix())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_says_whose_it_is() {
        for kind in AddressKind::ALL {
            for address in ["ann", "", "a.b", "amq.mailbox.x"] {
                assert_eq!(AddressKind::of_queue(&kind.queue_name(address)), Some((kind, address)));
            }
        }
        for name in ["", "ann", "mailbox.ann", "amq.gen-x", "amq.mailbox"] {
            assert_eq!(AddressKind::of_queue(name), None);
        }
    }
}
