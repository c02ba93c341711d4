"""A standalone cluster of Spark on this machine, whose worker does not see the folders of the driver."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import pyspark

from tamis.spark.class_archive import archive_file
from tamis.spark.java import CLASSES_VARIABLE, find_java, wrapped_home

STARTED_S_MAX = 60
_HOME = Path(pyspark.__file__).parent
_CLASS = "org.apache.spark.deploy"


def why_not() -> str | None:
    """Return why this machine cannot run it, or None."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"no mount namespace of its own: {tried.stderr.strip()}"


class StandaloneCluster:
    """A master and one worker with two cores.

    Args:
        folder: for logs and the worker's files.
        hidden: an existing folder that the worker sees empty.
    """

    def __init__(self, folder: Path, hidden: Path) -> None:
        self.folder = folder
        folder.mkdir()
        java = find_java()
        self._java = {"JAVA_HOME": str(wrapped_home(java, folder)), CLASSES_VARIABLE: str(archive_file(java))}
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._logged("master", r"Starting Spark master at (spark://\S+)")
            hide = f'mount -t tmpfs tmpfs \'{hidden}\' && exec "$0" "$@"'
            worker = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "1g"]
            worker += ["--work-dir", str(folder / "work"), self.master]
            self._start("worker", "worker.Worker", *worker, before=["unshare", "--mount", "sh", "-c", hide])
            self._logged("worker", "Successfully registered with master (.*)")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End both, with all that they have started."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _start(self, name: str, main: str, *arguments: str, before: list[str] | None = None) -> None:
        command = [*(before or []), str(_HOME / "bin" / "spark-class"), f"{_CLASS}.{main}", *arguments]
        folders = {"SPARK_HOME": str(_HOME), "SPARK_LOCAL_DIRS": str(self.folder)}
        environment = os.environ | folders | {"SPARK_LOCAL_IP": "127.0.0.1"} | self._java
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._processes.append(process)

    def _logged(self, name: str, pattern: str) -> str:
        """Wait until the log has a line, and return what its group is."""
        until = time.monotonic() + STARTED_S_MAX
        while time.monotonic() < until:
            text = (self.folder / f"{name}.log").read_text(errors="replace")
            if found := re.search(pattern, text):
                return found[1]
            time.sleep(0.2)
        raise TimeoutError(f"{name}: no line with {pattern!r} in {STARTED_S_MAX} s:\n{text}")
