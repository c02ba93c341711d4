"""Checks whether a pipeline would run: builds everything that a run builds, and changes nothing.

A check that passes on a bad file is worse than none. So it compiles every query, opens every path, reads the store and
runs every ``[[test]]``. It delivers nothing and makes no connection."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.config.deliveries import (
    AmqpDelivery,
    ChatDelivery,
    DatabaseDelivery,
    DeliveryConfig,
    SmtpDelivery,
    WebhookDelivery,
)
from tamis.config.errors import line_of
from tamis.config.pipeline import PipelineConfig, TestBlock
from tamis.config.toml_lines import TomlLocation, line_numbers
from tamis.errors import ConfigError, StoreError, TamisError
from tamis.name_hints import did_you_mean

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.query import Query, QuerySpec
    from tamis.query.hierarchy import Parents


@dataclass(frozen=True)
class Problem:
    """An error that keeps a pipeline from running as intended.

    Attributes:
        file: the file with the error.
        line: the line in that file, from 1; 0 if the problem belongs to no line.
        text: what is wrong and what was expected; it may have several lines, with a caret.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the problem as compilers print it: file, line, text."""
        return f"{self.file}, line {self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as plain values, for JSON."""
        return asdict(self)


def check(config: PipelineConfig) -> list[Problem]:
    """Find everything that would keep `config` from running, in the order of the file, without changing anything.

    Raises:
        ConfigError: the file was removed since it was loaded.
    """
    return list(PipelineCheck(config).problems())


class PipelineCheck:
    """One check of one configuration."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        try:
            self._lines = line_numbers(config.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{config.path}: the configuration cannot be read: {error.strerror}") from error
        self._queries: dict[str, QuerySpec] = {}
        self._in_file: set[str] = set()
        self._hierarchies: dict[str, Parents] = {}
        self._compiled: dict[str, Query] = {}

    def queries(self) -> Iterator[tuple[str, QuerySpec, Query]]:
        """Yield the file or store of each query that a run would match, and the query; only after `problems`."""
        for key, query in self._compiled.items():
            yield self._place_of(key), self._queries[key], query

    def description(self) -> str:
        """Say in one line what was examined: ``60 queries, 2 adapters, 1 delivery, 1 test``; only after `problems`."""
        config, hierarchy_count = self._config, len(self._hierarchies)
        counted = (
            (len(self._queries), "query", "queries"),
            *([(hierarchy_count, "hierarchy", "hierarchies")] if hierarchy_count else []),
            (len(config.adapters), "adapter", "adapters"),
            (len(config.deliveries), "delivery", "deliveries"),
            (len(config.tests), "test", "tests"),
        )
        return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counted)

    def _place_of(self, key: str) -> str:
        return str(self._config.queries.file if key in self._in_file else self._config.store_path)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems one after another; checks that depend on something broken are skipped."""
        yield from self._folders()
        yield from self._store()
        broken = list(self._query_file())
        yield from broken
        yield from self._query_deliveries()
        yield from self._query_owners()
        yield from self._adapters()
        yield from self._deliveries()
        yield from self._unsubscribe()
        if not broken:
            yield from self._tests()

    def _at(self, location: TomlLocation, text: object) -> Problem:
        return Problem(str(self._config.path), line_of(self._lines, location), str(text))

    def _folders(self) -> Iterator[Problem]:
        pipeline = self._config.pipeline
        for name, folder in (("checkpoints", pipeline.checkpoints), ("work", pipeline.work)):
            if problem := _folder_problem(folder):
                yield self._at(("pipeline", name), problem)

    def _store(self) -> Iterator[Problem]:
        """Yield the store's problems; afterwards there is what it will hold besides the files, which a run applies."""
        from tamis.store import Store

        applied = [str(path.resolve()) for path in (self._config.path, self._config.queries.file) if path is not None]
        try:
            queries, hierarchies = Store.peek(self._config.store_path)
        except StoreError as error:
            yield self._at(("pipeline", "store"), error)
            return
        self._queries = {record.key: record.spec() for record in queries if record.origin not in applied}
        self._hierarchies = {it.attribute: it.parents for it in hierarchies if it.origin not in applied}

    def _query_file(self) -> Iterator[Problem]:
        from tamis.errors import QueryError
        from tamis.query.hierarchy import missing

        file, location = self._config.queries.file, ("queries", "file")
        try:
            own, *with_queries = self._config.query_files()
        except TamisError as error:
            yield self._at(location, error)
            return
        for one in (own, *with_queries):
            self._hierarchies.update((spec.attribute, spec.parents) for spec in one.hierarchies)
        specs = with_queries[0].queries if with_queries else ()
        if not specs and not self._queries:
            yield self._at(location if file else ("queries",), "no queries: expected some in a file or in the store")
        self._in_file = {spec.key for spec in specs}
        self._queries.update((spec.key, spec) for spec in specs)
        for spec in self._queries.values():
            where = self._place_of(spec.key)
            try:
                self._compiled[spec.key] = query = spec.compile()
                if problem := missing(query, self._hierarchies):
                    yield Problem(where, spec.line, f"query '{spec.key}': {problem}")
            except (QueryError, ConfigError) as error:
                yield Problem(where, spec.line, f"query '{spec.key}': {error}")

    def _query_deliveries(self) -> Iterator[Problem]:
        known = [delivery.name for delivery in self._config.deliveries]
        for spec in self._queries.values():
            for name in spec.deliveries:
                if name not in known:
                    hint = did_you_mean(name, known)
                    text = f"query '{spec.key}': no [[delivery]] is named '{name}'{hint}"
                    yield Problem(self._place_of(spec.key), spec.line, text)

    def _query_owners(self) -> Iterator[Problem]:
        """Yield the queries that name a profile which their owner does not have; others may have no block."""
        profiles = {owner.name: [profile.name for profile in owner.profiles] for owner in self._config.owners}
        for spec in self._queries.values():
            owner, separator, profile = spec.owner.partition("/")
            if separator and owner in profiles and profile not in profiles[owner]:
                hint = did_you_mean(profile, profiles[owner])
                text = f"query '{spec.key}': no [[owner.profile]] of '{owner}' is named '{profile}'{hint}"
                yield Problem(self._place_of(spec.key), spec.line, text)

    def _adapters(self) -> Iterator[Problem]:
        from tamis.adapters.adapter import Adapter

        if not self._config.adapters:
            yield self._at((), "no [[adapter]]: there is nothing to read")
        for index, adapter in enumerate(self._config.adapters):
            if adapter.publish is not None:
                try:
                    adapter.publish.password(adapter.name)
                except ConfigError as error:
                    yield self._at(("adapter", index, "publish", "password_env"), error)
            try:
                Adapter.from_config(adapter, self._config.pipeline.work).source().check()
            except TamisError as error:
                named = str(error).partition(":")[0]  # most begin with the name of the option
                key = named if named in type(adapter).model_fields else "path"
                yield self._at(("adapter", index, key), error)

    def _deliveries(self) -> Iterator[Problem]:
        for index, delivery in enumerate(self._config.deliveries):
            if delivery.type in ("eml", "feed", "parquet", "delta") and (problem := _folder_problem(delivery.folder)):
                yield self._at(("delivery", index, "folder"), problem)
            if delivery.type == "jsonl" and (problem := _file_problem(delivery.path)):
                yield self._at(("delivery", index, "path"), problem)
            if isinstance(delivery, DatabaseDelivery) and (problem := _database_problem(delivery)):
                yield self._at(("delivery", index, "url"), problem)
            for key, ask in _outside(delivery):
                try:
                    ask()
                except ConfigError as error:
                    yield self._at(("delivery", index, key), error)

    def _unsubscribe(self) -> Iterator[Problem]:
        if self._config.unsubscribe is not None:
            importlib.import_module("uvicorn")
            try:
                self._config.unsubscribe.secret()
            except ConfigError as error:
                yield self._at(("unsubscribe", "secret_env"), error)

    def _tests(self) -> Iterator[Problem]:
        from tamis.engine.build import build_engine

        with warnings.catch_warnings():  # the caller of the check shows them, with their places
            warnings.simplefilter("ignore")
            active = ((key, query) for key, query in self._compiled.items() if self._queries[key].is_active())
            engine = build_engine(active, self._hierarchies)
        for index, test in enumerate(self._config.tests):
            for problem in _test_problems(engine, list(self._queries), test):
                yield self._at(("test", index, "match"), problem)


def _test_problems(engine: Engine, keys: list[str], test: TestBlock) -> Iterator[str]:
    """Yield the problems of a ``[[test]]``."""
    unknown = [key for key in test.match if key not in engine]
    if unknown:
        yield from (_why_unknown(key, keys) for key in unknown)
        return
    message = (test.message, test.topic, test.body)
    try:
        matched = engine.match(*message)
    except (TypeError, ValueError) as error:
        yield f"the message cannot be matched: {error}"
        return
    for key in keys:
        if (key in matched) != (key in test.match):
            expected = "expected" if key in test.match else "did not expect"
            yield f"the test {expected} '{key}' to match: {engine.explain(key, *message)}"


def _why_unknown(key: str, keys: list[str]) -> str:
    if key in keys:
        return f"the query '{key}' is paused or expired, or cannot be used"
    return f"no query is named '{key}'{did_you_mean(key, keys)}"


def _folder_problem(folder: Path) -> str | None:
    """Return why no file can be written into `folder`, which a run would make if it is absent."""
    if folder.exists():
        return _unless(folder, Path.is_dir, "not a folder, where one was expected") or _unwritable(folder)
    return _folder_problem(folder.parent)


def _file_problem(path: Path) -> str | None:
    """Return why nothing can be appended to `path`, which a run would make with its folder if it is absent."""
    if path.exists():
        return _unless(path, Path.is_file, "not a file, where one was expected") or _unwritable(path)
    return _folder_problem(path.parent)


def _database_problem(delivery: DatabaseDelivery) -> str | None:
    """Say why no row can be added to the SQLite file of a delivery; nothing is said of a server."""
    if (file := delivery.file) is None:
        return None
    if not delivery.create and not file.exists():
        return f"{file}: there is no such file; make it, or set create = true"
    return _file_problem(file)


def _unless(path: Path, holds: Callable[[Path], bool], problem: str) -> str | None:
    return None if holds(path) else f"{path}: {problem}"


def _unwritable(path: Path) -> str | None:
    if os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0)):
        return None
    return f"{path}: may not be written; change its permissions, or give another path"


def _outside(delivery: DeliveryConfig) -> list[tuple[str, Callable[[], object]]]:
    """Return what a delivery needs besides the file: the key that says so, and a check."""
    if package := _package(delivery):
        importlib.import_module(package)  # as a run would: without the extra, the command line names it
    match delivery:
        case SmtpDelivery() | AmqpDelivery():
            return [("password_env", delivery.password), ("ca_file", delivery.tls_context)]
        case WebhookDelivery():
            return [("secret_env", delivery.secrets), ("ca_file", delivery.tls_context)]
        case DatabaseDelivery():
            return [("password_file" if delivery.password_file else "password_env", delivery.password)]
        case ChatDelivery():
            return [("url_file" if delivery.url_file else "url_env", delivery.address)]
    return []


def _package(delivery: DeliveryConfig) -> str | None:
    """Return the package of an extra that a delivery needs; None if it needs none."""
    if isinstance(delivery, DatabaseDelivery) and delivery.file is None:
        return "psycopg"
    return _PACKAGES.get(delivery.type)


_PACKAGES = {
    "smtp": "aiosmtplib",
    "webhook": "httpx2",
    "amqp": "aio_pika",
    "parquet": "pyarrow",
    "delta": "deltalake",
    "chat": "apprise",
}
