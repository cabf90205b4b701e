"""What a provider would reject of a trace's requests: read on what changed it is what lint finds; of ours there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import examples
from covering import select_covering
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from turnscope.planning.assemble import replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import OURS, list_policies, load
from turnscope.planning.rejections import RequestChecker, SharedChecks, check_trace
from turnscope.planning.render import build_body
from turnscope.planning.trace import trace
from turnscope.pricing.prices import PRICES
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.laws.test_policies import limits, tight

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "sample_sessions").glob("*.jsonl"))
MINE = [name for name in list_policies() if load(name).fidelity.startswith(OURS)]
MODELS = ("claude-opus-4-5", "claude-opus-4-6", "gpt-4o")
SAID: dict[str, Any] = {"ask": "question", "blank": " \n", "empty": []}
IDS = {"call": ["c{}"], "two": ["c{}", "d{}"], "odd": ["f.x:{}"], "twin": ["same"], "string": ["s{}"]}
KINDS = (*SAID, *IDS, "answer", "blank answer", "late", "unsigned", "static")


def rough(model: str, steps: list[tuple[str, bool]]) -> Session:
    """A session as logs have them after accidents: calls without results, messages without a word, answers first and last."""
    builder = Builder("rough", "test")
    held: list[str] = []
    for n, (kind, answered) in enumerate(steps):
        if kind in SAID:
            builder.add_message("user", SAID[kind])
            continue
        if kind == "late":
            builder.add_message("user", [result(name) for name in held] or f"late {n}")
            continue
        if kind == "static":
            builder.add_message("system", f"Be kind, {n}.")
            continue
        said: list[Any] = [{"type": "text", "text": "  " if kind == "blank answer" else f"a{n} "}]
        said += [{"type": "thinking", "thinking": "hm"}] if kind == "unsigned" else []
        ids = [name.format(n) for name in IDS.get(kind, ())]
        given = "text" if kind == "string" else {"path": "f"}
        said += [{"type": "tool_use", "id": name, "name": "read", "input": given} for name in ids]
        builder.set_request(builder.add_message("assistant", said if ids or kind != "answer" else f"a{n} "), model=model)
        if ids and answered:
            builder.add_message("user", [result(name) for name in ids[:1]])
        held = ids[answered:]
    return builder.build()


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "ok"}


accidents = st.builds(
    rough, st.sampled_from(MODELS), st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), min_size=1, max_size=14)
)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", list_policies())
@settings(max_examples=examples(12))
@given(session=sessions | accidents, limit=limits)
def test_what_is_read_on_what_changed_is_what_lint_finds(name: str, session: Session, limit: int) -> None:
    looking = RequestChecker(session)
    for plan in replay(session, tight(name, limit), ledger_of(session)):
        found = lint(build_body(plan, session), plan.model, prices=PRICES)
        assert sorted(looking.check(plan, PRICES)) == sorted(found), plan


@pytest.mark.parametrize("name", MINE)
@settings(max_examples=examples(25))
@given(session=accidents, limit=limits)
def test_no_policy_of_ours_sends_what_a_provider_rejects(name: str, session: Session, limit: int) -> None:
    looking = RequestChecker(session)
    for plan in replay(session, tight(name, limit), ledger_of(session)):
        assert plan.verdict == "refuse" or looking.check(plan, PRICES) == (), plan.decisions


@pytest.mark.thorough
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_no_policy_of_ours_sends_it_of_a_sample(path: Path) -> None:
    session = turnscope.load(path)
    ledger = ledger_of(session)
    for name in select_covering(MINE):
        assert not any(check_trace(trace(session, load(name), ledger))), name


def test_what_replays_share_has_no_texts_and_nothing_that_one_of_them_changed() -> None:
    session, shared = turnscope.load(SAMPLES[0].with_name("tool-results-eat-the-window.jsonl")), SharedChecks()
    for name in ("keep-everything", "short-tool-results"):
        check_trace(turnscope.replay(session, name), shared)
    rows = [row for messages in shared.made.values() for row in messages.rows]
    paired = [row for run, _ in shared.pairs.values() for row in run]
    assert len(paired) > 100
    assert {*map(id, paired)} <= {*map(id, rows)}
    assert max(len(str(block)) for row in rows for block in row.message["content"]) < 150
