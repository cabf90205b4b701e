"""A made-up Claude Code session that records its requests whole, written the way the tool writes it.

The hashes are computed here once more, from what is known of them, so that the importer is not held against itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

SYSTEM = [{"type": "text", "text": "You are a careful engineer."}, {"type": "text", "text": "Work in small steps. " * 40}]
TOOLS = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {"path": {}}}}]
EPHEMERAL = {"type": "ephemeral"}


def strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: strip(part) for key, part in value.items() if key != "cache_control"}
    return [strip(part) for part in value] if isinstance(value, list) else value


def digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def list_content(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    return {**message, "content": [{"type": "text", "text": content}] if isinstance(content, str) else content}


class Log:
    """Lines of a session's file, and the bodies that were sent, in order."""

    def __init__(self, session: str = "s1") -> None:
        self.session, self.lines, self.sent = session, list[dict[str, Any]](), list[dict[str, Any]]()
        self.parent: str | None = None
        self.base: tuple[str, list[str]] = ("", [])
        self.known: set[str] = set()
        self.unrecorded: set[int] = set()  # requests of which nothing is recorded, nor does a later record build on them

    def line(self, kind: str, **fields: Any) -> str:
        uuid = f"u{len(self.lines)}"
        at = f"2026-11-20T10:{len(self.lines) // 60:02}:{len(self.lines) % 60:02}.000Z"
        self.lines.append({"type": kind, "sessionId": self.session, "timestamp": at, "version": "2.1.330"} | fields)
        if kind in ("user", "assistant", "attachment", "system"):
            self.lines[-1] |= {"uuid": uuid, "parentUuid": self.parent, "isSidechain": False}
            self.parent = uuid
        return uuid

    def prompt(self, text: Any) -> None:
        self.line("user", message={"role": "user", "content": text})

    def send(self, messages: list[dict[str, Any]], **params: Any) -> str:
        """A request goes out and is recorded, unless its number is in `unrecorded`.

        Messages of the assistant are not written again, as the tool does.
        """
        id = f"r{len(self.sent)}"
        params = {"model": "claude-sonnet-4-5", "max_tokens": 32_000, "betas": ["a-beta"]} | params
        body = {**params, "system": SYSTEM, "tools": TOOLS, "messages": [list_content(m) for m in messages]}
        path: list[Any] = ["messages", len(messages) - 1, "content", len(body["messages"][-1]["content"]) - 1]
        marks = [{"path": ["system", 1], "value": EPHEMERAL}, {"path": path, "value": EPHEMERAL}]
        hashes = [digest(list_content(strip(m))) for m in messages]
        marked = json.loads(json.dumps(body))
        marked["system"][1]["cache_control"] = EPHEMERAL
        marked["messages"][-1]["content"][-1]["cache_control"] = EPHEMERAL
        self.sent.append(marked)
        if len(self.sent) - 1 in self.unrecorded:
            self.base, self.known = ("", []), set()
            return id
        shape = {"system": SYSTEM, "tools": TOOLS}
        if digest(shape) not in self.known:
            self.line("api-request-shape", shapeHash=digest(shape), shape=shape)
            self.known.add(digest(shape))
        for hash, message in zip(hashes, messages, strict=True):
            if message["role"] == "user" and hash not in self.known:
                self.line("api-request-blob", hash=hash, message=list_content(message))
            self.known.add(hash)
        base, before = self.base
        keep = next((n for n, (a, b) in enumerate(zip(before, hashes, strict=False)) if a != b), min(len(before), len(hashes)))
        self.line(
            "api-request",
            id=id,
            **({"base": base} if base else {}),
            keep=keep,
            tail=hashes[keep:],
            shapeHash=digest(shape),
            params=params,
            cacheControl=marks,
            requestDigest=digest(marked),
            querySource="repl_main_thread",
        )
        self.base = (id, hashes)
        return id

    def answer(self, ref: str, content: list[dict[str, Any]], prompt_tokens: int = 1_000) -> dict[str, Any]:
        """The answer to a request, one line for each block."""
        usage = {"input_tokens": 10, "cache_read_input_tokens": prompt_tokens - 10, "output_tokens": 50}
        for block in content:
            message = {
                "id": f"msg_{ref}",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [block],
                "usage": usage,
            }
            self.line("assistant", message=message, requestRef=ref, requestId=f"req_{ref}")
        return {"role": "assistant", "content": content}

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.session}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path


def rounds(log: Log, count: int, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """So many rounds of one tool call each; gives all messages so far."""
    for _ in range(count):
        ref = log.send(said)
        n = len(log.sent)
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"path": f"src/file_{n}.py"}}
        said = [*said, log.answer(ref, [{"type": "text", "text": f"I read file {n}."}, call], 800 + 100 * n)]
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"line of file {n}\n" * 30}
        log.prompt([result])
        reminder = {"type": "text", "text": "<system-reminder>\nKeep the list of tasks up to date.\n</system-reminder>"}
        said = [*said, {"role": "user", "content": [result, *([reminder] if n % 3 == 0 else [])]}]
    return said


def session(folder: Path, count: int = 6, unrecorded: Iterable[int] = ()) -> tuple[Path, Log]:
    """A session of one prompt, `count` tool rounds and a last answer; `unrecorded` requests have no record."""
    log = Log()
    log.unrecorded = set(unrecorded)
    log.prompt("Please read the files one after the other.")
    reminder = {"type": "text", "text": "<system-reminder>\nToday is a Friday.\n</system-reminder>"}
    said = rounds(
        log,
        count,
        [{"role": "user", "content": [reminder, {"type": "text", "text": "Please read the files one after the other."}]}],
    )
    log.answer(log.send(said), [{"type": "text", "text": "All of them are read."}], 2_000)
    return log.write(folder), log
