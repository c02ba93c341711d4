//! The ledger of the clients: messages sent, confirmed, received, acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{GroupIndex, STREAM, is_moving, may_drop};

/// A message of a group of queues: who sent it, and as which of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageName {
    pub group: GroupIndex,
    pub publisher: u64,
    pub number: u64,
}

impl MessageName {
    pub fn body(publisher: u64, number: u64, size: usize) -> Vec<u8> {
        let mut body = format!("{publisher} {number} ").into_bytes();
        body.extend(b".".repeat(size.saturating_sub(body.len())));
        body
    }

    /// The name of a message with this body in a queue of this group.
    pub fn read(group: GroupIndex, body: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "a body that nobody sent")?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(publisher)), Some(Ok(number))) => Ok(Self { group, publisher, number }),
            _ => Err("a body that nobody sent".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    /// It survives a crash, once it is confirmed.
    is_durable: bool,
    /// Its transaction is not committed: nobody may see it.
    is_hidden: bool,
    is_confirmed: bool,
    is_refused: bool,
    deliveries: u32,
    is_settled: bool,
    /// It was acknowledged in a transaction whose commit was answered: no crash brings it back.
    is_settled_for_good: bool,
    /// Nobody can tell whether the broker still has it.
    may_be_gone: bool,
    /// A crash may have left it in two queues of its group.
    may_be_twice: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    fates: BTreeMap<MessageName, Fate>,
    pub delivered: u64,
}

impl Ledger {
    pub fn attempted(&mut self, name: MessageName, is_durable: bool, is_hidden: bool) {
        let may_be_gone = may_drop(name.group);
        self.fates.insert(name, Fate { is_durable, is_hidden, may_be_gone, ..Fate::default() });
    }

    /// Its transaction has reached the broker.
    pub fn committed(&mut self, name: MessageName) {
        self.change(name, |fate| fate.is_hidden = false);
    }

    /// Its transaction was refused: nothing of it may have happened.
    pub fn not_committed(&mut self, name: MessageName) -> Result<(), String> {
        match self.fates.get_mut(&name) {
            Some(fate) if fate.deliveries > 0 => Err(format!("{name:?} came from a transaction that was refused")),
            Some(fate) => {
                fate.is_hidden = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn confirmed(&mut self, name: MessageName) {
        self.change(name, |fate| fate.is_confirmed = true);
    }

    /// The broker did not take it.
    pub fn refused(&mut self, name: MessageName) -> Result<(), String> {
        match self.fates.get_mut(&name) {
            Some(fate) if fate.deliveries > 0 => Err(format!("{name:?} came and was refused")),
            Some(fate) => {
                fate.is_refused = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A message came.
    pub fn delivered(&mut self, name: MessageName, redelivered: bool) -> Result<(), String> {
        self.delivered += 1;
        let Some(fate) = self.fates.get_mut(&name) else { return Err(format!("{name:?} came and was never sent")) };
        if fate.is_hidden {
            return Err(format!("{name:?} came and was not committed"));
        }
        if fate.is_refused {
            return Err(format!("{name:?} came and was refused"));
        }
        if fate.is_settled && !fate.may_be_twice {
            return Err(format!("{name:?} came after it was acknowledged"));
        }
        if fate.deliveries > 0 && !redelivered && !is_moving(name.group) && name.group != STREAM {
            return Err(format!("{name:?} came again without being flagged"));
        }
        fate.deliveries += 1;
        Ok(())
    }

    /// A client acknowledged it, and the broker has taken that.
    pub fn settled(&mut self, name: MessageName) {
        self.change(name, |fate| fate.is_settled = true);
    }

    /// A client acknowledged it in a transaction, and the broker has answered the commit.
    pub fn settled_for_good(&mut self, name: MessageName) {
        self.change(name, |fate| (fate.is_settled, fate.is_settled_for_good) = (true, true));
    }

    /// A client acknowledged it, and nobody knows whether the broker has taken that.
    pub fn doubted(&mut self, name: MessageName) {
        self.change(name, |fate| fate.may_be_gone = true);
    }

    /// The broker crashed: what was not confirmed may be gone, what was acknowledged may be back.
    pub fn crashed(&mut self) {
        for (name, fate) in &mut self.fates {
            fate.may_be_gone |= fate.is_settled || !(fate.is_durable && fate.is_confirmed);
            fate.may_be_twice |= is_moving(name.group);
            fate.is_settled = fate.is_settled_for_good;
        }
    }

    /// The broker was stopped in good order: only what is not durable is gone.
    pub fn stopped(&mut self) {
        for fate in self.fates.values_mut() {
            fate.may_be_gone |= !(fate.is_durable && fate.is_confirmed);
        }
    }

    /// Everything was drained into `left`: what is there that must not be, or must be there and is not?
    pub fn check(&self, left: &[MessageName]) -> Result<(), String> {
        let mut found = BTreeSet::new();
        for name in left {
            let may_be_twice = self.fates.get(name).is_some_and(|fate| fate.may_be_twice);
            if !found.insert(*name) && !may_be_twice {
                return Err(format!("{name:?} is there twice"));
            }
        }
        let is_owed = |fate: &Fate| fate.is_confirmed && !fate.is_settled && !fate.may_be_gone;
        let lost = self.fates.iter().find(|(name, fate)| is_owed(fate) && !found.contains(name));
        lost.map_or(Ok(()), |(name, fate)| Err(format!("{name:?} is lost: {fate:?}")))
    }

    fn change(&mut self, name: MessageName, change: impl FnOnce(&mut Fate)) {
        if let Some(fate) = self.fates.get_mut(&name) {
            change(fate);
        }
    }
}
