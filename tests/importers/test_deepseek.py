"""DeepSeek's data export."""

from __future__ import annotations

from typing import Any

from formats import data_of, list_blocks, open_value, survives, texts, threads


def node(id: str, parent: str | None, at: int, *fragments: tuple[str, str], model: str | None = None) -> dict[str, Any]:
    held = [{"type": type, "content": content} for type, content in fragments]
    message = {"files": [], "model": model, "inserted_at": f"2026-01-02T00:00:0{at}Z", "fragments": held}
    return {"id": id, "parent": parent, "children": [], "message": message}


NODES = [
    node("1", "root", 1, ("REQUEST", "go")),
    node("2", "1", 2, ("THINK", "hm"), ("RESPONSE", "one"), model="deepseek-chat"),
    node("3", "1", 3, ("THINK", "well"), ("SEARCH", "x"), ("RESPONSE", "two"), model="deepseek-reasoner"),
]
ROOT = {"id": "root", "parent": None, "children": ["1"], "message": None}
MAPPING = {"root": ROOT, **{one["id"]: one for one in NODES}}
CHATS = [
    {
        "id": "a",
        "title": "A chat",
        "inserted_at": "2026-01-02T00:00:00Z",
        "updated_at": "2026-01-02T00:01:00Z",
        "mapping": MAPPING,
    },
    {"id": "b", "title": "Other", "mapping": {"root": ROOT, "1": NODES[0]}},
]


def test_the_tree_with_its_branches() -> None:
    first, second = (thread.session for thread in threads(data_of(CHATS)))
    assert (first.source, first.title, second.title) == ("deepseek", "A chat", "Other")
    assert list_blocks(first) == [("user", "text", "go"), ("assistant", "thinking", "well"), ("assistant", "text", "two")]
    assert [texts(branch) for branch in first.branches] == [["go", "hm", "one"]]
    assert [request.model for request in first.requests] == ["deepseek-reasoner"]
    assert any("fragment SEARCH" in note.what for note in first.notes)


def test_one_conversation_alone_and_nothing_breaks() -> None:
    assert open_value(CHATS[0]).source == "deepseek"
    assert survives(CHATS, count=40)
