"""Reads a folder of templates, which say how e-mails and webhooks look, and tries each when the configuration is read.

Templates are Jinja's, in its sandbox: they see the notification, and neither Python nor files outside the folder."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tamis.errors import ConfigError
from tamis.name_hints import did_you_mean

if TYPE_CHECKING:
    import jinja2

ALONE = ("subject.txt", "mail.txt", "mail.html", "webhook.json")
"""The templates that show one notification."""

TOGETHER = ("digest-subject.txt", "digest.txt", "digest.html")
"""The templates that show several notifications in one e-mail."""

CHARACTERS_MAX = 1_000_000
"""Maximum length of what a template gives, and of each text in it."""

STEPS_MAX = 200_000
"""Maximum number of steps of a template: rounds of loops, calls, included files, each 1,000 characters of a text."""

_FILTERS = (
    "capitalize default d e escape first int items join last length list lower replace reverse round sort string "
    "striptags title tojson trim truncate unique upper urlencode wordcount wordwrap"
).split()
_BITS_MAX = 256
_GROWING = frozenset(
    "center encode expandtabs format format_map join ljust replace rjust to_bytes translate zfill".split()
)
"""Methods of texts and numbers that can give much more than they are given."""
_DATE = "%a %d %b %Y, %H:%M %Z"


_left: ContextVar[int] = ContextVar("_left", default=STEPS_MAX)
"""The steps that the template that is being rendered has left."""


class TemplateFields(dict[str, Any]):
    """Fields with fixed names: a template that asks for another has a mistake. Of other mappings it gets nothing."""


class Templates:
    """The templates of a folder. Thread-safe.

    Args:
        folder: of the files `ALONE` and `TOGETHER`, of which some may be absent, and of others that they include.

    Attributes:
        names: the templates that are there.

    Raises:
        ConfigError: the folder has none of them, or one has a mistake; the text says file and line.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self.names = [name for name in (*ALONE, *TOGETHER) if (folder / name).is_file()]
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be read: {error.strerror}") from error
        if not self.names:
            raise ConfigError(f"{folder}: no template: expected some of {', '.join((*ALONE, *TOGETHER))}")
        self._environment = _environment(folder)
        for name in self.names:
            self._check(name)

    def render(self, name: str, context: Mapping[str, Any]) -> str:
        """Return the text that a template gives.

        Args:
            name: one of `names`.
            context: as `sample` has it.

        Raises:
            Exception: whatever goes wrong with values that the samples do not have.
        """
        _left.set(STEPS_MAX)
        parts, length = [], 0
        for part in self._environment.get_template(name).generate(context):
            parts.append(part)
            length += len(part)
            if length > CHARACTERS_MAX:
                raise ValueError(f"more than {CHARACTERS_MAX:,} characters")
        return "".join(parts)

    def _check(self, name: str) -> None:
        import jinja2

        samples = [sample(name, many=True), sample(name, many=False)]
        try:
            self._refuse_unknown_names(name, samples[0])
            for context in samples:
                given = self.render(name, context)
                if name.endswith(".json"):
                    json.loads(given)
        except jinja2.TemplateSyntaxError as error:
            path = error.filename if error.filename and Path(error.filename).is_file() else self._folder / name
            raise ConfigError(f"{path}, line {error.lineno}: {error.message}") from error
        except json.JSONDecodeError as error:
            expected = "expected JSON: write each value as {{ ... | tojson }}"
            raise ConfigError(f"{self._folder / name}: {expected}; it gives: {error}") from error
        except ConfigError:
            raise
        except Exception as error:
            place = _place(self._folder, error.__traceback__) or str(self._folder / name)
            raise ConfigError(f"{place}: {' '.join(str(error).split()) or type(error).__name__}") from error

    def _refuse_unknown_names(self, name: str, context: Mapping[str, Any]) -> None:
        from jinja2 import meta, nodes

        path = self._folder / name
        tree = self._environment.parse(path.read_text(encoding="utf-8"), name, str(path))
        for unknown in sorted(meta.find_undeclared_variables(tree) - context.keys()):
            line = next((node.lineno for node in tree.find_all(nodes.Name) if node.name == unknown), 1)
            known = ", ".join(sorted(context))
            raise ConfigError(
                f"{path}, line {line}: unknown name '{unknown}'{did_you_mean(unknown, context)}; known: {known}"
            )


@functools.cache
def templates_of(folder: Path) -> Templates:
    """The templates of a folder, which is read once.

    Raises:
        ConfigError: as `Templates`.
    """
    return Templates(folder)


def checked_folder(folder: Path) -> Path:
    """A folder of templates, for a section of pipeline.toml.

    Raises:
        ValueError: as the ConfigError of `Templates`.
    """
    try:
        templates_of(folder)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return folder


def sample(name: str, *, many: bool) -> dict[str, Any]:
    """The names that a template may use, with values for trying it.

    Args:
        name: of the template.
        many: with all that there can be; else with as little as possible.
    """
    link = "https://example.org/unsubscribe/WyJhbm4i.AAAA" if many else ""
    common = {"owner": "ann", "zone": "Europe/Berlin", "unsubscribe": link}
    one = _notification(many)
    if name in ALONE:
        return {**one, **common}
    notifications = [one, one] if many else [one]
    counts = [TemplateFields(query="frost", count=len(notifications))]
    return {"notifications": notifications, "count": len(notifications), "counts": counts, **common}


def _notification(many: bool) -> TemplateFields:
    at = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)
    message: dict[str, Any] = {}
    if many:
        message = {"subject": "Garden & <frost>", "author": "James", "date": at, "to": ["ann@example.org"], "size": 7}
    return TemplateFields(
        id="147e032d8ae147e032d8ae147e032d8a",
        matched_at=at,
        query=TemplateFields(key="frost", version=1, text="subject LIKE '%frost%'", language="selector"),
        message=message,
        subject="Garden & <frost>" if many else "(no subject)",
        topic="mail.inbox" if many else "",
        body='Cover the garlic: "frost" & <ice>.\n' if many else "",
        excerpts=["Cover the *garlic*", "the *frost*"] if many else [],
        reasons=["subject LIKE '%frost%'  (Garden & <frost>)"] if many else [],
        source="inbox",
        partition="mail/a.mbox",
        offset=4711,
    )


def _environment(folder: Path) -> jinja2.Environment:
    import jinja2
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.visitor import NodeTransformer

    class Counting(NodeTransformer):
        """Counts the rounds of each loop, and the characters of each text that is put together."""

        def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - jinja's name
            self.generic_visit(node)
            node.iter = nodes.Filter(node.iter, "_rounds", [], [], None, None, lineno=node.lineno)
            return node

        def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
            self.generic_visit(node)
            return nodes.Filter(node, "_counted", [], [], None, None, lineno=node.lineno)

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "+", "%"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            is_number = isinstance(left, int | float) and isinstance(right, int | float)
            if operator == "**" or (operator != "+" and not is_number):
                raise SecurityError(f"'{'%' if operator == '%' else '*'}' works on numbers only, and '**' is refused")
            return _counted(super().call_binop(context, operator, left, right))

        def call(self, context: Any, function: Any, *given: Any, **options: Any) -> Any:
            _take(1)
            owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
            if name in _GROWING and (owner is None or isinstance(owner, str | int)):
                raise SecurityError(f"{name}() is not allowed: use a filter")
            return super().call(context, function, *given, **options)

        def get_template(self, *given: Any, **options: Any) -> jinja2.Template:
            _take(1)
            return super().get_template(*given, **options)

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            tree: nodes.Template = Counting().visit(super()._parse(source, name, filename))
            return tree

        def getattr(self, obj: Any, attribute: str) -> Any:
            return self._item(obj, attribute) if isinstance(obj, dict) else super().getattr(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            return self._item(obj, argument) if isinstance(obj, dict) else super().getitem(obj, argument)

        def _item(self, fields: dict[str, Any], name: Any) -> Any:
            if name in fields:
                return fields[name]
            if not isinstance(fields, TemplateFields):
                return jinja2.ChainableUndefined(obj=fields, name=name)
            known = f"{did_you_mean(str(name), fields)}; known: {', '.join(fields)}"
            return self.undefined(f"unknown name '{name}'{known}")

    environment = Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        finalize=jinja2.pass_context(lambda context, value: _shown(value, _DATE, context)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.globals = {name: environment.globals[name] for name in ("range", "namespace")}
    environment.filters = {name: _bounded(environment.filters[name]) for name in _FILTERS}
    environment.filters |= {"_rounds": _rounds, "_counted": _counted}
    environment.filters["date"] = jinja2.pass_context(lambda context, value, form=_DATE: _shown(value, form, context))
    environment.filters["tojson"] = _bounded(lambda value: json.dumps(value, default=str, ensure_ascii=False))
    return environment


def _take(steps: int) -> None:
    left = _left.get() - steps
    _left.set(left)
    if left < 0:
        raise ValueError(f"the template takes more than {STEPS_MAX:,} steps")


def _counted(value: Any) -> Any:
    """Return `value` if it is not too long."""
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise ValueError(f"a number of more than {_BITS_MAX} bits")
    if isinstance(value, str | list | tuple):
        if len(value) > CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
        _take(1 + len(value) // 1_000)
    return value


def _rounds(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _take(1)
        yield value


def _check_size(value: Any) -> None:
    """Refuse lists and mappings that are too long as text; what stands in several places counts in each."""
    waiting, characters = [value], 0
    while waiting:
        one = waiting.pop()
        characters += len(one) if isinstance(one, str) else 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        if characters > CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
    _take(1 + characters // 1_000)


def _bounded(work: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that refuses what would make it give much more than it is given."""

    @functools.wraps(work)
    def bounded(*given: Any, **options: Any) -> Any:
        values = [one for one in (*given, *options.values()) if isinstance(one, str | list | tuple | dict)]
        for one in values:
            _check_size(one)
        sizes = sorted(map(len, values))
        if len(sizes) > 1 and sizes[-1] * sizes[-2] > 16 * CHARACTERS_MAX:
            raise ValueError(f"a text of more than {CHARACTERS_MAX:,} characters")
        return _counted(work(*given, **options))

    return bounded


def _shown(value: Any, form: str, context: Mapping[str, Any]) -> Any:
    """A value as people write it: a time in their zone, nothing for None; text stays as it is, for what escapes it."""
    if isinstance(value, datetime):
        return value.astimezone(ZoneInfo(context.get("zone") or "UTC")).strftime(form)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        _check_size(value)
        return ", ".join(str(_shown(one, form, context)) for one in value)
    return "" if value is None else value


def _place(folder: Path, traceback: TracebackType | None) -> str | None:
    """The file and line of a template in which an error arose."""
    place = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if Path(file).is_relative_to(folder):
            place = f"{file}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
