"""Policies side by side on one session: a row for each with its cost, its refusals and its losses, and where two part.

Answers are taken as recorded under every policy: what a model would have said to another prompt is not known. Makes no replay;
the prompt cache is simulated (`cached_cost`), losses are lexical (`losses`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from engine import notebook
from engine.counting.ledger import Ledger
from engine.envelope.difference import first_difference, repainted, shown
from engine.envelope.envelope import Envelope
from engine.envelope.pieces import Piece
from engine.errors import UnknownEntry
from engine.planning.prompt_cache import Kept, walked
from engine.planning.rejections import rejections
from engine.planning.trace import Trace
from engine.session.model import Action, Session
from engine.views.cached_cost import Spent, answers_of, spent
from engine.views.labels import label
from engine.views.losses import Losses, Used, losses, used
from engine.views.tables import csv_text

ASSUMED = (
    "Answers are taken as recorded: what the model would have said to another prompt is not known. The prompt cache is "
    "simulated at list prices; lost references are counted by their letters alone, so at least so much is missing."
)
HEAD = (
    "policy", "title", "usd", "usd_condensing", "unpriced", "cache_share", "tokens", "kept_share", "peak_fill", "peak_request",
    "refusals", "overflows", "rejected", "changed", "decisions", "lost", "lost_share",
)  # fmt: skip
How = Literal["only in A", "only in B", "other form"]
Where = Literal["head", "middle", "tail"]
_STOP = attrgetter("stop")


@dataclass(frozen=True, slots=True)
class Row:
    """One policy's replay in numbers. `sizes`: provider tokens of every prompt; `limits`: what each may have; `rejected`:
    requests that the provider's API would reject; `kept`: tokens sent of those with everything kept, 0 to 1."""

    policy: str
    title: str
    cost: Spent
    cache: tuple[Kept, ...]
    sizes: tuple[int, ...]
    limits: tuple[int, ...]
    windows: tuple[int, ...]
    kept: float
    refusals: int
    overflows: int
    rejected: tuple[int, ...]
    changed: tuple[int, ...]
    decisions: Mapping[Action, int]
    losses: Losses

    @property
    def usd(self) -> Decimal | None:
        """USD of all requests with a known price, summaries included."""
        return self.cost.total

    @property
    def peak(self) -> tuple[float, int]:
        """The highest share of its window that a request fills, and which one does; (0, -1) where there is none."""
        fills = [size / window for size, window in zip(self.sizes, self.windows, strict=True)]
        return (max(fills), fills.index(max(fills))) if fills else (0.0, -1)

    @property
    def cells(self) -> tuple[Any, ...]:
        """Its values in the order of `HEAD`."""
        fill, at = self.peak
        money = (None if usd is None else round(float(usd), 6) for usd in (self.usd, sum(self.cost.condensing, Decimal(0))))
        return (
            self.policy, self.title, *money, self.cost.unpriced, round(self.cost.share, 4), sum(self.sizes),
            round(self.kept, 4), round(fill, 4), at, self.refusals, self.overflows, len(self.rejected), len(self.changed),
            dict(self.decisions), len(self.losses.hits), round(self.losses.rate, 4),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shared:
    """What all replays of one session share: what its answers take up again, and how long they are."""

    used: Used
    answers: tuple[int, ...]

    @staticmethod
    def of(trace: Trace) -> Shared:
        """Read it off any replay of the session."""
        return Shared(used(trace.session), answers_of(trace))


def row(trace: Trace, shared: Shared) -> Row:
    """One policy's numbers."""
    sizes = tuple(trace.tokens(n) for n in range(len(trace.plans)))
    cache = walked(trace, sizes)
    cost = spent(trace, cache, shared.answers)
    verdicts = Counter(plan.verdict for plan in trace.plans)
    made = Counter(d.action for plan in trace.plans for d in plan.decisions if d.splice or d.action in ("fallback", "refuse"))
    return Row(
        trace.policy.name,
        trace.policy.title or trace.policy.name,
        cost,
        cache,
        sizes,
        tuple(plan.budget.limit for plan in trace.plans),
        tuple(plan.budget.window for plan in trace.plans),
        sum(sizes) / max(1, trace.whole),
        verdicts["refuse"],
        verdicts["overflow"],
        rejected(trace),
        tuple(plan.request.n for plan in trace.plans if plan.changed),
        dict(made.most_common()),
        losses(trace, shared.used),
    )


def rejected(trace: Trace) -> tuple[int, ...]:
    """The requests whose body the provider's API would reject."""
    return tuple(n for n, wrong in enumerate(rejections(trace)) if wrong)


class Differs(NamedTuple):
    """A block that two policies treat otherwise in one request. `how`: only the first has it as it is, only the second, or both
    have it in another form; `where` it stands in the prompt of the one that has it: the middle half is the middle."""

    at: int
    label: str
    tokens: int
    how: How
    where: Where


@dataclass(frozen=True, slots=True)
class Comparison:
    """Policies side by side on a session. `rows` and `traces` in the same order, by the policies' names in `names`.

    >>> made = engine.compare(engine.load("sample_sessions/cache-goes-cold.jsonl"), ["keep-everything", "last-5-pairs"])
    >>> made.names, made.parted("keep-everything", "last-5-pairs")
    (('keep-everything', 'last-5-pairs'), 55)
    """

    session: Session
    rows: tuple[Row, ...]
    traces: tuple[Trace, ...] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row.policy for row in self.rows)

    def trace(self, name: str) -> Trace:
        """The replay under a policy. UnknownEntry where it is not among them."""
        if name not in self.names:
            raise UnknownEntry(f"{name!r} is not compared here", hint=f"There are: {', '.join(self.names)}.")
        return self.traces[self.names.index(name)]

    def parted(self, one: str, other: str) -> int | None:
        """The first request that two policies send otherwise; None where there is none."""
        return parted(self.trace(one), self.trace(other))

    def difference(self, one: str, other: str, request: int) -> tuple[Differs, ...]:
        """The blocks that two policies treat otherwise in a request."""
        return difference(self.trace(one), self.trace(other), request)

    def csv(self) -> str:
        """A line per policy."""
        return rows_csv(self.rows)

    def _repr_html_(self) -> str:
        head = ("policy", "USD", "from cache", "kept", "peak fill", "refused", "overflow", "rejected", "lost references")
        lines = [
            (
                made.title,
                "no known price" if made.usd is None else f"{made.usd:,.2f}",
                f"{made.cost.share:.0%}",
                f"{made.kept:.0%}",
                f"{made.peak[0]:.0%} at {made.peak[1]}",
                made.refusals,
                made.overflows,
                len(made.rejected),
                len(made.losses.hits),
            )
            for made in self.rows
        ]
        name = self.session.title or self.session.id
        return notebook.card(f"{len(self.rows)} policies · {name}", notebook.table(head, lines), notebook.line(ASSUMED))


def rows_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV."""
    return csv_text(HEAD, (row.cells for row in rows))


def parted(one: Trace, other: Trace) -> int | None:
    """The first request that two replays of a session send otherwise; None where there is none."""
    for a, b in zip(one.plans, other.plans, strict=False):
        if first_difference(a.seen, b.seen) is not None or first_difference(b.seen, a.seen) is not None:
            return a.request.n
    return None


def difference(one: Trace, other: Trace, request: int) -> tuple[Differs, ...]:
    """The blocks that two replays of a session treat otherwise in a request. IndexError where there is no such request."""
    a, b = one.plans[request].seen, other.plans[request].seen
    places = _Places.of(a), _Places.of(b)
    found: list[Differs] = []
    for start, stop, _ in repainted([*a.pieces], [*b.pieces], shown, None):
        for at in range(start, stop):
            here, there = a.at(at).body is None, b.at(at).body is None
            how: How = "other form" if here == there else "only in A" if here else "only in B"
            where = places[0 if here or not there else 1].of_block(at, one.ledger)
            block = one.session.blocks[at]
            found.append(Differs(at, label(one.session, block), one.ledger.tokens(at, at + 1), how, where))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Places:
    """Counted tokens before each piece of an envelope."""

    pieces: tuple[Piece, ...]
    before: tuple[int, ...]

    @staticmethod
    def of(envelope: Envelope) -> _Places:
        pieces = tuple(piece for piece in envelope.pieces if piece.start < piece.stop)
        return _Places(pieces, (0, *accumulate(sum(piece.counts) for piece in pieces)))

    def of_block(self, at: int, ledger: Ledger) -> Where:
        """In which part of the prompt a block stands: the first quarter of the tokens is the head, the last the tail."""
        number = bisect_right(self.pieces, at, key=_STOP)
        piece = self.pieces[number]
        inside = ledger.tokens(piece.start, at) if piece.body is None else 0
        share = (self.before[number] + inside) / max(1, self.before[-1])
        return "head" if share < 0.25 else "tail" if share >= 0.75 else "middle"


def falls(row: Row) -> tuple[tuple[int, int], ...]:
    """Requests at which a policy's prompt fell by more than a tenth, with the tokens that went: the events on a chart."""
    pairs = enumerate(pairwise(row.sizes), 1)
    return tuple((n, before - now) for n, (before, now) in pairs if now < 0.9 * before)


def better(rows: Sequence[Row]) -> tuple[str, ...]:
    """Names of the policies that no other one beats in dollars and in lost references at once."""
    priced = [(row.usd, len(row.losses.hits), row.policy) for row in rows if row.usd is not None]
    return tuple(
        name
        for usd, lost, name in priced
        if not any((u <= usd and hits <= lost) and (u < usd or hits < lost) for u, hits, _ in priced)
    )
