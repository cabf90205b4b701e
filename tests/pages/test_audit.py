"""The audit page in Streamlit's own test runner: the checklist, a turn's messages, what is in a report that is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def draw_audit(app: AppTest) -> str:
    return "".join(html.proto.body for html in app.get("html"))


def test_the_checklist_a_turn_and_a_report_whose_contents_are_shown_before_it_leaves(app: AppTest) -> None:
    app.query_params["session"], app.query_params["turn"] = "cache-goes-cold", "1"
    app.switch_page("pages/audit.py").run()
    assert not app.exception
    assert draw_audit(app).count("<section class=") == 10
    assert 'href="debugger?session=cache-goes-cold&amp;turn=1&amp;request=63"' in draw_audit(app)
    assert app.number_input(key="audit.turn").value == 2
    assert app.code[0].value.startswith('[\n  {\n    "role": "user",')
    assert not [button for button in app.get("download_button") if "share." in button.proto.id], "nothing is saved unseen"
    app.button(key="share.prepare").click().run()
    assert not app.exception
    assert "<h3>Contents<em>" in draw_audit(app)
    files = [button for button in app.get("download_button") if button.proto.id.endswith(("share.html", "share.markdown"))]
    assert [button.proto.disabled for button in files] == [False, False]
