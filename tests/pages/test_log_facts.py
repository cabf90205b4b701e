"""What the library page says of the open file: what its log says of the session, and records that nothing is shown of."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from importers.test_message_lists import REVIEW
from importers.unknown_records import KIND, LOGS, write_log

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture(autouse=True)
def _cold() -> None:
    import streamlit as st

    st.cache_resource.clear()


@pytest.fixture
def show(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    """Opens a file and gives what the library page shows."""

    def open_library(path: Path) -> str:
        monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
        app.run()
        app.switch_page("pages/library.py")
        app.run()
        assert not app.exception
        return html.unescape("\n".join(element.proto.body for element in app.get("html")))

    return open_library


def write_jan(folder: Path) -> Path:
    model = {"id": "m", "parameters": {"temperature": 0.7, "max_tokens": 2048}, "settings": {"ctx_len": 4096}}
    thread = {"id": "t", "object": "thread", "title": "T", "assistants": [{"assistant_name": "Jan", "model": model}]}
    speed = {"tokenSpeed": {"tokenSpeed": 12.5, "tokenCount": 25}}
    rows = [
        {"object": "thread.message", "id": f"m{n}", "thread_id": "t", "role": role, "status": status, "created_at": 10**12 + n}
        | {"content": [{"type": "text", "text": {"value": "hi"}}], "metadata": about}
        for n, (role, status, about) in enumerate([("user", "ready", {}), ("assistant", "stopped", speed)])
    ]
    folder.mkdir()
    (folder / "thread.json").write_text(json.dumps(thread))
    (folder / "messages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_review(path: Path) -> Path:
    path.write_text(json.dumps(REVIEW | {"reviewRunId": "run-7", "tokenCount": 12_345, "condensedSummary": "so far"}))
    return path


def write_continue(path: Path) -> Path:
    log = {"prompt": "go", "completion": "done", "completionOptions": {"contextLength": 8192, "maxTokens": 1024}}
    said: list[dict[str, Any]] = [
        {"message": {"role": "user", "content": "go"}},
        {"message": {"role": "assistant", "content": "done"}, "promptLogs": [log]},
    ]
    path.write_text(json.dumps({"sessionId": "s", "title": "T", "workspaceDirectory": "/w", "history": said}))
    return path


def test_fields_of_a_log_stand_on_a_page(tmp_path: Path, show: Callable[[Path], str]) -> None:
    page = show(write_review(tmp_path / "review.json"))
    for name, value in (("reviewRunId", "run-7"), ("tokenCount", "12,345"), ("createdAt", REVIEW["createdAt"])):
        assert f">{name}</span><span>{value}</span>" in page


def test_settings_speed_and_status_of_jan_stand_on_a_page(tmp_path: Path, show: Callable[[Path], str]) -> None:
    page = show(write_jan(tmp_path / "thread"))
    found = {
        "temperature": "0.7",
        "max_tokens": "2,048",
        "model settings.ctx_len": "4,096",
        "answers ended with": "stopped (1)",
    }
    for name, value in (found | {"tokenSpeed.m1.tokenSpeed": "12.5"}).items():
        assert f">{name}</span><span>{value}</span>" in page


def test_the_window_and_the_answers_limit_of_continue_stand_on_a_page(tmp_path: Path, show: Callable[[Path], str]) -> None:
    page = show(write_continue(tmp_path / "1-2.json"))
    for name, value in (("contextLength", "8,192"), ("maxTokens", "1,024")):
        assert f">{name}</span><span>{value}</span>" in page


@pytest.mark.parametrize("name", LOGS)
def test_a_page_says_where_over_a_twentieth_of_a_file_is_in_unknown_records(
    tmp_path: Path, show: Callable[[Path], str], name: str
) -> None:
    page = show(write_log(tmp_path, name, 3, 1_000))
    assert KIND in page
    assert "in records that are not shown" in page


def test_a_page_does_not_say_so_of_less(tmp_path: Path, show: Callable[[Path], str]) -> None:
    page = show(write_log(tmp_path, "codex", 1, 60))
    assert KIND in page
    assert "in records that are not shown" not in page
