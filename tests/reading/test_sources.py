"""Files, folders, archives and databases: every conversation is listed without being read, and can be opened by its entry."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from turnscope.errors import ArchiveTooLarge, ImporterError, TurnscopeError, UnknownEntry, UnknownFormat, UnreadableFile
from turnscope.importers import Importer, claude_code, task_folder
from turnscope.library import Store, indexing
from turnscope.reading import claims, containers
from turnscope.reading.containers import open_source, zstd  # type: ignore[attr-defined]
from turnscope.reading.followers import follow
from turnscope.reading.registry import find_importers, find_places, find_related, find_session_path
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread
from turnscope.settings import Machine


def claude(name: str, *prompts: str) -> Log:
    log = Log(name)
    for number, prompt in enumerate(prompts):
        log.user(prompt)
        log.answer(f"{name}m{number}", f"{prompt}: answered", usage=(1, 2, 3, 4))
    return log


def talk(prompt: str, count: int) -> list[dict[str, Any]]:
    """Requests of one conversation."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"The task of this conversation is {prompt}, nothing else."}]
    found = []
    for number in range(count):
        body = {"model": "claude-sonnet-4-5", "max_tokens": 5, "system": "s", "messages": [*messages]}
        content = [{"type": "text", "text": f"{prompt} {number}"}]
        found.append({"request": body, "response": {"type": "message", "content": content, "usage": {"input_tokens": 1}}})
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": f"and {prompt} {number}?"}]
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An API log of three conversations that take turns."""
    calls = [talk("apples", 2), talk("pears", 3), talk("plums", 1)]
    records = [calls[1][0], calls[0][0], calls[2][0], calls[1][1], calls[0][1], calls[1][2]]
    path = tmp_path / "three.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# Several conversations --------------------------------------------------------------------------------------------------


def test_a_log_of_three_conversations_lists_and_loads_all_three(log: Path) -> None:
    listed = list(turnscope.entries(log))
    assert [(entry.id, entry.requests) for entry in listed] == [("1", 3), ("2", 2), ("3", 1)]
    assert [entry.title.split()[-3] for entry in listed] == ["pears,", "apples,", "plums,"]
    for entry in listed:
        session = turnscope.load(log, entry)
        assert len(session.requests) == entry.requests
        assert session == turnscope.load(log, entry.id)
        assert session.title == entry.title
    assert turnscope.load(log) == turnscope.load(log, listed[0])
    assert [session.id for session in turnscope.load_all(log)] == ["three", "three~1", "three~2"]


def test_the_store_keeps_conversations_of_one_file_apart(log: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "data" / "store.db")
    titles = [store.open(log, entry=id).overview.title for id in ("1", "2", "3", "1")]
    assert len(set(titles)) == 3
    assert titles[0] == titles[3]
    assert len(store.list_recent()) == 3


def test_an_entry_that_is_not_there_is_refused_with_a_hint(log: Path) -> None:
    with pytest.raises(UnknownEntry, match="holds no conversation '9'") as caught:
        turnscope.load(log, "9")
    assert caught.value.hint


def test_the_thread_of_a_conversation_gives_its_paths_by_leaf(tmp_path: Path) -> None:
    log = claude("s1", "hello")
    start = log.last
    log.user("left")
    log.user("went on", parent=start)
    thread = turnscope.thread(log.save(tmp_path / "s1.jsonl"))
    assert thread.leaves == ("s1", "s1~1")
    assert [block.text for block in thread.get_path("s1~1").blocks] == ["hello", "hello: answered", "left"]
    assert thread.get_path() == thread.session
    assert [blocks[0].text for _, blocks in thread.iter_messages()] == ["hello", "hello: answered", "went on", "left"]
    with pytest.raises(KeyError):
        thread.get_path("s1~2")


# Folders ----------------------------------------------------------------------------------------------------------------


def task(folder: Path) -> Path:
    """A task of Cline or Roo."""
    folder.mkdir(parents=True)
    history = [
        {"role": "user", "content": [{"type": "text", "text": "<task>build it</task>"}], "ts": 1_760_000_000_000},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "ts": 1_760_000_001_000},
    ]
    event = {
        "ts": 1_760_000_000_000,
        "type": "say",
        "say": "api_req_started",
        "text": json.dumps({"tokensIn": 5, "tokensOut": 2}),
    }
    (folder / "api_conversation_history.json").write_text(json.dumps(history))
    (folder / "ui_messages.json").write_text(json.dumps([event]))
    return folder


def test_a_task_folder_opens_as_its_files_do(tmp_path: Path) -> None:
    folder = task(tmp_path / "1760000000000")
    session = turnscope.load(folder)
    assert (session.id, session.source) == ("1760000000000", "task-folder")
    assert session == turnscope.load(folder / "ui_messages.json") == turnscope.load(folder / "api_conversation_history.json")
    assert find_session_path(folder / "ui_messages.json") == folder
    assert Store(tmp_path / "store.db").open(folder).session == session


def test_a_folder_holds_what_its_files_hold(log: Path, tmp_path: Path) -> None:
    claude("s1", "hello").save(tmp_path / "a" / "s1.jsonl")
    side = Log("s1", "a1")
    side.user("look")
    side.save(tmp_path / "a" / "s1" / "subagents" / "agent-a1.jsonl")
    task(tmp_path / "b" / "t")
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no archive")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    ids = [entry.id for entry in turnscope.entries(tmp_path)]
    assert ids == ["three.jsonl#1", "three.jsonl#2", "three.jsonl#3", "a/s1.jsonl", "b/t/api_conversation_history.json"]
    assert turnscope.load(tmp_path, ids[3]) == turnscope.load(tmp_path / "a" / "s1.jsonl")
    assert turnscope.load(tmp_path, ids[1]) == turnscope.load(log, "2")
    assert turnscope.load(tmp_path) == turnscope.load(log)
    assert len(turnscope.load_all(tmp_path)) == 5


@pytest.mark.parametrize("id", ["../outside.jsonl", "{}/outside.jsonl", "nothing.jsonl"])
def test_no_entry_leads_out_of_its_folder(id: str, tmp_path: Path) -> None:
    claude("s1", "hello").save(tmp_path / "outside.jsonl")
    claude("s2", "hello").save(tmp_path / "in" / "s2.jsonl")
    with pytest.raises(UnknownEntry):
        turnscope.load(tmp_path / "in", id.format(tmp_path))


def test_a_folder_is_listed_only_as_far_as_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        claude(f"s{number}", "hello").save(tmp_path / f"s{number:03}.jsonl")
    looked: list[str] = []
    really = claude_code.IMPORTER.sniff
    counted = [
        Importer(i.name, i.title, lambda s: looked.append(s.path.name) or really(s), i.read) if i.name == "claude-code" else i
        for i in find_importers()
    ]
    monkeypatch.setattr(claims, "find_importers", lambda: counted)
    listed = turnscope.entries(tmp_path)
    assert [next(listed).id for _ in range(5)] == [f"s{number:03}.jsonl" for number in range(5)]
    assert len(set(looked) - {tmp_path.name}) == 5


def test_a_file_that_its_importer_fails_on_does_not_stop_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(source: Source, _entry: Entry) -> Thread:
        raise IndexError("nothing there")

    claude("s1", "hello").save(tmp_path / "s1.jsonl")
    (tmp_path / "bad.json").write_text('{"odd": 1}')
    importer = Importer("odd", "Odd", lambda s: 99 * s.head.startswith(b'{"odd"'), breaks)
    known = find_importers()
    monkeypatch.setattr(claims, "find_importers", lambda: (*known, importer))
    assert [session.id for session in turnscope.load_all(tmp_path)] == ["s1"]
    with pytest.raises(ImporterError, match="the importer 'odd' of Turnscope failed: IndexError: nothing there"):
        turnscope.load(tmp_path / "bad.json")


# Archives ---------------------------------------------------------------------------------------------------------------


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_an_archive_is_read_in_place(log: Path, tmp_path: Path) -> None:
    parent = claude("s1", "hello")
    parent.answer("m9", call("t1", "Task", prompt="look"), usage=(1, 2, 3, 4))
    parent.result("t1", "found", toolUseResult={"agentId": "a1"})
    side = Log("s1", "a1")
    side.user("look")
    side.answer("am", "found", usage=(1, 2, 3, 4))
    folder = task(tmp_path / "t")
    files = {f"t/{file.name}": file.read_bytes() for file in folder.iterdir()}
    files |= {"x/s1.jsonl": parent.text().encode(), "x/s1/subagents/agent-a1.jsonl": side.text().encode()}
    path = write_zip(tmp_path / "all.zip", {**files, "three.jsonl": log.read_bytes(), "readme.txt": b"hello"})
    ids = [entry.id for entry in turnscope.entries(path)]
    assert ids == ["three.jsonl#1", "three.jsonl#2", "three.jsonl#3", "t/api_conversation_history.json", "x/s1.jsonl"]
    assert turnscope.load(path, ids[1]) == turnscope.load(log, "2")
    assert [agent.id for agent in turnscope.load(path, ids[4]).subagents] == ["a1"]
    assert turnscope.load(path, ids[3]).requests[0].usage is not None
    assert Store(tmp_path / "store.db").open(path, entry=ids[4]).session == turnscope.load(path, ids[4])


@pytest.mark.parametrize("code", ["utf-16", "utf-16-be", "utf-8-sig", "crlf", "gz"])
def test_a_file_says_the_same_however_its_bytes_were_written(code: str, tmp_path: Path) -> None:
    log = claude("s1", "first prompt – with a dash", "second prompt")
    text, plain, other = log.text(), tmp_path / "plain.jsonl", tmp_path / "other.jsonl"
    plain.write_text(text, encoding="utf-8")
    mark = b"\xfe\xff" if code == "utf-16-be" else b""
    data = {"gz": gzip.compress(text.encode()), "crlf": text.replace("\n", "\r\n").encode()}
    other.write_bytes(data[code] if code in data else mark + text.encode(code))
    told, same = turnscope.load(plain), turnscope.load(other)
    assert [block.text for block in same.blocks] == [block.text for block in told.blocks]
    assert same.requests == told.requests
    assert same.notes == told.notes
    opened = Store(tmp_path / "chats.db").open(other)
    assert len(opened.overview) == 2
    assert len(follow(other).thread().session.requests) == 2


def test_a_file_packed_with_zstd_is_read(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(zstd.compress(log.read_bytes()))
    assert turnscope.load(path).blocks == turnscope.load(log).blocks
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(90))
    with pytest.raises(UnreadableFile, match="cannot be read"):
        turnscope.load(path)


def lines_of() -> list[Any]:
    log = Log()
    log.user("go")
    log.answer("m1", "Done.", usage=(10, 20, 30, 4))
    return log.lines


def write_twice() -> list[Any]:
    """Two sessions of a format of single files."""
    said = [{"type": "human", "data": {"content": "go"}}, {"type": "ai", "data": {"content": "Done."}}]
    return [{"messages": said}, {"messages": [*said, *said]}]


WHOLE = json.dumps(write_twice()[0])
OTHER = {
    "lines as a list": json.dumps(lines_of()),
    "the same, indented": json.dumps(lines_of(), indent=1),
    "lines that are indented": "\n".join(json.dumps(line, indent=1) for line in lines_of()),
    "lines with commas between": ",\n".join(json.dumps(line, indent=1) for line in lines_of()),
    "one session in a list": f"[{WHOLE}]",
    "a message on each line": "\n".join(map(json.dumps, write_twice()[0]["messages"])),
}


@pytest.mark.parametrize("form", OTHER)
def test_a_session_opens_also_where_its_file_was_put_into_another_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(OTHER[form])
    assert [entry.id for entry in turnscope.entries(path)] == [""]
    session = turnscope.load(path)
    assert [block.text for block in session.blocks] == ["go", "Done."]
    folder = turnscope.load(tmp_path)
    assert (folder.blocks, folder.source) == (session.blocks, session.source)


@pytest.mark.parametrize("ends", [", ", "\n"], ids=["list", "lines"])
def test_sessions_in_a_list_are_listed_one_by_one(ends: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    told = ends.join([*map(json.dumps, write_twice()), '{"nobody": "knows this"}', WHOLE])
    path.write_text(f"[{told}]" if ends == ", " else told)
    assert [entry.id for entry in turnscope.entries(path)] == ["0", "1", "3"]
    assert [len(turnscope.load(path, id).blocks) for id in ("", "1", "3")] == [2, 4, 2]
    assert [line.entry for line in (each.row for each in indexing.read_sessions(open_source(path), "x"))] == ["0", "1", "3"]
    for id in ("2", "4", "-1", "x", "9" * 30):
        with pytest.raises(UnknownFormat if id == "2" else UnknownEntry):
            turnscope.load(path, id)


def test_a_list_of_what_nobody_knows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ('[{"a": 1}, {"b": 2}]', '{"a": 1}\n{"b": 2}\n', "[[], 1]", '{"a": 1}{"b": 2}'):
        path.write_text(text)
        with pytest.raises(UnknownFormat) as caught:
            list(turnscope.entries(path))
        assert len(caught.value.tried) == len(find_importers())
    path.write_text('{"a":\n1}\n{"b":\n')
    with pytest.raises(UnknownFormat, match="damaged JSON"):
        list(turnscope.entries(path))


def test_a_gzip_file_that_is_broken_or_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 1_000)[:-9])
    with pytest.raises(UnreadableFile):
        turnscope.load(path)
    monkeypatch.setattr(containers, "FREE_BYTES", 10_000)
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(ArchiveTooLarge) as refused:
        turnscope.load(path)
    assert refused.value.hint


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "FREE_BYTES", 1_000_000)
    path = write_zip(tmp_path / "bomb.zip", {"s.jsonl": b"0" * 5_000_000})
    with pytest.raises(ArchiveTooLarge, match=r"bomb\.zip would unpack to far more") as caught:
        turnscope.load(path)
    assert caught.value.hint
    assert 1_000_000 <= caught.value.limit < 5_000_000
    monkeypatch.setattr(containers, "MAX_RATIO", 10_000)
    monkeypatch.setattr(containers, "MAX_BYTES", 4_000_000)
    with pytest.raises(ArchiveTooLarge):
        turnscope.load(path)


def test_an_archive_that_lies_about_a_size_is_refused(tmp_path: Path) -> None:
    """What the directory says of a member is no promise: it is not unpacked beyond that."""
    path = write_zip(tmp_path / "lies.zip", {"s.jsonl": claude("s1", "hello " * 50_000).text().encode()})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(TurnscopeError) as caught:
        turnscope.load(path)
    assert caught.value.hint


def test_an_archive_of_something_else_is_in_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"pictures\.zip is in no format"):
        turnscope.load(write_zip(tmp_path / "pictures.zip", {"a.png": b"x", "b.json": b"{}"}))


# Databases --------------------------------------------------------------------------------------------------------------


def test_a_database_in_use_is_read_with_its_log_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("create table said (text)")
    writer.execute("insert into said values ('one')")
    writer.execute("begin immediate")
    writer.execute("insert into said values ('not yet')")
    before = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in tmp_path.iterdir())
    source = open_source(path)
    assert source.kind == "sqlite"
    assert source.list_tables() == {"said"}
    assert [dict(row) for row in source.query("select * from said")] == [{"text": "one"}]
    assert sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in tmp_path.iterdir()) == before
    writer.execute("commit")
    assert len(list(open_source(path).query("select * from said where text != ?", [""]))) == 2
    assert source.version != open_source(tmp_path).version
    with pytest.raises(UnreadableFile, match="readonly"):
        list(source.query("delete from said"))
    writer.close()


def test_a_write_that_was_cut_short_is_taken_back(tmp_path: Path) -> None:
    path, crashed = tmp_path / "app.db", tmp_path / "crashed" / "app.db"
    crashed.parent.mkdir()
    with sqlite3.connect(path) as writer:
        writer.execute("create table said (text)")
        writer.execute("insert into said values ('one')")
        writer.commit()
        writer.execute("pragma cache_size = 1")
        writer.execute("pragma cache_spill = on")
        writer.executemany("insert into said values (?)", [("x" * 4000,)] * 200)
        for file in tmp_path.glob("app.db*"):
            (crashed.parent / file.name).write_bytes(file.read_bytes())
        assert (crashed.parent / "app.db-journal").exists()
    assert [row["text"] for row in open_source(crashed).query("select text from said")] == ["one"]


ENDLESS = (
    "with recursive r(n) as (select 1 union all select n + 1 from r) select n as thread_id, 'user' as role, 'x' as content"
)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "m1", "chat_id": "c", "sequence_number": 0, "role": "user", "content": "go"},
        {"thread_id": "c", "role": "user", "content": "go", "created_at": 1},
    ],
)
def test_a_line_that_cannot_be_read_is_noted_whoever_reads_the_others(row: dict[str, Any], tmp_path: Path) -> None:
    whole, cut = json.dumps(row), json.dumps({**row, "content": "lost"})[:-5]
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{whole}\n{cut}\n\n")
    (note,) = (note for note in turnscope.load(path).notes if note.line)
    assert (note.line, note.severity, note.what.partition(":")[0]) == (2, "error", "not readable as JSON, skipped")


def test_a_database_whose_view_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "STEPS", 2_000_000)
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute(f"create view conversation_messages as {ENDLESS}, 0 as created_at, '{{}}' as metadata, n as id from r")
    db.close()
    for look in (lambda: list(turnscope.entries(path)), lambda: turnscope.load(path)):
        with pytest.raises(UnreadableFile, match="too long") as caught:
            look()
        assert "check where it comes from" in caught.value.hint


def test_a_database_whose_index_calls_a_function_is_read_and_its_views_call_none(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute("create table spans (attributes)")
        db.execute("create index by_session on spans (cast(json_extract(attributes, '$.session') as text))")
        db.execute("insert into spans values ('{}')")
        db.execute("create view v as select load_extension('x') as text")
    db.close()
    assert [row["attributes"] for row in open_source(path).query("select attributes from spans")] == ["{}"]
    with pytest.raises(UnreadableFile, match="unsafe use of"):
        list(open_source(path).query("select text from v"))


def test_a_text_that_is_no_utf8_hides_no_other_row(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    with sqlite3.connect(path) as db:
        db.execute("create table cursorDiskKV (key text, value blob)")
        for id, title in (("a", b"Fine"), ("b", b"Br\xffken"), ("c", b"Fine")):
            chat = b'{"name": "%b", "conversation": [{"type": 1, "text": "go"}, {"type": 2, "text": "done"}]}' % title
            db.execute("insert into cursorDiskKV values (?, cast(? as text))", (f"composerData:{id}", chat))
    db.close()
    sessions = turnscope.load_all(path)
    assert sorted(session.title for session in sessions) == ["Br\ufffdken", "Fine", "Fine"]
    assert all("texts that are no UTF-8" in session.notes[-1].what for session in sessions)


def test_a_database_of_no_known_tool_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as writer:
        writer.execute("create table said (text)")
    with pytest.raises(UnknownFormat):
        turnscope.load(path)
    path.write_bytes(path.read_bytes()[:100] + b"broken" * 100)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        open_source(path).list_tables()


# Where tools keep their files -------------------------------------------------------------------------------------------


def test_claude_code_is_found_where_its_own_variable_says(tmp_path: Path) -> None:
    here = Machine("linux", tmp_path, tmp_path / ".config", tmp_path / "data", {})
    assert [place.folder for place in claude_code.find_places(here)] == [
        tmp_path / ".claude" / "projects",
        tmp_path / ".config" / "claude" / "projects",
    ]
    there = Machine("linux", tmp_path, tmp_path, tmp_path, {"CLAUDE_CONFIG_DIR": f"{tmp_path}/a, {tmp_path}/b,"})
    (first, second) = claude_code.find_places(there)
    assert [first.folder, second.folder] == [tmp_path / "a" / "projects", tmp_path / "b" / "projects"]
    session = claude("s1", "hello").save(first.folder / "-work" / "s1.jsonl")
    claude("s1", "side").save(first.folder / "-work" / "s1" / "subagents" / "agent-a1.jsonl")
    assert list(first.paths()) == [session]
    assert find_session_path(first.folder / "-work" / "s1" / "subagents" / "agent-a1.jsonl") == session


@pytest.mark.parametrize(
    ("system", "config"), [("linux", ".config"), ("macos", "Library/Application Support"), ("windows", "AppData/Roaming")]
)
def test_tasks_are_found_in_the_editors_storage_on_every_system(system: Any, config: str, tmp_path: Path) -> None:
    here = Machine(system, tmp_path, tmp_path / config, tmp_path / "data", {})
    storage = tmp_path / config / "Code" / "User" / "globalStorage"
    folder = task(storage / "rooveterinaryinc.roo-cline" / "tasks" / "t1")
    assert [(importer.name, [*place.paths()]) for importer, place in find_places(here)] == [
        (task_folder.IMPORTER.name, [folder])
    ]


@pytest.mark.parametrize(
    ("variable", "file"),
    [
        ("LLM_USER_PATH", "logs.db"),
        ("PHOENIX_WORKING_DIR", "phoenix.db"),
        ("KIMI_SHARE_DIR", "sessions/a/b/wire.jsonl"),
        ("COPILOT_HOME", "session-state/a/events.jsonl"),
        ("GEMINI_CLI_HOME", ".gemini/tmp/a/chats/b.json"),
    ],
)
def test_files_are_found_where_the_tools_variable_says(variable: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / file
    path.parent.mkdir(parents=True)
    path.touch()
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {variable: str(tmp_path / "elsewhere")})
    assert [found for _, place in find_places(here) for found in place.paths()] == [path]


def test_related_files_of_a_file_that_is_part_of_nothing_are_none(tmp_path: Path) -> None:
    path = claude("s1", "hello").save(tmp_path / "s1.jsonl")
    assert find_related(Source(path)) == []
    assert find_session_path(path) == path


def test_a_file_of_an_archive_is_read_once_for_all_its_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"task_id": n, "reward": 1, "traj": [{"role": "user", "content": "go"}]} for n in range(9)]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("runs.json", json.dumps(runs))
    opened: list[str] = []
    unpacked = containers.Archive.open_member
    monkeypatch.setattr(containers.Archive, "open_member", lambda self, name: (opened.append(name), unpacked(self, name))[1])
    assert len(turnscope.load_all(tmp_path / "x.zip")) == 9
    assert len(opened) < 9


def test_a_member_whose_name_leads_elsewhere_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("/one.json", "two.json"):
            archive.writestr(name, json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    assert [entry.id for entry in turnscope.entries(tmp_path / "x.zip")] == ["two.json#1"]


def test_a_column_whose_name_is_no_text_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute("create table sessions (aaaa, bbbb)")
        db.execute("insert into sessions values (1, 2)")
    db.close()
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"\xf7\xf7aa"))
    with pytest.raises(UnreadableFile):
        list(containers.Database(path).query("select * from sessions"))
