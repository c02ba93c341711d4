"""Finds names in queries that no adapter of a pipeline gives, and the names that were probably meant."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Final

from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.registry import source_class
from tamis.config.pipeline import PipelineConfig
from tamis.errors import QueryError, TamisError
from tamis.name_hints import nearest
from tamis.query import QuerySpec

PARTS: Final = ("topic", "body")
"""The parts of a message, which every adapter gives."""

_MAIL_NAMES: Final = frozenset(it.name for it in MAIL_PROPERTIES)


def name_warnings(config: PipelineConfig, spec: QuerySpec) -> Iterator[str]:
    """Yield a sentence for each name in a query that no message of the pipeline has.

    The names of mail are known. JSON lines and streams may have any name: if the pipeline reads some, only a name that
    is close to a part of the message is told. A query that cannot be read has none.
    """
    is_closed = bool(config.adapters) and all(_is_mail(adapter.type) for adapter in config.adapters)
    for name in _names(spec):
        if name.lower() in PARTS or name in _MAIL_NAMES or name.startswith("header."):
            continue
        near = nearest(name, (*PARTS, *_MAIL_NAMES) if is_closed else PARTS)
        if is_closed or near is not None:
            hint = f"; did you mean {near}?" if near is not None else f"; mail has {', '.join(sorted(_MAIL_NAMES))}"
            yield f"no adapter gives a property '{name}'{hint}"


def _is_mail(source_type: str) -> bool:
    return source_class(source_type).properties == MAIL_PROPERTIES


def _names(spec: QuerySpec) -> list[str]:
    from tamis.engine import Engine

    engine = Engine()
    with warnings.catch_warnings():  # they are told where the query is compiled to be used
        warnings.simplefilter("ignore")
        try:
            engine.add(spec.key, spec.compile())
        except (QueryError, TamisError, ValueError):
            return []
    return engine.names()
