"""The envelope's look at what Cline showed: each message of the screen beside the API message that it belongs to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from importers.test_task_folder import HISTORY, folder, make_caching_task, say

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def show(app: AppTest, path: Path, monkeypatch: pytest.MonkeyPatch, request: int) -> str:
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    app.query_params["pane"] = "screen"
    app.query_params["request"] = str(request)
    app.run()
    assert not app.exception
    return "\n".join(element.proto.body for element in app.get("html"))


def test_a_task_shows_its_screen_beside_its_history_and_breakpoints(
    app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, screen = make_caching_task()
    screen.insert(3, say("<b>odd</b>", 1, text="<img src=x onerror=alert(1)>"))
    folder(tmp_path, history, screen)
    page = show(app, tmp_path, monkeypatch, 2)
    rows = re.findall(r"<tr.*?</tr>", page.partition('id="screen-messages"')[2])[1:]
    assert len(rows) == len(screen)
    assert "<b>Cache breakpoints of request 3</b> behind block #" in page
    assert sum("cache breakpoint at #" in row for row in rows) == 2
    assert [row.startswith('<tr class="ts-chosen">') for row in rows] == [False] * 6 + [True] * 2
    assert "on the screen alone" in rows[3]
    assert "history index 1" in rows[3]
    assert "<img" not in page
    assert "<b>odd</b>" not in page


def test_a_task_whose_screen_is_missing_says_so(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, make_caching_task()[0], None)
    assert "no file with the messages of its screen" in show(app, tmp_path / HISTORY, monkeypatch, 0)


def test_another_tools_session_has_no_such_look(app: AppTest) -> None:
    app.query_params["pane"] = "screen"
    app.run()
    assert not app.exception
    looks = next(control for control in app.button_group if control.key == "detail.pane")
    assert "Screen" not in looks.options
