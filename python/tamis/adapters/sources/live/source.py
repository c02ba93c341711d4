"""Defines a live source: it looks for messages when that is due, and keeps them in a spool until they are processed.

When a look fails, the next one waits for a time that doubles with each failure, varied by up to a third so that many
adapters do not come back at the same moment; a server's own wish (Retry-After) counts if it is longer. Until then the
adapter fails with the reason, unless there are messages in the spool to go on with."""

from __future__ import annotations

import importlib.util
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from tamis.adapters.json_row import JsonRowOptions, json_row
from tamis.adapters.options import PropertyOptions, SourceOptions, option
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, digest_of, mail_row
from tamis.adapters.sources.live.spool import SPOOL_FILE, Item, Spool, read_items, waiting_after
from tamis.adapters.sources.source import Offset, Range, Slice, Source, offset_of, progress_of
from tamis.errors import AdapterError

BACK_OFF_S: Final = 5.0
BACK_OFF_S_MAX: Final = 3600.0
WAIT_S_MAX: Final = 86_400.0
"""Maximum time until a try after a failure; one that is further away comes from a wrong clock."""
SLICE_ITEMS: Final = 2_000
CARRIED_BYTES: Final = 4 << 20
"""Number of bytes of carried messages after which a slice ends."""
_PLACE: Final = "spool"


class LookError(AdapterError):
    """A look for messages failed; a later one may succeed.

    Attributes:
        retry_after_s: the server asked to wait for this time.
    """

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True)
class LiveOptions(PropertyOptions):
    """The options of every live source.

    Attributes:
        spool: the folder of its spool, on a local disk; a pipeline has its own for each adapter.
        carry: messages travel with Spark's tasks, so that workers need not see the spool; a pipeline does so where
            Spark runs on other machines.
        poll_interval_ms: time between two looks; None: the source's own.
        starting_offset: ``first``: what is there at the first look is read; ``next``: only what comes later.
        source: the property `source`, where messages have one; None: the adapter's topic.
    """

    spool: str = option("", is_path=True, in_pipeline=False, required="a folder for messages until they are processed")
    carry: bool = option(False, in_pipeline=False)
    poll_interval_ms: int | None = option(None, minimum=1, in_pipeline=False)
    starting_offset: str = option("first", words=("first", "next"))
    source: str | None = option(None)


@dataclass(frozen=True, slots=True)
class CarriedSlice(Slice):
    """A slice with its messages."""

    items: tuple[Item, ...] = ()


class LiveSource(Source):
    """A source that fetches or receives messages.

    Progress is ``[number, id]``: the number of the last message in the spool, and the id of the spool.
    """

    Options: ClassVar[type[SourceOptions]] = LiveOptions
    packages: ClassVar[tuple[str, ...]] = ()
    """The packages that it needs."""
    unit = "messages"
    extra: ClassVar[str] = "adapters"
    """The extra of tamis that has them."""
    options: LiveOptions

    def __init__(self, options: LiveOptions) -> None:
        super().__init__(options)
        self.poll_s = (options.poll_interval_ms or self.poll_interval_ms) / 1000
        self._opened: Spool | None = None
        self._clock: Callable[[], float] = time.time
        self._at_once = False
        self._forgotten = 0

    def check(self) -> None:
        """Check the options, without a connection.

        Raises:
            AdapterError: one cannot be used, or a package is not installed.
        """
        for name in self.packages:
            if importlib.util.find_spec(name) is None:
                raise AdapterError(
                    f"type '{self.type}': expected the package {name}; pip install 'tamis[{self.extra}]'"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what belongs to one process."""
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, without a spool."""
        self.__init__(state["options"])  # type: ignore[misc]

    @abstractmethod
    def look(self, spool: Spool) -> bool:
        """Look once, and put new messages and the state of the source into the spool, within its `transaction`.

        Returns:
            Whether there is more, so that the next look should be at once.

        Raises:
            LookError: it failed; what was put into the spool before stays there.
        """

    @abstractmethod
    def look_for(self, count: int) -> Iterator[Item]:
        """Return about `count` messages for a test, which changes nothing here or at the server.

        Raises:
            AdapterError: they cannot be had.
        """

    def is_due(self, spool: Spool) -> bool:
        """Return whether it is time to look, if no failure is waited for.

        A time that is further away than the interval comes from a wrong clock.
        """
        return not self.is_ahead(spool.state("look_at") or 0.0, self.poll_s)

    def is_ahead(self, at: float, most_s: float = WAIT_S_MAX) -> bool:
        """Return whether a time is still to come; one that is further away than `most_s` comes from a wrong clock."""
        now = self._clock()
        return now < at <= now + most_s

    def processed(self, number: int) -> bool:
        """Tell the server, if it wants to know, that the messages of the spool up to a number have been processed.

        Returns:
            Whether it knows; if not, they stay in the spool, and it is told again.
        """
        del number
        return True

    def spool(self) -> Spool:
        """Return the spool of this process, opened at the first call.

        Raises:
            AdapterError: it cannot be used.
        """
        if self._opened is None:
            if not self.options.spool:
                raise AdapterError("no spool: expected a folder for messages until they are processed")
            self._opened = Spool(self.options.spool)
        return self._opened

    def close(self) -> None:
        """Close what is open; it is opened again when it is needed."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """Implement `Source.latest`: looks for messages if that is due."""
        del settled
        spool = self.spool()
        number = self._number(spool, start)
        if number > self._forgotten and self.processed(number):
            spool.forget(number)
            self._forgotten = number
        problem = None if ceiling is not None else self._look_if_due(spool)
        end = max(number, spool.newest() if limit is None else spool.last(number, limit, self.options.max_bytes))
        if ceiling is not None:
            end = min(end, self._number(spool, ceiling))
        if end > number:
            return offset_of({_PLACE: [end, spool.id]})
        if problem is not None:
            raise problem
        return start

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """Implement `Source.plan`: slices of at most 2,000 messages."""
        spool = self.spool()
        whole = Range(str(spool.path), self._number(spool, start), self._number(spool, end))
        if self.options.carry:
            return list(_carried(whole))
        bounds = range(whole.start, whole.end, SLICE_ITEMS)
        return [Slice((replace(whole, start=at, end=min(at + SLICE_ITEMS, whole.end)),)) for at in bounds]

    def read(self, part: Slice) -> Iterator[Row]:
        """Implement `Source.read`, from the slice or the spool's file.

        Raises:
            AdapterError: the file cannot be read here, or lacks messages.
        """
        if isinstance(part, CarriedSlice):
            yield from map(self.row, part.items)
            return
        for piece in part.ranges:
            yield from map(self.row, _all_items(piece))

    def behind(self, start: Offset) -> int:
        """Implement `Source.behind`: the messages in the spool, while another process adds to it."""
        number = progress_of(start).get(_PLACE, [0, ""])[0]
        return waiting_after(Path(self.options.spool) / SPOOL_FILE, number)

    def wait_until_settled(self) -> None:
        """Let the next look be at once, and others follow it while there is more: the caller wants everything."""
        self._at_once = True

    def sample(self, count: int) -> Iterator[Row]:
        """Implement `Source.sample`, from the server itself."""
        return map(self.row, self.look_for(count))

    def row(self, item: Item) -> Row:
        """Return the row of a message."""
        topic, digest = item.topic or self.options.topic, digest_of(item.key.encode() + b"\0" + item.content)
        if item.error is not None:
            raw = item.content[:RAW_KEPT_BYTES]
            return Row(item.place, 0, digest, topic, error=item.error, raw=raw, identity=item.key)
        return self.row_of(item, topic)

    def row_of(self, item: Item, topic: str) -> Row:
        """Return the row of a message that has no error: JSON, or mail if the class's properties are a table."""
        if self.properties == "json":
            own, words = self.options, self.signature_stop_words
            options = (
                own
                if isinstance(own, JsonRowOptions)
                else JsonRowOptions(xml=own.xml, topic_field=own.topic_field, fields=own.fields)
            )
            return json_row(item.content, item.place, 0, topic, options, words, identity=item.key)
        return mail_row(
            item.content,
            item.place,
            0,
            topic=topic,
            topic_field=self.options.topic_field,
            fields=self.options.fields,
            source=self.options.source or self.options.topic,
            stop_words=self.signature_stop_words,
            xml=self.options.xml,
        )

    def _look_if_due(self, spool: Spool) -> AdapterError | None:
        """Look if it is time; return why the last look failed, if it did."""
        now = self._clock()
        failure = spool.state("failure")
        if failure is not None and self.is_ahead(failure["until"]):
            return AdapterError(f"{failure['reason']}; the next try is at {_moment(failure['until'])}")
        if spool.is_full() or not (failure or self._at_once or self.is_due(spool)):
            return None
        wants_all, self._at_once = self._at_once, False
        try:
            has_more = self.look(spool)
            while wants_all and has_more and not spool.is_full():
                before = spool.newest(), spool.states()
                has_more = self.look(spool)
                if before == (spool.newest(), spool.states()):
                    break  # the server gives no more until some have been processed
        except LookError as error:
            return self._failed(spool, error, 1 + (failure or {"count": 0})["count"])
        with spool.transaction():
            spool.set_state("look_at", now if has_more else now + self.poll_s)
            spool.set_state("failure", None)
        return None

    def _failed(self, spool: Spool, error: LookError, count: int) -> AdapterError:
        until = self._clock() + max(back_off_s(count), error.retry_after_s)
        with spool.transaction():
            spool.set_state("failure", {"reason": str(error), "count": count, "until": until})
        return AdapterError(f"{error}; the next try is at {_moment(until)}")

    def _number(self, spool: Spool, offset: Offset) -> int:
        number, spool_id = progress_of(offset).get(_PLACE, [0, spool.id])
        if spool_id != spool.id:
            raise AdapterError(
                f"{spool.path}: the spool was removed since the adapter read up to message {number:,}. To go on, stop "
                "the pipeline, remove the folder of the adapter in 'checkpoints', and start again: nobody is notified "
                "twice"
            )
        return int(number)


def _all_items(piece: Range) -> Iterator[Item]:
    """Yield the messages of a range of a spool, which must all be there."""
    count = 0
    for _, item in read_items(piece.path, piece.start, piece.end):
        count += 1
        yield item
    if count != piece.end - piece.start:
        raise AdapterError(
            f"{piece.path}: expected {piece.end - piece.start:,} messages after number {piece.start:,}, and found "
            f"{count:,}; a spool must be on a local disk of the machine that reads it: set the option carry where "
            "Spark runs on others"
        )


def _carried(whole: Range) -> Iterator[CarriedSlice]:
    """Cut a range of a spool to slices with their messages, by number and size."""
    at, items, size = whole.start, list[Item](), 0
    for item in _all_items(whole):
        items.append(item)
        size += len(item.content)
        if len(items) == SLICE_ITEMS or size >= CARRIED_BYTES:
            yield CarriedSlice((replace(whole, start=at, end=at + len(items)),), tuple(items))
            at, items, size = at + len(items), [], 0
    if items:
        yield CarriedSlice((replace(whole, start=at, end=whole.end),), tuple(items))


def back_off_s(count: int) -> float:
    """Return the seconds to wait after `count` failures: 5, 10, 20 ..., at most an hour, and up to a third more."""
    wait_s = min(BACK_OFF_S_MAX, BACK_OFF_S * float(2 ** min(count - 1, 20)))
    return wait_s * random.uniform(1.0, 4 / 3)  # noqa: S311 - no secret


def secret(env: str | None, file: str | None, name: str) -> str | None:
    """Return a secret from an environment variable or the first line of a file; None if neither is named.

    Args:
        env: the variable.
        file: the path.
        name: the option without ``_env`` and ``_file``, for errors.

    Raises:
        AdapterError: it is not there, or both are named.
    """
    import os

    if env and file:
        raise AdapterError(f"expected {name}_env or {name}_file, not both")
    if env:
        if not (value := os.environ.get(env)):
            raise AdapterError(f"{name}_env: the environment variable {env} is not set")
        return value
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").splitlines()[0]
        except (OSError, IndexError, UnicodeDecodeError) as error:
            raise AdapterError(f"{name}_file: {file}: expected a file whose first line is the {name}") from error
    return None


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
