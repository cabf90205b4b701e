"""Grok's export: responses that name their parents."""

from __future__ import annotations

from typing import Any

from formats import data_of, list_blocks, open_value, survives, texts, threads
from turnscope.importers.grok import IMPORTER


def response(id: str, above: str | None, sender: str, message: str, second: int) -> dict[str, Any]:
    at = {"$date": {"$numberLong": str(1_767_225_600_000 + 1_000 * second)}}
    row = {"_id": id, "parent_response_id": above, "sender": sender, "message": message, "create_time": at, "model": "grok-3"}
    return {"response": row}


SAID = [
    response("1", None, "human", "2+2?", 0),
    response("2", "1", "assistant", "5", 3),
    response("3", "1", "ASSISTANT", "<think>easy</think>4", 4),
]
CHAT: dict[str, Any] = {"conversation": {"id": "c", "title": "T", "create_time": "2026-01-01T00:00:00Z"}, "responses": SAID}
EXPORT = {"conversations": [CHAT, {**CHAT, "conversation": {"id": "d", "title": "Second"}}], "projects": []}


def test_conversations_with_their_branches() -> None:
    one, two = threads(data_of(EXPORT))
    assert (one.session.source, one.session.title, two.session.title) == (IMPORTER.name, "T", "Second")
    assert list_blocks(one.session) == [("user", "text", "2+2?"), ("assistant", "thinking", "easy"), ("assistant", "text", "4")]
    assert [texts(branch) for branch in one.session.branches] == [["2+2?", "5"]]
    (request,) = one.session.requests
    assert (request.model, (request.answered_at or 0) - (request.sent_at or 0)) == ("grok-3", 4)


def test_nothing_breaks() -> None:
    odd = open_value({"conversations": [{**CHAT, "responses": [*SAID, response("4", "3", "tool", "x", 5)]}]})
    assert any("response of tool" in note.what for note in odd.notes)
    assert survives(EXPORT, count=40)


def test_thoughts_apart_and_fields_that_are_not_read() -> None:
    more = {"thinking_trace": "hm", "web_search_results": [{"url": "u"}], "file_attachments": [], "partial": False}
    answer = {"response": response("2", "1", "assistant", "5", 3)["response"] | more}
    session = open_value({"conversations": [{**CHAT, "responses": [SAID[0], answer]}]})
    assert list_blocks(session)[1:] == [("assistant", "thinking", "hm"), ("assistant", "text", "5")]
    assert session.notes[0].what[:45] == "1 record of kind 'field web_search_results' ("
