"""Reads mailboxes of an IMAP server; nothing changes there, and a mail is the same message in every folder.

The place in a folder is its UIDVALIDITY and the last UID that was read. When the UIDVALIDITY changes, UIDs mean other
mails: the folder is read again from its beginning, and mails that are known stay known by their digest. With IDLE the
server says at once that the first folder has changed.

Source: RFC 9051 (IMAP4rev2), sections 2.3.1.1 (UID, UIDVALIDITY) and 6.3.13 (IDLE)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import option
from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.rows import RAW_KEPT_BYTES, digest_of, too_large
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    from imapclient import IMAPClient

IDLE_S_MAX: Final = 25 * 60.0
"""A server may end a connection that has idled for 30 minutes."""
FETCH_BYTES: Final = 16 << 20
FETCH_COUNT: Final = 500


@dataclass(frozen=True, kw_only=True)
class ImapOptions(LiveOptions):
    """The options of a mailbox.

    Attributes:
        host: the server.
        port: 0 is 993 with ``tls``, else 143.
        user: the name to log in with.
        password_env: the environment variable with the password.
        password_file: a file with the password.
        token_env: the environment variable with an OAuth 2 token, instead of a password.
        token_file: a file with an OAuth 2 token; it is read at each login, so that another program can renew it.
        tls: ``tls`` from the first byte, ``starttls``, or ``none``.
        ca_file: certificates to trust instead of the system's.
        folders: the folders to read, separated by commas.
        idle: whether the server is asked to say at once that the first folder has changed, if it can.
        timeout_s: the time limit for each step.
    """

    host: str = option("", required="the name of a mail server")
    port: int = option(0, minimum=0, maximum=65_535)
    user: str = option("", required="the name to log in with")
    password_env: str | None = option(None)
    password_file: str | None = option(None, is_path=True)
    token_env: str | None = option(None)
    token_file: str | None = option(None, is_path=True)
    tls: str = option("tls", words=("tls", "starttls", "none"))
    ca_file: str | None = option(None, is_path=True)
    folders: str = option("INBOX")
    idle: bool = option(True)
    timeout_s: int = option(30, minimum=1, maximum=600)


class ImapSource(LiveSource):
    """The mails of some folders of one user."""

    Options = ImapOptions
    options: ImapOptions
    type: ClassVar[str] = "imap"
    packages = ("imapclient",)
    properties = MAIL_PROPERTIES
    poll_interval_ms: ClassVar[int] = 60_000

    def __init__(self, options: ImapOptions) -> None:
        super().__init__(options)
        self._client: IMAPClient | None = None
        self._idles_since: float | None = None

    def check(self) -> None:
        """Check the options and the secret, without a connection.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        options = self.options
        self._login()
        if options.tls == "none" and not is_loopback(options.host):
            raise AdapterError(f'tls: a password for {options.host} needs tls = "tls" or "starttls"')
        if not self._folders():
            raise AdapterError("folders: expected names of folders, as in INBOX, Lists")
        self._context()

    def is_due(self, spool: Spool) -> bool:
        """Implement `LiveSource.is_due`, or the server has said that there is something new."""
        return super().is_due(spool) or self._has_news()

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: the new mails of each folder, of at most `max_messages`."""
        with self._talking() as client:
            left = self.options.max_messages
            for folder in reversed(self._folders()):  # the first is selected last, to idle there
                left -= self._read_folder(client, spool, folder, left)
            if left > 0 and self.options.idle and client.has_capability("IDLE"):
                client.idle()
                self._idles_since = self._clock()
        return left <= 0

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`: the newest mails of the first folder."""
        with self._talking() as client:
            client.select_folder(self._folders()[0], readonly=True)
            uids = sorted(client.search("ALL"))[-count:]
            yield from list(self._fetch(client, self._folders()[0], uids))
        self.close()

    def close(self) -> None:
        """Implement `LiveSource.close`, with the connection."""
        super().close()
        self._drop()

    def _read_folder(self, client: IMAPClient, spool: Spool, folder: str, limit: int) -> int:
        """Put the new mails of a folder into the spool, and return their number."""
        status = client.select_folder(folder, readonly=True)
        validity, name = int(status[b"UIDVALIDITY"]), f"folder {folder}"
        place = spool.state(name)
        if place is None and self.options.starting_offset == "next":
            ends_at = int(status[b"UIDNEXT"]) - 1 if b"UIDNEXT" in status else max(client.search("ALL"), default=0)
            place = {"validity": validity, "uid": ends_at}
            with spool.transaction():
                spool.set_state(name, place)
        last = place["uid"] if place and place["validity"] == validity else 0
        uids = sorted(uid for uid in client.search(["UID", f"{last + 1}:*"]) if uid > last)[: max(0, limit)]
        for some in _chunks(client, uids):
            items = list(self._fetch(client, folder, some))
            with spool.transaction():
                spool.add(items)
                spool.set_state(name, {"validity": validity, "uid": some[-1]})
        return len(uids)

    def _fetch(self, client: IMAPClient, folder: str, uids: list[int]) -> Iterator[Item]:
        """Yield the mails of these UIDs that still exist; one that is too large is an error with its beginning."""
        place = f"imap://{self.options.user}@{self.options.host}/{folder}"
        sizes = {uid: int(found[b"RFC822.SIZE"]) for uid, found in client.fetch(uids, ["RFC822.SIZE"]).items()}
        small = [uid for uid in uids if sizes.get(uid, 0) <= MESSAGE_BYTES_MAX]
        contents = {uid: found.get(b"BODY[]") for uid, found in client.fetch(small, ["BODY.PEEK[]"]).items()}
        for uid in uids:
            if uid in sizes and sizes[uid] > MESSAGE_BYTES_MAX:
                part = client.fetch([uid], [f"BODY.PEEK[]<0.{RAW_KEPT_BYTES}>"]).get(uid, {})
                raw = next((value for name, value in part.items() if name.startswith(b"BODY[]")), b"") or b""
                raw = raw[:RAW_KEPT_BYTES]
                yield Item(digest_of(raw), place, raw, error=too_large(sizes[uid], MESSAGE_BYTES_MAX))
            elif raw := contents.get(uid):
                yield Item(digest_of(raw), place, raw)

    def _has_news(self) -> bool:
        """Return whether the server has said something since it idles, or must be asked to idle anew."""
        if self._client is None or self._idles_since is None:
            return False
        if self._clock() - self._idles_since > IDLE_S_MAX:
            return True
        try:
            said = self._client.idle_check(timeout=0)
        except Exception:  # noqa: BLE001 - whatever it is, the look that follows connects again and reports it
            said = [b"the connection ended"]
        return any(b"EXISTS" in line or not isinstance(line, tuple) or line[0] == b"BYE" for line in said)

    def _talking(self) -> _ImapTalk:
        return _ImapTalk(self)

    def connected(self) -> IMAPClient:
        """Return the connection, logged in and not idling; a new one if the last has ended."""
        if self._client is not None:
            try:
                if self._idles_since is not None:
                    self._idles_since = None
                    self._client.idle_done()
                self._client.noop()
                return self._client
            except Exception:  # noqa: BLE001 - the server may have ended it in any way; a new one tells why, if at all
                self._drop()
        self._client = self._connect()
        return self._client

    def _connect(self) -> IMAPClient:
        try:
            from imapclient import IMAPClient
        except ImportError as error:
            raise AdapterError("expected the package imapclient; pip install 'tamis[adapters]'") from error

        options, (password, token) = self.options, self._login()
        port = options.port or (993 if options.tls == "tls" else 143)
        in_tls = options.tls == "tls"
        context = self._context()
        client = IMAPClient(
            options.host, port, ssl=in_tls, ssl_context=context if in_tls else None, timeout=options.timeout_s
        )
        try:
            if options.tls == "starttls":
                client.starttls(context)
            if token is not None:
                client.oauth2_login(options.user, token)
            else:
                client.login(options.user, password)
        except BaseException:
            with suppress(Exception):
                client.shutdown()
            raise
        return client

    def _drop(self) -> None:
        client, self._client, self._idles_since = self._client, None, None
        if client is not None:
            with suppress(Exception):
                client.shutdown()

    def _folders(self) -> list[str]:
        return [name for name in map(str.strip, self.options.folders.split(",")) if name]

    def _login(self) -> tuple[str | None, str | None]:
        """Return the password and the token, of which one is given."""
        password = secret(self.options.password_env, self.options.password_file, "password")
        token = secret(self.options.token_env, self.options.token_file, "token")
        if (password is None) == (token is None):
            raise AdapterError("expected one of password_env, password_file, token_env and token_file")
        return password, token

    def _context(self) -> ssl.SSLContext | None:
        if self.options.tls == "none":
            return None
        try:
            return ssl.create_default_context(cafile=self.options.ca_file)
        except OSError as error:
            raise AdapterError(f"ca_file: {self.options.ca_file}: no certificates can be read: {error}") from error


class _ImapTalk:
    """Turns what can fail while talking to a server into a `LookError`; the connection is then given up."""

    def __init__(self, source: ImapSource) -> None:
        self._source = source

    def __enter__(self) -> IMAPClient:
        try:
            return self._source.connected()
        except AdapterError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, AdapterError):
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> LookError:
        self._source._drop()
        options, text = self._source.options, (str(error).splitlines() or [""])[0]
        if text.startswith("b'") or text.startswith('b"'):
            text = text[2:-1]
        refused = " refused the login" if type(error).__name__ == "LoginError" else ""
        return LookError(f"{options.host}{refused}: {text or type(error).__name__}")


def _chunks(client: IMAPClient, uids: list[int]) -> Iterator[list[int]]:
    """Cut UIDs into chunks of at most 500 mails and about 16 MiB, or one mail."""
    for at in range(0, len(uids), FETCH_COUNT):
        part = uids[at : at + FETCH_COUNT]
        sizes = {uid: int(found[b"RFC822.SIZE"]) for uid, found in client.fetch(part, ["RFC822.SIZE"]).items()}
        waiting: list[int] = []
        size_bytes = 0
        for uid in part:
            waiting.append(uid)
            size_bytes += sizes.get(uid, 0)
            if size_bytes >= FETCH_BYTES:
                yield waiting
                waiting, size_bytes = [], 0
        if waiting:
            yield waiting
