from __future__ import annotations

import tamis
from tamis.name_hints import (
    ASKED_MAX,
    CHARACTERS_MAX,
    COMPARISONS_MAX,
    HINTS_MAX,
    NameHints,
    likely_names,
    nearest,
)


def hints(asked: list[str], *messages: dict[str, object]) -> list[str]:
    watching = NameHints(asked)
    for message in messages:
        watching.see(message)
    return watching.hints()


def test_a_name_that_no_message_has_is_answered_with_a_near_one() -> None:
    assert hints(["pirce", "author"], {"price": 1}, {"author": "x"}) == [
        "no message has 'pirce'; did you mean 'price'?"
    ]
    assert hints(["Price"], {"price": 1}) == ["no message has 'Price'; did you mean 'price'?"]


def test_a_name_that_some_message_has_or_that_is_like_none_is_no_mistake() -> None:
    assert hints(["lot", "price"], {"price": 1}, {"lot": None}, {"slot": 3}) == []
    assert hints(["source"], {"author": "x"}) == []


def test_dotted_names_are_looked_for_in_mappings_and_lists() -> None:
    message = {"user": {"name": "x"}, "items": [{"price": 1}, {"size": 2}], "a.b": 1}
    assert hints(["user.name", "items.size", "a.b"], message) == []
    assert hints(["user.nmae"], message) == ["no message has 'user.nmae'; did you mean 'user.name'?"]


def test_hints_are_bounded() -> None:
    asked = [f"name{number}" for number in range(3 * ASKED_MAX)]
    assert len(hints(asked, {"name": 1})) == HINTS_MAX
    tried = iter(asked)
    assert list(likely_names(tried, [str(number) for number in range(COMPARISONS_MAX // 5)])) == []
    assert next(tried) == asked[5]
    assert nearest("x" * CHARACTERS_MAX, ["x" * (CHARACTERS_MAX + 1)]) is None
    assert nearest("x" * (CHARACTERS_MAX + 1), ["x" * CHARACTERS_MAX]) is None
    assert nearest("x" * CHARACTERS_MAX, ["x" * (CHARACTERS_MAX - 1)]) is not None
    nested: dict[str, object] = {}
    for _ in range(2_000):
        nested = {"a": nested}
    hints(["a.b"], {"a": {"b": 1}}, nested)


def test_the_nearest_name_differs() -> None:
    assert nearest("price", ["price", "prices"]) == "prices"
    assert nearest("price", []) is None


def test_explain_says_which_name_was_probably_meant() -> None:
    engine = tamis.Engine()
    engine.add("cheap", tamis.selector('pirce < 3 AND "user.nmae" = 1'))
    why = engine.explain("cheap", {"price": 1, "user": {"name": 2}})
    assert why.missing == ["pirce", "user.nmae"]
    assert why.hints == [
        "the message has no 'pirce'; did you mean 'price'?",
        "the message has no 'user.nmae'; did you mean 'user.name'?",
    ]
    assert str(why).endswith("(the message has no 'user.nmae'; did you mean 'user.name'?)")
    assert why.to_dict()["hints"] == why.hints
    assert "hints" not in engine.explain("cheap", {"size": 1}).to_dict()
    engine.add("cbm", tamis.selector("Pirce < 3", dialect="cbm"))
    assert engine.explain("cbm", {"price": 1}).hints == ["the message has no 'pirce'; did you mean 'price'?"]
