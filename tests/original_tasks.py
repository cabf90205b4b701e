"""Task folders as Cline and Roo Code store them, of tasks whose truncations are known from the originals.

Cline's are the golden cases' sequences (what the original did is in them), Roo's follow its published numbers of messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.goldens import DEFAULT
from tests.goldens import cline_classic as goldens

NOON = 1_763_726_400_000
HISTORY, SCREEN = "api_conversation_history.json", "ui_messages.json"
Rows = list[dict[str, Any]]


def _make_request(ts: int, **info: Any) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps(info)}


def _make_text(ts: int, **more: Any) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "text", "text": "so", **more}


def cline_cases() -> dict[str, dict[str, Any]]:
    """The original's sequences by name; none where the golden cases are not beside the project."""
    path = DEFAULT / "cline-classic.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else []
    return {case["id"]: goldens._words(case, out=False) for case in cases if case["kind"] == "sequence"}


def cline(case: dict[str, Any]) -> tuple[Rows, Rows]:
    """History and screen of a case's task: messages, usage and masks as Cline stores them."""
    steps, expect = case["input"]["steps"], case["expect"]["steps"]
    history: Rows = []
    screen: Rows = []
    for n, (step, row) in enumerate(zip(steps, expect, strict=True)):
        index = len(history) + len(step["append"]) - 2
        history += [{"role": m["role"], "content": m["content"], "ts": NOON + n * 1_000 + 100} for m in step["append"]]
        used = steps[n + 1]["previous_request"] if n + 1 < len(steps) else {}
        mask = {} if row["range"] is None else {"conversationHistoryDeletedRange": row["range"]}
        screen += [
            {**_make_request(NOON + n * 1_000, **used), "conversationHistoryIndex": index},
            _make_text(NOON + n * 1_000 + 500, **mask),
        ]
    return history, screen


def roo(requests: int, full: int, hidden: int) -> tuple[Rows, Rows]:
    """History and screen of a task in which request `full` comes after 50,000 tokens: so many messages behind the first are
    hidden then, by a marker; or, where `hidden` is 0, all of them by a summary."""
    history: Rows = []
    screen: Rows = []
    for n in range(requests):
        ts = NOON + n * 20_000
        used = 50_000 * (n + 1) // full if n < full else 9_000
        screen.append(_make_request(ts, apiProtocol="anthropic", tokensIn=used, tokensOut=10))
        history.append({"role": "user", "content": [{"type": "text", "text": f"question {n}"}], "ts": ts + 100})
        if n == full:
            history += _tag_hidden(history, hidden, ts)
            screen.append(_make_event(hidden, ts + 200))
        screen.append(_make_text(ts + 9_000))
        history.append({"role": "assistant", "content": [{"type": "text", "text": f"answer {n}"}], "ts": ts + 9_500})
    return history, screen


def _tag_hidden(history: Rows, hidden: int, ts: int) -> Rows:
    """Tags what is hidden; gives the message that stands for it, where it stands at the end."""
    if not hidden:
        for message in history:
            message["condenseParent"] = "C"
        content = [{"type": "text", "text": "a summary " * 40}]
        return [{"role": "user", "content": content, "ts": ts + 150, "isSummary": True, "condenseId": "C"}]
    for message in history[1 : hidden + 1]:
        message["truncationParent"] = "T"
    marker = {"role": "user", "content": f"[{hidden} messages are hidden]", "ts": ts, "isTruncationMarker": True}
    history.insert(hidden + 1, {**marker, "truncationId": "T"})
    return []


def _make_event(hidden: int, ts: int) -> dict[str, Any]:
    say, what = ("sliding_window_truncation", "contextTruncation") if hidden else ("condense_context", "contextCondense")
    about = {"truncationId": "T", "messagesRemoved": hidden} if hidden else {"condenseId": "C"}
    return {"ts": ts, "type": "say", "say": say, what: about}


def write(folder: Path, history: Rows, screen: Rows) -> Path:
    """Store a task in a folder; gives its history file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in ((HISTORY, history), (SCREEN, screen)):
        (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return folder / HISTORY


def write_tasks(folder: Path) -> Iterator[tuple[Path, int]]:
    """Writes all of them; gives each history file with the window that its original had."""
    for name, case in cline_cases().items():
        windows = {step["window"] for step in case["input"]["steps"]}
        if len(windows) == 1:
            yield write(folder / f"cline-{name}", *cline(case)), windows.pop()
    for name, full, hidden in (("9-messages", 4, 4), ("21-messages", 10, 10), ("summary", 10, 0)):
        yield write(folder / f"roo-{name}", *roo(full + 4, full, hidden)), 64_000
