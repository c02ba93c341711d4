from __future__ import annotations

import json
from base64 import b64encode
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from tamis.notify.unsubscribe import Asked, Links
from tamis.store import Store
from tests.cli.conftest import Tamis

PIPELINE = """\
[unsubscribe]
url = "https://example.org/u"
secret_env = "LINKS"

[[delivery]]
name = "files"
type = "eml"
folder = "out"

[[owner]]
name = "ann"
to = ["Ann <ann@example.org>", "second@example.org"]
confirm = true
"""
SECRET = {"LINKS": "whsec_" + b64encode(bytes(32)).decode()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path


def test_an_owner_is_asked_to_confirm_what_is_not_confirmed(tamis: Tamis, folder: Path) -> None:
    with Store.open(folder / "tamis.sqlite") as store:
        store.confirm_address("second@example.org")
        store.unsubscribe("second@example.org", "frost")
    assert tamis("owner", "confirm", "ann", **SECRET).stderr == "ann@example.org is asked to confirm\n"
    (path,) = (folder / "out").iterdir()
    mail = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert (mail["To"], mail["Message-ID"]) == ("Ann <ann@example.org>", f"<{path.stem}@tamis.invalid>")
    (link,) = (word for word in mail.get_content().split() if word.startswith("https://"))
    links = Links("https://example.org/u", bytes(32))
    assert links.read(link.rpartition("/")[2]) == Asked("confirm", "ann@example.org")

    listed = [json.loads(line) for line in tamis("owner", "list", "--json").stdout.splitlines()]
    assert [(it["address"], bool(it["confirmed_at"]), it["unsubscribed"]) for it in listed] == [
        ("ann@example.org", False, []),
        ("second@example.org", True, ["frost"]),
    ]
    assert "NO" in tamis("owner", "list").stdout
    with Store.open(folder / "tamis.sqlite") as store:
        store.confirm_address("ann@example.org")
    assert "no address of ann is left to confirm" in tamis("owner", "confirm", "ann", **SECRET).stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        (["nobody"], SECRET, "no [[owner]] is named 'nobody'; there are: ann"),
        (["ann", "--delivery", "nobody"], SECRET, "expected a [[delivery]] that sends e-mails; there are: files"),
        (["ann"], {}, "[unsubscribe]: the environment variable LINKS is not set"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_mistake_is_told(tamis: Tamis, arguments: list[str], variables: dict[str, str], expected: str) -> None:
    done = tamis("owner", "confirm", *arguments, **variables)
    assert (done.returncode, expected in done.stderr) == (2, True)
