"""Conversations in ShareGPT's form."""

from __future__ import annotations

from pathlib import Path

from formats import data_of, list_blocks, list_claims, open_value, survives, threads

CHATS = [
    {
        "id": "a",
        "model": "m-x",
        "system": "Be brief.",
        "conversations": [
            {"from": "human", "value": "go"},
            {"from": "gpt", "value": "<think>hm</think>done"},
            {"from": "tool", "value": "seen"},
            {"from": "nobody", "value": "odd"},
        ],
    },
    {"id": "b", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]},
]


def test_each_conversation_is_a_session(tmp_path: Path) -> None:
    for lines in (False, True):
        first, second = (thread.session for thread in threads(data_of(CHATS, lines)))
        assert list_blocks(first) == [
            ("system", "system", "Be brief."),
            ("user", "text", "go"),
            ("assistant", "thinking", "hm"),
            ("assistant", "text", "done"),
            ("user", "text", "seen"),
        ]
        assert ([request.model for request in first.requests], len(second.requests)) == (["m-x"], 1)
        assert [note.what[:41] for note in first.notes][:1] == ["1 record of kind 'message from nobody' (3"]
    (tmp_path / "made.json").write_bytes(data_of(CHATS))
    assert list_claims(tmp_path / "made.json") == ["sharegpt"]


def test_one_alone_and_nothing_breaks() -> None:
    assert open_value(CHATS[1]).id == "b"
    assert survives(CHATS, count=40)


def test_a_line_that_cannot_be_read_is_told_of() -> None:
    first, *rest = data_of(CHATS, lines=True).splitlines(keepends=True)
    found = threads(b"".join([first, b'{"id": "c", "conv\n', *rest]), "made.jsonl")
    assert all(any("not readable as JSON" in note.what for note in thread.session.notes) for thread in found)


def test_other_keys_of_the_same_form() -> None:
    told = [("user", "text", "go"), ("assistant", "text", "done")]
    plain = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]
    older = [{"from": "human", "value": "go"}, {"from": "gpt", "value": "done"}]
    for value in ({"conversations": plain}, {"id": "a", "items": older}):
        assert list_blocks(open_value([value])) == told
    session = open_value([{"conversations": older, "chosen": {"from": "gpt", "value": "x"}, "rejected": None}])
    assert "of kind 'chosen, an answer that a data set compares'" in session.notes[0].what
