"""The front door: its examples, what it loads, and what the environment and the user's data folder change."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import ROOT
from turnscope.library import opening

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
HEAVY = {"anthropic", "optuna", "plotly", "streamlit", "pandas", "sqlalchemy", "sqlite_utils"}


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("name", turnscope.__all__)
def test_every_name_has_an_example_that_is_true(name: str, monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CONTEXT_MESSAGE_PAIRS", raising=False)
    found = doctest.DocTestFinder(recurse=False).find(getattr(turnscope, name), name, globs={"turnscope": turnscope})
    assert [len(test.examples) > 0 for test in found] == [True]
    told: list[str] = []
    assert doctest.DocTestRunner().run(found[0], out=told.append).failed == 0, "".join(told)


def find_loaded(code: str) -> set[str]:
    """What of HEAVY a Python of its own has loaded after some code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return HEAVY & set(done.stdout.split())


@pytest.mark.thorough
def test_importing_and_replaying_load_neither_a_provider_nor_a_chart_nor_the_app() -> None:
    assert find_loaded(f"import turnscope; turnscope.overview(turnscope.load({str(SAMPLE)!r}))") == set()


@pytest.mark.thorough
def test_no_page_but_the_chat_loads_a_provider_and_none_without_a_table_pandas(data_folder: Path) -> None:
    """A chat is among what can be opened, so its store is read; the debugger offers to have placeholders written by a model."""
    visits = f"""
from turnscope.skipped_imports import skip_pandas
skip_pandas()
from pathlib import Path
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest
from turnscope.live.threads import Threads
Threads(Path({str(data_folder)!r}) / "chats.db").create(title="a chat")
app = AppTest.from_file("app.py", default_timeout=90).run()
PagesManager.uses_pages_directory = False
def visit(page):
    app.switch_page(f"pages/{{page}}.py")
    app.query_params["policy"] = "condense-oldest"
    app.run()
    assert not app.exception, app.exception
from pages.parts import replays
replays.PATIENCE = 80.0
for page in ("envelope", "heatmap", "library", "debugger"):
    visit(page)
assert app.button(key="condense.ask")
assert not {{"pandas", "pyarrow"}} & set(sys.modules)
visit("plan")
assert "anthropic" not in sys.modules
visit("chat")
"""
    assert "anthropic" in find_loaded(visits)


def test_the_environment_sets_how_many_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_MESSAGE_PAIRS", "2")
    assert opening.load_policy("last-5-pairs").rules[0].params.pairs == 2
    monkeypatch.setenv("CONTEXT_MESSAGE_PAIRS", "many")
    assert opening.load_policy("last-5-pairs").rules[0].params.pairs == 5


def test_the_environment_sets_the_answer_of_the_policy_without_history_and_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_MAX_TOKENS", "700")
    monkeypatch.setenv("CONTEXT_MESSAGE_PAIRS", "2")
    stateless = opening.load_policy("context-aware-chat-today")
    assert (stateless.budget.output, stateless.rules[0].params.pairs) == (700, 0)
    assert opening.load_policy("last-5-pairs").budget.output == 0
    monkeypatch.delenv("OPENROUTER_MAX_TOKENS")
    assert opening.load_policy("context-aware-chat-today").budget.output == 5_000


def test_a_path_names_a_policy_as_its_text_does(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[[rules]]\nrule = 'keep_last_pairs'\npairs = 3\n")
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    given, named = turnscope.replay(session, path), turnscope.replay(session, str(path))
    assert given.policy == named.policy == opening.load_policy(path)
    assert given.policy.rules[-1].params.pairs == 3
    rows = [turnscope.compare(session, [one]).rows for one in (path, str(path))]
    assert rows[0] == rows[1]


def test_prices_of_the_users_own_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = {"prices": {"input": "0", "cache_read": "0", "cache_write_5m": "0", "cache_write_1h": "0", "output": "1000000"}}
    own = {"models": {"claude-opus-4-5-20251101": row, "claude-sonnet-4-5-20250929": row}}
    (tmp_path / "prices.json").write_text(json.dumps(own))
    monkeypatch.setenv("TURNSCOPE_DATA", str(tmp_path))
    opening.read_own_prices.cache_clear()
    try:
        view = turnscope.overview(turnscope.load(SAMPLE))
        assert view.total == Decimal(int(view.answers.sum()))
    finally:
        opening.read_own_prices.cache_clear()


def test_a_path_or_a_thread_serves_as_a_session_and_anything_else_is_named(data_folder: Path) -> None:
    session = turnscope.load(SAMPLE)
    for given in (SAMPLE, str(SAMPLE), turnscope.thread(SAMPLE)):
        assert turnscope.overview(given).total == turnscope.overview(session).total
        assert len(turnscope.replay(given, "last-5-pairs").plans) == len(session.requests)
    rows = turnscope.compare(str(SAMPLE), "last-5-pairs").rows
    assert [row.policy for row in rows] == ["last-5-pairs"]
    for slip in (turnscope.overview, turnscope.replay, turnscope.compare, turnscope.dumps):
        with pytest.raises(turnscope.TurnscopeError, match="expected a session, not Trace") as error:
            slip(turnscope.replay(session))
        assert "turnscope.load" in error.value.hint
    with pytest.raises(turnscope.TurnscopeError, match=r"nowhere\.jsonl cannot be read"):
        turnscope.overview("nowhere.jsonl")
    with pytest.raises(turnscope.TurnscopeError, match="not a path"):
        turnscope.dumps(str(SAMPLE))  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_arguments_of_advise_work_under_their_older_names_with_a_warning() -> None:
    calls: list[tuple[int, int]] = []
    keys = [turnscope.advise(SAMPLE, "last-20-messages", trials=2).axes[0].key]
    older: dict[str, Any] = {"of": SAMPLE, "turn": keys, "tell": lambda *done: calls.append(done), "stop": lambda: False}
    with pytest.warns(DeprecationWarning, match="is now") as met:
        old = turnscope.advise(policy="last-20-messages", trials=2, **older)
    assert sorted(str(each.message) for each in met) == [
        "advise(of=...) is now advise(sessions=...)",
        "advise(stop=...) is now advise(should_stop=...)",
        "advise(tell=...) is now advise(progress=...)",
        "advise(turn=...) is now advise(keys=...)",
    ]
    assert {each.filename for each in met} == {__file__}
    assert old == turnscope.advise(sessions=SAMPLE, policy="last-20-messages", trials=2, keys=keys)
    assert calls
    with pytest.raises(TypeError, match="'keys' twice"):
        turnscope.advise(SAMPLE, "last-20-messages", keys=keys, turn=keys)  # type: ignore[call-arg]
