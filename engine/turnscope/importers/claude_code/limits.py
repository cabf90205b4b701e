"""What Claude Code's lines say of context windows: limits that the provider named, models chosen with `[1m]`, totals.

And what a version is known to ask of the provider where its log does not hold the requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from msgspec import structs

from turnscope.importers.claude_code.api_requests import parse_time
from turnscope.session.model import JSON, MODEL_WINDOWS, Session
from turnscope.session.window_facts import describe_main_path

_REFUSED = re.compile(r"prompt is too long: (\d{1,9}) tokens > (\d{4,9})")
_CHOSEN = re.compile(r"<local-command-stdout>\s*Set model to (.{1,200}?)</local-command-stdout>", re.DOTALL)
_LARGE = re.compile(r"\[1m\]|\b1M context", re.IGNORECASE)
_FAMILY = re.compile(r"opus|sonnet|haiku|fable|mythos", re.IGNORECASE)
_PLAN = re.compile(r"opus\s?plan", re.IGNORECASE)  # one choice for two: the one in plan mode, the other elsewhere
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
SUFFIX = "[1m]"
LARGE_WINDOW = 1_000_000  # tokens of the window of a model whose name ends in `[1m]`
# What requests with thinking ask for: that the thinking of past turns stays. Seen in recordings of 2.1.330; the first public
# report of a request with it is of 2.0.36 (November 2025). A request without thinking does not have it, and needs none.
THINKING_STAYS: dict[str, JSON] = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
_THINKING_STAYS_SINCE = (2, 0, 36)


@lru_cache
def keeps_thinking(version: str) -> bool:
    """Whether a version asks the provider to keep the thinking of past turns."""
    numbers = _VERSION.match(version)
    return numbers is not None and tuple(map(int, numbers.groups())) >= _THINKING_STAYS_SINCE


@dataclass(slots=True)
class WindowRecords:
    """What the lines of a file say of windows, as `MODEL_WINDOWS` describes it."""

    models: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[float, int, int]] = field(default_factory=list)
    switches: list[tuple[float | bool | str, ...]] = field(default_factory=list)

    def add(self, record: dict[str, Any]) -> None:
        """Take one line in. What a person or a model wrote is no evidence: only the tool's own lines are read."""
        kind, at = record.get("type"), parse_time(record.get("timestamp")) or 0.0
        if isinstance(usage := record.get("modelUsage"), dict):
            for model, row in usage.items():
                stated = row.get("contextWindow") if isinstance(row, dict) else None
                if model.lower().endswith(SUFFIX):
                    stated = stated or LARGE_WINDOW
                if type(stated) is int and stated > 0:
                    self.models[model.lower().removesuffix(SUFFIX)] = stated
        elif kind == "system" and record.get("subtype") == "api_error":
            self._add_refusal(at, " ".join(_iter_texts(record.get("error"))))
        elif kind == "assistant" and record.get("isApiErrorMessage") is True:
            self._add_refusal(at, _read_text(record))
        elif kind in ("user", "system") and (chosen := _CHOSEN.match(_read_text(record).lstrip())):
            self.switches.append((at, bool(_LARGE.search(chosen[1])), *_list_families(chosen[1])))

    def _add_refusal(self, at: float, text: str) -> None:
        if found := _REFUSED.search(text):
            self.refused.append((at, int(found[1]), int(found[2])))

    def describe(self) -> dict[str, JSON]:
        """What was found, without what was not: a copy in JSON's own types, since more lines may come."""
        listed = {"refused": list(map(list, self.refused)), "switches": list(map(list, self.switches))}
        found: dict[str, JSON] = {"models": dict(self.models), **listed}
        return {key: value for key, value in found.items() if value}


def hand_windows_down(main: Session) -> Session:
    """The session whose branches and subagents, at any depth, say what its lines and its main path show of windows."""
    listed = main.about.get(MODEL_WINDOWS) or {}
    shown = {"models": listed.get("models"), "switches": listed.get("switches"), "main": describe_main_path(main)}
    known = {key: value for key, value in shown.items() if value}
    return _add_below(main, known) if known else main


def _add_below(session: Session, known: dict[str, JSON]) -> Session:
    def add(own: Session) -> Session:
        about = {**own.about, MODEL_WINDOWS: {**known, **(own.about.get(MODEL_WINDOWS) or {})}}
        return structs.replace(_add_below(own, known), about=about)

    forks = tuple(structs.replace(fork, own=add(fork.own)) for fork in session.forks)
    return structs.replace(session, forks=forks, subagents=tuple(map(add, session.subagents)))


def _list_families(choice: str) -> list[str]:
    """The families of models that a choice is about, in lower case; none where it names none."""
    if _PLAN.search(choice):
        return ["opus", "sonnet"]
    return [name.lower() for name in _FAMILY.findall(choice)[:1]]


def _read_text(record: dict[str, Any]) -> str:
    """The text that a line begins with."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else record.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    return text if isinstance(text, str) else ""


def _iter_texts(value: Any, depth: int = 8) -> Iterator[str]:
    """The strings within an error, as deep as errors are nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _iter_texts(item, depth - 1)
