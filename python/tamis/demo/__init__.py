"""The demo: 600 real messages, about 60 standing queries in every language, and the real pipeline over them.

`lay_out` writes everything into a folder, as a user would; `run_demo` runs the pipeline once and writes a report.
Existing files are not written again, so you can change the folder and run the demo again."""

from __future__ import annotations

from tamis.demo.folder import DemoFolder, lay_out
from tamis.demo.runner import DemoResult, run_demo

__all__ = ["DemoFolder", "DemoResult", "lay_out", "run_demo"]
