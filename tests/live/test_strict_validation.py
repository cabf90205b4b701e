"""The built-in model rejects what the Messages API rejects, and a chat sends it nothing of the kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples, let_go
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from turnscope.envelope.condensing import subtract_spans
from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.validation import find_rejection
from turnscope.planning.assemble import replay
from turnscope.planning.policy import list_policies, load, make_sendable
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Part, Span

from tests import matrix
from tests.laws.test_policies import limits, tight

CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "words"}
MARK = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if content and isinstance(content[0], str) else list(content)}


def model(*content: Any) -> dict[str, Any]:
    return {**user(*content), "role": "assistant"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "offline-16k", "max_tokens": 100, "messages": list(messages), **more}


WRONG = {
    "at least one message": body(),
    "first message must use the user role": body(model("hi"), user("hi")),
    "messages.1.role": body(user("hi"), {"role": "tool", "content": "x"}),
    "tool_use` ids were found without": body(user("a"), model(CALL), user("b")),
    "unexpected `tool_use_id`": body(user("a"), model("b"), user(RESULT)),
    "must be unique": body(user("a"), model(CALL), user(RESULT), model(CALL), user(RESULT)),
    "single result": body(user("a"), model(CALL), user(RESULT, RESULT)),
    "must come first": body(user("a"), model(CALL), user({"type": "text", "text": "so"}, RESULT)),
    "must be non-empty": body(user({"type": "text", "text": ""}, {"type": "text", "text": "a"})),
    "non-whitespace text": body(user(" \n")),
    "trailing whitespace": body(user("a"), model("so ")),
    "all messages must have non-empty content": body(user("a"), model(), user("b")),
    "does not match any of the expected tags": body(user(CALL)),
    "A maximum of 4 blocks with cache_control": body(user(*[MARK] * 5)),
    "Invalid `signature`": body(user("a"), model({"type": "thinking", "thinking": "x", "signature": "0" * 64}), user("b")),
    "signature: Field required": body(user("a"), model({"type": "thinking", "thinking": "x"}), user("b")),
    "max_tokens: Field required": {"model": "offline-16k", "messages": [user("a")]},
    "greater than or equal to 1": body(user("a"), max_tokens=0),
    "maximum allowed number of output tokens": body(user("a"), max_tokens=64_001),
    "must be greater than `thinking.budget_tokens`": body(user("a"), thinking={"type": "enabled", "budget_tokens": 1_024}),
    "greater than or equal to 1024": body(user("a"), max_tokens=5_000, thinking={"type": "enabled", "budget_tokens": 9}),
    "Tool names must be unique": body(user("a"), tools=[{"name": "a"}, {"name": "a"}]),
    "system: text content blocks": body(user("a"), system=" "),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_the_api_rejects_is_rejected_in_its_words(what: str) -> None:
    assert what in find_rejection(WRONG[what])


@pytest.mark.parametrize(
    "right",
    [
        body(user("a")),
        body(user("a"), model(CALL), user(RESULT, {"type": "text", "text": "so"})),
        body(user({"type": "text", "text": " "}, {"type": "text", "text": "a"})),
        body(user("a"), user("b"), model("c"), user("d")),
        body(user(*[MARK] * 4)),
        body(user("a"), max_tokens=5_000, thinking={"type": "enabled", "budget_tokens": 1_024}),
    ],
)
def test_what_the_api_takes_is_taken(right: dict[str, Any]) -> None:
    assert find_rejection(right) == ""


@pytest.fixture
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as offline:
        yield offline


def test_thinking_is_taken_back_behind_its_own_prefix_and_its_own_model_alone(server: OfflineServer) -> None:
    asked = body(user("How far is it?"), thinking={"type": "adaptive"})
    status, said = server.handle_message(asked)
    answer = {"role": "assistant", "content": said["content"]}
    assert (status, said["content"][0]["type"]) == (200, "thinking")
    good = {**asked, "messages": [*asked["messages"], answer, user("And back?")]}
    assert find_rejection(good) == ""
    marked = [user({"type": "text", "text": "How far is it?", "cache_control": {"type": "ephemeral"}}), *good["messages"][1:]]
    assert find_rejection({**good, "messages": marked}) == ""  # a mark changes nothing of what is said
    other = [user("How far was it?"), *good["messages"][1:]]
    assert find_rejection({**good, "messages": other}) == "messages.1.content.0: the messages before it were changed"
    assert "Invalid `signature`" in find_rejection({**good, "model": "offline-64k"})
    thought = {**said["content"][0], "thinking": "Not so."}
    edited = [good["messages"][0], {**answer, "content": [thought, *said["content"][1:]]}, good["messages"][2]]
    assert server.handle_message({**good, "messages": edited})[0] == 400


@pytest.mark.parametrize("name", [name for name in list_policies() if name != "as-recorded"])
def test_what_mends_stands_behind_what_cuts(name: str) -> None:
    rules = [part.rule.name for part in make_sendable(load(name)).rules]
    assert rules[0] == "follow_wishes"
    behind = rules[rules.index("strip_stale_thinking") + 1 :]
    assert set(behind) <= {"refuse_when_over", "warn_at"}
    assert rules.index("drop_blank_texts") < rules.index("strip_stale_thinking")
    assert make_sendable(make_sendable(load(name))) == make_sendable(load(name))


def list_content(message: dict[str, Any]) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", [name for name in list_policies() if name != "as-recorded"])
@settings(max_examples=examples(12))
@given(session=sessions, limit=limits)
def test_thinking_is_sent_behind_what_it_was_thought_behind_or_not_at_all(name: str, session: Any, limit: int) -> None:
    """The prefix of each thinking block that is sent is the prompt of the request that brought it."""
    prompts: dict[str, list[list[Any]]] = {}  # two may think the same
    for plan in replay(session, make_sendable(tight(name, limit)), ledger_of(session)):
        sent: list[Any] = []
        for message in render(plan.after, session)["messages"]:
            for block in list_content(message):
                if block["type"] == "thinking":
                    assert sent in prompts[block["thinking"]], plan.request.n
                sent.append((message["role"], block))
        for block in session.blocks[plan.request.cut : plan.request.stop]:
            if block.kind == "thinking":
                prompts.setdefault(block.raw["thinking"], []).append([*sent])  # nothing stands before it in its own answer


@pytest.mark.parametrize(("seal", "sent"), [({"signature": "s"}, 1), ({}, 0)])
def test_thinking_that_nobody_signed_is_not_sent(seal: dict[str, str], sent: int) -> None:
    builder = Builder("s", "test")
    for n in range(2):
        builder.add_message("user", f"prompt {n}", origin="prompt")
        thought = {"type": "thinking", "thinking": f"thought {n}", **seal}
        builder.set_request(
            builder.add_message("assistant", [thought, {"type": "text", "text": "so"}]), model="claude-opus-5-5"
        )
    session = builder.build()
    last = [*replay(session, make_sendable(load("keep-everything")), ledger_of(session))][-1]
    kinds = [block["type"] for message in render(last.after, session)["messages"] for block in list_content(message)]
    assert kinds.count("thinking") == sent


def test_the_record_is_not_mended() -> None:
    assert make_sendable(load("as-recorded")) == load("as-recorded")


SLICE = matrix.Course(turns=20, condense=8, paste=11, kill=15, model="offline-64k")


@pytest.mark.thorough(every=3)
@pytest.mark.parametrize("name", ["balanced", "last-5-pairs", "cline-classic", "litellm-trim", "librechat-agents", "roo"])
def test_a_slice_of_the_matrix_is_right(name: str, tmp_path: Path) -> None:
    row = matrix.drive(name, replace(SLICE, model="offline-16k", paste=-1) if name == "litellm-trim" else SLICE, tmp_path)
    assert row.right, row.why
    assert (row.turns, row.refused, row.stopped, row.condensed) == (20, 0, 0, "stands"), row
    assert row.requests > 20


def test_what_cannot_be_mended_is_not_sent(tmp_path: Path) -> None:
    """A window into which not even the question fits: chatbot-ui would send no message at all."""
    tight = matrix.Course(turns=3, condense=-1, paste=1, kill=-1, model="offline-16k")
    row = matrix.drive("chatbot-ui", tight, tmp_path)
    assert (row.rejected, row.failed) == (0, 0), row.why
    assert row.stopped + row.refused >= 1
    assert row.requests >= 1


@settings(max_examples=examples(150))
@given(sessions, st.data())
def test_the_first_difference_is_where_two_envelopes_part(session: Any, data: st.DataObject) -> None:
    ledger = ledger_of(session)
    size = len(session.blocks)
    one = Envelope().grow(size, ledger)
    assert find_first_change(one, one) is None
    cut = data.draw(st.integers(0, size))
    assert find_first_change(Envelope().grow(cut, ledger), one) is None  # new and verbatim
    start = data.draw(st.integers(0, max(0, size - 1)))
    stop = data.draw(st.integers(start + 1, max(start + 1, size)))
    if stop > size:
        return
    gone, _ = one.replace(Edit("drop", "", Span(start, stop), ()), 0, ledger)
    told, _ = one.replace(Edit("condense", "", Span(start, stop), (Part("user", "summary", "s"),)), 0, ledger)
    assert find_first_change(one, gone) == find_first_change(gone, one) == start
    assert find_first_change(one, told) == find_first_change(gone, told) == start
    again, _ = told.replace(Edit("restore", "", Span(start, stop), None, restore=True), 1, ledger)
    assert find_first_change(one, again) is None


@given(st.integers(0, 30), st.integers(0, 30), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=5))
def test_a_span_without_others_holds_what_none_of_them_holds(start: int, size: int, others: list[tuple[int, int]]) -> None:
    spans = sorted(Span(at, at + many) for at, many in others)
    left = [at for span in subtract_spans(Span(start, start + size), spans) for at in range(*span)]
    assert left == [at for at in range(start, start + size) if not any(a <= at < b for a, b in spans)]
