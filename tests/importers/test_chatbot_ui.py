"""Chatbot UI: the export of version 1, and rows of version 2's tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, survives, texts, threads
from turnscope.importers.chatbot_ui import IMPORTER

SAID = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>easy</think>4"}]


def v1(**more: Any) -> dict[str, Any]:
    chat = {"id": "1", "name": "A title", "model": {"id": "gpt-x", "tokenLimit": 8000}, "prompt": "Be brief.", "messages": SAID}
    return {
        "version": 4,
        "history": [chat, {**chat, "id": "2", "name": "Second", "model": {"id": "gpt-y"}}],
        "folders": [],
        "prompts": [],
        **more,
    }


CHATS = [
    {
        "id": "c1",
        "name": "A title",
        "model": "gpt-x",
        "prompt": "Be brief.",
        "context_length": 4096,
        "updated_at": "2024-01-01T00:00:09+00:00",
    }
]
ROWS = [
    {
        "id": "m2",
        "chat_id": "c1",
        "role": "assistant",
        "content": "4",
        "sequence_number": 1,
        "model": "gpt-x",
        "created_at": "2024-01-01T00:00:04+00:00",
    },
    {
        "id": "m1",
        "chat_id": "c1",
        "role": "user",
        "content": "2+2?",
        "sequence_number": 0,
        "image_paths": ["u/1.png"],
        "created_at": "2024-01-01T00:00:00+00:00",
    },
    {"id": "m3", "chat_id": "c2", "role": "user", "content": "hi", "sequence_number": 0},
]


def test_a_history_lists_its_chats() -> None:
    first, second = (thread.session for thread in threads(data_of(v1())))
    assert list_blocks(first) == [
        ("system", "system", "Be brief."),
        ("user", "text", "2+2?"),
        ("assistant", "thinking", "easy"),
        ("assistant", "text", "4"),
    ]
    assert (first.title, first.window, second.title, second.window) == ("A title", 8000, "Second", None)
    assert [session.requests[0].model for session in (first, second)] == ["gpt-x", "gpt-y"]


def test_older_exports_have_no_version_or_no_head() -> None:
    chats = [{"id": n, "name": f"Chat {n}", "messages": SAID} for n in (1, 2)]
    for value in (chats, {"history": chats, "folders": []}):
        one, two = (thread.session for thread in threads(data_of(value)))
        assert (one.source, one.title, two.title, list_blocks(one)) == (IMPORTER.name, "Chat 1", "Chat 2", list_blocks(two))
        assert texts(one) == ["2+2?", "easy", "4"]


def test_rows_are_put_in_their_order_with_or_without_their_chats() -> None:
    first, second = (thread.session for thread in threads(data_of({"chats": CHATS, "messages": ROWS})))
    assert [b.kind for b in first.blocks] == ["system", "text", "image", "text"]
    assert (first.window, first.requests[0].sent_at, texts(second)) == (4096, 1_704_067_200.0, ["hi"])
    for lines in (False, True):
        alone, _ = (thread.session for thread in threads(data_of(ROWS, lines), "made.jsonl"))
        assert [b.kind for b in alone.blocks] == ["text", "image", "text"]
        assert alone.requests[0].model == "gpt-x"


def test_odd_messages_are_told_and_nothing_breaks() -> None:
    odd = v1()
    odd["history"] = [{"id": "1", "messages": [*SAID, {"role": "oracle", "content": "x"}, 5]}]
    assert open_value(odd).notes[0].what.startswith("1 messages have no role")
    assert survives(v1())
    assert survives({"chats": CHATS, "messages": ROWS})
    assert survives(ROWS, lines=True)


def test_the_real_export_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "chatbot-ui", "chatbotui-export.json")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert [[m.role for m in session.messages] for session in sessions] == [
        ["system", *["user", "assistant"] * 2],
        ["system", "user", "assistant"],
    ]
    assert [(session.requests[0].model, session.window) for session in sessions] == [
        ("gpt-4-1106-preview", 128_000),
        ("gpt-3.5-turbo", None),
    ]


@pytest.mark.parametrize("window", [-1, 2**63])
def test_a_window_that_is_no_count_is_noted(window: int) -> None:
    chat = v1()
    chat["history"][0]["model"]["tokenLimit"] = window
    session = open_value(chat)
    assert session.window is None
    assert [note.what.partition(" cannot")[0] for note in session.notes] == (["the log's context window"] if window > 0 else [])
