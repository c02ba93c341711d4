"""Makes file systems in a file, for power cuts and full disks under a broker; needs root and loop devices."""

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
"""The ioctl that shuts a file system down; ext4 and xfs have the same number."""

NO_LOG_FLUSH = 2
"""Loses what is not on disk yet, as a power cut does."""


def missing(kind: str) -> str | None:
    """Return why such a file system cannot be made here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not shutil.which(f"mkfs.{kind}"):
        return f"mkfs.{kind} is not installed"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None


class LoopDisk:
    """A separate file system in `folder`, mounted until `close`.

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
        """Mount it again, also after a power cut, which replays its journal."""
        _call("mount", "-o", "loop", str(self._image), str(self.path))

    def power_cut(self) -> None:
        """Cut the power: nothing reaches the disk any more, and unwritten data is lost."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("i", NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Unmount it; its users have ended, but the system may need a moment to release it."""
        for _ in range(50):
            ended = subprocess.run(["umount", str(self.path)], capture_output=True, text=True, check=False)
            if ended.returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError(ended.stderr)


@contextlib.contextmanager
def loop_disk(folder: Path, kind: str, size_mib: int) -> Iterator[LoopDisk]:
    """Make a file system that is removed at the end."""
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
