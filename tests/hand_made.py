"""Sessions made by hand for tests: one row per request, with usage, times and the edits that the log would show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turnscope.library.opening import replay
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, ObservedEdit, Part, Session, Span, Usage

OPUS = "claude-opus-4-5-20251101"  # USD 5 in, 0.50 cache read, 6.25 and 10 cache writes, 25 out; keeps thinking
SONNET = "claude-sonnet-4-5-20250929"  # USD 3 in, 0.30 cache read, 3.75 and 6 cache writes, 15 out; strips thinking
NOON = 1_763_726_400.0  # 2025-11-21 12:00 UTC


@dataclass
class Row:
    """One request: what came in before it, what was billed, and when (seconds after noon)."""

    at: float
    read: int = 0
    written: int = 0
    plain: int = 3
    hour: int = 0
    out: int = 40
    took: float = 4.0
    model: str = OPUS
    prompt: str = "go on"
    kind: str = "prompt"  # prompt | meta | system | summary | result
    answer: list[Any] = field(default_factory=lambda: [{"type": "text", "text": "done"}])
    content: Any = None
    attempts: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    timed: bool = True


def session(rows: Iterable[Row], edits: Iterable[tuple[int, Edit]] = ()) -> Session:
    """The session that these rows describe. `edits`: request at which each first shows, and what was done."""
    builder = Builder("hand-made", "test")
    for row in rows:
        role = "system" if row.kind == "system" else "user"
        content = row.content if row.content is not None else row.prompt
        kind = "summary" if row.kind == "summary" else ""
        builder.add_message(role, content, origin=row.kind if row.kind in ("meta", "summary") else "", kind=kind)
        answer = builder.add_message("assistant", row.answer)
        usage = Usage(row.plain, row.written, row.read, row.out, row.hour)
        sent, done = (NOON + row.at, NOON + row.at + row.took) if row.timed else (None, None)
        builder.set_request(
            answer, model=row.model, usage=usage, sent_at=sent, answered_at=done, attempts=row.attempts, settings=row.settings
        )
    return builder.build([lambda _: [ObservedEdit(request, edit) for request, edit in edits]])


def make_trace(rows: Iterable[Row], edits: Iterable[tuple[int, Edit]] = ()) -> Trace:
    """The recorded trace of such a session."""
    return replay(session(rows, edits))


def make_compaction(start: int, stop: int) -> Edit:
    return Edit("condense", "compacted into a summary", Span(start, stop))


def make_clearing(at: int) -> Edit:
    body = (Part("user", "tool_result", "[cleared]", {"type": "tool_result", "tool_use_id": "t", "content": "[cleared]"}),)
    return Edit("clear", "an old tool result was cleared", Span(at, at + 1), body)


def call(id: str, name: str = "Read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, text: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": id, "content": text}]
