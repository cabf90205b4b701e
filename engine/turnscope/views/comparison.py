"""Policies side by side on one session: a row for each with its cost, refusals and lost references.

Every policy has the recorded answers: a model's answer to another prompt is not known. Makes no replay. The prompt
cache is simulated (`cached_cost`); references are compared by their letters (`losses`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice, pairwise, tee
from statistics import median
from textwrap import wrap
from typing import Any

from turnscope import notebook
from turnscope.envelope.plan import Plan
from turnscope.errors import UnknownEntry
from turnscope.numbering import format_request
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.foreign_summaries import count_foreign_summaries
from turnscope.planning.held_plans import STRETCH, LazyPlans, PlanOutline
from turnscope.planning.lint import Problem
from turnscope.planning.prompt_cache import CacheUse, iter_cache_uses
from turnscope.planning.refusals import UNKNOWN
from turnscope.planning.rejections import RequestChecker, SharedChecks
from turnscope.planning.trace import Trace
from turnscope.session.content import dumps
from turnscope.session.model import Action, Session
from turnscope.views import rejections as refusals
from turnscope.views.cached_cost import ReplayCost, RunningCost, count_answer_tokens
from turnscope.views.divergence import BlockDifference, Placement, find_divergence, list_differences, list_placements
from turnscope.views.losses import Losses, LossReader, References, ShownBlocks, find_references
from turnscope.views.phrases import format_usd
from turnscope.views.replay_cost import NOTHING_BILLED, RecordCost, price_as_billed, price_record
from turnscope.views.text_tables import format_csv, format_line, format_text
from turnscope.views.user_rules import RuleFate, RuleIndex, RuleReader

ASSUMPTIONS = (
    "Answers are taken as recorded: what the model would have answered to another prompt is not known. The prompt cache is "
    "simulated, and the cost is scaled so that the record costs its bill. Lost references are found by an exact match of "
    "letters, so their number is a lower bound."
)
CALIBRATED = 0.05  # error of the simulated record up to which dollars are taken to hold
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
    "rules",
    "rules_kept",
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
    "rules kept",
)
# Characters of each column behind the first, of a table whose rows are not known yet: its usual figures, or its heading.
WIDTHS = tuple(map(max, zip((9, 0, 0, 0, 21, *[0] * 6), map(len, HEADINGS[1:]), strict=True)))


@dataclass(frozen=True, slots=True)
class Row:
    """The replay of one policy in numbers.

    Attributes:
        cost: its cost in dollars of the bill (`replay_cost`).
        cache: what the simulated cache does for each request.
        sizes: provider tokens of each prompt.
        limits, windows: tokens that each prompt may have, by the policy and by the model.
        kept_share: tokens sent, as a share of those with everything kept, 0 to 1.
        refusals: requests that the policy refuses.
        overflows: requests over the policy's limit or the model's window, by what would be sent.
        over_window: those of them over the window, which no provider accepts.
        rejected: numbers of the requests whose body the provider's API would reject.
        unsent: numbers of the requests that could not be sent: over the window, rejected, or refused by the policy.
        changed: numbers of the requests that the policy changed.
        decisions: how many of each action.
        losses: its lost references.
        refetch_usd: USD of writing again the blocks that answers needed and that were not in the prompt.
        published_saving: the saving that its source states; "" = none.
        unjudged: requests to a provider whose rules are not known.
        foreign_summaries: how many of the drops are summaries that the recorded tool made, which the policy does not use.
        record_usd: USD that the record cost: its bill, else what is simulated; None where neither is known.
        record: its bill and its simulation; of the record only.
        cache_errors: by how much of each prompt the simulated cache reads differ from the recorded ones; of the record only.
        rules: what became of each rule that a person gave in words (`user_rules`).
    """

    policy: str
    title: str
    cost: ReplayCost
    cache: tuple[CacheUse, ...]
    sizes: tuple[int, ...]
    limits: tuple[int, ...]
    windows: tuple[int, ...]
    kept_share: float
    refusals: int
    overflows: int
    over_window: int
    rejected: tuple[int, ...]
    unsent: tuple[int, ...]
    changed: tuple[int, ...]
    decisions: Mapping[Action, int]
    losses: Losses
    refetch_usd: Decimal = Decimal(0)
    published_saving: str = ""
    unjudged: int = 0
    foreign_summaries: int = 0
    record_usd: Decimal | None = None
    record: RecordCost = NOTHING_BILLED
    cache_errors: tuple[float, ...] = ()
    rules: tuple[RuleFate, ...] = ()

    @property
    def rules_kept(self) -> int:
        """How many of the rules every request holds, from when they were given."""
        return sum(fate.is_kept for fate in self.rules)

    @property
    def rules_label(self) -> str:
        """How many rules are kept, of how many, for a table."""
        return f"{self.rules_kept:,} of {len(self.rules):,}" if self.rules else "none found"

    @property
    def factor(self) -> float | None:
        """USD as a factor of what the record cost; None where one of the two has no price."""
        return float(self.usd / self.record_usd) if self.usd is not None and self.record_usd else None

    @property
    def billed(self) -> Decimal | None:
        """USD billed; of the record only."""
        return self.record.billed

    @property
    def simulation_error(self) -> float | None:
        """By how much the simulated cost was off before it was scaled, as a share of the bill; of the record only."""
        return float(1 / self.record.scale - 1) if self.billed else None

    @property
    def usd(self) -> Decimal | None:
        """USD of all requests with a known price, summaries included."""
        return self.cost.total

    @property
    def sendable(self) -> bool:
        """Whether every request could have been sent: none is refused, over the model's window, or rejected.

        A request over the policy's own limit alone could have been sent.
        """
        return not self.unsent

    @property
    def rejected_count(self) -> int | None:
        """How many requests the provider would reject; None where its rules are not known."""
        return len(self.rejected) if self.unjudged < len(self.sizes) or not self.sizes else None

    @property
    def is_calibrated(self) -> bool:
        """Whether the simulated cost of the record is so near its bill that dollars of other policies hold, too."""
        return abs(self.simulation_error or 0.0) <= CALIBRATED

    @property
    def calibration(self) -> str:
        """How the simulation compares with the record, in one sentence or two; "" where nothing is recorded."""
        off = self.simulation_error
        if off is None:
            return ""
        known = self.record
        cut = (
            f" ({format_usd(known.counted_usd)} of it estimated, where the record cuts answers short)"
            if known.counted_usd
            else ""
        )
        within = sum(error <= 0.02 for error in self.cache_errors) / len(self.cache_errors)
        where = f"{abs(off):.1%} {'above' if off > 0 else 'below'}" if abs(off) >= 0.001 else "within 0.1% of"
        hint = "" if self.is_calibrated else " Factors hold better than dollars."
        return (
            f"{'Calibrated' if self.is_calibrated else 'Not calibrated'}: the simulated cost of the record is "
            f"{where} its bill of {format_usd(known.billed)}{cut}; simulated cache reads "
            f"are off by {median(self.cache_errors):.2%} of the prompt at the median request, and within 2 % at {within:.0%} "
            f"of them.{hint}"
        )

    @property
    def peak(self) -> tuple[float, int]:
        """The highest fill of a window, and the request that has it; (0, -1) without requests."""
        fills = [size / window for size, window in zip(self.sizes, self.windows, strict=True)]
        return (max(fills), fills.index(max(fills))) if fills else (0.0, -1)

    @property
    def peak_label(self) -> str:
        """The highest fill and its request, for a table."""
        fill, at = self.peak
        return f"{fill:.0%} at request {format_request(at)}" if at >= 0 else "no request"

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
            len(self.rules),
            self.rules_kept,
        )


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """What all replays of one session share: references and tokens of its answers, checked messages, the record's cost.

    Attributes:
        rules: the rules that its prompts give; None = they are not looked for.
    """

    references: References
    answer_tokens: tuple[int, ...]
    looked: SharedChecks = field(default_factory=SharedChecks)
    record: RecordCost = NOTHING_BILLED
    rules: RuleIndex | None = None

    @staticmethod
    def from_trace(trace: Trace, record: RecordCost | None = None) -> SharedFacts:
        """Read them from a replay of the session; what only the record shows, where it is the record's.

        Args:
            trace: the replay.
            record: what the record cost, where that is known already.
        """
        answers = count_answer_tokens(trace)
        if record is None:
            record = price_record(trace, answers) if trace.policy.name == AS_RECORDED else NOTHING_BILLED
        return SharedFacts(find_references(trace.session), answers, record=record, rules=RuleIndex(trace.session))


@dataclass(frozen=True, slots=True)
class Sending:
    """What sending the requests of a replay comes to, before what its answers lost.

    Attributes:
        sizes: provider tokens of each prompt.
        listed: its cost at list prices.
        cache: what the simulated cache does for each request.
        judged: what the provider would reject.
    """

    sizes: tuple[int, ...]
    listed: ReplayCost
    cache: tuple[CacheUse, ...]
    judged: refusals.Rejections


def measure_sending(
    trace: Trace,
    answers: Sequence[int],
    looked: SharedChecks,
    *,
    sent: bool = True,
    on_plan: Callable[[Plan], object] | None = None,
) -> Sending:
    """Simulate what sending the requests of a replay comes to.

    Args:
        trace: the replay.
        answers: output tokens of each recorded answer.
        looked: what was checked of other replays of the session.
        sent: whether its requests go to the models that they really went to.
        on_plan: is given each plan.
    """
    many, checker = len(trace.session.requests), RequestChecker(trace.session, looked)
    uses, problems = list[CacheUse](), list[tuple[Problem, ...]]()
    sizes, known = tee(map(trace.count_tokens, range(many)))
    simulated, plans = iter_cache_uses(trace, known, sent=sent), iter(trace.plans)
    listed = RunningCost(trace, answers)
    # All in one pass, since the plans of a large replay are made again for each. Yet each step goes on for a while: a
    # processor's own memory holds what one of them needs, not what all do.
    while stretch := [*islice(plans, STRETCH)]:
        found = [*islice(simulated, len(stretch))]
        uses.extend(found)
        problems.extend(checker.check(plan, trace.prices) for plan in stretch)
        if on_plan:
            deque(map(on_plan, stretch), maxlen=0)
        deque(map(listed.add, stretch, found), maxlen=0)
    return Sending(tuple(islice(sizes, many)), listed.cost, tuple(uses), refusals.select_rejections(trace, problems))


def _read_plans(
    trace: Trace, shared: SharedFacts, *, sent: bool, sending: Sending | None
) -> tuple[Sending, LossReader, RuleReader | None]:
    """What sending the requests of a replay comes to, and what has read all of them for what they lack."""
    losses = LossReader(trace.session, shared.references)
    rules = RuleReader(trace, shared.rules) if shared.rules else None
    shown = ShownBlocks(len(trace.session.blocks))

    def read(plan: Plan) -> None:
        come, gone = shown.move(plan.seen)
        losses.read(plan, come, gone)
        if rules:
            rules.read(plan, come, gone)

    if sending:
        deque(map(read, trace.plans), maxlen=0)
        return sending, losses, rules
    whole = _make_whole(trace)
    return measure_sending(whole, shared.answer_tokens, shared.looked, sent=sent, on_plan=read), losses, rules


def build_row(trace: Trace, shared: SharedFacts, *, sent: bool = True, sending: Sending | None = None) -> Row:
    """Build the row of one replay. What is not planned of it yet is planned, each request as it is measured.

    Args:
        trace: the replay.
        shared: what all replays of its session share.
        sent: whether its requests go to the models that they really went to.
        sending: what sending its requests comes to, where that is known already.
    """
    made, losses, rules = _read_plans(trace, shared, sent=sent, sending=sending)
    sizes, cache, judged = made.sizes, made.cache, made.judged
    large = {n for n, (plan, size) in enumerate(zip(trace.outlines, sizes, strict=True)) if _exceeds_window(plan, size)}
    refused = {n for n, plan in enumerate(trace.outlines) if plan.verdict == "refuse"}
    rejected = tuple(n for n, wrong in enumerate(judged.requests) if wrong)
    missing = losses.build_losses(trace)
    actions = Counter(action for plan in trace.outlines for action in plan.actions if action != "warn")
    own = sent and trace.policy.name == AS_RECORDED
    return Row(
        policy=trace.policy.name,
        title=trace.policy.title or trace.policy.name,
        cost=price_as_billed(trace, made.listed, shared.record, sent=sent),
        cache=cache,
        sizes=sizes,
        limits=tuple(plan.budget.limit for plan in trace.outlines),
        windows=tuple(plan.budget.window for plan in trace.outlines),
        kept_share=sum(sizes) / max(1, trace.uncut_tokens),
        refusals=len(refused),
        overflows=sum(trace.get_verdict(n) == "overflow" for n in range(len(trace.plans))),
        over_window=len(large),
        rejected=rejected,
        unsent=tuple(sorted({*large, *refused, *rejected})),
        changed=tuple(plan.request.n for plan in trace.outlines if plan.is_changed),
        decisions=dict(actions.most_common()),
        losses=missing,
        refetch_usd=_price_refetch(trace, missing, sizes) * shared.record.scale,
        published_saving=trace.policy.saving,
        unjudged=judged.rules.count(UNKNOWN),
        foreign_summaries=min(actions["drop"], count_foreign_summaries(trace.session, trace.policy)),
        record_usd=shared.record.total,
        record=shared.record if own else NOTHING_BILLED,
        cache_errors=_find_cache_errors(trace, cache) if own else (),
        rules=rules.list_fates(trace) if rules else (),
    )


def _make_whole(trace: Trace) -> Trace:
    """A replay with plans that are made as they are read, where they are not made yet."""
    many = len(trace.session.requests)
    return replace(trace, plans=LazyPlans(trace.held, many)) if trace.held and len(trace.plans) < many else trace


def _exceeds_window(plan: Plan | PlanOutline, size: int) -> bool:
    return plan.verdict != "refuse" and plan.budget.known and size > plan.budget.window


def _price_refetch(trace: Trace, losses: Losses, sizes: Sequence[int]) -> Decimal:
    """USD of writing the missing blocks of each answer into the prompt again, each block once per answer."""
    usd, needed = Decimal(0), dict[int, set[int]]()
    for hit in losses.hits:
        needed.setdefault(hit.request, set()).add(hit.block)
    for n, blocks in needed.items():
        plan, scale = trace.outlines[n], trace.get_terms(n).scale
        rate = trace.prices.find_rates(plan.model, sizes[n], plan.request.sent_at)
        tokens = sum(round(trace.ledger.count_tokens(block, block + 1) * scale) for block in blocks)
        usd += max(rate.cache_write_5m, rate.input) * tokens / 1_000_000 if rate else 0
    return usd


def _find_cache_errors(trace: Trace, cache: Sequence[CacheUse]) -> tuple[float, ...]:
    """By how much of each prompt the simulated cache reads of the record differ from the recorded ones."""
    pairs = ((r.usage, cache[r.n].read) for r in trace.session.requests if r.usage and r.usage.prompt_tokens)
    return tuple(abs(read - usage.cache_read_input_tokens) / usage.prompt_tokens for usage, read in pairs)


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
        """The rows as JSON, with the figures of each request, every lost reference and every lost rule."""
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
        "no known price" if made.usd is None else format_usd(made.usd).removeprefix("$"),
        "" if made.factor is None else f"{made.factor:.2f}",
        f"{made.cost.cache_share:.0%}",
        f"{made.kept_share:.0%}",
        made.peak_label,
        *(f"{many:,}" for many in (made.refusals, made.overflows, made.over_window)),
        "not judged" if made.rejected_count is None else f"{made.rejected_count:,}",
        f"{len(made.losses.hits):,}",
        made.rules_label,
    )


class RowPrinter:
    """A table of rows that are made one after another; for its columns' width it needs the titles of all.

    Args:
        titles: titles of the policies.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._wide = (max(map(len, (HEADINGS[0], *titles))), *WIDTHS)

    @property
    def heading(self) -> str:
        """The line above all rows."""
        return format_line(HEADINGS, self._wide)

    def format(self, row: Row) -> str:
        """The line of a row."""
        return format_line(_format_row(row), self._wide)


def format_assumptions() -> str:
    """What stands below a table of plain text."""
    return "\n".join(wrap(ASSUMPTIONS, 100))


def format_rows(rows: Sequence[Row]) -> str:
    """Format rows as a table of plain text, with the assumptions below it."""
    return f"{format_text(HEADINGS, map(_format_row, rows))}\n\n{format_assumptions()}"


def rows_to_csv(rows: Sequence[Row]) -> str:
    """Write rows as CSV."""
    return format_csv(COLUMNS, (row.cells for row in rows))


def rows_to_json(rows: Sequence[Row]) -> str:
    """Write rows as JSON: the values of the table, and by request the prompt tokens and those read from the cache."""
    listed = [
        dict(zip(COLUMNS, row.cells, strict=True))
        | {"sizes": row.sizes, "read": [use.read for use in row.cache], "rejected_requests": row.rejected}
        | {"lost_references": [hit._asdict() for hit in row.losses.hits]}
        | {"lost_rules": [_describe_fate(fate) for fate in row.rules if not fate.is_kept]}
        for row in rows
    ]
    return dumps({"assumed": ASSUMPTIONS, "policies": listed}) + "\n"


def _describe_fate(fate: RuleFate) -> dict[str, Any]:
    """A rule that a policy lost: its words, where they stand, and the requests without them."""
    back = fate.back if fate.back >= 0 else None
    return {"text": fate.rule.text, "source": fate.rule.source, "block": fate.rule.block, "lost": fate.lost, "back": back}


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
