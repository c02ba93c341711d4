"""Shows the library in twenty lines: standing queries, a message, and why it matched or did not."""

from __future__ import annotations

import tamis


def main() -> None:
    """Match one message against queries in four languages."""
    engine = tamis.Engine()
    engine.add("james-cnn", tamis.selector("author = 'James' AND source = 'CNN'"))
    engine.add("big-tick", tamis.boolean("price > 100 && symbol == (A || B)"))
    engine.add("world-news", tamis.topic("news.world.#"))
    engine.add("frost", tamis.near("garlic", "frost", 5) & ~tamis.selector("author = 'Jane'"))

    message = {"author": "James", "source": "CNN", "price": 120, "symbol": "C"}
    body = "Cover the garlic before the first frost."
    print(engine.match(message, topic="news.world.weather", body=body))
    print("big-tick:", engine.explain("big-tick", message))

    engine.remove("frost")  # the next match knows
    print(engine.match(message, topic="news.world.weather", body=body))


if __name__ == "__main__":
    main()
