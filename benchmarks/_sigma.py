"""Translates Sigma detection rules for Windows to selectors.

Sigma ignores case: `fold` converts the values of an event to lower case once, and the selectors are in lower case.
Only regular expressions see the original text, as `raw.<field>`. A Sigma predicate on an absent field is false, ours is
unknown: below a NOT, each predicate also tests that the field is present, so that both mean the same.

Source: the Sigma specification (rules, modifiers, correlation excluded) and the channels and Sysmon event ids that its
Windows back ends use for a rule's `logsource`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ESCAPE = "!"
RAW = "raw."
DASHES = "-/\u2013\u2014\u2015"
KEYWORDS_FIELD = "Message"

SYSMON = "microsoft-windows-sysmon/operational"
SYSMON_EVENTS = {
    "process_creation": [1],
    "file_change": [2],
    "network_connection": [3],
    "image_load": [7],
    "file_event": [11],
    "registry_add": [12],
    "registry_delete": [12],
    "registry_set": [13],
    "registry_event": [12, 13, 14],
    "file_delete": [23, 26],
    "file_executable_detected": [29],
}
CHANNELS = {
    "application": ["application"],
    "applocker": [
        f"microsoft-windows-applocker/{what}"
        for what in ("msi and script", "exe and dll", "packaged app-deployment", "packaged app-execution")
    ],
    "appmodel-runtime": ["microsoft-windows-appmodel-runtime/admin"],
    "appxdeployment-server": ["microsoft-windows-appxdeploymentserver/operational"],
    "appxpackaging-om": ["microsoft-windows-appxpackaging/operational"],
    "bits-client": ["microsoft-windows-bits-client/operational"],
    "capi2": ["microsoft-windows-capi2/operational"],
    "certificateservicesclient-lifecycle-system": [
        "microsoft-windows-certificateservicesclient-lifecycle-system/operational"
    ],
    "codeintegrity-operational": ["microsoft-windows-codeintegrity/operational"],
    "diagnosis-scripted": ["microsoft-windows-diagnosis-scripted/operational"],
    "dns-client": ["microsoft-windows-dns client events/operational"],
    "dns-server": ["dns server"],
    "driver-framework": ["microsoft-windows-driverframeworks-usermode/operational"],
    "firewall-as": ["microsoft-windows-windows firewall with advanced security/firewall"],
    "iis-configuration": ["microsoft-iis-configuration/operational"],
    "ldap": ["microsoft-windows-ldap-client/debug"],
    "lsa-server": ["microsoft-windows-lsa/operational"],
    "msexchange-management": ["msexchange management"],
    "ntlm": ["microsoft-windows-ntlm/operational"],
    "openssh": ["openssh/operational"],
    "security": ["security"],
    "security-mitigations": [
        "microsoft-windows-security-mitigations/kernel mode",
        "microsoft-windows-security-mitigations/user mode",
    ],
    "shell-core": ["microsoft-windows-shell-core/operational"],
    "smbclient-security": ["microsoft-windows-smbclient/security"],
    "smbserver-connectivity": ["microsoft-windows-smbserver/connectivity"],
    "system": ["system"],
    "taskscheduler": ["microsoft-windows-taskscheduler/operational"],
    "terminalservices-localsessionmanager": ["microsoft-windows-terminalservices-localsessionmanager/operational"],
    "windefend": ["microsoft-windows-windows defender/operational"],
    "wmi": ["microsoft-windows-wmi-activity/operational"],
}


class UnsupportedRuleError(Exception):
    """A rule that no selector can express; the text is the reason."""


@dataclass(frozen=True)
class SigmaItem:
    """A test of one field as selector text; `field` is None if the text is never unknown."""

    text: str
    field: str | None


@dataclass(frozen=True)
class Not:
    """True if its part is not true."""

    part: Node


@dataclass(frozen=True)
class Joined:
    """True if all parts are true (AND), or any of them (OR)."""

    word: str
    parts: list[Node]


Node = SigmaItem | Not | Joined


def fold(event: Mapping[str, Any], raw: Iterable[str] = ()) -> dict[str, str]:
    """Return an event as the rules see it: values in lower case, and the original text of the fields in `raw`."""
    folded = {name: str(value).lower() for name, value in event.items() if isinstance(value, str | int | float)}
    folded.setdefault("Provider_Name", folded.get("SourceName", ""))
    return folded | {RAW + name: str(event[name]) for name in raw if name in event}


def selector_of(rule: Mapping[str, Any]) -> str:
    """Return the selector text of a rule.

    Raises:
        UnsupportedRuleError: no selector can express the rule, or it is for a log without a known channel.
    """
    detection = rule["detection"]
    if "timeframe" in detection:
        raise UnsupportedRuleError("timeframe")
    parts = {name: _part(value) for name, value in detection.items() if name != "condition"}
    condition = _Condition(detection["condition"], parts).read()
    return _text(Joined("AND", [*_source(rule["logsource"]), condition]), is_negated=False)


def raw_fields(selectors: Iterable[str]) -> set[str]:
    """Return the fields that regular expressions look at."""
    matches = (re.findall(rf'REGEX\("{re.escape(RAW)}([^"]+)"', text) for text in selectors)
    return {name for names in matches for name in names}


def _source(logsource: Mapping[str, str]) -> list[Node]:
    """Return the tests for the log of a rule and for the kind of its events."""
    category, service = logsource.get("category"), logsource.get("service")
    if category in SYSMON_EVENTS:
        return [_one_of("Channel", [SYSMON]), _one_of("EventID", [str(number) for number in SYSMON_EVENTS[category]])]
    if category is None and service in CHANNELS:
        return [_one_of("Channel", CHANNELS[service])]
    raise UnsupportedRuleError(f"log {category or service or 'of any kind'}")


# ---- what is tested --------------------------------------------------------------------------------------------------


def _part(value: Any) -> Node:
    """Read a named part of a detection: fields that must all match, or a list of which one must; texts are keywords."""
    if isinstance(value, list):
        return Joined("OR", [_part(one) for one in value])
    if isinstance(value, dict):
        return Joined("AND", [_field(name, wanted) for name, wanted in value.items()])
    return _field(f"{KEYWORDS_FIELD}|contains", value)


def _field(name: str, wanted: Any) -> Node:
    field, *modifiers = name.split("|")
    field, modifiers = (field, modifiers) if field else (KEYWORDS_FIELD, ["contains", *modifiers])
    values = wanted if isinstance(wanted, list) else [wanted]
    word = "AND" if "all" in modifiers else "OR"
    kinds = tuple(one for one in modifiers if one != "all")
    if kinds not in TESTS:
        raise UnsupportedRuleError(f"modifier {'|'.join(kinds)}")
    nodes: list[Node] = [SigmaItem(f"{_name(field)} IS NULL", None) for value in values if value is None]
    present = [value for value in values if value is not None]
    if kinds == () and word == "OR" and present and not any(_has_wildcard(str(value)) for value in present):
        return _joined("OR", [*nodes, _one_of(field, [_plain(str(value)) for value in present])])
    return _joined(word, nodes + [TESTS[kinds](field, str(value)) for value in present])


def _one_of(field: str, values: list[str]) -> SigmaItem:
    quoted = [_quoted(value.lower()) for value in values]
    if len(quoted) == 1:
        return SigmaItem(f"{_name(field)} = {quoted[0]}", _name(field))
    return SigmaItem(f"{_name(field)} IN ({', '.join(quoted)})", _name(field))


def _like(before: str, after: str) -> Callable[[str, str], Node]:
    def test(field: str, value: str) -> Node:
        pattern = before + "".join(_pattern(value.lower())) + after
        pattern = re.sub("%%+", "%", pattern)
        escape = f" ESCAPE '{ESCAPE}'" if ESCAPE in pattern else ""
        return SigmaItem(f"{_name(field)} LIKE {_quoted(pattern)}{escape}", _name(field))

    return test


def _equal(field: str, value: str) -> Node:
    return _like("", "")(field, value) if _has_wildcard(value) else _one_of(field, [_plain(value)])


def _any_dash(field: str, value: str) -> Node:
    """Match a value with any of the characters that Windows programs accept as the dash of an option."""
    texts = {re.sub(r"\B[-/]\b", dash, value) for dash in DASHES}
    return Joined("OR", [_like("%", "%")(field, text) for text in sorted(texts)])


def _regex(flags: str) -> Callable[[str, str], Node]:
    def test(field: str, value: str) -> Node:
        name = _name(RAW + field)
        return SigmaItem(f"REGEX({name}, {_quoted(flags + value)})", name)

    return test


def _network(field: str, value: str) -> Node:
    """Match a network by prefixes of the text of its addresses; IPv6 only if the first 16 bits decide, or all bits."""
    network = ipaddress.ip_network(value)
    if network.prefixlen == network.max_prefixlen:
        return _one_of(field, [str(network.network_address)])
    step = 8 if network.version == 4 else 4
    length = -(-network.prefixlen // step) * step
    if network.version == 6 and length > 16:
        raise UnsupportedRuleError("cidr of IPv6 beyond 16 bits")
    texts = [str(one.network_address) for one in network.subnets(new_prefix=length)]
    if network.version == 4:
        beginnings = [".".join(text.split(".")[: length // 8]) + "." for text in texts]
    else:
        beginnings = [text[: length // 4] for text in texts]
    return Joined("OR", [_like("", "%")(field, text) for text in beginnings])


def _other_field(field: str, value: str) -> Node:
    name, other = _name(field), _name(value)
    return Joined("AND", [SigmaItem(f"{other} IS NOT NULL", None), SigmaItem(f"{name} = {other}", name)])


TESTS: dict[tuple[str, ...], Callable[[str, str], Node]] = {
    (): _equal,
    ("contains",): _like("%", "%"),
    ("startswith",): _like("", "%"),
    ("endswith",): _like("%", ""),
    ("contains", "windash"): _any_dash,
    ("re",): _regex(""),
    ("re", "i"): _regex("(?i)"),
    ("cidr",): _network,
    ("fieldref",): _other_field,
}


def _characters(value: str) -> Iterable[tuple[str, bool]]:
    """Yield each character of a Sigma value, and whether it is a wildcard; a backslash escapes wildcards and itself."""
    at = 0
    while at < len(value):
        if value[at] == "\\" and value[at + 1 : at + 2] in ("*", "?", "\\"):
            yield value[at + 1], False
            at += 2
        else:
            yield value[at], value[at] in "*?"
            at += 1


def _has_wildcard(value: str) -> bool:
    return any(is_wildcard for _, is_wildcard in _characters(value))


def _plain(value: str) -> str:
    return "".join(character for character, _ in _characters(value))


def _pattern(value: str) -> Iterable[str]:
    for character, is_wildcard in _characters(value):
        if is_wildcard:
            yield "%" if character == "*" else "_"
        else:
            yield ESCAPE + character if character in ("%", "_", ESCAPE) else character


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'


def _joined(word: str, parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Joined(word, parts)


def _text(node: Node, is_negated: bool) -> str:
    match node:
        case SigmaItem(text, None):
            return text
        case SigmaItem(text, field):
            return f"({field} IS NOT NULL AND {text})" if is_negated else text
        case Not(part):
            return f"NOT ({_text(part, is_negated=True)})"
        case Joined(word, parts):
            return "(" + f" {word} ".join(_text(part, is_negated) for part in parts) + ")"


# ---- conditions ------------------------------------------------------------------------------------------------------


class _Condition:
    """Parses conditions such as `selection and not 1 of filter_*`, by recursion: the rules are trusted and shallow."""

    def __init__(self, text: str, parts: Mapping[str, Node]) -> None:
        self._words = re.findall(r"[()]|[^\s()]+", text)
        self._parts = parts
        self._at = 0

    def read(self) -> Node:
        node = self._any()
        if self._at < len(self._words):
            raise UnsupportedRuleError(f"condition with '{self._words[self._at]}'")
        return node

    def _next(self, *wanted: str) -> bool:
        if self._at < len(self._words) and self._words[self._at].lower() in wanted:
            self._at += 1
            return True
        return False

    def _word(self) -> str:
        if self._at == len(self._words):
            raise UnsupportedRuleError("condition that ends too early")
        self._at += 1
        return self._words[self._at - 1]

    def _any(self) -> Node:
        parts = [self._all()]
        while self._next("or"):
            parts.append(self._all())
        return _joined("OR", parts)

    def _all(self) -> Node:
        parts = [self._one()]
        while self._next("and"):
            parts.append(self._one())
        return _joined("AND", parts)

    def _one(self) -> Node:
        if self._next("not"):
            return Not(self._one())
        if self._next("("):
            inside = self._any()
            self._next(")")
            return inside
        word = self._word()
        if self._next("of"):
            names = self._names(self._word())
            return _joined("AND" if word == "all" else "OR", [self._parts[name] for name in names])
        if word not in self._parts:
            raise UnsupportedRuleError(f"condition with '{word}'")
        return self._parts[word]

    def _names(self, pattern: str) -> list[str]:
        fits = re.compile(".*" if pattern == "them" else pattern.replace("*", ".*")).fullmatch
        names = [name for name in self._parts if fits(name) and not (pattern == "them" and name.startswith("_"))]
        if not names:
            raise UnsupportedRuleError(f"condition with '{pattern}', which nothing is called")
        return names
