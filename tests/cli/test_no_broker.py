"""`publish`, `consume` and `tail` explain that there is no broker."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Tamis

pytest.importorskip("pika", reason="the client is not installed: pip install 'tamis[client]'")

NOWHERE = ("--url", "amqp://guest:guest@127.0.0.1:1/")
COMMANDS = [("publish", "x"), ("consume", "q"), ("tail", "amq.topic")]


@pytest.fixture
def tamis(tamis_process: Tamis) -> Tamis:
    """Run commands in processes of their own: they wait for the broker with signals and time limits."""
    return tamis_process


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broker_that_is_not_there_is_said_and_how_to_start_one(tamis: Tamis, command: tuple[str, ...]) -> None:
    done = tamis(*command, *NOWHERE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: no broker can be reached at 127.0.0.1:1: Connection refused\n"
        "  `tamis serve` starts one on this machine; --url names another\n"
    )


def test_who_does_not_answer_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    from tamis.cli.amqp import connection as amqp

    monkeypatch.setattr(amqp, "CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(amqp.BrokerError) as refused:
            amqp.connect(amqp.BrokerAddress(f"amqp://{place}/", None, "consume"))
    assert str(refused.value).splitlines()[0] == (
        f"no broker can be reached at {place}: there was no answer of a broker within 0 s"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_socket_that_is_not_there_is_said(tamis: Tamis, command: tuple[str, ...]) -> None:
    done = tamis(*command, "--unix", "none.sock")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no broker can be reached at none.sock: No such file or directory\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "amqp://127.0.0.1:x/", "127.0.0.1", "amqp://ann@127.0.0.1/"])
def test_what_is_no_url_of_amqp_is_said(tamis: Tamis, url: str) -> None:
    done = tamis("consume", "q", "--url", url)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --url: expected amqp://user:password@host:port/vhost")
    assert ("user 'ann' without a password" in done.stderr) is ("ann" in url)


def test_a_bad_query_is_refused_with_its_caret_before_anything_is_sent(tamis: Tamis) -> None:
    done = tamis("tail", "amq.topic", "--query", "price >> 3", *NOWHERE)
    assert done.returncode == 2
    assert done.stderr == "error: expected a number\n  price >> 3\n         ^ did you mean `>`?\n"


def test_an_unknown_language_or_place_is_refused_before_anything_is_sent(tamis: Tamis) -> None:
    done = tamis("tail", "amq.topic", "--query", "a", "--language", "selectr", *NOWHERE)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: unknown language 'selectr'; did you mean 'selector'?; known: selector, cbm, boolean, topic, "
        "topic:openamq, topic:openamq-program, prefix, regex, fields, text, near, predicate, boolean:NAMES",
    )
    done = tamis("tail", "s", "--from", "yesterday", *NOWHERE)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: --from: expected next, first, last, an offset, a time or an age, not 'yesterday'\n"
    )


def test_the_password_is_in_no_message(tamis: Tamis) -> None:
    done = tamis("consume", "q", TAMIS_AMQP_URL="amqp://ann:secret@127.0.0.1:1/")
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_without_pika_the_extra_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pika.py").write_text("raise ModuleNotFoundError(\"No module named 'pika'\", name='pika')")
    program = "import sys; sys.path.insert(0, '.'); from tamis.cli import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: this command needs the extra 'client'\n  pip install 'tamis[client]'\n"
