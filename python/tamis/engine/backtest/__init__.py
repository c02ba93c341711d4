"""Backtests: how often a query would have matched past messages, and what a new text of it would change."""

from __future__ import annotations

from tamis.engine.backtest.backtest import Backtest, PastMessage, Replaced, backtest
from tamis.engine.backtest.samples import Samples
from tamis.engine.backtest.timeline import Timeline

__all__ = ["Backtest", "PastMessage", "Replaced", "Samples", "Timeline", "backtest"]
