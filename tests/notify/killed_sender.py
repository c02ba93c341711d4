"""Kills a program that sends, again and again, and lets it end at last."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Sequence

from tamis.store import Store


def send_and_kill(store: Store, command: Sequence[str], kills: int, chance: random.Random) -> None:
    """Run a program that delivers what the store has, with a kill -9 at random times after its first delivery."""
    for _ in range(kills):
        pending, until = store.counts().deliveries_pending, time.monotonic() + 30
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while store.counts().deliveries_pending == pending and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.08))
        process.kill()
        process.communicate()
    assert store.counts().deliveries_pending > 0, "every kill came too late to prove anything"
    subprocess.run(command, check=True, capture_output=True)
