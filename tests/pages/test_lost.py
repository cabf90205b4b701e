"""The page What was lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import turnscope
from conftest import ROOT
from turnscope.views import window_cuts
from turnscope.views.overview import build_overview
from turnscope.views.request_contents import ContentGroup, ContentPart

from pages.envelope import contents
from pages.lost import markup

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

FIRST = "tool-results-eat-the-window"
HOSTILE = '<script>window.pwned=1</script>" onmouseover="x <img src=http://evil/x> ![a](http://evil/y)'


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def open_cut(app: AppTest, session: str, request: int) -> None:
    app.switch_page("pages/lost.py")
    app.query_params["session"] = session
    app.query_params["request"] = str(request)
    app.run()
    assert not app.exception


def test_a_compaction_shows_its_summary_beside_what_it_replaced(app: AppTest) -> None:
    open_cut(app, FIRST, 112)
    html = bodies(app)
    for said in ("What was lost at request 113", "171,223", "18,938", "The summary", "What it replaced", "auth/sessions.py"):
        assert said in html
    assert 'href="/debugger?session=tool-results-eat-the-window&amp;request=112&amp;policy=as-recorded&amp;step=1"' in html
    assert "needed seven times, first at" in html


def test_arrows_lead_from_cut_to_cut_and_a_request_between_two_shows_the_next(app: AppTest) -> None:
    open_cut(app, FIRST, 150)
    assert app.query_params["request"] == ["263"] or app.query_params["request"] == "263"
    assert "What was lost at request 264" in bodies(app)
    app.button(key="lost.earlier").click().run()
    assert "What was lost at request 113" in bodies(app)
    assert app.button(key="lost.earlier").disabled


def test_a_session_without_a_cut_says_so(app: AppTest) -> None:
    open_cut(app, "thinking-grows", 3)
    assert "Nothing was cut from the window" in bodies(app)


def test_the_envelope_leads_there(app: AppTest) -> None:
    app.query_params["session"] = FIRST
    app.query_params["request"] = "112"
    app.run()
    assert 'href="/lost?session=tool-results-eat-the-window&amp;request=112"' in bodies(app)


def test_text_of_a_session_is_never_markup() -> None:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{FIRST}.jsonl"))
    view = build_overview(trace)
    cut = window_cuts.build_window_cut(trace, view, 112)
    assert cut is not None
    item = replace(cut.groups[0].items[0], label=HOSTILE, text=HOSTILE, needed=(HOSTILE,), needed_at=(113,), sentences=(1,))
    cut = replace(
        cut,
        because=HOSTILE,
        summary=HOSTILE,
        sentences=(HOSTILE,),
        groups=(replace(cut.groups[0], items=(item,)),),
        returned=((HOSTILE, 3),),
    )
    part = ContentPart(HOSTILE, "messages", HOSTILE, 5, 0.1, 0.2, 3, (1, 2, 3), HOSTILE)
    drawn = (
        markup.render_bars(view, cut),
        markup.render_facts(cut),
        markup.render_summary(cut),
        markup.render_items(cut, lambda n: f"/envelope?request={n}"),
        markup.render_savings(cut),
        contents._render_group(ContentGroup("messages", "Messages", (part,)), 100, 50.0),
    )
    for html in drawn:
        assert "<script" not in html
        assert "<img" not in html
        assert '" onmouseover="' not in html
    assert "&lt;script&gt;" in drawn[2]
    assert "&lt;script&gt;" in drawn[5]


def test_what_left_can_be_narrowed_to_what_was_used_again(app: AppTest) -> None:
    open_cut(app, FIRST, 112)
    whole = bodies(app)
    app.segmented_control(key="lost.which").set_value("used").run()
    used = bodies(app)
    assert app.query_params["which"] in (["used"], "used")
    assert "not used again" in whole
    assert "not used again" not in used
    assert "needed seven times, first at" in used


def test_the_choices_of_a_cut_hold_each_item_where_it_fits() -> None:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{FIRST}.jsonl"))
    cut = window_cuts.build_window_cut(trace, build_overview(trace), 112)
    assert cut is not None
    assert cut.choices["all"] == len(cut.items)
    for choice, size in cut.choices.items():
        assert size == sum(len(group.items) for group in cut.select_groups(choice))
    assert 0 < cut.choices["used"] < cut.choices["all"]
    assert "uncovered" not in replace(cut, summary="").choices
