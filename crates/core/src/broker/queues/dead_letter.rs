//! Dead letters: messages that a queue drops are published to its dead letter exchange, with the reason in a header.
//!
//! What is dropped waits as a letter (`letter.rs`) and is published at the end of the same call. Where there is more than
//! one call has time for, or the journal has no room, the rest waits its turn. Publishing may drop entries of other queues,
//! which makes further letters; they are queued, so that a chain of full queues needs no stack.
//!
//! While three quarters of the memory are in use, letters that go to several queues wait: each takes more than the entry
//! that it comes from, and a letter may drop further entries, so that a few of them could fill the memory though no
//! publisher goes on. A letter that goes to one queue takes the place of its entry. While many letters wait, entries that
//! have expired stay in their queues, on disk where there is one, and nobody gets them.
//!
//! The letter of a persistent message is recorded before its original is settled, in the same log: whoever finds the
//! original settled after a crash finds the letter too. A letter in a stream is another log's, so its original is settled
//! when the stream is synced. A letter that a full queue refuses, and makes a further letter of, is settled after that.
//!
//! Source: RabbitMQ's dead letter exchanges.

use std::collections::HashSet;
use std::sync::Arc;

use crate::amqp::{BasicProperties, RawTable};
use crate::journal::AppendError;

use crate::broker::Broker;
use crate::broker::clock::{Micros, NEVER};
use crate::broker::connections::turn::{SideWork, TimeLimit};
use crate::broker::ids::Handle;
use crate::broker::management::event::Event;
use crate::broker::parts::{Arrived, Parts};
use crate::broker::publishing::confirms::DiskMarks;
use crate::broker::publishing::further_keys::{further_keys, may_have_copies};
use crate::broker::publishing::publish::Terms;
use crate::broker::queues::death::{Death, QUEUE, REASON, deaths_of};
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::letter::{LETTER_STEPS, Letter, LetterSource, Reason};
use crate::broker::queues::message_store::StoredMessage;
use crate::broker::queues::policy::Overflow;
use crate::broker::topology::{Published, QueueId};

/// The further cost of a message that is read back from the journal, in steps of a quarter of a microsecond.
const READ_BACK_STEPS: usize = 64;
/// The number of bytes of a message that cost one step: it is copied three times.
const BYTES_PER_STEP: usize = 256;
/// The time that letters may take in one call: matching what they are routed by may take longer than their steps.
const LETTERS_US: Micros = 250;
/// The cost of an entry of `x-death`, which is read and copied.
const DEATH_STEPS: usize = 2;
/// The cost of a queue that a letter is routed to.
const QUEUE_STEPS: usize = 4;

/// What has become of a letter.
#[derive(Debug)]
enum Sent {
    /// It was published, or dropped. Its original waits for the marks of streams that have it, and for the letters that full
    /// queues have made of it.
    Done { marks: DiskMarks, further: Vec<Letter> },
    /// It waits at its source: for room in this queue, or for any queue.
    Held(Option<Handle<QueueId>>),
}

impl Sent {
    /// It was dropped, or put into queues whose log is that of the original.
    fn done() -> Self {
        Self::Done { marks: DiskMarks::new(), further: Vec::new() }
    }
}

impl Broker {
    /// Drop an entry of a queue, after making its dead letter if the queue has a dead letter exchange.
    pub(crate) fn discard(&mut self, queue: QueueId, entry: QueueEntry, reason: Reason) {
        let Some(source) = self.letter_source(queue) else { return self.settle(queue, entry) };
        let letter = self.letter(source, entry, reason);
        self.letters.push(letter);
    }

    /// The letter of an entry that a queue drops.
    fn letter(&mut self, source: Arc<LetterSource>, entry: QueueEntry, reason: Reason) -> Letter {
        let time_s = u64::try_from(self.clock.wall_us() / 1_000_000).unwrap_or_default();
        // Whoever makes letters gets no further than they can follow.
        self.turn.spend(LETTER_STEPS as u32);
        Letter { source, entry, reason, time_s, origin: None }
    }

    /// Count a message that full queues refuse, and make its dead letters where they are declared so.
    pub(crate) fn bury_refused(&mut self, parts: &Parts<'_>, refusing: &[QueueId]) {
        self.refused_letters(parts, refusing).into_iter().for_each(|letter| self.letters.push(letter));
    }

    /// Count a message that full queues refuse. Returns its dead letters.
    fn refused_letters(&mut self, parts: &Parts<'_>, refusing: &[QueueId]) -> Vec<Letter> {
        self.metrics.refused += u64::from(!refusing.is_empty());
        let mut letters = Vec::new();
        for &queue in refusing {
            if self.queues[queue].policy.overflow == Overflow::RejectAndBury
                && let Some(source) = self.letter_source(queue)
            {
                let message = self.messages.insert(StoredMessage::new(&mut Arrived::Borrowed(*parts), 1, true, None));
                letters.push(self.letter(source, QueueEntry::new(0, message, NEVER), Reason::MaxLength));
            }
        }
        letters
    }

    /// The source of a queue's dead letters; None if it has no dead letter exchange.
    fn letter_source(&self, id: QueueId) -> Option<Arc<LetterSource>> {
        #[cfg(test)]
        if self.faults.letters_lost {
            return None;
        }
        let it = &self.queues[id];
        let to = it.policy.dead_letters.as_ref()?;
        let queue = it.handle(id);
        if let Some(known) = self.letters.source_of(queue, it.durable_id) {
            return Some(known);
        }
        let info = self.topology.queue_info(id)?;
        let (vhost, name, durable_id) = (info.vhost, info.name.into(), it.durable_id);
        Some(Arc::new(LetterSource { queue, vhost, name, to: to.clone(), durable_id }))
    }

    /// Publish some of the letters that wait, with those that result from publishing.
    pub(crate) fn send_letters(&mut self) {
        let steps = self.letters.take_steps();
        if !self.letters.are_waiting() || self.turn.is_round_over() && self.letters.let_others_pass() {
            return;
        }
        let limit = self.turn.begin_side_work(SideWork::Letters, LETTERS_US);
        self.send_some_letters(steps, limit);
        self.turn.end_side_work(SideWork::Letters, limit);
    }

    fn send_some_letters(&mut self, mut steps: usize, limit: TimeLimit) {
        while steps > 0 && self.letters.are_waiting() && !limit.is_reached() {
            if !self.has_room_for_letters() {
                return self.letters.stall();
            }
            let Some(letter) = self.letters.take() else { return };
            steps = steps.saturating_sub(self.letter_steps(&letter));
            let sent = self.send_letter(&letter);
            steps = steps.saturating_sub(self.letters.take_spent());
            match sent {
                Ok(sent) => self.sent_letter(letter, sent),
                Err(reason @ AppendError::TooLarge { .. }) => {
                    self.report_lost_letter(&letter, &reason.to_string());
                    self.sent_letter(letter, Sent::done());
                }
                Err(_) => return self.letters.put_back(letter),
            }
        }
    }

    fn has_room_for_letters(&self) -> bool {
        #[cfg(test)]
        if self.faults.letters_unsaved {
            return true;
        }
        !self.durability.has_ended()
            && !self.durability.is_congested()
            && !self.streams.is_congested()
            && !self.backpressure.is_overrun()
    }

    fn letter_steps(&self, letter: &Letter) -> usize {
        let message = self.messages.get(letter.entry.message);
        let read_back = if message.is_resident() { 0 } else { READ_BACK_STEPS };
        LETTER_STEPS + read_back + message.size() / BYTES_PER_STEP
    }

    /// Settle the entry of a letter that was published, as soon as all that it waits for has happened, or hold it.
    fn sent_letter(&mut self, letter: Letter, sent: Sent) {
        let (marks, further) = match sent {
            Sent::Held(full) => return self.hold_letter(letter, full),
            Sent::Done { marks, further } => (marks, further),
        };
        #[cfg(test)]
        let further = self.forget_some(further);
        if further.is_empty() {
            self.finish_letter(letter, marks)
        } else {
            self.letters.await_further(letter, marks, further)
        }
    }

    /// Let letters go that came of another, which does not wait for them: a planted fault.
    #[cfg(test)]
    fn forget_some(&mut self, further: Vec<Letter>) -> Vec<Letter> {
        if !self.faults.further_unawaited {
            return further;
        }
        further.into_iter().for_each(|letter| self.letters.push(letter));
        Vec::new()
    }

    /// Settle the entry of a letter, as soon as streams that have the letter are synced, and the entries of those that it
    /// came of and that waited only for it.
    fn finish_letter(&mut self, letter: Letter, marks: DiskMarks) {
        let mut next = Some((letter, marks));
        while let Some((letter, marks)) = next {
            if !self.are_reached(&marks) {
                return self.letters.await_sync(marks, letter);
            }
            self.release_entry(letter.entry, letter.source.durable_id);
            next = self.letters.finish(&letter);
        }
    }

    /// Settle the entries of letters that streams have on disk now.
    pub(crate) fn finish_synced_letters(&mut self) {
        while self.letters.first_unsynced().is_some_and(|marks| self.are_reached(marks))
            && let Some(letter) = self.letters.take_unsynced()
        {
            self.finish_letter(letter, DiskMarks::new());
        }
    }

    /// Put a letter into the queues that it is routed to. Returns what it waits for now. An exchange that does not exist
    /// takes nothing.
    ///
    /// # Errors
    /// There is no room for it, or the disk is still reading it; then nothing has happened, unless a stream has it already.
    fn send_letter(&mut self, letter: &Letter) -> Result<Sent, AppendError> {
        let message = letter.entry.message;
        match self.prepare_letter(message) {
            Ok(true) => {}
            Ok(false) => return Err(AppendError::Busy),
            Err(reason) => {
                self.report_lost_letter(letter, &reason);
                return Ok(Sent::done());
            }
        }
        let parts = self.messages.parts(message);
        let source = &*letter.source;
        let (exchange, own_key) = (text(parts.exchange()), text(parts.routing_key()));
        let routing_key = source.to.routing_key.as_deref().unwrap_or(own_key);
        let death = Death {
            queue: &source.name,
            reason: letter.reason,
            exchange,
            routing_key: own_key,
            time_s: letter.time_s,
            is_readdressed: source.to.routing_key.is_some(),
        };
        let properties = death.added_to(BasicProperties::from_checked(parts.properties));
        let properties = BasicProperties::from_checked(&properties);
        let deaths = deaths_of(properties.headers().unwrap_or_default());
        let further_keys = further_keys(&properties).unwrap_or_default();
        let (to, body) = (&*source.to.exchange, parts.body);
        let published = Published { exchange: to, routing_key, further_keys: &further_keys, properties, body };
        let mut routed: Vec<QueueId> = Vec::new();
        let scratch = self.publishing.route_scratch();
        if self.topology.route_letter(source.vhost, &published, scratch, &mut routed).is_err() {
            routed.clear();
        }
        self.metrics.count_reading(self.publishing.reading());
        self.letters.spend(deaths.clone().count() * DEATH_STEPS + routed.len() * QUEUE_STEPS);
        let (route, size) = (route_of([to, routing_key]), properties.as_bytes().len() + body.len());
        let (is_routed, is_certain) = (!routed.is_empty(), self.is_certain(letter));
        self.drop_cycles(&mut routed, deaths);
        let full = if is_certain { self.first_full(&routed, route.len() + size) } else { None };
        if is_certain && (full.is_some() || !is_routed) {
            return Ok(Sent::Held(full));
        }
        if routed.len() > 1 && self.is_very_crowded() {
            return Err(AppendError::Busy);
        }
        if routed.is_empty() {
            self.metrics.letters_unroutable += 1;
            return Ok(Sent::done());
        }
        let is_persistent = properties.is_persistent();
        let parts = Parts { route: &route, properties: properties.as_bytes(), body };
        let mut message = Arrived::Joined(parts.joined());
        message.share_large();
        self.put_letter(&mut message, is_persistent, &mut routed)
    }

    fn put_letter(
        &mut self,
        message: &mut Arrived<'_>,
        is_persistent: bool,
        routed: &mut Vec<QueueId>,
    ) -> Result<Sent, AppendError> {
        if is_persistent && self.awaits_definition(routed) {
            // Before it is in any stream: it comes again.
            return Err(AppendError::Busy);
        }
        let parts = message.parts();
        let may_have_copies = may_have_copies(&BasicProperties::from_checked(parts.properties));
        let mut marks = DiskMarks::new();
        if !self.streams.is_empty() {
            self.append_to_streams(message, may_have_copies, routed, &mut marks)?;
            routed.retain(|queue| self.queues[*queue].stream.is_none());
        }
        // A queue that refuses it drops it: there is nobody who could be told.
        let refusing = self.queues.take_refusing(routed, parts.size());
        let is_durable = self.durability.is_on() && is_persistent;
        let time_to_live_ms = None;
        let saved = match is_durable {
            true => match self.save_for(message.content(), routed, time_to_live_ms) {
                #[cfg(test)]
                Err(_) if self.faults.letters_unsaved => None,
                saved => saved?,
            },
            false => None,
        };
        self.metrics.letters += 1;
        let further = self.refused_letters(&parts, &refusing);
        let terms = Terms { is_persistent, may_have_copies, is_addressed: false, time_to_live_ms };
        self.put_into_queues(message, saved, routed, terms);
        Ok(Sent::Done { marks, further })
    }

    fn report_lost_letter(&mut self, letter: &Letter, reason: &str) {
        self.metrics.lost += 1;
        let reason = format!("its dead letter cannot be published: {reason}");
        self.events.push(Event::MessageLost { queue: letter.source.name.to_string(), reason });
    }

    /// Drop the queues in which a message has been before, without being rejected since: it would go round for ever. Cost:
    /// linear in the queues and in the deaths, not in their product.
    fn drop_cycles<'a>(&self, routed: &mut Vec<QueueId>, deaths: impl Iterator<Item = RawTable<'a>>) {
        let text = |death: RawTable<'a>, field| death.get(field).and_then(|value| value.as_str());
        let since_rejected = deaths.take_while(|death| text(*death, REASON) != Some(Reason::Rejected.name()));
        let passed: HashSet<&str> = since_rejected.filter_map(|death| text(death, QUEUE)).collect();
        let is_new = |queue: &QueueId| self.topology.queue_info(*queue).is_some_and(|info| !passed.contains(info.name));
        routed.retain(is_new);
    }
}

/// A name on the wire, which was checked when it came.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Exchange and routing key as two short strings.
fn route_of(names: [&str; 2]) -> Vec<u8> {
    let mut route = Vec::with_capacity(names[0].len() + names[1].len() + 2);
    for name in names {
        route.push(name.len() as u8);
        route.extend_from_slice(name.as_bytes());
    }
    route
}
