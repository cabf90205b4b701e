"""Logs of OpenAI's Chat Completions API: their messages become blocks, and each body renders as its counterpart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import make_estimator
from turnscope.importers.openai_chat import IMPORTER
from turnscope.planning import policy, render
from turnscope.planning.assemble import replay
from turnscope.reading.chat_completions import convert_body
from turnscope.reading.claims import claim
from turnscope.reading.contents import read_source
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source
from turnscope.session.model import Session, Usage

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
TALK: list[dict[str, Any]] = [
    SYSTEM,
    {"role": "user", "content": "Look at a and b."},
    {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "text of a " * 30},
    {"role": "tool", "tool_call_id": "c2", "content": "text of b"},
]
TOOL = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}


def source(value: Any, lines: bool = False, name: str = "log.json") -> Source:
    data = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
    return Source(Path(name), data.encode())


def completion(content: str, **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 120, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}}
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "model": "gpt-4o-2024",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
        **more,
    }


def render_all(session: Session) -> list[dict[str, Any]]:
    plans = replay(session, policy.load("as-recorded"), build_ledger(session, make_estimator("gpt-4o")))
    return [render.render(plan.after, session, plan.request.settings) for plan in plans]


def test_messages_calls_and_results_become_blocks() -> None:
    log = source({"model": "gpt-4o", "messages": TALK, "tools": [TOOL]})
    assert claim(log) is IMPORTER
    (session,) = read_source(log)
    kinds = [(block.role, block.kind, block.name) for block in session.blocks]
    assert kinds == [
        ("tools", "tool", "read"),
        ("system", "system", ""),
        ("user", "text", ""),
        ("assistant", "tool_use", "read"),
        ("assistant", "tool_use", "read"),
        ("user", "tool_result", "read"),
        ("user", "tool_result", "read"),
    ]
    assert session.blocks[3].pair == 5
    assert session.blocks[3].raw["input"] == {"path": "a"}
    assert session.title == "Look at a and b."


def test_pairs_carry_usage_without_the_cached_part_and_what_left_is_seen() -> None:
    first = {"model": "gpt-4o", "messages": TALK}
    cleared = [*TALK[:3], {**TALK[3], "content": "[cleared]"}, TALK[4], {"role": "assistant", "content": "Fine."}]
    second = {"model": "gpt-4o", "messages": [*cleared, {"role": "user", "content": "And c?"}]}
    third = {"model": "gpt-4o", "messages": [SYSTEM, second["messages"][-1]]}
    log = source(
        [{"request": r, "response": completion(t)} for r, t in ((first, "Fine."), (second, "No c."), (third, "x"))], lines=True
    )
    (session,) = read_source(log)
    assert render_all(session) == [convert_body(first), convert_body(second), convert_body(third)]
    assert session.requests[0].usage == Usage(input_tokens=20, cache_read_input_tokens=100, output_tokens=9)
    assert (session.requests[0].model, session.requests[0].stop_reason) == ("gpt-4o-2024", "stop")
    assert (session.observed[0].request, session.observed[0].edit.action) == (1, "clear")
    assert {seen.edit.action for seen in session.observed if seen.request == 2} == {"drop"}


def test_a_list_of_messages_has_one_request_for_each_answer() -> None:
    answer = {"role": "assistant", "content": "Both are fine."}
    log = source([*TALK, answer, {"role": "user", "content": "Thanks."}])
    assert claim(log) is IMPORTER
    (session,) = read_source(log)
    assert [(r.cut, r.stop) for r in session.requests] == [(2, 4), (6, 7)]
    assert render_all(session)[1] == convert_body({"messages": TALK})


def test_arguments_that_are_no_object_stay_text_and_images_stay_raw() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    broken = {"id": "c1", "function": {"name": "read", "arguments": '{"path": '}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "See"}, image]},
        {"role": "assistant", "tool_calls": [broken]},
    ]
    body = convert_body({"messages": messages})
    assert body["messages"][0]["content"][1] == image
    assert body["messages"][1]["content"] == [{"type": "tool_use", "id": "c1", "name": "read", "input": '{"path": '}]


def test_an_unknown_key_of_a_message_does_not_hide_a_request() -> None:
    """As LiteLLM writes the messages of its providers."""
    said = {"role": "assistant", "content": "Hm.", "provider_specific_fields": {"a": 1}, "odd_key": None}
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": "go"}, said, {"role": "user", "content": "on"}]}
    rows = [{"request": body, "response": completion("Done.")}] * 2
    (session,) = read_source(source(rows, lines=True))
    assert len(session.requests) == 2
    assert not [note for note in session.notes if "skipped" in note.what]
    (session,) = read_source(source([*rows, {"odd": 1}], lines=True))
    assert ("warning", "1 records hold no request body and were skipped") in [(n.severity, n.what) for n in session.notes]


def test_a_stream_is_assembled() -> None:
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "content": "Hel"}}]},
        {"choices": [{"delta": {"content": "lo"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c9", "function": {"name": "read", "arguments": '{"a"'}}]}}]},
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}, "finish_reason": "tool_calls"}
            ]
        },
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    ]
    stream = (
        "".join(f"data: {json.dumps({'object': 'chat.completion.chunk', 'id': 'x', **c})}\n\n" for c in chunks)
        + "data: [DONE]\n"
    )
    log = source([{"request": {"model": "gpt-4o", "messages": TALK[:2]}, "response": stream}], lines=True)
    (session,) = read_source(log)
    assert [block.text for block in session.blocks[2:]] == ["Hello", 'read {"a":1}']
    assert session.requests[0].usage == Usage(input_tokens=5, output_tokens=2)
    assert session.requests[0].stop_reason == "tool_calls"


def test_a_failed_call_is_kept_without_usage() -> None:
    log = source({"request": {"model": "gpt-4o", "messages": TALK[:2]}, "response": {"error": {"message": "Rate limit"}}})
    (session,) = read_source(log)
    assert session.requests[0].usage is None
    assert any("Rate limit" in note.what for note in session.notes)


HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"messages": [HI]}, "openai-chat"),
        ({"messages": [HI], "model": "gpt-4o"}, "openai-chat"),
        ({"messages": [HI], "model": "claude-opus-4-5"}, "anthropic-api"),
        ({"messages": [HI], "model": "claude-opus-4-5", "max_tokens": 5}, "anthropic-api"),
        ({"messages": [HI], "system": "s", "max_tokens": 5}, "anthropic-api"),
        ({"messages": [SYSTEM, HI], "model": "claude-opus-4-5"}, "openai-chat"),
        ({"messages": [HI], "model": "claude-opus-4-5", "tools": [TOOL]}, "openai-chat"),
        ({"messages": [HI], "model": "m", "tools": [{"name": "t", "input_schema": {}}]}, "anthropic-api"),
        ({"request": {"messages": [HI], "model": "claude-opus-4-5"}, "response": completion("x")}, "openai-chat"),
        ([HI, {"role": "assistant", "content": "hello"}], "openai-chat"),
        ([{**HI, "ts": 1}], None),
        ([{**HI, "messageId": "m"}], None),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}], None),
        ({"info": {}, "messages": [HI], "trajectory_format": "mini-swe-agent-1"}, "mini-swe-agent"),
        ({"history": [HI], "sessionId": "s"}, None),
    ],
)
def test_exactly_one_importer_claims_a_body_and_none_another_tools_file(value: Any, name: str | None) -> None:
    log = source(value)
    assert [importer.name for importer in find_importers() if importer.sniff(log)] == ([name] if name else [])


TEXTS = st.sampled_from(["one", "two", "a longer text that is repeated " * 3, ""])
MESSAGES = st.one_of(
    st.builds(lambda t: {"role": "user", "content": t}, TEXTS),
    st.builds(lambda t: {"role": "assistant", "content": t, "tool_calls": [CALL]}, TEXTS),
    st.builds(lambda t: {"role": "tool", "tool_call_id": "c1", "content": t}, TEXTS),
    st.builds(lambda t: {"role": "developer", "content": t}, TEXTS),
    st.builds(lambda t: {"role": "user", "content": [{"type": "text", "text": t}], "name": "bob"}, TEXTS),
)


@given(st.lists(st.lists(MESSAGES, max_size=6), min_size=1, max_size=5))
def test_any_sequence_of_bodies_renders_as_its_counterparts(lists: list[list[Any]]) -> None:
    opening = {"role": "user", "content": "the opening"}
    bodies = [{"model": "gpt-4o", "messages": [SYSTEM, opening, *messages]} for messages in lists]
    (session,) = read_source(source([{"request": body} for body in bodies], lines=True))
    assert render_all(session) == [convert_body(body) for body in bodies]


def test_thinking_in_tags_is_a_block_of_its_own_and_a_tag_that_is_not_closed_is_text() -> None:
    answers = [
        "<think>\nEasy.\n</think>\n\nIt is 4.",
        "<think>never closed, 4",
        "Both: <thinking>a</thinking>b<think>c</think>",
    ]
    talk = [row for said in answers for row in ({"role": "user", "content": "?"}, {"role": "assistant", "content": said})]
    body = {"model": "m", "messages": [*talk, {"role": "user", "content": "<think>x</think>"}]}
    (session,) = read_source(source(body))
    found = [[b for b in session.blocks if b.message == n] for n in (1, 3, 5, 6)]
    kinds = [[b.kind for b in blocks] for blocks in found]
    assert kinds == [["thinking", "text"], ["text"], ["text", "thinking", "text", "thinking"], ["text"]]
    assert ["".join(b.text for b in blocks) for blocks in found[:3]] == answers
