"""tamis.toml has options, which the command line overrides, and mistakes in it are explained."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.broker.config import BrokerConfig, JournalConfig, LimitsConfig, LogConfig, TlsConfig
from tamis.errors import ConfigError
from tamis.loopback import is_loopback

GOOD = """\
data = "broker"
host = "0.0.0.0"
amqp_port = 5673
unix = "/run/tamis.sock"
vhosts = ["/", "other"]
[tls]
cert = "cert.pem"
key = "key.pem"
[limits]
queues_per_user = 10
handshake_s = 5
[log]
format = "json"
"""


def load(folder: Path, text: str, **options: object) -> BrokerConfig:
    path = folder / "tamis.toml"
    path.write_text(text)
    return BrokerConfig.load(path, options)


def test_a_good_file_says_all_that_it_says(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert config.data == tmp_path / "broker"
    assert config.unix == Path("/run/tamis.sock")
    assert (config.host, config.amqp_port, config.http_port, config.vhosts) == ("0.0.0.0", 5673, 8765, ("/", "other"))
    assert config.tls == TlsConfig(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    assert config.limits == LimitsConfig(queues_per_user=10, handshake_s=5)
    assert config.log == LogConfig(format="json")
    assert (config.is_local_only, config.plain_host) == (False, "127.0.0.1")


def test_everything_has_the_default_that_the_documents_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = BrokerConfig.load(None)
    assert config == BrokerConfig() == load(tmp_path, "", data=Path("tamis-data"))
    assert (config.host, config.amqp_port, config.http_port, config.vhosts) == ("127.0.0.1", 5672, 8765, ("/",))
    assert (config.limits.message_bytes, config.limits.frame_bytes, config.limits.channels) == (2**24, 2**17, 2047)
    assert (config.limits.heartbeat_s, config.limits.handshake_s) == (60, 10)


def test_what_the_document_shows_can_be_written_so(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs/broker.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", document, re.DOTALL)
    config = load(tmp_path, text)
    assert config.limits == LimitsConfig(connections_per_user=100, queues_per_user=1000, memory_bytes=1 << 30)
    shown = {line.partition("=")[0].strip() for line in text.splitlines() if "=" in line}
    sections = (BrokerConfig, TlsConfig, JournalConfig, LimitsConfig, LogConfig)
    fields = {one.name for section in sections for one in dataclasses.fields(section)}
    assert fields - shown == {"tls", "journal", "limits", "mailboxes", "services", "log"}, "every key is shown"


def test_options_count_before_the_file_and_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tamis.toml").write_text("amqp_port = 1\nhttp_port = 2\n")
    monkeypatch.chdir(tmp_path)
    config = BrokerConfig.load(None, {"amqp_port": 7, "http_port": None})
    assert (config.amqp_port, config.http_port) == (7, 2)


MISTAKES = [
    ("amqp_port", "amqp_prot", "line 3: unknown key 'amqp_prot'; did you mean 'amqp_port'?"),
    ("[limits]", "[limit]", "line 9: unknown key 'limit'; did you mean 'limits'?"),
    ("key =", "kee =", "line 6: [tls] needs 'key'", "line 8: unknown key 'kee' in [tls]; did you mean 'key'?"),
    ("5673", '"5673"', "line 3: amqp_port: expected a whole number, not '5673'"),
    ("5673", "true", "line 3: amqp_port: expected a whole number, not True"),
    ("5673", "65536", "line 3: amqp_port: expected a number of at most 65535, not 65536"),
    ('["/", "other"]', '"/"', "line 5: vhosts: expected a list, not '/'"),
    ('["/", "other"]', "[]", "line 5: vhosts: expected at least one value, not []"),
    ('["/", "other"]', '[""]', "line 5: vhosts: expected some text, not ''"),
    ("= 10\n", "= -1\n", "line 10: limits.queues_per_user: expected a number of at least 0, not -1"),
    ("= 5\n", "= 0\n", "line 11: limits.handshake_s: expected a number above 0, not 0"),
    ('"json"', '"xml"', "line 13: log.format: expected 'auto', 'json' or 'console', not 'xml'"),
    ("[tls]\n", "[[tls]]\n", "line 6: tls: expected a table, not [{'cert': 'cert.pem', 'key': 'key.pem'}]"),
    ('"broker"', '"broker', "line 1, column 15: not TOML: illegal character '\\n'"),
]


@pytest.mark.parametrize(("there", "instead", "expected"), [(a, b, list(c)) for a, b, *c in MISTAKES])
def test_a_mistake_has_its_line_and_what_was_expected(
    tmp_path: Path, there: str, instead: str, expected: list[str]
) -> None:
    assert there in GOOD
    with pytest.raises(ConfigError) as error:
        load(tmp_path, GOOD.replace(there, instead, 1))
    found = [line.removeprefix(f"{tmp_path}/") for line in str(error.value).splitlines()]
    assert found == [f"tamis.toml, {mistake}" for mistake in expected]


def test_a_client_certificate_needs_an_authority(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'verify_peer = "required" in \[tls\] needs \'ca\''):
        load(tmp_path, GOOD.replace("[limits]", 'verify_peer = "required"\n[limits]'))


@pytest.mark.parametrize("unix", ["", ".", "/"])
def test_a_socket_is_no_folder(tmp_path: Path, unix: str) -> None:
    with pytest.raises(ConfigError, match="unix: expected the path of a socket, not the folder"):
        load(tmp_path, f'unix = "{unix}"\n')


def test_no_other_address_without_tls_unless_told(tmp_path: Path) -> None:
    plain = 'host = "192.0.2.1"\n'
    with pytest.raises(ConfigError, match=r"expected an address of this machine alone, not '192.0.2.1'") as error:
        load(tmp_path, plain)
    assert "--insecure" in str(error.value)
    config = load(tmp_path, plain, insecure=True)
    assert (config.plain_host, config.is_local_only) == ("192.0.2.1", False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_has_several_names(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org", ""])
def test_other_addresses_are_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


def test_a_broker_without_a_file_loads_no_pydantic() -> None:
    program = (
        "import sys; from tamis.broker.config import BrokerConfig; BrokerConfig(); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
