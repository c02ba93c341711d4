"""The demo: 600 real messages, about 60 standing queries in every language, and the real pipeline over them.

`run_demo` lays everything out in a folder, as a user would, runs the pipeline once, and writes a report. Nothing that
is there already is written again, so the folder can be changed and the demo run again."""

from __future__ import annotations

from tamis.demo.folder import DemoFolder, lay_out
from tamis.demo.runner import DemoResult, run_demo

__all__ = ["DemoFolder", "DemoResult", "lay_out", "run_demo"]
