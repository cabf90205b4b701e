"""A log without its prompts takes their size from sessions of the same tool and version on this machine, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claude_log import Log
from conftest import shared
from turnscope.counting.reconciliation import CELLS, StaticHints, fit_requests
from turnscope.library import Store
from turnscope.library.opening import find_family
from turnscope.planning.first_request import get_prompt_prior
from turnscope.session.model import PROMPT_PRIOR
from turnscope.storage import prompt_sizes
from turnscope.storage.prompt_sizes import PromptSize
from turnscope.views.request_summary import list_notes

from tests.wire import open_run

SYSTEM = "Be careful with what you change. " * 1_000
TOOLS = [{"name": "Read", "schema": {"name": "Read", "description": "reads a file " * 500, "input_schema": {"type": "object"}}}]


def save(folder: Path, name: str, *, snapshot: bool = False, usage: Any = None, parent: str | None = None, **keys: Any) -> Path:
    log = Log(name)
    if snapshot:
        prompt = {"type": "prompt_snapshot", "systemPrompt": [SYSTEM], "tools": TOOLS}
        log.line("attachment", attachment=prompt, **keys)
    log.user("hello", parent=parent, **keys)
    log.answer("m1", "hi", usage=usage, **keys)
    log.user("more", **keys)
    log.answer("m2", "yes", usage=usage, **keys)
    return log.save(folder / f"{name}.jsonl")


def test_a_log_that_begins_in_a_conversation_is_split_by_the_size_of_another_and_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    later = save(tmp_path, "later", usage=(3, 60_000, 0, 9), parent="elsewhere")
    before = store.open(later)
    assert PROMPT_PRIOR not in before.session.about
    assert before.trace.get_terms(0).prefix == 0
    store.open(save(tmp_path, "whole", snapshot=True, usage=(3, 12_000, 0, 9)))
    after = store.open(later)
    tokens, source = get_prompt_prior(after.session)
    assert 8_000 < tokens < 12_100
    assert source == "1 session of claude-code 2.1.12 on this machine"
    terms = after.trace.get_terms(0)
    assert terms.prefix == tokens
    assert terms.earlier == pytest.approx(60_003 - tokens, abs=100)
    assert after.overview.cells[0, CELLS.index("prefix")] == tokens, "the stored summary was made anew"
    assert f"system prompt and tools are taken from {source}: about {tokens:,} tokens" in list_notes(after.trace, 0)
    assert store.open(later).overview.cells.tolist() == after.overview.cells.tolist()


def test_requests_without_a_bill_have_the_size_as_an_estimate() -> None:
    sizes = np.arange(1, 5) * 1_000
    [fit] = fit_requests(sizes, np.full(4, -1), ["m"] * 4, known_static=False, hints=StaticHints(prior=9_000))
    assert fit.compute_terms(1_000, -1, 0).predict(1_000) == 10_000


def test_another_version_and_a_bill_of_its_own_take_no_prior(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    store.open(save(tmp_path, "whole", snapshot=True, usage=(3, 12_000, 0, 9)))
    assert get_prompt_prior(store.open(save(tmp_path, "old", version="1.0.1")).session) == (0, "")
    assert get_prompt_prior(store.open(save(tmp_path, "billed", usage=(3, 9_000, 0, 9))).session) == (0, "")


def test_the_median_of_all_sessions_holds_and_deleting_forgets_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    for number, tokens in enumerate((9_000, 30_000, 10_000)):
        prompt_sizes.remember(store.path, PromptSize("claude-code", "2.1.12", "f", str(number), tokens))
    assert prompt_sizes.find(store.path, "claude-code", "2.1.12", "f") == (10_000, 3)
    assert prompt_sizes.find(store.path, "claude-code", "2.1.12", "g") is None
    store.delete()
    assert prompt_sizes.find(store.path, "claude-code", "2.1.12", "f") is None


def test_a_recorded_run_tells_the_size_of_its_version(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    with open_run(shared("data", "wire", "claude", "A")) as run:
        path = next(path for path in run.transcripts.rglob("*.jsonl") if "projects" in path.parts)
        session = store.open(path).session
    found = prompt_sizes.find(store.path, "claude-code", str(session.about["version"]), find_family(session))
    assert found is not None
    assert found[0] == pytest.approx(7_098 + 12_011, rel=0.05), "system and tools in the recording server's own unit"
