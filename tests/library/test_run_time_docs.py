"""Everything public has documentation at run time, and the stub documents the core in the same words."""

from __future__ import annotations

import enum
import importlib
import inspect
import pydoc
import types
from collections.abc import Iterator
from typing import Any

import pytest

import tamis
import tamis.errors
import tamis.spark
import tamis.words
from tamis import _core
from tools import stub

MODULES: list[types.ModuleType] = [tamis, tamis.words, tamis.errors]


def public_objects() -> Iterator[tuple[str, Any]]:
    """Every public function and class with its public methods and properties, by dotted name."""
    for module in MODULES:
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) or inspect.isroutine(found):
                yield f"{module.__name__}.{name}", found
            if inspect.isclass(found):
                yield from members(f"{module.__name__}.{name}", found)


def members(name: str, found: type) -> Iterator[tuple[str, Any]]:
    for member, value in sorted(vars(found).items()):  # properties of the core come in any order
        is_data = isinstance(value, enum.Enum) or not hasattr(value, "__doc__") or isinstance(value, str | int | float)
        if not member.startswith("_") and not is_data and (callable(getattr(found, member)) or is_property(value)):
            yield f"{name}.{member}", getattr(found, member) if not is_property(value) else value


def is_property(value: object) -> bool:
    return isinstance(value, property | types.GetSetDescriptorType)


OBJECTS = dict(public_objects())


def parameters(found: Any) -> list[str]:
    """The names of what a caller gives; for a class, of what makes one."""
    if is_property(found):
        return []
    try:
        return [name for name in inspect.signature(found).parameters if name not in ("self", "cls", "_")]
    except ValueError:  # Query, which no call makes
        return []


def test_the_walk_meets_the_classes_of_the_core_and_of_python() -> None:
    assert {
        "tamis.Query.evaluate",
        "tamis.Bitmap.next_set",
        "tamis.Engine.match",
        "tamis.words.Signature.word_count",
    } <= set(OBJECTS)
    assert len(OBJECTS) > 75


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_has_a_sentence_and_names_its_arguments(name: str) -> None:
    text = inspect.getdoc(OBJECTS[name]) or ""
    assert len(text.split()) >= 3, "no docstring"
    assert text.splitlines()[0].endswith((".", ":")), "the first line is no sentence"
    described = text + (
        inspect.getdoc(OBJECTS[name.rpartition(".")[0]]) or "" if name.rpartition(".")[0] in OBJECTS else ""
    )
    missing = [
        each for each in parameters(OBJECTS[name]) if f"{each}:" not in described and f"`{each}`" not in described
    ]
    assert missing == [], "arguments without a word"


def test_the_compiled_classes_say_how_they_are_called() -> None:
    assert str(inspect.signature(tamis.Query.evaluate)).startswith(
        "(self, /, properties=None, topic=None, body=None, *,"
    )
    assert str(inspect.signature(tamis.Bitmap)) == "(size)"
    for name, found in OBJECTS.items():
        if isinstance(found, types.MethodDescriptorType | types.BuiltinFunctionType):
            assert found.__text_signature__, name


def test_help_describes_the_functions_for_spark_though_they_are_imported_late() -> None:
    shown = pydoc.plaintext.document(importlib.import_module("tamis.spark"))
    assert [name for name in tamis.spark.__all__ if name not in shown] == []
    assert "match(queries" in shown


def test_the_stub_documents_the_core_in_the_same_words() -> None:
    """`make stub` makes it so."""
    assert [name for name, _, _ in stub.differences(stub.STUB.read_text(encoding="utf-8"), _core)] == []


def test_a_difference_in_the_stub_is_seen_and_mended() -> None:
    text = stub.STUB.read_text(encoding="utf-8")
    changed = text.replace('"""Clear every bit."""', '"""Set every bit."""')
    assert [name for name, _, _ in stub.differences(changed, _core)] == ["Bitmap.reset"]
    assert stub.differences(stub.with_documentation(changed, _core), _core) == []
    bare = text.replace('\n        """Clear every bit."""\n', " ...\n")
    assert stub.differences(stub.with_documentation(bare, _core), _core) == []
