"""Logs of several formats with records of a type that no version of their tool is known to write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_log import Log
from importers import test_codex, test_gemini_cli, test_kimi, test_newer_logs, test_newer_tools, test_pi, test_qwen_code

KIND = "brand_new_record"
PROMPT = "What is in the file? " * 800


def _make_claude_code() -> list[Any]:
    log = Log()
    log.user(PROMPT)
    log.answer("m1", "This.", usage=(5_000, 0, 0, 5))
    return [json.loads(line) for line in log.text().splitlines()]


def _replace(rows: list[Any], *texts: str) -> list[Any]:
    """The rows with a long prompt for one of these texts."""
    data = json.dumps(rows)
    text = next(text for text in texts if f'"{text}"' in data)
    return list(json.loads(data.replace(f'"{text}"', json.dumps(PROMPT), 1)))


LOGS: dict[str, Callable[[], list[Any]]] = {
    "claude-code": _make_claude_code,
    "codex": lambda: [
        *test_codex.OPENING,
        test_codex.make_message("user", PROMPT),
        test_codex.make_message("assistant", "This."),
    ],
    "pi": lambda: _replace(test_pi.V1, "go"),
    "gemini-cli": lambda: _replace(test_gemini_cli.LINES, "hi"),
    "kimi-code": lambda: _replace(test_kimi.CODE, "go"),
    "copilot-cli": lambda: _replace(test_newer_logs.EVENTS, "go"),
    "qwen-code": lambda: _replace(test_qwen_code.LINES, "hi", "go"),
    "droid": lambda: _replace(test_newer_tools.DROID, "go"),
}
"""By the importer's name, what makes the records of a log with one long prompt."""


def write_log(folder: Path, name: str, count: int, size: int) -> Path:
    """Write a log with unknown records at its end.

    Args:
        folder: Where.
        name: The format.
        count: How many unknown records.
        size: Characters of a text that each of them holds.
    """
    path = folder / f"{name}.jsonl"
    rows = [*LOGS[name](), *({"type": KIND, "payload": "y" * size, "number": n} for n in range(count))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
