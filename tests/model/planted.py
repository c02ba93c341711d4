"""Faults that this broker once had, or could have: each takes one fix out of the core.

`make planted` builds the core with each of them, and the model has to find it. What a fault replaces stands once in its
file, which a test checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BROKER = Path("crates/core/src/broker")


@dataclass(frozen=True)
class Fault:
    """A change of one place of the core.

    Attributes:
        kind: what is lost or wrong then.
        says: what the broker does with it.
        file: the file to change, below `BROKER`.
        old: the text that stands there, once.
        new: the text with the fault.
        more: further changes of the file, each a text that stands there once, and another.
    """

    kind: str
    says: str
    file: str
    old: str
    new: str
    more: tuple[tuple[str, str], ...] = ()

    def plant(self, source: str) -> str:
        """Return the text of the file with the fault.

        Raises:
            ValueError: the place is not there, or more than once.
        """
        for old, new in ((self.old, self.new), *self.more):
            if source.count(old) != 1:
                raise ValueError(f"{self.says}: {self.file} has {old!r} {source.count(old)} times")
            source = source.replace(old, new)
        return source


FAULTS = (
    Fault(
        "refused and acknowledged",
        "an ack of many covers a message that was refused",
        "publishing/confirms.rs",
        "let done = self.refused.front().map_or(done, |refused| done.min(refused - 1));",
        "",
    ),
    Fault(
        "dead letters",
        "a letter that the journal has no room for is in memory alone, and its original is settled",
        "queues/dead_letter.rs",
        "#[cfg(test)]\n                Err(_) if self.faults.letters_unsaved => None,",
        "Err(_) => None,",
        (
            ("            && !self.durability.is_congested()\n", ""),
            (
                "while steps > 0 && self.letters.are_waiting() && !limit.is_reached() {",
                "while self.letters.are_waiting() {",
            ),
        ),
    ),
    Fault(
        "expiration",
        "a message's own time is forgotten by a restart",
        "durability/recovery.rs",
        "self.queues[queue].recovered_expiry(self.clock, time_us, time_to_live.ms())",
        "self.queues[queue].recovered_expiry(self.clock, time_us, time_to_live.ms().filter(|_| false))",
    ),
    Fault(
        "expiration",
        "basic.get hands out what is past its time, where more expires than one turn drops",
        "queues/expiry.rs",
        "self.queues.set_timer(queue);\n                return false;",
        "self.queues.set_timer(queue);\n                return true;",
    ),
    Fault(
        "dead letters",
        "a letter to an internal exchange vanishes",
        "topology/route.rs",
        "self.route_to(vhost, message, Self::exchange, scratch, queues)",
        "self.route_to(vhost, message, Self::public_exchange, scratch, queues)",
    ),
    Fault(
        "transactions",
        "a bad expiration is seen when the messages before it are published",
        "publishing/publish.rs",
        "        expiration(properties)?;\n",
        "",
    ),
    Fault(
        "transactions",
        "a tag may be settled twice, and the rest is committed",
        "consumers/settle.rs",
        "if !self.clients.settle_in_transaction(channel, settle) {\n",
        "if !self.clients.settle_in_transaction(channel, settle) && false {\n",
    ),
    Fault(
        "transactions",
        "a queue that has no room refuses a message when those before it are published",
        "publishing/transactions/check_transaction.rs",
        "self.check_queue(*queue, &parts, check)?;",
        "let _ = self.check_queue(*queue, &parts, check);",
    ),
    Fault(
        "memory",
        "messages that left memory come back when their last queue that survives is done with them",
        "queues/message_store.rs",
        "        if queues == 1 && !message.is_resident() {\n",
        "        if queues == 1 && !message.is_resident() {\n"
        "            let size = message.size;\n"
        "            assert!(self.load(id, Wait::ForDisk, durability).unwrap_or(false));\n"
        "            self.messages[id].bytes = Some(MessageBytes::Own(self.bytes_of(&self.messages[id]).into()));\n"
        "            self.resident_bytes += u64::from(size);\n"
        "        }\n"
        "        let message = &mut self.messages[id];\n"
        "        if false {\n",
    ),
    Fault(
        "limits",
        "the number of a user's queues begins at 0 with each start",
        "durability/recovery.rs",
        "*user = self.permissions.recover_queue(user);",
        "let counted = self.permissions.recover_queue(user);\n"
        "                self.permissions.remove_queue(&counted);\n"
        "                *user = counted;",
    ),
    Fault(
        "purge",
        "purge-ok comes before the purge is kept",
        "declaring/queues.rs",
        "self.publishing.promise(DiskMark { log: PURGES, sequence: self.durability.last_purge() });",
        "let _ = (DiskMark { log: PURGES, sequence: 0 }, self.durability.last_purge());",
    ),
)
"""The faults. A client that stops reading is not of the model: `tests/faults/test_slow_reader.py` has it."""
