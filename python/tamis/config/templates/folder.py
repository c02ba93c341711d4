"""Reads and checks the templates of a folder, and renders them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tamis.config.templates.fields import ALONE, TOGETHER, sample
from tamis.config.templates.limits import CHARACTERS_MAX, begin
from tamis.errors import ConfigError
from tamis.name_hints import did_you_mean


class Templates:
    """The templates of a folder. Thread-safe.

    Args:
        folder: has some of the files `ALONE` and `TOGETHER`, and files that they include.

    Attributes:
        names: the templates that are there.

    Raises:
        ConfigError: the folder has none of them, or one has a mistake; the text says file and line.
    """

    def __init__(self, folder: Path) -> None:
        from tamis.config.templates.environment import template_environment

        self._folder = folder
        try:
            self.names = [name for name in (*ALONE, *TOGETHER) if (folder / name).is_file()]
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be read: {error.strerror}") from error
        if not self.names:
            raise ConfigError(f"{folder}: no template: expected some of {', '.join((*ALONE, *TOGETHER))}")
        self._environment = template_environment(folder)
        for name in self.names:
            self._check(name)

    def render(self, name: str, context: Mapping[str, Any]) -> str:
        """Return the text that a template gives.

        Args:
            name: one of `names`.
            context: the fields, as `sample` returns them.

        Raises:
            Exception: whatever goes wrong with values that the samples do not have.
        """
        begin()
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
    """Return the templates of a folder, which is read once.

    Raises:
        ConfigError: see `Templates`.
    """
    return Templates(folder)


def checked_folder(folder: Path) -> Path:
    """Return a folder of templates, for a section of pipeline.toml.

    Raises:
        ValueError: see the ConfigError of `Templates`.
    """
    try:
        templates_of(folder)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return folder


def _place(folder: Path, traceback: TracebackType | None) -> str | None:
    """Return the file and line of a template in which an error arose."""
    place = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if Path(file).is_relative_to(folder):
            place = f"{file}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
