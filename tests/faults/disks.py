"""File systems in a file, for what a disk does to a broker: power cuts and no room. They need root and loop devices."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
"""The same number on ext4 and xfs."""

NO_LOG_FLUSH = 2
"""What is not on disk yet is lost, as in a power cut."""


def missing(kind: str) -> str | None:
    """Why there can be no such file system here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not shutil.which(f"mkfs.{kind}"):
        return f"mkfs.{kind} is not installed"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None


class LoopDisk:
    """A file system of its own in `folder`, mounted until `close`.

    Args:
        folder: gets the image and the mount point.
        kind: ``ext4`` or ``xfs``.
        size_mib: of the image.
    """

    def __init__(self, folder: Path, kind: str, size_mib: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._image, self.path = folder / "image", folder / "mounted"
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(size_mib << 20)
        _call(f"mkfs.{kind}", "-q", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount it again, after a power cut too: its journal is replayed."""
        _call("mount", "-o", "loop", str(self._image), str(self.path))

    def power_cut(self) -> None:
        """From now on nothing reaches the disk, and what had not is lost."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("i", NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Unmount; whoever used it has ended, though the system may need a moment to let go."""
        for _ in range(50):
            ended = subprocess.run(["umount", str(self.path)], capture_output=True, text=True, check=False)
            if ended.returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError(ended.stderr)


@contextlib.contextmanager
def loop_disk(folder: Path, kind: str, size_mib: int) -> Iterator[LoopDisk]:
    """A file system that is gone at the end."""
    disk = LoopDisk(folder, kind, size_mib)
    try:
        yield disk
    finally:
        with contextlib.suppress(RuntimeError):
            disk.unmount()
        shutil.rmtree(folder, ignore_errors=True)


def _call(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr}")
