"""Runs the examples that the papers print, next to the results that they print."""

from __future__ import annotations

import tamis

POST = {"author": "Someone (Someone@yahoo.com)", "date": "2002-12-28 21:04:22 PST", "subject": "I have a question..."}
BODY = (
    "I covered my daffodils, garlic, and rhubarb last night in hopes of saving them from freezing. Should one uncover "
    "them during the day if the temp is above freezing, and re-cover them in the late afternoon? Or can I just leave "
    "them covered for a few days till the nights get warmer?"
)


def selectors() -> None:
    """The PNNL paper: four increasingly expensive selectors, all true for the message of Figure 5."""
    printed = [
        'From = "Someone (Someone@yahoo.com)"',
        'Subject LIKE "%question%"',
        "Body LIKE %garlic%",
        "Body LIKE %warmer%",
    ]
    for text in printed:
        print(f"{text:<40}", tamis.selector(text, dialect="cbm").evaluate(POST, body=BODY))


def topics() -> None:
    """The OpenAMQ paper: three topics against four subscriptions."""
    engine = tamis.Engine()
    engine.add_many(
        enumerate(tamis.topic(pattern, dialect="openamq") for pattern in ("forex.*", "*.usd", "*.eur", "#"))
    )
    for topic in ("forex.eur", "forex", "trade.jpy"):
        print(f"{topic:<40}", "subscriptions", engine.match(topic=topic))


def fields() -> None:
    """The OpenAMQ paper: hit counts; a subscription matches if its hits equal its criteria."""
    engine = tamis.Engine()
    engine.add(0, tamis.fields({"currency": "USD", "urgent": tamis.ANY}))
    engine.add(1, tamis.fields({"currency": "EUR"}))
    engine.add(2, tamis.fields({"market": "forex", "currency": "EUR"}))
    engine.add(3, tamis.fields({"urgent": tamis.ANY}))
    for message in (
        {"currency": "JPY", "market": "forex", "slow": tamis.PRESENT},
        {"currency": "JPY", "urgent": tamis.PRESENT},
        {"market": "forex", "currency": "EUR"},
    ):
        print(f"{', '.join(message):<40}", "hits", engine.hits(message), "all", engine.match(message))


def boolean() -> None:
    """The ITMO paper: the filter from a trading system, as printed."""
    query = tamis.boolean(
        "deleted = false && (CFI == OXXXX || CFI == FXXXX) "
        "&& group == (American || European) && Trading enabled == true"
    )
    option = {"deleted": False, "CFI": "OXXXX", "group": "American", "Trading enabled": True}
    print(query)
    print(f"{'an option':<40}", query.evaluate(option))
    print(f"{'a deleted one':<40}", query.evaluate(option | {"deleted": True}))
    print(
        f"{'one that does not say':<40}", query.evaluate({"CFI": "OXXXX", "group": "American", "Trading enabled": True})
    )


if __name__ == "__main__":
    selectors()
    topics()
    fields()
    boolean()
