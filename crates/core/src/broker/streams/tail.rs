//! The messages of a stream that its live readers have yet to get, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::journal::Sequence;

/// The memory that stays when everything has been taken out.
const SPARE_BYTES: usize = 256 * 1024;

/// Records in the order of their numbers, without a gap: all that were appended since it was begun and not taken out.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    /// The end of each record, counted in bytes since it was begun.
    ends: VecDeque<u64>,
    /// The number of bytes that were taken out of `bytes`.
    removed: u64,
    /// The end of the record that was taken out last.
    begin: u64,
    /// The number of the first record here, or of the next one that is appended; None while nothing is kept.
    next: Option<Sequence>,
    /// Large records, which others have too, with their numbers. They take no room in `bytes`.
    shared: VecDeque<(Sequence, Arc<Vec<u8>>)>,
    shared_bytes: usize,
}

/// The first record of a tail.
pub(crate) enum Front<'a> {
    Own(&'a [u8]),
    Shared(&'a Arc<Vec<u8>>),
}

impl Front<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Tail {
    /// Keep the records from this number on, which is the next one that is appended.
    pub fn begin(&mut self, next: Sequence) {
        *self = Self { next: Some(next), ..Self::default() };
    }

    /// The number from which on every record is here or will be; None while nothing is kept.
    pub fn next(&self) -> Option<Sequence> {
        self.next
    }

    /// Append the record that has the next number, in parts.
    pub fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push_back(self.removed + self.bytes.len() as u64);
    }

    /// Append the record that has the next number, which others have too.
    pub fn push_shared(&mut self, record: &Arc<Vec<u8>>) {
        let Some(next) = self.next else { return };
        self.shared.push_back((Sequence(next.0 + self.ends.len() as u64), Arc::clone(record)));
        self.shared_bytes += record.len();
        self.ends.push_back(self.removed + self.bytes.len() as u64);
    }

    /// The first record, with its number.
    pub fn front(&self) -> Option<(Sequence, Front<'_>)> {
        let end = (self.ends.front()? - self.removed) as usize;
        let next = self.next?;
        let front = match self.shared.front().filter(|(sequence, _)| *sequence == next) {
            Some((_, record)) => Front::Shared(record),
            None => Front::Own(&self.bytes[(self.begin - self.removed) as usize..end]),
        };
        Some((next, front))
    }

    /// Take out the first record.
    pub fn pop(&mut self) {
        let Some(end) = self.ends.pop_front() else { return };
        self.begin = end;
        if self.shared.front().is_some_and(|(sequence, _)| Some(*sequence) == self.next)
            && let Some((_, record)) = self.shared.pop_front()
        {
            self.shared_bytes -= record.len();
        }
        self.next = self.next.map(Sequence::next);
        let unused = (self.begin - self.removed) as usize;
        if unused > self.bytes.len() / 2 {
            self.bytes.drain(..unused);
            self.removed = self.begin;
            if self.bytes.capacity() > SPARE_BYTES && self.bytes.len() < SPARE_BYTES {
                self.bytes.shrink_to(SPARE_BYTES);
            }
        }
    }

    /// Take out the records up to this number.
    pub fn pop_through(&mut self, last: Sequence) {
        while self.front().is_some_and(|(sequence, _)| sequence <= last) {
            self.pop();
        }
    }

    /// The bytes of the records that are here.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() - (self.begin - self.removed) as usize + self.shared_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Dice;

    #[test]
    fn it_holds_what_a_queue_of_records_holds() {
        let mut dice = Dice::new(1);
        let (mut tail, mut model) = (Tail::default(), VecDeque::new());
        tail.begin(Sequence(7));
        let mut next = 7;
        for _ in 0..2_000 {
            if dice.below(20) < 11 {
                let record = vec![next as u8; dice.below(40) as usize];
                let (head, body) = record.split_at(record.len() / 2);
                match dice.once_in(4) {
                    true => tail.push_shared(&Arc::new(record.clone())),
                    false => tail.push(&[head, body]),
                }
                model.push_back((Sequence(next), record));
                next += 1;
            } else {
                tail.pop();
                model.pop_front();
            }
            let front = tail.front().map(|(sequence, record)| (sequence, record.bytes().to_vec()));
            assert_eq!(front, model.front().cloned());
            assert_eq!(tail.size_bytes(), model.iter().map(|(_, record)| record.len()).sum::<usize>());
            assert_eq!(tail.next(), Some(model.front().map_or(Sequence(next), |(sequence, _)| *sequence)));
        }
        tail.pop_through(Sequence(next));
        assert!(tail.front().is_none());
        assert_eq!((tail.size_bytes(), tail.next()), (0, Some(Sequence(next))));
    }
}
