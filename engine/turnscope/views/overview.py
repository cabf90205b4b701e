"""A session as arrays over its requests, and its turns.

Pure functions of a trace. No Plotly, no Streamlit; session text stays text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from turnscope import notebook
from turnscope.counting.reconciliation import CELLS as CELLS  # noqa: PLC0414 - pages find it with the labels
from turnscope.counting.reconciliation import STATIC_BUCKETS, Fit, Floats, Ints, reconcile
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.provider_edits import GOES_ON, UNASKED
from turnscope.planning.session_fit import get_prompt_tokens, lacks_tools
from turnscope.planning.trace import Trace
from turnscope.pricing.windows import WindowEvidence
from turnscope.session.model import BUCKETS, SIDE, Session
from turnscope.session.window_facts import is_one_prompt
from turnscope.views.bill import bill
from turnscope.views.events import CUT_KINDS, classify_action
from turnscope.views.total_cost import TotalCost, compute_total_cost

LABELS = {
    "system": "System",
    "tools": "Tools",
    "messages": "Messages",
    "tool_results": "Tool results",
    "thinking": "Thinking",
    "prefix": "System + tools, not in the log",
    "earlier": "Earlier conversation, not in this file",
    "reinjected": "Injected, not in the log",
    "unattributed": "Unattributed",
}

MAX_ROWS = 12  # requests listed in a notebook, besides the largest and those that were cut


@dataclass(frozen=True, slots=True)
class Marker:
    """An event at a request. `kind` is a key of `events.EVENTS`; `findings.mark_breaks` adds cache misses."""

    request: int
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A session as arrays over the requests of one path (rows). Tokens are the provider's, money is USD.

    Attributes:
        cells: tokens, `[n, cell]`, as `CELLS`.
        recorded: prompt tokens, `[n]`; -1 where the log has none.
        billed: prompt tokens by how they were billed (read, written, uncached), `[n, cell, 3]`.
        usd: USD of the prompt, `[n, cell]`.
        answers, answer_usd: tokens and USD of the answer, `[n]`.
        totals: exact USD of each request, answer included; None without a price.
        windows: tokens, `[n]`; 0 = unknown.
        over: tokens counted beyond what was billed, by which the cells were made smaller, `[n]`.
        scales: provider tokens per counted token, `[n]`; of all but system prompt and tools.
        static_scales: the same of system prompt and tools, `[n]`.
        sent_at: seconds since the epoch; NaN where the log has no time.
        counter: label of the counter behind the estimates.
        bill: cost of the whole session, with branches and subagents.
        evidence: how the windows are known, model by model.
        inferred_tools: the log holds the system prompt and no tools: what else is hidden stands as tools, and is inferred.
    """

    session_id: str
    title: str
    source: str
    models: tuple[str, ...]
    turns: Ints
    sent_at: Floats
    cells: Ints
    recorded: Ints
    windows: Ints
    billed: Ints
    usd: Floats
    totals: tuple[Decimal | None, ...]
    answers: Ints
    answer_usd: Floats
    markers: tuple[Marker, ...]
    fits: tuple[Fit, ...]
    counter: str
    over: Ints
    scales: Floats
    static_scales: Floats
    bill: TotalCost
    evidence: tuple[WindowEvidence, ...]
    inferred_tools: bool = False

    def __len__(self) -> int:
        return len(self.recorded)

    @property
    def prompts(self) -> Ints:
        """Prompt tokens of each request: recorded, else estimated."""
        return np.where(self.recorded >= 0, self.recorded, self.cells.sum(axis=1))

    def list_bucket_scales(self) -> Floats:
        """Return the provider's tokens per counted one of each bucket, `[n, 5]`."""
        rest = len(BUCKETS) - STATIC_BUCKETS
        return np.column_stack([self.static_scales] * STATIC_BUCKETS + [self.scales] * rest)

    def get_prompt(self, n: int) -> int:
        """Prompt tokens of one request."""
        return int(self.recorded[n] if self.recorded[n] >= 0 else self.cells[n].sum())

    @property
    def fill(self) -> Floats:
        """Prompt tokens as a share of the window; NaN where the window is unknown."""
        return np.where(self.windows > 0, self.prompts / np.maximum(self.windows, 1), np.nan)

    @property
    def total(self) -> Decimal | None:
        """USD of the whole session with branches and subagents; None where no request has a price."""
        return self.bill.whole.usd

    @property
    def path_total(self) -> Decimal | None:
        """USD of the requests of this path, the rows; None where none has a price."""
        return self.bill.path.usd

    def __repr__(self) -> str:
        total = f"${self.total:,.2f}" if self.total is not None else "no price"
        peak = self.prompts.max(initial=0)
        return f"<Overview of {self.title or self.session_id!r}: {len(self)} requests, peak {peak:,} tokens, {total}>"

    def _repr_html_(self) -> str:
        """The largest request as a bar, and below it requests from first to last, the first ones with a cut among them."""
        if not len(self):
            return notebook.render_card(self.title or self.session_id, notebook.render_line("No request."), note=self.source)
        prompts, peak = self.prompts, int(self.prompts.argmax())
        cuts = {marker.request: marker.what for marker in self.markers if marker.kind in CUT_KINDS}
        evenly = {round(i * (len(self) - 1) / (MAX_ROWS - 1)) for i in range(MAX_ROWS)}
        rows = (
            (
                n,
                int(self.turns[n]),
                int(prompts[n]),
                notebook.render_bar(self._get_cells(n), int(prompts[peak]), slim=True),
                "" if self.totals[n] is None else f"${self.totals[n]:,.4f}",
                cuts.get(n, ""),
            )
            for n in sorted({*evenly, *list(cuts)[:MAX_ROWS], peak})
        )
        head = ("requests[n]", "turn", "prompt tokens", "", "USD", "")
        note = f"{self.source} · {len(self):,} requests · {'no price' if self.total is None else f'${self.total:,.2f}'}"
        if self.total is not None and len(self.bill.parts) > 1:
            note += f" in all ({', '.join(f'{name} ${share.usd or 0:,.2f}' for name, share in self.bill.parts)})"
        parts = (
            notebook.render_line(f"Largest: requests[{peak}], {int(prompts[peak]):,} tokens"),
            notebook.render_bar(self._get_cells(peak)),
        )
        return notebook.render_card(self.title or self.session_id, *parts, notebook.render_table(head, rows), note=note)

    def _get_cells(self, n: int) -> dict[str, int]:
        return dict(zip(CELLS, map(int, self.cells[n]), strict=True))


def build_overview(trace: Trace) -> Overview:
    """Build the overview of a session."""
    session, plans = trace.session, trace.plans
    counts = np.array([plan.seen.counts for plan in plans], dtype=np.int64).reshape(-1, 5)
    recorded = np.array([get_prompt_tokens(plan.request) for plan in plans], dtype=np.int64)
    models = tuple(plan.request.model for plan in plans)
    fitted = reconcile(counts, recorded, trace.fits)
    money = bill(trace, fitted)
    inferred_tools = lacks_tools(session)
    if inferred_tools:
        for table in (fitted.cells, money.tokens, money.usd):
            _move_prefix_to_tools(table)
    return Overview(
        session_id=session.id,
        title=session.title,
        source=session.source,
        models=models,
        turns=np.array([plan.request.turn for plan in plans], dtype=np.int64),
        sent_at=np.array(
            [np.nan if plan.request.sent_at is None else plan.request.sent_at for plan in plans], dtype=np.float64
        ),
        cells=fitted.cells,
        recorded=recorded,
        windows=np.array([plan.limit or 0 for plan in plans], dtype=np.int64),
        billed=money.tokens,
        usd=money.usd,
        totals=money.totals,
        answers=money.answers,
        answer_usd=money.answer_usd,
        markers=tuple(_list_markers(session, plans, trace.fits)),
        fits=trace.fits,
        counter=trace.ledger.label,
        over=np.array([terms.overcounted for terms in fitted.terms], dtype=np.int64),
        scales=np.array([terms.scale for terms in fitted.terms], dtype=np.float64),
        static_scales=np.array([terms.get_scale(0) for terms in fitted.terms], dtype=np.float64),
        bill=compute_total_cost(trace, money.charges),
        evidence=trace.prices.evidence,
        inferred_tools=inferred_tools,
    )


def _move_prefix_to_tools(table: Ints | Floats) -> None:
    """Count what is hidden before the conversation as tools. The second axis of the table has the cells."""
    table[:, CELLS.index("tools")] += table[:, CELLS.index("prefix")]
    table[:, CELLS.index("prefix")] = 0


def _list_markers(session: Session, plans: Sequence[Plan], fits: Sequence[Fit]) -> list[Marker]:
    found = [
        Marker(
            fit.start, "unlogged", f"the tool cut something here that its log does not hold: about {fit.cut_at_start:,} tokens"
        )
        for fit in fits
        if fit.cut_at_start
    ]
    summed = -1  # the newest request that the provider itself summarised; the next one shows the same again
    for plan in plans:
        n = plan.request.n
        theirs = [d for d in plan.server if d.rule not in UNASKED and (summed < n - 1 or d.rule != GOES_ON)]
        summed = n if any(d.rule != GOES_ON and d.action == "condense" for d in theirs) else summed
        acted = {d.action: d for d in (*plan.decisions, *theirs) if _affects_conversation(session, d)}
        found += [Marker(n, classify_action(action), decision.edit.because) for action, decision in acted.items()]
        if plan.request.attempts > 1:
            found.append(Marker(n, "retry", f"sent {plan.request.attempts} times: the provider answered with errors first"))
        if plan.limit and get_prompt_tokens(plan.request) > plan.limit and is_one_prompt(session, plan.request):
            found.append(Marker(n, "overflow", f"larger than the window of {plan.limit:,} tokens"))
    found += [_mark_subagent(session, agent) for agent in session.subagents if session.requests]
    return sorted(found, key=lambda marker: marker.request)


def _mark_subagent(session: Session, agent: Session) -> Marker:
    """A subagent at the request whose answer called it; where the log does not say which, at the last one before it began."""
    side = str(agent.about.get(SIDE, ""))
    what = agent.title if side else f"started subagent {agent.title or agent.id}"
    if agent.at >= 0:
        n = bisect_right(session.requests, agent.at, key=lambda request: request.cut) - 1
        return Marker(max(0, n), "subagent", what)
    times = [*(message.sent_at for message in agent.messages), *(request.sent_at for request in agent.requests)]
    began = min((time for time in times if time is not None), default=0.0)
    before = [request.n for request in session.requests if request.sent_at is not None and request.sent_at <= began]
    if side:
        return Marker(before[-1] if before else 0, "side", what)
    where = "placed by its time" if before else "its time is not in the log" if not began else "it began before this path"
    return Marker(before[-1] if before else 0, "subagent", f"{what}; the call that did is not in the log, {where}")


def _affects_conversation(session: Session, decision: Decision) -> bool:
    """Whether a decision changed the conversation: no insert, no notice, no older version of a prompt or tool."""
    span = decision.edit.span
    if span is None:
        return decision.edit.is_unlocated_cut
    if not decision.splice or decision.edit.facts.get("superseded"):
        return False
    return any(session.blocks[at].kind != "notice" for at in range(*span))


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its requests `[start, stop)`. Its tokens are those of its last request, its cost is the sum."""

    n: int
    start: int
    stop: int


def list_turns(view: Overview) -> tuple[Turn, ...]:
    """List the turns that made at least one request."""
    edges = [0, *(np.flatnonzero(np.diff(view.turns)) + 1).tolist(), len(view)]
    return tuple(Turn(int(view.turns[a]), a, b) for a, b in pairwise(edges) if a < b)
