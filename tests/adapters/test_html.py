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
        ('<p><font face="Arial" <b>hello frost</b></font></p><p>more garlic</p>', "hello frost\nmore garlic"),
        ("<td><img height=8</td>after", "after"),
        ("<a title=\"it's\" b='\"'>one</a> <i '>two</i>", "one two"),
        ('<!-- <a href="x --> shown " >', 'shown " >'),
        ("<script>a = \"<a href='\"</script>shown 'too'", "shown 'too'"),
        ("<style>a<b{}</STYLE >shown", "shown"),
        ("<!doctype html><![if !mso]>shown<![endif]>", "shown"),
        ("", ""),
    ],
)
def test_the_text_is_what_a_reader_sees(html: str, text: str) -> None:
    assert html_to_text(html) == text


FRAGMENTS = st.sampled_from(
    """word |<b>|</b>|<font face="Arial" <b>|<img height=8</i>|"|'|=| |<|>|/|<p x='|<a href="|<!--|-->|<!-->|<!x>|</"""
    """|</>|</ x>|&amp;|<3|<title>|</title>|& """.split("|")
)


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_no_mistake_in_the_html_hides_text_that_a_browser_shows(html: str) -> None:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser("<body>" + html)
    tree.strip_tags(["title"])
    assert tree.body is not None
    assert "".join(html_to_text("<body>" + html).split()) == "".join(tree.body.text().split())


@given(st.text(max_size=200))
def test_any_text_is_read(html: str) -> None:
    html_to_text(html).encode("utf-8", "surrogatepass")


def test_a_text_with_thousands_of_signs_like_tags_is_not_lost() -> None:
    assert html_to_text("1 < 2 " * 20_000).split() == ["1", "<", "2"] * 20_000
