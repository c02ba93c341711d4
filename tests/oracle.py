"""A second definition of selectors, in plain Python: trees that can be rendered as text and evaluated.

It follows docs/semantics.md and not the core, so that a mistake would have to be made twice. A tree is a tuple
whose first item names its kind; `render` gives its selector text, `truth` its value of a message."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

Tree = tuple[Any, ...]
UNKNOWN = None
NAMES = ["a", "b", "c.d", "flag", "price"]
TEXTS = ["", "x", "xy", "a%b", "it's", "X_y", "Straße", "new\nline"]


scalars = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    st.sampled_from([0.5, -0.5, 1.0, 2.0, 2.0**53, 1e300]),
    st.sampled_from(TEXTS),
)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 31, tzinfo=UTC)
TIME_TEXTS = ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31T00:00:00.000Z", "2026-01-31", "soon"]
times = st.one_of(
    st.sampled_from([NOON, MIDNIGHT, datetime(2026, 2, 1, 0, 0, 0, 1, tzinfo=UTC)]), st.sampled_from(TIME_TEXTS)
)
"""Values of the properties `when` and `due`: times, and texts that are times beside times."""
values = st.one_of(scalars, st.none(), st.lists(st.one_of(scalars, st.none()), max_size=3))
plain_messages = st.dictionaries(st.sampled_from(["a", "b", "c.d", "flag", "price"]), values, max_size=5).flatmap(
    lambda flat: st.one_of(
        st.just(flat),
        st.one_of(scalars, st.none()).map(
            lambda inner: {k: v for k, v in flat.items() if k != "c.d"} | {"c": {"d": inner}}
        ),
    )
)
time_values = st.one_of(times, st.none(), st.lists(times, max_size=3))
time_messages = st.dictionaries(st.sampled_from(["when", "due"]), time_values)
all_messages = st.tuples(plain_messages, time_messages).map(lambda both: {**both[0], **both[1]})


@st.composite
def a_message(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a message, from a strategy with a short description: Hypothesis warns of long ones."""
    return draw(all_messages)


messages = a_message()


def literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


names = st.sampled_from(NAMES).map(lambda name: ("name", name))
numbers = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 2.0])).map(lambda n: ("literal", n))
texts = st.sampled_from(TEXTS).map(lambda text: ("literal", text))
arithmetic = st.recursive(
    st.one_of(names, numbers),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner),
        inner.filter(lambda o: o[0] != "literal").map(lambda operand: ("negate", operand)),
    ),
    max_leaves=4,
)
operands = st.one_of(names, arithmetic, texts)
orderings = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
comparisons = st.tuples(st.just("compare"), orderings, operands, operands)
time_names = st.sampled_from(["when", "due", "when", "a"]).map(lambda name: ("name", name))
time_literals = st.sampled_from([NOON, MIDNIGHT, date(2026, 1, 31), date(2026, 2, 1)]).map(
    lambda time: ("literal", time)
)
time_tests = st.one_of(
    st.tuples(st.just("compare"), orderings, time_names, time_literals),
    st.tuples(st.just("compare"), orderings, time_literals, time_names),
    st.tuples(st.just("between"), time_names, time_literals, time_literals),
    st.tuples(st.just("in"), time_names, st.lists(time_literals, min_size=1, max_size=3)),
    time_names.map(lambda name: ("null", name)),
)
"""Tests of which the answer does not depend on whether a time is a datetime or the text of one."""
time_texts = st.sampled_from(TIME_TEXTS).map(lambda text: ("literal", text))
text_tests = st.one_of(
    st.tuples(st.just("compare"), orderings, time_names, st.one_of(time_texts, time_names)),
    st.tuples(st.just("in"), time_names, st.lists(st.one_of(time_texts, time_literals), min_size=1, max_size=3)),
    st.tuples(st.just("between"), time_names, st.one_of(time_texts, time_literals), time_names),
    st.tuples(st.just("like"), time_names, st.just("2026%")),
)
predicates = st.one_of(
    comparisons,
    time_tests,
    text_tests,
    names.map(lambda name: ("truth", name)),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), names, st.booleans().map(lambda b: ("literal", b))),
    st.tuples(st.just("between"), operands, operands, operands),
    st.tuples(st.just("in"), names, st.lists(st.one_of(numbers, texts), min_size=1, max_size=4)),
    st.tuples(st.just("like"), names, st.sampled_from(["%", "x%", "%y", "_", "X!_y", "a!%b", "%a%t%", "Stra_e", ""])),
    names.map(lambda name: ("null", name)),
    names.map(lambda name: ("exists", name)),
    st.booleans().map(lambda value: ("constant", value)),
)
all_trees: st.SearchStrategy[Tree] = st.recursive(
    predicates,
    lambda inner: st.one_of(
        inner.map(lambda tree: ("not", tree)),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=6,
)


@st.composite
def a_tree(draw: st.DrawFn) -> Tree:
    """Draw a tree, from a strategy with a short description."""
    return draw(all_trees)


trees = a_tree()


def render(tree: Tree) -> str:
    match tree:
        case ("name", name):
            return str(name)
        case ("literal", value):
            return literal(value)
        case ("negate", operand):
            return f"-({render(operand)})"
        case ("compare", op, left, right):
            return f"{render(left)} {op} {render(right)}"
        case ("truth", name):
            return render(name)
        case ("between", operand, low, high):
            return f"{render(operand)} BETWEEN {render(low)} AND {render(high)}"
        case ("in", operand, items):
            return f"{render(operand)} IN ({', '.join(render(item) for item in items)})"
        case ("like", operand, pattern):
            return f"{render(operand)} LIKE {literal(pattern)} ESCAPE '!'"
        case ("null", operand):
            return f"{render(operand)} IS NULL"
        case ("exists", operand):
            return f"EXISTS({render(operand)})"
        case ("constant", value):
            return literal(value)
        case ("not", inner):
            return f"NOT ({render(inner)})"
        case (("and" | "or") as word, left, right):
            return f"({render(left)}) {word.upper()} ({render(right)})"
        case (op, left, right):
            return f"({render(left)}) {op} ({render(right)})"
    raise AssertionError(tree)


def lookup(message: dict[str, Any], name: str) -> Any:
    """Return the value that a name reaches; None if it is absent or null; a list is never empty."""
    found = message.get(name)
    if found is None and name not in message and "." in name:
        head, _, tail = name.partition(".")
        found = message.get(head, {}).get(tail)
    return None if found == [] and isinstance(found, list) else found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def scalar(operand: Tree, message: dict[str, Any]) -> Any:
    """Return an operand as one value; UNKNOWN for a list."""
    match operand:
        case ("name", name):
            value = lookup(message, name)
            return UNKNOWN if isinstance(value, list) else value
        case ("literal", value):
            return value
        case ("negate", inner):
            value = scalar(inner, message)
            return in_range(-value) if is_number(value) else UNKNOWN
        case (op, left, right):
            return compute(op, scalar(left, message), scalar(right, message))
    raise AssertionError(operand)


def in_range(value: Any) -> Any:
    return UNKNOWN if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def compute(op: str, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        return left + right
    if not (is_number(left) and is_number(right)):
        return UNKNOWN
    if op == "/":
        return float(left) / float(right) if right != 0 else UNKNOWN
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    return in_range({"+": left + right, "-": left - right, "*": left * right}[op])


def read(operand: Tree, value: Any, other: Any) -> Any:
    """Return the time that a property's text is beside a time: a date beside DATE only."""
    if operand[0] != "name" or not isinstance(value, str) or not isinstance(other, date):
        return value
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value):
        return datetime.fromisoformat(value)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value) and not isinstance(other, datetime):
        return instant(date.fromisoformat(value))
    return value


def instant(value: Any) -> Any:
    """Return the midnight that begins a day; anything else as it is."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def compare(op: str, left: Any, right: Any) -> bool | None:
    left, right = instant(left), instant(right)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if left != left or right != right:  # NaN
        return op == "<>"
    alike = (is_number(left) and is_number(right)) or type(left) is type(right)
    if (
        alike
        and is_number(left)
        and any(isinstance(v, float) and v in (float("inf"), float("-inf")) for v in (left, right))
    ):
        sign = (left > right) - (left < right)
    elif alike and is_number(left):
        exact_left, exact_right = Fraction(left), Fraction(right)
        sign = (exact_left > exact_right) - (exact_left < exact_right)
    elif alike:
        sign = (left > right) - (left < right)
    else:
        return op == "<>"
    return {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]


def is_constant(operand: Tree) -> bool:
    return operand[0] != "name" and all(is_constant(part) for part in operand[1:] if isinstance(part, tuple))


def any_true(truths: list[bool | None]) -> bool | None:
    return True if True in truths else UNKNOWN if UNKNOWN in truths else False


def all_true(truths: list[bool | None]) -> bool | None:
    return False if False in truths else UNKNOWN if UNKNOWN in truths else True


def elements(operand: Tree, message: dict[str, Any]) -> list[Any]:
    """Return the elements of a list that a name reaches, else the one value."""
    if operand[0] == "name":
        value = lookup(message, operand[1])
        return value if isinstance(value, list) else [value]
    return [scalar(operand, message)]


def like(value: Any, pattern: str) -> bool | None:
    if value is UNKNOWN:
        return UNKNOWN
    expression, characters = "", iter(range(len(pattern)))
    for index in characters:
        character = pattern[index]
        if character == "!" and pattern[index + 1 : index + 2] in ("%", "_", "!"):
            expression += re.escape(pattern[next(characters)])
        else:
            expression += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return isinstance(value, str) and re.fullmatch(expression, value, re.DOTALL) is not None


def truth(tree: Tree, message: dict[str, Any]) -> bool | None:
    match tree:
        case ("and", left, right):
            return all_true([truth(left, message), truth(right, message)])
        case ("or", left, right):
            return any_true([truth(left, message), truth(right, message)])
        case ("not", inner):
            value = truth(inner, message)
            return UNKNOWN if value is UNKNOWN else not value
        case ("constant", value):
            return bool(value)
        case ("truth", name):
            return any_true([v if isinstance(v, bool) else UNKNOWN for v in elements(name, message)])
        case ("compare", op, left, right):
            return truth_of_comparison(op, left, right, message)
        case ("between", operand, low, high):
            bounds = scalar(low, message), scalar(high, message)
            return any_true(
                [
                    all_true(
                        [
                            compare_read(">=", (operand, v), (low, bounds[0])),
                            compare_read("<=", (operand, v), (high, bounds[1])),
                        ]
                    )
                    for v in between_values(tree, message)
                ]
            )
        case ("in", operand, items):
            return any_true(
                [
                    UNKNOWN if v is UNKNOWN else any(compare_read("=", (operand, v), (item, item[1])) for item in items)
                    for v in elements(operand, message)
                ]
            )
        case ("like", operand, pattern):
            return any_true([like(v, pattern) for v in elements(operand, message)])
        case ("null", (_, name)):
            return lookup(message, name) is None
        case ("exists", (_, name)):
            return present(message, name)
    raise AssertionError(tree)


def between_values(tree: Tree, message: dict[str, Any]) -> list[Any]:
    _, operand, low, high = tree
    if is_constant(low) and is_constant(high):
        return elements(operand, message)
    return [scalar(operand, message)]  # a list against another property is unknown


def truth_of_comparison(op: str, left: Tree, right: Tree, message: dict[str, Any]) -> bool | None:
    if is_constant(right):
        return any_true([compare_read(op, (left, v), (right, scalar(right, message))) for v in elements(left, message)])
    if is_constant(left):
        return any_true([compare_read(op, (left, scalar(left, message)), (right, v)) for v in elements(right, message)])
    return compare_read(op, (left, scalar(left, message)), (right, scalar(right, message)))


def compare_read(op: str, left: tuple[Tree, Any], right: tuple[Tree, Any]) -> bool | None:
    """Compare two operands, each given as its tree and its value."""
    return compare(op, read(*left, right[1]), read(*right, left[1]))


def present(message: dict[str, Any], name: str) -> bool:
    if name in message:
        return message[name] != []
    head, _, tail = name.partition(".")
    inner = message.get(head)
    return isinstance(inner, dict) and tail in inner and inner[tail] != []
