"""What the pages say of how exactly requests are known, and the stored forms beside the sent ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from importers import exact_log
from importers.test_claude_code_stored import PREVIEW, log
from turnscope.views.stored_forms import find_stored_form

from pages.parts import cards

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture
def folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the app looks for Claude Code's sessions."""
    found = data_folder.parent / "claude" / "projects" / "work"
    found.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(found.parent.parent))
    return found


def show_pane(app: AppTest, path: Path, pane: str) -> str:
    """All that the envelope page shows of a session's last request."""
    app.query_params["pane"] = pane
    app.query_params["session"] = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    app.query_params["request"] = "1"
    app.run()
    assert not app.exception
    return "\n".join([*(element.proto.body for element in app.get("html")), *(code.value for code in app.code)])


def test_a_proven_session_says_so_and_lists_system_and_tools(app: AppTest, folder: Path) -> None:
    path, _ = exact_log.session(folder)
    page = show_pane(app, path, "exact")
    assert "as sent, 7 of 7 proven" in page
    assert "<b>As sent.</b> 7 of 7 requests rebuilt, digests equal for 7." in page
    assert "<h3>System prompt and tools" in show_pane(app, path, "blocks")


def test_cache_breakpoints_are_numbered_flags_and_each_part_says_how_it_was_billed(app: AppTest, folder: Path) -> None:
    path, _ = exact_log.session(folder)
    page = show_pane(app, path, "contents")
    assert page.count('title="cache breakpoint ') == 2
    assert 'class="state read"' in page
    older = log().save(folder / "s2.jsonl")
    assert "cache breakpoint" not in show_pane(app, older, "contents")


def test_an_older_log_says_what_is_inferred_and_how_later_ones_are_exact(app: AppTest, folder: Path) -> None:
    path = log().save(folder / "s1.jsonl")
    page = show_pane(app, path, "exact")
    assert "system + tools inferred" in page
    assert "<b>Not as sent.</b> The log holds neither system prompt nor tools" in page
    assert "2.1.330" in page
    assert "<h3>System prompt and tools" not in show_pane(app, path, "blocks")


def test_a_result_stands_as_it_was_sent_and_below_as_it_is_stored(app: AppTest, folder: Path) -> None:
    path = log().save(folder / "s1.jsonl")
    missing = show_pane(app, path, "transcript")
    assert "Above as sent; below as stored in b1.txt, which is not in the log's folder" in missing
    stored = folder / "s1" / "tool-results" / "b1.txt"
    stored.parent.mkdir(parents=True)
    stored.write_text("line one\nline two\nline three", encoding="utf-8")
    page = show_pane(app, path, "transcript")
    assert "Above as sent; below as stored in b1.txt, 28 characters" in page
    assert "line three" in page


def test_the_input_of_a_call_as_it_is_stored(tmp_path: Path) -> None:
    session = turnscope.load(log().save(tmp_path / "s1.jsonl"))
    made = next(block for block in session.blocks if block.kind == "tool_use")
    found = find_stored_form(session, made)
    assert found is not None
    assert (found.text, found.where) == ('{\n  "command": "ls"\n}', "")
    assert find_stored_form(session, session.blocks[0]) is None


@pytest.mark.parametrize("named", ["../../etc/passwd", "/etc/tool-results/passwd", "s1/other/b1.txt", "s1/tool-results/.."])
def test_no_other_file_is_read(named: str, tmp_path: Path) -> None:
    path = log().save(tmp_path / "s1.jsonl")
    session = turnscope.load(path)
    session.about["stored_results"]["c1"] = {"file": named}
    result = next(block for block in session.blocks if block.kind == "tool_result")
    found = find_stored_form(session, result, path)
    assert found is not None
    assert (found.text, found.missing) == ("", True)
    assert result.text == PREVIEW


def test_another_sum_than_ours_is_told_with_both_numbers(tmp_path: Path) -> None:
    made = log()
    made.add_bare(type="cost-state", totalCostUSD=0.5)
    view = turnscope.overview(turnscope.load(made.save(tmp_path / "s1.jsonl")))
    title = cards.render_title(view)
    assert view.total is not None
    assert "log says $0.50" in title
    assert " more" in title
    assert f"counted here ${view.total:.4f}" in title
