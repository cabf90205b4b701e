"""Real logs of Claude Code, changed as other real logs differ: another model, an hour's cache, a pause, a later beginning.

Each function takes the lines of a file and gives changed copies. It imports nothing of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def read_lines(path: Path) -> list[Line]:
    """The records of a file; several may stand on one line."""
    decoder, found = json.JSONDecoder(), list[Line]()
    for row in path.read_text("utf-8").split("\n"):
        rest = row.strip()
        while rest:
            record, end = decoder.raw_decode(rest)
            rest = rest[end:].lstrip()
            found.append(record)
    return found


def write_lines(lines: list[Line], path: Path) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path


def rename_model(lines: list[Line], model: str, start: int = 0) -> list[Line]:
    """Every answer from request `start` on is of another model."""
    return _change_answers(lines, lambda n, message: message.update(model=model) if n >= start else None)


def write_for_an_hour(lines: list[Line]) -> list[Line]:
    """All that was written to the cache was written for one hour."""

    def change(_: int, message: Line) -> None:
        written = message["usage"]["cache_creation_input_tokens"]
        message["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": written}

    return _change_answers(lines, change)


def read_nothing(lines: list[Line], number: int) -> list[Line]:
    """One request asked for no caching."""

    def change(n: int, message: Line) -> None:
        if n == number:
            usage = message["usage"]
            usage["input_tokens"] += usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
            usage |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "cache_creation": {}}

    return _change_answers(lines, change)


def add_to_prompts(lines: list[Line], tokens: int, numbers: Container[int]) -> list[Line]:
    """Some prompts were that much larger, with what the log does not hold."""

    def change(n: int, message: Line) -> None:
        message["usage"]["cache_read_input_tokens"] += tokens if n in numbers else 0

    return _change_answers(lines, change)


def think_more(lines: list[Line], times: int) -> list[Line]:
    """Every thought was so many times as long, at four characters a token, and later prompts hold it."""
    made, grown = deepcopy(lines), dict[int, int]()
    for n, at in _iter_answers(made):
        for part in made[at]["message"]["content"]:
            if part["type"] == "thinking":
                grown[n] = grown.get(n, 0) + (times - 1) * len(part["thinking"]) // 4
                part["thinking"] = "\n".join([part["thinking"]] * times)

    def change(n: int, message: Line) -> None:
        usage = message["usage"]
        usage["cache_read_input_tokens"] += sum(grown.get(m, 0) for m in range(n - 1))
        usage["cache_creation_input_tokens"] += grown.get(n - 1, 0)
        usage["output_tokens"] += grown.get(n, 0)

    return _change_answers(made, change)


def pause(lines: list[Line], number: int, seconds: float) -> list[Line]:
    """Nothing was sent for a while before a request, and the cache held nothing any more."""
    start = next(at for n, at in _iter_answers(lines) if n == number)
    start = max(at for at in range(start) if lines[at].get("type") == "user")

    def change(n: int, message: Line) -> None:
        usage = message["usage"]
        if n == number:
            usage["cache_creation_input_tokens"] += usage["cache_read_input_tokens"]
            usage["cache_read_input_tokens"] = 0
            for lives, written in (usage.get("cache_creation") or {}).items():
                usage["cache_creation"][lives] = usage["cache_creation_input_tokens"] if written else 0

    made = _change_answers(lines, change)
    for line in made[start:]:
        if isinstance(line.get("timestamp"), str):
            later = datetime.fromisoformat(line["timestamp"]) + timedelta(seconds=seconds)
            line["timestamp"] = later.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return made


def take_first(lines: list[Line], requests: int) -> list[Line]:
    """The file ends before a request."""
    return deepcopy(lines[: next(at for n, at in _iter_answers(lines) if n == requests)])


def begin_late(lines: list[Line], requests: int) -> list[Line]:
    """The file begins with a later answer; what was said before is in no file."""
    return deepcopy(lines[next(at for n, at in _iter_answers(lines) if n == requests) :])


def split_sidechains(lines: list[Line]) -> tuple[list[Line], dict[str, list[Line]]]:
    """The lines of the session itself, and those of each subagent, as newer versions write them into files of their own."""
    by = {line["uuid"]: line for line in lines if "uuid" in line}
    agents: dict[str, list[Line]] = {}
    for line in lines:
        root = line
        while line.get("isSidechain") and root.get("parentUuid") in by:
            root = by[root["parentUuid"]]
        if line.get("isSidechain"):
            agents.setdefault(root["uuid"].replace("-", "")[:16], []).append(line)
    own = [line for line in lines if not line.get("isSidechain")]
    return own, {name: [{**line, "agentId": name} for line in found] for name, found in agents.items()}


def _iter_answers(lines: list[Line]) -> Iterator[tuple[int, int]]:
    """Every line of an answer: the number of its request, and its place."""
    numbers: dict[str, int] = {}
    for at, line in enumerate(lines):
        message = line.get("message") or {}
        if line.get("type") == "assistant" and message.get("model") != "<synthetic>" and message.get("usage"):
            yield numbers.setdefault(message["id"], len(numbers)), at


def _change_answers(lines: list[Line], change: Callable[[int, Line], None]) -> list[Line]:
    made = deepcopy(lines)
    for n, at in _iter_answers(made):
        change(n, made[at]["message"])
    return made
