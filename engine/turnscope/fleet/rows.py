"""From a session to rows of the tables. Computes no figure itself: each is what `library` and `views` say of the session.

No text of the session is in a row unless it is requested.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from turnscope.counting.reconciliation import CELLS
from turnscope.fleet.storage import import_package
from turnscope.fleet.tables import ID_DIGITS, TABLES, USD_SCALE, make_schema
from turnscope.library.indexing import build_billed, find_project
from turnscope.library.opening import count_session, replay
from turnscope.library.policy_table import measure_session
from turnscope.planning.policy import parse
from turnscope.planning.trace import Trace
from turnscope.session.model import Block, Bucket, Request, Session
from turnscope.session.thread import iter_descendants
from turnscope.storage.library_index import BilledRequest
from turnscope.views import decision_log
from turnscope.views.cache_breaks import CacheBreak, find_breaks
from turnscope.views.events import CUT_KINDS
from turnscope.views.findings import rank_findings
from turnscope.views.overview import Overview, build_overview, list_turns
from turnscope.views.request_contents import price_counted_tokens
from turnscope.views.total_cost import charge_off_path
from turnscope.views.usage import PICO_PER_USD

if TYPE_CHECKING:
    import pyarrow as pa

_HOME = re.compile(r"(?:^|[/\\])(?:home|Users)[/\\]([^/\\]+)")
_LEFT_OUT = frozenset(("session", "policy"))  # of a measured session: those columns are ours
Row = dict[str, Any]


class Owner(Struct, frozen=True):
    """Whose sessions a source holds, as far as its path says: team, project, person; "" = it does not say."""

    team: str = ""
    project: str = ""
    person: str = ""


class Origin(Struct, frozen=True):
    """Where a session was read.

    Attributes:
        source_id: identifies its source.
        url: of its source.
        entry: its conversation within it; "" = the only one.
        title: of its format.
        folder: name of the folder that holds the source.
        content: digest of the bytes.
        size: their number.
        owner: whose it is.
        made_by: version of all that makes its rows.
    """

    source_id: str
    url: str
    entry: str
    title: str
    folder: str
    content: str
    size: int
    owner: Owner
    made_by: str


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the rows of a session are made of."""

    session: Session
    trace: Trace
    view: Overview
    broken: tuple[CacheBreak, ...]
    owners: Mapping[str, str]  # columns of the same name
    id: str
    day: date | None
    origin: Origin
    with_text: bool


NO_POLICIES: Mapping[str, str] = MappingProxyType({})


def digest(*parts: str) -> str:
    """An identifier made of texts."""
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def build_rows(
    session: Session, origin: Origin, policies: Mapping[str, str] = NO_POLICIES, *, with_text: bool = False
) -> dict[str, list[Row]]:
    """Build the rows of a session, by table.

    Args:
        session: the session.
        origin: where it was read.
        policies: what it is replayed under: names of policies, each with its text in TOML.
        with_text: whether rows hold its title, sentences and reasons, which may quote it.
    """
    trace = replay(session, ledger=count_session(session))
    view = build_overview(trace)
    project = origin.owner.project or find_project(session) or origin.folder
    home = _HOME.search(project) or _HOME.search(origin.url)
    owners = {
        "team": origin.owner.team,
        "project": project,
        "person": origin.owner.person or (home[1] if home else ""),
        "tool": origin.title.partition(" (")[0],
    }
    day = next((day for at in view.sent_at if (day := _find_day(float(at)))), None)
    id = digest(origin.source_id, origin.entry)
    known = _Facts(session, trace, view, find_breaks(trace), owners, id, day, origin, with_text)
    return {
        "sessions": [_build_session(known)],
        "requests": [*_list_path(known), *_list_off_path(known)],
        "decisions": [*_list_decisions(known)],
        "findings": [*_list_findings(known)],
        "losses": [*_list_losses(known, policies)],
        "tools": [*_list_tools(known)],
    }


def _build_session(known: _Facts) -> Row:
    session, view, origin = known.session, known.view, known.origin
    times = [at for at in map(float, view.sent_at) if not np.isnan(at)]
    bill = view.bill.whole
    return {
        "session": known.id,
        "day": known.day,
        "source_id": origin.source_id,
        "source": origin.url,
        "entry": origin.entry,
        "content": origin.content,
        "made_by": origin.made_by,
        **known.owners,
        "model": ", ".join(dict.fromkeys(model for model in view.models if model)),
        "title": view.title if known.with_text else None,
        "started": _to_time(times[0]) if times else None,
        "ended": _to_time(times[-1]) if times else None,
        "size": origin.size,
        "requests": len(view),
        "all_requests": bill.requests,
        "turns": len(list_turns(view)),
        "branches": len(session.forks),
        "subagents": sum(1 for each in iter_descendants(session) if each.fork < 0),
        "usd": view.total,
        "unpriced": bill.unpriced,
        **_describe_fill(view),
        **_count_events(known),
    }


def _describe_fill(view: Overview) -> Row:
    """How full the window was."""
    fill = view.fill[~np.isnan(view.fill)]
    return {
        "peak_tokens": int(view.prompts.max(initial=0)),
        "window_tokens": int(view.windows.max(initial=0)),
        "peak_fill": float(fill.max()) if len(fill) else None,
        "mean_fill": float(fill.mean()) if len(fill) else None,
        "peak_request": int(np.nan_to_num(view.fill, nan=-1.0).argmax()) if len(fill) else -1,
    }


def _count_events(known: _Facts) -> Row:
    """What happened in the session, by number."""
    session, events = known.session, Tally(marker.kind for marker in known.view.markers)
    priced = [miss.usd for miss in known.broken if miss.usd is not None]
    ratings = session.recorded.ratings.values()
    return {
        "compactions": events["compact"],
        "cuts": events["cut"] + events["unlogged"],
        "clearings": events["clear"],
        "misses": len(known.broken),
        "missed_tokens": sum(miss.rebilled_tokens for miss in known.broken),
        "missed_usd": sum(priced, Decimal()) if priced else None,
        "tool_calls": sum(block.kind == "tool_use" for block in session.blocks),
        "tool_errors": sum(block.kind == "tool_result" and _is_failed(block) for block in session.blocks),
        "good": sum(rating == "up" for rating in ratings),
        "rated": sum(rating in ("up", "down") for rating in ratings),
    }


def _list_path(known: _Facts) -> Iterator[Row]:
    """The requests of the main path."""
    view, broken = known.view, {miss.request: miss for miss in known.broken}
    events = {marker.request: marker.kind for marker in reversed(view.markers) if marker.kind in CUT_KINDS}
    prompts = _digest_prompts(known.trace)
    for n, (request, usd, answer) in enumerate(zip(known.session.requests, view.totals, view.answers, strict=True)):
        window, miss = int(view.windows[n]), broken.get(n)
        row = _build_request(known, request, build_billed(request, usd, int(answer)), part="path", number=n)
        cells = {name: int(tokens) for name, tokens in zip(CELLS, view.cells[n], strict=True)}
        yield (
            row
            | cells
            | {
                "turn": request.turn,
                "prompt": view.get_prompt(n),
                "window_tokens": window or None,
                "fill": float(view.fill[n]) if window else None,
                "prompt_digest": prompts[n],
                "event": events.get(n),
                "miss": miss.cause if miss else None,
                "miss_tokens": miss.rebilled_tokens if miss else None,
                "miss_usd": miss.usd if miss else None,
                "idle": miss.idle if miss else None,
            }
        )


def _list_off_path(known: _Facts) -> Iterator[Row]:
    """The requests of branches, of subagents, and beside the conversation."""
    off = charge_off_path(known.trace)
    parts = {"branch": off.branches, "subagent": off.subagents, "side": [*chain(*off.side.values())]}
    for part, pairs in parts.items():
        for number, (request, charge) in enumerate(pairs):
            billed = build_billed(request, charge.cost.total if charge.cost else None, charge.answer)
            yield _build_request(known, request, billed, part=part, number=number)


def _build_request(known: _Facts, request: Request, billed: BilledRequest, part: str, number: int) -> Row:
    """The columns that every request has; the others are empty."""
    ended, sent = request.answered_at, request.sent_at
    return dict.fromkeys(TABLES["requests"].names) | {
        "session": known.id,
        "day": _find_day(sent) or known.day,
        "part": part,
        "number": number,
        "id": digest(request.id) if request.id else None,
        "counted": True,
        **known.owners,
        "sent_at": _to_time(sent),
        "model": billed.model,
        "uncached": billed.uncached,
        "cache_write_5m": billed.written,
        "cache_write_1h": billed.written_1h,
        "cache_read": billed.read,
        "output": billed.output,
        "usd": None if billed.pico is None else Decimal(billed.pico) / PICO_PER_USD,
        "seconds": max(0.0, ended - sent) if ended is not None and sent is not None else None,
        "attempts": request.attempts,
        "stop_reason": request.stop_reason,
    }


def _digest_prompts(trace: Trace) -> list[str | None]:
    """The digest of system prompt and tools of each request; None where it has neither."""
    blocks = [block for block in trace.session.blocks if block.bucket in (Bucket.SYSTEM, Bucket.TOOLS)]
    many = len(trace.session.requests)
    changes: dict[int, list[tuple[bool, Block]]] = {}
    for block, spans in zip(blocks, trace.iter_shown_spans(block.at for block in blocks), strict=True):
        for start, stop in spans:
            changes.setdefault(start, []).append((True, block))
            changes.setdefault(stop, []).append((False, block))
    found, here, now = list[str | None](), dict[int, Block](), None
    for n in range(many):
        if n in changes:
            for enters, block in changes[n]:
                if enters:
                    here[block.at] = block
                else:
                    here.pop(block.at, None)
            now = digest(*(here[at].digest for at in sorted(here))) if here else None
        found.append(now)
    return found


def _list_decisions(known: _Facts) -> Iterator[Row]:
    sent = known.session.requests
    for number, row in enumerate(decision_log.iter_rows(known.trace)):
        usd = row["cache_usd"]
        yield {
            "session": known.id,
            "day": _find_day(sent[row["request"]].sent_at) or known.day,
            "number": number,
            **{name: row[name] for name in ("request", "turn", "model", "rule", "action", "start", "stop", "changed")},
            "actor": row["by"],
            "because": row["because"] if known.with_text else None,
            "before": row["tokens_before"],
            "after": row["tokens_after"],
            "budget": row["limit"],
            "verdict": row["verdict"],
            "cache_usd": None if usd is None else Decimal(str(usd)),
        }


def _list_findings(known: _Facts) -> Iterator[Row]:
    for rank, found in enumerate(rank_findings(known.trace, known.view, known.broken)):
        yield {
            "session": known.id,
            "day": known.day,
            "rank": rank,
            "kind": found.kind,
            "request": found.request,
            "usd": found.usd,
            "tokens": found.tokens,
            "text": found.text if known.with_text else None,
        }


def _list_losses(known: _Facts, policies: Mapping[str, str]) -> Iterator[Row]:
    if not policies or not known.session.requests:
        return
    for measured in measure_session(known.session, policies, lambda name: parse(name, policies[name])):
        values = {name: getattr(measured, name) for name in measured.__struct_fields__ if name not in _LEFT_OUT}
        kinds = ",".join(sorted(measured.kinds))
        yield {"session": known.id, "day": known.day, "policy": measured.policy, **values, "kinds": kinds}


def _list_tools(known: _Facts) -> Iterator[Row]:
    """A row for each tool that was called: its calls and results, and what carrying the results cost."""
    blocks, ledger, view = known.session.blocks, known.trace.ledger, known.view
    results = [block for block in blocks if block.kind == "tool_result"]
    at, column = [*Bucket].index(Bucket.TOOL_RESULTS), np.zeros((1,))
    paid = np.concatenate([column, price_counted_tokens(view)[:, at].cumsum()])
    scaled = np.concatenate([column, view.list_bucket_scales()[:, at].cumsum()])
    found: dict[str, Row] = {}
    for block in blocks:
        if block.kind == "tool_use":
            row = found.setdefault(block.name, _make_tool(known, block.name))
            row["calls"] += 1
            row["call_tokens"] += ledger.count_tokens(block.at, block.at + 1)
    for block, spans in zip(results, known.trace.iter_shown_spans(block.at for block in results), strict=True):
        row = found.setdefault(block.name, _make_tool(known, block.name))
        counted = ledger.count_tokens(block.at, block.at + 1)
        row["errors"] += _is_failed(block)
        row["result_tokens"] += counted
        row["sent_tokens"] += counted * float(sum(scaled[stop] - scaled[start] for start, stop in spans))
        row["usd"] += counted * float(sum(paid[stop] - paid[start] for start, stop in spans))
    priced = bool(view.usd.any())
    for row in found.values():
        yield row | {"sent_tokens": round(row["sent_tokens"]), "usd": row["usd"] if priced else None}


def _make_tool(known: _Facts, name: str) -> Row:
    numbers = dict.fromkeys(("calls", "errors", "call_tokens", "result_tokens", "sent_tokens", "usd"), 0)
    return {"session": known.id, "day": known.day, "name": name, **numbers}


def _is_failed(block: Block) -> bool:
    return isinstance(block.raw, Mapping) and bool(block.raw.get("is_error"))


def _to_time(at: float | None) -> datetime | None:
    """A time of the log; None where it has none, or one that no date can be made of."""
    try:
        return None if at is None or np.isnan(at) else datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _find_day(at: float | None) -> date | None:
    found = _to_time(at)
    return found.date() if found else None


def make_table(name: str, rows: Iterable[Row]) -> pa.Table:
    """Make an Arrow table of rows. Money is rounded to the digits of its column.

    Args:
        name: the table.
        rows: its rows, each with every column.

    Raises:
        ValueError: a value does not fit its column.
    """
    pa, listed, schema = import_package("pyarrow"), [*rows], make_schema(name)
    arrays = []
    for column in TABLES[name].columns:
        values = [row[column.name] for row in listed]
        if column.kind == "usd":
            values = [None if value is None else round(value, USD_SCALE) for value in values]
        elif column.kind == "string":
            values = [None if value is None else str(value).encode("utf-8", "replace").decode() for value in values]
        try:
            arrays.append(pa.array(values, schema.field(column.name).type))
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(f"a value of {name}.{column.name} cannot be stored: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema)
