"""Extracts in a window that system prompt and tools nearly fill: sizes follow what is left, and every request can be sent."""

from __future__ import annotations

from random import Random

import pytest
import turnscope
from turnscope import Session, Trace
from turnscope.planning.policy import parse
from turnscope.session.builder import Builder

WORDS = [f"name_{number}" for number in range(900)]
STATIC = 22_000  # tokens of system prompt and tools, as Claude Code has them


def make_session(window: int, rounds: int = 30, longest: int = 9_000, calls: int = 2) -> Session:
    """An agent that reads files of all lengths."""
    random, builder = Random(3), Builder("s", source="test")
    about = {"model": "claude-sonnet-4-5", "window": window}
    builder.add_message("system", [{"type": "text", "text": _write(random, STATIC)}])
    builder.add_message("user", [{"type": "text", "text": "Read the project, file by file."}])
    for turn in range(rounds):
        ids = [f"c{turn}_{call}" for call in range(calls)]
        uses = [{"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": f"src/{id}.py"}} for id in ids]
        builder.set_request(builder.add_message("assistant", uses), **about)
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": _write(random, random.randrange(100, longest))} for id in ids
        ]
        builder.add_message("user", results)
    builder.set_request(builder.add_message("assistant", [{"type": "text", "text": "Done."}]), **about)
    return builder.build()


def _write(random: Random, tokens: int) -> str:
    return "\n".join(" ".join(random.choices(WORDS, k=8)) for _ in range(tokens // 34))


def list_cut(trace: Trace, rule: str) -> list[tuple[int, str]]:
    return [(plan.request.n, d.edit.because) for plan in trace.plans for d in plan.decisions if d.rule == rule and d.splice]


@pytest.mark.parametrize("window", [36_000, 40_000, 64_000])
def test_no_request_is_refused_and_none_is_larger_than_its_limit(window: int) -> None:
    trace = turnscope.replay(make_session(window), "extracts")
    assert {plan.verdict for plan in trace.plans} == {"send"}
    assert all(plan.expected_tokens <= plan.budget.limit for plan in trace.plans)
    results = [block.at for block in trace.session.blocks if block.kind == "tool_result"]
    for plan in trace.plans[1:]:  # what was just asked for is there, whole or in part
        newest = [at for at in results if plan.request.cut - 2 <= at < plan.request.cut]
        assert all(plan.seen.find_piece(at).body != () for at in newest)
        assert all(sum(plan.seen.find_piece(at).counts) >= 100 for at in newest)


def test_a_window_of_usual_size_cuts_no_result() -> None:
    trace = turnscope.replay(make_session(200_000, rounds=20), "extracts")
    assert list_cut(trace, "extract_old_work")
    assert not list_cut(trace, "cut_long_results")


def test_results_are_cut_to_one_length_and_only_as_far_as_it_takes() -> None:
    policy = parse("fit", '[budget]\nformula = "window"\n[[rules]]\nrule = "cut_long_results"\nfit = 1.0\n')
    trace = turnscope.replay(make_session(40_000, rounds=1, longest=30_000, calls=3), policy)
    (_, plan) = trace.plans
    cut = [d for d in plan.decisions if d.splice]
    assert cut
    assert len({d.edit.facts["max_tokens"] for d in cut}) == 1
    assert plan.budget.limit * 0.97 < plan.expected_tokens <= plan.budget.limit
    most = cut[0].edit.facts["max_tokens"]
    sizes = [trace.ledger.count_tokens(b.at, b.at + 1) for b in trace.session.blocks if b.kind == "tool_result"]
    assert sum(size > most for size in sizes) == len(cut)
