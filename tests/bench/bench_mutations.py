"""Damages files of every format and opens them: `python tests/bench/bench_mutations.py [--cases 10000] [--seed 7]`.

Exit 1 on a fault. The real files at hand, the samples, and what tests write by hand of formats. A case is one file with one to
three damages: to bytes, lines, values, keys, times, ids and parents of JSON, pages and cells of databases, members of archives.
Each is listed, read (up to `FEW` conversations) and drawn up. A fault is any error but a `TurnscopeError` that has a hint, and
more than `SLOWER` times what the whole file takes. The same seed makes the same cases, on any number of processes.

One case in three is a damage that a reader can see: something unheard of put in, a count that is none, a record or the end cut
off. There it is a fault as well where tokens shift, or requests or blocks get fewer, by more than `SHIFT` and no note says so.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "importers")]

import turnscope  # noqa: E402
from claude_log import Log  # noqa: E402
from formats import ODD, data_of, database  # noqa: E402
from turnscope.errors import ImporterError, TurnscopeError  # noqa: E402
from turnscope.reading.claims import claim  # noqa: E402
from turnscope.reading.containers import open_source  # noqa: E402
from turnscope.reading.registry import find_importers  # noqa: E402
from turnscope.session.thread import iter_descendants  # noqa: E402
from turnscope.share import export_formats  # noqa: E402

OPEN, NEW = (ROOT.parent / "shared" / "data" / name for name in ("open", "new"))
SAMPLES = ROOT / "sample_sessions"
FEW = 3  # conversations of a file that are read
BEGINNING = 2_000_000  # bytes of a larger file that are damaged and read
SLOWER, AT_LEAST = 10, 0.5  # times the whole file's seconds of CPU; seconds that are never too many
SHIFT = 0.01  # of the tokens, requests or blocks of a file
VISIBLY = 1 / 3  # of all cases
HANG = 120  # seconds after which a case counts as one that does not end
DEEP = "@deep@"
ODD_TIMES: list[Any] = [
    -1,
    0,
    1e18,
    10**30,
    "",
    "yesterday",
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "1-1-1",
    [1],
    "NaN",
]
NO_COUNT: list[Any] = ["many", -5, 0.5, 10**30, [1]]
TIME, ID, PARENT, COUNT = (
    re.compile("time|created|updated|date|_at$|^ts$|At$", re.IGNORECASE),
    re.compile("id$", re.IGNORECASE),
    re.compile("parent", re.IGNORECASE),
    re.compile("token", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True)
class Whole:
    """A file or folder as it was before any damage, and what listing, reading and drawing it up takes of the CPU."""

    format: str
    path: Path
    seconds: float = 0.0
    totals: tuple[int, int, int] = (0, 0, 0)
    notes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """What became of a case: "" where it opened, the name of a typed error, or "fault" and `fault` says which."""

    format: str
    name: str
    end: str
    fault: str = ""


def write_samples(folder: Path) -> Iterator[Path]:
    """Small files of every format, as the importers' tests write them by hand."""
    made = {name: import_module(f"test_{name}") for name in MADE_BY}
    for name, of in MADE_BY.items():
        for number, value in enumerate(of(made[name])):
            for lines in (False, True) if isinstance(value, list) else (False,):
                path = folder / f"{name}-{number}.json{'l' * lines}"
                path.write_bytes(data_of(value, lines))
                yield path
    yield made["goose"].write_database(folder / "goose.db", made["goose"].MADE)
    rows = made["thread_tables"].ROWS
    yield database(folder / "threads.db", {"conversation_threads": [{"thread_id": "a"}], "conversation_messages": rows})
    (folder / "threads.csv").write_bytes(made["thread_tables"].format_csv(rows))
    yield folder / "threads.csv"
    yield database(folder / "logs.db", made["library_logs"].make_tables())
    yield made["opencode"].base(folder / "opencode.db", *made["opencode"].MADE, child=True)
    (folder / "aider.md").write_text(made["newer_logs"].HISTORY)
    yield folder / "aider.md"
    yield import_module("test_cursor").write_database(folder / "state.vscdb")
    yield made["newer_tools"].crush(folder / "crush.db")
    yield made["local_tools"].write_cursor(folder / "store.db")
    yield made["local_tools"].write_zed(folder / "zed-threads.db")
    yield made["local_tools"].write_msty(folder / "msty.db")
    yield made["local_tools"].write_amazon_q(folder / "data.sqlite3")
    (folder / "specstory.md").write_text(made["local_tools"].SPECSTORY)
    yield folder / "specstory.md"
    yield made["opencode"].tree(folder / "opencode-tree", *made["opencode"].MADE)
    history, screen = import_module("test_task_folder").task(3)
    (folder / "task").mkdir()
    (folder / "task" / "api_conversation_history.json").write_bytes(data_of(history))
    (folder / "task" / "ui_messages.json").write_bytes(data_of(screen))
    yield folder / "task"
    yield made["jan"].write_thread(folder / "jan-thread", made["jan"].LINEAR)
    (folder / "raw-bodies").mkdir()
    import_module("test_raw_bodies").write(folder / "raw-bodies")
    yield folder / "raw-bodies" / "raw"
    yield import_module("test_tap").write(folder / "tap.jsonl")
    inspect = made["inspect_logs"]
    yield inspect.archive(folder / "inspect.eval", json.dumps(inspect.sample()).encode(), json.dumps(inspect.sample()).encode())
    log = Log()
    log.user("go")
    log.answer("m1", "Looking.", {"type": "tool_use", "id": "t", "name": "Read", "input": {"a": 1}}, usage=(10, 20, 30, 4))
    log.user([{"type": "tool_result", "tool_use_id": "t", "content": "seen"}])
    log.answer("m2", "Done.", usage=(10, 20, 60, 4))
    (folder / "claude.jsonl").write_bytes(data_of(log.lines, lines=True))
    yield folder / "claude.jsonl"
    (folder / "turnscope.json").write_bytes(turnscope.dumps(turnscope.load(folder / "claude.jsonl")))
    yield folder / "turnscope.json"
    (folder / "chat.md").write_bytes(export_formats.list_formats()["markdown"].encode(turnscope.load(folder / "claude.jsonl")))
    yield folder / "chat.md"
    ask = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    said = {"id": "r", "choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": {"prompt_tokens": 3}}
    (folder / "openai.jsonl").write_bytes(data_of([{"request": ask, "response": said}] * 2, lines=True))
    yield folder / "openai.jsonl"
    with zipfile.ZipFile(folder / "many.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("chatgpt-0.json", "claude_ai-0.json", "claude.jsonl", "goose.db"):
            archive.write(folder / name, name)
    yield folder / "many.zip"


MADE_BY: dict[str, Callable[[Any], list[Any]]] = {
    "anthropic_api": lambda t: [[t.make_call(t.body(t.user("go")), t.text("ok"), t.call("c"))] * 2],
    "atif": lambda t: [t.RUN],
    "chatbot_ui": lambda t: [t.v1(), t.v1()["history"], t.ROWS, {"chats": t.CHATS, "messages": t.ROWS}],
    "chatgpt": lambda t: [
        [t.make_conversation(*t.CHAT, *t.EDIT, current="a"), t.make_conversation(*t.CHAT[:4], current="u", id="c2")]
    ],
    "claude_ai": lambda t: [[t.chat(*t.OLD), {**t.chat(*t.TREE), "uuid": "c1"}]],
    "cline_sdk": lambda t: [t.FILE],
    "codex": lambda t: [[*t.OPENING, *t.BEHIND]],
    "continue_dev": lambda t: [t.MADE, [t.LOGGED, t.LOGGED]],
    "gemini_cli": lambda t: [t.LINES],
    "goose": lambda t: [{**t.HEAD, "conversation": t.COMPACTED}],
    "grok": lambda t: [t.EXPORT],
    "inspect_logs": lambda t: [t.log(t.sample(), t.sample())],
    "jan": lambda t: [{**t.THREAD, "messages": t.LINEAR}],
    "librechat": lambda t: [
        t.export(t.FLAT, branches=True, recursive=False),
        t.export(t.nest(t.FLAT), branches=True, recursive=True),
    ],
    "kimi": lambda t: [t.CODE, t.WIRE, t.CONTEXT],
    "library_logs": lambda t: [t.LOGS, t.MESSAGES],
    "lobechat": lambda t: [t.export(*t.ROWS)],
    "message_lists": lambda t: [t.DICTS, t.MODELS, t.RUNS, t.letta(), t.REVIEW, t.STORE],
    "mini_swe_agent": lambda t: [t.run(t.V1), t.run(t.V2)],
    "open_webui": lambda t: [[t.row(*t.CHAT), t.row(*t.CHAT, id="c2")]],
    "opencode": lambda t: [t.export(*t.MADE)],
    "openai_responses": lambda t: [t.WHOLE],
    "other_apis": lambda t: [t.GOOGLE, t.BEDROCK],
    "openhands": lambda t: [t.SDK, [{"instance_id": "a", "history": t.OLD}]],
    "otel": lambda t: [[t.export(*(t.span(n, held) for n, held in enumerate(t.genai(), 1)))]],
    "pi": lambda t: [t.V1, [t.HEAD, *t.link_rows(t.V1[1:])]],
    "qwen_code": lambda t: [t.COMPRESSED],
    "printed": lambda t: [t.CLAUDE, t.GEMINI],
    "newer_logs": lambda t: [t.CHAT, t.PATCHES, t.EVENTS, t.EXEC, t.OLDER_EXEC],
    "newer_tools": lambda t: [t.HERMES, t.STUDIO, t.WEB, t.DROID, t.GROK],
    "sharegpt": lambda t: [t.CHATS],
    "swe_agent": lambda t: [t.run(t.NEW), t.run(t.OLD)],
    "deepseek": lambda t: [t.CHATS],
    "gateways": lambda t: [t.LITELLM, t.SPEND, t.HELICONE, t.PORTKEY],
    "trace_platforms": lambda t: [t.MLFLOW, t.PHOENIX, t.OTLP, t.RUNS],
    "vercel_ui": lambda t: [t.CHAT, t.OLD, t.CHUNKS],
    "local_tools": lambda t: [
        *(t.AMP, t.LM_STUDIO, t.ZED, t.OLD_ZED, t.TEXT_ZED, t.AMAZON_Q, t.NEWER_Q, t.KIRO_CHAT),
        *(t.KIRO, t.KIRO_EVENTS, t.ANTIGRAVITY, t.CURSOR_LINES),
    ],
    "exported_chats": lambda t: [t.LE_CHAT, t.PERPLEXITY, t.THREADS, t.REPLAY],
    "thread_tables": lambda t: [t.ROWS, {"conversation_threads": [], "conversation_messages": t.ROWS}],
}
"""What each importer's tests call the conversations that they write."""


def wholes(folder: Path, large: bool = True) -> list[Whole]:
    """Everything that is damaged, each with the format that claims it. Not `large`: what tests write, and nothing else."""
    found = [*write_samples(folder)]
    if large:
        found += [_cut_copy(file, folder) for file in sorted(SAMPLES.glob("*.jsonl"))]
    if large and OPEN.is_dir():
        tasks = OPEN / "roo-cline"
        files = (
            file
            for file in (
                *sorted(OPEN.glob("*/*")),
                *sorted(OPEN.glob("claude-code/worktrees/*.jsonl")),
                *sorted(NEW.glob("*/*")),
            )
            if file.is_file()
        )
        found += [*(_cut_copy(file, folder) for file in files), *(each for each in tasks.iterdir() if each.is_dir())]
    return [Whole(_format(path), path, _seconds(path), *add_up(path)) for path in found if _opens(path)]


def _cut_copy(file: Path, folder: Path) -> Path:
    if file.stat().st_size <= BEGINNING:
        return file
    path = folder / f"beginning-of-{file.name}"
    data = file.read_bytes()[:BEGINNING]
    path.write_bytes(data[: data.rfind(b"\n") + 1])
    return path


def _opens(path: Path) -> bool:
    """Whether it is read at all: some real files are of formats to come, and not every list is kept a line for each item."""
    with suppress(TurnscopeError):
        draw_up(path)
        return True
    return False


def _format(path: Path) -> str:
    try:
        return claim(open_source(path)).name
    except TurnscopeError:
        return f"({path.suffix.strip('.') or 'folder'} of several)"


def _seconds(path: Path) -> float:
    start = time.process_time()  # not the first time that it is drawn, which pays for what is loaded once
    draw_up(path)
    return time.process_time() - start


def draw_up(path: Path) -> None:
    """List a path, read a few of its conversations, and draw each up."""
    for entry in list(islice(turnscope.entries(path), FEW)):
        turnscope.overview(turnscope.load(path, entry))


def add_up(path: Path) -> tuple[tuple[int, int, int], frozenset[str]]:
    """Of a path's first conversations with branches and subagents: tokens of all requests, requests, blocks; and the notes."""
    tokens, requests, blocks, notes = 0, 0, 0, set[str]()
    for entry in list(islice(turnscope.entries(path), FEW)):
        session = turnscope.load(path, entry)
        for each in (session, *(found.own for found in iter_descendants(session))):
            used = [request.usage for request in each.requests if request.usage]
            tokens += sum(usage.prompt_tokens + usage.output_tokens for usage in used)
            requests, blocks = requests + len(each.requests), blocks + len(each.blocks)
            notes |= {note.what for note in each.notes}
    return (tokens, requests, blocks), frozenset(notes)


def damage_visibly(whole: Whole, folder: Path, random: Random) -> Path | None:
    """A copy with one damage that a reader can see; None of a text without records."""
    path, file = _copy(whole.path, folder, random)
    data = file.read_bytes()
    if data.startswith(b"SQLite"):
        with suppress(sqlite3.Error):
            _change_cells(file, random)
            return path
        return None
    if data.startswith(b"PK"):
        try:
            members = _list_members(data)
        except RuntimeError:  # packed with zstd
            return None
        at = random.choice([n for n, (name, _) in enumerate(members) if name.endswith((".json", ".jsonl"))] or [0])
        members[at] = members[at][0], _damage_text(members[at][1], random)
        _write_members(file, members)
    elif file.suffix in (".json", ".jsonl", ".traj", ".af"):
        file.write_bytes(_damage_text(data, random))
    else:
        return None
    return path


def _copy(whole: Path, folder: Path, random: Random) -> tuple[Path, Path]:
    """A copy of a file or folder, and the file of it that is damaged."""
    if whole.is_dir():
        path = Path(shutil.copytree(whole, folder / whole.name))
        return path, random.choice(sorted(each for each in path.rglob("*") if each.is_file()))
    path = Path(shutil.copyfile(whole, folder / whole.name))
    beside = whole.with_suffix("")  # a session's subagents
    if beside.is_dir():
        shutil.copytree(beside, folder / beside.name)
    return path, path


def _damage_text(data: bytes, random: Random) -> bytes:
    """JSON or JSON lines: the end or a record cut off, something unheard of put in, or a count of tokens that is none."""
    lines = data.splitlines(keepends=True)
    kind = random.randrange(4)
    if kind == 0 and len(data) > 1:  # the end is cut off
        cut = data[: random.randrange(len(data) // 2, len(data))].rstrip()
        return cut[:-1] if cut.endswith((b"}", b"]")) else cut  # between two records nobody could see it
    if kind == 1 and len(lines) > 2:  # a record is cut off
        at = random.randrange(1, len(lines))
        lines[at] = lines[at][: len(lines[at]) // 2] + b"\n"
        return b"".join(lines)
    return b"".join(_change_visibly(line, random) for line in lines) if _is_lines(lines) else _change_visibly(data, random, 1)


def _is_lines(lines: list[bytes]) -> bool:
    with suppress(ValueError):
        return len(lines) > 1 and bool(json.loads(lines[0])) and bool(json.loads(lines[1]))
    return False


def _change_visibly(data: bytes, random: Random, often: float = 0.2) -> bytes:
    """In so many of all cases: a key that nobody heard of is put into JSON, or a count of tokens is none."""
    try:
        value = json.loads(data)
    except ValueError:
        return data
    found = [(holder, key) for holder, key in _iter_places(value) if isinstance(holder, dict)]
    if not found or random.random() > often:
        return data
    counts = [(holder, key) for holder, key in found if COUNT.search(str(key)) and type(holder[key]) is int and holder[key]]
    if counts and random.random() < 0.5:
        holder, key = random.choice(counts)
        holder[key] = random.choice(NO_COUNT)
    else:
        holder, _ = random.choice(found)
        holder["unheard_of"] = {"more": "of it", "count": 3}
    return json.dumps(value).encode() + (b"\n" if data.endswith(b"\n") else b"")


def _change_cells(file: Path, random: Random) -> None:
    """In about one in five cells of a database: JSON with something unheard of, or a count of tokens that is none."""
    with sqlite3.connect(file) as db:
        for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
            cursor = db.execute(f'select rowid, * from "{table}"')
            names = [column[0] for column in cursor.description][1:]
            for row, *cells in cursor.fetchall():
                for name, held in zip(names, cells, strict=True):
                    changed = _change_cell(name, held, random)
                    if changed is not held:
                        db.execute(f'update "{table}" set "{name}" = ? where rowid = ?', [changed, row])
    db.close()


def _change_cell(name: str, held: Any, random: Random) -> Any:
    if isinstance(held, str) and held[:1] in ("{", "["):
        return _change_visibly(held.encode(), random).decode()
    if isinstance(held, bytes) and held[:1] in (b"{", b"["):
        return _change_visibly(held, random)
    if type(held) is int and held and COUNT.search(name) and random.random() < 0.2:
        return random.choice(NO_COUNT[:3])
    return held


def damage_copy(whole: Whole, folder: Path, random: Random) -> Path:
    """A copy of a file or folder in `folder`, with damage."""
    path, file = _copy(whole.path, folder, random)
    for _ in range(random.choice((1, 1, 2, 3))):
        _damage(file, random)
    return path


def _damage(file: Path, random: Random) -> None:
    data = file.read_bytes()
    if data.startswith(b"SQLite") and random.random() < 0.5:
        try:
            _cell(file, random)
        except (sqlite3.Error, UnicodeError):  # a damage before this one hit its schema
            file.write_bytes(_pages(data, random))
    elif data.startswith(b"SQLite"):
        file.write_bytes(_pages(data, random))
    elif data.startswith(b"PK") and random.random() < 0.7:
        try:
            _member(file, random)
        except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, EOFError):  # a damage before this one
            file.write_bytes(_bytes(data, random))
    elif random.random() < 0.7:
        file.write_bytes(_json(data, random))
    else:
        file.write_bytes(random.choice((_bytes, _lines))(data, random))


def _bytes(data: bytes, random: Random) -> bytes:
    """Bytes flipped, a piece cut out or doubled, or the end cut off."""
    if not data:
        return data
    at = random.randrange(len(data))
    stop = min(len(data), at + random.randrange(1, 5_000))
    kind = random.randrange(4)
    if kind == 0:
        flipped = bytearray(data)
        for _ in range(random.choice((1, 5, 50))):
            flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(flipped)
    return (data[:at], data[:at] + data[stop:], data[:stop] + data[at:])[kind - 1]


def _lines(data: bytes, random: Random) -> bytes:
    """A line dropped, doubled, or swapped with another; an empty one, or one glued to the next."""
    lines = data.splitlines(keepends=True) or [b""]
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(5)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 3:
        lines.insert(one, random.choice((b"\n", b"null\n", b"[]\n", b"\x00\n", b"7\n", b"{}\n")))
    else:
        lines[one] = lines[one].rstrip(b"\r\n")
    return b"".join(lines)


def _pages(data: bytes, random: Random) -> bytes:
    """A page of a database flipped, emptied or put in place of another; or bytes as in any file."""
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    one, other, kind = random.randrange(len(pages)), random.randrange(len(pages)), random.randrange(4)
    if kind == 0:
        return _bytes(data, random)
    pages[one] = (bytes(len(pages[one])), pages[other], bytes(byte ^ 0xFF for byte in pages[one]))[kind - 1]
    return b"".join(pages)


def _cell(file: Path, random: Random) -> None:
    """A value of a database is another, or JSON with a damage; a row is doubled or gone; a table is gone."""
    with sqlite3.connect(file) as db:
        db.text_factory = bytes
        tables = [name.decode() for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        table = random.choice(tables or ["none"])
        column = random.choice([row[1].decode() for row in db.execute(f'pragma table_info("{table}")')] or ["none"])
        rows = db.execute(f'select rowid, "{column}" from "{table}"').fetchall()
        row, held = random.choice(rows or [(0, None)])
        kind = random.randrange(10)
        if kind == 0:
            db.execute(f'drop table "{table}"')
        elif kind == 1:
            db.execute(f'delete from "{table}" where rowid = ?', [row])
        elif kind == 2:
            db.execute(f'insert into "{table}" select * from "{table}" where rowid = ?', [row])
        else:
            value = random.choice([None, "", -1, 2**62, 1e308, b"\xff\x00", "null", "[]", "{", "[" * 20_000])
            if isinstance(held, bytes) and held[:1] in (b"{", b"["):
                value = _json(held, random).decode(errors="replace")
            db.execute(f'update "{table}" set "{column}" = ? where rowid = ?', [value, row])
    db.close()


def _member(file: Path, random: Random) -> None:
    """A member of an archive damaged, gone, doubled, or called otherwise."""
    members = _list_members(file.read_bytes())
    at = random.randrange(len(members))
    name, data = members[at]
    kind = random.randrange(7)
    if kind == 0:
        del members[at]
    elif kind == 1:
        members.insert(at, (f"copy of {name}", data))
    elif kind == 2:
        members[at] = random.choice((f"../{name}", f"/{name}", name[:-1], name.upper(), f"{name}/", "a\n#b.json")), data
    else:
        members[at] = name, (_json if kind < 6 else _bytes)(data, random)
    _write_members(file, members)


def _list_members(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def _write_members(file: Path, members: list[tuple[str, bytes]]) -> None:
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:  # two of one name are a damage as well
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)  # of no time: the same seed, the same bytes


def _json(data: bytes, random: Random) -> bytes:
    """A value, a key, a time, an id or a parent of a document, or of one of its lines, is another."""
    try:
        return _encode(_change(json.loads(data), random))
    except (ValueError, RecursionError):
        lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = random.randrange(len(lines))
    try:
        other = json.loads(random.choice(lines))
        lines[at] = _encode(_change(json.loads(lines[at]), random, other)) + b"\n"
    except (ValueError, RecursionError):
        return _bytes(data, random)
    return b"".join(lines)


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode().replace(json.dumps(DEEP).encode(), b"[" * 5_000 + b"]" * 5_000)


def _change(value: Any, random: Random, other: Any = None) -> Any:
    found = [*_iter_places(value)]
    if not found:
        return random.choice(ODD)
    wanted = {2: TIME, 3: ID, 4: PARENT}.get(kind := random.randrange(8))
    if wanted:
        found = [(holder, key) for holder, key in found if isinstance(key, str) and wanted.search(key)] or found
    holder, key = random.choice(found)
    if kind == 0 and isinstance(holder, dict):
        holder[random.choice((key.upper(), f"{key}_", "type", "id", ""))] = holder.pop(key)
    elif kind == 1:
        _list(holder, key, random)
    elif kind == 2:
        holder[key] = random.choice(ODD_TIMES)
    elif kind in (3, 4):
        ids = [
            inner[name]
            for inner, name in [*_iter_places(value), *_iter_places(other)]
            if isinstance(name, str) and ID.search(name)
        ]
        holder[key] = random.choice(ids or [None])
    elif kind == 5:
        holder[key] = random.choice(random.choice(found))
    else:
        holder[key] = random.choice([*ODD, DEEP, 2**63, -(2**70), 0.1, False, [[]], {"type": "text"}, "\x00", {"": None}])
    return value


def _list(holder: Any, key: Any, random: Random) -> None:
    """An item dropped, doubled, or swapped with its neighbour; a key dropped."""
    kind = random.randrange(3)
    if kind == 0 or isinstance(holder, dict):
        del holder[key]
    elif kind == 1:
        holder.insert(key, holder[key])
    else:
        holder[key - 1], holder[key] = holder[key], holder[key - 1]


def _iter_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value: what holds it, and under which key."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, inner in holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ():
            yield holder, key
            if isinstance(inner, (dict, list)):
                waiting.append(inner)


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError(f"it does not end within {HANG} seconds")


def try_case(turn: tuple[Whole, int], seed: int, keep: Path | None = None) -> Case:
    """A case: a file damaged as `seed` and its number say, and opened. `keep`: where faulty files stay."""
    whole, number = turn
    name = f"{number}: {whole.path.name}"
    with tempfile.TemporaryDirectory(prefix="turnscope-case-") as held:
        random = Random(f"{seed} {whole.path.name} {number}")
        seen = damage_visibly(whole, Path(held), random) if random.random() < VISIBLY else None
        path = seen or damage_copy(whole, Path(held), random)
        end, fault = open_damaged(path, whole)
        if seen and not end and not fault:
            totals, notes = add_up(path)
            if has_shifted(totals, whole.totals) and not notes - whole.notes:
                fault = f"(tokens, requests, blocks) {totals} of {whole.totals}, and no note says why"
                end = "fault"
        if fault and keep:
            shutil.copytree(held, keep / str(number), dirs_exist_ok=True)
    return Case(whole.format, name, end, fault)


def has_shifted(totals: tuple[int, int, int], before: tuple[int, int, int]) -> bool:
    """Whether tokens are others, or requests or blocks are fewer: a changed tool, for one, adds a block."""
    lost = any(now < (1 - SHIFT) * then for now, then in zip(totals, before, strict=True))
    return lost or totals[0] > (1 + SHIFT) * before[0]


def open_damaged(path: Path, whole: Whole) -> tuple[str, str]:
    """How listing, reading and drawing up a damaged file ends, and what is wrong with that."""
    signal.signal(signal.SIGALRM, _too_long)
    end = ""
    start = time.process_time()
    signal.alarm(HANG)
    try:
        draw_up(path)
    except TurnscopeError as error:
        end = type(error).__name__
        if isinstance(error, ImporterError):  # what was raised in an importer
            return "fault", error.what
        if not error.what or not error.hint:
            return "fault", f"{end} without {'a hint' if error.what else 'words'}"
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        inner = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if "/engine/" in f.filename), last)
        return (
            "fault",
            f"{type(error).__name__} at {inner.filename.rpartition('/engine/')[2]}:{inner.lineno}: {str(error)[:150]}",
        )
    finally:
        signal.alarm(0)
    spent = time.process_time() - start
    if spent > max(AT_LEAST, SLOWER * whole.seconds):
        return "fault", f"slow: {spent:.2f} s, the whole file takes {whole.seconds:.2f} s"
    return end, ""


def turns(found: list[Whole], cases: int, random: Random) -> list[tuple[Whole, int]]:
    """Which file each case damages: formats by turns, and of a format's files the small ones more often."""
    formats = {whole.format: [each for each in found if each.format == whole.format] for whole in found}
    names = sorted(formats)
    drawn_of = [formats[names[n % len(names)]] for n in range(cases)]
    return [(random.choices(of, [1 / (50_000 + _size(each.path)) for each in of])[0], n) for n, of in enumerate(drawn_of)]


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="a folder for files that made a fault")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = wholes(Path(folder))
        missing = {importer.name for importer in find_importers()} - {whole.format for whole in found}
        print(f"formats without a file: {', '.join(sorted(missing)) or 'none'}")
        of = turns(found, given.cases, Random(given.seed))
        cases = []
        with multiprocessing.get_context("fork").Pool(2) as pool:
            run = partial(try_case, seed=given.seed, keep=given.keep)
            for case in pool.imap_unordered(run, of, chunksize=4):
                cases.append(case)
                if case.fault:
                    print(f"{case.format} {case.name}: {case.fault}", flush=True)
    faults = sum(bool(case.fault) for case in cases)
    ends = sorted({case.end for case in cases})
    print("".join(f"{head:>18}" for head in ("format", "cases", *(end or "opened" for end in ends))))
    for name in sorted({case.format for case in cases}):
        tally = Counter(case.end for case in cases if case.format == name)
        print("".join(f"{cell!s:>18}" for cell in (name, tally.total(), *(tally[end] for end in ends))))
    minutes = (time.monotonic() - began) / 60
    print(f"{len(cases)} cases over {len(found)} files: {faults} faults, {minutes:.1f} minutes, seed {given.seed}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
