"""What a policy may do to a request, as the providers' SDKs see it: warn, edit, compact, fall back, refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from turnscope.planning.policy import parse

from tests.tap.strict_upstream import SUMMARY
from tests.tap.test_enforcement import KEY, MODELS, Agent, enforced, make_rules, read_calls

WINDOW = '[budget]\nformula = "window"\n'
FIXED = '[budget]\nformula = "fixed"\ntokens = {}\n'
SMALLER = {**MODELS, "openai-chat": "gpt-4o", "openai-responses": "gpt-4o", "gemini": "gemini-2.0-flash-lite"}
LARGER = {
    "anthropic-messages": "claude-sonnet-4-6",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-4.1",
    "gemini": "gemini-2.5-flash",
}
RULES = {
    "warn": FIXED.format(4_000) + '[[rules]]\nrule = "warn_at"\nshare = 0.3\n',
    "edit": WINDOW + '[[rules]]\nrule = "clear_old_results"\ntrigger = 1500\nkeep = 2\n',
    "compact": WINDOW + '[[rules]]\nrule = "condense"\nshare = 0.5\n',
    "fall back": FIXED.format(2_500) + '[[rules]]\nrule = "fall_back_to_larger_window"\n[rules.models]\n"{}" = "{}"\n',
    "refuse": FIXED.format(2_500) + '[[rules]]\nrule = "refuse_when_over"\n',
}


class StreamingAgent(Agent):
    """An agent that streams its answers."""

    def __init__(self, api: str, address: str) -> None:
        super().__init__(api, address)
        stream, events = self.claude.messages.stream, self.gpt.responses.create
        other = openai.OpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0)

        def create(**options: Any) -> Any:
            with stream(**options) as answer:
                return answer.get_final_message()

        def complete(**options: Any) -> Any:
            with other.chat.completions.stream(**options) as answer:
                return answer.get_final_completion()

        def respond(**options: Any) -> Any:
            *_, last = events(**options, stream=True)
            return last.response

        self.claude.messages.create = create  # type: ignore[method-assign]
        self.gpt.chat.completions.create = complete  # type: ignore[method-assign]
        self.gpt.responses.create = respond  # type: ignore[method-assign]


CASES = [
    pytest.param(
        *(api, outcome, streams),
        id=f"{api}-{outcome}-{'streamed' if streams else 'whole'}",
        marks=() if (api, streams) == ("openai-chat", True) else pytest.mark.thorough,
    )
    for api in MODELS
    for outcome in RULES
    for streams in (True, False)
    if api != "gemini" or not streams
]
REFUSALS = (anthropic.BadRequestError, openai.BadRequestError, httpx2.HTTPStatusError)


@pytest.mark.parametrize(("api", "outcome", "streams"), CASES)
def test_an_sdk_gets_what_the_policy_decides(
    tmp_path: Path, api: str, outcome: str, streams: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, api, SMALLER[api])
    policy = parse(outcome, RULES[outcome].format(SMALLER[api], LARGER[api]))
    with enforced(tmp_path, make_rules(policy, 9_000 if outcome in ("edit", "compact") else 0)) as (tap, upstream):
        agent = (StreamingAgent if streams else Agent)(api, tap.address)
        refused = None
        try:
            agent.play(14)
        except REFUSALS as error:
            refused = error.response.text
    calls, said = read_calls(tmp_path), capsys.readouterr().err
    actions = {call.ruling.get("action") for call in calls if call.ruling}
    assert upstream.rejected == []
    assert KEY not in (tmp_path / "log.jsonl").read_text()
    assert "passes unchanged" not in said
    assert bool(refused) == (outcome == "refuse")
    if outcome == "warn":
        assert actions == {"passed"}
        assert said.count("the policy warns") == 1
    elif outcome == "compact":
        assert upstream.asked
        assert any(SUMMARY in text for text in upstream.texts)
    elif outcome == "fall back":
        assert any(LARGER[api] in text + "".join(call.answer) for text, call in zip(upstream.texts, calls, strict=True))
    elif outcome == "refuse":
        assert len(upstream.bodies) == len(calls) - 1
        assert "context_window_exceeded" in str(refused).lower()
    else:
        assert actions == {"passed", "edited"}
        assert max(map(len, upstream.texts)) < len(calls[-1].body)
