"""Defines pipeline.toml: what a pipeline reads, which queries it matches, and where the matches go.

A file with errors is refused as a whole; the error lists all of them, each with its line and what was expected.
Nothing is opened or created here: `tamis.config.pipeline_check` tries what a run would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from tamis.config import errors as config_errors
from tamis.config.adapters import ADAPTERS, AdapterConfig, AnyAdapterConfig, types_with
from tamis.config.cluster import SparkSection
from tamis.config.deliveries import DELIVERIES, DatabaseDelivery, DeliveryConfig
from tamis.config.errors import MistakeError
from tamis.config.fields import PATTERNS, ConfigPath, CountOrZero, Days, Milliseconds, Name, Section, StoreAddress
from tamis.config.hierarchies import HierarchyConfig
from tamis.config.owners import OwnerConfig, ProfileConfig
from tamis.config.toml_lines import TomlLocation, line_numbers
from tamis.config.unsubscribe import UnsubscribeSection
from tamis.errors import ConfigError, short
from tamis.name_hints import did_you_mean
from tamis.query import QueryFile, load_query_file
from tamis.store_place import Place, is_same

SEEN_MESSAGES = 1_000_000
"""The default of `seen_messages`. The notes take 160 MB, and `tamis trace` reads them in 0.2 s."""


class PipelineSection(Section):
    """``[pipeline]``: the name and the folders. Paths are relative to the file.

    Attributes:
        name: the prefix of its streams' names.
        store: the file of the store, or the URL of a PostgreSQL database.
        checkpoints: the folder of Spark's checkpoints.
        work: the folder of snapshots.
        interval_ms: minimum time between the starts of two batches.
        notifications: the folder of Delta tables that take the results, instead of the store.
        keep_days: how long notifications, their messages and dead letters are kept once they are settled.
        seen_messages: the number of messages, those read last, whose reading is noted for `tamis trace`; 0: none is.
    """

    name: Name = "tamis"
    store: StoreAddress = Field(default=Path("tamis.sqlite"), validate_default=True)
    checkpoints: ConfigPath = Field(default=Path("checkpoints"), validate_default=True)
    work: ConfigPath = Field(default=Path("work"), validate_default=True)
    notifications: ConfigPath | None = None
    interval_ms: Milliseconds = 200
    keep_days: Days | None = None
    seen_messages: CountOrZero = SEEN_MESSAGES

    @property
    def keep(self) -> timedelta | None:
        """Return how long the store keeps settled notifications; None: for ever."""
        return None if self.keep_days is None else timedelta(days=self.keep_days)


class QueriesSection(Section):
    """``[queries]``: a file that is applied at each start, and the deliveries of queries that name none.

    Attributes:
        file: the file of queries.
        deliveries: the names of the deliveries.
        shards: number of shards into which the queries are cut, of which a worker maps few at a time; 0: none.
    """

    file: ConfigPath | None = None
    deliveries: tuple[Name, ...] = ()
    shards: CountOrZero = 0

    @field_validator("shards")
    @classmethod
    def _shards_are_few(cls, shards: int) -> int:
        from tamis.engine.shards import SHARDS_MAX  # needs numpy, and few pipelines need it

        if shards > SHARDS_MAX:
            raise ValueError(f"expected 0 to {SHARDS_MAX} shards, not {shards}")
        return shards


class TestBlock(Section):
    """A ``[[test]]``: a message and the keys of the queries that must match it; `tamis check` runs it."""

    __test__ = False  # for pytest: not a test case

    message: dict[str, Any] = Field(default_factory=dict)
    topic: str = ""
    body: str | None = None
    match: tuple[str, ...]


class PipelineConfig(Section):
    """A consistent pipeline.toml: every name is unique, and every reference names something that exists."""

    pipeline: PipelineSection
    queries: QueriesSection
    spark: SparkSection
    adapters: tuple[AnyAdapterConfig, ...] = Field(default=(), alias="adapter")
    deliveries: tuple[DeliveryConfig, ...] = Field(default=(), alias="delivery")
    owners: tuple[OwnerConfig, ...] = Field(default=(), alias="owner")
    unsubscribe: UnsubscribeSection | None = None
    hierarchies: tuple[HierarchyConfig, ...] = Field(default=(), alias="hierarchy")
    tests: tuple[TestBlock, ...] = Field(default=(), alias="test")
    _path: Path = PrivateAttr(default=Path("pipeline.toml"))

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    @property
    def store_path(self) -> Place:
        """Return the address of the store."""
        return self.pipeline.store

    @property
    def people(self) -> tuple[OwnerConfig, ...]:
        """The owners, and each of their profiles as an owner ``name/profile``."""
        return tuple(one for owner in self.owners for one in owner.with_profiles())

    @property
    def default_deliveries(self) -> tuple[str, ...]:
        """The deliveries of queries that name none."""
        return self.queries.deliveries

    def query_files(self) -> list[QueryFile]:
        """Return what a run applies to the store: its own hierarchies, and the file of queries.

        Raises:
            ConfigError: the file of queries, or that of a hierarchy, cannot be used; or both hold one hierarchy.
        """
        own = QueryFile(self.path, hierarchies=tuple(hierarchy.spec() for hierarchy in self.hierarchies))
        if self.queries.file is None:
            return [own]
        queries, attributes = load_query_file(self.queries.file), {spec.attribute for spec in own.hierarchies}
        for spec in queries.hierarchies:
            if spec.attribute in attributes:
                where = f"{queries.path}, line {spec.line}" if spec.line else str(queries.path)
                raise ConfigError(f"{where}: the hierarchy of '{spec.attribute}' is already in {self.path}")
        return [own, queries]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a pipeline.toml.

        Raises:
            ConfigError: it is missing, cannot be read, is not TOML, or has errors. The text has one line per error,
                with the file, the line and what was expected.
        """
        path = Path(path)
        text = config_errors.read_text(path)
        document = config_errors.parse(path, text)
        try:
            config = cls.model_validate(_with_sections(document), context={"folder": path.parent})
        except ValidationError as error:
            lines = line_numbers(text)
            all_details = error.errors(include_url=False)
            problems = [_sentence(path, lines, it) for it in all_details if not config_errors.is_echo(it)]
            raise ConfigError("\n".join(dict.fromkeys(problems))) from error
        config._path = path
        return config

    def with_master(self, master: str) -> Self:
        """Return a copy with another ``[spark]`` master.

        Raises:
            ConfigError: it is not a master of Spark, or its workers cannot connect to ``[spark]`` host.
        """
        try:
            spark = SparkSection.model_validate({**self.spark.model_dump(), "master": master})
        except ValidationError as error:
            cause = error.errors()[0].get("ctx", {}).get("error")
            raise ConfigError(f"--master: {cause or error.errors()[0]['msg']}") from error
        config = self.model_copy(update={"spark": spark})
        config._path = self._path
        return config

    @field_validator("adapters", "deliveries", "owners")
    @classmethod
    def _names_are_unique(cls, items: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        _refuse_twice(items, "name", "the name '{}' is taken already")
        return items

    @field_validator("hierarchies")
    @classmethod
    def _attributes_are_unique(cls, items: tuple[HierarchyConfig, ...]) -> tuple[HierarchyConfig, ...]:
        _refuse_twice(items, "attribute", "the hierarchy of '{}' is given already")
        return items

    @field_validator("deliveries")
    @classmethod
    def _targets_are_apart(cls, deliveries: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse two deliveries that would write the same file, or files of the same names into one folder."""
        taken: dict[object, str] = {}
        for index, delivery in enumerate(deliveries):
            if (target := delivery.target) is None:
                continue
            for identity in _identities(target):
                if (other := taken.setdefault((delivery.type, identity), delivery.name)) != delivery.name:
                    kind = "file" if delivery.type == "jsonl" else "folder"
                    raise MistakeError(
                        (index,),
                        f"the deliveries '{other}' and '{delivery.name}' would both write the {kind} "
                        f"{target.resolve()}; give each a {kind} of its own",
                    )
        return deliveries

    @field_validator("adapters")
    @classmethod
    def _identities_are_apart(cls, adapters: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse adapters whose messages may be taken for the same ones, although nobody has said that they are."""
        first: dict[str, Any] = {}
        for index, adapter in enumerate(adapters):
            if (member := getattr(adapter, "id_field", None)) is None:
                continue
            other = first.setdefault(member, adapter)
            if other is not adapter and None in (adapter.id_space, other.id_space):
                raise MistakeError(
                    (index, "id_field"),
                    f"the adapters '{other.name}' and '{adapter.name}' both have '{member}': a message of one would "
                    "count as known if the other had one with the same value; set 'id_space' in both: the same text if "
                    "they have the same messages, different texts if not",
                )
        return adapters

    @model_validator(mode="after")
    def _rows_go_elsewhere(self) -> Self:
        """Refuse a delivery of rows into the store itself, which would wait for the store's own writers."""
        for index, delivery in enumerate(self.deliveries):
            if isinstance(delivery, DatabaseDelivery) and is_same(delivery.url, self.pipeline.store):
                raise MistakeError(
                    ("delivery", index, "url"), "that is the store: give another database, or use the type 'store'"
                )
        return self

    @model_validator(mode="after")
    def _links_can_be_answered(self) -> Self:
        for index, owner in enumerate(self.owners):
            if any(it.confirm for it in owner.with_profiles()) and self.unsubscribe is None:
                raise MistakeError(
                    ("owner", index, "confirm"), "'confirm' needs [unsubscribe], where links are answered"
                )
        return self

    @model_validator(mode="after")
    def _tables_have_no_outbox(self) -> Self:
        """Refuse what works through the outbox of the store, if notifications are in Delta tables."""
        if self.pipeline.notifications is None:
            return self
        asked: dict[tuple[str | int, ...], str] = {("delivery", 0): "[[delivery]]"} if self.deliveries else {}
        asked |= {("owner", 0): "[[owner]]"} if self.owners else {}
        for name in ("keep_days", "seen_messages"):
            asked |= {("pipeline", name): f"'{name}'"} if name in self.pipeline.model_fields_set else {}
        for location, name in asked.items():
            raise MistakeError(
                location,
                f"{name} needs the outbox of the store, and 'notifications' in [pipeline] puts the results into Delta "
                "tables instead; leave one of them out",
            )
        return self

    @model_validator(mode="after")
    def _deliveries_exist(self) -> Self:
        known = [delivery.name for delivery in self.deliveries]
        for index, name in enumerate(self.queries.deliveries):
            if name not in known:
                raise MistakeError(
                    ("queries", "deliveries", index), f"no [[delivery]] is named '{name}'{did_you_mean(name, known)}"
                )
        return self


def _refuse_twice(items: Iterable[Any], key: str, mistake: str) -> None:
    """Refuse the first item whose `key` has the value of an earlier one; `mistake` has `{}` for the value."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = getattr(item, key)
        if value in seen:
            raise MistakeError((index, key), mistake.format(value))
        seen.add(value)


def _identities(target: Path) -> Iterator[object]:
    """Yield what two names of one file or folder share: its path without links, and its inode if it exists."""
    yield target.resolve()
    with suppress(OSError):
        status = target.stat()
        yield status.st_dev, status.st_ino


def _with_sections(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document, with the sections whose settings all have defaults."""
    return {"pipeline": {}, "queries": {}, "spark": {}} | document


_MODELS: dict[str, type[BaseModel]] = {
    "pipeline": PipelineSection,
    "queries": QueriesSection,
    "spark": SparkSection,
    "unsubscribe": UnsubscribeSection,
    "adapter": AdapterConfig,
    "owner": OwnerConfig,
    "hierarchy": HierarchyConfig,
    "test": TestBlock,
}
_TAGGED: dict[str, Mapping[str, type[BaseModel]]] = {"delivery": DELIVERIES, "adapter": ADAPTERS}
"""Section -> type -> model, of sections that have a type."""
_ARRAYS = ("adapter", "delivery", "owner", "hierarchy", "test")


def _sentence(path: Path, lines: dict[TomlLocation, int], details: ErrorDetails) -> str:
    """Return one error: file, line, what is wrong, what was expected, and the nearest name."""
    location, model = _location(details["loc"])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, MistakeError):
        location = (*location, *cause.below)
    in_type = details["type"] == "union_tag_invalid"
    where = config_errors.place_in_file(path, lines, (*location, "type") if in_type else location)
    return f"{where}: {_mistake(details, location, model)}"


def _location(loc: tuple[str | int, ...]) -> tuple[TomlLocation, type[BaseModel] | None]:
    """Return the location in the file, without the tag that pydantic inserts for a union, and its model."""
    tagged = _TAGGED.get(str(loc[0]), {}) if len(loc) > 2 else {}
    if model := tagged.get(str(loc[2]) if tagged else ""):
        return (*loc[:2], *loc[3:]), model
    if _is_profile(loc):
        return loc, ProfileConfig
    return loc, _MODELS.get(str(loc[0])) if loc else None


def _is_profile(location: TomlLocation) -> bool:
    return len(location) > 3 and (location[0], location[2]) == ("owner", "profile")


def _mistake(details: ErrorDetails, location: TomlLocation, model: type[BaseModel] | None) -> str:
    kind, name = details["type"], location[-1] if location else ""
    within = "[[owner.profile]]" if _is_profile(location) else _table(location[:1])
    if kind == "extra_forbidden":
        if location[0] == "adapter" and (types := types_with(str(name))):
            *others, last = (f"'{one}'" for one in types)
            having = f"{', '.join(others)} or {last}" if others else last
            return f"'{name}' is for adapters of type {having}, not '{_type_of(model)}'"
        known = list(_keys(model)) if len(location) > 1 and model else [*_MODELS, "delivery"]
        inside = f" in {within}" if len(location) > 1 else ""
        return f"unknown key '{name}'{inside}{did_you_mean(str(name), known)}"
    if kind == "missing":
        return f"{within} needs '{name}'"
    if kind == "union_tag_not_found":
        return f"{within} needs 'type': one of {', '.join(_TAGGED[str(location[0])])}"
    if kind == "union_tag_invalid":
        tag, known = str(details.get("ctx", {}).get("tag")), list(_TAGGED[str(location[0])])
        return f"unknown type '{tag}' in {within}{did_you_mean(tag, known)}; known: {', '.join(known)}"
    if kind == "value_error":
        return str(details.get("ctx", {}).get("error"))
    if kind == "tuple_type" and len(location) == 1:
        return f"expected {within}, not [{name}]"
    shown = ".".join(str(part) for part in location[1:] if isinstance(part, str)) or within
    return f"{shown}: {config_errors.expected(details, PATTERNS)}, not {short(details['input'])}"


def _type_of(model: type[BaseModel] | None) -> str:
    return next((name for name, one in ADAPTERS.items() if one is model), "")


def _keys(model: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def _table(section: TomlLocation) -> str:
    name = str(section[0]) if section else "the file"
    return f"[[{name}]]" if name in _ARRAYS else f"[{name}]"
