//! The ledger of the clients: messages sent, confirmed, received, acknowledged.

use std::collections::BTreeMap;

/// A message of a queue: who sent it, and as which of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageName {
    pub queue: usize,
    pub publisher: u64,
    pub number: u64,
}

impl MessageName {
    pub fn body(&self, size: usize) -> Vec<u8> {
        let mut body = format!("{} {} {} ", self.queue, self.publisher, self.number).into_bytes();
        body.extend(b".".repeat(size.saturating_sub(body.len())));
        body
    }

    pub fn read(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Self { queue: next()? as usize, publisher: next()?, number: next()? })
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    /// It survives a crash, once it is confirmed.
    is_durable: bool,
    is_confirmed: bool,
    deliveries: u32,
    is_settled: bool,
    /// Nobody can tell whether the broker still has it.
    may_be_gone: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    fates: BTreeMap<MessageName, Fate>,
    pub delivered: u64,
}

impl Ledger {
    pub fn attempted(&mut self, name: MessageName, is_durable: bool) {
        self.fates.insert(name, Fate { is_durable, ..Fate::default() });
    }

    pub fn confirmed(&mut self, name: MessageName) {
        if let Some(fate) = self.fates.get_mut(&name) {
            fate.is_confirmed = true;
        }
    }

    /// A message came.
    pub fn delivered(&mut self, name: MessageName, redelivered: bool) -> Result<(), String> {
        self.delivered += 1;
        let Some(fate) = self.fates.get_mut(&name) else { return Err(format!("{name:?} came and was never sent")) };
        if fate.is_settled {
            return Err(format!("{name:?} came after it was acknowledged"));
        }
        if fate.deliveries > 0 && !redelivered {
            return Err(format!("{name:?} came again without being flagged"));
        }
        fate.deliveries += 1;
        Ok(())
    }

    /// A client acknowledged it, and the broker has taken that.
    pub fn settled(&mut self, name: MessageName) {
        if let Some(fate) = self.fates.get_mut(&name) {
            fate.is_settled = true;
        }
    }

    /// A client acknowledged it, and nobody knows whether the broker has taken that.
    pub fn doubted(&mut self, name: MessageName) {
        if let Some(fate) = self.fates.get_mut(&name) {
            fate.may_be_gone = true;
        }
    }

    /// The broker crashed: what was not confirmed may be gone, what was acknowledged may be back.
    pub fn crashed(&mut self) {
        for fate in self.fates.values_mut() {
            fate.may_be_gone |= fate.is_settled || !(fate.is_durable && fate.is_confirmed);
            fate.is_settled = false;
        }
    }

    /// The broker was stopped in good order: only what is not durable is gone.
    pub fn stopped(&mut self) {
        for fate in self.fates.values_mut() {
            fate.may_be_gone |= !(fate.is_durable && fate.is_confirmed);
        }
    }

    /// Everything was drained into `left`, which is sorted: what must be there and is not?
    pub fn lost(&self, left: &[MessageName]) -> Option<String> {
        let is_owed = |fate: &Fate| fate.is_confirmed && !fate.is_settled && !fate.may_be_gone;
        let lost = self.fates.iter().find(|(name, fate)| is_owed(fate) && left.binary_search(name).is_err());
        lost.map(|(name, fate)| format!("{name:?} is lost: {fate:?}"))
    }
}
