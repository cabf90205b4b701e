"""The files of one task as values: the stored history, what the screen showed, stored edits, and who wrote them.

Holds reading and recognition; no messages are built here. Whatever is malformed is skipped and noted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from turnscope.reading.source import Source
from turnscope.session.model import JSON, Note, Usage
from turnscope.session.usage import drop_empty, measured, parse_count

HISTORY, SCREEN, OLD_SCREEN = "api_conversation_history.json", "ui_messages.json", "claude_messages.json"
EDITS, METADATA = "context_history.json", "task_metadata.json"
MAIN = (HISTORY, SCREEN, OLD_SCREEN)
FILES = (*MAIN, EDITS, METADATA)
TAGS = frozenset({"isSummary", "condenseId", "condenseParent", "truncationParent", "truncationId", "isTruncationMarker"})
_LOOKED_AT = 40  # entries that recognition looks at
_MODEL = re.compile(r"<model>([^<\n]+)</model>")
_WINDOW = re.compile(r"# Context Window Usage\s+[\d,. ]+/ ([\d,.]+)K tokens used")


@dataclass(frozen=True, slots=True)
class Call:
    """One request as the screen shows it: an `api_req_started` and the events up to the next one."""

    event: Mapping[str, JSON]
    info: Mapping[str, JSON]
    after: tuple[Mapping[str, JSON], ...]

    @property
    def ts(self) -> float:
        """When it was sent, in milliseconds since the epoch; 0 where unknown."""
        return as_number(self.event.get("ts"))

    @property
    def text(self) -> str:
        """The text of the user's message of this request, environment included."""
        return as_string(self.info.get("request"))


@dataclass
class Folder:
    """A task. `history` keeps stored positions: entries that are no message are empty."""

    name: str
    history: list[dict[str, Any]]
    screen: list[dict[str, Any]]
    edits: JSON = None
    metadata: JSON = None
    notes: list[Note] = field(default_factory=list)
    paths: bool = True  # read from a folder with both files

    @cached_property
    def calls(self) -> list[Call]:
        """Every request, in order."""
        starts = [i for i, event in enumerate(self.screen) if event.get("say") == "api_req_started"]
        stops = [*starts[1:], len(self.screen)]
        return [
            Call(self.screen[a], _parse_object(self.screen[a].get("text")), tuple(self.screen[a + 1 : b]))
            for a, b in zip(starts, stops, strict=False)
        ]

    @cached_property
    def is_roo(self) -> bool:
        """Whether Roo Code wrote it."""
        if any(TAGS & message.keys() for message in self.history) or any("apiProtocol" in call.info for call in self.calls):
            return True
        return any(event.get("say") in ("condense_context", "sliding_window_truncation") for event in self.screen)

    @cached_property
    def _total(self) -> bool:
        """Whether `tokensIn` holds the cached tokens: Roo from 3.29.5 on, seen from the numbers."""
        rows = [call.info for call in self.calls if call.info.get("apiProtocol") != "openai"]
        cached = [
            (as_number(r.get("tokensIn")), as_number(r.get("cacheReads")) + as_number(r.get("cacheWrites"))) for r in rows
        ]
        return self.is_roo and all(prompt >= part for prompt, part in cached)

    @measured
    def find_usage(self, call: Call) -> Usage | None:
        """What was billed for a request; None where the log does not say."""
        names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
        prompt, out, reads, writes = (parse_count(call.info.get(name), name) for name in names)
        if self.is_roo and (self._total or call.info.get("apiProtocol") == "openai"):
            prompt = max(0, prompt - reads - writes)
        return drop_empty(Usage(prompt, writes, reads, out))

    def find_model(self, call: Call, text: str, answer: Mapping[str, JSON]) -> str:
        """The model of a request, from its answer, its event, the environment it describes, or the task's metadata; "" =
        unknown.

        Args:
            call: The request.
            text: What its prompt says.
            answer: The stored message of its answer; empty where there is none.
        """
        for holder in (answer, call.event):
            info = holder.get("modelInfo")
            if isinstance(info, Mapping) and as_string(info.get("modelId")):
                return as_string(info["modelId"])
        if found := _MODEL.search(text):
            return found[1].strip()
        used = self.metadata.get("model_usage") if isinstance(self.metadata, Mapping) else None
        rows = [row for row in used if isinstance(row, Mapping)] if isinstance(used, list) else []
        before = [row for row in rows if as_number(row.get("ts")) <= call.ts + 1_000]
        return as_string(before[-1].get("model_id")) if before else ""


def open_folder(source: Source) -> Folder:
    """The task that a file or folder holds; the other files of its folder are read where they are there."""
    notes: list[Note] = []
    inside = source.kind == "folder"
    own = source.document
    if inside:
        history = _read_list(source, HISTORY, is_history)
        screen = _read_list(source, SCREEN, is_screen) or _read_list(source, OLD_SCREEN, is_screen)
    elif is_screen(own):
        screen, history = own, _read_list(source, HISTORY, is_history)
    else:
        history = own
        screen = _read_list(source, SCREEN, is_screen) or _read_list(source, OLD_SCREEN, is_screen)
    both = bool(screen and history)
    if not screen:
        notes.append(Note("warning", 0, f"{SCREEN} is not in this file's folder: usage, times and cuts are not known"))
    if not history:
        notes.append(
            Note("warning", 0, f"{HISTORY} is not in this file's folder: messages are put together from what the screen showed")
        )
    named = source.path.absolute().name if inside else source.path.name in MAIN and source.path.absolute().parent.name
    rows = [[row if isinstance(row, dict) else {} for row in rows] for rows in (history or [], screen or [])]
    if odd := sum(not row for part in rows for row in part):
        notes.append(Note("warning", 0, f"{odd} entries are no objects and were skipped"))
    return Folder(
        named or source.path.stem,
        rows[0],
        [row for row in rows[1] if row],
        _read_document(source, EDITS),
        _read_document(source, METADATA),
        notes,
        both,
    )


def is_history(document: JSON) -> bool:
    """Whether a document is a stored history: messages with times or tags of these tools, or one that begins with a task."""
    rows = [row for row in document[:_LOOKED_AT] if isinstance(row, dict)] if isinstance(document, list) else []
    spoken = [row for row in rows if row.get("role") in ("user", "assistant") and "content" in row]
    if not spoken or len(spoken) < len([row for row in rows if row.get("type") != "reasoning"]):
        return False
    timed = any(as_number(row.get("ts")) > 1e12 for row in spoken)
    return timed or any(TAGS & row.keys() for row in rows) or is_task(spoken[0].get("content"))


def is_task(content: JSON) -> bool:
    """Whether a message's content opens a task."""
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and as_string(first.get("text")).startswith("<task>")


def is_screen(document: JSON) -> bool:
    """Whether a document lists what the screen of these tools showed."""
    rows = document[:_LOOKED_AT] if isinstance(document, list) else []
    return bool(rows) and all(
        isinstance(row, dict) and row.get("type") in ("ask", "say") and as_number(row.get("ts")) > 0 and row["type"] in row
        for row in rows
    )


def find_windows(texts: Iterator[str]) -> list[int]:
    """Context windows that environments name, in tokens."""
    found = (_WINDOW.search(text) for text in texts)
    return [
        round(float(match[1].replace(",", "")) * 1_000) for match in found if match and match[1].replace(",", "").count(".") < 2
    ]


def as_number(value: Any) -> float:
    """A finite number >= 0; 0 for anything else."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if usable else 0


def as_string(value: Any) -> str:
    """A text; "" for anything else."""
    return value if isinstance(value, str) else ""


def get_kind(event: Mapping[str, JSON]) -> str:
    """What an event of the screen says or asks, such as "tool"; "" where it does not tell."""
    return as_string(event.get(as_string(event.get("type"))))


def _read_list(source: Source, name: str, fits: Any) -> list[Any]:
    document = _read_document(source, name)
    return document if fits(document) else []


def _read_document(source: Source, name: str) -> JSON:
    near = source.open_sibling(name)
    return near.document if near else None


def _parse_object(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(as_string(text) or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
