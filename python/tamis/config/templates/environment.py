"""Makes the environment of templates: Jinja's sandbox, with few filters and bounds on work and size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tamis.config.templates.fields import TemplateFields
from tamis.config.templates.limits import bounded_filter, check_size, counted, rounds, take
from tamis.name_hints import did_you_mean

_FILTERS = (
    "capitalize default d e escape first int items join last length list lower replace reverse round sort string "
    "striptags title tojson trim truncate unique upper urlencode wordcount wordwrap"
).split()
_GROWING = frozenset(
    "center encode expandtabs format format_map join ljust replace rjust to_bytes translate zfill".split()
)
"""Methods of texts and numbers that can give much more than they are given."""
_DATE = "%a %d %b %Y, %H:%M %Z"


class _Counting(NodeTransformer):
    """Counts the rounds of each loop, and the characters of each text that is put together."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - jinja's name
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_rounds", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(node, "_counted", [], [], None, None, lineno=node.lineno)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        is_number = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "**" or (operator != "+" and not is_number):
            raise SecurityError(f"'{'%' if operator == '%' else '*'}' works on numbers only, and '**' is refused")
        return counted(super().call_binop(context, operator, left, right))

    def call(self, context: Any, function: Any, *given: Any, **options: Any) -> Any:
        take(1)
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if name in _GROWING and (owner is None or isinstance(owner, str | int)):
            raise SecurityError(f"{name}() is not allowed: use a filter")
        return super().call(context, function, *given, **options)

    def get_template(self, *given: Any, **options: Any) -> jinja2.Template:
        take(1)
        return super().get_template(*given, **options)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
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


def template_environment(folder: Path) -> jinja2.Environment:
    """Return the environment that reads and renders the templates of `folder`."""
    environment = _Environment(
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
    environment.filters = {name: bounded_filter(environment.filters[name]) for name in _FILTERS}
    environment.filters |= {"_rounds": rounds, "_counted": counted}
    environment.filters["date"] = jinja2.pass_context(lambda context, value, form=_DATE: _shown(value, form, context))
    environment.filters["tojson"] = bounded_filter(lambda value: json.dumps(value, default=str, ensure_ascii=False))
    return environment


def _shown(value: Any, form: str, context: Mapping[str, Any]) -> Any:
    """Return a value as people write it: a time in their zone, nothing for None. Text is not changed."""
    if isinstance(value, datetime):
        return value.astimezone(ZoneInfo(context.get("zone") or "UTC")).strftime(form)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        check_size(value)
        return ", ".join(str(_shown(one, form, context)) for one in value)
    return "" if value is None else value
