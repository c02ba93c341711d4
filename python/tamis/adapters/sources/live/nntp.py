"""Reads newsgroups of an NNTP server: each article once, by its Message-ID, also where it is in several groups.

The place in a group is the number of the last article that was read; the server says between which numbers it has
articles. Those that expired before they were read become one dead letter with their numbers.

Source: RFC 3977, sections 6.1.1 (GROUP and its water marks) and 6.1.2 (LISTGROUP); RFC 5536 (Message-ID)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import option
from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, digest_of, too_large
from tamis.adapters.sources.live.nntp_client import NUMBERS_MAX, Article, NntpClient, NntpError
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError
from tamis.loopback import is_loopback

CHUNK_COUNT: Final = 100


@dataclass(frozen=True, kw_only=True)
class NntpOptions(LiveOptions):
    """The options of newsgroups.

    Attributes:
        host: the server.
        port: 0 is 563 with ``tls``, else 119.
        groups: the newsgroups, separated by commas.
        user: the name to log in with; None logs nobody in.
        password_env: the environment variable with the password.
        password_file: a file with the password.
        tls: ``tls`` from the first byte, ``starttls``, or ``none``.
        ca_file: certificates to trust instead of the system's.
        timeout_s: the time limit for each answer.
    """

    host: str = option("", required="the name of a news server")
    port: int = option(0, minimum=0, maximum=65_535)
    groups: str = option("", required="names of newsgroups, as in comp.lang.python")
    user: str | None = option(None)
    password_env: str | None = option(None)
    password_file: str | None = option(None, is_path=True)
    tls: str = option("tls", words=("tls", "starttls", "none"))
    ca_file: str | None = option(None, is_path=True)
    timeout_s: int = option(30, minimum=1, maximum=600)


class NntpSource(LiveSource):
    """The articles of some newsgroups."""

    Options = NntpOptions
    options: NntpOptions
    type: ClassVar[str] = "nntp"
    properties = MAIL_PROPERTIES
    poll_interval_ms: ClassVar[int] = 300_000

    def __init__(self, options: NntpOptions) -> None:
        super().__init__(options)
        self._client: NntpClient | None = None

    def check(self) -> None:
        """Check the options and the secret, without a connection.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        if not self._groups():
            raise AdapterError("groups: expected names of newsgroups, as in comp.lang.python")
        if self._password() is not None and self.options.tls == "none" and not is_loopback(self.options.host):
            raise AdapterError(f'tls: a password for {self.options.host} needs tls = "tls" or "starttls"')
        self._context()

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: the new articles of each group, of at most `max_messages`."""
        left, failures = self.options.max_messages, []
        for group in self._groups():
            try:
                left -= self._read_group(self._connected(), spool, group, left)
            except NntpError as error:
                self._drop()
                failures.append(LookError(f"{self.options.host}, {group}: {error}"))
            except OSError as error:  # the other groups would fail as well
                self._drop()
                raise LookError(f"{self.options.host}, {group}: {error}") from error
        if len(failures) == len(self._groups()):
            raise failures[0]
        self._tell(spool, failures)
        return left <= 0

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`: the newest articles of the first group."""
        group = self._groups()[0]
        try:
            client = self._connected()
            state = client.group(group)
            numbers = client.numbers(group, max(state.low, state.high - 10 * count), state.high)[-count:]
            found = client.articles(numbers, RAW_KEPT_BYTES, MESSAGE_BYTES_MAX)
            return iter([self._item(group, article) for article in found])
        except (NntpError, OSError) as error:
            raise LookError(f"{self.options.host}, {group}: {error}") from error
        finally:
            self._drop()

    def row_of(self, item: Item, topic: str) -> Row:
        """Implement `LiveSource.row_of`: servers add header lines, so the Message-ID names an article."""
        return replace(super().row_of(item, topic), identity=item.key)

    def close(self) -> None:
        """Implement `LiveSource.close`, with the connection."""
        self._drop()
        super().close()

    def _read_group(self, client: NntpClient, spool: Spool, group: str, limit: int) -> int:
        """Put the new articles of a group into the spool, and return how many numbers were asked for."""
        state, name = client.group(group), f"group {group}"
        last = spool.state(name)
        if last is None:
            last = state.high if self.options.starting_offset == "next" else state.low - 1
            with spool.transaction():
                spool.set_state(name, last)
        if state.count == 0 and state.high <= last:
            return 0
        last = self._passed_gap(spool, group, last, state.low, state.high)
        read = 0
        while last < state.high and read < limit:
            window_end = min(state.high, last + NUMBERS_MAX)
            numbers = client.numbers(group, last + 1, window_end)
            chunk = numbers[: min(CHUNK_COUNT, limit - read)]
            end = window_end if len(chunk) == len(numbers) else chunk[-1]
            articles = client.articles(chunk, RAW_KEPT_BYTES, MESSAGE_BYTES_MAX)
            with spool.transaction():
                # One after the other: each may be large.
                spool.add(self._item(group, article) for article in articles)
                spool.set_state(name, end)
            last, read = end, read + len(chunk)
        return read

    def _passed_gap(self, spool: Spool, group: str, last: int, low: int, high: int) -> int:
        """Return the number after which reading goes on; a dead letter tells what is gone since the last time."""
        if low <= last + 1 <= high + 1:
            return last
        if last < low:
            problem = f"articles {last + 1:,} to {low - 1:,} expired before they were read"
        else:
            problem = f"the group was read up to article {last:,} and now ends at {high:,}: it was renumbered"
        place = self._place(group)
        with spool.transaction():
            spool.add([Item(digest_of(f"{place} {problem} {low} {high}".encode()), place, b"", error=problem)])
            spool.set_state(f"group {group}", low - 1)
        return low - 1

    def _tell(self, spool: Spool, failures: list[LookError]) -> None:
        """Add a dead letter for a group that fails while others are read, once per reason."""
        reasons = sorted(map(str, failures))
        new = [reason for reason in reasons if reason not in (spool.state("failures") or [])]
        with spool.transaction():
            for reason in new:
                key = digest_of(f"{reason}\n{self._clock()}".encode())
                spool.add([Item(key, f"nntp://{self.options.host}", b"", error=reason)])
            spool.set_state("failures", reasons)

    def _item(self, group: str, article: Article) -> Item:
        name = article.message_id.encode() if article.message_id else article.content
        key = digest_of(b"nntp\0" + name)
        error = too_large(article.size_bytes, MESSAGE_BYTES_MAX) if article.size_bytes > MESSAGE_BYTES_MAX else None
        return Item(key, self._place(group), article.content, error=error)

    def _connected(self) -> NntpClient:
        """Return the connection, logged in; a new one if the last has ended."""
        if self._client is not None:
            try:
                self._client.be_reader()
                return self._client
            except (NntpError, OSError):  # servers end connections that do nothing
                self._drop()
        options, password = self.options, self._password()
        port = options.port or (563 if options.tls == "tls" else 119)
        starttls = options.tls == "starttls"
        client = NntpClient(options.host, port, self._context(), starttls, options.timeout_s)
        try:
            if options.user is not None and password is not None:
                client.log_in(options.user, password)
            client.be_reader()
        except BaseException:
            client.close()
            raise
        self._client = client
        return client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError):
                client.close()

    def _place(self, group: str) -> str:
        return f"nntp://{self.options.host}/{group}"

    def _groups(self) -> list[str]:
        return [name for name in map(str.strip, self.options.groups.split(",")) if name]

    def _password(self) -> str | None:
        password = secret(self.options.password_env, self.options.password_file, "password")
        if (self.options.user is None) != (password is None):
            raise AdapterError("expected user with password_env or password_file, or neither")
        return password

    def _context(self) -> ssl.SSLContext | None:
        if self.options.tls == "none":
            return None
        try:
            return ssl.create_default_context(cafile=self.options.ca_file)
        except OSError as error:
            raise AdapterError(f"ca_file: {self.options.ca_file}: no certificates can be read: {error}") from error
