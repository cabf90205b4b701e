"""Requests that the tap edits and refuses: driven by the providers' own SDKs against a server that rejects what they reject."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import turnscope
from turnscope.live import request_checks
from turnscope.planning.policy import Policy, load, parse
from turnscope.reading.source import Source
from turnscope.reading.tap_log import TapCall, encode_calls, read_tap_log
from turnscope.tap import ruled_requests
from turnscope.tap.apis import Upstreams
from turnscope.tap.client_bodies import CONVERSATIONS
from turnscope.tap.enforcement import Rules
from turnscope.tap.server import Tap, run_tap
from turnscope.tap.spending import Budgets

from tests.tap.strict_upstream import SUMMARY, StrictUpstream, serve_strictly

KEY = "sk-ant-a-key-that-nobody-may-read"
WINDOW = 9_000
MODELS = {
    "anthropic-messages": "claude-haiku-4-5",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-4.1",
    "gemini": "gemini-2.5-pro",
}
TASK = "Read the project, file by file."
WORDS = [f"name_{number}" for number in range(900)]
MARK = {"cache_control": {"type": "ephemeral"}}


def make_rules(policy: str | Policy, window: int = WINDOW, **more: Any) -> Rules:
    return Rules(load(policy) if isinstance(policy, str) else policy, window, **more)


@contextmanager
def enforced(path: Path, rules: Rules, window: int = 4 * WINDOW) -> Iterator[tuple[Tap, StrictUpstream]]:
    with serve_strictly(window) as upstream, run_tap(path / "log.jsonl", Upstreams(upstream.url, {}), rules=rules) as tap:
        yield tap, upstream


class Agent:
    """An agent that reads a file in each round. `believed`: the conversation of each of its requests."""

    def __init__(self, api: str, address: str) -> None:
        self.api, self.address, self.random = api, address, Random(7)
        self.believed: list[list[Any]] = []
        self.history: list[Any] = []
        self.claude = anthropic.Anthropic(api_key=KEY, base_url=address, max_retries=0)
        self.gpt = openai.OpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0)
        self.begin(TASK)

    def begin(self, text: str) -> None:
        self.history.append(
            {"role": "user", "parts": [{"text": text}]} if self.api == "gemini" else {"role": "user", "content": text}
        )

    def ask(self) -> Any:
        """Send the next request. Gives the parts of its answer."""
        self.believed.append(json.loads(json.dumps(self.history)))
        return getattr(self, "_ask_" + self.api.replace("-", "_"))()

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            self.ask()

    def read(self) -> str:
        return " ".join(self.random.choices(WORDS, k=140))

    def _ask_anthropic_messages(self) -> None:
        tools = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}]
        *older, last = self.history
        content = [{"type": "text", "text": last["content"]}] if isinstance(last["content"], str) else last["content"]
        marked = [*older, {**last, "content": [*content[:-1], {**content[-1], **MARK}]}]
        system = [{"type": "text", "text": "You read.", **MARK}]
        model = MODELS[self.api]
        answer = self.claude.messages.create(model=model, max_tokens=2_000, system=system, tools=tools, messages=marked)
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": self.read()}
            for one in content
            if one["type"] == "tool_use"
        ]
        self.history += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]

    def _ask_openai_chat(self) -> None:
        lead = [{"role": "system", "content": "You read."}]
        answer = self.gpt.chat.completions.create(model=MODELS[self.api], max_tokens=2_000, messages=[*lead, *self.history])
        message = answer.choices[0].message.model_dump(exclude_none=True)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.read()} for call in message["tool_calls"]]
        self.history += [message, *results]

    def _ask_openai_responses(self) -> None:
        model = MODELS[self.api]
        answer = self.gpt.responses.create(model=model, instructions="You read.", input=self.history, max_output_tokens=2_000)
        items = [item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in items if item["type"] == "function_call"]
        self.history += [
            *items,
            *({"type": "function_call_output", "call_id": c["call_id"], "output": self.read()} for c in calls),
        ]

    def _ask_gemini(self) -> None:
        url = f"{self.address}/v1beta/models/{MODELS[self.api]}:generateContent"
        body = {"contents": self.history, "generationConfig": {"maxOutputTokens": 2_000}}
        answer = httpx2.post(url, json=body, headers={"x-goog-api-key": KEY}, timeout=30)
        answer.raise_for_status()
        content = answer.json()["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        parts = [{"functionResponse": {"name": call["name"], "response": {"output": self.read()}}} for call in calls]
        self.history += [content, {"role": "user", "parts": parts}]


def read_calls(path: Path) -> list[TapCall]:
    return read_tap_log(Source(path / "log.jsonl")).calls


def list_sent(upstream: StrictUpstream, api: str) -> list[list[Any]]:
    """The conversation of each request that came, without its cache marks."""
    return [
        [strip_marks(item) for item in body[CONVERSATIONS[api]] if item.get("role") != "system"] for body in upstream.bodies
    ]


def strip_marks(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {key: strip_marks(one) for key, one in value.items() if key != "cache_control"}
        content = plain.get("content")
        is_text = isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}
        return {**plain, "content": content[0]["text"]} if is_text and "role" in plain else plain
    return [strip_marks(one) for one in value] if isinstance(value, list) else value


SHORT = [("anthropic-messages", "extracts"), ("openai-chat", "swe-agent-last-5"), ("gemini", "extracts")]
PAIRS = [
    pytest.param(api, policy, marks=() if (api, policy) in SHORT else pytest.mark.thorough, id=f"{api}-{policy}")
    for api in CONVERSATIONS
    for policy in ("extracts", "swe-agent-last-5")
]


@pytest.mark.parametrize(("api", "policy"), PAIRS)
def test_a_long_session_stays_in_its_window_and_no_request_of_it_is_rejected(tmp_path: Path, api: str, policy: str) -> None:
    with enforced(tmp_path, make_rules(policy)) as (tap, upstream):
        agent = Agent(api, tap.address)
        agent.play(26)
    sent = list_sent(upstream, api)
    assert upstream.rejected == []
    assert max(len(text) // 4 for text in upstream.texts) < WINDOW < len(json.dumps(agent.history)) // 4
    calls = read_calls(tmp_path)
    decided = [bool(call.ruling.get("decisions")) for call in calls]
    assert [call.ruling["action"] for call in calls][-1] == "edited"
    for n, (items, believed) in enumerate(zip(sent, agent.believed, strict=True)):
        assert items[-1] == strip_marks(believed[-1])
        new = [item for item in items if item not in [strip_marks(one) for one in believed]]
        assert len(new) < len(items) or calls[n].ruling["action"] == "edited"
        if n and not decided[n]:  # nothing new was decided: the prompt goes on from the one before
            assert items[: len(sent[n - 1])] == sent[n - 1]
    assert sum(decided) > 1


def test_what_the_policy_leaves_stays_to_the_letter_and_cache_marks_and_signatures_with_it(tmp_path: Path) -> None:
    signed = {"type": "thinking", "thinking": "Which file?", "signature": "c2lnbmVk"}
    with enforced(tmp_path, make_rules("swe-agent-last-5")) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        for _ in range(20):
            agent.ask()
            agent.history[-2]["content"].insert(0, signed)
    last = upstream.bodies[-1]["messages"]
    assert sum(block == signed for message in last for block in message["content"] if message["role"] == "assistant") == 19
    assert [
        block for message in last for block in message["content"] if isinstance(block, dict) and "cache_control" in block
    ] == [last[-1]["content"][-1]]
    texts = [json.dumps(message, separators=(",", ":"), ensure_ascii=False) for message in agent.believed[-1]]
    assert sum(text in upstream.texts[-1] for text in texts) >= len(texts) // 2
    assert upstream.rejected == []


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-responses"])
def test_a_dry_run_changes_nothing_and_the_log_says_what_would_have_left(tmp_path: Path, api: str) -> None:
    with enforced(tmp_path, make_rules("extracts", dry_run=True), window=90_000) as (tap, upstream):
        agent = Agent(api, tap.address)
        agent.play(16)
    calls = read_calls(tmp_path)
    assert [call.body for call in calls] == upstream.texts
    assert [strip_marks(one) for one in agent.believed[-1]] == list_sent(upstream, api)[-1]
    would = [call for call in calls if call.sent]
    assert would
    assert all(len(call.sent) < len(call.body) and call.left == call.body for call in would)
    session = turnscope.load(tmp_path / "log.jsonl")
    assert any("a dry run: the policy 'extracts' would have cut this request" in o.edit.because for o in session.observed)
    records = [json.loads(line) for line in encode_calls(read_tap_log(Source(tmp_path / "log.jsonl"))).splitlines()]
    beside = [(json.dumps(one["request"]), json.dumps(one["planned"])) for one in records if "planned" in one]
    assert len(beside) == len(would)
    assert all(len(planned) < len(sent) for sent, planned in beside)


def test_the_recording_shows_each_decision_and_what_was_lost(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("extracts")) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        agent.play(24)
    session = turnscope.load(tmp_path / "log.jsonl")
    trace = turnscope.replay(session, "as-recorded")
    assert [request.window for request in session.requests] == [WINDOW] * 24
    made = [d for plan in trace.plans for d in plan.decisions if d.splice]
    assert {d.action for d in made} >= {"condense"}
    assert all("extract_old_work of the policy 'extracts', at the tap" in d.edit.because for d in made)
    results = [block for block in session.blocks if block.kind == "tool_result"]
    assert len(results) == 23  # also those that are not sent any more
    assert trace.explain(results[0].at, 23).state in ("absent", "replaced")
    assert json.dumps(upstream.bodies[-1]).count('"tool_result"') < len(results)


def test_a_history_that_its_agent_rewrites_begins_anew_and_one_that_branches_goes_on(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("extracts")) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        agent.play(20)
        kept = upstream.bodies[-1]["messages"]
        before = [*agent.history]
        agent.history[-1:] = [
            {"role": "user", "content": [*agent.history[-1]["content"], {"type": "text", "text": "Now stop."}]}
        ]
        agent.ask()
        assert upstream.bodies[-1]["messages"][: len(kept) - 1] == kept[:-1]  # the decisions before the branch hold
        agent.history = [{"role": "user", "content": "A summary of all, by the agent itself."}]
        agent.ask()
        assert strip_marks(upstream.bodies[-1]["messages"]) == agent.believed[-1]
        agent.history = before
        agent.ask()
    assert upstream.rejected == []
    assert upstream.bodies[-1]["messages"][: len(kept) - 1] == kept[:-1]


def test_a_request_that_is_sent_again_leaves_as_before(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("extracts")) as (tap, upstream):
        agent = Agent("openai-chat", tap.address)
        agent.play(18)
        before = [*agent.history]
        agent.ask()
        agent.history = before
        agent.ask()
    assert upstream.texts[-1] == upstream.texts[-2]


BROKEN: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("no JSON", lambda _: "{no json", "cannot be read"),
    ("no messages", lambda body: {**body, "messages": "all"}, "has no list"),
    ("an unknown role", lambda body: {**body, "messages": [{"role": "ghost", "content": "x"}]}, "unknown form"),
    ("an odd block", lambda body: {**body, "messages": [{"role": "user", "content": [1]}]}, "unknown form"),
]


@pytest.mark.parametrize(("change", "why"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_body_that_is_not_understood_passes_as_it_is(
    tmp_path: Path, change: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = change({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": []})
    data = made.encode() if isinstance(made, str) else json.dumps(made).encode()
    with enforced(tmp_path, make_rules("extracts")) as (tap, upstream):
        upstream.answer = lambda _, text: (upstream.texts.append(text) or 200, {})  # type: ignore[method-assign,func-returns-value]
        for _ in range(2):
            assert httpx2.post(f"{tap.address}/v1/messages", content=data).status_code == 200
    assert upstream.texts == [data.decode()] * 2
    assert [why in call.ruling["why"] for call in read_calls(tmp_path)] == [True, True]
    assert capsys.readouterr().err.count("a request passes unchanged") == 1


def test_a_policy_that_fails_or_takes_too_long_lets_requests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("a mistake")

    with enforced(tmp_path, make_rules("extracts")) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        agent.play(12)
        plan = request_checks.plan_request
        monkeypatch.setattr(request_checks, "plan_request", fail)
        agent.ask()
        assert strip_marks(upstream.bodies[-1]["messages"]) == strip_marks(agent.believed[-1])
        monkeypatch.setattr(ruled_requests, "PLAN_SECONDS", 0.2)
        monkeypatch.setattr(request_checks, "plan_request", lambda *_: time.sleep(1.0))
        agent.ask()
        assert strip_marks(upstream.bodies[-1]["messages"]) == strip_marks(agent.believed[-1])
        monkeypatch.setattr(request_checks, "plan_request", plan)
        monkeypatch.setattr(ruled_requests, "PLAN_SECONDS", 10.0)
        agent.ask()
    assert [call.ruling["action"] for call in read_calls(tmp_path)][-3:] == ["passed", "passed", "edited"]
    whys = [call.ruling.get("why", "") for call in read_calls(tmp_path)][-3:-1]
    assert "ValueError: a mistake" in whys[0]
    assert "planning took longer than 0.2 seconds" in whys[1]


def test_a_request_that_does_not_fit_is_refused_as_its_provider_refuses_it(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("keep-everything", 1_500)) as (tap, upstream):
        claude, chat = Agent("anthropic-messages", tap.address), Agent("openai-chat", tap.address)
        for agent in (claude, chat):
            agent.play(1)
            agent.history[-1]["content"] = (
                [{**agent.history[-1]["content"][0], "content": "word " * 3_000}] if agent is claude else "word " * 3_000
            )
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 1500 maximum") as first:
            claude.ask()
        with pytest.raises(openai.BadRequestError, match="maximum context length is 1500 tokens") as second:
            chat.ask()
        gemini = Agent("gemini", tap.address)
        gemini.begin("word " * 3_000)
        with pytest.raises(httpx2.HTTPStatusError) as third:
            gemini.ask()
    assert len(upstream.bodies) == 2
    about = first.value.body["error"]["turnscope"]
    assert (about["kind"], about["window"], about["counters"]["gen_ai.usage.output_tokens"]) == (
        "context_window_exceeded",
        1_500,
        20,
    )
    assert second.value.code == "context_length_exceeded"
    assert third.value.response.json()["error"]["status"] == "INVALID_ARGUMENT"
    last = read_calls(tmp_path)[2]
    assert (last.outcome, last.status, last.ruling["action"]) == ("refused", 400, "refused")
    session = turnscope.load(tmp_path / "log.jsonl")
    assert session.requests[-1].stop_reason == "refused"


def test_a_request_that_its_provider_calls_too_long_is_sent_once_more_and_smaller(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("extracts", 40_000), window=3_000) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        agent.play(24)
    assert 1 <= len(upstream.rejected) < 5
    calls = read_calls(tmp_path)
    assert len(calls) == 24 + len(upstream.rejected)
    failed = [n for n, call in enumerate(calls) if call.status == 400]
    assert len(failed) == len(upstream.rejected)
    assert all(len(calls[n + 1].left) < len(calls[n].left) and calls[n + 1].body == calls[n].body for n in failed)


def test_a_warning_is_reported_once_and_a_larger_model_is_named_in_the_body(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = '[[rules]]\nrule = "warn_at"\nshare = 0.5\n[[rules]]\nrule = "fall_back_to_larger_window"\n'
    policy = parse(
        "larger",
        f'[budget]\nformula = "fixed"\ntokens = 4000\n{rules}[rules.models]\n"claude-haiku-4-5" = "claude-sonnet-4-6"\n',
    )
    with enforced(tmp_path, make_rules(policy, 0)) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        agent.play(12)
    models = [body["model"] for body in upstream.bodies]
    assert (models[0], models[-1]) == ("claude-haiku-4-5", "claude-sonnet-4-6")
    assert [strip_marks(body["messages"]) for body in upstream.bodies] == [strip_marks(one) for one in agent.believed]
    assert capsys.readouterr().err.count("the policy warns") == 1
    session = turnscope.load(tmp_path / "log.jsonl")
    assert {"warn_at", "fall_back_to_larger_window"} <= {o.edit.because.partition(" ")[0] for o in session.observed}


def test_where_the_window_leaves_too_little_the_answer_and_its_thinking_are_limited(tmp_path: Path) -> None:
    with enforced(tmp_path, make_rules("extracts", 6_000)) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        thinking: Any = {"type": "enabled", "budget_tokens": 9_000}
        agent.claude.messages.create(model=MODELS[agent.api], max_tokens=9_999, messages=agent.history, thinking=thinking)
    (body,) = upstream.bodies
    assert 5_000 < body["max_tokens"] < 6_000
    assert body["thinking"] == {"type": "enabled", "budget_tokens": body["max_tokens"] // 2}
    assert body["messages"] == agent.history


@pytest.mark.parametrize("name", ["session", "day"])
def test_a_budget_that_is_used_up_refuses_what_follows(tmp_path: Path, name: str) -> None:
    rules = Rules(budgets=Budgets(**{name: Decimal("0.0005")}))
    with enforced(tmp_path, rules) as (tap, upstream):
        agent = Agent("anthropic-messages", tap.address)
        with pytest.raises(anthropic.APIStatusError, match=f"this {name} has cost") as refused:
            agent.play(9)
    assert refused.value.status_code == 402
    assert refused.value.body["error"]["type"] == "billing_error"
    sent = len(upstream.bodies)
    assert 0 < sent < 9
    if name == "day":  # a tap that starts on the same day knows what was spent
        with serve_strictly(9_000) as other, run_tap(tmp_path / "more.jsonl", Upstreams(other.url, {}), rules=rules) as tap:
            with pytest.raises(openai.APIStatusError, match="this day has cost"):
                Agent("openai-chat", tap.address).ask()
            assert other.bodies == []


@pytest.mark.parametrize(
    "api", [one if one != "openai-chat" else pytest.param(one, marks=pytest.mark.thorough) for one in CONVERSATIONS]
)
def test_a_summary_is_asked_of_the_same_provider_with_the_clients_key(tmp_path: Path, api: str) -> None:
    policy = parse("short", '[budget]\nformula = "window"\n[[rules]]\nrule = "condense"\nshare = 0.5\n')
    with enforced(tmp_path, make_rules(policy)) as (tap, upstream):
        Agent(api, tap.address).play(16)
    assert upstream.rejected == []
    assert 0 < len(upstream.asked) < 16
    assert any(SUMMARY in text for text in upstream.texts)
    assert all(any(KEY in value for value in headers.values()) for headers in upstream.headers)
    calls = read_calls(tmp_path)
    assert len(calls) == 16 + len(upstream.asked)
    assert KEY not in (tmp_path / "log.jsonl").read_text()
