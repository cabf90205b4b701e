"""Sessions and tables for tests of fleets: small logs of Claude Code, and what of two sets of tables has to be alike."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.tables import TABLES

NOT_COMPARED = {"batch", "read_at", "cpu_seconds", "tries", "stamp"}  # of `sources`: when and how it was read
PRIVATE = "the wording of a prompt"


def write_log(
    path: Path, requests: int = 3, *, first: str = "", cwd: str = "/home/lynn/shop", day: int = 2, words: str = PRIVATE
) -> Path:
    """A log of Claude Code.

    Args:
        path: where it is written.
        requests: how many it has.
        first: the prefix of the ids of its answers; "" = its own.
        cwd: the working directory.
        day: of November 2026.
        words: of its prompts.
    """
    at, lines, parent = datetime(2026, 11, day, 9, tzinfo=UTC), list[dict[str, Any]](), None
    for n in range(requests):
        usage = {"input_tokens": 10, "cache_creation_input_tokens": 4_000, "cache_read_input_tokens": 18_000 + 4_000 * n}
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"/srv/a{n}.py"}}
        answer = {
            "id": f"{first or path.stem}-{n}",
            "role": "assistant",
            "model": "claude-opus-4-5-20251101",
            "content": [call],
        }
        answer |= {"usage": usage | {"output_tokens": 40}}
        result = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n}\n" * 50, "is_error": n == 1}]
        messages = ({"role": "user", "content": f"{words} {n}"}, answer, {"role": "user", "content": result})
        for k, message in enumerate(messages):
            uuid = f"{path.stem}-{n}-{k}"
            row = {"type": message["role"], "uuid": uuid, "parentUuid": parent, "sessionId": path.stem, "cwd": cwd}
            at += timedelta(seconds=5)
            lines.append(row | {"timestamp": at.isoformat().replace("+00:00", "Z"), "message": message, "version": "2.1.0"})
            parent = uuid
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def read_tables(dest: str | Fleet) -> dict[str, pa.Table]:
    """All tables, sorted by their keys, without what differs from run to run."""
    fleet = open_fleet(dest) if isinstance(dest, str) else dest
    return {
        name: fleet.read(name, [column for column in table.names if name != "sources" or column not in NOT_COMPARED]).sort_by(
            [(key, "ascending") for key in table.key]
        )
        for name, table in TABLES.items()
    }


def find_differences(one: str | Fleet, other: str | Fleet) -> list[str]:
    """The tables that are not alike, row by row."""
    first, second = read_tables(one), read_tables(other)
    return [name for name in TABLES if not first[name].equals(second[name])]
