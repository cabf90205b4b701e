"""Claude.ai exports: a list, one conversation, with and without parents; blocks of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnscope
from formats import data_of, list_blocks, list_claims, open_value, pairs, survives, texts, threads
from turnscope.importers.claude_ai import IMPORTER

ROOT = "00000000-0000-4000-8000-000000000000"


def make_message(id: str, sender: str, *content: Any, text: str = "", second: int = 0, **more: Any) -> dict[str, Any]:
    at = f"2025-06-15T10:00:{second:02}Z"
    about = {"created_at": at, "updated_at": at, "attachments": [], "files": []}
    return {"uuid": id, "sender": sender, "text": text, "content": list(content), **about, **more}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "citations": []}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {
        "uuid": "c1",
        "name": "A title",
        "updated_at": "2025-06-15T10:00:05Z",
        "account": {"uuid": "a"},
        "chat_messages": list(messages),
        **more,
    }


SEARCH = {"type": "tool_use", "id": None, "name": "search", "input": {"q": "x"}}
FOUND = {
    "type": "tool_result",
    "tool_use_id": None,
    "name": "search",
    "content": [{"type": "text", "text": "found"}],
    "is_error": False,
}
ANSWER = [
    {"type": "thinking", "thinking": "hm", "summaries": []},
    words("Looking."),
    SEARCH,
    FOUND,
    words("It is 4."),
    {"type": "token_budget"},
]
OLD = [
    make_message(
        "m1",
        "human",
        words("what?"),
        text="what?",
        attachments=[{"file_name": "a.txt", "extracted_content": "file a"}],
        files=[{"file_uuid": "f"}],
    ),
    make_message("m2", "assistant", *ANSWER, second=4),
]
TREE = [
    make_message("m1", "human", words("what?"), parent_message_uuid=ROOT),
    make_message("m2", "assistant", words("four"), second=1, parent_message_uuid="m1"),
    make_message("m3", "assistant", words("4"), second=2, parent_message_uuid="m1"),
    make_message("m4", "human", words("and?"), second=3, parent_message_uuid="m2"),
]


def test_an_old_export_is_a_list_whose_answers_hold_their_tools() -> None:
    session = open_value([chat(*OLD)])
    assert list_blocks(session) == [
        ("user", "files", "file a"),
        ("user", "text", "what?"),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "Looking."),
        ("assistant", "tool_use", 'search {"q":"x"}'),
        ("user", "tool_result", "found"),
        ("assistant", "text", "It is 4."),
    ]
    assert (pairs(session), len(session.requests), session.title) == (1, 2, "A title")
    assert [note.what.split("'")[1] for note in session.notes] == ["file without its content", "block token_budget"]


def test_parents_make_a_tree_and_a_captured_one_names_its_leaf() -> None:
    newest = open_value([chat(*TREE)])
    assert texts(newest) == ["what?", "four", "and?"]
    assert [texts(branch) for branch in newest.branches] == [["what?", "4"]]
    captured = open_value(chat(*TREE, current_leaf_message_uuid="m3", model="claude-x"))
    assert (texts(captured), captured.requests[0].model) == (["what?", "4"], "claude-x")


def test_text_is_read_where_no_block_has_it_and_nothing_breaks() -> None:
    blank = open_value(
        [chat(make_message("m1", "human", text="only here"), make_message("m2", "assistant", words(""), text=""))]
    )
    assert [(b.kind, b.text) for b in blank.blocks] == [("text", "only here"), ("empty", "")]
    assert len(blank.requests) == 1
    two = [chat(*OLD), {**chat(*TREE), "uuid": "c1", "name": ""}]
    assert [thread.session.title for thread in threads(data_of(two))] == ["A title", "what?"]
    assert survives(two, count=50)


def test_the_real_export_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "claude-ai", "claude_example.json")
    assert list_claims(path) == [IMPORTER.name]
    assert len(list(turnscope.entries(path))) == 85
    sessions = turnscope.load_all(path)
    messages = [message for session in sessions for message in session.messages]
    assert [sum(m.origin == origin for m in messages) for origin in ("prompt", "answer")] == [283, 274]
    assert sum(len(session.requests) for session in sessions) == 274
    assert sum(b.kind == "empty" for session in sessions for b in session.blocks) == 547
    assert all(not session.branches for session in sessions)
