"""What an app stores with its messages comes along: its policy does to an imported chat what the app does to the stored one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from formats import open_value
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.ports.jan.messages import add_files, join_messages, repair_calls
from turnscope.ports.lobechat.shaping import FAILED, Shape, prepare_messages
from turnscope.ports.openwebui.messages import convert_messages, drop_blanks, load_messages
from turnscope.reading.jan_threads import convert_message, split_waves
from turnscope.session.model import Request, Session

from tests.goldens._apps import list_sent


def make_plans(session: Session, name: str) -> list[Plan]:
    return list(replay(session, load(name), build_ledger(session, CHARS)))


def simplify(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages without what only a provider's form tells: parsed arguments, a list that holds one text."""
    found = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
            content = content[0]["text"]
        calls = [
            (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", ())
        ]
        found.append((message["role"], content or "", calls, message.get("tool_call_id")))
    return found


CALL = {"id": "c1", "identifier": "look.up", "apiName": "search", "arguments": '{"q": "tide"}', "type": "default"}
TOPIC: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "content": "find"},
    {"id": "a1", "role": "assistant", "content": "", "parentId": "u1", "tools": [CALL, {**CALL, "id": "c2", "type": "mcp"}]},
    {"id": "t1", "role": "tool", "content": "", "tool_call_id": "c1", "parentId": "a1", "pluginError": {"message": "bad"}},
    {"id": "a2", "role": "assistant", "content": "so", "parentId": "t1", "metadata": {"reactions": [{"emoji": "+"}]}},
    {"id": "u2", "role": "user", "content": "see", "imageList": [{"id": "i", "url": "https://example.test/a.png", "alt": "a"}]},
    {"id": "g", "role": "compressedGroup", "content": "what was"},
    {"id": "u3", "role": "user", "content": "and now"},
]


def test_a_lobehub_topic_is_sent_as_the_app_would() -> None:
    rows = [{**row, "createdAt": f"2026-01-01T00:00:{n:02}Z"} for n, row in enumerate(TOPIC)]
    session = open_value({"version": "2.0", "title": "T", "exportedAt": "2026-01-01T00:01:00Z", "messages": rows})
    session = ask_again(session)
    said = list_sent(session, make_plans(session, "lobehub-2026")[-1], "")
    assert simplify(said) == simplify([made.message for made in prepare_messages(TOPIC, Shape(files=True))])
    assert FAILED in [message["content"] for message in said]


def ask_again(session: Session) -> Session:
    """The session with one more request, which asks what its last message asks."""
    turn, end = session.blocks[-1].turn, len(session.blocks)
    return structs.replace(session, requests=(*session.requests, Request(len(session.requests), turn, end, end)))


OUTPUT = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "easy"}]},
    {"type": "function_call", "call_id": "f", "name": "calc", "arguments": '{"e": 1}', "status": "completed"},
    {"type": "function_call_output", "call_id": "f", "output": [{"type": "input_text", "text": "4"}]},
    {"type": "function_call", "call_id": "lost", "name": "calc", "arguments": "{}", "status": "in_progress"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is 4."}]},
]
DETAILS = '<details type="reasoning" done="true"><summary>s</summary>&gt; hm</details>Yes.'


def test_an_open_webui_chat_is_sent_as_its_stored_items() -> None:
    about = {"timestamp": 1_750_000_000, "model": "m"}
    path = [
        {"id": "u1", "parentId": None, "role": "user", "content": "2+2?", **about},
        {"id": "a1", "parentId": "u1", "role": "assistant", "content": "It is 4.", "output": OUTPUT, **about},
        {"id": "u2", "parentId": "a1", "role": "user", "content": "sure?", **about},
        {"id": "a2", "parentId": "u2", "role": "assistant", "content": DETAILS, "usage": {"prompt_tokens": 9}, **about},
        {"id": "u3", "parentId": "a2", "role": "user", "content": "ok", **about},
        {"id": "a3", "parentId": "u3", "role": "assistant", "content": "Bye.", **about},
    ]
    session = open_value([{"id": "c", "chat": {"history": {"messages": {m["id"]: m for m in path}, "currentId": "a3"}}}])
    plans = make_plans(session, "openwebui")
    assert simplify(list_sent(session, plans[-1], "")) == simplify(drop_blanks(convert_messages(load_messages(path[:5]))))
    amid = list_sent(session, plans[1], "")  # the second request of the first answer: nothing of what came later is in it
    assert [message["role"] for message in amid] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("threshold", [1, 100_000])
def test_an_open_webui_chat_is_compacted_by_its_stored_usage(threshold: int) -> None:
    about = {"timestamp": 1_750_000_000, "model": "m"}
    used = {"prompt_tokens": 90_000, "completion_tokens": 10}
    path = [
        {
            "id": f"{role[0]}{n}",
            "parentId": up,
            "role": role,
            "content": f"{role} {n}",
            "usage": used if n == 1 else {},
            **about,
        }
        for n in range(4)
        for role, up in (("user", f"a{n - 1}" if n else None), ("assistant", f"u{n}"))
    ]
    session = open_value([{"id": "c", "chat": {"history": {"messages": {m["id"]: m for m in path}, "currentId": "a3"}}}])
    chosen = load("openwebui-compaction")
    own = [
        replace(s, params=replace(s.params, threshold=threshold)) if hasattr(s.params, "threshold") else s for s in chosen.rules
    ]
    plans = list(replay(session, replace(chosen, rules=tuple(own)), build_ledger(session, CHARS)))
    tokens = [d.edit.facts["tokens"] for plan in plans for d in plan.decisions if "threshold" in d.edit.facts]
    assert (90_010 + 4 + 1 in tokens) is (threshold == 1)  # the usage, and the question after it


def test_a_jan_thread_is_sent_by_its_stored_parts() -> None:
    def part(text: str) -> dict[str, Any]:
        return {"type": "text", "text": {"value": text, "annotations": []}}

    call = {"type": "tool_call", "tool_call_id": "c", "tool_name": "calc", "input": {"e": 1}, "output": "4"}
    files = {"inline_file_contents": [{"name": "a.txt", "content": "file a"}]}
    rows = [
        {"id": "u1", "role": "user", "content": [part("2+2?")], "metadata": files},
        {"id": "a1", "role": "assistant", "content": [part("before<think>hm</think>Let me."), call, part("It is 4.")]},
        {"id": "u2", "role": "user", "content": [part(" thanks ")]},
        {"id": "a2", "role": "assistant", "content": [part("Bye.")]},
    ]
    rows = [{"object": "thread.message", "created_at": n, "metadata": {}, **row} for n, row in enumerate(rows)]
    session = open_value(rows, lines=True)
    plan = make_plans(session, "jan")[-1]
    shown = [{**convert_message(row), "metadata": row["metadata"]} for row in rows[:3]]
    texts = [
        p["text"]
        for m in join_messages(repair_calls(map(add_files, split_waves(shown))))
        for p in m["parts"]
        if p["type"] == "text"
    ]
    said = [p.text for piece in plan.after.pieces for p in piece.body or () if p.kind == "text"]
    verbatim = [
        b.text.strip() for piece in plan.after.pieces if piece.body is None for b in session.blocks[piece.start : piece.stop]
    ]
    assert [text for text in texts if text not in said + verbatim] == []
    assert any("File: a.txt" in text for text in said + verbatim)
