"""Recorded runs of agents, each beside the transcripts that it wrote.

A run is a folder with `wire.json.xz` and `transcripts.tar.xz`, or both unpacked (`wire.jsonl`, `transcripts/`).
"""

from __future__ import annotations

import json
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MAIN = ("main", "sub")  # kinds of requests that a transcript tells of; the others are side requests


@dataclass(frozen=True)
class Run:
    """One recorded run. `rows`: every request in the order of its arrival, with `kind`, `body` and `response`."""

    name: str
    rows: list[dict[str, Any]]
    transcripts: Path

    @property
    def main(self) -> list[dict[str, Any]]:
        """The main requests that were answered, those of subagents with them."""
        return [row for row in self.rows if row["kind"] in MAIN and is_answered(row)]


def is_answered(row: dict[str, Any]) -> bool:
    """Whether the server answered a request: not refused, and not broken off before anything was sent."""
    response = row.get("response") or {}
    return response.get("status", 200) == 200


def folders(root: Path) -> list[Path]:
    """The runs in a folder, or the folder itself."""
    found = {path.parent for name in ("wire.json.xz", "wire.jsonl") for path in root.rglob(name)}
    return sorted(found)


@contextmanager
def open_run(folder: Path) -> Iterator[Run]:
    """A run, unpacked for as long as it is needed."""
    name = "/".join(folder.parts[-2:])
    if (folder / "wire.jsonl").is_file():
        lines = (folder / "wire.jsonl").read_text("utf-8").split("\n")  # splitlines() would split inside texts, too
        yield Run(name, [json.loads(line) for line in lines if line], folder / "transcripts")
        return
    packed = json.loads(lzma.decompress((folder / "wire.json.xz").read_bytes()))
    rows = []
    for row in packed["rows"]:
        lists = {key: [packed["blobs"][digest] for digest in row["lists"][key]] for key in row["lists"]}
        rows.append({**row, "body": {**(row["body"] or {}), **lists}})
    with TemporaryDirectory() as temporary:
        with tarfile.open(folder / "transcripts.tar.xz") as archive:
            archive.extractall(temporary, filter="data")
        yield Run(name, rows, Path(temporary))
