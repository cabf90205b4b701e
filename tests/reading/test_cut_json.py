"""JSON documents that end too early: what is whole is opened, with a note that says where they end."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import turnscope
from hypothesis import given
from hypothesis import strategies as st
from turnscope.errors import BrokenFile, TurnscopeError, UnknownFormat
from turnscope.reading.cut_json import close_document
from turnscope.reading.source import Source
from turnscope.session.model import Session

SAID = [{"uuid": f"{who} {n}", "sender": who, "text": f"{who} {n}"} for n in range(4) for who in ("human", "assistant")]
CHATS = [{"uuid": id, "name": "A chat", "chat_messages": SAID} for id in ("c1", "c2", "c3")]
MESSAGES = {"messages": [{"role": role, "content": f'{role} [{n}] "}}'} for n in range(9) for role in ("user", "assistant")]}
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(['"', "\\", "[{", "}]", ",", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def write_cut(path: Path, value: Any, share: float) -> Path:
    text = json.dumps(value, indent=1)
    path.write_text(text[: int(len(text) * share)])
    return path


def find_cut(session: Session) -> str:
    (note,) = (note for note in session.notes if "ends too early" in note.what)
    assert note.severity == "warning"
    return note.what


def test_the_messages_before_the_end_are_opened(tmp_path: Path) -> None:
    whole = turnscope.load(write_cut(tmp_path / "whole.json", MESSAGES, 1))
    text = json.dumps(MESSAGES, indent=1)
    end = text.index("user [6]")  # in the middle of a message's content
    (tmp_path / "cut.json").write_text(text[:end])
    session = turnscope.load(tmp_path / "cut.json")
    assert [block.text for block in session.blocks] == [block.text for block in whole.blocks[:12]]
    lines = text[:end].split("\n")
    lost = end - text.index("},", text.index("assistant [5]")) - 1
    where = f"the file ends too early, at line {len(lines)}, column {len(lines[-1])}"
    assert find_cut(session) == f"{where}: its last {lost} bytes are no whole item and were left out"
    assert session.notes[0].what == find_cut(session)


def test_of_an_export_the_whole_conversations_are_opened_and_each_has_the_note(tmp_path: Path) -> None:
    path = write_cut(tmp_path / "conversations.json", CHATS, 0.9)
    sessions = [turnscope.load(path, entry) for entry in turnscope.entries(path)]
    assert [session.id for session in sessions] == ["c1", "c2"]
    assert len({find_cut(session) for session in sessions}) == 1


def test_a_field_behind_the_messages_may_be_cut(tmp_path: Path) -> None:
    path = write_cut(tmp_path / "a.json", {**MESSAGES, "model": "m", "about": {"key": "x" * 99}}, 0.99)
    session = turnscope.load(path)
    assert (len(session.messages), session.requests[0].model) == (18, "m")
    assert "bytes are no whole item and were left out" in find_cut(session)


def test_notes_come_from_files_inside_as_well(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path = write_cut(tmp_path / "folder" / "a.json", CHATS, 0.8)
    write_cut(tmp_path / "folder" / "b.json", MESSAGES, 0.5)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in (path, path.with_name("b.json")):
            archive.write(file, file.name)
    for whole in (path.parent, tmp_path / "all.zip"):
        found = [turnscope.load(whole, entry) for entry in turnscope.entries(whole)]
        assert len(found) == 3
        assert all(find_cut(session) for session in found)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param('{"messages": [{"role": "user", "content": "go', "a.json", id="no message is whole"),
        pytest.param(json.dumps(MESSAGES).replace('"assistant"', '"assistant', 1), "a.json", id="it breaks in its middle"),
        pytest.param(json.dumps(MESSAGES)[:-9], "a.jsonl", id="a line that a tool is writing"),
        pytest.param('{"mapping": {"a": {"id": "a", "message"', "a.json", id="no list is open"),
        pytest.param('[{"recipe": 1}, {"recipe"', "a.json", id="no format has it"),
        pytest.param('[{"recipe": 1]', "a.json", id="brackets that do not fit"),
    ],
)
def test_what_cannot_be_opened_is_refused_as_before(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UnknownFormat, match=r"is damaged JSON: .* at line 1, column "):
        turnscope.load(tmp_path / name)


def test_a_file_without_a_whole_message_says_where_it_ends(tmp_path: Path) -> None:
    path = write_cut(tmp_path / "conversations.json", [{**CHATS[0], "chat_messages": []}, CHATS[1]], 0.9)
    with pytest.raises(BrokenFile, match="holds no message: the file ends too early, at line ") as caught:
        turnscope.load(path)
    assert caught.value.hint == "Copy or export it again."


@given(JSONS, st.floats(0, 1))
def test_items_are_those_of_the_whole_document(value: Any, share: float) -> None:
    data = json.dumps([value, value]).encode()
    whole = close_document(Source(Path("/nowhere/a.json"), data[: int(len(data) * share)]))
    if whole is not None:
        assert is_part(whole.document, json.loads(data))


def is_part(some: Any, whole: Any) -> bool:
    """Whether lists hold the first items, and objects the first keys, and everything but the last of them is the same."""
    if isinstance(some, list) and isinstance(whole, list):
        return some == whole[: len(some)] or (some[:-1] == whole[: len(some) - 1] and is_part(some[-1], whole[len(some) - 1]))
    if isinstance(some, dict) and isinstance(whole, dict):
        keys = list(some)
        return keys == list(whole)[: len(keys)] and all(is_part(some[key], whole[key]) for key in keys)
    return bool(some == whole)


def test_real_files_open_with_a_note_or_not_at_all(shared: Callable[..., Path], tmp_path: Path) -> None:
    opened = 0
    for path in sorted(shared("data", "open").glob("*/*.json")):
        data = path.read_bytes()
        for share in (0.3, 0.6, 0.95):
            (tmp_path / path.name).write_bytes(data[: int(len(data) * share)])
            with suppress(TurnscopeError):
                assert find_cut(turnscope.load(tmp_path / path.name))
                opened += 1
    assert opened > 20
