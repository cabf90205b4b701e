"""Which policy costs what, and loses what, on a folder of sessions: `python tests/bench/which_policy.py FOLDER [POLICY ...]`.

Every session below FOLDER that records usage, under every policy that can be sent, or those that are named. A row per policy:

- cost: USD of all sessions as a factor of what the records cost, and the interval that 95 % of 1,000 draws of sessions with
  replacement lie in. Simulated with the provider's prompt cache, and scaled to each bill.
- no cache: the same as if nothing were ever cached, for records and policy alike.
- lost: references of later answers to what had left, as a share of all references. Answers are recorded, not made again.
- peak: the fullest window, at the median session. unsent: share of the requests that the provider would refuse.
- calls: summaries that a model would have been asked for, per 100 requests.
- growth: cost factor on the longer half of the sessions, over that on the shorter.

The rows that no other one beats in both cost and losses are marked *. `--kinds` adds the cost factors by kind of session:
short (under 50 requests), long (200 and more), idle (a twentieth of the requests after five minutes), tools (results are over
40 % of what was sent), chat (a prompt for every three requests, or more). `--csv` prints all of it as CSV.
"""

from __future__ import annotations

import csv
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.library.discovery import find_sources
from turnscope.library.opening import AS_RECORDED, policies
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.views.comparison import SharedFacts, build_row
from turnscope.views.overview import build_overview

DRAWS = 1_000
LEAST, MOST = 5, 3_000  # requests of a session
KINDS = ("short", "long", "idle", "tools", "chat")
IDLE = 300.0  # seconds
HEAD = ("policy", "cost", "from", "to", "no cache", "lost", "peak", "unsent", "calls", "growth")


@dataclass(frozen=True, slots=True)
class Measured:
    """One session under one policy, in USD with a cache and without, and the same of its record."""

    policy: str
    session: str
    requests: int
    kinds: frozenset[str]
    usd: float
    record_usd: float
    uncached: float
    record_uncached: float
    hits: int
    uses: int
    peak: float
    unsent: int
    calls: int


def measure_files(paths: Sequence[Path], names: Sequence[str]) -> Iterator[Measured]:
    """Measure every file; several are shared out among processes."""
    measure = partial(measure_file, names=names)
    if len(paths) < 2:
        for path in paths:
            yield from measure(path)
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(measure, paths):
            yield from made


def measure_file(path: Path, names: Sequence[str]) -> list[Measured]:
    """Measure the main sessions of one file under each policy; [] where it is no session with a bill."""
    found: list[Measured] = []
    try:
        for entry in turnscope.entries(path):
            session = turnscope.load(path, entry.id)
            if LEAST <= len(session.requests) <= MOST and any(request.usage for request in session.requests):
                found += measure_session(session, names)
    except TurnscopeError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
    return found


def measure_session(session: Session, names: Sequence[str]) -> Iterator[Measured]:
    """Measure one session under each policy; nothing where the record has no price."""
    record = turnscope.replay(session)
    shared = SharedFacts.from_trace(record)
    whole = shared.record.total
    if not whole:
        return
    bare = price_uncached(record, shared.answer_tokens)
    kinds = frozenset(find_kinds(session, record))
    for name in names:
        trace = record if name == AS_RECORDED else turnscope.replay(session, name, record.ledger)
        row = build_row(trace, shared)
        if row.usd is None:
            continue
        calls = sum(usd > 0 for usd in row.cost.summary_usd)
        yield Measured(
            policy=name,
            session=f"{session.source}:{session.id}",
            requests=len(row.sizes),
            kinds=kinds,
            usd=float(row.usd),
            record_usd=float(whole),
            uncached=price_uncached(trace, shared.answer_tokens),
            record_uncached=bare,
            hits=len(row.losses.hits),
            uses=sum(row.losses.uses),
            peak=row.peak[0],
            unsent=len(row.unsent),
            calls=calls,
        )


def price_uncached(trace: Trace, answers: Sequence[int]) -> float:
    """USD of all requests, and of their answers, if nothing were cached. Summaries are left out."""
    usd = 0.0
    for n, outline in enumerate(trace.outlines):
        size = trace.count_tokens(n)
        rates = trace.prices.find_rates(outline.model, size, outline.request.sent_at)
        usd += float(rates.input * size + rates.output * answers[n]) / 1_000_000 if rates else 0.0
    return usd


def find_kinds(session: Session, record: Trace) -> Iterator[str]:
    """The kinds that a session is of."""
    requests, view = session.requests, build_overview(record)
    count = len(requests)
    times = [request.sent_at for request in requests if request.sent_at]
    yield from (name for name, is_kind in (("short", count < 50), ("long", count >= 200)) if is_kind)
    if sum(b - a > IDLE for a, b in pairwise(times)) * 20 >= count:
        yield "idle"
    if view.cells[:, 3].sum() > 0.4 * view.prompts.sum():
        yield "tools"
    if 3 * len({request.turn for request in requests}) >= count:
        yield "chat"


def compute_factor(rows: Sequence[Measured]) -> float:
    """Cost of the policy over that of the records; NaN without rows."""
    return sum(row.usd for row in rows) / whole if (whole := sum(row.record_usd for row in rows)) else float("nan")


def draw_interval(rows: Sequence[Measured]) -> tuple[float, float]:
    """The interval that 95 % of the factors of draws with replacement lie in."""
    usd = np.array([(row.usd, row.record_usd) for row in rows])
    drawn = np.random.default_rng(7).integers(0, len(rows), (DRAWS, len(rows)))
    sums = usd[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], (0.025, 0.975))
    return float(low), float(high)


def sum_up(name: str, rows: Sequence[Measured]) -> list[str | float]:
    """The cells of a policy, in the order of `HEAD`, and its factors by kind."""
    requests = sum(row.requests for row in rows)
    middle = median(row.requests for row in rows)
    shorter = compute_factor([row for row in rows if row.requests <= middle])
    longer = compute_factor([row for row in rows if row.requests > middle])
    return [
        name,
        compute_factor(rows),
        *draw_interval(rows),
        sum(row.uncached for row in rows) / sum(row.record_uncached for row in rows),
        sum(row.hits for row in rows) / max(1, sum(row.uses for row in rows)),
        median(row.peak for row in rows),
        sum(row.unsent for row in rows) / requests,
        100 * sum(row.calls for row in rows) / requests,
        longer / shorter,
        *(compute_factor([row for row in rows if kind in row.kinds]) for kind in KINDS),
    ]


def is_best(cells: Sequence[str | float], table: Sequence[Sequence[str | float]]) -> bool:
    """Whether no other policy costs less and loses no more, or loses less and costs no more."""
    cost, lost = cells[1], cells[5]
    return not any(
        row is not cells and row[1] <= cost and row[5] <= lost and (row[1], row[5]) != (cost, lost)  # type: ignore[operator]
        for row in table
    )


def format_row(cells: Sequence[str | float], best: bool, kinds: bool) -> str:
    name, cost, low, high, uncached, lost, peak, unsent, calls, growth, *each = cells
    line = (
        f"{'*' if best else ' '} {name:<30}{cost:>7.2f}  {low:>5.2f} - {high:<6.2f}{uncached:>7.2f}{lost:>8.1%}{peak:>7.0%}"
        f"{unsent:>8.1%}{calls:>7.1f}{growth:>8.2f}"
    )
    return line + "".join(f"{factor:>8.2f}" for factor in each) if kinds else line


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where FOLDER holds no session that records usage."""
    options = {argument for argument in arguments if argument.startswith("--")}
    folder, *names = (argument for argument in arguments if not argument.startswith("--"))
    chosen = names or [policy.name for policy in policies()]
    chosen = [AS_RECORDED, *(name for name in chosen if name != AS_RECORDED)]
    rows: dict[str, list[Measured]] = defaultdict(list)
    for row in measure_files(sorted(find_sources(Path(folder))), chosen):
        rows[row.policy].append(row)
    if not rows:
        print(f"{folder} holds no session of {LEAST} requests or more with a price.", file=sys.stderr)
        return 1
    table = sorted((sum_up(name, found) for name, found in rows.items()), key=lambda cells: cells[1])  # type: ignore[arg-type,return-value]
    if "--csv" in options:
        csv.writer(sys.stdout).writerows([(*HEAD, *KINDS), *table])
        return 0
    known = rows[AS_RECORDED]
    total = sum(row.record_usd for row in known)
    print(f"{len(known)} sessions, {sum(row.requests for row in known):,} requests; as recorded ${total:,.2f}")
    print("  ".join(f"{sum(kind in row.kinds for row in known)} {kind}" for kind in KINDS))
    head = f"  {'policy':<30}{'cost':>7}  {'95 %':^14}{'no cache':>9}{'lost':>6}{'peak':>7}{'unsent':>8}"
    head += f"{'calls':>7}{'growth':>8}"
    print(head + "".join(f"{kind:>8}" for kind in KINDS) if "--kinds" in options else head)
    for cells in table:
        print(format_row(cells, is_best(cells, table), "--kinds" in options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
