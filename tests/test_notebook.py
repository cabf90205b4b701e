"""What notebooks show: one line of text for every value, HTML for some, in which a session's text stays text."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import example_notebook
import hostile
import pytest
import turnscope
from conftest import ROOT
from turnscope import notebook
from turnscope.planning.policy import parse
from turnscope.views import slider

SLIDER = {"type": "range", "min": "0", "step": "1", "aria-label": "Request", "style": "width:100%", "oninput": notebook.SHOW}
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
        if tag != "input":  # it has no end
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
        if tag == "input":
            assert attributes | SLIDER == attributes
            assert set(attributes) == {*SLIDER, "max", "value"}
            continue
        assert tag in TAGS
        assert set(attributes) <= {"style", "title", "data-n", "hidden"}
        assert STYLE.fullmatch(attributes.get("style") or "color:red"), attributes["style"]
    return read


def values(session: turnscope.Session) -> Iterator[Any]:
    """Everything of a session that a notebook shows as HTML."""
    yield session
    yield turnscope.overview(session)
    yield turnscope.show(session)
    for name in ("as-recorded", "balanced", "keep-everything"):
        trace = turnscope.replay(session, name)
        yield trace
        yield trace.policy
        yield turnscope.show(trace)
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


def test_a_slider_has_each_request_once_and_shows_the_largest_first() -> None:
    session = turnscope.load(SAMPLE)
    shown = turnscope.show(session)
    read, view = read_html(shown), turnscope.overview(session)
    frames = [attributes for _, attributes in read.tags if "data-n" in attributes]
    assert [frame["data-n"] for frame in frames] == [str(n) for n in range(slider.MAX_FRAMES)]
    assert f"{slider.MAX_FRAMES} of {len(view):,} requests" in read.text
    assert max(b - a for a, b in pairwise(shown.requests)) < 2.5 * len(view) / slider.MAX_FRAMES, "they are spread over it"
    peak = int(view.prompts.argmax())
    assert [shown.requests[n] for n, frame in enumerate(frames) if "hidden" not in frame] == [peak]
    for n in shown.requests:
        assert f"Request {n + 1:,} of {len(view):,}, turn {int(view.turns[n]) + 1}" in read.text
        assert f": {view.get_prompt(n):,} tokens" in read.text
    assert len(shown._repr_html_()) < 400_000
    assert "http" not in shown._repr_html_()
    kind, framed = shown._mime_()  # for marimo
    (frame,) = [attributes for tag, attributes in Reader(framed).tags if tag == "iframe"]
    assert (kind, frame["sandbox"], frame["srcdoc"]) == ("text/html", "allow-scripts", shown._repr_html_())


def test_sessions_and_policies_draw_themselves() -> None:
    sessions, policies = turnscope.load_all(SAMPLE), turnscope.policies()
    assert isinstance(sessions, tuple)
    assert sessions[0].title in read_html(sessions).text
    text = read_html(policies).text
    assert all(policy.title in text for policy in policies[: notebook.MAX_LISTED])
    assert "and" in text or len(policies) <= notebook.MAX_LISTED
    session = sessions[0]
    text = read_html(session).text
    last = session.requests[-1]
    assert f"{last.n}{last.turn}{last.model}{last.usage.prompt_tokens:,}" in text


def test_an_empty_session_is_shown_as_such() -> None:
    assert "No request." in read_html(turnscope.show(turnscope.Session("s1"))).text
    assert "0 requests" in read_html(turnscope.Session("s1")).text
    assert "No request." in read_html(turnscope.overview(turnscope.Session("s1", title="empty"))).text
    assert "0 requests" in read_html(turnscope.replay(turnscope.Session("s1"), "balanced")).text


def test_every_value_says_in_one_line_what_it_is(tmp_path: Path) -> None:
    session = turnscope.load(hostile.write(tmp_path))
    trace = turnscope.replay(session, "balanced")
    plan = trace.plans[-1]
    for value in (session, trace, plan, plan.request, plan.after, trace.policy, *plan.decisions, turnscope.overview(session)):
        assert re.fullmatch(rf"<{type(value).__name__} [^\n]{{10,800}}>", repr(value)), value


def test_the_example_in_the_documentation_is_what_its_cells_give_today() -> None:
    assert example_notebook.NOTEBOOK.read_bytes() == example_notebook.make_notebook(), "python -m tests.regenerate notebook"


def test_figures_stay_in_exports_from_the_call_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import plotly.io as pio
    from turnscope import figures

    before = pio.renderers.default
    try:
        pio.renderers.default = "plotly_mimetype"
        figures.keep_in_exports()
        figures.keep_in_exports()
        assert pio.renderers.default == "plotly_mimetype+notebook"
    finally:
        pio.renderers.default = before


def test_jupyter_and_nbconvert_keep_the_slider_and_figures(tmp_path: Path) -> None:
    python = os.environ.get("NOTEBOOK_PYTHON")
    if not python:
        pytest.skip("NOTEBOOK_PYTHON names no Python that has nbconvert and ipykernel")
    lines = (
        f"import turnscope\nfrom turnscope import figures\nfigures.keep_in_exports()\nsession = {str(SAMPLE)!r}",
        "turnscope.show(session)",
        "figures.draw_heatmap(turnscope.overview(session))",
    )
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
        for n, code in enumerate(lines)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    path = tmp_path / "made.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    command = [str(Path(python).absolute()), "-m", "nbconvert", "--to", "html", "--execute", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    html = path.with_suffix(".html").read_text("utf-8")
    assert "oninput" in html
    assert html.count("data-n=") == slider.MAX_FRAMES
    assert "Plotly.newPlot" in html
