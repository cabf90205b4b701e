"""Writes made-up Claude Code sessions: the fewest keys that real lines have, with every id and time in plain sight.

Holds the lines and their total by hand, read with the standard library alone. It imports nothing of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MODEL = "claude-sonnet-4-5-20250929"
Line = dict[str, Any]


class Log:
    """Lines of one session. Each hangs from the line before, unless `parent` says otherwise ("" = from none)."""

    def __init__(self, session: str = "s1", agent: str = "", name: str = "") -> None:
        self.session, self.agent, self.name = session, agent, name or agent
        self.lines: list[Line] = []
        self.last: str | None = None
        self.side = bool(agent)

    def line(self, kind: str, *, parent: str | None = None, uuid: str = "", **keys: Any) -> str:
        """Add a line of any type; gives its uuid."""
        n = len(self.lines) + 1
        uuid = uuid or f"{self.name}u{n}"
        line: Line = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": (self.last if parent is None else parent) or None,
            "sessionId": self.session,
            "version": "2.1.12",
            "cwd": "/work",
            "isSidechain": self.side,
            "timestamp": f"2026-01-02T03:{n // 60 % 60:02}:{n % 60:02}.000Z",
        }
        if self.agent:
            line["agentId"] = self.agent
        self.lines.append({**line, **keys})
        self.last = uuid
        return uuid

    def add_bare(self, **keys: Any) -> None:
        """Add a line that stands in no chain."""
        self.lines.append(keys)

    def user(self, content: Any, **keys: Any) -> str:
        return self.line("user", message={"role": "user", "content": content}, **keys)

    def answer(self, id: str, *content: Any, usage: Any = None, model: str = MODEL, **keys: Any) -> str:
        """One line of an answer. A string stands for a text block; `usage` is (input, written, read, output)."""
        blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
        message: Line = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": blocks,
            "stop_reason": None,
        }
        if usage is not None:
            message["usage"] = tokens(*usage) if isinstance(usage, tuple) else usage
        return self.line("assistant", message=message, requestId=f"r{id}", **keys)

    def result(self, call: str, content: Any = "done", **keys: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content}], **keys)

    def compact(self, summary: str = "What happened so far.", **meta: Any) -> tuple[str, str]:
        """A boundary and its summary; gives their uuids."""
        meta = {"trigger": "auto", "preTokens": 9000, **meta}
        before = self.last
        boundary = self.line("system", subtype="compact_boundary", parent="", logicalParentUuid=before, compactMetadata=meta)
        return boundary, self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)

    def save(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(), encoding="utf-8")
        return path


def call(id: str, name: str = "Bash", **given: Any) -> Line:
    """A `tool_use` block."""
    return {"type": "tool_use", "id": id, "name": name, "input": given or {"command": f"run {id}"}}


def tokens(input: int, written: int = 0, read: int = 0, output: int = 1) -> Line:
    """A usage object."""
    return {
        "input_tokens": input,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


def records(path: Path) -> Iterator[Line]:
    """Every object of a file, also where several stand on one line; what cannot be read is passed over."""
    decoder = json.JSONDecoder()
    for line in path.read_text(encoding="utf-8-sig", errors="replace").split("\n"):
        at, text = 0, line.strip()
        while at < len(text):
            try:
                value, at = decoder.raw_decode(text, at)
            except ValueError:
                break
            if isinstance(value, dict):
                yield value
            at += len(text[at:]) - len(text[at:].lstrip())


def find_billed(paths: Iterable[Path]) -> dict[str, Line]:
    """The last line of every message id that holds usage; what the tool wrote itself is left out."""
    last: dict[str, Line] = {}
    for path in paths:
        for record in records(path):
            message = record.get("message")
            if record.get("type") != "assistant" or not isinstance(message, dict):
                continue
            if message.get("usage") and message.get("model") != "<synthetic>":
                last[message["id"]] = record
    return last
