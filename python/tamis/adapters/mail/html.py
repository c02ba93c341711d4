"""Extracts the text of HTML in linear time, and keeps words apart where elements do.

The time of lexbor grows with the square of the nesting (13 s for 100,000 open elements). So tags are removed before it
parses: only entities, and elements whose content is not text, remain for it. A tag ends where browsers end it, also in
HTML with mistakes; else a half tag would remain, and hide the text after it.

Source: https://html.spec.whatwg.org/#tokenization."""

from __future__ import annotations

import re
from typing import Final

from tamis.errors import AdapterError

_BLOCKS: Final = frozenset(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form frame frameset h1 h2 h3 h4 h5 h6 header hr html iframe legend li main menu nav ol optgroup "
    "option p pre section summary table tbody td tfoot th thead tr ul".split()
)
_OPAQUE: Final = frozenset("textarea xmp noscript noembed noframes head template svg math".split())
_NOT_TEXT: Final = ["template", "svg", "math"]
_LEFT_TAGS_MAX: Final = 10_000

# Every alternative that begins to match ends at the latest with the text, so that the search is linear.
_VALUE = r"=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\s\"'>][^\s>]*+)?"
_MARKUP = re.compile(
    r"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>|\Z))"  # a comment
    r"|<(?:[!?]|/(?=[^a-z]))[^>]*+(?:>|\Z)"  # a document type, and what browsers take for a comment
    r"|<(?P<hidden>script|style|title)(?=[\s/>])(?:[^<]++|<(?!/(?P=hidden)[\s/>]))*+(?:</[^>]*+>|\Z)"
    rf"|</?(?P<name>[a-z][^\s/>]*+)(?:{_VALUE}|[^>=])*+(?:>|\Z)"
    r"|<",  # text, which must not begin a tag with what follows when a tag between them is gone
    re.IGNORECASE,
)
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_LINES = re.compile(r" ?\n[ \n]*")


def html_to_text(html: str) -> str:
    """Return roughly the text that a browser would show: one line per block, with white space collapsed.

    Raises:
        AdapterError: the parser of the extra `adapters` is not installed.
    """
    flat = _MARKUP.sub(_flatten, html)
    if flat.count("<") > _LEFT_TAGS_MAX:
        flat = flat.replace("<", "&lt;")  # no mail program wrote this
    text = _visible_text(flat)
    return _LINES.sub("\n", _SPACES.sub(" ", text)).strip()


def _flatten(markup: re.Match[str]) -> str:
    found, name = markup.group(), (markup["name"] or "").lower()
    if found == "<":
        return "&lt;"
    return "\n" if name in _BLOCKS else found if name in _OPAQUE else ""


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
