"""An `[[owner]]` is read, and every mistake in one is told with its line and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError


def _load(folder: Path, *lines: str) -> PipelineConfig:
    path = folder / "pipeline.toml"
    path.write_text("\n".join(["[[owner]]", 'name = "ann"', *lines]))
    return PipelineConfig.load(path)


def test_an_owner_has_addresses_and_a_rhythm(tmp_path: Path) -> None:
    (owner,) = _load(tmp_path, 'to = "a@b.org"', 'time_zone = "Europe/Berlin"', 'quiet = "22:00-07:00"').owners
    assert (owner.to, owner.digest, owner.zone.key) == (("a@b.org",), "none", "Europe/Berlin")
    (owner,) = _load(tmp_path, 'digest = "week"', 'weekday = "fri"', 'at = "17:30"').owners
    assert (owner.weekday, owner.digest_time.hour) == ("fri", 17)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('time_zone = "Europe/Berlim"', "no time zone is named 'Europe/Berlim'; expected a name such as Europe/Berlin"),
        ('time_zone = "../etc/passwd"', "no time zone is named"),
        ('digest = "month"', "digest"),
        ('at = "08:00"', '\'at\' is used only with digest = "day" or digest = "week"'),
        ('weekday = "mon"', "'weekday' is used only with digest = \"week\""),
        ("per_s = 60", "'per_s' is used only with 'most'"),
        ("most = 0", "most"),
        ('quiet = "22-7"', "two times as 22:00-07:00"),
        ('quiet = "22:00-24:00"', "two times as 22:00-07:00"),
        ('quiet = "08:00-08:00"', "the quiet hours end when they begin"),
        ('adress = "a@b.org"', "unknown key 'adress' in [[owner]]"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, line)
    assert expected in str(raised.value)
    assert "pipeline.toml, line 3: " in str(raised.value)


def test_a_name_is_taken_once_and_a_limit_is_of_no_use_in_a_digest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the name 'ann' is taken already"):
        _load(tmp_path, "[[owner]]", 'name = "ann"')
    with pytest.raises(ConfigError, match="'most' has no effect with a digest: remove one of them"):
        _load(tmp_path, 'digest = "day"', "most = 3")
