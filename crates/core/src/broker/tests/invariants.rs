//! The invariants that hold whenever a public call has returned.
//!
//! Every reference leads somewhere, every count is right, nothing is left behind, and no consumer that can take a message
//! waits beside one that is ready.

use std::collections::{HashMap, HashSet};

use crate::broker::Broker;
use crate::broker::disk_waits::RETRY_US;
use crate::broker::ids::MessageId;
use crate::broker::ids::{ConsumerSlot, Handle};
use crate::broker::queues::entries::Entries;
use crate::broker::queues::expiry::LETTERS_AGAIN_US;
use crate::broker::topology::QueueId;

/// Check all of it. Returns what is wrong.
pub fn violation(broker: &Broker) -> Option<String> {
    let checks = [positions, references, deliveries, consumers, channels, memory, work];
    checks.iter().find_map(|check| check(broker).err())
}

fn positions(broker: &Broker) -> Result<(), String> {
    for (number, queue) in broker.queues.iter() {
        let ready = queue.ready().to_vec(broker.queues.chunks());
        if ready.len() != queue.ready().len() {
            return Err(format!("queue {number:?} counts {} entries and has {}", queue.ready().len(), ready.len()));
        }
        if !ready.iter().is_sorted_by(|a, b| a.position < b.position) {
            return Err(format!("queue {number:?} is out of order"));
        }
        let bytes: usize = ready.iter().map(|entry| broker.messages.get(entry.message).size()).sum();
        if bytes as u64 != queue.ready_bytes() {
            return Err(format!("queue {number:?} counts {} bytes and has {bytes}", queue.ready_bytes()));
        }
        let expiring = ready.iter().any(|entry| entry.expires != u64::MAX);
        if expiring != queue.has_expiring() {
            return Err(format!("queue {number:?} is wrong about whether anything expires"));
        }
        // A queue may have been put off because too many dead letters wait.
        let put_off = if queue.policy.dead_letters.is_some() { broker.clock.now() + LETTERS_AGAIN_US } else { 0 };
        // So may one that is over its bounds, because its entries are on disk.
        let put_off = if queue.is_over() { put_off.max(broker.clock.now() + RETRY_US) } else { put_off };
        if queue.timer > queue.deadline().max(put_off) {
            return Err(format!("queue {number:?} has something that expires before anybody looks"));
        }
    }
    Ok(())
}

/// Every message is referred to as often as it counts, and memory is what the messages take.
fn references(broker: &Broker) -> Result<(), String> {
    let mut counted: HashMap<MessageId, u32> = HashMap::new();
    let chunks = broker.queues.chunks();
    let ready = broker.queues.iter().flat_map(|(_, queue)| queue.ready().to_vec(chunks));
    let unreachable = broker.queues.unreachable().flat_map(|entries| entries.to_vec(chunks));
    let out = broker.clients.channels().flat_map(|(_, channel)| channel.outstanding().map(|it| it.entry));
    let out = out.chain(broker.clients.orphans().map(|it| it.entry));
    let out =
        out.chain(broker.publishing.commit().into_iter().flat_map(|commit| commit.deliveries()).map(|it| it.entry));
    let letters = broker.all_letters().map(|letter| letter.entry);
    for entry in ready.chain(unreachable).chain(letters).chain(out.filter(|entry| entry.message != MessageId::NONE)) {
        *counted.entry(entry.message).or_default() += 1;
    }
    let mut bytes = broker.messages.spare_bytes();
    for (message, references, size) in broker.messages.audit() {
        bytes += size;
        let found = counted.remove(&message).unwrap_or_default();
        if found != references {
            return Err(format!("{message:?} counts {references} references and has {found}"));
        }
    }
    if bytes != broker.messages.resident_bytes() {
        return Err(format!("memory counts {} bytes and holds {bytes}", broker.messages.resident_bytes()));
    }
    if counted.is_empty() { Ok(()) } else { Err("an entry refers to no message".to_owned()) }
}

/// Credit is what is out, within its limit; queues count what is out of them.
fn deliveries(broker: &Broker) -> Result<(), String> {
    let mut of_queue: HashMap<Handle<QueueId>, u32> = HashMap::new();
    let mut of_consumer: HashMap<Handle<ConsumerSlot>, u32> = HashMap::new();
    for (number, channel) in broker.clients.channels() {
        let mut of_channel = 0;
        let handle = Handle { id: number, serial: channel.serial };
        let commit = broker.publishing.commit().filter(|commit| commit.channel == handle);
        for delivery in channel.outstanding().chain(commit.into_iter().flat_map(|commit| commit.deliveries())) {
            *of_queue.entry(delivery.queue).or_default() += 1;
            if let Some(consumer) = delivery.consumer {
                of_channel += 1;
                *of_consumer.entry(consumer).or_default() += 1;
            }
        }
        if channel.credit.outstanding() != of_channel {
            let counted = channel.credit.outstanding();
            return Err(format!("channel {number:?} counts {counted} deliveries out and has {of_channel}"));
        }
    }
    let is_gone =
        |channel: Handle<_>| broker.clients.channels().all(|(id, it)| id != channel.id || it.serial != channel.serial);
    let left = broker.publishing.commit().filter(|commit| is_gone(commit.channel));
    for delivery in broker.clients.orphans().chain(left.into_iter().flat_map(|commit| commit.deliveries())) {
        *of_queue.entry(delivery.queue).or_default() += 1;
    }
    for (number, queue) in broker.queues.iter() {
        let found = of_queue.get(&Handle { id: number, serial: queue.serial }).copied().unwrap_or_default();
        if found != queue.unacknowledged {
            return Err(format!("queue {number:?} counts {} out and has {found}", queue.unacknowledged));
        }
    }
    for (number, consumer) in broker.clients.consumers() {
        let found = of_consumer.get(&consumer.handle(number)).copied().unwrap_or_default();
        let (counted, limit) = (consumer.credit.outstanding(), consumer.credit.limit());
        if found != counted {
            return Err(format!("consumer {number:?} counts {counted} out and has {found}"));
        }
        if limit != 0 && found > u32::from(limit) {
            return Err(format!("consumer {number:?} has {found} out over its credit of {limit}"));
        }
    }
    Ok(())
}

/// Queues and channels agree on who consumes, and rings hold those that say that they wait.
fn consumers(broker: &Broker) -> Result<(), String> {
    let mut known = HashSet::new();
    for (number, queue) in broker.queues.iter() {
        let waiting: HashSet<ConsumerSlot> = queue.ring.iter().collect();
        if waiting.len() != queue.ring.iter().count() {
            return Err(format!("somebody stands twice in the ring of queue {number:?}"));
        }
        for consumer in &queue.consumers {
            let Some(it) = broker.clients.consumer_in(*consumer) else {
                return Err(format!("queue {number:?} has a consumer that is gone"));
            };
            if it.queue != number || (queue.stream.is_none() && it.is_waiting != waiting.contains(consumer)) {
                return Err(format!("consumer {consumer:?} and queue {number:?} disagree"));
            }
            known.insert(*consumer);
        }
        if waiting.iter().any(|consumer| !queue.consumers.contains(consumer)) {
            return Err(format!("somebody waits at queue {number:?} who does not consume from it"));
        }
    }
    let of_channels: Vec<ConsumerSlot> =
        broker.clients.channels().flat_map(|(_, channel)| channel.consumers.iter().copied()).collect();
    if of_channels.len() != known.len() || of_channels.iter().any(|consumer| !known.contains(consumer)) {
        return Err("channels and queues disagree on who consumes".to_owned());
    }
    if broker.clients.counts().2 == known.len() { Ok(()) } else { Err("a consumer is left behind".to_owned()) }
}

fn channels(broker: &Broker) -> Result<(), String> {
    let mut count = 0;
    for (number, connection) in broker.clients.connections() {
        for (channel_number, channel) in &connection.channels {
            count += 1;
            let mut channels = broker.clients.channels();
            let is_right =
                channels.any(|(slot, it)| slot == *channel && it.connection == number && it.number == *channel_number);
            if !is_right {
                return Err(format!("connection {number:?} has a channel that is not its own"));
            }
        }
        let channels = connection.channels.iter().map(|(_, slot)| &broker.clients[*slot]);
        let held: usize = channels.flat_map(|channel| &channel.held).map(|(_, bytes)| bytes.len()).sum();
        if held != connection.held_answer_bytes {
            return Err(format!("connection {number:?} holds answers of {held} bytes, and counts others"));
        }
        let rests = broker.turn.is_waiting(Handle { id: number, serial: connection.serial });
        if connection.is_resting != rests {
            return Err(format!("connection {number:?} waits for a turn that does not come"));
        }
        if connection.exclusive_queues.iter().any(|queue| broker.queues.get(*queue).is_none()) {
            return Err(format!("connection {number:?} has an exclusive queue that is gone"));
        }
    }
    let unfinished: u64 = broker.clients.channels().map(|(_, channel)| channel.unfinished()).sum();
    let slack: u64 =
        broker.clients.channels().map(|(_, channel)| channel.unfinished() - channel.unfinished_bytes).sum();
    if unfinished + broker.publishing.commit_bytes() != broker.memory().unfinished + slack || slack > 600 * count as u64
    {
        return Err(format!("{unfinished} bytes are unfinished, and {} are counted", broker.memory().unfinished));
    }
    if count == broker.clients.counts().1 { Ok(()) } else { Err("a channel is left behind".to_owned()) }
}

/// Every count of memory is what a walk over everything finds.
fn memory(broker: &Broker) -> Result<(), String> {
    let memory = broker.memory();
    let queues = broker.queues.iter().map(|(_, queue)| queue.ready());
    let entries: u64 = queues.chain(broker.queues.unreachable()).map(Entries::resident_bytes).sum();
    if entries != memory.entries {
        return Err(format!("entries take {entries} bytes, and {} are counted", memory.entries));
    }
    let of_channels: usize = broker.clients.channels().map(|(_, channel)| channel.unacknowledged.iter().count()).sum();
    let deliveries = of_channels + broker.clients.orphans_waiting();
    if deliveries != broker.clients.delivery_room().waiting() {
        let counted = broker.clients.delivery_room().waiting();
        return Err(format!("{deliveries} deliveries are out, and {counted} are counted"));
    }
    let buffers: u64 = broker.clients.connections().map(|(_, connection)| connection.counted_bytes).sum();
    if buffers != memory.buffers {
        return Err(format!("buffers were counted as {buffers} bytes, and their sum is {}", memory.buffers));
    }
    Ok(())
}

/// No entry is ready beside somebody who can take it, unless its queue is scheduled.
fn work(broker: &Broker) -> Result<(), String> {
    for (number, queue) in broker.queues.iter() {
        if !queue.is_runnable
            && !queue.held.are_too_many()
            && !queue.awaits_memory
            && !queue.awaits_disk
            && let Some(consumer) = queue.consumers.iter().find(|consumer| broker.can_take(**consumer))
            && queue.front().is_some_and(|front| front.expires > broker.clock.now())
        {
            return Err(format!("queue {number:?} has something that consumer {consumer:?} could take"));
        }
    }
    if broker.queues.has_runnable() && !broker.has_work() {
        return Err("work is left undone, and nobody is told".to_owned());
    }
    Ok(())
}
