"""Tools that keep sessions on the machine: Amp, LM Studio, Zed, Amazon Q, Kiro, Antigravity, Cursor CLI, SpecStory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from backports import zstd
from formats import data_of, database, list_blocks, list_claims, open_value, pairs, survives, texts, threads
from turnscope.importers.amazon_q import find_places as find_amazon_q
from turnscope.importers.amp import find_places as find_amp
from turnscope.importers.antigravity import find_places as find_antigravity
from turnscope.importers.cursor_cli import find_places as find_cursor_cli
from turnscope.importers.kiro import find_places as find_kiro
from turnscope.importers.lm_studio import find_places as find_lm_studio
from turnscope.importers.msty import find_places as find_msty
from turnscope.importers.zed import find_places as find_zed
from turnscope.settings import Machine

ROUND = [
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def say(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content), **more}


TEXT = {"type": "text", "text": "go"}
DONE = {"type": "text", "text": "done"}
AMP_USE = {"model": "m-x", "inputTokens": 10, "cacheCreationInputTokens": 5, "cacheReadInputTokens": 100, "outputTokens": 7}
AMP = {
    "v": 3,
    "id": "T-1",
    "created": 1_767_865_803_494,
    "title": "A task",
    "agentMode": "smart",
    "env": {"initial": {"platform": {"os": "linux"}}},
    "messages": [
        say("user", TEXT, messageId=0, meta={"sentAt": 1_767_865_803_494}),
        say(
            "assistant",
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c", "name": "look", "input": {"at": "a"}},
            messageId=1,
            state={"type": "complete", "stopReason": "tool_use"},
            usage=AMP_USE,
        ),
        say("user", {"type": "tool_result", "toolUseID": "c", "run": {"status": "done", "result": "seen"}}, messageId=2),
        say("assistant", DONE, messageId=3, state={"type": "complete", "stopReason": "end_turn"}),
    ],
    "usageLedger": {
        "events": [
            {"toMessageId": 1, "model": "m-x", "tokens": {"input": 10, "output": 7}, "credits": 1.5},
            {
                "toMessageId": 3,
                "model": "m-y",
                "timestamp": "2026-01-08T09:50:05Z",
                "tokens": {"input": 3, "output": 2, "cacheReadInputTokens": 115},
            },
            {"toMessageId": 99, "model": "m-z", "tokens": {"input": 50, "output": 5}},
        ]
    },
}
STATS = {"stopReason": "eosFound", "tokensPerSecond": 12.5, "promptTokensCount": 40, "predictedTokensCount": 9}


def block(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "contentBlock", "content": list(content), **more}


def version(role: str, **more: Any) -> dict[str, Any]:
    return {"role": role, **more}


LM_STUDIO = {
    "name": "A task",
    "createdAt": 1_700_000_000_000,
    "systemPrompt": "Be brief.",
    "lastUsedModel": {"identifier": "m-x", "indexedModelIdentifier": "pub/m-x"},
    "messages": [
        {
            "versions": [
                version("user", type="singleStep", content=[{"type": "text", "text": "went"}]),
                version("user", type="singleStep", content=[TEXT]),
            ],
            "currentlySelected": 1,
        },
        {
            "versions": [
                version(
                    "assistant",
                    type="multiStep",
                    steps=[
                        block({"type": "text", "text": "hm"}, style={"type": "thinking"}),
                        block(
                            {
                                "type": "toolCallRequest",
                                "callId": 1,
                                "toolCallRequestId": "c",
                                "name": "look",
                                "parameters": {"at": "a"},
                            },
                            genInfo={"indexedModelIdentifier": "pub/m-x", "stats": STATS},
                        ),
                        {"type": "toolStatus", "callId": 1, "statusState": {"status": {"type": "toolCallSucceeded"}}},
                        block({"type": "toolCallResult", "toolCallId": "1", "content": "seen"}, roleOverride="tool"),
                        block(DONE, genInfo={"stats": {**STATS, "promptTokensCount": 60}}),
                        {"type": "debugInfoBlock", "debugInfo": "odd"},
                    ],
                )
            ],
            "currentlySelected": 0,
        },
    ],
}
ZED = {
    "version": "0.3.0",
    "title": "A task",
    "messages": [
        {"User": {"id": "u", "content": [{"Text": "go"}]}},
        {
            "Agent": {
                "content": [
                    {"Thinking": {"text": "hm", "signature": None}},
                    {"ToolUse": {"id": "c", "name": "look", "input": {"type": "json", "value": {"at": "a"}}}},
                ],
                "tool_results": {
                    "c": {"tool_use_id": "c", "tool_name": "look", "is_error": False, "content": {"Text": "seen"}}
                },
            }
        },
        {"Agent": {"content": [{"Text": "done"}], "tool_results": {}}},
        "Resume",
        {"Compaction": {"Summary": "what was said"}},
        {"User": {"id": "v", "content": [{"Text": "more"}, {"Mention": {"uri": {"File": {}}, "content": "a file"}}]}},
        {"Agent": {"content": [{"Text": "yes"}], "tool_results": {}}},
    ],
    "request_token_usage": {
        "u": {"input_tokens": 20, "output_tokens": 3, "cache_read_input_tokens": 100},
        "v": {"input_tokens": 9, "output_tokens": 2},
    },
    "cumulative_token_usage": {"input_tokens": 1_200, "output_tokens": 150},
    "model": {"provider": "p", "model": "m-x"},
}
OLD_ZED = {
    "version": "0.2.0",
    "summary": "A task",
    "updated_at": "2026-01-01T00:00:00Z",
    "model": {"provider": "p", "model": "m-x"},
    "messages": [
        {"id": 0, "role": "user", "segments": [TEXT], "tool_uses": [], "tool_results": [], "context": ""},
        {
            "id": 1,
            "role": "assistant",
            "segments": [{"type": "thinking", "text": "hm"}],
            "tool_uses": [{"id": "c", "name": "look", "input": {"at": "a"}}],
            "tool_results": [{"tool_use_id": "c", "is_error": False, "content": "seen", "output": None}],
        },
        {"id": 2, "role": "assistant", "segments": [DONE], "tool_uses": [], "tool_results": []},
    ],
}
TEXT_ZED = {
    "zed": "context",
    "version": "0.4.0",
    "text": "go\n\ndone",
    "messages": [
        {"id": [0, 0], "start": 0, "metadata": {"role": "user", "status": "Done"}},
        {"id": [1, 0], "start": 4, "metadata": {"role": "assistant"}},
    ],
    "summary": "A task",
    "slash_command_output_sections": [],
}


def turn(asked: dict[str, Any], answered: dict[str, Any]) -> list[Any]:
    return [{"content": asked, "env_context": {"env_state": {}}, "additional_context": ""}, answered]


USES = {"tool_uses": [{"id": "c", "name": "look", "args": {"at": "a"}}]}
BACK = {"tool_use_results": [{"tool_use_id": "c", "status": "Success", "content": [{"Text": "seen"}]}]}
AMAZON_Q = {
    "conversation_id": "q",
    "history": [
        turn({"Prompt": {"prompt": "go"}}, {"ToolUse": {"message_id": "1", "content": "", **USES}}),
        turn({"ToolUseResults": BACK}, {"Response": {"message_id": "2", "content": "done"}}),
    ],
    "tools": {"native": [{"ToolSpecification": {"name": "look", "description": "d", "input_schema": {"json": {}}}}]},
}
NEWER_Q = {
    "conversation_id": "k",
    "model_info": {"model_id": "m-x", "context_window_tokens": 200_000},
    "latest_summary": ["what was said", {}],
    "history": [
        {
            "user": {"content": {"Prompt": {"prompt": "go"}}, "timestamp": "2026-01-01T00:00:00Z"},
            "assistant": {"Response": {"content": "done"}},
            "request_metadata": {
                "request_id": "r",
                "context_usage_percentage": 1.5,
                "stream_end_timestamp_ms": 1_780_462_801_000,
            },
        }
    ],
}
KIRO = [
    {
        "version": "v1",
        "kind": "Prompt",
        "data": {"content": [{"kind": "text", "data": "go"}], "meta": {"timestamp": 1_780_000_000}},
    },
    {
        "kind": "AssistantMessage",
        "data": {
            "message_id": "1",
            "content": [
                {"kind": "thinking", "data": {"text": "hm"}},
                {"kind": "toolUse", "data": {"toolUseId": "c", "name": "look", "input": {"at": "a"}}},
            ],
        },
    },
    {
        "kind": "ToolResults",
        "data": {
            "content": [
                {
                    "kind": "toolResult",
                    "data": {"toolUseId": "c", "status": "success", "content": [{"kind": "text", "data": "seen"}]},
                }
            ]
        },
    },
    {"kind": "AssistantMessage", "data": {"content": [{"kind": "text", "data": "done"}]}},
    {"kind": "Odd", "data": {"content": []}},
]


def event(type: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "payload": {"type": type, **more}}


KIRO_EVENTS = [
    event("user", content="go"),
    event("assistant", operationType="Think", content="hm"),
    event("tool_call", toolCallId="c", toolName="look", args={"at": "a"}),
    event("tool_result", toolCallId="c", content="seen", success=True),
    event("assistant", operationType="Say", content="done"),
    event("usage_summary", promptTurnSummaries=[{"usage": 0.5}]),
]
KIRO_CHAT = {
    "executionId": "e",
    "metadata": {"modelId": "m-x"},
    "chat": [{"role": "human", "content": "go"}, {"role": "bot", "content": "done"}],
}


def step(n: int, source: str, type: str, **more: Any) -> dict[str, Any]:
    return {
        "step_index": n,
        "source": source,
        "type": type,
        "status": "DONE",
        "created_at": f"2026-01-01T00:00:{n:02}Z",
        **more,
    }


SETTING = "The user changed setting `Model Selection` from None to Gemini 3.5 Flash (High). No need to comment on it."
ANTIGRAVITY = [
    step(0, "USER_EXPLICIT", "USER_INPUT", content=f"<USER_REQUEST>\ngo\n</USER_REQUEST>\n{SETTING}"),
    step(1, "SYSTEM", "CONVERSATION_HISTORY"),
    step(2, "MODEL", "PLANNER_RESPONSE", thinking="hm", tool_calls=[{"name": "look", "args": {"at": "a"}}]),
    step(3, "MODEL", "VIEW_FILE", content="seen"),
    step(4, "MODEL", "PLANNER_RESPONSE", content="done"),
    step(5, "SYSTEM", "CHECKPOINT", content="{{ CHECKPOINT 1 }} truncated"),
    step(6, "USER_EXPLICIT", "USER_INPUT", content="more"),
    step(7, "MODEL", "PLANNER_RESPONSE", content="yes"),
    step(8, "MODEL", "ODD"),
]
CURSOR_STORED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<user_info>\nOS\n</user_info>"},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\ngo\n</user_query>"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm"},
            {"type": "tool-call", "toolCallId": "c", "toolName": "look", "args": {"at": "a"}},
        ],
        "providerOptions": {"cursor": {"modelName": "m-x"}},
    },
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "look", "result": "seen"}]},
    {"role": "assistant", "content": "done"},
]
CURSOR_LINES = [
    {"role": "user", "message": {"content": [TEXT]}},
    {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "look", "input": {"at": "a"}}]}},
    {"role": "assistant", "message": {"content": [DONE]}},
    {"type": "turn_ended", "status": "success"},
]
SPECSTORY = """<!-- Generated by SpecStory, Markdown v2.1.0 -->

# 2026-01-01 00:00:00Z

<!-- Claude Code Session s-1 (2026-01-01 00:00:00Z) -->

_**User (2026-01-01 00:00:00Z)**_

go

---

_**Agent (m-x 2026-01-01 00:00:01Z)**_

<think><details><summary>Thought Process</summary>
hm
</details></think>

_**Agent (m-x 2026-01-01 00:00:02Z)**_

<tool-use data-tool-type="read" data-tool-name="look"><details>
<summary>Tool use: **look**</summary>

**Input:**

- at: `a`

**Result:**

```
_**User (2026-01-01 00:00:00Z)**_
seen
```
</details></tool-use>

_**Agent - sidechain (m-y 2026-01-01 00:00:03Z)**_

aside

_**Agent (m-x 2026-01-01 00:00:04Z)**_

done
"""
LINES = (KIRO, KIRO_EVENTS, ANTIGRAVITY, CURSOR_LINES)


def encode_varint_fields(ids: list[str]) -> bytes:
    return b"".join(b"\x0a\x20" + bytes.fromhex(id) for id in ids)


def write_cursor(path: Path) -> Path:
    """A store as Cursor's command line writes it: the root names the messages; one is of an earlier prompt."""
    ids = [f"{n:064x}" for n in range(1, len(CURSOR_STORED) + 1)]
    rows = [{"id": id, "data": json.dumps(row).encode()} for id, row in zip(ids, CURSOR_STORED, strict=True)]
    rows.append({"id": "a" * 64, "data": json.dumps({"role": "user", "content": "gone"}).encode()})
    rows.append({"id": "f" * 64, "data": encode_varint_fields(ids) + b"\x4a\x02/w"})
    meta = {"agentId": "s", "latestRootBlobId": "f" * 64, "name": "A task", "lastUsedModel": "m-y"}
    return database(path, {"blobs": rows, "meta": [{"key": "0", "value": json.dumps(meta).encode().hex()}]})


def write_zed(path: Path) -> Path:
    packed = zstd.compress(json.dumps(ZED).encode())
    about = {"summary": "A task", "updated_at": "2026-01-01T00:00:00Z", "created_at": None, "folder_paths": "/w"}
    rows = [
        {"id": "z", **about, "data_type": "zstd", "data": packed, "parent_id": None},
        {"id": "below", **about, "data_type": "json", "data": json.dumps(OLD_ZED).encode(), "parent_id": "z"},
    ]
    return database(path, {"threads": rows})


def write_msty(path: Path) -> Path:
    """Tables of version 1: two chats side by side in a session, one with an answer that was asked for again."""
    local = {
        "model": "m-x",
        "prompt_eval_count": 30,
        "eval_count": 4,
        "total_duration": 9,
        "created_at": "2026-03-14T00:07:36Z",
    }
    cloud = {"model": "gpt-4o", "prompt_eval_count": 812, "eval_count": 64, "estimated_cost": 0.002}
    image = {"path": "C:\\a\\receipt.png", "name": "receipt.png", "type": "image/png", "size": 9}

    def message(id: str, role: str, text: str, after: str | None, at: int, **more: Any) -> dict[str, Any]:
        row = {"id": id, "chat_id": "c1", "role": role, "text": text, "branch_parent_id": after, "parent_id": None}
        shown = {"extras": {"branch_active_at": 1_773_446_850_000 + at}, "created_at": f"2026-03-14 00:07:{at:02}"}
        empty = {"model_name": "m-x", "attachments": None, "prompt_response_metrics": None, "reasoning_info": None}
        return row | shown | empty | more

    key = "01KKMT9W2DX4Z6B8C0E2G4J6K8::gpt-4o"
    attached = {"images": [image], "documents": [{"name": "a.pdf", "path": "a.pdf"}], "youtube_links": []}
    rows = [
        message("m1", "user", "go", None, 1, attachments=attached),
        message("m2", "ai", "<think>hm</think>one", "m1", 9, prompt_response_metrics={"current": local, "previous": {}}),
        message("m3", "ai", "cut", "m1", 4, prompt_response_metrics={"previous": local}),
        message("m4", "user", "and?", "m2", 12, model_name=key),
        message(
            "m5", "ai", "two", "m4", 14, model_name=key, prompt_response_metrics={"current": cloud}, reasoning_info={"x": 1}
        ),
        message("m6", "user", "hi", None, 2, chat_id="c2"),
        message("m7", "ai", "hello", "m6", 3, chat_id="c2", reasoning_info={"content": "greet"}),
    ]
    options = {"modelOptions": {"systemPrompt": "Be brief.", "temperature": 0.5}}
    chats = [{"id": id, "title": "New", "model_name": "m-x", "config": options, "chat_session_id": "s"} for id in ("c1", "c2")]
    folder = {"id": "__ORPHANAGE__", "title": "Misc"}
    session = {"id": "s", "title": "Receipts", "folder_id": "__ORPHANAGE__", "created_at": "2026-03-14 00:07:00"}
    return database(path, {"chat_session_folders": [folder], "chat_sessions": [session], "chats": chats, "chat_messages": rows})


def test_msty(tmp_path: Path) -> None:
    path = write_msty(tmp_path / "msty.db")
    assert list_claims(path) == ["msty"]
    session, beside = turnscope.load_all(path)
    assert [(session.id, session.title), (beside.id, beside.title)] == [("c1", "Receipts"), ("c2", "Receipts")]
    assert texts(session)[:2] == ["Be brief.", "go"]
    assert [block.kind for block in session.blocks][2:5] == ["image", "thinking", "text"]
    assert texts(session)[3:] == ["hm", "one", "and?", "two"]
    assert texts(session.branches[0])[-1] == "cut"
    told = [(r.model, r.usage and (r.usage.prompt_tokens, r.usage.output_tokens), r.logged_usd) for r in session.requests]
    assert told == [("m-x", (30, 4), None), ("gpt-4o", (812, 64), 0.002)]
    assert session.branches[0].requests[-1].stop_reason == "stopped"
    assert (session.requests[0].sent_at, session.about["settings"]) == (1_773_446_821.0, {"temperature": 0.5})
    notes = " ".join(note.what for note in session.notes)
    assert "attachment of documents" in notes
    assert "reasoning_info" in notes
    assert texts(beside)[1:] == ["hi", "greet", "hello"]


def write_amazon_q(path: Path) -> Path:
    newer = [
        {"key": "/w", "conversation_id": "k", "value": json.dumps(NEWER_Q), "created_at": 1, "updated_at": 1_780_462_801_000}
    ]
    return database(path, {"conversations": [{"key": "/v", "value": json.dumps(AMAZON_Q)}], "conversations_v2": newer})


def test_amp() -> None:
    session = open_value(AMP)
    assert list_blocks(session) == ROUND
    assert (session.id, session.title, pairs(session)) == ("T-1", "A task", 1)
    told = [(r.model, r.usage and r.usage.prompt_tokens, r.usage and r.usage.output_tokens) for r in session.requests]
    assert told == [("m-x", 115, 7), ("m-y", 118, 2)]
    assert any("1.5 credits" in note.what for note in session.notes)
    assert any("1 entries of the ledger" in note.what for note in session.notes)


def test_lm_studio() -> None:
    session = open_value(LM_STUDIO)
    assert list_blocks(session) == [("system", "system", "Be brief."), *ROUND]
    assert [block.text for block in session.branches[0].blocks if block.role == "user"] == ["went"]
    told = [(request.model, request.usage and request.usage.prompt_tokens) for request in session.requests]
    assert told == [("pub/m-x", 40), ("pub/m-x", 60)]
    assert pairs(session) == 1
    assert any("debugInfoBlock" in note.what for note in session.notes)


def test_zed(tmp_path: Path) -> None:
    path = write_zed(tmp_path / "threads.db")
    assert list_claims(path) == ["zed"]
    (session,) = turnscope.load_all(path)
    assert list_blocks(session)[:5] == ROUND
    assert texts(session)[5:] == ["Continue where you left off", "what was said", "more", "a file", "yes"]
    told = [request.usage and (request.usage.prompt_tokens, request.usage.output_tokens) for request in session.requests]
    assert told == [None, (120, 3), (9, 2)]
    assert session.observed[0].edit.action == "condense"
    assert list_blocks(session.subagents[0]) == ROUND
    assert list_blocks(open_value(OLD_ZED)) == ROUND
    assert texts(open_value(TEXT_ZED)) == ["go", "done"]


def test_amazon_q(tmp_path: Path) -> None:
    path = write_amazon_q(tmp_path / "data.sqlite3")
    assert list_claims(path) == ["amazon-q"]
    newer, older = turnscope.load_all(path)
    assert list_blocks(older)[1:] == [row for row in ROUND if row[1] != "thinking"]
    assert pairs(older) == 1
    assert texts(newer) == ["what was said", "go", "done"]
    assert (newer.window, newer.requests[0].model) == (200_000, "m-x")
    assert texts(open_value(AMAZON_Q))[1:] == texts(older)[1:]


def test_kiro(tmp_path: Path) -> None:
    for made in (KIRO, KIRO_EVENTS):
        session = open_value(made, lines=True)
        assert list_blocks(session) == ROUND
        assert (len(session.requests), pairs(session)) == (2, 1)
    (tmp_path / "s.jsonl").write_bytes(data_of(KIRO, lines=True))
    turns = [{"model": "m-x", "input_token_count": 70, "output_token_count": 9, "metering_usage": [{"value": 0.25}]}]
    state = {"conversation_metadata": {"user_turn_metadatas": turns}}
    (tmp_path / "s.json").write_text(json.dumps({"session_id": "k", "title": "A task", "session_state": state}))
    session = turnscope.load(tmp_path / "s.jsonl")
    assert (session.id, session.title, {request.model for request in session.requests}) == ("k", "A task", {"m-x"})
    assert any("70 tokens of input and 9 of output" in note.what for note in session.notes)
    assert texts(open_value(KIRO_CHAT)) == ["go", "done"]


def test_antigravity(tmp_path: Path) -> None:
    session = open_value(ANTIGRAVITY, lines=True)
    assert list_blocks(session)[1:5] == ROUND[1:]
    assert (pairs(session), len(session.requests)) == (1, 3)
    assert {request.model for request in session.requests} == {"Gemini 3.5 Flash (High)"}
    assert session.observed[0].edit.action == "condense"
    assert any("'step ODD'" in note.what for note in session.notes)
    escaped = [{**row} for row in ANTIGRAVITY]
    escaped[2]["tool_calls"] = [{"name": "look", "args": {"at": '"a"'}}]
    assert threads(data_of(escaped, lines=True), "transcript.jsonl")[0].session.blocks[2].text == 'look {"at":"a"}'


def test_the_command_line_of_cursor(tmp_path: Path) -> None:
    path = write_cursor(tmp_path / "store.db")
    assert list_claims(path) == ["cursor-cli"]
    session = turnscope.load(path)
    assert list_blocks(session)[3:] == ROUND[1:]
    assert texts(session)[:3] == ["Be brief.", "<user_info>\nOS\n</user_info>", "<user_query>\ngo\n</user_query>"]
    assert [request.model for request in session.requests] == ["m-x", "m-y"]
    whats = [note.what for note in session.notes]
    assert any("that the newest prompt does not hold" in what for what in whats)
    assert any("the tool's own state" in what for what in whats)
    lines = open_value(CURSOR_LINES, lines=True)
    assert texts(lines) == ["go", 'look {"at":"a"}', "done"]


def test_specstory(tmp_path: Path) -> None:
    (session,) = (thread.session for thread in threads(SPECSTORY.encode(), "a.md"))
    kinds = [(role, kind) for role, kind, _ in list_blocks(session)]
    assert kinds == [row[:2] for row in ROUND]
    assert (texts(session)[0], texts(session)[1], texts(session)[4]) == ("go", "hm", "done")
    assert texts(session)[3] == "_**User (2026-01-01 00:00:00Z)**_\nseen"
    assert (session.id, {request.model for request in session.requests}) == ("s-1", {"m-x"})
    assert [texts(branch)[-1] for branch in session.branches] == ["aside"]
    (tmp_path / "a.md").write_text(SPECSTORY)
    assert list_claims(tmp_path / "a.md") == ["specstory"]
    (tmp_path / "b.md").write_text(f"{SPECSTORY.partition('_**')[0]}```\n_**User**_\n```\n")  # a header in a fence alone
    with pytest.raises(turnscope.errors.TurnscopeError, match="holds no message"):
        turnscope.load(tmp_path / "b.md")
    opened = SPECSTORY.replace("\nseen\n```", "\nseen\n")  # a fence that nothing closes is none
    assert texts(threads(opened.encode(), "a.md")[0].session)[-1] == "done"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amp", AMP),
        ("lm-studio", LM_STUDIO),
        ("zed", ZED),
        ("zed", OLD_ZED),
        ("zed", TEXT_ZED),
        ("amazon-q", AMAZON_Q),
        ("amazon-q", NEWER_Q),
        ("kiro", KIRO),
        ("kiro", KIRO_EVENTS),
        ("kiro", KIRO_CHAT),
        ("antigravity", ANTIGRAVITY),
        ("cursor-cli", CURSOR_LINES),
    ],
)
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    lines = isinstance(value, list)
    path = tmp_path / "made.json"
    path.write_bytes(data_of(value, lines))
    assert list_claims(path) == [name]
    assert survives(value, lines=lines, count=34)


PLACES = [
    (find_msty, "windows", "config/Msty/msty.db"),
    (find_amp, "linux", "home/.local/share/amp/threads/T-1.json"),
    (find_amp, "macos", "config/Code/User/globalStorage/sourcegraph.amp/threads3/T-1.json"),
    (find_lm_studio, "windows", "home/.lmstudio/conversations/a/1.conversation.json"),
    (find_zed, "linux", "data/zed/threads/threads.db"),
    (find_zed, "macos", "data/Zed/threads/threads.db"),
    (find_amazon_q, "windows", "data/kiro-cli/data.sqlite3"),
    (find_kiro, "macos", "home/.kiro/sessions/cli/s.jsonl"),
    (find_kiro, "linux", "home/.kiro/sessions/w/sess_1/messages.jsonl"),
    (find_kiro, "windows", "config/Kiro/User/globalStorage/kiro.kiroagent/h/a.chat"),
    (find_antigravity, "macos", "home/.gemini/antigravity-cli/brain/i/.system_generated/logs/transcript_full.jsonl"),
    (find_cursor_cli, "linux", "home/.cursor/chats/h/s/store.db"),
    (find_cursor_cli, "windows", "home/.cursor/projects/p/agent-transcripts/i/i.jsonl"),
]


@pytest.mark.parametrize(("find", "system", "where"), PLACES)
def test_where_they_lie(find: Any, system: Any, where: str, tmp_path: Path) -> None:
    machine = Machine(system, tmp_path / "home", tmp_path / "config", tmp_path / "data", {})
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert [found for place in find(machine) for found in place.paths()] == [path]
