"""Who wants to know about this tick? Standing queries of several people, and why one of them was not asked.

Run it with: python examples/alerts.py (nothing but the library is needed)."""

from __future__ import annotations

import tamis

ALERTS = {
    ("ann", "dear"): tamis.selector("price > 100 AND symbol IN ('A', 'B')"),
    ("ann", "asia"): tamis.topic("ticks.asia.#"),
    ("ben", "moves"): tamis.boolean("change >= 5 || change <= -5"),
    ("ben", "frost"): tamis.near("garlic", "frost", 5),
}

TICKS = [
    ("ticks.asia.tokyo", {"symbol": "A", "price": 120, "change": -7}),
    ("ticks.europe.paris", {"symbol": "C", "price": 120, "change": 1}),
]


def main() -> None:
    """Match every tick, and explain the first alert where it kept silent."""
    engine = tamis.Engine()
    engine.add_many(ALERTS.items())
    for topic, tick in TICKS:
        matched = engine.match(tick, topic=topic)
        print(topic, "->", ", ".join(f"{owner}:{name}" for owner, name in matched) or "nobody")
        if ("ann", "dear") not in matched:
            print("  ann:dear", engine.explain(("ann", "dear"), tick, topic=topic))


if __name__ == "__main__":
    main()
