"""Reads the HTTP header Retry-After."""

from __future__ import annotations

import email.utils
import time


def retry_after_s(text: str | None) -> float:
    """Return the time that the header asks for, in seconds; 0 without one. It is a number of seconds or a date.

    Args:
        text: the value of the header, or None.

    Source: RFC 9110, section 10.2.3.
    """
    if not text:
        return 0.0
    try:
        wait_s = float(text) if text.isdigit() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, wait_s)
