"""Makes seeded messages about trades, and standing queries for them, for the benchmarks in Python."""

from __future__ import annotations

import random
from typing import Any

import tamis

SYMBOLS, REGIONS = 5_000, 40


def engine_of(count: int, seed: int = 1) -> tamis.Engine:
    """Return an engine with `count` queries, each on a symbol: with a limit, with a region, or with equal fields."""
    chance = random.Random(seed)
    engine = tamis.Engine()
    engine.add_many((f"q{number}", _query(number, chance)) for number in range(count))
    return engine


def _query(number: int, chance: random.Random) -> tamis.Query:
    symbol, region = f"S{chance.randrange(SYMBOLS)}", f"R{chance.randrange(REGIONS)}"
    match number % 3:
        case 0:
            return tamis.selector(f"symbol = '{symbol}' AND price > {chance.randrange(100)}")
        case 1:
            return tamis.selector(f"symbol = '{symbol}' AND region IN ('{region}', 'R1', 'R2') AND urgent")
        case _:
            return tamis.fields({"symbol": symbol, "region": region})


def message(chance: random.Random, width: int) -> dict[str, Any]:
    """Return a message of `width` properties: the five that queries ask for, and others that no query asks for."""
    asked = {
        "symbol": f"S{chance.randrange(SYMBOLS)}",
        "region": f"R{chance.randrange(REGIONS)}",
        "price": chance.randrange(10_000) / 100,
        "urgent": chance.random() < 0.1,
        "volume": chance.randrange(1_000_000),
    }
    others = {
        f"field{number}": f"value {chance.randrange(1_000)}" if number % 2 else chance.randrange(1_000)
        for number in range(width - len(asked))
    }
    return {**asked, **others}
