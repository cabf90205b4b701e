"""Files that are broken, foreign or hostile: a typed error with a hint, or notes with line numbers; never anything else."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import turnscope
from claude_log import Log, call
from conftest import SHARED, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from turnscope.errors import BrokenFile, TurnscopeError, UnknownFormat, UnreadableFile
from turnscope.reading.contents import read_entry, read_source
from turnscope.reading.source import Source
from turnscope.session.builder import Builder
from turnscope.session.model import Session

NO_VALUES: list[Any] = [None, True, -1, 10**30, float("nan"), "\ud800", [None], {"a": []}]
DEEP = 100_000


def open_data(data: bytes, name: str = "s1.jsonl") -> Session | None:
    """What a person would open: the session with everything on its page; None where it is refused as it should be."""
    source = Source(Path("/nowhere") / name, data)
    try:
        sessions = read_source(source)
    except TurnscopeError as error:
        if not error.what or not error.hint:
            pytest.fail(f"{error!r} does not say what to do")
        return None
    for session in sessions:
        for one in everyone(session):
            view = turnscope.overview(one)
            assert len(view) == len(one.requests)
            has = view.recorded >= 0
            assert (view.cells.sum(axis=1)[has] == view.recorded[has]).all()
            assert (view.billed[:, :, :3].sum(axis=(1, 2)) == np.where(has, view.recorded, 0)).all()
            for request, total, cells in zip(one.requests, view.totals, view.usd.sum(axis=1) + view.answer_usd, strict=True):
                if not (request.usage and request.usage.iterations):  # further passes have a price, but no cells
                    assert float(total or 0) == pytest.approx(cells)
            for note in one.notes:
                assert note.line >= 0
                assert note.what
    return sessions[0]


def everyone(session: Session) -> Iterator[Session]:
    yield session
    for other in (*session.subagents, *session.branches):
        yield from everyone(other)


def make_full_log() -> Log:
    """A made-up session with everything that a file may hold."""
    log = Log()
    log.add_bare(type="summary", summary="A title", leafUuid="u3")
    log.add_bare(type="ai-title", aiTitle="Another", sessionId="s1")
    log.user("hello")
    log.line("attachment", attachment={"type": "skill_listing", "content": ["- review"]})
    log.line("system", subtype="api_error", retryAttempt=1)
    iterations = [{"type": "compaction", "input_tokens": 5, "output_tokens": 2}]
    log.answer(
        "m1", call("t1", "Task", prompt="look"), usage={"input_tokens": 10, "output_tokens": 4, "iterations": iterations}
    )
    log.line(
        "progress", data={"type": "agent_progress", "agentId": "b", "message": {"type": "user", "message": {"content": "q"}}}
    )
    log.result("t1", [{"type": "text", "text": "found"}], toolUseResult={"agentId": "a"})
    log.line("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"], "preTokens": 9})
    log.answer("m2", {"type": "thinking", "thinking": "hm"}, usage=(5, 60, 500, 8))
    log.compact(preservedSegment={"headUuid": "u6", "anchorUuid": "u11", "tailUuid": "u8"}, preservedMessages={"uuids": ["u3"]})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    log.user([{"type": "text", "text": "look"}, image, {"type": "document", "source": {"type": "text", "data": "page"}}])
    log.answer("m3", "Yes.", {"type": "server_tool_use", "id": "w", "name": "web_search"}, usage=(5, 60, 500, 8))
    side = Log("s1", "a")
    side.user("look")
    side.answer("a1", "found", usage=(1, 2, 3, 4))
    log.lines += side.lines
    return log


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def replace_value(lines: list[Any], path: tuple[Any, ...], value: Any) -> bytes:
    """The lines as a file, with another value at the end of `path`."""
    changed = [*lines]
    changed[path[0]] = copy.deepcopy(lines[path[0]])
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return format_lines(changed)


def format_lines(lines: list[Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


# What is not a session --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\n \r\n\t\n"], ids=["nothing", "blanks"])
def test_an_empty_file_is_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"empty\.jsonl is empty") as caught:
        turnscope.load(file)
    assert caught.value.hint


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(random.Random(1).randbytes(100_000), id="noise"),
        pytest.param(b"\x00" * 10_000, id="zeros"),
        pytest.param(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", id="an image"),
        pytest.param(gzip.compress(make_full_log().text().encode()), id="a compressed session"),
        pytest.param(make_full_log().text().encode("utf-16"), id="UTF-16"),
        pytest.param(b"just some text\nwithout any JSON\n", id="prose"),
        pytest.param(b"a,b\n1,2\n", id="a table"),
        pytest.param(b"<html><body>no</body></html>", id="a page"),
        pytest.param(b"\xff\xfe\xfd", id="no UTF-8"),
        pytest.param(b"null", id="null"),
        pytest.param(b"0", id="a number"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"[]", id="an empty list"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b"[[[[]]]]\n{}\n", id="lists"),
        pytest.param(b'{"type": "user"}\n', id="a line with a type alone"),
    ],
)
def test_what_is_no_session_is_refused_with_a_hint(data: bytes) -> None:
    with pytest.raises((UnknownFormat, BrokenFile)) as caught:
        read_source(Source(Path("/nowhere/thing.bin"), data))
    assert "thing.bin" in caught.value.what
    assert caught.value.hint


def test_a_document_that_breaks_off_says_where(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text('[\n  {"title": "x",\n   "mapping": {"a": {"id')
    with pytest.raises(UnknownFormat, match=r"damaged JSON: Unterminated string .* at line 3, column 22") as caught:
        turnscope.load(path)
    assert caught.value.hint.startswith("40 of 43 characters could be read.")
    assert caught.value.tried == ()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is a folder") as caught:
        turnscope.load(tmp_path)
    assert "files inside" in caught.value.hint


@pytest.mark.parametrize("path", ["missing.jsonl", "missing/too.jsonl", "nul\0.jsonl", "n" * 300])
def test_a_path_to_nothing_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="cannot be read") as caught:
        turnscope.load(tmp_path / path)
    assert caught.value.hint == "Check the path and its permissions."


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_full_log().save(tmp_path / "s1.jsonl")
    file.chmod(0)
    if os.access(file, os.R_OK):  # an administrator may read everything

        def refuse(path: Path, *_: object, **__: object) -> bytes:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableFile, match=r"s1\.jsonl cannot be read: Permission denied"):
        turnscope.load(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UnreadableFile, match="no regular file"):
        turnscope.load(tmp_path / "pipe.jsonl")


def test_a_session_in_which_nothing_was_said_is_refused() -> None:
    log = Log()
    log.add_bare(type="file-history-snapshot", messageId="x", snapshot={})
    log.line("system", subtype="stop_hook_summary")
    with pytest.raises(BrokenFile, match="holds no message"):
        read_source(Source(Path("/nowhere/s1.jsonl"), log.text().encode()))


# What is broken in part -------------------------------------------------------------------------------------------------


@pytest.mark.thorough(every=8)
@pytest.mark.parametrize("line", range(len(make_full_log().lines)))
def test_any_field_may_hold_another_json_type(line: int) -> None:
    lines: list[Any] = make_full_log().lines
    for value in NO_VALUES:
        open_data(replace_value(lines, (line,), value))
    for n, path in enumerate(places(lines[line], (line,))):
        for value in NO_VALUES[n % 4 :: 4]:  # some of them at one place, others at the next
            open_data(replace_value(lines, path, value))


@pytest.mark.thorough
def test_every_field_may_be_missing() -> None:
    lines: list[Any] = make_full_log().lines
    for path in places(lines):
        changed = copy.deepcopy(lines)
        holder: Any = changed
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        open_data(format_lines(changed))


def test_a_file_may_end_anywhere() -> None:
    data = make_full_log().text().encode()
    for stop in range(1, len(data), 17):
        open_data(data[:stop])


@pytest.mark.thorough
def test_a_file_may_begin_anywhere() -> None:
    data = make_full_log().text().encode()
    for start in range(1, len(data), 17):
        open_data(data[start:])


def test_lines_that_cannot_be_read_are_named() -> None:
    lines = make_full_log().text().splitlines(keepends=True)
    wrong = ["{broken\n", "[1, 2]\n", "null\n", '{"type": "user", "message": {"content": "x"}}\n', "\x00\x01\n"]
    session = open_data("".join([*lines[:4], *wrong, *lines[4:]]).encode())
    assert session is not None
    assert [(n.severity, n.line) for n in session.notes if n.severity != "info"] == [
        ("error", 5),
        ("warning", 6),
        ("warning", 7),
        ("warning", 8),
        ("error", 9),
    ]
    assert [r.id for r in session.requests] == ["m1", "m2", "m3"]


@pytest.mark.parametrize("wrong", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\\ud800", b"\\u0000", b"\\ud83d"])
def test_wrong_characters_do_no_harm(wrong: bytes) -> None:
    """Bytes that are no UTF-8, lone surrogates and NUL, in text and in names."""
    data = make_full_log().text().encode()
    for place in (b"hello", b"found", b"skill_listing", b"m1", b"claude-sonnet", b"/work", b"A title"):
        session = open_data(data.replace(place, place + wrong))
        assert session is not None
        assert len(session.requests) == 3


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "9" * 30, "9" * 5000, "-5", "1e15", "0.5"])
def test_numbers_beyond_any_sense_count_as_none(number: str) -> None:
    text = make_full_log().text()
    for key in ("input_tokens", "output_tokens", "cache_read_input_tokens", "preTokens"):
        changed = "".join(
            json.dumps({**json.loads(line)}).replace(f'"{key}": 5', f'"{key}": {number}5')
            for line in text.splitlines(keepends=True)
        )
        open_data(changed.encode())
    lines: list[Any] = make_full_log().lines
    line = next(i for i, line in enumerate(lines) if line.get("message", {}).get("id") == "m2")
    data = replace_value(lines, (line, "message", "usage", "input_tokens"), "NUMBER").replace(b'"NUMBER"', number.encode())
    session = open_data(data)
    assert session is not None


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_that_some_time_zones_cannot_show_is_none(time: str, tmp_path: Path) -> None:
    log = Log()
    log.user("a question")
    log.answer("m1", "an answer", usage=(20, 0, 0, 9))
    lines = [json.loads(line) | {"timestamp": time} for line in log.text().splitlines()]
    session = turnscope.load(log.save(tmp_path / "s1.jsonl"))
    assert session.requests[0].sent_at
    (tmp_path / "s1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert [request.sent_at for request in session.requests] == [None], "Go writes the year 1 for no time"
    at = datetime.fromisoformat(time).timestamp()
    builder = Builder("s1", "an importer of another package")
    builder.add_message("user", "a question", sent_at=at)
    builder.set_request(builder.add_message("assistant", "an answer", sent_at=at), sent_at=at, answered_at=at)
    session = builder.build()
    assert [message.sent_at for message in session.messages] == [None, None]
    assert [(request.sent_at, request.answered_at) for request in session.requests] == [(None, None)]


def test_nesting_of_fifty_is_read() -> None:
    inner: Any = "deep down"
    for _ in range(50):
        inner = {"content": [inner]}
    log = Log()
    log.user("hello")
    log.answer("m1", call("t1"), usage=(5, 5, 5, 5))
    log.result("t1", [inner])
    log.answer("m2", "Yes.", usage=(5, 5, 5, 5))
    session = open_data(log.text().encode())
    assert session is not None
    assert session.blocks[2].text == "deep down"


@pytest.mark.parametrize("depth", [200, 300, 500, 900, 1000, 1100, 3000, DEEP])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_nesting_without_end_is_noted_or_read(depth: int, pair: str) -> None:
    """Wherever it stands: in a text, a tool's input, a result, a note of the tool, or around everything."""
    opening, closing = (pair[0], pair[1]) if pair == "[]" else ('{"content":', "}")
    deep = opening * depth + "0" + closing * depth
    text = make_full_log().text()
    for place in ('"hello"', '{"prompt": "look"}', '[{"type": "text", "text": "found"}]', '["t1"]', '"m2"', '"A title"'):
        assert place in text
        session = open_data(text.replace(place, deep).encode())
        assert session is not None
    open_data(deep.encode())
    open_data(deep[: len(deep) // 2].encode())
    open_data((deep + "\n" + text).encode())


def test_unknown_types_are_kept() -> None:
    log = make_full_log()
    for line in log.lines:
        line["type"] = "new-" + line["type"]
    assert open_data(log.text().encode()) is None
    log = make_full_log()
    log.user([{"type": "hologram", "data": 1}, {"no": "type"}, {"type": 5}, 7, None])
    log.answer("m9", {"type": "dance", "steps": [1]}, usage=(1, 1, 1, 1))
    session = open_data(log.text().encode())
    assert session is not None
    assert [b.kind for b in session.blocks[-6:]] == ["hologram", "unknown", "unknown", "empty", "empty", "dance"]


@pytest.mark.thorough
@pytest.mark.parametrize("megabytes", [60])
def test_one_line_of_many_megabytes_is_read(megabytes: int, tmp_path: Path) -> None:
    """A 200 MB line takes 3.4 times as long; this size keeps the test short and its memory small."""
    log = Log()
    log.user("read it")
    log.answer("m1", call("t1"), usage=(5, 5, 5, 5))
    text = "All work and no play makes a dull line, again and again. " * 1024
    log.result("t1", text * (megabytes * 2**20 // len(text)))
    file = log.save(tmp_path / "big.jsonl")
    start = time.process_time()
    session = turnscope.load(file)
    assert len(session.blocks) == 3
    assert time.process_time() - start < 10
    single = tmp_path / "single.jsonl"
    single.write_bytes(file.read_bytes().splitlines()[2])
    assert len(turnscope.load(single).blocks) == 1


# Mutations ----------------------------------------------------------------------------------------------------------------


def seeds() -> list[list[bytes]]:
    """Lines to mutate: of made-up sessions, and of real ones where they lie beside the project."""
    files = [make_full_log().text().encode().splitlines(keepends=True)]
    for file in sorted((SHARED / "data" / "open" / "claude-code").rglob("*.jsonl")):
        lines = [line for line in file.read_bytes().splitlines(keepends=True) if len(line) < 20_000]
        kinds = {line[line.find(b'"type"') :][:40]: line for line in lines}
        files.append([*lines[:15], *list(kinds.values())[:15]])
    return files


SEEDS = seeds()
junk = st.recursive(
    st.sampled_from([None, True, False, 0, -1, 2**70, 1e308, "", "a", "\ud800", "\x00", "user", "assistant", "tool_use", "u1"])
    | st.floats()
    | st.integers()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "content", "id", "text"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def mutate_lines(data: st.DataObject, lines: list[bytes]) -> bytes:
    """Delete, repeat, move, cut or glue lines; delete, replace, retype or copy what they hold."""
    lines = [*lines]
    for _ in range(data.draw(st.integers(1, 6), label="changes")):
        if not lines:
            break
        at = data.draw(st.integers(0, len(lines) - 1), label="line")
        how = data.draw(
            st.sampled_from(["delete", "repeat", "move", "cut", "glue", "bytes", "field", "field", "field"]), label="how"
        )
        line = lines[at]
        if how == "delete":
            del lines[at]
        elif how == "repeat":
            lines.insert(data.draw(st.integers(0, len(lines))), line)
        elif how == "move":
            lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        elif how == "cut":
            lines[at] = line[: data.draw(st.integers(0, len(line)))]
        elif how == "glue":
            lines[at] = line.rstrip(b"\n")
        elif how == "bytes":
            place = data.draw(st.integers(0, len(line)))
            lines[at] = line[:place] + data.draw(st.binary(max_size=4)) + line[place + data.draw(st.integers(0, 4)) :]
        else:
            lines[at] = field_changed(data, line)
    return b"".join(lines)


def field_changed(data: st.DataObject, line: bytes) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    found = list(places(value))
    if not found:
        return line
    path = data.draw(st.sampled_from(found), label="path")
    holder: Any = value
    for key in path[:-1]:
        holder = holder[key]
    how = data.draw(st.sampled_from(["delete", "replace", "wrap", "copy", "swap"]), label="change")
    if how == "delete":
        del holder[path[-1]]
    elif how == "replace":
        holder[path[-1]] = data.draw(junk, label="junk")
    elif how == "wrap":
        holder[path[-1]] = [holder[path[-1]], holder[path[-1]]]
    elif how == "copy" and isinstance(holder, dict):
        holder[data.draw(st.sampled_from(["id", "uuid", "parentUuid", "type", "content", "model", "isSidechain"]))] = holder[
            path[-1]
        ]
    else:
        other = data.draw(st.sampled_from(found), label="other")
        from_there: Any = value
        for key in other:
            from_there = from_there[key]
        holder[path[-1]] = copy.deepcopy(from_there)
    return json.dumps(value).encode() + b"\n"


@pytest.mark.thorough
@given(st.data())
@settings(max_examples=examples(300))
def test_no_change_of_a_session_raises_anything_but_our_own_errors(data: st.DataObject) -> None:
    open_data(mutate_lines(data, data.draw(st.sampled_from(SEEDS), label="seed")))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    if data.strip():
        open_data(data)


@given(junk)
def test_any_json_is_refused_or_read(value: Any) -> None:
    open_data(json.dumps(value).encode())
    open_data(json.dumps(value, indent=1).encode())
    open_data(format_lines([value, {"type": "user", "parentUuid": None, "sessionId": "s", "uuid": "u", "message": value}]))


def test_a_log_that_is_shown_in_part_says_how_much_is_not() -> None:
    """Records that are not shown are counted in bytes; over 5 % of the file, a warning says their share."""
    line = {"type": "message", "id": "a", "message": {"role": "user", "content": "go" * 500}}
    rows = [{"type": "session_start", "id": "s"}, line, {"type": "odd", "held": "x" * 400}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    session = read_entry(Source(Path("/nowhere/droid.jsonl"), data)).session
    skipped, warning = session.notes
    assert (skipped.skipped, skipped.what) == (424, "1 record of kind 'odd' (424 bytes) was skipped")
    share = 424 / len(data)
    assert (warning.severity, warning.what.split(" of")[0]) == ("warning", f"{share:.0%}")
    few = data.replace(b"x" * 400, b"x" * 10)
    assert [note.severity for note in read_entry(Source(Path("/nowhere/droid.jsonl"), few)).session.notes] == ["info"]
