"""An `[[owner]]` is read, and every mistake in one is told with its line and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.config.owners import find_owner
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
        ("per_s = 60", "'per_s' is used only with 'most' or 'most_in_all'"),
        ("most = 0", "most"),
        ("most_in_all = 0", "most_in_all"),
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
    with pytest.raises(ConfigError, match="'most_in_all' has no effect with a digest"):
        _load(tmp_path, 'digest = "day"', "most_in_all = 3")
    with pytest.raises(ConfigError, match="line 3: 'most' has no effect above 'most_in_all'"):
        _load(tmp_path, "most = 3", "most_in_all = 2")


def test_a_profile_has_its_own_rhythm_and_the_rest_of_its_owner(tmp_path: Path) -> None:
    profiles = [
        "[[owner.profile]]",
        'name = "urgent"',
        "[[owner.profile]]",
        'name = "list"',
        'to = "c@d.org"',
        "most = 2",
    ]
    config = _load(tmp_path, 'to = "a@b.org"', 'time_zone = "Asia/Kolkata"', 'digest = "day"', *profiles)
    ann, urgent, listed = config.people
    assert [it.name for it in config.people] == ["ann", "ann/urgent", "ann/list"]
    assert (ann.digest, urgent.digest, listed.digest) == ("day", "none", "none")
    assert (ann.to, urgent.to, listed.to) == (("a@b.org",), ("a@b.org",), ("c@d.org",))
    assert {it.zone.key for it in config.people} == {"Asia/Kolkata"}
    assert (urgent.most, listed.most) == (None, 2)
    by_name = {it.name: it for it in config.people}
    assert find_owner(by_name, "ann/list") == listed
    assert find_owner(by_name, "ann/gone") == ann
    assert find_owner(by_name, "ben") is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['digest = "month"'], "line 5: profile.digest: expected"),
        (['adress = "a@b.org"'], "line 5: unknown key 'adress' in [[owner.profile]]"),
        (['weekday = "mon"'], "line 5: 'weekday' is used only with digest = \"week\""),
        (["confirm = true"], "line 5: 'confirm' needs 'to': the addresses to confirm"),
        (["[[owner.profile]]", 'name = "urgent"'], "line 6: the name 'urgent' is taken already"),
        (["[[owner.profile]]", "most = 3"], "line 5: [[owner.profile]] needs 'name'"),
        (["[[owner.profile.profile]]", 'name = "deeper"'], "line 5: unknown key 'profile' in [[owner.profile]]"),
    ],
)
def test_a_mistake_in_a_profile_is_told_with_its_line(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, "[[owner.profile]]", 'name = "urgent"', *lines)
    assert f"pipeline.toml, {expected}" in str(raised.value)


def test_confirmed_addresses_of_a_profile_need_the_page_that_confirms_them(tmp_path: Path) -> None:
    profile = ["[[owner.profile]]", 'name = "urgent"', "confirm = true"]
    with pytest.raises(ConfigError, match=r"'confirm' needs \[unsubscribe\]"):
        _load(tmp_path, 'to = "a@b.org"', *profile)
