"""The branch picker: on every page that shows a session, and a request's number is that of the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import turnscope

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def picker(app: AppTest) -> Any:
    return next((box for box in app.selectbox if box.label.endswith(" branches")), None)


@pytest.mark.parametrize("page", ["envelope", "heatmap", "debugger"])
def test_the_branches_of_a_tree_are_picked_and_the_link_names_the_one_shown(
    app: AppTest, monkeypatch: pytest.MonkeyPatch, shared: Any, page: str
) -> None:
    from pages.parts.registry import make_id

    path = shared("data", "open", "librechat", "librechat-tree.json")
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    session = turnscope.load(path)
    app.query_params["session"] = make_id(path)
    app.run()
    if page != "envelope":
        app.switch_page(f"pages/{page}.py").run()
    box = picker(app)
    assert box.label == f"{1 + len(session.forks)} branches"
    assert box.value == 0
    box.set_value(1).run()
    assert not app.exception
    assert app.query_params["part"] == "1"
    assert picker(app).value == 1
    branch = session.branches[0]
    app.query_params["request"] = "999"
    app.run()
    assert app.query_params["request"] in (str(len(branch.requests) - 1), "999"), "the last one of that branch"
    picker(app).set_value(0).run()
    assert "part" not in app.query_params
    assert not app.exception


def test_a_session_of_one_path_has_no_picker(app: AppTest) -> None:
    app.run()
    assert picker(app) is None
