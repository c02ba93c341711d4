"""The faults that `make planted` puts into the core have their places there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.planted import BROKER, FAULTS, Fault

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_changes_one_place(fault: Fault) -> None:
    source = (PROJECT / BROKER / fault.file).read_text(encoding="utf-8")
    assert fault.plant(source) != source
