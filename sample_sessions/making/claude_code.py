"""Writes a session the way Claude Code does: one JSON line per content block, usage repeated, auto compaction.

Holds the file format and the arithmetic of one conversation. The stories say what is said.
"""

# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from making.billing import PER_MESSAGE, Cache, Item, billed, readable
from making.workshop import Result

COMPACT_AT = 167_000  # a window of 200,000 less 20,000 for the answer less 13,000
KEEPS_THINKING = ("claude-opus-4-5",)  # earlier families drop the thinking of past turns
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def stamp(seconds: float) -> str:
    """Write a time (seconds since 1970, UTC) as ISO with milliseconds and a Z."""
    return datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def name(rng: random.Random, lead: str, length: int) -> str:
    """Draw an identifier such as `msg_01Xy...`."""
    return lead + "".join(rng.choices(BASE62, k=length))


def signature(rng: random.Random, thought: str) -> str:
    """Draw a signature about as long as a real one is for a short thought."""
    return "Er" + "".join(rng.choices(BASE62 + "+/", k=118 + min(len(thought), 900) // 6 // 4 * 4)) + "=="


@dataclass
class Recorder:
    """One growing session file: its lines, its clock, what the next prompt holds and what the cache still knows."""

    seed: str
    cwd: str
    branch: str
    model: str
    start: str
    prefix: int
    version: str = "2.0.30"  # it does not ask for the thinking of past turns to stay, as later ones do
    session: str = ""
    agent: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    requests: int = 0
    turn: int = 0
    compactions: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now = datetime.fromisoformat(self.start).timestamp()
        self.session = self.session or self.uuid()
        self.parent: str | None = None
        self.cache = Cache(self.prefix)
        self.last = 0  # prompt and answer of the last request, in tokens
        self.since = 0  # tokens added after it
        self.began = self.now
        self.made_by: dict[str, str] = {}
        self.keys = 0

    def uuid(self) -> str:
        """Draw a version 4 UUID."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def line(self, kind: str, parent: str | None, **more: Any) -> str:
        """Write one line with a uuid of its own below `parent`; give the uuid."""
        ident = self.uuid()
        line: dict[str, Any] = {"parentUuid": parent, "isSidechain": bool(self.agent)}
        line |= {"userType": "external", "cwd": self.cwd, "sessionId": self.session, "version": self.version}
        line |= {"gitBranch": self.branch}
        if self.agent:
            line["agentId"] = self.agent
        line |= {"type": kind} | more | {"uuid": ident, "timestamp": stamp(self.now)}
        self.lines.append(line)
        return ident

    def _add(self, text: str, *, thinking: bool = False) -> int:
        self.keys += 1
        item = Item(self.keys, billed(text), thinking, self.turn)
        self.items.append(item)
        return item.tokens

    def _message(self) -> None:
        self.keys += 1
        self.items.append(Item(-self.keys, PER_MESSAGE, False, self.turn))

    def prompt(self, text: str, after: float) -> None:
        """Record what the user typed, `after` seconds later than whatever came before."""
        self.wait(after)
        self.turn += 1
        self.began = self.now
        self._message()
        self.since += self._add(text)
        more: dict[str, Any] = {"message": {"role": "user", "content": text}}
        if not self.agent:
            more |= {"thinkingMetadata": {"level": "high", "disabled": False, "triggers": []}, "todos": []}
        self.parent = self.line("user", self.parent, **more)
        if not self.agent:
            shot = {"messageId": self.parent, "trackedFileBackups": {}, "timestamp": stamp(self.now + 0.011)}
            self.lines.append(
                {"type": "file-history-snapshot", "messageId": self.parent, "snapshot": shot, "isSnapshotUpdate": False}
            )

    def full(self) -> bool:
        """Say whether the next request would cross the line at which the tool condenses the conversation."""
        return self.last + self.since > COMPACT_AT

    def sent(self) -> list[Item]:
        """List what the next request carries: everything, or everything but the thinking of past turns."""
        if self.model.startswith(KEEPS_THINKING):
            return self.items
        return [item for item in self.items if not item.thinking or item.turn == self.turn]

    def answer(self, blocks: Sequence[dict[str, Any]], speed: float = 62.0) -> list[str]:
        """Record one request and its answer, a line per block; return the ids of its tool calls."""
        items = self.sent()
        prompt = self.prefix + sum(item.tokens for item in items)
        self.peak = max(self.peak, prompt)
        self.wait(self.rng.uniform(0.4, 1.1))
        usage = self.cache.bill(self.model, tuple(i.key for i in items), prompt, self.rng.choice((3, 4, 6, 8, 9)), self.now)
        self.wait(self.rng.uniform(1.2, 2.6))
        self._message()
        ident, request, calls, output = name(self.rng, "msg_01", 22), name(self.rng, "req_011C", 20), [], 0
        for at, block in enumerate(blocks):
            body = dict(block)
            if block["type"] == "thinking":
                body["signature"] = signature(self.rng, block["thinking"])
            if block["type"] == "tool_use":
                body = {"type": "tool_use", "id": name(self.rng, "toolu_01", 22)} | {k: block[k] for k in ("name", "input")}
                calls.append(body["id"])
            tokens = self._add(readable(block), thinking=block["type"] == "thinking")
            output += tokens
            self.wait(tokens / speed)
            shown = output + PER_MESSAGE if at == len(blocks) - 1 else self.rng.choice((1, 2, 3, 5, 8))
            message: dict[str, Any] = {
                "model": self.model,
                "id": ident,
                "type": "message",
                "role": "assistant",
                "content": [body],
            }
            message |= {"stop_reason": None, "stop_sequence": None}
            message |= {"usage": usage | {"output_tokens": shown, "service_tier": "standard"}}
            self.parent = self.line("assistant", self.parent, message=message, requestId=request)
            if block["type"] == "tool_use":
                self.made_by[body["id"]] = self.parent
        self.requests += 1
        self.last, self.since = prompt + output + PER_MESSAGE, 0
        return calls

    def results(self, results: Iterable[tuple[str, Result]]) -> None:
        """Record what the tools gave back, each on a line of its own that hangs off its own call."""
        self._message()
        for call, result in results:
            self.wait(result.seconds)
            origin = self.made_by[call]
            parent = origin
            if result.seconds > 4 and not self.agent:
                data = {"type": "bash_progress", "output": "", "fullOutput": "", "elapsedTimeSeconds": int(result.seconds) - 1}
                parent = self.line(
                    "progress", origin, data=data | {"totalLines": 0}, toolUseID="bash-progress-0", parentToolUseID=call
                )
            block: dict[str, Any] = {"tool_use_id": call, "type": "tool_result", "content": result.content}
            if result.error:
                block["is_error"] = True
            self.since += self._add(readable(block))
            more: dict[str, Any] = {"message": {"role": "user", "content": [block]}}
            if result.meta is not None:
                more["toolUseResult"] = result.meta
            self.parent = self.line("user", parent, **more, sourceToolAssistantUUID=origin)

    def end_turn(self, hook: str = "") -> None:
        """Close a turn: the stop hook's line, where there is one, and how long the turn took."""
        self.wait(0.2)
        if hook:
            more = {"hookCount": 1, "hookInfos": [{"command": hook}], "hookErrors": [], "preventedContinuation": False}
            more |= {"stopReason": "", "hasOutput": False, "level": "suggestion", "toolUseID": self.uuid()}
            self.parent = self.line("system", self.parent, subtype="stop_hook_summary", **more)
        more = {"durationMs": round((self.now - self.began) * 1000), "isMeta": False}
        self.parent = self.line("system", self.parent, subtype="turn_duration", **more)

    def compact(self, summary: str, trigger: str = "auto") -> None:
        """Record a compaction: the boundary, then the summary from which the conversation goes on."""
        self.wait(24 + self.rng.random() * 30)
        meta = {"trigger": trigger, "preTokens": self.last + self.since}
        edge = self.line(
            "system",
            None,
            logicalParentUuid=self.parent,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata=meta,
        )
        self.items, self.since, self.last = [], 0, self.prefix
        self._message()
        self.since += self._add(summary)
        self.wait(0.001)
        message = {"role": "user", "content": summary}
        self.parent = self.line("user", edge, message=message, isVisibleInTranscriptOnly=True, isCompactSummary=True)
        self.compactions += 1

    def titled(self, title: str) -> str:
        """Give the whole file: the title line, then every line in the order in which it was written."""
        leaf = next(line["uuid"] for line in reversed(self.lines) if line["type"] == "assistant")
        first: list[dict[str, Any]] = [] if self.agent else [{"type": "summary", "summary": title, "leafUuid": leaf}]
        return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in [*first, *self.lines])
