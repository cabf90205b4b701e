"""What the status line shows of a session beyond what Claude Code tells it, written to a small file from the index.

Its numbers are those of the index, and so of the app: parts of the last prompt as on the page Envelope, USD of the session as
in the library, USD of the day as `turnscope usage` adds them up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from turnscope import statusline
from turnscope.atomic_file import replace_file
from turnscope.library import indexing, loading
from turnscope.ports.claude_code import limits
from turnscope.settings import Machine, detect_machine
from turnscope.storage import library_index
from turnscope.storage.library_index import LatestRequest
from turnscope.views.overview import LABELS
from turnscope.views.usage import sum_usage

REST = 10  # a refresh that took a second of the processor is not followed by another one for so many seconds
LEAST_REST, MOST_REST = 2.0, 60.0
PERCENT = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"  # Claude Code's own variables
OFF = ("DISABLE_AUTO_COMPACT", "DISABLE_COMPACT")


def refresh(index: Path, folder: Path, transcript: Path, id: str) -> None:
    """Bring the index up to date with a session and with what else was written today, and write the records.

    It waits first where the last refresh is not long ago, so that it takes a tenth of a processor at most.

    Args:
        index: The index.
        folder: The folder of Turnscope's data.
        transcript: The session.
        id: Its id.

    Raises:
        StorageError: The index cannot be written.
    """
    record = folder / statusline.FOLDER / f"{id}.json"
    _rest(statusline.read_json(str(record)))
    began, seen = time.process_time(), statusline.stamp(str(transcript))  # before anything is read
    source = str(transcript.resolve())
    [*indexing.index(index, [Path(source)])]
    made = describe(index, source) | {"stamp": seen, "made": time.time(), "seconds": time.process_time() - began}
    _write(record, made)
    _write(record.with_name(statusline.DAY_FILE), sum_today(index, Path(source)))
    _write(record, made | {"seconds": time.process_time() - began})


def describe(index: Path, source: str) -> dict[str, Any]:
    """Describe a session for the status line; empty = it is not in the index.

    Args:
        index: The index.
        source: The path of the session as the index has it.
    """
    row = library_index.find_session(index, source)
    if row is None:
        return {}
    made: dict[str, Any] = {"usd": row.usd, "warm_until": row.warm_until}
    if not row.latest:
        return made
    latest = msgspec.json.decode(row.latest, type=LatestRequest)
    name, tokens = max(latest.parts.items(), key=lambda part: part[1], default=("", 0))
    return made | {
        "prompt": latest.prompt,
        "window": latest.window,
        "evidence": latest.evidence,
        "largest": LABELS.get(name, ""),
        "share": tokens / max(1, latest.prompt),
        "trigger": find_trigger(latest, detect_machine()),
    }


def find_trigger(latest: LatestRequest, machine: Machine) -> int:
    """Return the tokens of a prompt and its answer from which on Claude Code compacts by itself; 0 = unknown, or never.

    Args:
        latest: The last request.
        machine: Where Claude Code's settings are.
    """
    home = machine.variables.get("CLAUDE_CONFIG_DIR")
    config = statusline.read_json(str((Path(home) if home else machine.home) / ".claude.json"))
    if not latest.window or config.get("autoCompactEnabled") is False or any(machine.variables.get(name) for name in OFF):
        return 0
    percent = machine.variables.get(PERCENT, "")
    effective = limits.compute_effective_window(latest.window, latest.output or limits.RESERVE)
    return limits.compute_trigger(effective, percent=int(percent) if percent.isdigit() else 0)


def sum_today(index: Path, source: Path) -> dict[str, Any]:
    """Add up what all sessions of all tools cost today. What was not written to today is not looked at: it has no such request.

    Args:
        index: The index.
        source: A session that counts wherever it lies.
    """
    today = datetime.now().astimezone().date()
    midnight = datetime(today.year, today.month, today.day).astimezone().timestamp()
    written = [*dict.fromkeys([source, *_list_written_since(midnight)])]
    [*indexing.index(index, written)]
    rows = library_index.list_usage(index, map(str, written))
    total = sum_usage(rows, "daily", since=today, until=today).total
    return {"day": today.isoformat(), "usd": total.usd if total.requests else 0.0}


def _list_written_since(moment: float) -> Iterator[Path]:
    """Sources of all tools on this machine that were written to since a moment."""
    for _, place in loading.find_places():
        for path in place.paths():
            if _find_write_time(path) >= moment:
                yield path


def _find_write_time(path: Path) -> float:
    """When a source was written to last: a file, a database with its log, or a folder and what lies in it."""
    inside = path.iterdir() if path.is_dir() else (path.with_name(f"{path.name}-wal"),)
    return max((each.stat().st_mtime for each in (path, *inside) if each.exists()), default=0.0)


def _rest(record: statusline.Record) -> None:
    """Wait until enough time has passed since the last refresh."""
    made, seconds = record.get("made"), record.get("seconds")
    if isinstance(made, float) and isinstance(seconds, float):
        until = made + min(MOST_REST, max(LEAST_REST, REST * seconds))
        time.sleep(min(MOST_REST, max(0.0, until - time.time())))


def _write(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as part:
        part.write_text(json.dumps(values), encoding="utf-8")
