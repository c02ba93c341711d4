"""The page of benchmarks has readable charts, tables of what was measured, and aims that are judged rightly."""

from __future__ import annotations

import importlib
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tamis

PROJECT = Path(__file__).resolve().parent.parent
SVG = "{http://www.w3.org/2000/svg}"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module of the folder benchmarks, whose scripts import each other as top-level modules."""
    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    return importlib.import_module(name)


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("_charts", monkeypatch)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("write_page", monkeypatch)


def document(name: str, *tables: dict[str, Any], load: float = 0.5) -> dict[str, Any]:
    machine = {"processor": "P", "cores": 2, "ghz": 3.0, "system": "linux x86_64"}
    times = {"started": 0, "seconds": 7, "load": [load, load]}
    return {
        "benchmark": name,
        "arguments": "--n 5",
        "version": "1",
        "machine": machine,
        **times,
        "tables": list(tables),
    }


def costs(*rows: tuple[str, int, float]) -> dict[str, Any]:
    records = [{"matcher": name, "filters": count, "p50_cpu_us": cost} for name, count, cost in rows]
    columns = [["matcher", "matcher", 0], ["p50_cpu_us", "p50", 1]]
    return {"name": "costs", "title": "costs | µs", "columns": columns, "records": records, "notes": ["a note"]}


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_a_line_chart_has_its_title_axes_units_and_legend(charts: ModuleType) -> None:
    series = [charts.Series("tamis", [(1_000, 2), (500_000, 9)]), charts.Series("a < b", [(1_000, 20), (500_000, 900)])]
    picture = charts.lines("growth", charts.Axis("filters"), charts.Axis("µs a message"), series, ("guide", 0.6))
    assert {"growth", "filters", "µs a message", "tamis", "a < b", "1k", "500k", "- - guide"} <= set(texts(picture))
    root = ET.fromstring(picture)
    assert (root.get("role"), root.find(f"{SVG}title").text) == ("img", "growth")  # type: ignore[union-attr]
    assert "tamis 2 to 9" in (root.find(f"{SVG}desc").text or "")  # type: ignore[union-attr]


def test_every_point_lies_within_the_picture_and_larger_is_higher(charts: ModuleType) -> None:
    values = [(1, 0.003), (10, 0.02), (1_000_000, 70_000)]
    picture = charts.lines("t", charts.Axis("x"), charts.Axis("y"), [charts.Series("s", values)])
    line = next(ET.fromstring(picture).iter(f"{SVG}polyline")).get("points") or ""
    places = [tuple(map(float, place.split(","))) for place in line.split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert all(0 < x < charts.WIDTH and 0 < y < charts.LINES_HEIGHT for x, y in places)


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [1e-5, 1e9], [3, 3.1]])
def test_an_axis_bears_all_values(charts: ModuleType, values: list[float]) -> None:
    for is_log in {True, False} if min(values) > 0 else {False}:
        scale = charts.Scale(charts.Axis("x", is_log), values, 100, 200)
        assert all(99.9 <= scale.at(value) <= 200.1 for value in [*values, *scale.ticks()])
        assert 2 <= len(scale.ticks()) <= 16


def test_points_stand_in_their_rows(charts: ModuleType) -> None:
    series = [charts.Series("p50", [(0, 1.0), (1, 5.0)]), charts.Series("p99", [(0, 3.0)])]
    picture = charts.points("t", ["first", "second"], charts.Axis("µs"), series)
    assert {"first", "second", "µs", "p50", "p99"} <= set(texts(picture))
    assert {"first, p50: 1", "second, p50: 5", "first, p99: 3"} <= {
        element.text for element in ET.fromstring(picture).iter(f"{SVG}title")
    }


def test_the_page_has_a_section_a_chart_and_a_table_for_what_was_measured(page: ModuleType, tmp_path: Path) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    out.mkdir()
    run = document("boolean", costs(("tamis", 1_000, 1), ("tamis", 500_000, 9), ("peer", 1_000, 5)))
    (out / "boolean.json").write_text(json.dumps(run), encoding="utf-8")
    (docs / "benchmarks").mkdir(parents=True)
    (docs / "benchmarks" / "of-another-time.svg").touch()
    written = page.write(page.read_runs(out), docs)
    text = (docs / "benchmarks.md").read_text(encoding="utf-8")
    assert "P at 3.0 GHz, 2 cores" in text
    assert "1970-01-01 00:00" in text
    assert "| peer | 5.0 |" in text
    assert "**Costs | µs**" in text
    assert "\na note\n" in text
    assert "busy" not in text
    assert text.count("\n## ") == 3  # the runs, the aims, the one section
    assert written[0] == docs / "benchmarks.md"
    assert sorted((docs / "benchmarks").iterdir()) == written[1:]
    assert all(f"](benchmarks/{path.name})" in text for path in written[1:])


def test_a_busy_machine_is_told(page: ModuleType, tmp_path: Path) -> None:
    sections = importlib.import_module("_sections")
    page.write({"boolean": sections.Run(document("boolean", costs(("tamis", 10, 1)), load=5.0))}, tmp_path)
    assert "busy with other work** during boolean" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("tamis", 500_000, 9), ("tamis", 1_000, 99), ("peer", 500_000, 99)], "9.00 µs | yes |"),
        ([("tamis", 500_000, 11)], "11.00 µs | **no** |"),
        ([("tamis", 10_000, 3), ("tamis", 1_000, 2), ("tamis", 1_000_000, 50)], "3.00 µs | yes, at 10,000 |"),
    ],
)
def test_an_aim_is_judged_at_its_size_or_the_nearest_below(
    page: ModuleType, rows: list[tuple[str, int, float]], told: str
) -> None:
    sections = importlib.import_module("_sections")
    table = page.goal_table({"boolean": sections.Run(document("boolean", costs(*rows)))})
    assert f"| 500,000 Boolean filters, p50 | at most 10 µs | {told}" in table


def test_the_page_that_is_kept_has_the_words_of_the_program(page: ModuleType) -> None:
    sections = importlib.import_module("_sections").SECTIONS
    kept = (PROJECT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert kept.startswith(page.HEAD)
    assert [one.title for one in sections if f"## {one.title}\n\n{one.text.strip()}\n" not in kept] == []


# ---- Sigma's rules ---------------------------------------------------------------------------------------------------

RULE: dict[str, Any] = {
    "logsource": {"category": "process_creation"},
    "detection": {
        "selection": {"Image|endswith": ["\\a.exe", "\\b.exe"], "CommandLine|contains|all": ["-X", "50%"]},
        "filter_one": {"User": ["system", None]},
        "filter_two": {"ParentImage": "C:\\Tools\\\\*"},
        "condition": "selection and not 1 of filter_*",
    },
}
EVENT = {
    "Channel": "Microsoft-Windows-Sysmon/Operational",
    "EventID": 1,
    "Image": "C:\\B.exe",
    "CommandLine": "b -x 50%",
    "User": "me",
}


@pytest.mark.parametrize(
    ("changes", "is_true"),
    [
        ({}, True),
        ({"EventID": 2}, False),
        ({"Image": "C:\\c.exe"}, False),
        ({"CommandLine": "b -x 500"}, False),
        ({"User": "SYSTEM"}, False),
        ({"User": None}, False),
        ({"ParentImage": "c:\\tools\\x.exe"}, False),
        ({"ParentImage": "c:\\toolsx.exe"}, True),
    ],
)
def test_a_sigma_rule_means_the_same_as_a_selector(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], is_true: bool
) -> None:
    sigma = load("_sigma", monkeypatch)
    query = tamis.selector(sigma.selector_of(RULE))
    assert (query.evaluate(sigma.fold({**EVENT, **changes})) is True) == is_true


@pytest.mark.parametrize(
    ("field", "wanted", "value", "is_true"),
    [
        ("a", "x?z*", "XYZ1", True),
        ("a", "x\\*", "x*", True),
        ("a", "x\\*", "xy", False),
        ("a|contains", "100%_!", "is 100%_! x", True),
        ("a|contains", "100%_!", "is 1000_! x", False),
        ("a|contains|windash", " -p", "b /P", True),
        ("a|startswith", "it's", "It's", True),
        ("a|cidr", "172.16.0.0/12", "172.31.9.9", True),
        ("a|cidr", "172.16.0.0/12", "172.32.0.1", False),
        ("a|cidr", "fe80::/10", "FE9F::1", True),
        ("a|cidr", "::1/128", "::1", True),
        ("a|re", "^X[0-9]+$", "X12", True),
        ("a|re", "^X[0-9]+$", "x12", False),
        ("a|fieldref", "b", "SAME", True),
    ],
)
def test_sigma_modifiers(monkeypatch: pytest.MonkeyPatch, field: str, wanted: str, value: str, is_true: bool) -> None:
    sigma = load("_sigma", monkeypatch)
    logsource = {"service": "system"}
    rule = {"logsource": logsource, "detection": {"selection": {field: wanted}, "condition": "selection"}}
    text = sigma.selector_of(rule)
    event = sigma.fold({"Channel": "System", "a": value, "b": "same"}, sigma.raw_fields([text]))
    assert (tamis.selector(text).evaluate(event) is True) == is_true


def test_what_no_selector_can_say_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma = load("_sigma", monkeypatch)
    detection = {"selection": {"a|base64offset|contains": "x"}, "condition": "selection"}
    with pytest.raises(sigma.UnsupportedRuleError, match=r"modifier base64offset\|contains"):
        sigma.selector_of({"logsource": {"service": "system"}, "detection": detection})
    with pytest.raises(sigma.UnsupportedRuleError, match="condition that ends too early"):
        sigma.selector_of({**RULE, "detection": {**RULE["detection"], "condition": "selection and ("}})
    with pytest.raises(sigma.UnsupportedRuleError, match="log nowhere"):
        sigma.selector_of({"logsource": {"service": "nowhere"}, "detection": RULE["detection"]})


# ---- rules on events -------------------------------------------------------------------------------------------------


def test_a_peer_that_cannot_be_had_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peers, rules = load("_rule_peers", monkeypatch), load("event_rules", monkeypatch)

    def none() -> None:
        raise peers.NoPeerError("event-ruler: there is no Java")

    monkeypatch.setattr(peers.shutil, "which", lambda name: None)
    monkeypatch.setattr(rules, "event_ruler", none)
    assert list(rules.available(tmp_path)) == []
    assert capsys.readouterr().err.splitlines() == [
        "left out: there is no program go",
        "left out: event-ruler: there is no Java",
    ]


def test_an_event_has_about_900_bytes_and_a_rule_is_a_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = load("event_rules", monkeypatch)
    chance = rules.random.Random(3)
    sizes = [len(json.dumps(rules.event(chance), separators=(",", ":"))) for _ in range(50)]
    assert 800 < min(sizes) <= max(sizes) < 950
    for make in (rules.rule, rules.early_rule, rules.array_rule):
        for number in range(20):
            assert not tamis.selector(make(number, chance).selector).warnings


def teardown_module() -> None:
    for name in ("_charts", "_results", "_rule_peers", "_sections", "_sigma", "event_rules", "write_page"):
        sys.modules.pop(name, None)
