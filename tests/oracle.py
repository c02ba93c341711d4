"""A second definition of selectors, in plain Python: trees that can be rendered as text and evaluated.

It follows docs/semantics.md and not the core, so that a mistake would have to be made twice. A tree is a tuple
whose first item names its kind; `render` gives its selector text, `truth` its value of a message."""

from __future__ import annotations

import re
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
values = st.one_of(scalars, st.none(), st.lists(st.one_of(scalars, st.none()), max_size=3))
messages = st.dictionaries(st.sampled_from(["a", "b", "c.d", "flag", "price"]), values, max_size=5).flatmap(
    lambda flat: st.one_of(
        st.just(flat),
        st.one_of(scalars, st.none()).map(
            lambda inner: {k: v for k, v in flat.items() if k != "c.d"} | {"c": {"d": inner}}
        ),
    )
)


def literal(value: Any) -> str:
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
predicates = st.one_of(
    comparisons,
    names.map(lambda name: ("truth", name)),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), names, st.booleans().map(lambda b: ("literal", b))),
    st.tuples(st.just("between"), operands, operands, operands),
    st.tuples(st.just("in"), names, st.lists(st.one_of(numbers, texts), min_size=1, max_size=4)),
    st.tuples(st.just("like"), names, st.sampled_from(["%", "x%", "%y", "_", "X!_y", "a!%b", "%a%t%", "Stra_e", ""])),
    names.map(lambda name: ("null", name)),
    names.map(lambda name: ("exists", name)),
    st.booleans().map(lambda value: ("constant", value)),
)
trees: st.SearchStrategy[Tree] = st.recursive(
    predicates,
    lambda inner: st.one_of(
        inner.map(lambda tree: ("not", tree)),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=6,
)


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


def compare(op: str, left: Any, right: Any) -> bool | None:
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
                    all_true([compare(">=", v, bounds[0]), compare("<=", v, bounds[1])])
                    for v in between_values(tree, message)
                ]
            )
        case ("in", operand, items):
            return any_true(
                [
                    UNKNOWN if v is UNKNOWN else any(compare("=", v, item[1]) for item in items)
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
        return any_true([compare(op, v, scalar(right, message)) for v in elements(left, message)])
    if is_constant(left):
        return any_true([compare(op, scalar(left, message), v) for v in elements(right, message)])
    return compare(op, scalar(left, message), scalar(right, message))


def present(message: dict[str, Any], name: str) -> bool:
    if name in message:
        return message[name] != []
    head, _, tail = name.partition(".")
    inner = message.get(head)
    return isinstance(inner, dict) and tail in inner and inner[tail] != []
