"""Lint: what a provider would reject, checked against the SDK's own parameter types where those can tell."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter, ValidationError
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.library.opening import load, load_all
from turnscope.planning.assemble import replay
from turnscope.planning.lint import Problem, find_stale_thinking, lint
from turnscope.planning.policy import parse
from turnscope.planning.render import render
from turnscope.pricing.abilities import binds_thinking, takes_prefill
from turnscope.session.builder import Builder

OLD, NEW = "claude-sonnet-4-5", "claude-opus-5-5"
TYPES = TypeAdapter(MessageCreateParamsNonStreaming)


def consume(value: Any) -> None:
    """Walk a validated value to its ends: the SDK's `Iterable` fields are checked only when they are read."""
    if isinstance(value, Mapping):
        for part in value.values():
            consume(part)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for part in value:
            consume(part)


def match_types(body: dict[str, Any]) -> bool:
    """True where the SDK's types accept the body."""
    try:
        consume(TYPES.validate_python({"model": OLD, "max_tokens": 100, **copy.deepcopy(body)}))
    except ValidationError:
        return False
    return True


def call(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {}, **more}


def result(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "ok", **more}


def text(words: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def thought(**more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": "s", **more}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*content] or "hello"}


def make_answer(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*content] or "hello"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [*messages], **more}


MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SOUND = body(
    user(text()),
    make_answer(thought(), text("let me see"), call("a"), call("b")),
    user(result("b"), result("a", content=[text("two")])),
    make_answer(text()),
    user(text(**HOUR), text(**MARK)),
    system=[text("be kind", **HOUR)],
    tools=[{"name": "Read", "input_schema": {"type": "object"}, **HOUR}],
)


def test_a_sound_body_has_no_problems_and_the_sdk_accepts_it() -> None:
    assert lint(SOUND, OLD) == ()
    assert match_types(SOUND)


BROKEN = [
    (body(), "messages", "at least one"),
    (body(make_answer(), user()), "messages.0", "first message must be a user's"),
    (body({"role": "tool", "content": "x"}), "messages.0", "no role 'tool'"),
    (body(user(), make_answer(call()), user(text())), "messages.1.content.0", "has no result"),
    (body(user(), make_answer(call())), "messages.1.content.0", "has no result"),
    (body(user(result())), "messages.0.content.0", "no call before"),
    (body(user(), make_answer(call()), user(result(), result())), "messages.2.content.1", "already has a result"),
    (
        body(user(), make_answer(call()), user(result()), make_answer(), user(result())),
        "messages.4.content.0",
        "does not directly follow",
    ),
    (
        body(user(), make_answer(call()), user(text()), make_answer(), user(result())),
        "messages.4.content.0",
        "does not directly follow",
    ),
    (
        body(user(), make_answer(call()), user(result()), make_answer(call()), user(result())),
        "messages.3.content.0",
        "two calls",
    ),
    (body(user(), make_answer(call("a b")), user(result("a b"))), "messages.1.content.0", "no valid id"),
    (body(user(), make_answer(call(input="x")), user(result())), "messages.1.content.0", "must be an object"),
    (body(user(call()), user(result())), "messages.0.content.0", "only allowed in an answer"),
    (body(user(), make_answer(call(), result()), user()), "messages.1.content.1", "only allowed in a user's message"),
    (body({"role": "user", "content": ""}), "messages.0", "must not be empty"),
    (body({"role": "user", "content": []}), "messages.0", "must not be empty"),
    (body({"role": "user", "content": None}), "messages.0", "string or a list"),
    (body(user(text(""))), "messages.0.content.0", "text block is empty"),
    (body(user(text(" \n"))), "messages.0", "white space"),
    (body(user(), make_answer(text(), text(""))), "messages.1.content.1", "text block is empty"),
    (body(user(), {"role": "assistant", "content": "so: "}), "messages.1", "must not end with white space"),
    (body(user(*(text(**MARK) for _ in range(5)))), "messages.0.content.4", "5 cache breakpoints"),
    (body(user(text(**MARK)), tools=[], cache_control={"type": "ephemeral", "ttl": "2h"}), "cache_control", "cannot live"),
    (body(user(text(cache_control={"type": "ephemeral", "ttl": "1d"}))), "messages.0.content.0", "cannot live for '1d'"),
    (body(user(text(cache_control={"type": "forever"}))), "messages.0.content.0", "of type 'ephemeral'"),
    (body(user(text(**MARK), text(**HOUR))), "messages.0.content.1", "must not follow"),
    (body(user(), make_answer(thought(**MARK)), user()), "messages.1.content.0", "thinking cannot carry"),
    (body(user(), make_answer(thought(signature="")), user()), "messages.1.content.0", "without a signature"),
    (body(user(thought())), "messages.0.content.0", "only allowed in an answer"),
    (body(user(), system="  "), "system", "blank"),
    (body(user(), system=[text("")]), "system.0", "empty"),
    (body(user(), tools=[{"name": "a", "input_schema": {}}] * 2), "tools.1", "two tools"),
    (body(user(), tool_choice={"type": "any"}, thinking={"type": "adaptive"}), "tool_choice", "exclude each other"),
]


@pytest.mark.parametrize(("broken", "path", "what"), BROKEN, ids=[f"{path}: {what}" for _, path, what in BROKEN])
def test_each_thing_a_provider_rejects_is_found_where_it_stands(broken: dict[str, Any], path: str, what: str) -> None:
    assert any(problem.path == path and what in problem.what for problem in lint(broken, OLD)), lint(broken, OLD)


def test_an_answer_may_be_empty_and_neighbours_of_one_role_are_one_message() -> None:
    split = body(
        user(),
        make_answer(call("a")),
        make_answer(call("b")),
        user(result("a")),
        user(result("b")),
        {"role": "assistant", "content": []},
    )
    assert lint(body(*split["messages"], user()), OLD) == ()


def test_more_messages_than_a_request_may_have() -> None:
    many = body(*([user()] * 100_001))
    assert Problem("messages", "100,001 messages are more than 100,000") in lint(many, OLD)
    assert lint(body(*([user()] * 100_000)), OLD) == ()


def test_new_models_take_no_forced_tool_no_thinking_switch_and_no_begun_answer() -> None:
    forced = body(user(), tool_choice={"type": "tool", "name": "Read"})
    begun = body(user(), make_answer())
    switched = body(user(), thinking={"type": "disabled"})
    assert [lint(each, OLD) for each in (forced, begun, switched)] == [(), (), ()]
    assert [lint(each, NEW)[0].path for each in (forced, begun, switched)] == ["tool_choice", "messages.1", "thinking"]


def test_which_models_bind_their_thinking_and_which_take_a_begun_answer() -> None:
    bound = (
        "claude-opus-5-5",
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-1",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    )
    free = ("claude-opus-5", "claude-fable-5", "claude-opus-4-5-20251101", "claude-sonnet-4-5", "gpt-6", "")
    assert all(map(binds_thinking, bound))
    assert not any(map(binds_thinking, free))
    assert all(map(takes_prefill, ("claude-opus-4-5", "claude-haiku-4-5-20251001", "gpt-6", "claude-3-5-sonnet-20241022")))
    assert not any(map(takes_prefill, ("claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-5", *bound)))


def test_thinking_behind_an_edited_prefix_is_rejected_by_models_that_bind_it() -> None:
    sent = body(user(), make_answer(thought(), text()), user(), make_answer(thought(), text()), user())
    assert [problem.path for problem in lint(sent, NEW, stale=(1,))] == ["messages.3.content.0"]
    assert lint(sent, OLD, stale=(1,)) == ()
    asked = {**sent, "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
    assert lint(asked, NEW, stale=(1,)) == ()


def test_an_edit_makes_thinking_stale_that_was_said_before_it_and_no_other() -> None:
    builder = Builder("thinking", "test")
    for n in range(6):
        builder.add_message("user", "q" * 400)
        builder.set_request(builder.add_message("assistant", [thought(thinking=f"t{n}"), text("a" * 400)]), model=NEW)
    session = builder.build()
    policy = parse("t", '[budget]\nformula = "fixed"\ntokens = 1000\n[[rules]]\nrule = "condense"\ncap = 50\nfraction = 0.3')
    plans = [*replay(session, policy, build_ledger(session, CHARS))]
    edited = next(n for n, plan in enumerate(plans) if plan.is_changed)
    assert find_stale_thinking(plans[:edited], session) == ()
    sent = render(plans[edited].after, session)
    stale = find_stale_thinking(plans[: edited + 1], session)
    thoughts = [block for message in sent["messages"] if isinstance(message["content"], list) for block in message["content"]]
    thoughts = [block for block in thoughts if block["type"] == "thinking"]
    assert stale == tuple(range(len(thoughts))), "all that still stands was said before this edit"
    assert [p for p in lint(sent, NEW, stale) if "edited" in p.what]
    nxt = render(plans[edited + 1].after, session) if not plans[edited + 1].is_changed else None
    if nxt:
        after = find_stale_thinking(plans[: edited + 2], session)
        assert after == stale, "the newest answer was said behind the edit"


@pytest.mark.parametrize("folder", ["claude-code", "anthropic-api"])
def test_real_sessions_as_recorded_have_nothing_to_find(folder: str, shared: Any) -> None:
    """They were accepted once, so lint must accept them: the proof that it does not cry wolf."""
    looked = 0
    for path in sorted(shared("data", "open", folder).glob("*.*")):
        session = load_all(path)[0]
        from turnscope.library.opening import count_session

        plans = [*replay(session, parse("as-recorded", '[[rules]]\nrule = "follow_the_record"'), count_session(session))]
        for plan in plans[:: max(1, len(plans) // 10)]:
            assert lint(render(plan.after, session, plan.request.settings), plan.request.model) == (), (path.name, plan)
            looked += 1
    assert looked


def test_a_sample_that_cut_blindly_is_caught() -> None:
    from pathlib import Path

    session = load(Path(__file__).parents[2] / "sample_sessions" / "chat-forgets-first-instruction.jsonl")
    plans = [*replay(session, parse("as-recorded", '[[rules]]\nrule = "follow_the_record"'), build_ledger(session, CHARS))]
    assert "first message" in lint(render(plans[-1].after, session), OLD)[0].what


@pytest.mark.parametrize("index", range(len(BROKEN)))
def test_bodies_that_the_types_refuse_are_refused_by_lint_too(index: int) -> None:
    broken = BROKEN[index][0]
    if not match_types(broken):
        assert lint(broken, OLD), "the SDK's types see more than lint"
