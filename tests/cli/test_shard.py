from __future__ import annotations

import json
from pathlib import Path

import tamis as library
from tests.cli.conftest import Tamis


def keys(folder: Path) -> list[str]:
    return sorted(key for path in folder.glob("shard-*.tamis") for key in library.Engine.open(path))


def test_a_file_and_a_snapshot_are_cut_into_shards(tamis: Tamis, tmp_path: Path) -> None:
    queries = tmp_path / "queries.toml"
    lines = [f"[[query]]\nkey = 'q{number}'\ntext = \"user = 'u{number}'\"\n" for number in range(10)]
    queries.write_text("".join(lines) + "[[query]]\nkey = 'paused'\ntext = 'a = 1'\npaused = true\n")
    done = tamis("shard", str(queries), str(tmp_path / "shards"), "--shards", "3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"queries": 10, "shards": 3, "met_by_all": 0}
    assert keys(tmp_path / "shards") == sorted(f"q{number}" for number in range(10))
    engine: library.Engine[str] = library.Engine()
    engine.add_many([("a", library.selector("a = 1")), ("b", library.selector("b > 1"))])
    engine.save(tmp_path / "queries.tamis")
    done = tamis("shard", str(tmp_path / "queries.tamis"), str(tmp_path / "others"), "--shards", "2")
    assert done.returncode == 0
    assert "2 shards with 2 queries" in done.stderr
    assert "every message meets 1 shard of queries without an access key" in done.stderr
    assert keys(tmp_path / "others") == ["a", "b"]


def test_a_folder_that_is_not_empty_and_a_bad_query_are_refused(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("bad: a >\n")
    done = tamis("shard", str(tmp_path / "queries.txt"), str(tmp_path))
    assert done.returncode == 2
    assert "expected a new or an empty folder" in done.stderr
    done = tamis("shard", str(tmp_path / "queries.txt"), str(tmp_path / "shards"))
    assert done.returncode == 2
    assert "a >" in done.stderr
    assert not (tmp_path / "shards").exists()
