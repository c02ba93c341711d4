"""Stores the state of adapters: what the command line asked of each, and what the pipeline last reported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from sqlalchemy import Connection, delete, insert, select, update

from tamis.store.database import Database
from tamis.store.dialect import insert_new
from tamis.store.models import adapter_errors, adapters
from tamis.store.records import AdapterDesire, AdapterProblem, AdapterState

ERRORS_MAX = 20
"""Maximum number of errors that are kept of each adapter."""

_e = adapter_errors.c
_UNKNOWN = {"desired": "running", "status": "stopped", "read_count": 0, "dead_count": 0}


class Adapters(Database):
    """The part of the store that keeps the state of adapters."""

    def adapter_states(self, names: Sequence[str] = ()) -> list[AdapterState]:
        """Return the states of all adapters on record, by name; with `names`, of only those, in that order.

        An adapter of `names` that is not on record is added as stopped, with the desired state running.
        """
        with self._read() as connection:
            states = _states(connection)
        if missing := [name for name in names if name not in states]:
            with self._write() as connection:
                for name in missing:
                    _ensure(connection, name)
                states = _states(connection)
        return [states[name] for name in names or sorted(states)]

    def set_adapter_desired(self, name: str, desired: AdapterDesire) -> None:
        """Ask an adapter to be ``running``, ``paused`` or ``stopped``; the pipeline obeys at its next look.

        Raises:
            ValueError: `desired` is none of these words.
        """
        if desired not in get_args(AdapterDesire):
            raise ValueError(f"expected running, paused or stopped, not {desired!r}")
        with self._write() as connection:
            _ensure(connection, name)
            connection.execute(update(adapters).where(adapters.c.name == name).values(desired=desired))

    def report_adapter(
        self,
        name: str,
        status: str,
        *,
        error: str | None = None,
        read_count: int = 0,
        dead_count: int = 0,
        at: datetime | None = None,
    ) -> None:
        """Record the status of an adapter.

        Args:
            name: the adapter's name.
            status: one word, such as ``running``.
            error: its last error, which is kept with its time; None if it has no error now.
            read_count: messages read since the last report, which are added to the number on record.
            dead_count: dead letters among them.
            at: the time of the report; default: now.
        """
        now = at or datetime.now(UTC)
        changes: dict[str, Any] = {
            "status": status,
            "last_error": error,
            "read_count": adapters.c.read_count + read_count,
            "dead_count": adapters.c.dead_count + dead_count,
            "updated_at": now,
        }
        if read_count:
            changes["last_batch_at"] = now
        with self._write() as connection:
            _ensure(connection, name)
            connection.execute(update(adapters).where(adapters.c.name == name).values(changes))
            if error is not None:
                _note_error(connection, name, now, error)

    def adapter_errors(self, name: str) -> list[AdapterProblem]:
        """Return the last errors of an adapter, at most `ERRORS_MAX`, the newest first."""
        newest = select(_e.at, _e.error).where(_e.name == name).order_by(_e.id.desc())
        with self._read() as connection:
            return [AdapterProblem(*row) for row in connection.execute(newest)]


def _note_error(connection: Connection, name: str, at: datetime, error: str) -> None:
    """Keep an error, and forget the oldest beyond `ERRORS_MAX`."""
    connection.execute(insert(adapter_errors).values(name=name, at=at, error=error))
    kept = select(_e.id).where(_e.name == name).order_by(_e.id.desc()).limit(ERRORS_MAX)
    connection.execute(delete(adapter_errors).where(_e.name == name, _e.id.not_in(kept)))


def _ensure(connection: Connection, name: str) -> None:
    row = {"name": name, "updated_at": datetime.now(UTC)} | _UNKNOWN
    connection.execute(insert_new(connection, adapters).values(row))


def _states(connection: Connection) -> dict[str, AdapterState]:
    return {row.name: AdapterState(**row._asdict()) for row in connection.execute(select(adapters))}
