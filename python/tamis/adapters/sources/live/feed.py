"""Reads RSS, Atom and JSON feeds: each item is a message, whichever feed it is found in again.

Each feed is asked only whether it has changed. One that fails is asked again later and later, and the others go on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from tamis import text_file
from tamis.adapters.options import option
from tamis.adapters.rows import Row, digest_of, document_of, signature_of, topic_of, with_names
from tamis.adapters.sources.live.feed_items import FEED_PROPERTIES, feed_items
from tamis.adapters.sources.live.fetch import Bounds, Validators, check_url, fetch
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, back_off_s, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError, ConfigError

LIST_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class FeedOptions(LiveOptions):
    """The options of feeds.

    Attributes:
        url: the address of a feed; or several, separated by spaces; or ``@file`` with one per line.
        updates: whether an item is a new message when its title or text has changed.
        timeout_s: the time limit for one feed.
        size_bytes_max: maximum size of one feed, decompressed.
        user: the name to log in with.
        password_env: the environment variable with the password.
        password_file: a file with the password.
        token_env: the environment variable with a bearer token.
        token_file: a file with a bearer token.
    """

    url: str = option("", required="the address of a feed, as in https://example.org/feed.xml")
    updates: bool = option(False)
    timeout_s: int = option(30, minimum=1, maximum=600)
    size_bytes_max: int = option(16 << 20, minimum=1_000, maximum=1 << 30)
    user: str | None = option(None)
    password_env: str | None = option(None)
    password_file: str | None = option(None, is_path=True)
    token_env: str | None = option(None)
    token_file: str | None = option(None, is_path=True)


class FeedSource(LiveSource):
    """The items of one feed or several."""

    Options = FeedOptions
    options: FeedOptions
    type: ClassVar[str] = "feed"
    packages = ("httpx2", "fastfeedparser", "feedparser", "selectolax")
    properties = FEED_PROPERTIES
    poll_interval_ms: ClassVar[int] = 900_000

    def check(self) -> None:
        """Check the addresses and the secret, without a request.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        authorization = self._authorization()
        for url in self._urls():
            check_url(url, with_secret=authorization is not None)

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: ask each feed that is due; it fails if all of them fail."""
        urls = self._urls()
        failures = [failure for url in urls if (failure := self._look_at(spool, url, len(urls) == 1)) is not None]
        if len(failures) == len(urls):
            raise failures[0]
        return False

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`, from the first feed."""
        url = self._urls()[0]
        _, content = fetch(Validators(url), self._bounds(), self._authorization())
        yield from list(self._items(content or b"", url, url))[:count]

    def row_of(self, item: Item, topic: str) -> Row:
        """Implement `LiveSource.row_of`."""
        members = json.loads(item.content)
        body = members.pop("body")
        times = {name: members[name] and datetime.fromisoformat(members[name]) for name in ("date", "updated")}
        properties = members | times | {"source": self.options.source or members["source"]}
        topic = topic_of(properties, self.options.topic_field, topic)
        properties = with_names(properties, self.options.fields)
        xml = document_of(properties, body, self.options.xml)
        signature = signature_of(body, self.signature_stop_words)
        return Row(item.place, 0, digest_of(item.content), topic, properties, body, xml, signature, identity=item.key)

    def _look_at(self, spool: Spool, url: str, is_only: bool) -> LookError | None:
        """Ask one feed, and keep its new items and its state; return why it failed, if it did."""
        name = f"feed {url}"
        state: dict[str, Any] = spool.state(name) or _state([url], was_read=False)
        if not is_only and self.is_ahead(state["until"]):
            return LookError(state["reason"])
        try:
            known, content = fetch(Validators(*state["known"]), self._bounds(), self._authorization())
            items = [] if content is None else list(self._items(content, known.url, url))
        except LookError as error:
            if not is_only:
                self._note_failure(spool, name, state, url, error)
            return error
        with spool.transaction():
            if not state.get("was_read", True) and self.options.starting_offset == "next":
                spool.remember(item.key for item in items)
            else:
                spool.add(reversed(items))  # feeds begin with the newest
            spool.set_state(name, _state(known))
        return None

    def _note_failure(self, spool: Spool, name: str, state: dict[str, Any], url: str, error: LookError) -> None:
        """Keep when to ask again; a dead letter tells of a failure once."""
        count, reason = state["failures"] + 1, str(error)
        until = self._clock() + max(back_off_s(count), error.retry_after_s)
        with spool.transaction():
            if reason != state["reason"]:
                key = digest_of(f"{url}\n{reason}\n{self._clock()}".encode())
                spool.add([Item(key, url, b"", error=reason)])
            spool.set_state(name, state | {"failures": count, "until": until, "reason": reason})

    def _items(self, content: bytes, url: str, feed: str) -> Iterator[Item]:
        for key, members in feed_items(content, url, feed):
            text = json.dumps(members, ensure_ascii=False).encode("utf-8", "replace")
            if self.options.updates:
                key = digest_of(json.dumps([key, members["subject"], members["body"]]).encode())
            yield Item(key, url, text)

    def _bounds(self) -> Bounds:
        return Bounds(self.options.timeout_s, self.options.size_bytes_max)

    def _urls(self) -> list[str]:
        given = self.options.url
        if given.startswith("@"):
            try:
                lines = text_file.read_text(Path(given[1:]), LIST_BYTES_MAX, "a file of feeds").splitlines()
            except ConfigError as error:
                raise AdapterError(str(error)) from error
            given = " ".join(line for line in lines if not line.lstrip().startswith("#"))
        urls = list(dict.fromkeys(given.split()))
        if not urls:
            raise AdapterError("url: expected the address of a feed; there is none")
        return urls

    def _authorization(self) -> str | None:
        options = self.options
        token = secret(options.token_env, options.token_file, "token")
        password = secret(options.password_env, options.password_file, "password")
        if (options.user is None) != (password is None) or (token and password):
            raise AdapterError("expected user with password_env or password_file; or token_env or token_file alone")
        if token:
            return f"Bearer {token}"
        if password is None:
            return None
        return "Basic " + base64.b64encode(f"{options.user}:{password}".encode()).decode("ascii")


def _state(known: Iterable[Any], was_read: bool = True) -> dict[str, Any]:
    """Return what is kept of a feed that has not failed; those that it had when it was first read may be old."""
    return {"known": list(known), "failures": 0, "until": 0.0, "reason": None, "was_read": was_read}
