"""What is counted of an answer's text costs the same once the text is gone: in reports, and in traces that open again."""

from __future__ import annotations

from pathlib import Path

import pytest
import turnscope
from msgspec import structs
from turnscope.counting.reconciliation import Terms
from turnscope.library.opening import AS_RECORDED, load_policy, load_prices, replay
from turnscope.planning.trace import trace
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.share.redact import LEVELS, redact
from turnscope.telemetry import export, replays, spans
from turnscope.views.overview import build_overview
from turnscope.views.total_cost import freeze_estimates

MODEL = "claude-opus-4-5"


def stub(id: str, answers: int = 2) -> Session:
    """A session whose answers record one token each, and hold 400 words."""
    builder = Builder(id, "test")
    for number in range(answers):
        builder.add_message("user", f"Question {number}?")
        answer = builder.add_message("assistant", f"word {number} " * 400)
        usage = Usage(100, 4_000, 0, 1, cache_creation_1h_input_tokens=3_000)
        builder.set_request(answer, model=MODEL, id=f"{id}-{number}", usage=usage)
    return builder.build()


def make_with_subagent() -> Session:
    return structs.replace(stub("main"), subagents=(structs.replace(stub("agent", 1), parent="main", at=0),))


@pytest.mark.parametrize("level", LEVELS)
def test_a_report_costs_the_same_at_every_level(level: str) -> None:
    session = make_with_subagent()
    known = replay(session)
    given = redact(freeze_estimates(known), known.ledger, level)  # type: ignore[arg-type]
    view = build_overview(trace(given.session, load_policy(AS_RECORDED), given.ledger, load_prices().add_evidence(session)))
    assert view.total == turnscope.overview(session).total
    assert view.bill.whole.counted == 3


def test_a_trace_without_content_costs_the_same_when_it_opens_again(tmp_path: Path) -> None:
    session = stub("main")
    export.write_spans(tmp_path / "trace.jsonl", replays.iter_spans(replay(session)))
    again = turnscope.load(tmp_path / "trace.jsonl")
    assert [request.usage for request in again.requests] == [request.usage for request in session.requests]
    assert turnscope.overview(again).total == turnscope.overview(session).total


def test_the_parts_of_a_prompt_add_up_to_it() -> None:
    assert spans.split_tokens({"system": 10, "messages": 5}, Terms(0, 0, 0, 1.5), 40) == {
        "system": 15,
        "messages": 8,
        "hidden": 17,
    }
    assert spans.split_tokens({"system": 3, "messages": 5}, Terms(0, 0, 0, 0.5), 3) == {"system": 1, "messages": 2, "hidden": 0}
    assert sum(spans.split_tokens({"a": 3, "b": 3, "c": 3}, Terms(0, 0, 0, 0.5), 4).values()) == 4
