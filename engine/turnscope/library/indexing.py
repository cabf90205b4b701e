"""From session files to the index: title, cost and fill of each session, and the texts of its blocks.

Reads and writes source by source in this process; `index_job` does so in other processes. Unchanged sources are not read again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from turnscope.errors import BrokenFile, TurnscopeError
from turnscope.library import session_summary
from turnscope.library.joining import join_session, join_thread
from turnscope.library.loading import pause_gc
from turnscope.library.opening import count_session, replay
from turnscope.library.path_breaks import PathBreak, find_path_breaks, sum_missed
from turnscope.library.store import stamp_source
from turnscope.planning.trace import Trace
from turnscope.reading import claims, contents
from turnscope.reading.containers import open_source
from turnscope.reading.guards import guard_own
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source
from turnscope.reading.tap_log import is_tap_log
from turnscope.session.model import FROM_WIRE, Request, Session
from turnscope.session.thread import iter_descendants
from turnscope.storage import library_index as kept
from turnscope.storage.catalogue import CLOCK_NANOSECONDS
from turnscope.storage.database import StorageError
from turnscope.storage.library_index import (
    CURVE_POINTS,
    BilledRequest,
    BlockText,
    IndexedMiss,
    IndexedSession,
    IndexRow,
    LatestRequest,
    Problem,
)
from turnscope.views.cache_breaks import find_cold_time
from turnscope.views.events import CUT_KINDS
from turnscope.views.overview import Overview, build_overview
from turnscope.views.request_summary import summarize_request
from turnscope.views.total_cost import charge_off_path
from turnscope.views.usage import PICO_PER_USD, QUARTER_HOUR

BAND = (0.4, 0.7)  # of the window; the usual fill of a request
PROJECT_KEYS = (
    "cwd",
    "directory",
    "project",
    "repoPath",
    "workspace",
    "workspacePath",
    "working_dir",
    "projectHash",
)  # keys under which logs name their project
HINT = "Open it alone to see more, and report its shape."


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A source that was dealt with: how many sessions it holds, or what is wrong with it. `fresh`: it was read."""

    path: str
    bytes: int = 0
    sessions: int = 0
    fresh: bool = True
    problem: Problem | None = None


def index(path: Path, sources: Iterable[Path]) -> Iterator[IndexedSource]:
    """Bring an index up to date, one source after the other.

    Args:
        path: the index.
        sources: files and folders.

    Raises:
        StorageError: the index cannot be written.
    """
    known = kept.read_stamps(path)
    with kept.hold_open(path):
        for source in sources:
            yield index_source(path, source, known.get(str(source)))


def refresh(path: Path, file: Path) -> None:
    """Read an indexed source again, because something changed that its stamp does not show. Others are left alone.

    Args:
        path: the index.
        file: the source.

    Raises:
        StorageError: the index cannot be written.
    """
    if path.is_file() and str(file) in kept.read_stamps(path):
        index_source(path, file)


def check_unchanged(file: Path, known: str | None) -> IndexedSource | None:
    """The result for a source that has not changed since it was read; None = it has to be read. Reads nothing of it.

    Args:
        file: the source.
        known: its stamp when it was read; None = it never was.
    """
    if known is None:
        return None
    with suppress(OSError, TurnscopeError):
        source = open_source(file)
        if _build_stamp(source) == known:
            return IndexedSource(str(file), source.size, fresh=False)
    return None


def index_source(path: Path, file: Path, known: str | None = None) -> IndexedSource:
    """Bring an index up to date with one source.

    Args:
        path: the index.
        file: the source.
        known: its stamp when it was read last; None = it never was.
    """
    where = str(file)
    try:
        source = open_source(file)
        stamp, size = _build_stamp(source), source.size
    except (OSError, TurnscopeError) as error:
        kept.drop(path, [where])
        return IndexedSource(where, problem=_build_problem(where, error))
    if stamp == known:
        return IndexedSource(where, size, fresh=False)
    try:
        with pause_gc():
            found, problem = [*read_sessions(source, where)], None
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - one file must not stop the others, and its problem is reported
        found, problem = [], _build_problem(where, error)
    kept.keep(path, where, stamp=stamp, sessions=found, problem=problem)
    return IndexedSource(where, size, len(found), problem=problem)


def read_sessions(source: Source, where: str) -> Iterator[IndexedSession]:
    """Read every conversation of a source as entries of the index. TurnscopeError: none can be read.

    Args:
        source: the source.
        where: its path in the index.
    """
    for found in iter_sessions(source):
        yield build_entry(found.session, found.source, where=where, entry=found.entry, title=found.title)


class FoundSession(NamedTuple):
    """A conversation of a source: the session, the id of its entry ("" = the only one), the title of its format."""

    session: Session
    entry: str
    title: str
    source: Source


def iter_sessions(source: Source) -> Iterator[FoundSession]:
    """Read every conversation of a source. TurnscopeError: none can be read."""
    source, importer = claims.recognize(source)
    if importer is None:
        for id in [entry.id for entry in contents.list_entries(source)]:
            with suppress(BrokenFile):  # an entry without messages is no session; the others are read all the same
                thread, place = contents.read_entry(source, id), contents.locate_entry(source, id)[1]
                session = join_thread(thread, source, id).session
                yield FoundSession(session, id, place.title, source)
        return
    importer = guard_own(importer)
    listed, empty = [*importer.entries(source)], True
    for entry in listed:
        session = importer.read(source, entry).session
        if session.blocks:
            empty = False
            session = join_session(session, source)
            yield FoundSession(session, entry.id if len(listed) > 1 else "", importer.title, source)
    if empty:
        contents.read_entry(source)  # raises what is wrong with it


def build_entry(session: Session, source: Source, where: str, entry: str, title: str, first: int = 0) -> IndexedSession:
    """Build the entry of a session.

    Args:
        session: the session.
        source: its source.
        where: path of the source in the index.
        entry: id of the conversation; "" = the only one.
        title: title of its format.
        first: the first request that counts; earlier ones belong to another session.
    """
    trace = replay(session, ledger=count_session(session))
    view = build_overview(trace)
    missed = find_path_breaks(trace)
    line = _build_line(trace, view, missed, source=source, where=where, entry=entry, tool=title.partition(" (")[0])
    return IndexedSession(
        line,
        tuple(_list_billed(trace, view, first)),
        tuple(_count_cuts_by_day(view, first)),
        tuple(_iter_texts(session)),
        tuple(_build_miss(found) for found in missed if found.part or found.miss.request >= first),
    )


def _build_line(
    trace: Trace, view: Overview, missed: tuple[PathBreak, ...], source: Source, where: str, entry: str, tool: str
) -> IndexRow:
    session, fill = trace.session, view.fill[~np.isnan(view.fill)]
    times = [float(at) for at in view.sent_at if not np.isnan(at)]
    return IndexRow(
        path=where,
        entry=entry,
        name=source.path.name,
        title=view.title,
        tool=tool,
        project=find_project(session) or source.path.parent.name,
        models=", ".join(dict.fromkeys(model for model in view.models if model)),
        requests=len(view),
        messages=_count_messages(trace),
        peak=int(view.prompts.max(initial=0)),
        window=int(view.windows.max(initial=0)),
        filled=len(fill),
        fill=float(fill.mean()) if len(fill) else 0.0,
        band=int(((fill >= BAND[0]) & (fill <= BAND[1])).sum()),
        cuts=sum(marker.kind in CUT_KINDS for marker in view.markers),
        pico=_to_pico(view.total),
        started=times[0] if times else None,
        ended=times[-1] if times else source.modified_at,
        size=source.size,
        good=sum(rating == "up" for rating in session.recorded.ratings.values()),
        rated=sum(rating in ("up", "down") for rating in session.recorded.ratings.values()),
        misses=len(missed),
        missed=_to_pico(sum_missed(missed)),
        curve=_draw_curve(view),
        warm_until=find_cold_time(trace),
        sent=int(view.prompts[-1]) if len(view) else 0,
        latest=_describe_latest(trace, view) if len(view) else "",
        recorded=_mark_recordings(session, source),
    )


def _mark_recordings(session: Session, source: Source) -> str:
    """The recordings of a tap that hold a session, as `IndexRow.recorded` has them."""
    if is_tap_log(source):
        return kept.mark_recording(source.path.name, session.id)
    about = session.about.get(FROM_WIRE)
    if not isinstance(about, dict):
        return ""
    return "\n".join(kept.mark_recording(name, str(about["session"])) for name in about["recordings"])


def find_project(session: Session) -> str:
    """The project that a log names, as a path or a name; "" where it names none."""
    return next((str(session.about[key]) for key in PROJECT_KEYS if isinstance(session.about.get(key), str)), "")


def _describe_latest(trace: Trace, view: Overview) -> str:
    """The last request, as JSON. Its parts are those of the bar on the page Envelope."""
    n = len(view) - 1
    now = summarize_request(view, trace, n)
    known = [each for each in view.evidence if each.model == now.model and each.start <= n]
    latest = LatestRequest(
        model=now.model,
        prompt=now.prompt,
        answer=now.answer,
        window=now.window,
        evidence=known[-1].because if known else "",
        output=trace.prices.find_facts(now.model).max_output or 0,
        parts={segment.name: segment.tokens for segment in now.segments if segment.tokens},
    )
    return msgspec.json.encode(latest).decode()


def _build_miss(found: PathBreak) -> IndexedMiss:
    miss, request = found.miss, found.request
    return IndexedMiss(
        uid=request.id,
        part=found.part,
        part_name=found.name,
        request=miss.request,
        at=request.sent_at if _format_day(request.sent_at) else None,
        cause=miss.cause,
        tokens=miss.rebilled_tokens,
        pico=_to_pico(miss.usd),
        idle=miss.idle,
        evidence=miss.evidence,
    )


def _draw_curve(view: Overview) -> str:
    """The fill in percent over the requests; of many requests the fullest of each part, so that no peak is lost."""
    parts = np.array_split(np.nan_to_num(view.fill), min(CURVE_POINTS, len(view))) if np.isfinite(view.fill).any() else []
    return ",".join(f"{100 * part.max():.0f}" for part in parts)


def _count_messages(trace: Trace) -> int:
    """Count the messages that all requests carried. A placeholder counts as one."""
    starts = [message.start for message in trace.session.messages if message.role in ("user", "assistant")]
    carried = 0
    for plan in trace.plans:
        for piece in plan.after.pieces:
            if piece.body is None:
                carried += bisect_right(starts, piece.stop - 1) - bisect_right(starts, piece.start - 1)
            elif piece.body:
                carried += 1
    return carried


def _list_billed(trace: Trace, view: Overview, first: int) -> Iterator[BilledRequest]:
    for request, usd, answer in [*zip(trace.session.requests, view.totals, view.answers, strict=True)][first:]:
        yield build_billed(request, usd, int(answer))
    for request, charge in charge_off_path(trace).all:
        yield build_billed(request, charge.cost.total if charge.cost else None, charge.answer)


def build_billed(request: Request, usd: Decimal | None, answer: int) -> BilledRequest:
    """The tokens of all passes of a request.

    Args:
        request: the request.
        usd: its cost.
        answer: output tokens of the first pass, counted where its record cannot be true.
    """
    passes = request.usage.passes if request.usage else ()
    long = sum(each.cache_creation_1h_input_tokens for each in passes)
    return BilledRequest(
        uid=request.id,
        quarter=_find_quarter(request.sent_at),
        model=request.model,
        pico=_to_pico(usd),
        uncached=sum(each.input_tokens for each in passes),
        written=sum(each.cache_creation_input_tokens for each in passes) - long,
        written_1h=long,
        read=sum(each.cache_read_input_tokens for each in passes),
        output=answer + sum(each.output_tokens for each in passes[1:]),
    )


def _find_quarter(at: float | None) -> int | None:
    """The number of a time's quarter hour; None where it is unknown or no date can be made of it."""
    return int(at // QUARTER_HOUR) if at is not None and _format_day(at) else None


def _count_cuts_by_day(view: Overview, first: int) -> Iterator[tuple[str, int]]:
    cuts = (marker.request for marker in view.markers if marker.kind in CUT_KINDS and marker.request >= first)
    days = (_format_day(float(view.sent_at[request])) for request in cuts)
    return iter(Tally(days).items())


def _iter_texts(session: Session) -> Iterator[BlockText]:
    """The text of every block once: of the path, of the branches, and of subagents."""
    for part, own in enumerate((session, *(each.own for each in iter_descendants(session)))):
        cuts = [request.cut for request in own.requests]
        for block in own.blocks:
            if text := block.text:
                near = min(bisect_right(cuts, block.at), len(cuts) - 1)
                yield BlockText(part, block.at, own.requests[near].n if cuts else 0, text)


def _format_day(at: float | None) -> str:
    """The day in UTC; "" where it is unknown."""
    if at is None or np.isnan(at):
        return ""
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    return ""


def _to_pico(usd: Decimal | None) -> int | None:
    return None if usd is None else round(usd * PICO_PER_USD)


def _build_problem(where: str, error: Exception) -> Problem:
    if isinstance(error, TurnscopeError):
        return Problem(where, error.what, error.hint)
    return Problem(where, f"{Path(where).name} cannot be read: {type(error).__name__}: {error}"[:500], HINT)


def _build_stamp(source: Source) -> str:
    """The stamp of a source. Another version of an importer, or of the prices, changes it, so that the source is read again."""
    stamp = stamp_source(source)
    recent = "" if time.time_ns() - stamp.mtime > CLOCK_NANOSECONDS else f":{time.time_ns()}"
    return f"{stamp.size}:{stamp.mtime}:{stamp.attached}:{get_reader_version()}{recent}"


@cache
def get_reader_version() -> str:
    """A text that changes with the versions of importers and with the prices."""
    versions = " ".join(f"{importer.name} {importer.version} {importer.package}" for importer in find_importers())
    return sha256(f"{versions} {session_summary.get_version()}".encode()).hexdigest()[:16]
