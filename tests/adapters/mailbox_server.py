"""Serves mailboxes over IMAP with Twisted, in a thread, for tests of the adapter."""

# ruff: noqa: N802, N815 - the names are those of Twisted

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any

from twisted.cred import checkers, portal
from twisted.internet import protocol
from twisted.mail import imap4
from zope.interface import implementer

USER, PASSWORD = "jane", "garlic"


@implementer(imap4.IMessage, imap4.IMessageFile)
class _Mail:
    def __init__(self, uid: int, content: bytes) -> None:
        self.uid, self.content = uid, content

    def open(self) -> BytesIO:
        return BytesIO(self.content)

    def getUID(self) -> int:
        return self.uid

    def getSize(self) -> int:
        return len(self.content)

    def getFlags(self) -> list[str]:
        return []

    def getInternalDate(self) -> bytes:
        return b"01-Jan-2024 10:00:00 +0000"

    def isMultipart(self) -> bool:
        return False


@implementer(imap4.IMailbox, imap4.ISearchableMailbox)
class Folder:
    """A folder whose mails the test decides."""

    def __init__(self) -> None:
        self.mails: list[_Mail] = []
        self.validity, self.next_uid = 1, 1
        self.listeners: list[Any] = []

    def put(self, content: bytes) -> None:
        self.mails.append(_Mail(self.next_uid, content))
        self.next_uid += 1

    def renumber(self) -> None:
        """As after a restore: the same mails under other UIDs."""
        self.validity += 1
        contents, self.mails, self.next_uid = [mail.content for mail in self.mails], [], 1
        for content in reversed(contents):
            self.put(content)

    def getFlags(self) -> list[str]:
        return []

    def getMessageCount(self) -> int:
        return len(self.mails)

    def getRecentCount(self) -> int:
        return 0

    def getUIDValidity(self) -> int:
        return self.validity

    def getUIDNext(self) -> int:
        return self.next_uid

    def isWriteable(self) -> bool:
        return False

    def getHierarchicalDelimiter(self) -> str:
        return "/"

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.listeners.remove(listener)

    def fetch(self, messages: Any, uid: bool) -> Any:
        messages.last = self.mails[-1].uid if self.mails else 0
        return [(number, mail) for number, mail in enumerate(self.mails, 1) if mail.uid in messages]

    def search(self, query: Any, uid: bool) -> list[int]:
        if len(query) == 1:
            return list(range(1, len(self.mails) + 1))
        text = query[1] if isinstance(query[1], bytes) else query[1].encode()
        wanted = imap4.parseIdList(text, self.mails[-1].uid if self.mails else 0)
        return [number for number, mail in enumerate(self.mails, 1) if mail.uid in wanted]

    def getUID(self, number: int) -> int:
        return self.mails[number - 1].uid


class _Server(imap4.IMAP4Server):
    """With IDLE, which Twisted lacks."""

    idles: bytes | None = None

    def capabilities(self) -> Any:
        return {**super().capabilities(), b"IDLE": None}

    def do_IDLE(self, tag: bytes) -> None:
        self.idles = tag
        self.sendLine(b"+ idling")

    select_IDLE = auth_IDLE = (do_IDLE,)

    def lineReceived(self, line: bytes) -> None:
        if self.idles is not None and line.upper() == b"DONE":
            tag, self.idles = self.idles, None
            self.sendPositiveResponse(tag, b"IDLE ended")
        else:
            super().lineReceived(line)


class MailServer:
    """A server with one user."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.folders: dict[str, Folder] = {"INBOX": Folder()}
        self.connections: list[_Server] = []
        self.port = 0

    def do(self, function: Callable[[], object]) -> None:
        """Call a function in the server's thread."""
        from twisted.internet.threads import blockingCallFromThread

        blockingCallFromThread(self._reactor, function)

    def deliver(self, *contents: bytes, folder: str = "INBOX") -> None:
        def put() -> None:
            target = self.folders.setdefault(folder, Folder())
            for content in contents:
                target.put(content)
            for connection in self.connections:
                if connection.idles is not None:
                    connection.sendUntaggedResponse(b"%d EXISTS" % len(target.mails))

        self.do(put)

    def hang_up(self) -> None:
        self.do(lambda: [connection.transport.abortConnection() for connection in self.connections])


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """A server on a port of its own."""
    from twisted.internet import reactor

    server = MailServer(reactor)

    class Account(imap4.MemoryAccount):
        def select(self, name: Any, readwrite: int = 1) -> Any:
            return server.folders.get(name if isinstance(name, str) else name.decode())

    class Realm:
        def requestAvatar(self, _avatar: Any, _mind: Any, *_interfaces: Any) -> Any:
            return imap4.IAccount, Account(USER), lambda: None

    class Factory(protocol.Factory):
        def buildProtocol(self, _address: Any) -> Any:
            one = _Server()
            one.portal = portal.Portal(
                Realm(), [checkers.InMemoryUsernamePasswordDatabaseDontUse(**{USER: PASSWORD.encode()})]
            )
            server.connections.append(one)
            return one

    _run(reactor)
    ports: list[Any] = []
    server.do(lambda: ports.append(reactor.listenTCP(0, Factory(), interface="127.0.0.1")))  # type: ignore[attr-defined]
    server.port = ports[0].getHost().port
    try:
        yield server
    finally:
        server.hang_up()
        server.do(ports[0].stopListening)


_thread: list[threading.Thread] = []


def _run(reactor: Any) -> None:
    """Run the reactor in a thread until the end of the process: it cannot be started twice."""
    if not _thread:
        _thread.append(threading.Thread(target=reactor.run, kwargs={"installSignalHandlers": False}, daemon=True))
        _thread[0].start()


@contextmanager
def in_tls(port: int, certificate: Any) -> Iterator[int]:
    """A port with TLS before another one, for one connection after another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    class Pipe(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port)) as inner,
                context.wrap_socket(self.request, server_side=True) as outer,
            ):
                while True:
                    ready, _, _ = select.select([outer, inner], [], [], 10)
                    for one in ready:
                        if not (data := one.recv(65_536)):
                            return
                        (inner if one is outer else outer).sendall(data)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Pipe) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
