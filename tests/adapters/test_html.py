from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.adapters.mail.html import html_to_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p><p>two</p>", "one\ntwo"),
        ("w<b>or</b>d", "word"),
        ("<td>one</td><td>two</td>", "one\ntwo"),
        ("one<br>two<BR/>three", "one\ntwo\nthree"),
        (
            "<html><head><title>T</title><style>p{}</style></head><body>x<script>alert('<p>')</script></body></html>",
            "x",
        ),
        ("Tom &amp; Jerry &eacute; &#8364; &nbsp; x", "Tom & Jerry é € x"),
        ("<a title='a > b' href=\"x\">link</a>", "link"),
        ("a < b and c > d", "a < b and c > d"),
        ("<!-- hidden <p> -->shown", "shown"),
        ("<o:p>office</o:p>", "office"),
        ("unclosed <b", "unclosed"),
        ("", ""),
    ],
)
def test_the_text_is_what_a_reader_sees(html: str, text: str) -> None:
    assert html_to_text(html) == text


@given(st.text(max_size=200))
def test_any_text_is_read(html: str) -> None:
    html_to_text(html).encode("utf-8", "surrogatepass")
