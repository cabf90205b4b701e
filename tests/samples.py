"""`python -m tests.samples FOLDER_OR_FILE...`: what each file of real sessions opens as, and whether its numbers hold.

Two tables, a row for each file: what was read of all that it holds, and its main session against what must be true of any.
A third, by tool and version: the share of the prompts that the log does not hold, and what nothing explains. "Before" is that
share with what newer logs record of whole requests, prompts and base instructions left out, and without what other sessions of
the same run show of prompts that a log lacks. A recorded run (`tests.wire`) counts as the transcripts that lie in it.
Exit code 1 where reading ended in an exception, gave no session, or where a number that must be zero is not. Files in no
format that is known are listed below the tables, as what they are.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import turnscope
from turnscope.counting.reconciliation import HIDDEN_CELLS
from turnscope.errors import BrokenFile, TurnscopeError, UnknownFormat
from turnscope.library.discovery import find_sources
from turnscope.library.opening import load_prices
from turnscope.library.prompt_prior import add_prior, remember_size
from turnscope.planning.trace import Trace
from turnscope.reading.containers import open_source
from turnscope.reading.contents import list_entries, locate_entry, read_entry
from turnscope.reading.registry import find_session_path, find_suffixes
from turnscope.session.model import BEGINS_MID_CONVERSATION, Session
from turnscope.session.thread import iter_descendants
from turnscope.views.overview import CELLS, Overview, build_overview

from tests.wire import folders, open_run

READ = ("file", "format", "sessions", "requests", "blocks", "tokens in", "tokens out", "notes", "seconds")
HEAD = (
    "session",
    "requests",
    "bill",
    "recorded",
    "ratio",
    "unattr",
    "over",
    "neg",
    ">whole",
    ">peak",
    "prefix0",
    "after compaction",
)
TOOLS = ("tool", "version", "sessions", "requests", "before", "hidden", "hidden, most", "unattr p50", "unattr p99", "> 2 %")
NAMES = ("version", "cli_version")  # where a session says which version of its tool wrote it
RECORDS = ("api-request", "prompt_snapshot", "base_instructions")  # what marks a line that holds more than a transcript
UNEXPLAINED = 0.02  # of a prompt: more than this in no part is too much
ROUNDING = 1e-9  # USD below zero that are no money
ENDS = find_suffixes() | {".yaml", ".yml", ".db", ".vscdb", ".sqlite", ".traj", ".eval", ".gz"}  # what sessions end in


@dataclass(slots=True)
class Read:
    """What was read of a file: all its conversations, with their branches and subagents. `empty`: those without a message.

    `failed`: why it could not be read, "" = it could. `known`: it is in a format that is known.
    """

    name: str
    formats: dict[str, None] = field(default_factory=dict)
    sessions: int = 0
    empty: int = 0
    requests: int = 0
    blocks: int = 0
    sent: int = 0
    answered: int = 0
    notes: int = 0
    seconds: float = 0.0
    failed: str = ""
    known: bool = True

    @property
    def wrong(self) -> bool:
        """Whether it should have opened and did not, or opened as nothing."""
        return self.known and bool(self.failed or not self.sessions or not self.blocks)

    def cells(self) -> tuple[str, ...]:
        """The row as texts, as `READ`."""
        numbers = (self.requests, self.blocks, self.sent, self.answered, self.notes)
        sessions = f"{self.sessions:,}" + (f" + {self.empty:,} empty" if self.empty else "")
        return self.name, ", ".join(self.formats), sessions, *(f"{number:,}" for number in numbers), f"{self.seconds:.2f}"


@dataclass(slots=True)
class Row:
    """One file: its session, subagents and branches together. Shares are of a prompt; `unknown`: why a prefix is not known."""

    name: str
    requests: int = 0
    bill: Decimal = Decimal(0)
    summed: Decimal = Decimal(0)  # the bill again, request by request over all paths
    recorded: Decimal = Decimal(0)
    unattributed: float = 0.0
    over: float = 0.0
    negative: int = 0
    above: int = 0
    peak: int = 0
    bare: int = 0
    unknown: set[str] = field(default_factory=set)
    after: list[float] = field(default_factory=list)
    usage: bool = False
    tool: str = ""
    version: str = ""
    hidden: list[float] = field(default_factory=list)  # of each request: what the log does not hold
    before: list[float] = field(default_factory=list)  # the same without the records that hold more than a transcript
    unnamed: list[float] = field(default_factory=list)  # of each request: what nothing explains

    @property
    def wrong(self) -> bool:
        """Whether a number is not zero that must be."""
        return bool(self.negative or self.above or self.peak or self.bare or self.bill != self.summed)

    def cells(self) -> tuple[str, ...]:
        """The row as texts, as `HEAD`."""
        ratio = f"{self.bill / self.recorded:.3f}" if self.recorded else "-"
        after = f"{np.median(self.after):.1%}, worst {max(self.after):.1%}" if self.after else ""
        said = "; ".join(sorted(self.unknown)) if self.usage else "no usage"
        money = (f"${self.bill:,.2f}", f"${self.recorded:,.2f}", ratio)
        zeros = map(str, (self.negative, self.above, self.peak, self.bare))
        return (
            self.name,
            str(self.requests),
            *money,
            f"{self.unattributed:.1%}",
            f"{self.over:.1%}",
            *zeros,
            f"{after} {said}",
        )


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """Every file that may hold a session, or the path that opens in its place, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix.lower() in ENDS and file.name != "README.md":
                found[find_session_path(file)] = None
    return iter(found)


def read(path: Path) -> Read:
    """Everything that a file holds. Whatever goes wrong is said, and ends nothing."""
    found, began = Read("/".join(path.parts[-2:])), time.perf_counter()
    try:
        source = open_source(path)
        for entry in list_entries(source):
            found.formats[locate_entry(source, entry.id)[1].name] = None
            try:
                _add_session(found, read_entry(source, entry.id).session)
            except BrokenFile as error:
                if "holds no message" not in error.what:
                    raise
                found.empty += 1
    except TurnscopeError as error:
        found.failed, found.known = f"{error.what}", not isinstance(error, UnknownFormat) or " looks like " in error.what
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        found.failed = f"{type(error).__name__}: {error}"[:300]
    found.seconds = time.perf_counter() - began
    return found


def _add_session(found: Read, main: Session) -> None:
    found.sessions += 1
    for session in (main, *(each.own for each in iter_descendants(main))):
        found.requests += len(session.requests)
        found.blocks += len(session.blocks)
        found.notes += len(session.notes)
        for usage in (request.usage for request in session.requests if request.usage):
            found.sent += usage.prompt_tokens
            found.answered += usage.output_tokens


def row(path: Path, sizes: Path | None = None) -> Row | None:
    """Everything that is asked of a file's main session; None where it holds no request. TurnscopeErrors.

    Args:
        path: The file.
        sizes: A database of the sizes of prompts, which gives a prior to a log that lacks its own and learns of the others.
    """
    main = turnscope.load(path)
    if not main.requests:
        return None
    main = add_prior(sizes, main) if sizes else main
    version = next((str(main.about[name]) for name in NAMES if main.about.get(name)), "")
    found = Row("/".join(path.parts[-2:]), tool=main.source, version=version)
    billed: set[tuple[str, int] | str] = set()
    whole = turnscope.replay(main)
    if sizes:
        remember_size(sizes, main, whole)
    found.bill = build_overview(whole).total or Decimal(0)
    for session in _sessions(main):
        trace = turnscope.replay(session)
        view = build_overview(trace)
        _add(found, session, view, billed)
        _add_numbers(found, trace, view)
    return found


def hidden_before(path: Path, found: Row) -> list[float]:
    """The hidden shares of a file read without the records that hold more than a transcript.

    Args:
        path: The file.
        found: What it is with them.
    """
    if path.suffix != ".jsonl":
        return found.hidden
    with TemporaryDirectory() as folder:
        bare = Path(folder) / path.name
        lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
        kept = [left for line in lines if (left := strip_line(line))]
        if kept == lines:
            return found.hidden
        bare.write_text("".join(kept), encoding="utf-8")
        without = row(bare)
    return without.hidden if without else []


def strip_line(line: str) -> str:
    """A line of a log without whole requests, recorded prompts and base instructions; "" where it holds nothing else."""
    if not any(name in line for name in RECORDS):
        return line
    try:
        record = json.loads(line)
    except ValueError:
        return line
    attached, payload = record.get("attachment") or {}, record.get("payload")
    if str(record.get("type")).startswith("api-request") or attached.get("type") == "prompt_snapshot":
        return ""
    if record.get("type") == "session_meta" and isinstance(payload, dict):
        payload = {key: value for key, value in payload.items() if key != "base_instructions"}
        return json.dumps({**record, "payload": payload}) + "\n"
    return line


def _sessions(session: Session) -> Iterator[Session]:
    """A session, its branches as whole paths, and the subagents of all of these."""
    yield session
    yield from session.branches
    for one in (session, *(fork.own for fork in session.forks)):
        for agent in one.subagents:
            yield from _sessions(agent)


def _add(found: Row, session: Session, view: Overview, billed: set[tuple[str, int] | str]) -> None:
    """Add what a path cost, each request once."""
    for request, total in zip(session.requests, view.totals, strict=True):
        key = request.id or (session.id.partition("~")[0], request.cut)
        if key in billed:
            continue
        billed.add(key)
        found.requests += 1
        found.summed += total or 0
        priced = load_prices().compute_cost(request.usage, request.model, request.sent_at) if request.usage else None
        found.recorded += priced.total if priced else 0


def _add_numbers(found: Row, trace: Trace, view: Overview) -> None:
    """Add what a path's numbers are."""
    has = view.recorded > 0
    found.usage |= bool(has.any())
    whole = np.maximum(view.prompts, 1)
    parts = [CELLS.index(name) for name in HIDDEN_CELLS]
    found.hidden += (view.cells[has][:, parts].sum(axis=1) / whole[has]).tolist()
    found.unnamed += (view.cells[has, -1] / whole[has]).tolist()
    found.unattributed = max(found.unattributed, float((view.cells[has, -1] / whole[has]).max(initial=0)))
    once = has & np.array([not (request.usage and request.usage.iterations) for request in trace.session.requests], dtype=bool)
    found.over = max(found.over, float((view.over[once] / whole[once]).max(initial=0)))
    found.negative += int((view.cells < 0).sum() + (view.billed < 0).sum() + (view.usd < -ROUNDING).sum())
    found.above += int((view.cells > view.prompts[:, None]).any(axis=1).sum())
    found.above += int((view.cells[has].sum(axis=1) != view.recorded[has]).sum())
    if has.all():
        found.peak += sum(trace.count_tokens(n) > view.recorded.max() for n in range(len(view)))
    _prefixes(found, trace, view)
    compactions = {seen.request for seen in trace.session.observed if seen.edit.action == "condense"}
    found.after += [
        abs(trace.plans[n].expected_tokens / int(view.recorded[n]) - 1) for n in compactions if view.recorded[n] > 0 and n
    ]


def _prefixes(found: Row, trace: Trace, view: Overview) -> None:
    """Requests without a prefix though the log holds neither system prompt nor tools; or why none can be known."""
    if any(block.bucket in ("system", "tools") for block in trace.session.blocks):
        return
    for n in np.flatnonzero(view.cells[:, CELLS.index("prefix")] == 0):
        fit = trace.get_terms(int(n))
        if fit.earlier and trace.session.about.get(BEGINS_MID_CONVERSATION):
            found.unknown.add("begins mid-conversation, no compaction tells system prompt and tools apart")
        elif not (view.recorded[: n + 1] > 0).any():
            found.unknown.add("no usage up to there")
        else:
            found.bare += 1


def by_tool(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """The rows of each tool and version together, as `TOOLS`, then all of them; sessions without usage are left out."""
    used = [each for each in rows if each.unnamed]
    groups = dict.fromkeys((each.tool, each.version) for each in sorted(used, key=lambda each: (each.tool, each.version)))
    for tool, version in groups:
        yield _cells(tool, version, [each for each in used if (each.tool, each.version) == (tool, version)])
    if used:
        yield _cells("all", "", used)


def _cells(tool: str, version: str, rows: Sequence[Row]) -> tuple[str, ...]:
    hidden = [float(np.median(each.hidden)) for each in rows]
    before = [float(np.median(each.before)) for each in rows if each.before]
    unnamed = np.array([share for each in rows for share in each.unnamed])
    shares = (
        float(np.median(before or hidden)),
        float(np.median(hidden)),
        max(hidden),
        *(float(np.quantile(unnamed, q)) for q in (0.5, 0.99)),
    )
    counts = (len(rows), len(unnamed))
    return tool, version, *(f"{n:,}" for n in counts), *(f"{s:.1%}" for s in shares), f"{(unnamed > UNEXPLAINED).sum():,}"


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 1 where something is wrong, 2 where there is nothing to look at."""
    with ExitStack() as stack:
        paths = [part for argument in arguments for part in _unpack(Path(argument), stack)]
        return _report(paths, Path(stack.enter_context(TemporaryDirectory())) / "sizes.db")


def _unpack(path: Path, stack: ExitStack) -> Iterator[Path]:
    """A folder of files; or the transcripts of each recorded run in it, unpacked for as long as the stack is open."""
    runs = folders(path) if path.is_dir() else []
    for run in runs:
        transcripts = stack.enter_context(open_run(run)).transcripts
        yield from (found for inside in sorted(transcripts.iterdir()) for found in find_sources(inside))
    if not runs:
        yield path


def _report(paths: Sequence[Path], sizes: Path) -> int:
    """Print the tables of some files and folders."""
    listed = [(file, read(file)) for file in files(paths)]
    opened = [file for file, each in listed if not each.failed and each.sessions]
    _print(READ, [each.cells() for _, each in listed if each.known])
    found: list[Row] = []
    crashed: list[str] = []
    for file in opened:
        try:
            if looked := row(file, sizes):
                looked.before = hidden_before(file, looked)
                found.append(looked)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            crashed.append(f"{'/'.join(file.parts[-2:])}: {type(error).__name__}: {error}")
    _print(HEAD, [each.cells() for each in found])
    _print(TOOLS, list(by_tool(found)))
    after = [error for each in found for error in each.after]
    if after:
        missed = f"{np.median(after):.1%} at the median, {max(after):.1%} at worst"
        print(f"right after {len(after)} compactions predictions miss by {missed}")
    closed = [f"{each.name}: {each.failed or 'it holds no session'}" for _, each in listed if each.failed or not each.sessions]
    print(f"{len(found)} sessions, {sum(not each.usage for each in found)} without usage; {len(closed)} files are not openable")
    for line in (*closed, *crashed):
        print(f"  {line}")
    if crashed or any(each.wrong for _, each in listed) or any(each.wrong for each in found):
        return 1
    return 0 if opened else 2


def _print(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; the last column of a long row stands as it is."""
    lines = [head, *rows]
    wide = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        first, *rest = (text.rjust(size) for text, size in zip(line, wide, strict=True))
        print("  ".join((first.strip().ljust(wide[0]), *rest[:-1], line[-1])).rstrip())
    print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
