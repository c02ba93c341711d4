"""Extracts the text of HTML in linear time, and keeps words apart where elements do.

The time of lexbor grows with the square of the nesting (13 s for 100,000 open elements). So tags are removed before it
parses: only entities, comments, and elements whose content is not text remain for it."""

from __future__ import annotations

import re
from typing import Final

from tamis.errors import AdapterError

_BLOCKS: Final = frozenset(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form frame frameset h1 h2 h3 h4 h5 h6 header hr html iframe legend li main menu nav ol optgroup "
    "option p pre section summary table tbody td tfoot th thead tr ul".split()
)
_OPAQUE: Final = frozenset("script style title textarea xmp noscript noembed noframes head template svg math".split())
_NOT_TEXT: Final = ["script", "style", "title", "template", "svg", "math"]
_LEFT_TAGS_MAX: Final = 10_000

_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:]{0,20})(?:[\s/](?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+)?>")
_ANY_TAG = re.compile(r"<[^<>]*>?")
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_LINES = re.compile(r" ?\n[ \n]*")


def html_to_text(html: str) -> str:
    """Roughly the text that a reader would see: one line per block, with white space collapsed.

    Raises:
        AdapterError: the parser of the extra `adapters` is not installed.
    """
    flat = _TAG.sub(_flatten, html)
    if flat.count("<") > _LEFT_TAGS_MAX:
        flat = _ANY_TAG.sub(" ", flat)  # no mail program wrote this
    text = _visible_text(flat)
    return _LINES.sub("\n", _SPACES.sub(" ", text)).strip()


def _flatten(tag: re.Match[str]) -> str:
    name = tag.group(1).lower()
    if name in _BLOCKS:
        return "\n"
    return tag.group() if name in _OPAQUE else ""


def _visible_text(html: str) -> str:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise AdapterError(
            "mail in HTML cannot be read: expected the package selectolax; pip install 'tamis[adapters]'"
        ) from error
    tree = LexborHTMLParser(html)
    tree.strip_tags(_NOT_TEXT)
    return tree.body.text() if tree.body else ""
