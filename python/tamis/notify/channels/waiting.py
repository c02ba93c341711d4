"""Does work that may hang in a thread of its own, so that who waits for it can give up.

For libraries that wait inside themselves, without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

from tamis.notify.channels.channel import ChannelError, ChannelTimeoutError

_T = TypeVar("_T")


class Waiting:
    """Does one piece of work at a time. Used from one thread, but for `interrupt`.

    Work that was given up goes on in its thread until it ends by itself. Until then, no other is begun, so that there
    is never more than one such thread.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._result: Future[object] | None = None

    def check(self) -> None:
        """Check that nothing is left of what was given up.

        Raises:
            ChannelError: it still waits.
        """
        if self._thread is not None and self._thread.is_alive():
            raise ChannelError("the last try was given up, and still waits for an answer")

    def run(self, work: Callable[[], _T], timeout_s: float, target: str) -> _T:
        """Do this, and return its result.

        Args:
            work: may raise what it likes.
            timeout_s: how long to wait for it.
            target: what does not answer, for the error.

        Raises:
            ChannelTimeoutError: it took longer.
            ChannelError: it was interrupted, or what was given up before still waits.
        """
        self.check()
        result: Future[_T] = Future()
        self._result = result  # type: ignore[assignment]  # whoever interrupts sets only an exception
        self._thread = threading.Thread(target=_do, args=(work, result), name="tamis-waiting", daemon=True)
        self._thread.start()
        try:
            answer = result.result(timeout_s)
        except TimeoutError as error:
            if result.done():
                raise  # the work itself raised it
            raise ChannelTimeoutError(f"{target}: no answer within {timeout_s:g} s") from error
        finally:
            self._result = None
        self._thread.join()
        return answer

    def interrupt(self) -> None:
        """Interrupt, from another thread, what is in progress."""
        if (result := self._result) is not None:
            with suppress(InvalidStateError):  # it has just ended
                result.set_exception(ChannelError("the pipeline was stopped while there was no answer"))


def _do(work: Callable[[], _T], result: Future[_T]) -> None:
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - handed over to who waits
        with suppress(InvalidStateError):
            result.set_exception(error)
    else:
        with suppress(InvalidStateError):
            result.set_result(answer)
