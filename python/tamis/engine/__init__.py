"""The engine: finds all standing queries that a message satisfies, explains matches, and reports on the queries."""

from __future__ import annotations

from tamis.engine.engine import Engine
from tamis.engine.explanation import Explanation
from tamis.engine.report import Report

__all__ = ["Engine", "Explanation", "Report"]
