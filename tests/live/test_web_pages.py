"""Pages and issues that a question names: what is asked, what comes into the prompt, and what hostile ones send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from json_server import serve
from turnscope.envelope.context_items import ContextItem, decode_item
from turnscope.live import web_client
from turnscope.live.context_sources import ContextSources
from turnscope.live.web_pages import MAX_PAGES, PageReader, parse_html
from turnscope.session.model import Ask

KEY = "ghp-0123456789abcdef"
HTML = {"content-type": "text/html; charset=iso-8859-1"}
PAGE = (
    "<title>Das\n Schiff</title><script>evil()</script><h1>Fähre</h1>"
    "<p>Leaves <b>at noon</b>.<p>\x07Back  &lt;soon&gt;<pre>a\n\n  b</pre>"
).encode("iso-8859-1")


def ask(question: str, kinds: str = "url issue", reader: PageReader | None = None) -> list[ContextItem]:
    answer = ContextSources(finders=(reader or PageReader(),)).answer(Ask("provide", "p", kinds, question, 8))
    return [item for one in answer.items if (item := decode_item(one))]


def test_a_page_that_a_question_names_is_read_as_text_under_title_and_address() -> None:
    with serve([(200, HTML, PAGE), (200, {"content-type": "text/plain"}, b"plain <b>")]) as (url, came):
        first, second = ask(f"What is in @url {url}/a?b=c, and in (@url {url}/d.txt)?")
    host = url.removeprefix("http://")
    assert [path for path, _, _ in came] == ["/a?b=c", "/d.txt"]
    assert (first.kind, first.name) == ("url", f"Das Schiff {host}/a?b=c")
    assert first.text == "Fähre\nLeaves at noon.\nBack <soon>\na\n\n  b"
    assert (second.name, second.text) == (f"{host}/d.txt", "plain <b>")


def test_nothing_is_asked_of_anybody_unless_a_question_names_it_and_the_reader_is_there() -> None:
    with serve([]) as (url, came):
        assert ask(f"See {url}/a, mail a@url {url} or @urls {url}") == []
        assert ask(f"@url {url}/a", "web document mcp") == []
        assert ContextSources().answer(Ask("provide", "p", "url issue", f"@url {url}/a", 8)).items == ()
    assert came == []


def test_an_issue_has_its_title_description_and_comments() -> None:
    issue = {"title": "Ship sinks", "body": "It has a hole.", "comments": 2}
    comments = [{"body": "Mend it."}, {"body": None}, 5, {"body": f"Token {KEY}."}]
    with serve([(200, {}, issue), (200, {}, comments), (200, {}, {"title": "B", "comments": 0})]) as (url, came):
        first, second = ask(
            "Fix @issue lob/ship.js#12 and @issue https://github.com/lob/.github/pull/7", reader=PageReader(url, KEY)
        )
    assert [path for path, _, _ in came] == [
        "/repos/lob/ship.js/issues/12",
        "/repos/lob/ship.js/issues/12/comments",
        "/repos/lob/.github/issues/7",
    ]
    assert {value for _, head, _ in came for name, value in head.items() if name.lower() == "authorization"} == {
        f"Bearer {KEY}"
    }
    assert (first.kind, first.name) == ("issue", "Ship sinks")
    text = "# GitHub Issue #12 in lob/ship.js\n\nIt has a hole.\n\n---\n\nMend it.\n\n---\n\nToken [a key was here]."
    assert first.text == text
    assert second.text == "# GitHub Issue #7 in lob/.github\n\nNo description"


def drip() -> Iterator[bytes]:
    while True:
        yield b"a"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((302, {"location": "http://169.254.169.254/latest"}, b""), "moved to http://169.254.169.254/latest"),
        ((404, {}, b""), "status 404"),
        ((200, {"content-type": "image/png"}, b"\x89PNG"), "no text: image/png"),
        ((200, HTML, b"a" * 300_001), "larger than"),
        ((200, HTML, drip()), "takes longer than"),
    ],
)
def test_a_page_that_is_not_read_says_why_and_the_chat_goes_on(answer: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_client, "TIMEOUT", 0.5)
    monkeypatch.setattr(web_client, "MAX_BYTES", 300_000)
    with serve([answer]) as (url, came):
        (item,) = ask(f"@url {url}/a")
        assert len(came) == 1, "no redirect is followed"
    assert item.text.startswith("[not read: ")
    assert why in item.text


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "ftp://a/b", "http://ada:secret-word@127.0.0.1:1/", "http://[", "http://ⓛocalhost:1/"]
)
def test_an_address_that_is_none_is_refused_and_no_password_is_kept(address: str) -> None:
    (item,) = ask(f"@url {address}")
    assert item.text.startswith("[not read: ")
    assert "secret-word" not in f"{item}"


def test_a_question_names_a_few_pages_at_most() -> None:
    with serve([(200, HTML, b"x")] * 9) as (url, came):
        assert len(ask(" ".join(f"@url {url}/{n}" for n in range(9)))) == MAX_PAGES
    assert len(came) == MAX_PAGES


@pytest.mark.parametrize("part", ["<a ", "<!--", "<![CDATA[", "</", "&#x", "<script>", "<p", "<a href='", "<b>", "\n "])
def test_hostile_markup_is_read_in_time(part: str) -> None:
    begun = time.process_time()
    parse_html(part * (60_000 // len(part)))
    assert time.process_time() - begun < 2
