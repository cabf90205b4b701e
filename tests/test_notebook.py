"""What notebooks show: one line of text for every value, HTML for some, in which a session's text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hostile
import pytest
import turnscope
from conftest import ROOT
from turnscope import notebook
from turnscope.planning.policy import parse

TAGS = {"div", "span", "b", "table", "tr", "th", "td"}
STYLE = re.compile(r"(?:[a-z-]+:[#%, ./0-9A-Za-z-]+;?)+")
SAMPLE = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"


class Reader(HTMLParser):
    """Holds what an HTML text is made of: its tags, balanced, with attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read_html(value: Any) -> Reader:
    """A value's HTML, read; nothing in it but plain boxes, in fixed styles."""
    read = Reader(value._repr_html_())
    for tag, attributes in read.tags:
        assert tag in TAGS
        assert set(attributes) <= {"style", "title"}
        assert STYLE.fullmatch(attributes.get("style") or "color:red"), attributes["style"]
    return read


def values(session: turnscope.Session) -> Iterator[Any]:
    """Everything of a session that a notebook shows as HTML."""
    yield turnscope.overview(session)
    for name in ("as-recorded", "balanced", "keep-everything"):
        trace = turnscope.replay(session, name)
        yield trace
        yield trace.policy
        for plan in (trace.plans[0], trace.plans[-1], *[plan for plan in trace.plans if plan.is_changed][:3]):
            yield plan
            yield plan.after


def test_hostile_titles_and_reasons_stay_text(tmp_path: Path) -> None:
    session = turnscope.load(hostile.write(tmp_path))
    texts = [read_html(value).text for value in values(session)]
    assert any(hostile.TEXT[:20] in text for text in texts)


def test_a_hostile_policy_stays_text() -> None:
    said = '"<script>pwned</script> \\" onload=pwned"'
    rule = f'[[rules]]\nrule = "repair"\nresult = {said}\n'
    policy = parse("<b>x</b>", f"title = {said}\ndoc = {said}\nsource = {said}\nfidelity = {said}\n{rule}")
    read = read_html(policy)
    assert read.text.count("<script>pwned</script>") == 5
    assert "<b>x</b>" in read.text


@pytest.mark.parametrize("text", ["\ud800 half", "x" * 10_000, '"><script>', "{", "\x00"])
def test_any_text_can_be_put_in(text: str) -> None:
    html = notebook.render_card(
        text, notebook.render_table([text], [[text]]), notebook.render_line(text), notebook.render_bar({text: 1}), note=text
    )
    html.encode("utf-8")
    assert {tag for tag, _ in Reader(html).tags} == TAGS
    assert len(html) < 10_000


def test_a_bar_has_a_part_for_every_bucket_to_scale() -> None:
    read = Reader(notebook.render_bar({"messages": 30, "tool_results": 60, "unattributed": -5, "tools": 0}, 120))
    widths = {a["title"]: re.findall(r"width:([0-9.]+)%", a["style"] or "") for _, a in read.tags if "title" in a}
    assert widths == {"messages: 30 tokens": ["25.00"], "tool results: 60 tokens": ["50.00"]}
    assert read.text == "3060■ messages 30■ tool results 60"


def test_the_overview_shows_the_largest_request_and_every_cut() -> None:
    view = turnscope.overview(turnscope.load(SAMPLE))
    text = read_html(view).text
    peak = int(view.prompts.argmax())
    assert f"Largest: requests[{peak}], {view.prompts[peak]:,} tokens" in text
    assert [
        f"{marker.request}{view.turns[marker.request]}{view.prompts[marker.request]:,}" in text
        for marker in view.markers
        if marker.kind in ("compact", "cut")
    ] == [True, True]


def test_a_trace_shows_what_each_rule_took_out() -> None:
    trace = turnscope.replay(turnscope.load(SAMPLE), "balanced")
    decisions = [d for plan in trace.plans for d in plan.decisions if d.splice and d.rule == "clear_old_results"]
    out = sum(d.before - d.after for d in decisions)
    assert f"clear_old_resultsclear{len(decisions):,}{decisions[0].request:,}{out:,}" in read_html(trace).text


def test_an_empty_session_is_shown_as_such() -> None:
    assert "No request." in read_html(turnscope.overview(turnscope.Session("s1", title="empty"))).text
    assert "0 requests" in read_html(turnscope.replay(turnscope.Session("s1"), "balanced")).text


def test_every_value_says_in_one_line_what_it_is(tmp_path: Path) -> None:
    session = turnscope.load(hostile.write(tmp_path))
    trace = turnscope.replay(session, "balanced")
    plan = trace.plans[-1]
    for value in (session, trace, plan, plan.request, plan.after, trace.policy, *plan.decisions, turnscope.overview(session)):
        assert re.fullmatch(rf"<{type(value).__name__} [^\n]{{10,800}}>", repr(value)), value
