"""The table of formats in the documentation, and what a second, plain reading of each real file says of ours.

`python -m tests.regenerate formats` writes the first. `python -m tests.formats_table [FILE ...]` prints the second: of each
file the requests, blocks and messages, then calls, results, tokens and texts as we read them beside what `plain_readings`
finds.
Exit code 1 where they differ.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.session.model import Part, Session
from turnscope.session.thread import iter_descendants
from turnscope.views.formats import list_formats

from tests import plain_messages, plain_readings

ROOT = Path(__file__).resolve().parent.parent
FORMATS = ROOT / "engine" / "turnscope" / "docs" / "formats.md"
DATA = [ROOT.parent / "shared" / "data" / name for name in ("open", "new")]
BEGIN, END = "<!-- formats: made by `python -m tests.regenerate formats` -->", "<!-- end of formats -->"
HEAD = (
    "file",
    "format",
    "sessions",
    "requests",
    "blocks",
    "messages",
    "calls",
    "results",
    "prompt tokens",
    "answer tokens",
    "texts",
    "notes",
)
ASIDE = {".db-shm", ".db-wal", ".tsv"}


@dataclass(slots=True)
class Compared:
    """A file as we read it and as it is read plainly. `pairs`: of calls, results, prompt and answer tokens, and texts."""

    name: str
    format: str
    sessions: int
    requests: int
    blocks: int
    messages: int
    pairs: dict[str, tuple[int, int]]
    notes: int
    lost: list[str]

    @property
    def right(self) -> bool:
        return all(ours == held for ours, held in self.pairs.values())


def make_page() -> str:
    """The page with the table as it is now. ValueError where it has no place for it."""
    before, rest = FORMATS.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{list_formats(packages=False)}\n\n{END}{after}"


def list_files() -> Iterator[Path]:
    """Every real file at hand."""
    for folder in DATA:
        yield from (
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix not in ASIDE and "db-" not in path.suffix
        )


def compare_file(path: Path) -> Compared:
    """Read a file both ways. TurnscopeError where we cannot read it."""
    sessions: list[Session] = []
    for entry in turnscope.entries(path):
        try:
            sessions.append(turnscope.load(path, entry))
        except TurnscopeError:  # an entry of a file of many may hold no message
            continue
    paths = [each for one in sessions for each in (one, *(found.own for found in iter_descendants(one)))]
    blocks = [block for each in paths for block in each.blocks]
    requests = [request for each in paths for request in each.requests]
    messages = sum(len(each.messages) for each in paths)
    format = sessions[0].source if sessions else ""
    reading = plain_readings.READINGS.get(format)
    pairs: dict[str, tuple[int, int]] = {}
    lost: list[str] = []
    if reading:
        held = plain_readings.read_plainly(path, reading, plain_messages.COUNTS.get(format))
        calls = {str(b.raw.get("id")) for b in blocks if b.kind == "tool_use" and isinstance(b.raw, dict)}
        results = {str(b.raw.get("tool_use_id")) for b in blocks if b.kind == "tool_result" and isinstance(b.raw, dict)}
        if held.messages is not None:
            pairs["messages"] = messages, held.messages
        if reading.calls:
            pairs["calls"] = len(calls & held.calls), len(held.calls)
        if reading.results:
            pairs["results"] = len(results & held.results), len(held.results)
        if held.usage is not None:
            used = [request.usage for request in requests if request.usage]
            pairs["prompt tokens"] = sum(one.prompt_tokens for one in used), held.usage[0]
            pairs["answer tokens"] = sum(one.output_tokens for one in used), held.usage[1]
        parts = [part.text or json.dumps(part.raw, ensure_ascii=False) for each in paths for part in list_parts(each)]
        shown = flatten("\n".join([*parts, *(t for b in blocks for t in (b.text, json.dumps(b.raw, ensure_ascii=False)))]))
        lost = [words for words in held.words if flatten(words) not in shown]
        pairs["texts"] = len(held.words) - len(lost), len(held.words)
    name = str(Path(*path.parts[-2:]))
    notes = len({note.what for each in paths for note in each.notes})
    return Compared(name, format, len(sessions), len(requests), len(blocks), messages, pairs, notes, lost)


def list_parts(session: Session) -> list[Part]:
    """What the tool put in place of blocks, such as a summary that no message holds."""
    return [part for observed in session.observed for part in observed.edit.body]


def flatten(words: str) -> str:
    """A text without what quoting, tags of the tool's own and line breaks do to it."""
    unquoted = re.sub(r"\\+([\"\\/ntr])", lambda found: {"n": " ", "t": " ", "r": " "}.get(found[1], found[1]), words)
    return " ".join(unquoted.replace("\\", "").split())


def format_row(row: Compared) -> str:
    """A row of the table: ours, and what the file holds where it differs."""
    cells = [row.name, row.format, *(f"{count:,}" for count in (row.sessions, row.requests, row.blocks))]
    said = row.pairs.get("messages", (row.messages, row.messages))
    cells.append(f"{said[0]:,}" if said[0] == said[1] else f"{said[0]:,} of {said[1]:,}")
    for name in HEAD[6:11]:
        ours, held = row.pairs.get(name, (-1, -1))
        cells.append("" if ours < 0 else f"{ours:,}" if ours == held else f"{ours:,} of {held:,}")
    return " | ".join([*cells, str(row.notes)])


def main(arguments: Sequence[str]) -> int:
    print(" | ".join(HEAD), flush=True)
    wrong = 0
    for path in [Path(one) for one in arguments] or list_files():
        try:
            row = compare_file(path)
        except TurnscopeError as error:
            print(f"{path.name} | cannot be read: {error.what}", flush=True)
            wrong += 1
            continue
        print(format_row(row), flush=True)
        for words in row.lost[:3]:
            print(f"    not shown: {words[:120]!r}")
        wrong += not row.right
    print(f"{wrong} files differ from their plain reading")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
