"""The page Usage: its numbers are those of `turnscope usage` and `turnscope cache`."""

from __future__ import annotations

import html
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from claude_log import Log
from turnscope.cli import main
from turnscope.views.phrases import format_usd

from pages.usage import markup

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.usefixtures("indexing_here")
HOSTILE = '<img src=x onerror="window.pwned=1">'


def bodies(app: AppTest) -> str:
    return html.unescape("\n".join(element.proto.body for element in app.get("html")))


@pytest.fixture
def projects(data_folder: Path) -> Path:
    """Three sessions: one that went cold in a pause, one of today, whose cache is warm, and one with a hostile title."""
    folder = data_folder.parent / "home" / ".claude" / "projects" / "p"
    cold = Log(session="cold")
    for n, hour in enumerate(("03", "05")):
        cold.user("a question", timestamp=f"2026-01-02T{hour}:00:00.000Z")
        usage = (10, 9_000, 0, 40)
        cold.answer(f"c{n}", "an answer", usage=usage, timestamp=f"2026-01-02T{hour}:00:05.000Z")
    cold.save(folder / "cold.jsonl")
    now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    warm = Log(session="warm")
    warm.user("a question of today", timestamp=now)
    warm.answer("w0", "an answer", usage=(10, 9_000, 0, 40), timestamp=now, cwd=f"/work/{HOSTILE}")
    warm.save(folder / "warm.jsonl")
    hostile = Log(session="hostile")
    hostile.user(HOSTILE)
    hostile.answer("h0", "an answer", usage=(10, 200, 0, 40), model=HOSTILE)
    hostile.save(folder / "hostile.jsonl")
    return folder


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return made


def show(app: AppTest, **query: str) -> str:
    app.switch_page("pages/usage.py")
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return bodies(app)


def test_without_an_index_it_leads_to_the_library(app: AppTest) -> None:
    assert "No session is indexed yet" in show(app)


def test_its_sums_are_those_of_the_command(app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daily = read(capsys, "usage")
    shown = show(app)
    assert format_usd(daily["total"]["usd"]) in shown
    for row in daily["rows"]:
        assert row["day"] in shown
        assert f"{row['cache_write_5m_tokens']:,}" in shown
    assert app.get("download_button")
    models = read(capsys, "usage", "models")
    by_model = show(app, by="models")
    assert all(row["model"] in by_model for row in models["rows"] if row["model"] != HOSTILE)
    app.segmented_control(key="usage.days").set_value("1").run()
    assert not app.exception
    assert "1 request" in bodies(app)


def test_misses_have_their_cause_and_what_would_have_avoided_it(
    app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = read(capsys, "cache")
    shown = show(app, show="cache")
    assert made["total"]["misses"] == 1
    assert format_usd(made["total"]["usd"]) in shown
    assert "a pause outlived the cache" in shown
    assert "have the prompt cached for an hour" in shown
    assert "120 minutes" in shown or "2 hours" in shown
    assert "a question of today" in shown, "it is warm"
    assert "&request=1" in shown


def test_a_hostile_session_is_text(app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(capsys, "usage")
    for query in ({"by": "models"}, {"by": "sessions"}, {"by": "projects"}, {"show": "cache"}):
        show(app, **query)
        assert "<img" not in "".join(element.proto.body for element in app.get("html"))


def test_where_no_session_is_warm_the_page_is_whole(app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (projects / "warm.jsonl").unlink()
    assert read(capsys, "cache")["warm"] == []
    shown = show(app, show="cache")
    assert "Warm now</h2>" not in shown
    assert "indexed sessions, each request once" in shown


def test_the_address_says_what_is_chosen_and_back_takes_it_back(
    app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(capsys, "usage")
    show(app, by="models")
    app.segmented_control(key="usage.days").set_value("1").run()
    assert app.query_params == {"by": "models", "days": "1"}
    app.segmented_control(key="usage.show").set_value("cache").run()
    assert app.query_params == {"by": "models", "days": "1", "show": "cache"}
    app.query_params.pop("show")  # Back
    assert "Prompt tokens" in bodies(app.run())
    app.query_params.pop("days")
    app.run()
    assert app.segmented_control(key="usage.days").value == ""
    app.query_params.pop("by")
    app.run()
    assert app.segmented_control(key="usage.by").value == "daily"
    show(app, by="models")
    app.switch_page("pages/help.py").run()
    app.query_params.clear()
    app.switch_page("pages/usage.py").run()
    assert app.segmented_control(key="usage.by").value == "models", "as it was left"


def test_an_address_with_nonsense_shows_the_default(app: AppTest, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(capsys, "usage")
    assert "Cost over time" in show(app, show="x", by="y", days="99999999999")


def test_long_tables_end_and_say_so(monkeypatch: pytest.MonkeyPatch, projects: Path, app: AppTest, capsys: Any) -> None:
    monkeypatch.setattr(markup, "MOST", 1)
    read(capsys, "usage")
    assert "more in the file" in show(app, by="sessions")
