"""The compare page in Streamlit's own test runner."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pytest
from turnscope.library import WINDOWS
from turnscope.views import savings

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

T = TypeVar("T")
VERSIONS = '<table class="ts-table words cmp-versions">'


def test_two_versions_of_one_agent_are_put_side_by_side(app: AppTest) -> None:
    app.query_params["session"] = "cache-goes-cold"
    app.query_params["policies"] = "claude-code,claude-code-2.1.330,last-5-pairs"
    app.switch_page("pages/compare.py").run()
    (found,) = _until(app, lambda: [html.proto.body for html in app.get("html") if VERSIONS in html.proto.body])
    assert not app.exception
    assert [re.sub("<.*?>", "", cell) for cell in re.findall("<th.*?</th>", found)][2:] == [
        "A, Claude Code",
        "B, Claude Code (2.1.330)",
    ]
    rows = {row[1]: row[2:] for row in (re.findall("<td>(.*?)</td>", line) for line in found.split("<tr>")[2:])}
    assert rows["version"] == ["2.1", "2.1.330"]
    assert rows["compact_into_summary"][1] == "–"
    assert "the prompt falls at request" not in rows, "it is the same in both"
    app.selectbox(key="compare.b").set_value("last-5-pairs").run()
    assert not app.exception
    assert not any(VERSIONS in html.proto.body for html in app.get("html")), "they are of two systems"


def test_policies_are_put_side_by_side_parted_and_searched(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "CANDIDATES", ("condense-oldest",))
    app.query_params["session"] = "cache-goes-cold"
    app.query_params["policies"] = "as-recorded,last-5-pairs,no-such"
    app.switch_page("pages/compare.py").run()
    _until(app, lambda: len(app.dataframe) > 0 and len(app.dataframe[0].value) == 2)
    assert not app.exception
    table = app.dataframe[0].value
    assert [title.removesuffix(" ★") for title in table["policy"]] == ["✚ As recorded", "● Last 5 pairs"]
    assert len(table.columns) == 5
    assert app.query_params["policies"] == "as-recorded,last-5-pairs"
    assert table["lost references"][1] > 0
    assert any("Answers are taken as recorded" in html.proto.body for html in app.get("html"))
    assert any("First difference: request" in text.value for text in app.text)
    assert any('<div class="cmp-verdict"' in html.proto.body for html in app.get("html"))
    assert any('<article class="cmp-card' in html.proto.body for html in app.get("html"))
    app.text_input(key="compare.text").set_value("nowhere in this session").run()
    assert not app.exception
    assert list_left(app) == ["As recorded none in no request", "Last 5 pairs none in no request"]
    assert app.query_params["text"] == "nowhere in this session"
    app.text_input(key="compare.text").set_value("#3").run()
    assert any(text.value.startswith("Occurs in block 3, ") for text in app.text)
    assert (
        list_left(app)[0]
        == "As recorded 2–63 Condense by follow_the_record at request 64: compacted into a summary (requested by the user). "
        "in the debugger →"
    )
    html = "\n".join(element.proto.body for element in app.get("html"))
    assert "in the middle</b>" not in html, "the verdict stands in its place"
    assert "/plan?session=cache-goes-cold&amp;what=budget&amp;policies=last-5-pairs" in html

    app.segmented_control(key="compare.which").set_value("kept").run()
    kept = next(frame.value for frame in app.dataframe if "in B, Last 5 pairs" in frame.value)
    assert set(kept["in B, Last 5 pairs"]) == {"head", "middle", "tail", "not kept"}
    assert any(text.value.startswith("Last 5 pairs: of the blocks that it keeps, ") for text in app.text)

    app.selectbox(key="compare.with").set_value("thinking-grows").run()
    assert not app.exception
    assert app.query_params["with"] == "thinking-grows"
    (beside,) = (html.proto.body for html in app.get("html") if "Prompt tokens, all requests" in html.proto.body)
    assert "<td>88</td>" in beside

    app.toggle(key="compare.every").set_value(True).run()
    assert {"× record", "rejected", "decisions"} <= {*app.dataframe[0].value.columns}

    app.button(key="saving.ask").click().run()
    found = _until(app, lambda: [html.proto.body for html in app.get("html") if 'id="saving"' in html.proto.body])
    assert "would have saved most" in found[0]
    assert "/compare?session=" in found[0]

    app.toggle(key="compare.sweep").set_value(True).run()
    swept = _until(app, lambda: [frame.value for frame in app.dataframe if "window" in frame.value and len(frame.value) == 8])[
        0
    ]
    assert list(swept["window"]) == list(WINDOWS)
    assert (swept["refused"][0], swept["refused"][7]) == (88, 0), "system and tools alone fill the smallest"
    assert not any(swept["over the window"])
    app.toggle(key="compare.sweep").set_value(False)

    app.selectbox(key="compare.model").set_value("gemini-2.5-flash")
    app.number_input(key="compare.limit").set_value(40_000).run()
    _until(app, lambda: len(app.dataframe[0].value) == 2 and app.dataframe[0].value["cost"][1] != table["cost"][1])
    assert (app.query_params["model"], app.query_params["limit"]) == ("gemini-2.5-flash", "40000")


def list_left(app: AppTest) -> list[str]:
    """The lines that say when a text left, as text."""
    (table,) = (html.proto.body for html in app.get("html") if 'id="left-window"' in html.proto.body)
    lines = table.partition("<tbody>")[2].split("</tr>")[:-1]
    return [" ".join(re.sub("<[^>]+>", " ", line).split()) for line in lines]


def _until(app: AppTest, done: Callable[[], T]) -> T:
    """Look until something is there."""
    for _ in range(80):
        if found := done():
            return found
        time.sleep(0.25)
        app.run()
    raise AssertionError("it never came")
