"""Makes a failing program small: leaves out what it fails without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from tests.model.program import Burst, Program

TRIES_MAX = 600


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a smaller program that `fails` still, after at most `TRIES_MAX` tries."""
    tries = 0
    while True:
        for smaller in _smaller(program):
            tries += 1
            if tries > TRIES_MAX:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(program: Program) -> Iterator[Program]:
    """Return programs with something left out, much of it first."""
    for name in ("operations", "bindings"):
        items = getattr(program, name)
        size = len(items)
        while size:
            for start in range(0, len(items), size):
                yield replace(program, **{name: items[:start] + items[start + size :]})
            size //= 2
    for index, operation in enumerate(program.operations):
        if isinstance(operation, Burst):
            for left_out in range(len(operation.publishes)):
                fewer = operation.publishes[:left_out] + operation.publishes[left_out + 1 :]
                if fewer:
                    yield _with(program, "operations", index, Burst(fewer))
    yield from _without_values(program)


def _without_values(program: Program) -> Iterator[Program]:
    """Return programs in which one value is its default, or there is one exchange or queue less."""
    for name in ("exchanges", "queues"):
        items = getattr(program, name)
        for index, item in enumerate(items):
            used = {getattr(binding, side) for binding in program.bindings for side in ("source", "target")}
            if item.name not in used and f"'{item.name}'" not in repr(program.operations):
                yield replace(program, **{name: items[:index] + items[index + 1 :]})
    for name in ("queues", "exchanges", "operations"):
        for index, item in enumerate(getattr(program, name)):
            for field in fields(item):
                if field.name in {
                    "name",
                    "client",
                    "queue",
                    "exchange",
                    "key",
                    "kill",
                    "size",
                } or field.default is getattr(item, field.name):
                    continue
                if type(field.default) in {int, bool, str, type(None)} and getattr(item, field.name) != field.default:
                    yield _with(program, name, index, replace(item, **{field.name: field.default}))


def _with(program: Program, name: str, index: int, item: object) -> Program:
    items = list(getattr(program, name))
    items[index] = item
    return replace(program, **{name: tuple(items)})
