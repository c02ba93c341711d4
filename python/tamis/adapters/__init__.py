"""Data source adapters (paper 002, section 3.2): mail, news and JSON lines as Spark data sources, and their manager.

One file a data source; what they share is in `files` (places, offsets, admission) and `rows` (what a row holds)."""

from __future__ import annotations
