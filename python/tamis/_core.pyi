"""Types the compiled core, whose public face with its docstrings is the package `tamis`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from os import PathLike
from typing import Any, BinaryIO, Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar, final, overload

from typing_extensions import Buffer

from tamis.errors import QueryWarning
from tamis.message import Body, Properties
from tamis.query import FieldValue

_K = TypeVar("_K")

__all__ = [
    "LANGUAGES",
    "Bitmap",
    "Broker",
    "Engine",
    "IdLists",
    "Ids",
    "JournalReader",
    "KeyArray",
    "Query",
    "Signature",
    "StoredHierarchies",
    "__version__",
    "amqp_decode_frame",
    "amqp_encode_method",
    "boolean",
    "broker_limits",
    "compile_query",
    "contains",
    "fields",
    "give_memory_back",
    "journal_kind",
    "near",
    "opaque",
    "prefix",
    "read_messages",
    "regex",
    "selector",
    "show_query_error",
    "show_query_warning",
    "stream_message",
    "topic",
    "words",
]
__version__: str

_Scalar: TypeAlias = bool | int | float | str | datetime
_Tree: TypeAlias = (
    tuple[Literal["and", "or"], list[_Tree]]
    | tuple[Literal["not"], _Tree]
    | tuple[Literal["="], str, list[_Scalar], Query]
    | tuple[Literal["range"], str, _Scalar | None, _Scalar | None, Query]
    | tuple[Literal["predicate"], Query]
)

@final
class Query:
    """A compiled query, which is true, false or unknown for a message.

    The functions of `tamis` (`selector`, `topic`, ...) make it. It is immutable and thread-safe.

    - ``q & r``, ``q | r`` and ``~q`` combine queries of all languages.
    - Two queries are equal if they are written alike, and then have the same hash.
    - ``str(q)`` is selector text, and ``tamis.selector(str(q)) == q``.
    - A query can be copied. It can be pickled unless it has an expensive predicate (`tamis.opaque`)."""

    def evaluate(
        self,
        properties: Properties | None = None,
        topic: str | None = None,
        body: Body = None,
        *,
        hierarchies: Mapping[str, Mapping[str, str | None]] | None = None,
        signature: Signature | None = None,
    ) -> bool | None:
        """Return True, False, or None for unknown.

        Args:
            properties: the record, name -> value. Its keys ``topic`` and ``body`` are the parts that are not given, if
                they are texts.
            topic: dotted words; without it and the key, the empty text.
            body: text, or bytes that are text when they are valid UTF-8; without it and the key there is no body.
            hierarchies: attribute -> {value: parent or None}, for UNDER, which is unknown without it.
            signature: the signature of `body`, if you have it; the result is the same without it.

        Raises:
            TypeError: an argument or a property has a type that it cannot have; the text names it.
            ValueError: an integer is beyond 64 bits, a text has half of a surrogate pair, the nesting is over 100, or a
                hierarchy has a cycle or a parent that is not in it.

        Cost: per predicate, linear in the message."""

    def highlight(
        self, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> list[tuple[int, int]]:
        """Return the ranges of characters in `body` that made text predicates true, ascending.

        Args:
            properties: the record, as for `evaluate`.
            topic: dotted words.
            body: text; bytes that are not text have no ranges.

        Returns:
            Pairs (start, end), as in ``body[start:end]``.

        Raises:
            TypeError, ValueError: as `evaluate`.

        Cost: per text predicate, linear in the body."""

    def tree(self) -> _Tree:
        """Return the query's structure, for algorithms that are written outside the core.

        Returns:
            Nested tuples, each with its kind first: ``("and", [trees])``, ``("or", [trees])``, ``("not", tree)``; for
            ``name = value`` and ``name IN (...)`` ``("=", name, [values], query)``; for comparisons and BETWEEN with
            literals ``("range", name, low, high, query)``, true only within the bounds, where None is no bound; for
            any other predicate ``("predicate", query)``. Each `query` is that one predicate. Names are those of
            properties; operands are in the order written."""

    @property
    def hierarchies(self) -> tuple[str, ...]:
        """The names of the properties that the query tests with UNDER: a sorted tuple, each name once.

        Such a query needs a hierarchy for each of these names (`Engine.hierarchy`, or `hierarchies` of `evaluate`);
        without it UNDER is unknown of every message. A name whose case does not matter is in lower case.

        Cost: linear in the predicates."""

    @property
    def warnings(self) -> tuple[QueryWarning, ...]:
        """The warnings about probable mistakes in the query's text (`tamis.QueryWarning`), in the order of the text.

        A query from a snapshot has none, for a snapshot has no texts."""

    def price(self) -> tuple[int, int]:
        """Return what the query takes: bytes when compiled, and the worst nanoseconds per byte of a message's texts.

        Both are estimates that are never far too low. The words of a body are found once per message, for all queries
        together, and are not in the price. A broker refuses queries whose price is over its limits.

        Cost: linear in the predicates."""

    def opaques(self) -> list[tuple[str, float, int, int, float | None, str | None]]:
        """Return the query's expensive predicates, from left to right, with their calls from all queries and engines.

        Returns:
            (name, declared cost in microseconds, number of calls, number of failed calls, mean microseconds of the
            timed calls, the last failure). One call in sixteen is timed; the last two are None before the first."""

    def __and__(self, other: Query, /) -> Query: ...
    def __rand__(self, other: Query, /) -> Query: ...
    def __or__(self, other: Query, /) -> Query: ...
    def __ror__(self, other: Query, /) -> Query: ...
    def __invert__(self) -> Query: ...
    def __bool__(self) -> NoReturn:
        """Raise TypeError: a query is neither true nor false without a message."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Query: ...
    def __deepcopy__(self, memo: object) -> Query: ...
    def __reduce__(self) -> tuple[Any, tuple[str, bool]]: ...

@final
class Engine:
    """Subscriptions by id; `tamis.Engine` adds the keys."""

    def __new__(cls) -> Engine: ...
    @staticmethod
    def open(path: str | PathLike[str], verify: bool, opaque: dict[str, Callable[..., Any]]) -> Engine:
        """Open a snapshot; `opaque` contains the functions of the expensive predicates that it names."""
    def next_id(self) -> int:
        """Return the id that the next subscription gets, unless another thread adds one first."""

    def change(self, added: list[Query], replaced: list[tuple[int, Query]]) -> list[int]:
        """Add queries and replace those of existing ids, in one step; return the ids of `added`."""

    def remove(self, subscription_id: int) -> bool: ...
    def ids(self) -> list[int]: ...
    def query(self, subscription_id: int) -> Query: ...
    def key_bytes(self, subscription_ids: list[int]) -> list[bytes | None]:
        """The encoded keys of ids, in the order given; None where the snapshot has no such id."""

    @overload
    def match(
        self,
        properties: Properties | None,
        topic: str | None,
        body: Body,
        signature: Signature | None,
        keys: None,
    ) -> Ids:
        """The subscriptions that a message satisfies: their keys in ``keys``, or their ids."""
    @overload
    def match(
        self,
        properties: Properties | None,
        topic: str | None,
        body: Body,
        signature: Signature | None,
        keys: KeyArray[_K] | None,
    ) -> list[_K] | Ids:
        """The subscriptions that a message satisfies: their keys in ``keys``, or their ids."""
    def match_json(self, data: str | Buffer, keys: KeyArray[_K] | None) -> list[_K] | Ids:
        """The subscriptions that a record in JSON, bytes or text of one object, satisfies: as ``match``."""
    def match_batch(self, table: Any, threads: int) -> tuple[IdLists, list[tuple[int, str, str]]]:
        """The ids for each row, and the rows that cannot be read: (number, column, reason)."""
    def expensive(self) -> list[str]:
        """The names of the expensive predicates, sorted."""
    def asked(self, names: list[str]) -> tuple[list[str], bool, bool]:
        """Return those of `names` for which a query asks, and whether one asks for the topic, and for the body."""
    def hits(self, properties: Properties | None, topic: str | None, body: Body) -> list[tuple[int, int, int]]: ...
    def near_misses(
        self, properties: Properties | None, topic: str | None, body: Body, off_by: int, limit: int
    ) -> list[int]: ...
    def explain(
        self, subscription_id: int, properties: Properties | None, topic: str | None, body: Body
    ) -> tuple[bool | None, list[tuple[str, Any, bool | None]], list[str]]: ...
    def report(self) -> dict[str, Any]:
        """Return the fields of `tamis.Report`, with ids where it has keys."""

    def names(self) -> list[str]:
        """Return the names of the properties that queries ask for, sorted."""

    def time_matches(
        self, messages: list[tuple[Properties, str, str | None] | bytes], warm_up: int, rounds: int
    ) -> list[tuple[int, int, int]]:
        """Match each message, or record in JSON, `rounds` times in the core, after `warm_up` rounds.

        Returns:
            For each message, the median wall time and the median CPU time of the thread in nanoseconds, and the number
            of subscriptions that it satisfies."""

    def hierarchy(self, attribute: str, parents: Mapping[str, str | None]) -> None: ...
    def save(self, path: str | PathLike[str], keys: list[tuple[int, bytes]], opaque_names: bool) -> None:
        """Write a snapshot; `keys` are the encoded keys by id. Expensive predicates are written by name, if at all."""
    def bytes(self) -> int:
        """Return the memory of the queries and their index in the core, in bytes."""
    def text_bytes(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Bitmap:
    """A row of bits, compressed, with every operation of the bitmap engine in the OpenAMQ and Malamute papers.

    ``&``, ``|`` and ``^`` join bitmaps of the same size (a ValueError otherwise), and ``~`` inverts one. ``==``
    compares size and bits, and ``len`` is the size. A bitmap is thread-safe, and can be copied and pickled. It can
    change, and so has no hash.

    Args:
        size: number of bits, 0 to 2^32; all are clear at first.

    Raises:
        ValueError: `size` is out of bounds.
        TypeError: an argument is no integer.
        IndexError: an index is not from 0 to `size` (exclusive).

    Cost: memory for the set bits only (Roaring); each operation on one bit takes well under a microsecond.

    Source: the OpenAMQ paper, "The bitmap engine"; the Malamute paper."""

    def __new__(cls, size: int) -> Bitmap: ...
    def set(self, index: int) -> None:
        """Set the bit `index`; an IndexError outside the size."""

    def clear(self, index: int) -> None:
        """Clear the bit `index`; an IndexError outside the size."""

    def test(self, index: int) -> bool:
        """Return whether the bit `index` is set; an IndexError outside the size."""

    def reset(self) -> None:
        """Clear every bit."""

    def count(self) -> int:
        """Return the number of bits that are set."""

    def first_set(self) -> int | None:
        """Return the lowest set bit, or None."""

    def last_set(self) -> int | None:
        """Return the highest set bit, or None."""

    def next_set(self, index: int) -> int | None:
        """Return the lowest set bit after `index`, or None."""

    def previous_set(self, index: int) -> int | None:
        """Return the highest set bit before `index`, or None."""

    def first_clear(self) -> int | None:
        """Return the lowest clear bit, or None."""

    def last_clear(self) -> int | None:
        """Return the highest clear bit, or None."""

    def next_clear(self, index: int) -> int | None:
        """Return the lowest clear bit after `index`, or None."""

    def previous_clear(self, index: int) -> int | None:
        """Return the highest clear bit before `index`, or None."""

    def write(self, file: BinaryIO) -> None:
        """Write the bitmap to a binary file: its length, a mark, the size, and Roaring's portable format.

        Args:
            file: open for writing bytes.

        Raises:
            TypeError: `file` takes no bytes.
            OSError: it cannot be written."""

    @staticmethod
    def read(file: BinaryIO) -> Bitmap:
        """Read a bitmap that `write` wrote, and no byte after it.

        Args:
            file: open for reading bytes.

        Raises:
            ValueError: the bitmap is damaged, or there is none.
            TypeError: `file` gives no bytes.
            OSError: it cannot be read."""

    def __and__(self, other: Bitmap, /) -> Bitmap:
        """Return the bits that are set in both; ValueError if the sizes differ."""

    def __rand__(self, other: Bitmap, /) -> Bitmap: ...
    def __or__(self, other: Bitmap, /) -> Bitmap: ...
    def __ror__(self, other: Bitmap, /) -> Bitmap: ...
    def __xor__(self, other: Bitmap, /) -> Bitmap: ...
    def __rxor__(self, other: Bitmap, /) -> Bitmap: ...
    def __invert__(self) -> Bitmap:
        """Return the bitmap with every bit inverted."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[type[Bitmap], tuple[int], bytes]: ...
    def __setstate__(self, state: bytes, /) -> None: ...

@final
class KeyArray(Generic[_K]):
    """The keys of subscriptions by id."""

    def __new__(cls) -> KeyArray[_K]: ...
    def update(self, ids: list[int], keys: list[_K]) -> None:
        """Set the keys of `ids`, which are as many as `keys`."""
    def all_of(self, ids: list[int]) -> list[_K] | None:
        """Return the keys of ids, in the order given; None when one of them has no key."""
    def missing(self, ids: list[int]) -> list[int]:
        """Return the ids that have no key, in the order given."""
    def __getitem__(self, subscription_id: int, /) -> _K:
        """Return the key of an id; a KeyError when it has none."""
    def __delitem__(self, subscription_id: int, /) -> None:
        """Forget the key of an id."""

@final
class Ids:
    """The ids of the subscriptions that a message satisfies, ascending."""

    def to_list(self) -> list[int]: ...
    def to_bitmap(self, size: int) -> Bitmap:
        """The ids as the bits of a bitmap of `size` bits, which is above all of them."""
    def __len__(self) -> int: ...

@final
class IdLists:
    """An Arrow array with a list of subscription ids per row; null for a row that cannot be read."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
    def to_pylist(self) -> list[list[int] | None]:
        """Return a list of ids for every row; None for a row that cannot be read."""
    def __len__(self) -> int: ...
    def __getitem__(self, row: int, /) -> list[int] | None: ...

@final
class Signature:
    """The positions of each term in a text, without the stop words of its source.

    `match` and `evaluate` take it beside the body that it was made of, and need not find the words again. No result of
    a query depends on it. ``len`` is the number of terms, and ``in`` asks for one.

    Args:
        text: the body.
        stop_words: words that are left out, normalised or not; None leaves nothing out.

    Raises:
        TypeError: `text` is no text, or `stop_words` are no words.

    Cost: linear in `text`.

    Source: the PNNL paper, section 3.2."""

    def __new__(cls, text: str, stop_words: Iterable[str] | None = None) -> Signature: ...
    def positions(self, term: str) -> list[int]:
        """Return the positions of `term`, in words from 0, ascending; empty if it is absent or a stop word."""

    def terms(self) -> dict[str, list[int]]:
        """Return every term with its positions."""

    @property
    def word_count(self) -> int:
        """The number of words in the text, including stop words."""

    def __len__(self) -> int: ...
    def __contains__(self, term: str, /) -> bool: ...

@final
class JournalReader:
    """Reads the log that the broker keeps in a directory, also while the broker writes, up to the last synced record.

    Thread-safe; it writes nothing. A number (sequence) counts from 1 and names one record for ever.

    Args:
        path: the directory.
        start: the number to begin with; without it, the first record that is kept.
        time_us: begin with the first record of this time or later, in microseconds since 1970.

    Raises:
        JournalError: there is no log, or a newer version wrote it.
        OSError: the directory cannot be read."""

    def __new__(
        cls, path: str | PathLike[str], start: int | None = None, *, time_us: int | None = None
    ) -> JournalReader: ...
    def read(
        self, count_max: int = 1000, bytes_max: int = 4_194_304
    ) -> tuple[list[tuple[int, int, int, bytes]], list[tuple[int, int, str]]]:
        """Return the next records and gaps; both are empty when all synced records have been read. Call it again later.

        Returns:
            Records as (sequence, microseconds since 1970, kind, body), ascending; at most `count_max`, and no more once
            `bytes_max` is reached. Gaps as (first, last, reason): numbers without a record, because retention has
            "removed" them or they are damaged ("records", "missing")."""

    def seek(self, sequence: int) -> None:
        """Continue at the record with this number."""

    @property
    def position(self) -> int:
        """The number of the next record."""

    @property
    def log_id(self) -> int:
        """The id of the log: a new log in the same directory has another id."""

    def first_sequence(self) -> int:
        """Return the number of the first record that is kept; `next_sequence` if there is none."""

    def next_sequence(self) -> int:
        """Return the number after that of the last synced record."""

    @staticmethod
    def inspect(path: str | PathLike[str]) -> dict[str, Any]:
        """Read and check every record of a log. Cost: linear in its size.

        Returns:
            `path`, `synced`, `segments` (each `ordinal`, `file`, `first_sequence`, `record_count`, `kinds` {kind:
            count}, `data_bytes`, `file_bytes`, `is_sealed`, `first_time_us`, `last_time_us`) and `damage` (each `kind`,
            `segment`, `offset`, `size_bytes`, `first_sequence`, `lost_count`), oldest first; and `missing`, a sentence
            for each file without which the log is not opened."""

    @staticmethod
    def accept_losses(path: str | PathLike[str]) -> list[str]:
        """Make the mark of a log fit the files that are there, so that it opens; no broker may use it meanwhile.

        Returns:
            A sentence for each file that was missing, at most 7; none if the log was whole: then nothing is written.

        Raises:
            JournalError: nothing tells which log it is, or a newer version wrote it.
            OSError: a file cannot be read or written."""

def journal_kind(kind: int, *, is_stream: bool) -> str | None:
    """Return the name of a kind of records, in the broker's journal or in the log of a stream; None if it has none."""

def read_messages(table: Any) -> list[tuple[dict[str, Any], str, str | bytes | None] | None]:
    """The message in each row of an Arrow table, as `match_batch` reads it; None for a row that cannot be read."""

def stream_message(
    kind: int, record: bytes, query_body: Literal["none", "text", "json"] = "text"
) -> tuple[str, str, dict[str, Any], tuple[bytes, bytes], bytes]:
    """Return the message in a record of a stream's log.

    Args:
        kind: the kind of the record.
        record: the body of the record.
        query_body: as `x-query-body` of a binding: with "json" the fields of a JSON body are in a property `body`.

    Returns:
        Exchange, routing key, properties as queries in the broker see them, these properties as a variant (value,
        metadata), and body. In the properties, times that datetime cannot hold are PRESENT.

    Raises:
        ValueError: the record is of another kind, or no message, or its properties nest deeper than 100 or take more
            than 16 MiB."""

def give_memory_back(kept_ms: int) -> None:
    """Let a thread of the allocator give freed memory back to the system, from now on.

    Otherwise whoever allocates does it on the way, ten seconds after the memory was freed. To give back 12 MiB takes
    2 to 7 ms.

    Args:
        kept_ms: how long freed memory is kept for the next allocation, in milliseconds. It goes back bit by bit in that
            time.

    Raises:
        RuntimeError: the allocator cannot start the thread."""

LANGUAGES: tuple[str, ...]

def selector(text: str, dialect: str, is_fields: bool = False) -> Query:
    """A query from selector text. `is_fields` restores the mark of field criteria when a query is unpickled."""

def boolean(text: str, groupings: list[str]) -> Query:
    """A query in the Boolean language; for the names in `groupings`, equality means UNDER."""

def topic(pattern: str, dialect: str) -> Query:
    """A query for a topic pattern."""

def prefix(text: str, on: str) -> Query:
    """A query for the beginning of a text."""

def regex(pattern: str, on: str) -> Query:
    """A query for a text in which a regular expression matches."""

def fields(criteria: Mapping[str, FieldValue | None], require_all: bool) -> Query:
    """A query of field criteria: name -> value, or None for presence."""

def contains(phrase: str) -> Query:
    """A query for a word or an exact phrase of the body."""

def near(a: str, b: str, distance: int) -> Query:
    """A query for two words of the body with at most `distance` steps between them."""

def compile_query(text: str, language: str) -> Query | None:
    """A query in the language of that name; None when there is no such language."""

def show_query_error(text: str, position: int, expected: str, hint: str | None) -> tuple[str, str]:
    """Show an error of a query: with a caret under its position, or on one line."""

def show_query_warning(text: str, position: int, message: str, hint: str | None) -> str:
    """Show a warning about a query."""

def opaque(
    name: str, function: Callable[[dict[str, Any], str, str | bytes | None], bool | None], cost_us: float
) -> Query:
    """A query of one expensive predicate."""

def words(text: str) -> list[str]:
    """Return the words of `text` in order, as queries compare them.

    Args:
        text: any text.

    Returns:
        The UAX #29 segments with a letter or a digit, in NFKC, with simple case folding; no stemming, nothing left out.

    Raises:
        TypeError: `text` is no text.

    Cost: linear in `text`."""

def broker_limits() -> dict[str, int]:
    """Return the limits of the broker that no setting changes, by name."""

def amqp_decode_frame(data: bytes, frame_size_max: int) -> tuple[int, str, dict[str, Any], int] | None:
    """Return channel, name, fields and size in bytes of the first AMQP frame in `data`; None if it is incomplete.

    The name is a method's ("queue.declare"), "header", "body" or "heartbeat". Long strings are bytes. A header has
    `body_size` and `properties` (those that are set), a body has `body`. In tables, text is str if it is valid UTF-8,
    else bytes; a time is a datetime, or the number of seconds if its year is over 9999.

    Raises:
        AmqpError: the bytes are no frame, or the frame holds no valid method, header or table."""

def amqp_encode_method(channel: int, name: str, fields: Mapping[str, Any]) -> bytes:
    """Return the frame of an AMQP method. Absent fields are false, zero or empty; long strings are bytes or str.

    In tables an int becomes `I` or `l`, a float `d`, a str `S`, bytes `x`, a datetime whole seconds.

    Raises:
        ValueError: there is no such method or field, or a value does not fit its field.
        TypeError: a table has a value of a type that AMQP lacks."""

class _BrokerControl(Protocol):
    """The control plane. The data plane calls it synchronously: it answers quickly and never calls the broker."""

    def allowed(
        self, user: str, verb: Literal["configure", "write", "read"], vhost: str, resource: str, routing_key: str | None
    ) -> bool: ...
    def has_topic_rules(self, user: str, vhost: str) -> bool:
        """Return whether `allowed` has to be asked about routing keys."""

    def limits(self, user: str) -> tuple[int | None, int | None]:
        """Return the maximum numbers of connections and queues of a user; None: no limit."""

    def stored_query(self, key: str) -> tuple[str, str]:
        """Return language and text of a query of the store; the text of a LookupError says why there is none."""

_BrokerOutput: TypeAlias = tuple[list[tuple[int, bytes, bool, bool]], bool, bool, int | None]
"""The result of a call: output for connections, whether there is more now, whether to call `work` now, and the time
(`now_us`) at which to call it otherwise; None when that is no earlier than what was returned before.

The output of a connection is its number, the bytes to write, whether it stays open, and whether to go on reading its
socket. One call returns at most 256 KiB per connection and 1.25 MiB in total; a connection may occur twice."""

@final
class StoredHierarchies:
    """The hierarchies of all attributes, as a store has them.

    Reading and clearing them releases the interpreter: do both in a thread. Cost: linear in the texts.

    Args:
        trees: by attribute, the JSON text of an object: value to parent, or to null for a root.

    Raises:
        ValueError: a text is no such object, or has a cycle or a parent that is not declared."""

    def __new__(cls, trees: Mapping[str, str]) -> StoredHierarchies: ...
    def attributes(self) -> list[str]:
        """Return the attributes, sorted."""

    def clear(self) -> None:
        """Free the memory of the trees."""

@final
class Broker:
    """The data plane of the AMQP broker: bytes in, bytes out. A process has one, and uses it from one thread.

    `now_us` is the time of a monotonic clock, `wall_us` microseconds since 1970. Nothing that a client sends raises.

    It begins with the contents of the directory `data`; without one, nothing outlives the process.

    Raises:
        JournalError: the directory's contents cannot be read.
        OSError: the directory cannot be used."""

    def __new__(
        cls,
        control: _BrokerControl,
        *,
        frame_max: int,
        channel_max: int,
        message_bytes_max: int,
        memory_bytes_max: int,
        seed: int,
        now_us: int,
        wall_us: int,
        connection_bytes: int = 0,
        streams_max: int = 16_384,
        data: str | PathLike[str] | None = None,
        segment_bytes: int = 67_108_864,
        syncs: bool = True,
        confirms_received: bool = False,
        queries: Mapping[str, int] | None = None,
        addresses: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Broker: ...
    def recovered(self) -> dict[str, Any]:
        """Return the contents of the directory at the start: `definitions`, `messages`, `is_clean` and `damage`."""

    def wake_fd(self) -> int | None:
        """Return a descriptor that is readable when `committed` has something to do; its bytes have no meaning."""

    def committed(self, now_us: int) -> None:
        """Confirm everything that the journal has written to disk."""

    def take_longest_call(self) -> tuple[int, str]:
        """Return the microseconds of the longest call since the last question, and its name: `receive queue.bind`."""

    def work(self, now_us: int, bytes_max: int = 1_048_576) -> _BrokerOutput:
        """Continue deferred work (streams, freeing many messages) for some milliseconds, and expire what is due."""

    def fatal(self) -> str | None:
        """Return why the journal has failed; None if it has not. After a failure the process must end."""

    def commit(self) -> None:
        """Write and sync all records; return when they are on disk."""

    def add_vhost(self, name: str) -> None:
        """Add a virtual host, unless it exists."""

    def set_hierarchies(self, hierarchies: StoredHierarchies, now_us: int) -> None:
        """Replace all hierarchies. `hierarchies` has those before then: clear it in a thread.

        Cost: linear in the attributes and the exchanges."""

    def stored_keys(self) -> list[str]:
        """Return the keys of the store that bindings name, each once."""

    def replace_stored(
        self, queries: Mapping[str, tuple[str, str]], now_us: int
    ) -> tuple[int, list[tuple[str, str]], bool] | None:
        """Replace the queries of bindings that name one of `queries` (key: language and text).

        Returns:
            The number of bindings that have changed, the keys whose query cannot be bound, with the reason, and whether
            more bindings have to follow: call it again, without these keys. Or None: the journal has no room now, and
            nothing has changed."""

    def connect(
        self,
        *,
        user: str,
        vhost: str,
        frame_max: int,
        channel_max: int,
        heartbeat_s: int,
        peer: str,
        client_name: str,
        knows_blocked: bool,
        knows_cancel: bool,
        qos_is_for_channel: bool,
        now_us: int,
        identity: str = "",
    ) -> int:
        """Take over a connection after its open-ok; return its number, which no other connection ever has."""

    def receive(self, connection: int, data: Buffer, now_us: int, bytes_max: int = 1_048_576) -> _BrokerOutput:
        """Take one read of a socket. An error in it becomes a close in the connection's output."""

    def take_output(self, bytes_max: int = 1_048_576) -> _BrokerOutput:
        """Return the output of connections that have some now; of no further one once it has `bytes_max`."""

    def disconnect(self, connection: int, now_us: int) -> None:
        """Remove a connection whose socket is closed."""

    def is_attentive(self) -> bool:
        """Return whether a client has published a little of late and waits for the answer: then turns are short.

        Cost: some nanoseconds."""

    def wants_pieces(self, connection: int) -> bool:
        """Return whether a connection is to be read in small pieces: it sends the rest of a large body, and a client
        waits for its answer.

        Cost: some nanoseconds."""

    def set_writable(self, connection: int, is_writable: bool) -> None:
        """Set whether the socket takes bytes. While it does not, nothing is delivered to the connection."""

    def tick(self, now_us: int, wall_us: int) -> None:
        """Check heartbeats and old segments of streams. Call it about ten times a second."""

    def stop(self, reason: str, now_us: int) -> None:
        """Close all connections with 320 and refuse new ones."""

    def close(self, connection: int, reason: str, now_us: int) -> None:
        """Close one connection with 320."""

    def forget_reader(self, vhost: str, stream: str, reader: str) -> bool:
        """Forget the offset of a named reader of a stream; return whether there was one.

        Raises:
            ValueError: a consumer reads under that name.
        """

    def forget_permissions(self, user: str | None = None) -> None:
        """Forget the cached permissions of `user`, or of all users."""

    def take_events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events since the last call, for the log: name and fields."""

    def note_process_memory(self, size_bytes: int) -> None:
        """Tell how much memory the process has without what it had at first: what nothing counts, counts too."""

    def memory_counted_bytes(self) -> int:
        """Return the memory that the data plane counts by itself. It takes some nanoseconds."""

    def metrics(self) -> dict[str, int]:
        """Return counters and gauges of the whole broker."""

    def rows(self, kind: str, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
        """Return a page of vhosts, connections, queues, consumers, exchanges or bindings, and the number of all.

        A page ends before `limit` where its rows are large."""
