"""Mailboxes of Dovecot, where it is installed: what a real server says of UIDs, IDLE, deletions and new UIDVALIDITY."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest
import trustme

from tamis.adapters.sources.live.imap import ImapSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers
from tests.adapters.reading import mail, subjects
from tests.free_port import free_port

START_S, STOP_S, PUSH_S = 30, 20, 60
CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
first_valid_uid = 1
mail_location = maildir:{folder}/home/Maildir
passdb {{
  driver = static
  args = password=garlic
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/home
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
"""

Open = Callable[..., Reader]


class Dovecot:
    """A server in a folder of its own, with the mailbox of jane."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        for name in ("run", "state", "home"):
            (folder / name).mkdir()
        shutil.chown(folder / "home", "mail", "mail")
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        for part in certificate.cert_chain_pems:
            part.write_to_path(folder / "cert.pem", append=True)
        self.folder, self._config = folder, folder / "dovecot.conf"
        self._config.write_text(CONFIG.format(folder=folder, port=self.port))
        self.start()

    def start(self) -> None:
        """Start the process."""
        command = ["dovecot", "-F", "-c", str(self._config)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        self.stop()
        raise AssertionError("Dovecot does not start")

    def admin(self, command: str, *arguments: str, given: bytes = b"") -> None:
        """Run a command of its administrator for the mailbox."""
        words = ["doveadm", "-c", str(self._config), *command.split(), "-u", "jane", *arguments]
        subprocess.run(words, input=given, check=True, timeout=START_S, capture_output=True)

    def deliver(self, *numbers: int, folder: str = "INBOX") -> None:
        """Put mails into a folder."""
        for number in numbers:
            self.admin("save", "-m", folder, given=mail(number).replace(b"\n", b"\r\n"))

    def stop(self) -> None:
        """End the process and those that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(STOP_S)


@pytest.fixture
def dovecot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dovecot]:
    if shutil.which("dovecot") is None:
        pytest.skip("Dovecot is not installed: apt-get install dovecot-imapd")
    if os.geteuid() != 0:
        pytest.skip("Dovecot needs to be started by root")
    monkeypatch.setenv("IMAP_PASSWORD", "garlic")
    folder = Path(mkdtemp(prefix="dovecot", dir="/tmp"))
    folder.chmod(0o755)  # its users may go there
    try:
        server = Dovecot(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def inbox(dovecot: Dovecot, tmp_path: Path) -> Iterator[Open]:
    given = {"host": "localhost", "port": dovecot.port, "user": "jane", "password_env": "IMAP_PASSWORD"}
    with readers(ImapSource, tmp_path) as make:
        yield lambda **options: make(**given | {"ca_file": str(dovecot.folder / "ca.pem")} | options)


def test_each_mail_is_read_once_and_deletions_take_nothing_away(dovecot: Dovecot, inbox: Open) -> None:
    dovecot.deliver(1, 2, 3)
    reader = inbox()
    rows = reader.next(limit=2)
    assert subjects(rows) == ["number 1", "number 2"]
    assert rows[0].body == "Hello"
    dovecot.admin("expunge", "mailbox", "INBOX", "header", "subject", "number 1")
    dovecot.admin("expunge", "mailbox", "INBOX", "header", "subject", "number 3")
    assert subjects(reader.later()) == ["number 3"], "it was fetched before it was deleted"
    dovecot.deliver(4)
    reader.restart()
    assert subjects(reader.later()) == ["number 4"]
    assert reader.later() == []


def test_a_mailbox_with_new_uids_is_read_again_and_only_new_mails_count(dovecot: Dovecot, inbox: Open) -> None:
    dovecot.deliver(1, 2)
    reader = inbox()
    assert len(reader.next()) == 2
    dovecot.admin("mailbox update", "--uid-validity", "4000000000", "INBOX")
    dovecot.deliver(3)
    assert subjects(reader.later()) == ["number 3"]
    assert reader.source.spool().state("folder INBOX")["validity"] == 4_000_000_000


def test_idle_says_at_once_that_a_mail_has_come(dovecot: Dovecot, inbox: Open) -> None:
    reader = inbox(poll_interval_ms=3_600_000)
    assert reader.next() == []
    dovecot.deliver(1)
    rows, until = [], time.monotonic() + PUSH_S
    while not rows and time.monotonic() < until:
        rows = reader.next()  # its clock stands still: only what the server says makes it look
        time.sleep(0.05)
    assert subjects(rows) == ["number 1"]


def test_a_server_that_was_away_is_found_again(dovecot: Dovecot, inbox: Open) -> None:
    dovecot.deliver(1)
    dovecot.admin("mailbox create", "Archive")
    reader = inbox(folders="INBOX, Archive")
    assert subjects(reader.next()) == ["number 1"]
    dovecot.stop()
    with pytest.raises(AdapterError, match="localhost: .*the next try is at"):
        reader.later()
    dovecot.start()
    dovecot.deliver(2, folder="Archive")
    assert subjects(reader.later()) == ["number 2"]
