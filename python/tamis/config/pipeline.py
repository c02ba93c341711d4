"""pipeline.toml: what a pipeline reads, which queries it matches, and where the matches go.

A file with a mistake is refused as a whole, with every mistake: file, line, what was expected. Nothing is opened or
made here; `tamis.config.pipeline_check` tries what a run would do."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from tamis.adapters.options import SOURCE_TYPES, OptionRule, options_of, rule_of
from tamis.config import errors as config_errors
from tamis.config.errors import MistakeError
from tamis.config.toml_lines import Place, line_numbers
from tamis.errors import ConfigError, short
from tamis.name_hints import did_you_mean

if TYPE_CHECKING:
    import ssl


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder", Path())
    return Path(folder) / path.expanduser()


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


_NAME, _LINE, _DOMAIN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", r"^[^\r\n\x00]+$", r"^[A-Za-z0-9.-]+$"
_PATTERNS = {
    _NAME: "letters, digits, '_', '.' and '-', beginning with a letter or digit",
    _LINE: "text on one line",
    _DOMAIN: "a domain's letters, digits, '.' and '-'",
}

Name = Annotated[str, Field(pattern=_NAME, max_length=100)]
Count = Annotated[int, Field(strict=True, gt=0)]
Milliseconds = Annotated[int, Field(strict=True, gt=0, le=86_400_000)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=31_536_000)]
Port = Annotated[int, Field(strict=True, gt=0, le=65_535)]
Line = Annotated[str, Field(pattern=_LINE)]
PathBeside = Annotated[Path, AfterValidator(_beside_the_file)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PipelineSection(_Section):
    """``[pipeline]``: names and places. Paths are relative to the file.

    Attributes:
        name: the prefix of its streams' names.
        store: the store's file.
        checkpoints: the folder of Spark's checkpoints.
        work: the folder of snapshots.
        interval_ms: how often a batch begins, at most.
    """

    name: Name = "tamis"
    store: PathBeside = Field(default=Path("tamis.sqlite"), validate_default=True)
    checkpoints: PathBeside = Field(default=Path("checkpoints"), validate_default=True)
    work: PathBeside = Field(default=Path("work"), validate_default=True)
    interval_ms: Milliseconds = 200


class QueriesSection(_Section):
    """``[queries]``: a file that is imported at each start, and where matches go of queries that do not say."""

    file: PathBeside | None = None
    deliveries: tuple[Name, ...] = ()


def _option_field(option: dataclasses.Field[Any]) -> tuple[Any, Any]:
    """An option of a source as a field of a model: its type, and its default."""
    rule = rule_of(option)
    if option.name == "path":
        return PathBeside, ...
    kind: Any = str
    if rule.minimum is not None:
        kind = Annotated[int, Field(strict=True, gt=rule.minimum - 1)]
    elif rule.or_number:
        kind = Annotated[str, BeforeValidator(functools.partial(_word_or_number, option.name, rule))]
    elif rule.words:
        kind = Literal[rule.words]
    is_of_all = rule.types == SOURCE_TYPES
    return (kind, option.default) if is_of_all else (kind | None, None)


def _word_or_number(name: str, rule: OptionRule, value: Any) -> str:
    if value in rule.words or (type(value) is int and value > 0):
        return str(value)
    raise ValueError(f"{name}: expected {rule.expected}, not {short(value)}")


_OPTIONS: Final = [option for option in options_of() if rule_of(option).in_pipeline]

if TYPE_CHECKING:

    class _AdapterFields(_Section):
        name: Name
        type: str
        poll_interval_ms: Milliseconds

        def __getattr__(self, name: str) -> Any: ...
else:
    _AdapterFields = create_model(
        "_AdapterFields",
        __base__=_Section,
        name=(Name, ...),
        type=(Literal[SOURCE_TYPES], ...),
        poll_interval_ms=(Milliseconds, 1000),
        **{option.name: _option_field(option) for option in _OPTIONS},
    )


class AdapterConfig(_AdapterFields):
    """An ``[[adapter]]``: a source of messages, with the options of `tamis.adapters.options.SourceOptions`.

    Attributes:
        name: unique; the `source` of its notifications.
        type: what the files are.
        poll_interval_ms: how often it looks for new messages.
    """

    @model_validator(mode="after")
    def _is_of_a_type_that_has_its_options(self) -> Self:
        for option in _OPTIONS:
            types = rule_of(option).types
            if self.type not in types and getattr(self, option.name) is not None:
                having = " or ".join(f"'{one}'" for one in types)
                raise ValueError(f"'{option.name}' is for adapters of type {having}, not '{self.type}'")
        return self

    def options(self) -> dict[str, Any]:
        """Name -> value of the options of its source that are set."""
        values = {option.name: getattr(self, option.name) for option in _OPTIONS}
        return {name: value for name, value in values.items() if value is not None} | {"path": str(self.path)}


class _Delivery(_Section):
    name: Name
    tries: Count = 5
    back_off_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] = (10.0, 60.0, 300.0, 1800.0)


class _Mail(_Delivery):
    sender: Line = Field(default="tamis@localhost", alias="from")
    recipients: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        default=("subscriber@localhost",), alias="to"
    )
    domain: Annotated[str, Field(pattern=_DOMAIN, max_length=200)] = "tamis.invalid"


class StoreDelivery(_Delivery):
    """A delivery of type ``store``: the row in the store is all there is to it."""

    type: Literal["store"]


class EmlDelivery(_Mail):
    """A delivery of type ``eml``: an e-mail a notification, as a file in `folder`."""

    type: Literal["eml"]
    folder: PathBeside


class JsonlDelivery(_Delivery):
    """A delivery of type ``jsonl``: a line of JSON a notification, appended to `path`."""

    type: Literal["jsonl"]
    path: PathBeside


class SmtpDelivery(_Mail):
    """A delivery of type ``smtp``: an e-mail a notification, handed to a mail server.

    Attributes:
        host: the server.
        port: default 465 with ``tls = "tls"``, 587 with ``starttls``, 25 with ``none``.
        tls: ``starttls`` (refused when the server has none), ``tls`` from the first byte, or ``none``.
        ca_file: certificates to trust instead of the machine's.
        user: to log in as.
        password_env: the environment variable that holds the password.
        timeout_s: for each step.
    """

    type: Literal["smtp"]
    host: Line
    port: Port = 0
    tls: Literal["none", "starttls", "tls"] = "starttls"
    ca_file: PathBeside | None = None
    user: Line | None = None
    password_env: Line | None = None
    timeout_s: Seconds = 30.0
    sender: Line = Field(alias="from")
    recipients: Annotated[tuple[Line, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(alias="to")

    @model_validator(mode="before")
    @classmethod
    def _port_of_the_protocol(cls, values: Any) -> Any:
        if isinstance(values, dict) and "port" not in values:
            port = {"none": 25, "tls": 465}.get(values.get("tls", "starttls"), 587)
            return values | {"port": port}
        return values

    @model_validator(mode="after")
    def _no_password_in_the_clear(self) -> Self:
        if (self.user is None) != (self.password_env is None):
            raise ValueError("'user' and 'password_env' belong together")
        if self.user is not None and self.tls == "none" and self.host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f'a password for {self.host} needs tls = "starttls" or "tls"')
        return self

    def password(self) -> str | None:
        """The password to log in with; None where no login is asked for.

        Raises:
            ConfigError: the environment variable that should hold it is not set.
        """
        if self.password_env is None:
            return None
        if (password := os.environ.get(self.password_env)) is None:
            raise ConfigError(f"delivery '{self.name}': the environment variable {self.password_env} is not set")
        return password

    def tls_context(self) -> ssl.SSLContext | None:
        """How the server's certificate is checked; None without TLS.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        if self.tls == "none":
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigError(
                f"delivery '{self.name}': {self.ca_file}: no certificates can be read: {error}"
            ) from error


DeliveryConfig = Annotated[StoreDelivery | EmlDelivery | JsonlDelivery | SmtpDelivery, Field(discriminator="type")]
"""A ``[[delivery]]``: where matches go; `type` says which."""


class TestBlock(_Section):
    """A ``[[test]]``: a message and the keys of the queries that it must match, which `tamis check` tries."""

    __test__ = False  # for pytest: not a test case

    message: dict[str, Any] = {}
    topic: str = ""
    body: str | None = None
    match: tuple[str, ...]


class PipelineConfig(_Section):
    """A pipeline.toml that holds together: every name is unique, and what refers to a name finds it."""

    pipeline: PipelineSection
    queries: QueriesSection
    adapters: tuple[AdapterConfig, ...] = Field(default=(), alias="adapter")
    deliveries: tuple[DeliveryConfig, ...] = Field(default=(), alias="delivery")
    tests: tuple[TestBlock, ...] = Field(default=(), alias="test")
    _path: Path = PrivateAttr(default=Path("pipeline.toml"))

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def store_path(self) -> Path:
        """The store's file."""
        return self.pipeline.store

    @property
    def default_deliveries(self) -> tuple[str, ...]:
        """Where matches go of queries that name no delivery."""
        return self.queries.deliveries

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a pipeline.toml.

        Raises:
            ConfigError: it is missing or cannot be read, is no TOML, or has mistakes: all of them, one a line, each
                with file and line and what was expected.
        """
        path = Path(path)
        text = config_errors.read_text(path)
        document = config_errors.parse(path, text)
        try:
            config = cls.model_validate(_with_sections(document), context={"folder": path.parent})
        except ValidationError as error:
            lines = line_numbers(text)
            found = [details for details in error.errors(include_url=False) if not config_errors.is_echo(details)]
            problems = [_sentence(path, lines, details) for details in found]
            raise ConfigError("\n".join(dict.fromkeys(problems))) from error
        config._path = path
        return config

    @field_validator("adapters", "deliveries")
    @classmethod
    def _names_are_unique(cls, items: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        seen: dict[str, int] = {}
        for index, item in enumerate(items):
            if item.name in seen:
                raise MistakeError((index, "name"), f"the name '{item.name}' is taken already")
            seen[item.name] = index
        return items

    @model_validator(mode="after")
    def _deliveries_exist(self) -> Self:
        known = [delivery.name for delivery in self.deliveries]
        for index, name in enumerate(self.queries.deliveries):
            if name not in known:
                raise MistakeError(
                    ("queries", "deliveries", index), f"no [[delivery]] is named '{name}'{did_you_mean(name, known)}"
                )
        return self


def _with_sections(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the sections that have a default for everything."""
    return {"pipeline": {}, "queries": {}} | document


_MODELS: dict[str, type[BaseModel]] = {
    "pipeline": PipelineSection,
    "queries": QueriesSection,
    "adapter": AdapterConfig,
    "test": TestBlock,
}
_DELIVERIES: dict[str, type[BaseModel]] = {
    "store": StoreDelivery,
    "eml": EmlDelivery,
    "jsonl": JsonlDelivery,
    "smtp": SmtpDelivery,
}
_ARRAYS = ("adapter", "delivery", "test")


def _sentence(path: Path, lines: dict[Place, int], details: ErrorDetails) -> str:
    """One mistake: file, line, what is wrong, what was expected, and the nearest name."""
    location, model = _location(details["loc"])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, MistakeError):
        location = (*location, *cause.below)
    where = config_errors.place_in_file(path, lines, location)
    return f"{where}: {_mistake(details, location, model)}"


def _location(loc: tuple[str | int, ...]) -> tuple[Place, type[BaseModel] | None]:
    """The place in the file, without the tag of a union that pydantic puts in; and the model that it belongs to."""
    section = {"adapters": "adapter", "deliveries": "delivery", "tests": "test"}.get(str(loc[0])) if loc else None
    loc = (section, *loc[1:]) if section else loc
    if len(loc) > 2 and loc[0] == "delivery" and loc[2] in _DELIVERIES:
        return (*loc[:2], *loc[3:]), _DELIVERIES[str(loc[2])]
    return loc, _MODELS.get(str(loc[0])) if loc else None


def _mistake(details: ErrorDetails, location: Place, model: type[BaseModel] | None) -> str:
    kind, name = details["type"], location[-1] if location else ""
    within = _table(location[:1])
    if kind == "extra_forbidden":
        known = list(_keys(model)) if len(location) > 1 and model else ["pipeline", "queries", *_ARRAYS]
        inside = f" in {within}" if len(location) > 1 else ""
        return f"unknown key '{name}'{inside}{did_you_mean(str(name), known)}"
    if kind == "missing":
        return f"{within} needs '{name}'"
    if kind == "union_tag_not_found":
        return f"{within} needs 'type': one of {', '.join(_DELIVERIES)}"
    if kind == "union_tag_invalid":
        tag = str(details.get("ctx", {}).get("tag"))
        return (
            f"unknown type '{tag}' in {within}{did_you_mean(tag, list(_DELIVERIES))}; known: {', '.join(_DELIVERIES)}"
        )
    if kind == "value_error":
        return str(details.get("ctx", {}).get("error"))
    if kind == "tuple_type" and len(location) == 1:
        return f"expected {within}, not [{name}]"
    shown = ".".join(str(part) for part in location[1:] if isinstance(part, str)) or within
    return f"{shown}: {config_errors.expected(details, _PATTERNS)}, not {short(details['input'])}"


def _keys(model: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def _table(section: Place) -> str:
    name = str(section[0]) if section else "the file"
    return f"[[{name}]]" if name in _ARRAYS else f"[{name}]"
