"""Le Chat, Perplexity, and what Copilot Chat's debug view exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads

LE_CHAT = [
    {"id": "a", "chatId": "c", "role": "user", "content": "go", "createdAt": "2026-01-01T00:00:00Z", "files": [{"name": "f"}]},
    {
        "id": "b",
        "chatId": "c",
        "role": "assistant",
        "content": "",
        "createdAt": "2026-01-01T00:00:09Z",
        "contentChunks": [
            {"type": "tool_call", "id": "t", "name": "look", "arguments": '{"at": "a"}', "result": "seen"},
            {"type": "text", "text": "done"},
            {"type": "reference", "referenceIds": [1]},
        ],
    },
]
PERPLEXITY = {
    "status": "completed",
    "entries": [
        {
            "uuid": "e",
            "context_uuid": "t",
            "thread_title": "A thread",
            "query_str": "go",
            "display_model": "m-x",
            "updated_datetime": "2026-01-01T00:00:00Z",
            "blocks": [
                {
                    "intended_usage": "plan",
                    "plan_block": {
                        "steps": [
                            {"uuid": "s", "step_type": "SEARCH_WEB", "search_web_content": {"queries": [{"query": "a"}]}},
                            {"uuid": "r", "step_type": "RESULTS", "web_results_content": {"web_results": [{"name": "n"}]}},
                        ]
                    },
                },
                {"intended_usage": "ask_text", "markdown_block": {"chunks": ["do", "ne"], "answer": "done"}},
                {"intended_usage": "ask_text_0", "markdown_block": {"chunks": ["do", "ne"], "answer": "done"}},
                {"intended_usage": "media_items", "media_block": {}},
            ],
        }
    ],
}
THREADS = {
    "threads": [
        {
            "thread_id": name,
            "title": name,
            "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done", "citations": ["u"]}],
        }
        for name in ("one", "two")
    ]
}


def raw(role: int, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts), **more}


def words(text: str) -> dict[str, Any]:
    return {"type": 1, "text": text}


def log(messages: list[Any], answer: list[Any], usage: tuple[int, int]) -> dict[str, Any]:
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "prompt_tokens_details": {"cached_tokens": 5}}
    about = {"model": "m-x", "usage": counts, "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}
    return {
        "id": str(usage),
        "kind": "request",
        "metadata": {**about, "startTime": "2026-01-01T00:00:00Z"},
        "requestMessages": {"messages": messages},
        "response": {"type": "success", "message": answer},
    }


CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
ASK = [raw(0, words("Be brief.")), raw(1, words("go"), {"type": 3, "cacheType": "ephemeral"})]
THOUGHT = {"type": 2, "value": {"type": "thinking", "thinking": {"text": "hm"}}}
AGAIN = [*ASK, raw(2, THOUGHT, toolCalls=[CALL]), raw(3, words("seen"), toolCallId="c")]
REPLAY = {
    "exportedAt": "2026-01-01T00:00:00Z",
    "totalPrompts": 1,
    "prompts": [
        {
            "prompt": "go",
            "logs": [
                log(ASK, [], (20, 3)),
                {"kind": "toolCall", "tool": "look", "args": {}, "response": ["seen"]},
                {"kind": "element", "name": "odd"},
                log(AGAIN, ["done"], (40, 7)),
            ],
        }
    ],
}


def test_le_chat() -> None:
    session = open_value(LE_CHAT)
    assert list_blocks(session) == [
        ("user", "text", "go"),
        ("assistant", "tool_use", 'look {"at":"a"}'),
        ("user", "tool_result", "seen"),
        ("assistant", "text", "done"),
    ]
    assert (session.id, pairs(session), len(session.requests)) == ("c", 1, 2)
    assert {note.what.split("'")[1] for note in session.notes if "'" in note.what} == {"files", "chunk reference"}


def test_perplexity() -> None:
    session = open_value(PERPLEXITY)
    assert [row[1] for row in list_blocks(session)] == ["text", "tool_use", "tool_result", "text"]
    assert (texts(session)[0], texts(session)[-1], pairs(session)) == ("go", "done", 1)
    assert (session.title, session.requests[0].model) == ("A thread", "m-x")
    assert [thread.session.title for thread in threads(data_of(THREADS))] == ["one", "two"]


def test_a_replay_of_copilot_chat_is_exact() -> None:
    session = open_value(REPLAY)
    assert [row for row in list_blocks(session) if row[0] != "tools"] == [
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "tool_use", 'look {"at":"a"}'),
        ("user", "tool_result", "seen"),
        ("assistant", "text", "done"),
    ]
    assert (pairs(session), len(session.requests)) == (1, 2)
    assert (prompt_tokens(session), output_tokens(session)) == (60, 10)
    assert any("'element'" in note.what for note in session.notes)


@pytest.mark.parametrize(
    ("name", "value"),
    [("le-chat", LE_CHAT), ("perplexity", PERPLEXITY), ("perplexity", THREADS), ("copilot-replay", REPLAY)],
)
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_bytes(data_of(value))
    assert list_claims(path) == [name]
    assert survives(value, count=34)
