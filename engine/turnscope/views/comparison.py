"""Policies side by side on one session: a row for each with its cost, refusals and lost references.

Every policy has the recorded answers: what a model would have said to another prompt is not known. Makes no replay. The prompt
cache is simulated (`cached_cost`); references are compared by their letters (`losses`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from statistics import median
from textwrap import wrap
from typing import Any

from turnscope import notebook
from turnscope.envelope.plan import Plan
from turnscope.errors import UnknownEntry
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.prompt_cache import CacheUse, simulate_prompt_cache
from turnscope.planning.refusals import UNKNOWN
from turnscope.planning.rejections import SharedChecks
from turnscope.planning.trace import Trace
from turnscope.session.content import dumps
from turnscope.session.model import Action, Session, select_model_output
from turnscope.views import rejections as refusals
from turnscope.views.bill import charge
from turnscope.views.cached_cost import SimulatedCost, count_answer_tokens, simulate_cost
from turnscope.views.divergence import BlockDifference, Placement, find_divergence, list_differences, list_placements
from turnscope.views.losses import Losses, References, find_losses, find_references
from turnscope.views.tables import format_csv, format_text

ASSUMPTIONS = (
    "Answers are taken as recorded: what the model would have said to another prompt is not known. The prompt cache is "
    "simulated at list prices, for the record too: compare policies by their factor of the simulated record. "
    "Lost references are counted by their letters alone, so at least so much is missing."
)
COLUMNS = (
    "policy",
    "title",
    "usd",
    "usd_factor",
    "usd_condensing",
    "usd_billed",
    "unpriced",
    "cache_share",
    "tokens",
    "kept_share",
    "peak_fill",
    "peak_request",
    "refusals",
    "overflows",
    "over_window",
    "rejected",
    "unjudged",
    "changed",
    "decisions",
    "lost",
    "lost_share",
    "usd_fetching",
    "published_saving",
)
HEADINGS = (
    "policy",
    "USD",
    "× record",
    "from cache",
    "kept",
    "peak fill",
    "refused",
    "over limit",
    "over window",
    "rejected",
    "lost references",
)


@dataclass(frozen=True, slots=True)
class Row:
    """The replay of one policy in numbers.

    Attributes:
        cost: its simulated cost.
        cache: what the simulated cache does for each request.
        sizes: provider tokens of each prompt.
        limits, windows: tokens that each prompt may have, by the policy and by the model.
        kept_share: tokens sent, as a share of those with everything kept, 0 to 1.
        refusals: requests that the policy refuses.
        overflows: requests over the policy's limit or the model's window, by what would be sent.
        over_window: those of them over the window, which no provider accepts.
        rejected: numbers of the requests that the provider would reject.
        changed: numbers of the requests that the policy changed.
        decisions: how many of each action.
        losses: its lost references.
        refetch_usd: USD of writing again the blocks that answers needed and that were not in the prompt.
        published_saving: the saving that its source states; "" = none.
        unjudged: requests to a provider whose rules are not known.
        billed: USD billed; of the record only.
        cache_errors: by how much of each prompt the simulated cache reads differ from the recorded ones; of the record only.
        counted_usd: the part of `billed` for answers that the record cuts short; of the record only.
        record_usd: USD of the record, simulated in the same way; None where it is not known.
    """

    policy: str
    title: str
    cost: SimulatedCost
    cache: tuple[CacheUse, ...]
    sizes: tuple[int, ...]
    limits: tuple[int, ...]
    windows: tuple[int, ...]
    kept_share: float
    refusals: int
    overflows: int
    over_window: int
    rejected: tuple[int, ...]
    changed: tuple[int, ...]
    decisions: Mapping[Action, int]
    losses: Losses
    refetch_usd: Decimal = Decimal(0)
    published_saving: str = ""
    unjudged: int = 0
    billed: Decimal | None = None
    cache_errors: tuple[float, ...] = ()
    counted_usd: Decimal = Decimal(0)
    record_usd: Decimal | None = None

    @property
    def factor(self) -> float | None:
        """USD as a factor of the simulated record; None where one of the two has no price."""
        return float(self.usd / self.record_usd) if self.usd is not None and self.record_usd else None

    @property
    def simulation_error(self) -> float | None:
        """By how much the simulated cost is off, as a share of what was billed; of the record only."""
        return float((self.usd - self.billed) / self.billed) if self.usd is not None and self.billed else None

    @property
    def usd(self) -> Decimal | None:
        """USD of all requests with a known price, summaries included."""
        return self.cost.total

    @property
    def sendable(self) -> bool:
        """Whether every request could have been sent: none is refused, over the model's window, or rejected.

        A request over the policy's own limit alone could have been sent.
        """
        return not (self.refusals or self.over_window or self.rejected)

    @property
    def rejected_count(self) -> int | None:
        """How many requests the provider would reject; None where its rules are not known."""
        return len(self.rejected) if self.unjudged < len(self.sizes) or not self.sizes else None

    @property
    def calibration(self) -> str:
        """How the simulated cache compares with the record, in one sentence; "" where nothing is recorded."""
        if not self.cache_errors or self.billed is None or self.usd is None:
            return ""
        within = sum(error <= 0.02 for error in self.cache_errors) / len(self.cache_errors)
        off = f" ({self.simulation_error:+.1%})" if self.simulation_error is not None else ""
        part = f" ({self.counted_usd:,.2f} of it estimated, where the record cuts answers short)" if self.counted_usd else ""
        return (
            f"Held against the record: {self.usd:,.2f} USD simulated{off}, {self.billed:,.2f} billed{part}; "
            f"cache reads are off by {median(self.cache_errors):.2%} of the prompt at the median request, "
            f"and within 2 % at {within:.0%} of them."
        )

    @property
    def peak(self) -> tuple[float, int]:
        """The highest fill of a window, and the request that has it; (0, -1) without requests."""
        fills = [size / window for size, window in zip(self.sizes, self.windows, strict=True)]
        return (max(fills), fills.index(max(fills))) if fills else (0.0, -1)

    @property
    def cells(self) -> tuple[Any, ...]:
        """Its values in the order of `COLUMNS`."""
        fill, at = self.peak
        usd, *money = (
            None if usd is None else round(float(usd), 6)
            for usd in (self.usd, sum(self.cost.summary_usd, Decimal(0)), self.billed)
        )
        return (
            self.policy,
            self.title,
            usd,
            None if self.factor is None else round(self.factor, 4),
            *money,
            self.cost.unpriced_requests,
            round(self.cost.cache_share, 4),
            sum(self.sizes),
            round(self.kept_share, 4),
            round(fill, 4),
            at,
            self.refusals,
            self.overflows,
            self.over_window,
            self.rejected_count,
            self.unjudged,
            len(self.changed),
            dict(self.decisions),
            len(self.losses.hits),
            round(self.losses.rate, 4),
            round(float(self.refetch_usd), 6),
            self.published_saving,
        )


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """What all replays of one session share: the references of its answers, their tokens, and its messages as checked.

    `record_usd`: USD of the record with its simulated cache; None where it is not known.
    """

    references: References
    answer_tokens: tuple[int, ...]
    looked: SharedChecks = field(default_factory=SharedChecks)
    record_usd: Decimal | None = None

    @staticmethod
    def from_trace(trace: Trace) -> SharedFacts:
        """Read them from a replay of the session; what only the record shows, where it is the record's."""
        answers = count_answer_tokens(trace)
        own = trace.policy.name == AS_RECORDED
        usd = simulate_cost(trace, simulate_prompt_cache(trace), answers).total if own else None
        return SharedFacts(find_references(trace.session), answers, record_usd=usd)


def build_row(trace: Trace, shared: SharedFacts, *, sent: bool = True) -> Row:
    """Build the row of one replay.

    Args:
        trace: the replay.
        shared: what all replays of its session share.
        sent: whether its requests go to the models that they really went to.
    """
    sizes = tuple(trace.count_tokens(n) for n in range(len(trace.plans)))
    cache = simulate_prompt_cache(trace, sizes, sent=sent)
    cost = simulate_cost(trace, cache, shared.answer_tokens)
    judged = refusals.find_rejections(trace, shared.looked)
    large = [_exceeds_window(plan, size) for plan, size in zip(trace.plans, sizes, strict=True)]
    missing = find_losses(trace, shared.references)
    actions = Counter(
        d.action for plan in trace.plans for d in plan.decisions if d.splice or d.action in ("fallback", "refuse")
    )
    row = Row(
        policy=trace.policy.name,
        title=trace.policy.title or trace.policy.name,
        cost=cost,
        cache=cache,
        sizes=sizes,
        limits=tuple(plan.budget.limit for plan in trace.plans),
        windows=tuple(plan.budget.window for plan in trace.plans),
        kept_share=sum(sizes) / max(1, trace.uncut_tokens),
        refusals=sum(plan.verdict == "refuse" for plan in trace.plans),
        overflows=sum(trace.get_verdict(n) == "overflow" for n in range(len(trace.plans))),
        over_window=sum(large),
        rejected=tuple(n for n, wrong in enumerate(judged.requests) if wrong),
        changed=tuple(plan.request.n for plan in trace.plans if plan.is_changed),
        decisions=dict(actions.most_common()),
        losses=missing,
        refetch_usd=_price_refetch(trace, missing, sizes),
        published_saving=trace.policy.saving,
        unjudged=judged.rules.count(UNKNOWN),
        record_usd=shared.record_usd if sent else None,
    )
    return _compare_with_record(row, trace) if sent and trace.policy.name == AS_RECORDED else row


def _exceeds_window(plan: Plan, size: int) -> bool:
    return plan.verdict != "refuse" and plan.budget.known and size > plan.budget.window


def _price_refetch(trace: Trace, losses: Losses, sizes: Sequence[int]) -> Decimal:
    """USD of writing the missing blocks of each answer into the prompt again, each block once per answer."""
    usd, needed = Decimal(0), dict[int, set[int]]()
    for hit in losses.hits:
        needed.setdefault(hit.request, set()).add(hit.block)
    for n, blocks in needed.items():
        plan, scale = trace.plans[n], trace.get_terms(n).scale
        rate = trace.prices.find_rates(plan.model, sizes[n], plan.request.sent_at)
        tokens = sum(round(trace.ledger.count_tokens(block, block + 1) * scale) for block in blocks)
        usd += max(rate.cache_write_5m, rate.input) * tokens / 1_000_000 if rate else 0
    return usd


def _compare_with_record(row: Row, trace: Trace) -> Row:
    """Add what was billed, the error of each simulated cache read, and the USD that were counted here."""
    session = trace.session
    pairs = [(r, row.cache[r.n].read) for r in session.requests if r.usage and r.usage.prompt_tokens]
    errors = tuple(abs(read - r.usage.cache_read_input_tokens) / r.usage.prompt_tokens for r, read in pairs if r.usage)
    made = [
        charge(r, trace.prices, select_model_output(session.blocks[r.cut : r.stop]), trace.ledger.count_content)
        for r, _ in pairs
    ]
    billed = [each.cost.total for each in made if each.cost]
    counted = sum((each.counted_usd for each in made if each.cost), Decimal(0))
    return replace(row, billed=sum(billed, Decimal(0)) if billed else None, cache_errors=errors, counted_usd=counted)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Policies side by side on a session. `rows` and `traces` are in the same order, that of `names`.

    >>> made = turnscope.compare(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), ["keep-everything", "last-5-pairs"])
    >>> made.names, made.find_divergence("keep-everything", "last-5-pairs")
    (('keep-everything', 'last-5-pairs'), 55)
    """

    session: Session
    rows: tuple[Row, ...]
    traces: tuple[Trace, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the rows."""
        return tuple(row.policy for row in self.rows)

    def get_trace(self, name: str) -> Trace:
        """The replay under a policy. UnknownEntry: it is not compared here."""
        if name not in self.names:
            raise UnknownEntry(f"{name!r} is not compared here", hint=f"There are: {', '.join(self.names)}.")
        return self.traces[self.names.index(name)]

    def find_divergence(self, one: str, other: str) -> int | None:
        """The first request that two policies send differently; None = there is none.

        Args:
            one, other: names of the policies.
        """
        return find_divergence(self.get_trace(one), self.get_trace(other))

    def list_differences(self, one: str, other: str, request: int) -> tuple[BlockDifference, ...]:
        """List the blocks that two policies treat differently in a request.

        Args:
            one, other: names of the policies.
            request: number of the request.
        """
        return list_differences(self.get_trace(one), self.get_trace(other), request)

    def list_placements(self, one: str, other: str, request: int) -> tuple[Placement, ...]:
        """List every block that one of two policies keeps in a request, and where it stands in each prompt.

        Args:
            one, other: names of the policies.
            request: number of the request.
        """
        return list_placements(self.get_trace(one), self.get_trace(other), request)

    def to_csv(self) -> str:
        """A line per policy as CSV."""
        return rows_to_csv(self.rows)

    def to_json(self) -> str:
        """The rows as JSON, with the figures of each request and every lost reference."""
        return rows_to_json(self.rows)

    def __repr__(self) -> str:
        return format_rows(self.rows)

    def _repr_html_(self) -> str:
        name = self.session.title or self.session.id
        lines = notebook.render_table(HEADINGS, [_format_row(made) for made in self.rows])
        return notebook.render_card(f"{len(self.rows)} policies · {name}", lines, notebook.render_line(ASSUMPTIONS))


def _format_row(made: Row) -> tuple[str, ...]:
    """A row for people, in the order of `HEADINGS`."""
    return (
        made.title,
        "no known price" if made.usd is None else f"{made.usd:,.2f}",
        "" if made.factor is None else f"{made.factor:.2f}",
        f"{made.cost.cache_share:.0%}",
        f"{made.kept_share:.0%}",
        f"{made.peak[0]:.0%} at {made.peak[1]}",
        *(f"{many:,}" for many in (made.refusals, made.overflows, made.over_window)),
        "not judged" if made.rejected_count is None else f"{made.rejected_count:,}",
        f"{len(made.losses.hits):,}",
    )


def format_rows(rows: Sequence[Row]) -> str:
    """Format rows as a table of plain text, with the assumptions below it."""
    return "\n".join((format_text(HEADINGS, map(_format_row, rows)), "", *wrap(ASSUMPTIONS, 100)))


def rows_to_csv(rows: Sequence[Row]) -> str:
    """Write rows as CSV."""
    return format_csv(COLUMNS, (row.cells for row in rows))


def rows_to_json(rows: Sequence[Row]) -> str:
    """Write rows as JSON: the values of the table, and by request the prompt tokens and those read from the cache."""
    listed = [
        dict(zip(COLUMNS, row.cells, strict=True))
        | {"sizes": row.sizes, "read": [use.read for use in row.cache], "rejected_requests": row.rejected}
        | {"lost_references": [hit._asdict() for hit in row.losses.hits]}
        for row in rows
    ]
    return dumps({"assumed": ASSUMPTIONS, "policies": listed}) + "\n"


def find_drops(row: Row) -> tuple[tuple[int, int], ...]:
    """Find the requests at which a policy's prompt fell by more than a tenth, with the tokens that went."""
    pairs = enumerate(pairwise(row.sizes), 1)
    return tuple((n, before - now) for n, (before, now) in pairs if now < 0.9 * before)


def find_pareto_optimal(rows: Sequence[Row]) -> tuple[str, ...]:
    """Find the policies that no other policy beats in both USD and lost references.

    A policy with a request that could not be sent does not count.

    Returns:
        Names of the policies.
    """
    sent = (row for row in rows if row.sendable)
    priced = [(row.usd, len(row.losses.hits), row.policy) for row in sent if row.usd is not None]
    return tuple(
        name
        for usd, lost, name in priced
        if not any((u <= usd and hits <= lost) and (u < usd or hits < lost) for u, hits, _ in priced)
    )
