"""What Claude Code's lines say of context windows: limits that the provider named, models chosen with `[1m]`, totals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from turnscope.importers.claude_code.api_requests import parse_time
from turnscope.session.model import JSON

_REFUSED = re.compile(r"prompt is too long: (\d{1,9}) tokens > (\d{4,9})")
_CHOSEN = re.compile(r"<local-command-stdout>\s*Set model to (.{1,200}?)</local-command-stdout>", re.DOTALL)
_LARGE = re.compile(r"\[1m\]|\b1M context", re.IGNORECASE)
SUFFIX = "[1m]"
LARGE_WINDOW = 1_000_000  # tokens of the window of a model whose name ends in `[1m]`


@dataclass(slots=True)
class WindowRecords:
    """What the lines of a file say of windows, as `MODEL_WINDOWS` describes it."""

    models: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[float, int, int]] = field(default_factory=list)
    switches: list[tuple[float, bool]] = field(default_factory=list)

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
            self.switches.append((at, bool(_LARGE.search(chosen[1]))))

    def _add_refusal(self, at: float, text: str) -> None:
        if found := _REFUSED.search(text):
            self.refused.append((at, int(found[1]), int(found[2])))

    def describe(self) -> dict[str, JSON]:
        """What was found, without what was not: a copy in JSON's own types, since more lines may come."""
        listed = {"refused": list(map(list, self.refused)), "switches": list(map(list, self.switches))}
        found: dict[str, JSON] = {"models": dict(self.models), **listed}
        return {key: value for key, value in found.items() if value}


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
