"""Plays a page of the documents: writes the files that it shows, runs its commands, and compares what they print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fenced import Block, blocks

PATIENCE_S = 300
READY_S = 60


@contextmanager
def playing(folder: Path, replaced: dict[str, str]) -> Iterator[PagePlayer]:
    """A player in a folder, which ends what it started in the background."""
    player = PagePlayer(folder, replaced)
    try:
        yield player
    finally:
        player.end()


class PagePlayer:
    """Plays blocks in their order, as a reader would in one terminal.

    Args:
        folder: where the files are written and the commands run.
        replaced: port or address in the page -> what to use instead.
    """

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self._folder = folder
        self._replaced = replaced
        self._env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
        self._background: list[subprocess.Popen[bytes]] = []

    def play(self, page: Path, *, spark: bool, without: str = "") -> int:
        """Play the blocks that need Spark, or all others. Return the number of commands.

        Args:
            page: the page.
            spark: which blocks of commands to play.
            without: leave out the blocks that are marked with this word.
        """
        count = 0
        for block in blocks(page):
            if block.title:
                self._write(block)
            elif block.language == "console" and ("spark" in block.info) == spark:
                if without and without in block.info:
                    continue
                for command, promised in _commands(self._text(block)):
                    self._run(command, promised)
                    count += 1
        return count

    def end(self) -> None:
        """End the programs in the background, by their ids."""
        for process in reversed(self._background):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)

    def _text(self, block: Block) -> str:
        text = block.text
        for shown, used in self._replaced.items():
            text = text.replace(shown, used)
        return text

    def _write(self, block: Block) -> None:
        path = self._folder / str(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._text(block), encoding="utf-8")

    def _run(self, line: str, promised: list[str]) -> None:
        command, _, comment = line.partition("    #")
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._env[name] = value
        elif command.rstrip().endswith("&"):
            self._start(command.rstrip().removesuffix("&"), promised)
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._folder,
                env=self._env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            code = re.search(r"exit (\d+)", comment)
            assert done.returncode == (int(code[1]) if code else 0), f"{line}\n{done.stdout}"
            assert (missing := _missing(done.stdout, promised)) is None, f"{line}\n{missing!r} is not in\n{done.stdout}"

    def _start(self, command: str, promised: list[str]) -> None:
        """Start a program in the background, and wait until it has printed what is promised."""
        log = self._folder / f"background-{len(self._background)}.log"
        with log.open("wb") as output:
            self._background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command}"],
                    cwd=self._folder,
                    env=self._env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
        until = time.monotonic() + READY_S
        while (missing := _missing(log.read_text(encoding="utf-8"), promised)) is not None:
            assert self._background[-1].poll() is None, log.read_text()
            assert time.monotonic() < until, f"{missing!r} is not in\n{log.read_text()}"
            time.sleep(0.1)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines below it."""
    command = ""
    promised: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, promised
            command, promised = line.removeprefix("$ "), []
        else:
            promised.append(line)
    if command:
        yield command, promised


def _missing(output: str, promised: list[str]) -> str | None:
    """The first promised line that the output does not have after those before it; `...` stands for anything."""
    lines = iter(output.splitlines())
    for line in promised:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")))
        if line.strip() != "..." and not any(pattern.fullmatch(printed.rstrip()) for printed in lines):
            return line
    return None
