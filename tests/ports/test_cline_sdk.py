"""What Cline's SDK counts of a request, and where that makes it compact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.cline_sdk.files import find_touched_files
from turnscope.ports.cline_sdk.messages import Message
from turnscope.rules.cline_sdk import summarise_before_cut
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.views.parameters import apply_changes

LONG = 30_000  # characters of a result, of which 8,000 are sent


def read_files(rounds: int, characters: int, billed: int = 0) -> Session:
    """A prompt, and rounds that read one file each; each request was billed `billed` tokens (0 = the log does not say)."""
    builder = Builder("work", "test")
    builder.add_message("user", "read on", origin="prompt")
    for n in range(rounds):
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "read_files",
            "input": {"files": [{"path": f"{n}.py"}]},
        }
        usage = Usage(input_tokens=billed) if billed else None
        builder.set_request(builder.add_message("assistant", [call]), model="some-model", usage=usage)
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{n:02}" + "x" * (characters - 2)}
        builder.add_message("user", [result], origin="tool")
    builder.set_request(builder.add_message("assistant", "done"), model="some-model")
    return builder.build()


def make_plans(policy: str, session: Session, tools: int = 0, window: int = 128_000) -> list[Plan]:
    used: Policy = apply_changes(load(policy), {"2.tools": tools, "budget.window": window})
    return list(replay(session, used, build_ledger(session, CHARS)))


def find_compactions(plans: list[Plan]) -> list[int]:
    return [plan.request.n for plan in plans if "condense" in plan.actions]


def test_long_results_count_as_sent_before_the_first_compaction_and_whole_after_it() -> None:
    """A trigger of 103,680: thirty-eight results of 2,700 tokens each, or ten of 10,000."""
    plans = make_plans("cline-sdk-basic", read_files(70, LONG))
    first, second, *_ = find_compactions(plans)
    assert first == 38
    assert 3 <= second - first <= 5, "what stays was counted whole, and fills seven tenths already"


def test_results_that_are_sent_whole_compact_by_their_size() -> None:
    first, second, *_ = find_compactions(make_plans("cline-sdk-basic", read_files(150, 7_000)))
    assert first == 43
    assert 10 <= second - first <= 16


def test_of_a_long_result_the_ends_are_sent() -> None:
    plan = make_plans("cline-sdk", read_files(2, LONG))[-1]
    texts = [part.text for piece in plan.after.pieces for part in piece.body or ()]
    assert [len(text) for text in texts] == [7_999, 7_999]
    assert texts[1].startswith("01xx")


def test_what_was_billed_above_the_estimate_lowers_the_trigger() -> None:
    """A prompt that was billed twice its estimate compacts at half the trigger, and one far above it at a quarter."""
    plain = find_compactions(make_plans("cline-sdk-basic", read_files(45, 7_000)))
    dear = find_compactions(make_plans("cline-sdk-basic", read_files(45, 7_000, billed=10**6)))
    assert plain == [43]
    assert dear[0] == 11


def test_a_summary_is_counted_once_and_not_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of what it replaced are all calls since the session began, so reading them takes longer and longer."""
    read, find = list[int](), find_touched_files

    def find_and_note(messages: Sequence[Message]) -> dict[str, list[str]]:
        read.append(len(messages))
        return find(messages)

    monkeypatch.setattr(summarise_before_cut, "find_touched_files", find_and_note)
    made = find_compactions(make_plans("cline-sdk", read_files(150, 7_000)))
    assert 1 <= len(read) <= len(made) < 10


def test_definitions_of_tools_count_where_the_log_holds_none() -> None:
    without, with_tools = (find_compactions(make_plans("cline-sdk", read_files(45, 7_000), tools)) for tools in (0, 24_000))
    assert with_tools[0] == without[0] - 10
