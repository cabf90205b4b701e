"""A model takes the recorded next step: what is sent, and how its calls are held against the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Mapping

import next_step
import pytest
import turnscope
from conftest import ROOT
from turnscope.errors import ProviderError
from turnscope.live.provider import ProviderAnswer
from turnscope.planning.lint import check_ends
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON

SAMPLE = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"
NAMES = ("as-recorded", "last-5-pairs")


class RecordedModel:
    """Answers the recorded prompts with the recorded calls, and any other with another tool."""

    def __init__(self, record: Trace, fails: bool = False) -> None:
        self.record, self.fails, self.bodies = record, fails, list[Mapping[str, JSON]]()
        self.calls = {
            json.dumps(next_step.build_step(record, request.n, "m")["messages"]): next_step.find_recorded_call(
                record.session, request.n
            )
            for request in record.session.requests
        }

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        if self.fails:
            raise ProviderError("the prompt is too long", hint="")
        self.bodies.append(body)
        call = self.calls.get(json.dumps(body["messages"]))
        return ProviderAnswer((dict(call.raw) if call else {"type": "tool_use", "name": "no_such_tool", "input": {}},))

    def explain_error(self, error: Exception) -> ProviderError:
        return ProviderError(str(error), hint="")


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    session = turnscope.load(SAMPLE)
    return [turnscope.replay(session, name) for name in NAMES]


def test_only_requests_are_sent_that_call_a_tool_and_differ(traces: list[Trace]) -> None:
    chosen = next_step.choose_requests(traces, 1_000)
    assert chosen
    assert chosen != [request.n for request in traces[0].session.requests]
    assert next_step.choose_requests([traces[0], traces[0]], 1_000) == [], "prompts that are equal show nothing"
    assert len(next_step.choose_requests(traces, 7)) == 7
    assert set(next_step.choose_requests(traces, 7)) < set(chosen)


def test_a_model_that_does_as_the_record_meets_every_target_and_another_prompt_is_told_from_it(traces: list[Trace]) -> None:
    model = RecordedModel(traces[0])
    steps = [
        next_step.take_step(model, trace, request, "m") for request in next_step.choose_requests(traces, 12) for trace in traces
    ]
    same, other = ([step for step in steps if step.policy == name] for name in NAMES)
    assert all(step.tool and step.target for step in same)
    assert not any(step.target for step in other)
    head, first, second = next_step.format_rows(steps, traces, "claude-sonnet-4-5")
    assert first.split()[1:6] == ["12", "100%", "100%", "0", "0"]
    assert second.split()[1:7] == ["12", "0%", "0%", "0", "12", "0.00"]
    assert len(head.split()) == 12
    for body in model.bodies:
        assert not [
            *check_ends(body["messages"], body["messages"][-1], len(body["messages"]), model="m", prices=traces[0].prices)
        ]
        assert "thinking" not in {
            each["type"] for message in body["messages"] for each in message["content"] if isinstance(each, dict)
        }
        assert {tool["name"] for tool in body["tools"]} >= {"Read"}


def test_what_gets_no_answer_counts_as_missed(traces: list[Trace]) -> None:
    step = next_step.take_step(RecordedModel(traces[0], fails=True), traces[0], 5, "m")
    assert step.failed == "the prompt is too long"
    assert not step.tool


@pytest.mark.parametrize(("one", "other", "chance"), [(0, 0, 1.0), (5, 5, 1.0), (0, 6, 0.03125), (1, 9, 0.021484375)])
def test_the_chance_of_a_split_is_that_of_a_sign_test(one: int, other: int, chance: float) -> None:
    assert next_step.compute_chance(one, other) == next_step.compute_chance(other, one) == chance


def test_without_send_the_price_is_printed_and_with_the_built_in_model_that_it_shows_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [str(SAMPLE), "--policies", ",".join(NAMES), "--most", "3"]
    assert next_step.main([*arguments, "--model", "claude-sonnet-4-5"]) == 0
    assert "3 requests under 2 policies" in (printed := capsys.readouterr().out)
    assert "$" in printed
    assert next_step.main([*arguments, "--send"]) == 0
    assert "does not read its prompt" in capsys.readouterr().out
    assert next_step.main([str(SAMPLE), "--policies", "as-recorded,as-recorded"]) == 1
    assert "different prompts" in capsys.readouterr().err
