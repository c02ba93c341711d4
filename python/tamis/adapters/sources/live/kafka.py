"""Reads topics of Kafka as a member of a consumer group; an offset is committed when its batch has been committed.

The spool keeps the next offset of each partition with the messages, so that each is read once. The group's offsets are
for others: for Kafka's own tools, and for the member that takes a partition over. What retention removed before it was
read becomes a dead letter with its number.

Source: Kafka's protocol guide (consumer groups, ListOffsets), and librdkafka's CONFIGURATION.md."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tamis import text_file
from tamis.adapters.json_row import JsonRowOptions, body_members, text_or_base64
from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import option
from tamis.adapters.rows import RAW_KEPT_BYTES, digest_of, too_large
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError, ConfigError
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

CHUNK_COUNT: Final = 500
WAIT_S: Final = 0.05
"""The time for which a look waits for further messages."""
LOOK_S_MAX: Final = 10.0
"""Maximum time of a look: a partition whose broker is away holds up the others no longer."""
METADATA_S: Final = 2.0
SETTINGS_BYTES_MAX: Final = 1 << 20
_QUEUED_KBYTES: Final = 65_536
_RECONNECT_MS: Final = 1_000
_SESSION_MS: Final = 10_000
"""After a crash the group gives the partitions again when this time has passed."""
_OWN_SETTINGS: Final = frozenset(
    "bootstrap.servers group.id group.instance.id enable.auto.commit auto.offset.reset enable.partition.eof "
    "partition.assignment.strategy".split()
)
_STATE: Final = re.compile(r" \(after .*? in state .*?\)$")

Partition = tuple[str, int]
"""A topic, and the number of one of its partitions."""


@dataclass(frozen=True, kw_only=True)
class KafkaOptions(LiveOptions, JsonRowOptions):
    """The options of topics of Kafka.

    Attributes:
        servers: the addresses of some brokers of the cluster, separated by commas.
        topics: the topics, separated by commas; one that begins with ``^`` is a pattern of names.
        group: the consumer group.
        tls: ``tls`` or ``none``.
        user: the name to log in with (SASL).
        password_env: the environment variable with the password.
        password_file: a file with the password.
        mechanism: the SASL mechanism of the login.
        ca_file: certificates to trust instead of the system's.
        cert_file: the certificate of this client, where the brokers ask for one.
        key_file: the key of that certificate.
        settings_file: further settings of librdkafka, one ``name=value`` per line.
        timeout_s: the time limit for each question to the brokers.
    """

    servers: str = option("", required="the address of a broker, as in kafka.example.org:9092")
    topics: str = option("", required="names of topics, as in orders, returns")
    group: str = option("", required="the name of a consumer group")
    tls: str = option("tls", words=("tls", "none"))
    user: str | None = option(None)
    password_env: str | None = option(None)
    password_file: str | None = option(None, is_path=True)
    mechanism: str = option("SCRAM-SHA-512", words=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
    ca_file: str | None = option(None, is_path=True)
    cert_file: str | None = option(None, is_path=True)
    key_file: str | None = option(None, is_path=True)
    settings_file: str | None = option(None, is_path=True)
    timeout_s: int = option(30, minimum=1, maximum=600)


class KafkaSource(LiveSource):
    """The messages of some topics, of the partitions that the group gives to this adapter."""

    Options = KafkaOptions
    options: KafkaOptions
    type: ClassVar[str] = "kafka"
    packages = ("confluent_kafka",)
    extra = "kafka"
    properties = "json"

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__(options)
        self._consumer: Consumer | None = None
        self._cluster = ""
        self._assigned: set[Partition] | None = None
        self._ended: set[Partition] = set()  # read up to their ends
        # Numbers in the spool, each with the offsets before it.
        self._uncommitted: deque[tuple[int, dict[Partition, int]]] = deque()
        self._problem: str | None = None

    def check(self) -> None:
        """Check the options and the secret, without a connection.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        if not self._topics():
            raise AdapterError("topics: expected names of topics, as in orders, returns")
        _check_settings(self._settings("none"))

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: what the partitions of this adapter hold now, of at most `max_messages`."""
        left = self.options.max_messages
        until = time.monotonic() + (self.options.timeout_s if self._assigned is None else LOOK_S_MAX)
        with self._talking():
            consumer = self._connected()
            while left > 0 and time.monotonic() < until:
                messages = consumer.consume(min(CHUNK_COUNT, left), timeout=WAIT_S)
                left -= self._store(consumer, spool, messages)
                if self._is_at_end() or (self._problem and not messages):
                    break
        if self._problem and left == self.options.max_messages:
            self._metadata(consumer)  # fails if the brokers are still away; the connection keeps its partitions
        elif self._assigned is None:
            raise LookError(f"{self.options.servers}: the group '{self.options.group}' has not yet given partitions")
        return left <= 0

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`: the newest messages; the group does not notice."""
        self.check()
        with self._talking():
            consumer = self._consumer_of(f"tamis-test-{uuid.uuid4().hex}")
            try:
                return iter(self._newest(consumer, count))
            finally:
                consumer.close()

    def processed(self, number: int) -> bool:
        """Implement `LiveSource.processed`: commit their offsets to the group."""
        if self._consumer is None:
            return False
        positions: dict[Partition, int] = {}
        while self._uncommitted and self._uncommitted[0][0] <= number:
            positions |= self._uncommitted.popleft()[1]
        self._commit(self._consumer, positions)
        return True

    def close(self) -> None:
        """Implement `LiveSource.close`; the group gives the partitions to another member."""
        self.drop()
        super().close()

    def _connected(self) -> Consumer:
        if self._consumer is None:
            consumer = self._consumer = self._consumer_of(self.options.group)
            found = self._metadata(consumer)
            self._cluster = found.cluster_id or ""
            for name in self._topics():
                if not name.startswith("^") and (name not in found.topics or found.topics[name].error is not None):
                    raise LookError(f"{self.options.servers}: no topic '{name}', or this user may not read it")
            consumer.subscribe(self._topics(), on_assign=self._on_assign, on_revoke=self._on_revoke)
        return self._consumer

    def _consumer_of(self, group: str) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(self._settings(group))

    def _metadata(self, consumer: Consumer) -> Any:
        """Return the description of the cluster.

        Raises:
            LookError: no broker answers, for the reason that librdkafka told meanwhile.
        """
        from confluent_kafka import KafkaException

        self._problem = None
        until = time.monotonic() + self.options.timeout_s
        while True:
            try:
                return consumer.list_topics(timeout=min(METADATA_S, self.options.timeout_s))
            except KafkaException as error:
                consumer.poll(0)  # tells `_on_error` why
                if self._problem or time.monotonic() > until:
                    raise LookError(f"{self.options.servers}: {self._problem or _reason(error)}") from error

    def _on_error(self, error: KafkaError) -> None:
        if self._problem is None or error.code() != error._ALL_BROKERS_DOWN:
            self._problem = _STATE.sub("", error.str())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin each partition that the group gives where the spool or the group ends."""
        spool = self.spool()
        found = consumer.committed(partitions, timeout=self.options.timeout_s) if partitions else []
        committed = {(one.topic, one.partition): one.offset for one in found}
        for one in partitions:
            one.offset = self._begin(consumer, spool, one, committed[one.topic, one.partition])
        with spool.transaction():
            spool.set_state("assigned", True)
        self._assigned = {(one.topic, one.partition) for one in partitions}
        self._ended = set()
        positions = {(one.topic, one.partition): one.offset for one in partitions}
        if last := spool.newest():
            self._uncommitted.append((last, positions))
        else:
            self._commit(consumer, positions)
        consumer.assign(partitions)

    def _begin(self, consumer: Consumer, spool: Spool, partition: TopicPartition, committed: int) -> int:
        """Return the offset at which reading begins; a dead letter tells what is gone since the last time."""
        low, high = consumer.get_watermark_offsets(partition, timeout=self.options.timeout_s)
        name = _state(partition.topic, partition.partition)
        known = max(spool.state(name) or 0, committed)
        is_new = spool.state(name) is None and committed < 0
        begin, problem = known, None
        if is_new:
            skips = self.options.starting_offset == "next" and not spool.state("assigned")
            begin = high if skips else low
        elif known < low:
            begin, problem = low, f"messages {known:,} to {low - 1:,} were removed before they were read"
        elif known > high:
            begin, problem = low, f"the partition was read up to message {known:,} and now ends at {high:,}: it is new"
        with spool.transaction():
            if problem is not None:
                address = self._address(partition.topic, partition.partition)
                spool.add([Item(digest_of(f"{address}{problem}{uuid.uuid4()}".encode()), address, b"", error=problem)])
            spool.set_state(name, begin)
        return begin

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit what is in the spool: the next member of the group must not read it again."""
        spool, gone = self.spool(), {(one.topic, one.partition) for one in partitions}
        ends = {partition: spool.state(_state(*partition)) for partition in gone & (self._assigned or set())}
        self._commit(consumer, {partition: end for partition, end in ends.items() if end is not None})
        self._assigned = (self._assigned or set()) - gone
        self._ended -= gone

    def _commit(self, consumer: Consumer, positions: dict[Partition, int]) -> None:
        """Commit offsets of partitions that are still ours. If that fails, the spool still knows them."""
        from confluent_kafka import KafkaException, TopicPartition

        ours = self._assigned or ()
        offsets = [TopicPartition(*partition, end) for partition, end in positions.items() if partition in ours]
        if offsets:
            with suppress(KafkaException):
                consumer.commit(offsets=offsets, asynchronous=True)

    def _store(self, consumer: Consumer, spool: Spool, messages: list[Message]) -> int:
        """Put messages and the offsets after them into the spool; return their number."""
        positions: dict[Partition, int] = {}
        items = []
        for message in messages:
            if self._is_event(message):
                continue
            partition = (message.topic() or "", message.partition() or 0)
            positions[partition] = (message.offset() or 0) + 1
            items.append(self._item(message))
        if items:
            self._problem = None
            with spool.transaction():
                spool.add(items)
                for partition, end in positions.items():
                    spool.set_state(_state(*partition), end)
            self._uncommitted.append((spool.newest(), positions))
            for partition, end in positions.items():
                self._note_end(consumer, partition, end)
        return len(items)

    def _note_end(self, consumer: Consumer, partition: Partition, position: int) -> None:
        """Note whether a partition has been read up to its end, as the last answer of its broker tells it."""
        from confluent_kafka import TopicPartition

        _, high = consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        (self._ended.add if 0 <= high <= position else self._ended.discard)(partition)

    def _is_event(self, message: Message) -> bool:
        """Return whether this is an end or an error instead of a message.

        Raises:
            LookError: it is an error that the next connection may not have.
        """
        error = message.error()
        if error is None:
            return False
        if error.code() == error._PARTITION_EOF:
            self._ended.add((message.topic() or "", message.partition() or 0))
        elif error.code() != error._MAX_POLL_EXCEEDED:  # the group gives the partitions again
            raise LookError(f"{self.options.servers}: {error.str()}")
        return True

    def _is_at_end(self) -> bool:
        return self._assigned is not None and self._assigned <= self._ended

    def _item(self, message: Message) -> Item:
        """Return the message as a JSON object of headers, key and address. Members of a JSON value take precedence."""
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        kind, time_ms = message.timestamp()
        key = digest_of(json.dumps(["kafka", self._cluster, topic, partition, offset, time_ms]).encode())
        value, address = message.value() or b"", self._address(topic, partition)
        if len(value) > MESSAGE_BYTES_MAX:
            return Item(key, address, value[:RAW_KEPT_BYTES], topic, too_large(len(value), MESSAGE_BYTES_MAX))
        members: dict[str, Any] = _headers(message)
        if (named := message.key()) is not None:
            members["key"] = text_or_base64(named)
        if kind:
            with suppress(ValueError, OverflowError, OSError):  # no time that Python knows
                members["timestamp"] = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
        members |= {"partition": partition, "offset": offset}
        if message.value() is not None:  # null: the key is removed
            members |= body_members(value)
        content = json.dumps(members, ensure_ascii=False).encode("utf-8", "replace")
        return Item(key, address, content, topic)

    def _newest(self, consumer: Consumer, count: int) -> list[Item]:
        from confluent_kafka import TopicPartition

        found = self._metadata(consumer)
        self._cluster = found.cluster_id or ""
        wanted = [name for name in found.topics if any(_names(topic, name) for topic in self._topics())]
        if not wanted:
            raise LookError(f"{self.options.servers}: no topic '{self.options.topics}', or this user may not read it")
        partitions = [TopicPartition(name, number) for name in wanted for number in found.topics[name].partitions]
        for one in partitions:
            low, high = consumer.get_watermark_offsets(one, timeout=self.options.timeout_s)
            one.offset = max(low, high - max(1, count // len(partitions)))
        self._assigned, self._ended = {(one.topic, one.partition) for one in partitions}, set()
        consumer.assign(partitions)
        items: list[Item] = []
        until = time.monotonic() + LOOK_S_MAX
        while len(items) < count and not self._is_at_end() and time.monotonic() < until:
            messages = consumer.consume(count - len(items), timeout=WAIT_S)
            items += [self._item(message) for message in messages if not self._is_event(message)]
        return items

    def _talking(self) -> _KafkaTalk:
        return _KafkaTalk(self)

    def drop(self) -> None:
        """Give up the connection; the next look makes a new one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Exception):
                consumer.close()
        self._assigned, self._ended, self._uncommitted, self._problem = None, set(), deque(), None

    def _address(self, topic: str, partition: int) -> str:
        return f"kafka://{self.options.servers}/{topic}/{partition}"

    def _topics(self) -> list[str]:
        return [name for name in map(str.strip, self.options.topics.split(",")) if name]

    def _settings(self, group: str) -> dict[str, Any]:
        """Return the settings of librdkafka."""
        options = self.options
        given: dict[str, Any] = _read_settings(options.settings_file) if options.settings_file else {}
        own = {
            "bootstrap.servers": options.servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
        names = {
            "ssl.ca.location": options.ca_file,
            "ssl.certificate.location": options.cert_file,
            "ssl.key.location": options.key_file,
        }
        defaults = {
            "client.id": "tamis",
            "queued.max.messages.kbytes": _QUEUED_KBYTES,
            "reconnect.backoff.ms": _RECONNECT_MS,
            "session.timeout.ms": _SESSION_MS,
            "log_level": 0,  # `error_cb` tells the same
            "error_cb": self._on_error,
        }
        security = {"security.protocol": "ssl" if options.tls == "tls" else "plaintext"} | self._login()
        return defaults | security | {name: value for name, value in names.items() if value} | given | own

    def _login(self) -> dict[str, str]:
        """Return the settings of SASL; none without a user.

        Raises:
            AdapterError: there is a name without a password, or the password would travel as plain text.
        """
        options = self.options
        password = secret(options.password_env, options.password_file, "password")
        if (options.user is None) != (password is None):
            raise AdapterError("expected user with password_env or password_file, or neither")
        if options.user is None or password is None:
            return {}
        hosts = [server.strip().rpartition(":")[0] for server in options.servers.split(",")]
        if options.tls == "none" and options.mechanism == "PLAIN" and not all(map(is_loopback, hosts)):
            raise AdapterError('tls: a password as plain text needs tls = "tls"')
        return {
            "security.protocol": "sasl_ssl" if options.tls == "tls" else "sasl_plaintext",
            "sasl.mechanism": options.mechanism,
            "sasl.username": options.user,
            "sasl.password": password,
        }


class _KafkaTalk:
    """Turns what can fail while talking to the brokers into a `LookError`; the connection is then given up."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception):
            return
        self._source.drop()
        if not isinstance(error, AdapterError):
            raise LookError(f"{self._source.options.servers}: {_reason(error)}") from error


def _check_settings(settings: dict[str, Any]) -> None:
    """Let librdkafka check its settings and the files that they name, without a connection."""
    from confluent_kafka import Consumer, KafkaException

    try:
        Consumer(settings).close()
    except KafkaException as error:
        raise AdapterError(f"the settings of Kafka: {_reason(error)}") from error


def _read_settings(path: str) -> dict[str, str]:
    """Return the settings of a file.

    Raises:
        AdapterError: it cannot be read, or has one that belongs to the adapter.
    """
    try:
        text = text_file.read_text(Path(path), SETTINGS_BYTES_MAX, "a file of settings")
    except ConfigError as error:
        raise AdapterError(f"settings_file: {error}") from error
    settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = (part.strip() for part in line.partition("="))
        if not (name and sign):
            raise AdapterError(f"settings_file: {path}, line {number}: expected name=value")
        if name in _OWN_SETTINGS:
            raise AdapterError(f"settings_file: {path}, line {number}: '{name}' belongs to the adapter")
        settings[name] = value
    return settings


def _headers(message: Message) -> dict[str, Any]:
    """Return the headers as text; one that comes several times is a list."""
    values: dict[str, list[str]] = {}
    headers: Any = message.headers() or ()
    for name, value in headers:
        values.setdefault(name, []).append(text_or_base64(value or b""))
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def _names(topic: str, name: str) -> bool:
    """Return whether a topic of the options, which may be a pattern, names this topic."""
    return bool(re.match(topic, name)) if topic.startswith("^") else topic == name


def _state(topic: str, partition: int) -> str:
    return f"partition {partition} of {topic}"


def _reason(error: Exception) -> str:
    """Return one line for a user from an error of librdkafka."""
    inner = error.args[0] if error.args else error
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return (text.splitlines() or [type(error).__name__])[0]
