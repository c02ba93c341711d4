"""The engine: many standing queries, and all that a message satisfies; its report, explanations and keys."""

from __future__ import annotations

from tamis.engine.engine import Engine
from tamis.engine.explanation import Explanation
from tamis.engine.report import Report

__all__ = ["Engine", "Explanation", "Report"]
