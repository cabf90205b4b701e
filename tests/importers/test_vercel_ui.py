"""Messages of the Vercel AI SDK, and the streams that make them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import turnscope
from formats import data_of, list_blocks, list_claims, open_value, pairs, survives, texts

CALL = {"type": "tool-look", "toolCallId": "c", "state": "output-available", "input": {"at": "a"}, "output": "seen"}
ANSWER = {
    "id": "b",
    "role": "assistant",
    "metadata": {"model": "m-x", "createdAt": 1_757_360_000_000},
    "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        CALL,
        {"type": "step-start"},
        {"type": "text", "text": "done", "state": "done"},
        {"type": "source-url", "url": "https://example.org"},
    ],
}
CHAT = [{"id": "a", "role": "user", "parts": [{"type": "text", "text": "go"}]}, ANSWER]
OLD = [
    {"id": "a", "role": "user", "content": "go", "parts": [{"type": "text", "text": "go"}]},
    {
        "id": "b",
        "role": "assistant",
        "content": "done",
        "createdAt": "2026-01-01T00:00:00Z",
        "toolInvocations": [{"state": "result", "toolCallId": "c", "toolName": "look", "args": {"at": "a"}, "result": "seen"}],
    },
]
CHUNKS = [
    {"type": "start", "messageId": "b", "messageMetadata": {"model": "m-x"}},
    {"type": "start-step"},
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "h"},
    {"type": "reasoning-delta", "id": "r", "delta": "m"},
    {"type": "tool-input-start", "toolCallId": "c", "toolName": "look"},
    {"type": "tool-input-available", "toolCallId": "c", "toolName": "look", "input": {"at": "a"}},
    {"type": "tool-output-available", "toolCallId": "c", "output": "seen"},
    {"type": "finish-step"},
    {"type": "start-step"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "done"},
    {"type": "finish"},
]
SAID = [
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def test_messages_alone_or_in_a_chat() -> None:
    for value in (CHAT, {"id": "x", "title": "A chat", "messages": CHAT}):
        session = open_value(value)
        assert list_blocks(session) == SAID
        assert (len(session.requests), pairs(session), {r.model for r in session.requests}) == (2, 1, {"m-x"})
        assert [note.what for note in session.notes][:1] == ["1 record of kind 'part source-url' (49 bytes) was skipped"]
    assert session.title == "A chat"
    old = open_value(OLD)
    assert sorted(texts(old)) == sorted(text for _, kind, text in SAID if kind != "thinking")
    assert pairs(old) == 1


def test_usage_of_one_step_is_the_requests_own() -> None:
    usage = {"inputTokens": 90, "outputTokens": 7, "cachedInputTokens": 40}
    one = {"role": "assistant", "metadata": {"usage": usage}, "parts": [{"type": "text", "text": "yes"}]}
    (request,) = open_value([CHAT[0], one]).requests
    assert request.usage
    assert (request.usage.prompt_tokens, request.usage.cache_read_input_tokens) == (90, 40)
    many = open_value([CHAT[0], {**ANSWER, "metadata": {"usage": usage}}])
    assert [request.usage for request in many.requests] == [None, None]
    assert any("usage of all steps" in note.what for note in many.notes)


def test_a_stream_is_the_message_that_it_makes(tmp_path: Path) -> None:
    assert list_blocks(open_value(CHUNKS)) == SAID[1:]
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n"
    (tmp_path / "stream.txt").write_text(events)
    assert list_blocks(turnscope.load(tmp_path / "stream.txt")) == SAID[1:]
    failed = open_value([*CHUNKS[:4], {"type": "error", "errorText": "no credit"}])
    assert (texts(failed), [note.what for note in failed.notes]) == (["h"], ["the stream ended: no credit"])


def test_a_call_that_was_denied_has_a_result_which_says_why() -> None:
    asked = {"type": "tool-approval-request", "approvalId": "ask", "toolCallId": "c"}
    told = {"type": "tool-approval-response", "approvalId": "ask", "approved": False, "reason": "not today"}
    denied = open_value([*CHUNKS[:7], asked, told, {"type": "tool-output-denied", "toolCallId": "c"}, *CHUNKS[8:]])
    assert list_blocks(denied) == [*SAID[1:3], ("user", "tool_result", "not today"), SAID[4]]
    assert denied.notes == ()


def test_pieces_of_what_never_began_are_no_message() -> None:
    lost = [
        {"type": "tool-input-delta", "toolCallId": "x", "inputTextDelta": "{"},
        {"type": "text-delta", "id": "x", "delta": "a"},
    ]
    session = open_value([*CHUNKS, *lost])
    assert list_blocks(session) == SAID[1:]
    notes = "; ".join(note.what for note in session.notes)
    assert all(f"'{one['type']} of a part that never began'" in notes for one in lost)


def test_it_is_claimed_by_one_importer_alone_and_nothing_breaks(tmp_path: Path) -> None:
    for value in (CHAT, OLD, CHUNKS):
        (tmp_path / "made.json").write_bytes(data_of(value))
        assert list_claims(tmp_path / "made.json") == ["vercel-ui"]
        assert survives(value, count=40)


def test_real_streams(shared: Callable[..., Path]) -> None:
    """Each stream as the SDK itself joined it."""
    path = shared("data", "new", "vercel", "ui_message_stream.json")
    made = 0
    for case in json.loads(path.read_text()):
        parts = case["writes"][-1]["parts"] if case["writes"] else []
        blocks = [part for part in parts if part["type"] in ("text", "reasoning") and part["text"]]
        tools = [part for part in parts if "toolCallId" in part]
        if not (blocks or tools) or "throws" in case:
            continue
        made += 1
        session = open_value(case)
        said = [block.text for block in session.blocks if block.kind in ("text", "thinking")]
        assert said == [part["text"] for part in blocks], case["name"]
        calls = [block.raw for block in session.blocks if block.kind == "tool_use"]
        assert [call["id"] for call in calls] == [part["toolCallId"] for part in tools], case["name"]
        gave = [part[key] for part in tools for key in ("output", "errorText") if key in part]
        back = [block.text for block in session.blocks if block.kind == "tool_result"]
        written = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in gave]
        assert set(written) <= set(back), case["name"]
        steps = sum(part["type"] == "step-start" for part in parts) + (parts[0]["type"] != "step-start")
        assert len(session.requests) <= steps, case["name"]
    assert made > 40
