"""Cuts the demo's mail from the SpamAssassin corpus beside the project.

It was run once, and its output is committed.

It writes 600 real messages in three mailboxes: `lists` (mailing lists), `news` (feeds by mail) and `junk` (spam). The
choice is random with the seed below, so that anyone with the corpus gets the same bytes. It leaves out messages over
12,000 bytes, which keeps the wheel small, and messages with the words in `UNFIT`, because people run the demo at work.

    python benchmarks/cut_demo_mail.py [CORPUS_FOLDER]
"""

from __future__ import annotations

import email
import gzip
import io
import json
import random
import re
import sys
from pathlib import Path

import zstandard

PROJECT = Path(__file__).resolve().parent.parent
TARGET = PROJECT / "python" / "tamis" / "demo" / "mail"
SEED = 20020822  # the day of the corpus's first message
SIZE_BYTES_MAX = 12_000
COUNTS = {"lists": 250, "news": 150, "junk": 200}
UNFIT = re.compile(
    rb"\b(sex\w*|porn\w*|xxx|penis|viagra|adult\w*|erotic\w*|nude\w*|naked|horny|orgasm\w*|fuck\w*|shit\w*|slut\w*"
    rb"|cunt\w*|bitch\w*|whore\w*|teens?|girls|rape\w*|nigger\w*|faggot\w*|lolita\w*|breasts?|enlarge\w*|cocks?|pussy|freak"
    rb"|pills?|swingers?|hardcore|cum|singles|impotence|erection\w*|lust\w*|voyeur\w*|webcams?"
    rb"|hot women|fisted|butt|v\*agra|satisfy me)\b",
    re.IGNORECASE,
)


def read(path: Path) -> bytes:
    """Return the decompressed bytes of `path`."""
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def mailbox_of(message: bytes, label: str) -> str:
    """Return the demo's mailbox for a message; empty if it belongs to none."""
    if label == "spam":
        return "junk"
    head = message.split(b"\n\n", 1)[0].lower()
    if b"rssfeeds" in head:
        return "news"
    return "lists" if b"\nlist-id:" in head else ""


def is_fit(message: bytes) -> bool:
    """Return whether neither the bytes nor any decoded part of the message has a word of `UNFIT`."""
    parts = [
        part.get_payload(decode=True) or b"" for part in email.message_from_bytes(message.split(b"\n", 1)[1]).walk()
    ]
    return not any(UNFIT.search(text) for text in [message, *parts])


def cut(corpus: Path) -> dict[str, list[bytes]]:
    """Return the messages of each mailbox, in the order of the corpus."""
    messages = re.split(rb"(?m)^(?=From )", read(corpus / "spamassassin-dev.mbox.zst"))[1:]
    lines = read(corpus / "spamassassin-dev.jsonl.zst").decode().rstrip("\n").split("\n")
    labels = [json.loads(line)["label"] for line in lines]
    mailboxes: dict[str, list[int]] = {name: [] for name in COUNTS}
    for index, (message, label) in enumerate(zip(messages, labels, strict=True)):
        name = mailbox_of(message, label)
        if name and len(message) <= SIZE_BYTES_MAX and is_fit(message):
            mailboxes[name].append(index)
    chance = random.Random(SEED)
    chosen = {name: sorted(chance.sample(indices, COUNTS[name])) for name, indices in mailboxes.items()}
    return {name: [messages[index] for index in indices] for name, indices in chosen.items()}


def main() -> None:
    """Write one compressed mbox per mailbox."""
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT.parent / "shared" / "data" / "email-spamassassin"
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, messages in cut(corpus).items():
        packed = io.BytesIO()
        with gzip.GzipFile(
            filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0
        ) as file:  # the same bytes every time
            file.write(b"".join(messages))
        path = TARGET / f"{name}.mbox.gz"
        path.write_bytes(packed.getvalue())
        print(f"{path.relative_to(PROJECT)}: {len(messages)} messages, {len(packed.getvalue()):,} bytes")


if __name__ == "__main__":
    main()
