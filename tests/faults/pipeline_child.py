"""Runs a pipeline over everything in a separate process, to be killed, and prints its progress on stdout.

python pipeline_child.py pipeline.toml
"""

from __future__ import annotations

import sys

from tamis.spark import Progress, run_pipeline


def say(progress: Progress) -> None:
    print(progress.read, flush=True)


if __name__ == "__main__":
    print("done", run_pipeline(sys.argv[1], once=True, progress=say).read, flush=True)
