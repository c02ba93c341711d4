"""Defines the page of benchmarks: the text and the charts of each section, and the aims.

A section's text says what is measured, where the workload comes from, and what the paper reports; the tables come from
the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import _charts
from _charts import Axis, Series

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """The document that one benchmark wrote."""

    document: dict[str, Any]

    @property
    def arguments(self) -> str:
        """The arguments of the run; empty for the defaults."""
        return self.document["arguments"]

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The tables, in the order in which they were printed."""
        return self.document["tables"]

    @property
    def was_busy(self) -> bool:
        """Whether other programs used the processors; the benchmark itself is a load of one."""
        before = self.document["load"][0]
        return before is not None and before > self.document["machine"]["cores"] - 0.5

    def records(self, name: str) -> list[Record]:
        """Return the records of all tables of that name."""
        return [record for table in self.tables if table["name"] == name for record in table["records"]]


@dataclass(frozen=True)
class Chart:
    """A chart of a run; `draw` returns None if the run lacks its figures."""

    name: str
    title: str
    draw: Callable[[Run], str | None]


@dataclass(frozen=True)
class PageSection:
    """A section of the page, about one benchmark."""

    benchmark: str
    title: str
    text: str
    charts: list[Chart] = field(default_factory=list)


# ---- charts ----------------------------------------------------------------------------------------------------------


def line_chart(
    name: str,
    title: str,
    x: Axis,
    y: Axis,
    series: Callable[[Run], list[Series]],
    guide: tuple[str, float] | None = None,
) -> Chart:
    """Define a chart of lines, which is left out without a series of at least two points."""

    def draw(run: Run) -> str | None:
        drawable = [one for one in series(run) if len(one.values) > 1]
        return _charts.lines(title, x, y, drawable, guide) if drawable else None

    return Chart(name, title, draw)


def point_chart(name: str, title: str, axis: Axis, of: Callable[[Run], tuple[list[str], list[Series]]]) -> Chart:
    """Define a chart of points in rows, which is left out without points."""

    def draw(run: Run) -> str | None:
        rows, series = of(run)
        return _charts.points(title, rows, axis, series) if rows else None

    return Chart(name, title, draw)


def grouped(records: Iterable[Record], by: str, x: str, y: str) -> list[Series]:
    """Return a series for each value of `by`, with the points (x, y) whose figures are both known and not 0."""
    points: dict[str, dict[float, float]] = {}
    for record in records:
        if (at := number(record.get(x))) and (value := number(record.get(y))):
            points.setdefault(str(record[by]), {})[at] = value
    return [Series(name, sorted(values.items())) for name, values in points.items()]


def columns(records: Iterable[Record], x: str, named: dict[str, str]) -> list[Series]:
    """Return a series over `x` for each key of `named`, which gives its title."""
    listed = list(records)
    return [
        Series(title, grouped([{**one, "": title} for one in listed], "", x, key)[0].values)
        for key, title in named.items()
        if any(number(one.get(key)) for one in listed)
    ]


def in_rows(records: list[Record], row: str, named: dict[str, str]) -> tuple[list[str], list[Series]]:
    """Return the names of the rows, from the key `row`, and a series for each key of `named`; drop rows without any."""
    records = [record for record in records if any(number(record.get(key)) for key in named)]
    values = {
        title: [(index, value) for index, record in enumerate(records) if (value := number(record.get(key)))]
        for key, title in named.items()
    }
    return [str(record[row]) for record in records], [Series(name, all_) for name, all_ in values.items() if all_]


def beside(records: list[Record], row: str, key: str) -> tuple[list[str], list[Series]]:
    """Return the names of the rows, from the key `row`, and a series for each broker."""
    rows: dict[str, Record] = {}
    for record in records:
        rows.setdefault(record[row], {row: record[row]})[record["broker"]] = record[key]
    return in_rows(list(rows.values()), row, {record["broker"]: record["broker"] for record in records})


def number(value: Any) -> float | None:
    """Return the number of a figure; a text begins with its number (`"400, 10 %"`)."""
    if isinstance(value, str):
        digits = value.split(",")[0].split(" ")[0]
        return float(digits) if digits.replace(".", "", 1).isdigit() else None
    return value


def _largest(records: list[Record], key: str) -> list[Record]:
    """Return the records with the greatest value of `key`."""
    most = max((record[key] for record in records), default=None)
    return [record for record in records if record[key] == most]


def _both_topics(run: Run) -> tuple[list[str], list[Series]]:
    """Return the rows for the largest number of patterns, with series for known and for new names."""
    known, new = (_largest(run.records(name), "patterns") for name in ("many-known", "many-new"))
    first = {record["matcher"]: record["match_us"] for record in new}
    rows = [{**record, "new_us": first.get(record["matcher"])} for record in known]
    return in_rows(rows, "matcher", {"match_us": "known names", "new_us": "new names"})


def _second_by_second(run: Run) -> list[Series]:
    return columns(run.records("seconds"), "second", {"median_s": "median", "max_s": "slowest"})


MICROSECONDS = Axis("µs per message (CPU)")

# ---- the page --------------------------------------------------------------------------------------------------------

SECTIONS = [
    PageSection(
        "shapes",
        "Queries of many shapes beside the simplest ways to match them",
        """
All queries of a row have one shape. The engine is compared with two kinds of baseline:

- **Simple ways**, which work for many shapes: brute force, with each query as a flat program; one hash access
  predicate, which evaluates only the queries filed under a value of the message; and flat columns of bounds, where all
  queries are ranges. The first ratio is the engine's time divided by that of the fastest simple way.
- **The special thing** works for one shape only: a grid for rectangles, buckets for windows, sorted bounds for
  thresholds, one hash for equalities, lists of the excluded for NOTs, one RegexSet for 500 expressions, one
  automaton for LIKE, one hash of pairs of words for words, phrases and NEAR. The second ratio compares with it. Its
  answers have no order, so that those of thresholds are a plain copy; the engine's answers ascend.

The shape whose worse ratio is the highest comes first. `TAMIS_SHAPES=full` makes 500,000 queries of each shape;
`--count` and `--seed` choose other queries. With few queries the engine's fixed cost of 0.03 to 0.2 µs per message
decides: ten windows of time take seven times as long as columns of bounds, and twenty long IN lists five times as
long as one hash.""",
    ),
    PageSection(
        "boolean",
        "Boolean filters beside the papers' algorithms",
        """
One message against N standing Boolean filters, beside every algorithm that the ITMO paper compares, the crate a-tree,
one hash table over access predicates, and brute force. All are written in Rust, behind one trait. The filters come
from the folder that the run names; without one they are workload B (below) without groupings and expensive predicates.
tamis and "access predicate from text" are given names and texts; the other matchers are given numbers for both, so
their times lack the reading of the message, 0.4 to 0.7 µs. "CPU in blocks" is the mean of messages that follow one
another; the percentiles come from messages between two readings of the clock. Their own cost is taken off, but code
that follows a system call runs slower, and this decides where a message takes 1 µs.
The paper's own algorithm (grouped) ranks lower here than in its table 1, because no predicate decides most messages:
workload B has such messages, and says what remains. That table is for 500,000 filters, 10,000 messages per minute and
16 cores; p50, p80, p90 and p99 are 2,356 3,578 4,295 4,493 µs (k-index), 1,866 2,876 3,293 3,429 (BE-tree), 2,065
3,220 3,822 3,974 (BDD) and 1,083 1,716 2,039 2,111 (its own). The paper checks the groups in parallel, a thread for
each; a sixteenth of what grouped takes here on one thread is near the paper's median, and its k-index is as fast as
ours on one thread. So most of the difference may be the cores; this is an inference, since we have two. In the tables
with all cores at work, only "grouped on all cores" splits one message over the cores; the others match one message per
core. Bytes are what a matcher holds, without the filters' text, which tamis keeps in coded form and the others do not
have. Build seconds are CPU time, from text for tamis and a-tree, from parsed trees for the others.""",
        [
            line_chart(
                "growth-beside-peers",
                "One message against N Boolean filters, median",
                Axis("standing filters"),
                MICROSECONDS,
                lambda run: grouped(run.records("costs"), "matcher", "filters", "p50_cpu_us"),
            ),
            point_chart(
                "spread-beside-peers",
                "Median and slow messages, at the largest number of filters",
                MICROSECONDS,
                lambda run: in_rows(
                    _largest(run.records("costs"), "filters"),
                    "matcher",
                    {"p50_cpu_us": "p50", "p90_cpu_us": "p90", "p99_cpu_us": "p99"},
                ),
            ),
        ],
    ),
    PageSection(
        "scale",
        "Growth, threads, snapshots",
        """
The engine alone on the same filters: time per match, memory per filter and build time by number of filters;
messages per second of several threads; and the time to write a snapshot, to open it, and to match for the first
time.""",
        [
            line_chart(
                "growth",
                "The engine by number of filters",
                Axis("standing filters"),
                MICROSECONDS,
                lambda run: columns(
                    run.records("growth"), "filters", {"p50_cpu_us": "p50", "mean_cpu_us": "mean", "p99_cpu_us": "p99"}
                ),
                ("as N to the power 0.6", 0.6),
            )
        ],
    ),
    PageSection(
        "workload_b",
        "Workload B, after the ITMO paper",
        """
The paper's proportions: at most 100 starting predicates; CFI removes half of the messages, the group passes 30 %,
trading 30 %; expensive predicates of 10 to 500 ns. In the first table half of the messages are `deleted`, in the second
nine tenths, as the paper says "most": then few messages need an expensive predicate (the paper: at best 10 %). Our own
choices, because the paper gives no number or another one: the groupings change ten times per second, a tenth of the
filters have an expensive predicate, and 40 % of the filters name a symbol.

All of the paper's algorithms answer the same queries. A table, which a change of the groupings writes, tells them the
group of a message's leaf; of what they have found, the expensive predicates are asked last, each at most once per
message. The note says how many expensive predicates were evaluated for messages that `deleted` had already decided: it
must be 0.""",
        [
            point_chart(
                "workload-b",
                "Workload B, time per message",
                MICROSECONDS,
                lambda run: in_rows(
                    [
                        {**one, "row": f"{one['matcher']}, {one['deleted_percent']} % deleted"}
                        for one in run.records("workload_b")
                        if "deleted_percent" in one
                    ],
                    "row",
                    {"p50_cpu_us": "p50", "p90_cpu_us": "p90", "p99_cpu_us": "p99"},
                ),
            )
        ],
    ),
    PageSection(
        "changes",
        "Changes, and the engine after many of them",
        """
Queries are added and removed one at a time while another thread matches without a pause. Matching is timed before
the changes, right after them, and during and after the merge that they cause.""",
        [
            point_chart(
                "worn",
                "Matching before and after many changes",
                Axis("µs per message (CPU)", is_log=False),
                lambda run: in_rows(run.records("worn"), "when", {"p50_cpu_us": "p50", "p99_cpu_us": "p99"}),
            )
        ],
    ),
    PageSection(
        "topics",
        "Topic patterns beside the papers' approaches",
        """
tamis beside the approaches that the papers compare, all in one language. The workloads are the OpenAMQ paper's
program (2,000 subscriptions, 2,000 topics; the paper: 12 s to compile and 26 s for a million messages with 170
million hits at 2 GHz), the RabbitMQ paper's (2,000 patterns, a million topics; the second part of the blog, in
Erlang: trie 11.7 s, and naive matching 15 times as long, hence 175 s), many patterns with known and with new names,
one to ten bindings, and the binding that takes RabbitMQ 124 ms. Names and subscriptions are generated as in the
OpenAMQ paper's program (`kernel/amq_test_matching.c` of OpenAMQ, 2005). Its random numbers differ from run to run:
five seeds gave 220 to 243 hits per message, the paper has 170, so compare the time per hit. All of this is without
Python. The RabbitMQ paper does not print the number of words: it is our guess.""",
        [
            point_chart("topics", "One topic name against many patterns", Axis("µs per topic (CPU)"), _both_topics),
            point_chart(
                "topics-openamq",
                "The OpenAMQ paper's program: a million messages, all hits counted",
                Axis("seconds (CPU)"),
                lambda run: in_rows(
                    run.records("openamq"), "matcher", {"match_s": "matching", "compile_s": "compiling"}
                ),
            ),
        ],
    ),
    PageSection(
        "topic_trie",
        "The topic trie",
        """
Names that match, new names, and names with a word that no pattern has, against up to a million patterns; patterns
that would make a backtracking search explode; and the cache of names.""",
        [
            line_chart(
                "topic-trie",
                "One topic name against N patterns",
                Axis("patterns"),
                Axis("µs per name (CPU)"),
                lambda run: columns(
                    run.records("costs"),
                    "patterns",
                    {
                        "matching_us": "matching names",
                        "new_us": "new names",
                        "strange_us": "with a strange word",
                        "brute_force_us": "every pattern",
                    },
                ),
            )
        ],
    ),
    PageSection(
        "routing",
        "The broker's exchanges",
        """
Bindings of one queue are made, removed one by one, and removed with their queue. Messages, with their properties as
they come over the wire, go through exchanges in which every binding leads to its own queue, beside a loop that
tests one binding after the other. RabbitMQ and LavinMQ evaluate headers bindings one by one.""",
        [
            point_chart(
                "routes",
                "One message through an exchange",
                Axis("µs per message (CPU)"),
                lambda run: in_rows(
                    run.records("routes"),
                    "what",
                    {"p50_cpu_us": "p50", "p99_cpu_us": "p99", "loop_cpu_us": "one by one"},
                ),
            )
        ],
    ),
    PageSection(
        "streams",
        "Streams and services",
        """
CPU time of the broker's process under load over AMQP from another core, and wall times. A stream without history
delivers from memory at once; one with history when the message is on disk. The other client sends itself a message
every 2 ms; where it may, its thread has the highest usual priority, ahead of the load beside it.""",
        [],
    ),
    PageSection(
        "replay",
        "Replay of a stream",
        """
One reader reads a stream on disk from its first message, in one thread, without sockets. A query that one message in a
million satisfies is asked in two ways: so that the summaries of the stream's runs of messages can tell which runs to
pass over, and so that they cannot.""",
        [],
    ),
    PageSection(
        "data_plane",
        "The broker without sockets",
        """
CPU time of the thread that routes and delivers, from the bytes of a publish to the bytes of its delivery; sockets, the
journal's thread and the disk are not in it. The last table has one match per message, among bindings of durable queues
with distinct queries and among as many live readers of a stream.""",
        [],
    ),
    PageSection(
        "broker",
        "The broker",
        """
CPU time of the broker's process, with all its threads and the journal's syncs, under load over AMQP from another
core. NATS is measured beside it if it is installed (its own protocol; JetStream with acknowledgements if messages
are persistent). On machines like this one, a million transient messages of 256 bytes took LavinMQ 1.0.1 1.31 s and
RabbitMQ 3.10 9 to 15 s (persistent and confirmed: 42 to 50 s); with 100,000 topic bindings they took 4,255 and 85
µs per message. Where the title of the table of PNNL's selectors does not say that the post is the paper's, the message
(2.5 kB) and the selectors are this benchmark's own.""",
        [
            point_chart(
                "broker-throughput",
                "One publisher, one consumer",
                Axis("CPU seconds per million messages"),
                lambda run: beside(run.records("throughput"), "work", "cpu_s"),
            ),
            point_chart(
                "broker-routing",
                "One match per message, receiving and delivering included",
                MICROSECONDS,
                lambda run: beside(run.records("routing"), "work", "us"),
            ),
        ],
    ),
    PageSection(
        "large_messages",
        "Large messages, and a start with a million messages",
        """
CPU time of the broker's process for one message after another, each whole at the consumer before the next is sent. The
relay is the least that anything can do: a program that reads each message whole and writes it. A start is measured with
durable messages and without; the difference is what the messages take.""",
    ),
    PageSection(
        "selectors",
        "Selectors on mail, criteria on fields",
        """
The PNNL paper sends 10 to 400 subscribers one newsgroup post. Its selectors become more expensive from level 1
(`From =`) to 2 (`Subject LIKE`), 3 (`Body LIKE`, near the start) and 4 (near the end). From 200 subscribers on, the
selector of a tenth of them matches. At 100 subscribers its JBoss fell from 1,082 to 18.6 messages per second
between the levels, its own system from 1,202 to 721. Here the same selectors are evaluated by the engine and one by
one, and bodies differ by a byte from message to message. The OpenAMQ paper's requests for fields follow: 10,000, of
100 kinds and all distinct.""",
        [
            line_chart(
                "newsgroup",
                "A newsgroup post: the cheapest and the most expensive selectors",
                Axis("subscribers"),
                MICROSECONDS,
                lambda run: columns(
                    _largest(run.records("newsgroup"), "body_bytes"),
                    "subscribers",
                    {
                        "level_1_us": "tamis, level 1",
                        "level_4_us": "tamis, level 4",
                        "one_by_one_1_us": "one by one, level 1",
                        "one_by_one_4_us": "one by one, level 4",
                    },
                ),
            )
        ],
    ),
    PageSection(
        "sigma",
        "Sigma's rules over Windows events",
        """
Real filters on wide, irregular messages: the Sigma project's detection rules for Windows, read as selectors,
against events that the Security-Datasets project recorded during simulated attacks. Most tests are `LIKE '%...'`
(endswith) and `LIKE '%...%'` (contains). Neither is part of this project; the benchmark is skipped if they are not
there.""",
        [
            point_chart(
                "sigma",
                "One event against all of Sigma's rules for Windows",
                Axis("µs per event (CPU)"),
                lambda run: in_rows(
                    run.records("events"), "way", {"p50_us": "p50", "mean_us": "mean", "p99_us": "p99"}
                ),
            )
        ],
    ),
    PageSection(
        "needles",
        "Many needles in one text",
        """
Thousands of `LIKE '%x%'`, prefixes and suffixes: one pass for all of them, beside one search after the other
(memchr's `memmem`) and the crate aho-corasick.""",
        [
            line_chart(
                "needles",
                "Needles in a text of 1,000 bytes",
                Axis("needles"),
                Axis("ns per byte of text (CPU)"),
                lambda run: columns(
                    [one for one in run.records("anywhere") if 900 < one["text_bytes"] < 1_100],
                    "needles",
                    {"one_pass_ns": "tamis, one pass", "one_by_one_ns": "one by one", "crate_ns": "aho-corasick crate"},
                ),
            )
        ],
    ),
    PageSection(
        "signature",
        "Signatures of texts",
        """
The signature of a text (term → positions), which queries for words use (the PNNL paper), beside a plain map of
lists.""",
    ),
    PageSection(
        "match_from_python",
        "What Python adds to a match",
        """
`match` converts a dict, matches it, and turns ids into keys. The core is timed on the same messages, converted
beforehand. `json.loads` is shown for comparison: most programs have called it before they call `match`. With few
queries, closures in Python and masks of pyarrow, which say the same, are the simplest thing that would do. Masks find
the rows of a query; `match_batch` makes a list of queries for each row.""",
        [
            point_chart(
                "python",
                "Messages of 6, 24 and 100 properties",
                MICROSECONDS,
                lambda run: in_rows(
                    [{**one, "row": f"{one['properties']} properties"} for one in run.records("single")],
                    "row",
                    {"core_us": "in the core", "match_us": "match(dict)", "json_us": "json.loads"},
                ),
            )
        ],
    ),
    PageSection(
        "event_rules",
        "Rules on events in JSON beside Quamina and event-ruler",
        """
Events of about 900 bytes, as bytes, and rules in the manner of EventBridge. Quamina (Go) and event-ruler (Java) were
built for them, and read the same rules as patterns in JSON. "In the core" and `match_batch` (JSON texts in one Arrow
column) are without calls from Python; `match_json` is called from Python for each event. Quamina does not read an event
to its end when it has seen all members that rules ask for, and so does not see that one is broken: on the first members
of an event it takes the least time while rules are few. tamis and event-ruler read all of it. A peer that cannot be had
where the benchmark runs has no column of figures.""",
        [
            line_chart(
                "event-rules",
                "One event of about 900 bytes against N rules",
                Axis("rules"),
                Axis("µs per event (CPU)"),
                lambda run: columns(
                    [{**one, "count": number(one["rules"].replace(",", ""))} for one in run.records("mixed")],
                    "count",
                    {
                        "core_us": "tamis, in the core",
                        "json_us": "tamis, match_json",
                        "quamina_us": "Quamina",
                        "ruler_us": "event-ruler",
                    },
                ),
            )
        ],
    ),
    PageSection(
        "arrow_batches",
        "Arrow batches",
        """
`match_batch` reads the buffers of a table in place. For bodies that no query asks for, the time per row grows only
by the check for UTF-8, and memory does not grow; both grow if Python strings are made of them. Wall-clock time.""",
        [
            line_chart(
                "arrow",
                "One row whose body no query asks for",
                Axis("bytes of the body"),
                Axis("µs per row (wall)"),
                lambda run: columns(
                    run.records("batches"),
                    "body_bytes",
                    {
                        "one_thread_us": "1 thread",
                        "two_threads_us": "2 threads",
                        "one_by_one_us": "row by row, as dicts",
                    },
                ),
            )
        ],
    ),
    PageSection(
        "match_operator",
        "On Spark",
        """
The match operator on Spark beside an Arrow UDF with the same arguments that returns a constant, in turns in one
process. Queries on real messages ask for rare values, and at most 10,000 of them for values that some message has: most
standing queries wait for what has not come yet.""",
    ),
    PageSection(
        "shards",
        "More queries than fit into memory",
        """
Queries in shards beside the same queries in one snapshot, on Spark. Each way was written and matched by processes of
its own.""",
    ),
    PageSection(
        "pipeline_latency",
        "From arrival to the outbox",
        """
Another process appends lines to a file at a steady rate. The pipeline matches them and commits notifications. A batch
takes from one commit to the next. A restart is `tamis run` in a new process, on a store with this number of queries:
from its start until the message that waits for it is in the outbox, with the start of Python and of Java.""",
        [
            line_chart(
                "latency",
                "From arrival to the outbox, by the second a message was written",
                Axis("seconds", is_log=False),
                Axis("seconds until committed", is_log=False),
                _second_by_second,
            )
        ],
    ),
    PageSection(
        "sinks",
        "Where notifications are stored",
        """
A round is one batch. It is matched and written to a SQLite file, a PostgreSQL database on this machine, or Delta
tables. The baseline matches the same messages and writes nothing. All sync their commits to disk. The driver's memory
is that of its Python process; Java's is that of Spark with its executors.""",
    ),
]

# ---- the aims --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """An aim for one figure, which the worst of the fitting records in a table must reach.

    `size` is the number of subscriptions that the aim is for, and `size_key` is the field with the number of a record.
    The records with the largest number up to `size` count; if there are none, those with the smallest.
    """

    what: str
    benchmark: str
    table: str
    key: str
    limit: float
    unit: str
    where: dict[str, Any] = field(default_factory=dict)
    size: int | None = None
    size_key: str = "filters"
    is_least: bool = False
    decimals: int = 2

    def find(self, run: Run) -> tuple[float, int | None] | None:
        """Return the figure and the size at which it was measured, or None if the run lacks it."""
        fitting = [
            record
            for record in run.records(self.table)
            if record.get(self.key) is not None and all(record.get(name) == value for name, value in self.where.items())
        ]
        size = None
        if self.size is not None:
            sizes = [int(number(record[self.size_key]) or 0) for record in fitting]
            size = max((one for one in sizes if one <= self.size), default=min(sizes, default=None))
            fitting = [record for record, one in zip(fitting, sizes, strict=True) if one == size]
        if not fitting:
            return None
        values = [record[self.key] for record in fitting]
        return (min(values) if self.is_least else max(values)), size

    def is_met(self, value: float) -> bool:
        """Return whether `value` reaches the aim."""
        return value >= self.limit if self.is_least else value <= self.limit

    def bar(self) -> str:
        """Return the aim in words."""
        return f"{'at least' if self.is_least else 'at most'} {self.limit:g} {self.unit}".rstrip()


_TAMIS = {"matcher": "tamis"}
_MILLION = {**_TAMIS, "messages": 1_000_000}
_MANY = 500_000
_BROKER = {"broker": "tamis"}
_TRANSIENT = {**_BROKER, "work": "transient, 256 B"}
_PERSISTENT = {**_BROKER, "work": "persistent, confirmed, 256 B"}
_STREAM = {"what": "stream with history on disk"}
_NO_HISTORY = {"what": "stream without history"}
_TOPICS = {**_BROKER, "work": "100,000 bindings, topic"}
_HEADERS = {**_BROKER, "work": "10,000 bindings, headers"}

GOALS = [
    Goal("500,000 Boolean filters, p50", "boolean", "costs", "p50_cpu_us", 10, "µs", _TAMIS, _MANY),
    Goal("the same, p99", "boolean", "costs", "p99_cpu_us", 30, "µs", _TAMIS, _MANY),
    Goal("the same, bytes per filter", "boolean", "costs", "bytes_per_filter", 150, "", _TAMIS, _MANY, decimals=0),
    Goal("the same, building from text", "boolean", "costs", "build_s", 3, "s", _TAMIS, _MANY),
    Goal("cost grows as a power of the filters", "scale", "exponent", "exponent", 0.6, ""),
    Goal("n threads, beside n times one thread", "scale", "threads", "efficiency", 0.85, "", is_least=True),
    Goal("opening a snapshot of 500,000", "scale", "snapshot", "open_ms", 10, "ms", size=_MANY, decimals=3),
    Goal(
        "workload B, groupings changing, p99",
        "workload_b",
        "workload_b",
        "p99_cpu_us",
        100,
        "µs",
        {"matcher": "tamis, groupings changing"},
    ),
    Goal(
        "one change at 500,000, mean",
        "changes",
        "changes",
        "mean_cpu_us",
        10,
        "µs",
        size=_MANY,
        size_key="subscriptions",
    ),
    Goal("p50 after many changes, beside the fresh engine's", "changes", "worn", "times_fresh", 2, "times"),
    Goal("the OpenAMQ paper's program, compiling", "topics", "openamq", "compile_s", 0.05, "s", _TAMIS, decimals=3),
    Goal(
        "the OpenAMQ paper's program, a million messages",
        "topics",
        "openamq",
        "match_s",
        0.3,
        "s",
        _MILLION,
        decimals=3,
    ),
    Goal("the RabbitMQ blog's million topics", "topics", "rabbitmq", "match_s", 0.3, "s", _MILLION, decimals=3),
    Goal(
        "100,000 patterns, a known name",
        "topics",
        "many-known",
        "match_us",
        0.2,
        "µs",
        _TAMIS,
        100_000,
        "patterns",
        decimals=3,
    ),
    Goal(
        "100,000 patterns, a new name",
        "topics",
        "many-new",
        "match_us",
        2,
        "µs",
        _TAMIS,
        100_000,
        "patterns",
        decimals=3,
    ),
    Goal("10 patterns", "topics", "few", "10", 0.1, "µs", _TAMIS, decimals=3),
    Goal("`#.a.#.a.#.a.#.a.#.z` against 21 words", "topics", "worst", "first_us", 5, "µs", _TAMIS),
    Goal(
        "100,000 topic bindings, making one",
        "routing",
        "bindings",
        "made_cpu_us",
        5,
        "µs",
        {"what": "topic patterns"},
        100_000,
        "bindings",
    ),
    Goal(
        "100,000 topic bindings, a message with a known key, p50",
        "routing",
        "routes",
        "p50_cpu_us",
        2,
        "µs",
        {"what": "topic, known names"},
        100_000,
        "bindings",
    ),
    Goal(
        "100,000 topic bindings, a message with a new key, p50",
        "routing",
        "routes",
        "p50_cpu_us",
        2,
        "µs",
        {"what": "topic, new names"},
        100_000,
        "bindings",
    ),
    Goal(
        "10,000 headers bindings, p99",
        "routing",
        "routes",
        "p99_cpu_us",
        20,
        "µs",
        {"what": "headers"},
        10_000,
        "bindings",
    ),
    Goal(
        "10,000 selectors on bindings, p99",
        "routing",
        "routes",
        "p99_cpu_us",
        20,
        "µs",
        {"what": "x-query"},
        10_000,
        "bindings",
    ),
    Goal("1 to 1, 256 B, transient, a million", "broker", "throughput", "cpu_s", 0.7, "s", _TRANSIENT),
    Goal("1 to 1, 256 B, persistent and confirmed, a million", "broker", "throughput", "cpu_s", 3, "s", _PERSISTENT),
    Goal(
        "64 publishers, durable and confirmed",
        "broker",
        "publishers",
        "rate",
        200_000,
        "messages/s",
        is_least=True,
        decimals=0,
    ),
    Goal("100,000 topic bindings over AMQP, per message with a known key", "broker", "routing", "us", 2, "µs", _TOPICS),
    Goal("the same, making them", "broker", "routing", "made_cpu_s", 1, "s", _TOPICS),
    Goal("10,000 headers bindings over AMQP, per message", "broker", "routing", "us", 20, "µs", _HEADERS),
    Goal("one publish to 100 queues", "broker", "fan_out", "us", 40, "µs", {**_BROKER, "queues": "100"}, decimals=1),
    Goal(
        "one publish to 1,000 queues", "broker", "fan_out", "us", 400, "µs", {**_BROKER, "queues": "1,000"}, decimals=0
    ),
    Goal("a message of 16 MB, CPU", "large_messages", "large", "cpu_ms", 10, "ms", {"way": "tamis", "size": "16 MB"}),
    Goal("a million durable messages at a start, CPU", "large_messages", "restart", "more_cpu_s", 0.3, "s"),
    Goal("live stream with history, a million of 256 B", "streams", "throughput", "cpu_s", 1, "s", _STREAM),
    Goal("live stream without history", "streams", "throughput", "cpu_s", 0.5, "s", _NO_HISTORY),
    Goal(
        "replay of 10 M for a query that one in a million satisfies",
        "replay",
        "replay",
        "skips_s",
        1,
        "s",
        size=10_000_000,
        size_key="messages",
        decimals=3,
    ),
    Goal(
        "10,000 live readers of a stream",
        "data_plane",
        "standing_queries",
        "readers_us",
        20,
        "µs",
        size=10_000,
        size_key="queries",
    ),
    Goal(
        "requests to a service, confirmed",
        "streams",
        "services",
        "rate",
        100_000,
        "requests/s",
        {"credit": 1_000},
        is_least=True,
        decimals=0,
    ),
    Goal("a dead worker's request with the next one, longest", "streams", "handover", "longest", 10, "ms"),
    Goal(
        "300 readers catch up: another client's p99 beside quiet", "streams", "catching_up", "times_quiet", 1.2, "times"
    ),
    Goal("start to accept", "broker", "start", "seconds", 0.25, "s", decimals=3),
    Goal("connections held", "broker", "idle", "connections", 20_000, "", _BROKER, is_least=True, decimals=0),
    Goal(
        "the same, memory per connection",
        *("broker", "idle", "kib", 20, "KiB"),
        where={**_BROKER, "process": "new"},
        decimals=1,
    ),
    Goal("10,000 selectors on bindings over AMQP, per message", "broker", "selectors", "us", 20, "µs"),
    Goal(
        "100,000 topic bindings over AMQP, per message with a new key",
        *("broker", "new_keys", "us", 2, "µs"),
    ),
    Goal("latency, p99 beside NATS's", "broker", "latency", "times_nats", 1, "times", _BROKER),
    Goal("PNNL over AMQP, level 4 beside level 1", "broker", "pnnl", "ratio", 1.05, "times"),
    Goal(
        "level 4 minus level 1, per byte of body",
        "selectors",
        "newsgroup",
        "difference_ns_per_byte",
        1,
        "ns",
        decimals=3,
    ),
    Goal("10,000 requests for fields, with hits", "selectors", "fields", "hits_us", 2, "µs"),
    *(
        Goal(
            f"the match operator beside a constant, {count:,} queries {without}",
            *("match_operator", "spark", "times_constant", bar, "times"),
            where={"what": "match, ids", "queries": count, "kinds": kinds},
        )
        for count, bar in ((10_000, 1.3), (500_000, 1.6))
        for without, kinds in (
            ("without topics and distances", "limit, regions, fields"),
            ("of all kinds", "limit, regions, fields, topic, near"),
        )
    ),
    *(
        Goal(
            f"the match operator on real {messages} beside a constant, {count:,} queries",
            *("match_operator", "real", "times_constant", bar, "times"),
            where={"what": "match, ids", "queries": count, "messages": messages},
        )
        for messages in ("mail", "events")
        for count, bar in ((10_000, 1.3), (500_000, 1.6))
    ),
    Goal("1,000 Boolean filters", "boolean", "costs", "block_cpu_us", 0.8, "µs", {**_TAMIS, "filters": 1_000}),
    Goal("one query on a dict, from Python", "match_from_python", "few", "match_us", 0.6, "µs", {"queries": "1"}),
    Goal("ten queries over columns, a row", "match_from_python", "few", "row_us", 0.2, "µs", {"queries": "10"}),
    Goal("a key for an id", "match_from_python", "forms", "each_ns", 50, "ns", {"form": "keys"}, decimals=1),
    *(
        Goal(
            f"{rules} rules on an event in JSON, beside Quamina",
            *("event_rules", "mixed", "of_quamina", bar, "times"),
            where={"rules": rules},
        )
        for rules, bar in (("5", 1.5), ("1,000", 1), ("10,000", 1))
    ),
    Goal("rules on arrays, beside event-ruler", "event_rules", "arrays", "of_ruler", 1, "times"),
    Goal("arrival to outbox, p50", "pipeline_latency", "latency", "p50_s", 1, "s"),
    Goal("arrival to outbox, p99", "pipeline_latency", "latency", "p99_s", 3, "s"),
    Goal("a micro-batch, p50", "pipeline_latency", "latency", "batch_p50_s", 0.5, "s"),
    *(
        Goal(
            f"notifications into {home}, 100 matches, 2 workers",
            *("sinks", "sinks", "notifications_per_s", 20_000, "/s"),
            where={"home": home, "matches": 100, "workers": 2},
            is_least=True,
            decimals=0,
        )
        for home in ("postgres", "delta")
    ),
    *(
        Goal(
            f"the driver's share of the CPU into {home}, 100 matches",
            *("sinks", "sinks", "driver_percent", 5, "%"),
            where={"home": home, "matches": 100},
            decimals=1,
        )
        for home in ("postgres", "delta")
    ),
    *(
        Goal(
            f"the driver's memory grows by, into {home}, 100 matches",
            *("sinks", "sinks", "growth_mib", 100, "MiB"),
            where={"home": home, "matches": 100},
            decimals=0,
        )
        for home in ("sqlite", "postgres", "delta")
    ),
]
