"""Continue's own logs, `dev_data/VERSION/chatInteraction.jsonl`: what was sent at each request, as Continue rendered it.

An interaction is a request: its prompt has each message under its role's name, so calls are text. Continue counts tokens in
`tokensGenerated.jsonl` and `devdata.sqlite`, which name no session, so a note tells their sums. From the source; no real sample
was at hand. Longer than a mapping for the counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.containers import open_source
from turnscope.reading.content_blocks import make_text, make_thinking
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.messages import build_body
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.model import JSON, Note, Usage
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "continue-logs"
TABLE = "tokens_generated"
ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "user", "thinking": "assistant"}
_MESSAGE = re.compile(rf"^<({'|'.join(ROLES)})>\n", re.MULTILINE)
Row = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    rows = [row for row in source.first if isinstance(row, dict)]
    return 90 if any({"prompt", "completion", "modelTitle", "sessionId"} <= row.keys() for row in rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    folder = machine.find_folder("CONTINUE_GLOBAL_DIR", machine.home / ".continue")
    yield Place(folder / "dev_data", "*/chatInteraction.jsonl")


def _group_sessions(source: Source) -> dict[str, Conversations]:
    """Group the requests by session, the newest session first; it has the notes about the log as a whole."""
    if "sessions" not in source.cache:
        rows: dict[str, list[Call | Note]] = {}
        shared: list[Note] = []
        for row, line in source.iter_records():
            if isinstance(row, Mapping) and isinstance(row.get("prompt"), str):
                id = as_text(row.get("sessionId")) or "unknown"
                calls = rows.pop(id, [])  # and put in again: the last one is the newest
                calls.append(_convert(row, line))
                rows[id] = calls
            else:
                shared.append(row if isinstance(row, Note) else Note("info", line, "a record without a prompt was skipped"))
        shared += _describe_counts(source)
        source.cache["sessions"] = {
            id: group_calls([*calls, *([] if n else shared)], id, one_conversation=True)
            for n, (id, calls) in enumerate(reversed(rows.items()))
        }
    found: dict[str, Conversations] = source.cache["sessions"]
    return found


def _convert(row: Row, line: int) -> Call:
    before, *parts = _MESSAGE.split(row["prompt"])
    sent: list[JSON] = [{"role": "user", "content": before}] if before.strip() else []
    for role, written in zip(parts[::2], parts[1::2], strict=True):
        if (text := written.removesuffix("\n\n")).strip():
            sent.append({"role": ROLES[role], "content": make_thinking(text) if role == "thinking" else text})
    answer, named = as_text(row.get("completion")), row.get("tools")
    tools = [{"name": name} for name in named if isinstance(name, str)] if isinstance(named, list) else []
    about: dict[str, Any] = {"model": as_text(row.get("modelName")) or as_text(row.get("modelTitle"))}
    about |= {"answered_at": parse_time(row.get("timestamp"))}
    return Call(build_body(sent, tools), {"content": make_text(answer)} if answer.strip() else None, about, "", line)


def _describe_counts(source: Source) -> Iterator[Note]:
    """Yield a note for each file beside the log in which Continue counted tokens."""
    for sibling in (*source.find_siblings("tokensGenerated.jsonl"), *source.find_siblings("../devdata.sqlite")):
        counted = [usage for row in _iter_counts(sibling.path) if (usage := _read_count(row)) and usage.prompt_tokens]
        if counted:
            sent, generated = sum(one.prompt_tokens for one in counted), sum(one.output_tokens for one in counted)
            what = f"Continue counted {sent:,} prompt tokens and {generated:,} generated tokens in {len(counted):,} requests"
            yield Note("info", 0, f"{what} of all sessions and completions ({sibling.path.name}); these are not billed tokens")


def _read_count(row: Row) -> Usage | None:
    prompt, generated = (row.get("promptTokens", row.get("tokens_prompt")), row.get("generatedTokens", row.get(TABLE)))
    return convert_usage({"prompt_tokens": prompt, "completion_tokens": generated})


def _iter_counts(path: Path) -> Iterator[Row]:
    """Yield rows of counted tokens; none of a file that cannot be read."""
    try:
        source = open_source(path)
        if source.kind == "sqlite":
            yield from source.query(f"select * from {TABLE}") if TABLE in source.list_tables() else ()  # noqa: S608 - a name of ours
        else:
            yield from (row for row, _ in source.iter_records() if isinstance(row, Mapping))
    except (TurnscopeError, OSError, ValueError):
        return


def list_entries(source: Source) -> Iterator[Entry]:
    for id, found in _group_sessions(source).items():
        yield Entry(id, found.all[0].title)


def read(source: Source, entry: Entry) -> Thread:
    found = _group_sessions(source)
    return Thread(found[entry.id or next(iter(found))].build_session("", NAME))


IMPORTER = Importer(
    NAME,
    "Continue interaction log (JSON Lines)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".jsonl",),
    wants="records with `prompt`, `completion`, `modelTitle` and `sessionId`",
    right="each request's prompt as it was rendered, so calls are text; times and models; what Continue counted, as a note",
    sample=False,
)
