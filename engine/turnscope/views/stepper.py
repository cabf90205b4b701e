"""A trace for the stepper in the browser. It is sent once; every step forwards or backwards is then made there.

Only arranges data. Arrays are in columns, texts in one table. The state of a block at (request, step) is: `carried`, painted
request by request, then the first `step` decisions of that request. A *change* is a decision after which the request differs
from the previous one; a rule that makes the same cut again is *still*. Tokens are in the ledger's units. Hidden tokens, scale
and remainder of a request (`Trace.get_terms`) turn them into the provider's.

Two totals of each request are the provider's: `size`, as sent (recorded if possible), and `start`, before its first decision.
Between them counted tokens decide. A recorded condensation names its summary, which is a message of its own: nothing from there
on (`later`) existed before it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnscope.counting.reconciliation import Terms
from turnscope.envelope import difference
from turnscope.envelope.envelope import Envelope, sum_counts
from turnscope.envelope.pieces import Decision, Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.foreign_summaries import DROP_DECISION, get_summary_block
from turnscope.planning.prompt_cache import CacheUse
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.model import JSON, Bucket, Edit, Placeholder, Span
from turnscope.views import summary_quality
from turnscope.views.cached_cost import CachePrice, ReplayCost
from turnscope.views.labels import label_block
from turnscope.views.replay_cost import RecordCost, ReplayPricing

STATES = ("kept", "restored", "rewritten", "cleared", "condensed", "dropped", "summed")
KEPT, RESTORED, REWRITTEN, CLEARED, CONDENSED, DROPPED, SUMMED = range(
    7
)  # SUMMED: condensed, and the summary is a message of its own
KINDS = ("look", "change", "still", "event")  # event: a warning, fallback or refusal that the previous request did not have
LOOK, CHANGE, STILL, EVENT = range(4)
VERDICTS = ("send", "warn", "overflow", "refuse")

_OF = {"condense": CONDENSED, "drop": DROPPED, "clear": CLEARED, "strip": CLEARED}
_EVENTS = ("warn", "fallback", "refuse")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_HOLE = "\x01"  # stands for a number in a sentence of the table, because most sentences differ in their numbers only
_LONGEST = 400  # characters of a sentence or a fact


@dataclass(frozen=True, slots=True)
class Steps:
    """What the browser gets, and what a page says about all of it.

    Attributes:
        data: JSON in UTF-8.
        changes: every step at which something changed, in order.
        changed: how many requests have a change.
        decisions: how many decisions there are.
        sent_tokens, uncut_tokens: provider tokens of all requests, under the policy and with everything kept.
        peak: provider tokens of the largest request, and its number.
        verdicts: how many requests have each of `VERDICTS`.
        sizes: provider tokens by request.
        costs: what the requests cost.
        cache: what the simulated prompt cache does for each request.
    """

    data: bytes
    changes: tuple[Cursor, ...]
    changed: int
    decisions: int
    sent_tokens: int
    uncut_tokens: int
    peak: tuple[int, int]
    verdicts: tuple[int, ...]
    sizes: tuple[int, ...]
    costs: ReplayCost
    cache: tuple[CacheUse, ...]


def build_steps(trace: Trace, record: RecordCost | None = None, *, sent: bool = True) -> Steps:
    """Arrange a trace for the browser. The work grows with the changes, and once with the number of blocks.

    Args:
        trace: the replay.
        record: the cost of the record of its session; None = it is the record, or its bill is not known.
        sent: whether its requests go to the models that they really went to.

    >>> steps = build_steps(turnscope.replay(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), "last-5-pairs"))
    >>> steps.changed
    6
    """
    builder = StepsBuilder(trace, sent=sent)
    for plan in trace.plans:
        builder.add(plan)
    return builder.build(trace, record)


class StepsBuilder:
    """Arranges a trace for the browser request by request, also while it is planned.

    Args:
        trace: the replay; its plans may still become more.
        sent: whether its requests go to the models that they really went to.
    """

    def __init__(self, trace: Trace, *, sent: bool = True) -> None:
        self._trace, self._columns, self._pricing = trace, _Columns(trace), ReplayPricing(trace, sent=sent)
        self._sizes: list[int] = []
        self._previous: Plan | None = None

    def add(self, plan: Plan) -> None:
        """Add the plan of the next request, which is in the trace already."""
        prices = self._pricing.add(plan)
        self._columns.add_carried(self._previous, plan)
        self._columns.add_plan(self._previous, plan)
        self._columns.add_prices(plan, prices)
        self._sizes.append(self._trace.count_tokens(plan.request.n))
        self._previous = plan

    def build(self, trace: Trace, record: RecordCost | None = None) -> Steps:
        """Return the steps of the requests that were added.

        Args:
            trace: the replay with these requests.
            record: the cost of the record of its session; None = it is the record, or its bill is not known.
        """
        columns, sizes, costs = self._columns, self._sizes, self._pricing.price(trace, record)
        top = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        return Steps(
            data=json.dumps(columns.build_payload(costs), separators=(",", ":")).encode(),
            changes=tuple(columns.changes),
            changed=len({cursor.request for cursor in columns.changes}),
            decisions=len(columns.actions),
            sent_tokens=sum(sizes),
            uncut_tokens=trace.uncut_tokens,
            peak=(sizes[top] if sizes else 0, top),
            verdicts=tuple(columns.requests["verdict"].count(number) for number in range(len(VERDICTS))),
            sizes=tuple(sizes),
            costs=costs,
            cache=tuple(self._pricing.uses),
        )


def measure_size(trace: Trace, n: int) -> tuple[int, bool]:
    """Provider tokens of a request as it is sent, and whether they are recorded (else estimated).

    Args:
        trace: the replay.
        n: number of the request.
    """
    return trace.count_tokens(n), trace.get_terms(n).error == 0.0


def describe_size(trace: Trace, n: int) -> str:
    """Describe the size of a request: as planned with its stated error, as it is sent, and its limit.

    Args:
        trace: the replay.
        n: number of the request.
    """
    plan, (size, sure) = trace.plans[n], measure_size(trace, n)
    limit, over = plan.budget.limit, size - plan.budget.limit
    planned = f"{plan.expected_tokens:,} tokens planned, ±{plan.calibration.error:.0%}"
    planned += f" (from {plan.calibration.prior.source})" if plan.calibration.prior else ""
    end = f"{over:,} over" if over > 0 else "within"
    return f"{planned}; {size:,} {'were' if sure else 'would be'} sent; the limit is {limit:,}: {end}"


def measure_start(trace: Trace, n: int) -> tuple[int, Terms, int]:
    """Measure a request before its first decision.

    Args:
        trace: the replay.
        n: number of the request.

    Returns:
        Provider tokens; the terms that turn counted tokens into them; and the first block that did not exist yet, because the
        recorded condensation of this request had not been made (-1 = all existed).
    """
    plan, terms = trace.plans[n], trace.get_terms(n)
    tokens, sure = measure_size(trace, n)
    later = min((at for d in plan.decisions if d.splice and (at := get_summary_block(d.edit)) >= 0), default=-1)
    standing = plan.before.tokens - (trace.ledger.count_tokens(later, plan.request.cut) if later >= 0 else 0)
    if later >= 0 and sure and n:  # what was there was sent and billed one request ago
        terms = trace.get_terms(n - 1)
        grown = standing - trace.plans[n - 1].after.tokens
        return max(0, trace.count_tokens(n - 1) + round(terms.scale * grown)), terms, later
    if sure and n and any(d.splice and d.action == "condense" for d in plan.decisions):
        terms = trace.get_terms(n - 1)  # what left was billed one request ago
    changed = round(terms.scale * (standing - plan.after.tokens)) if plan.is_changed else 0
    return max(0, tokens + changed), terms, later


def find_estimate_error(record: Trace) -> float | None:
    """How far off the estimates of a session are, as a share that nine of ten requests stay within; None = nothing is recorded.

    Args:
        record: the session as recorded, because usage belongs to what was really sent.
    """
    return max((fit.error for fit in record.fits if fit.error is not None), default=None)


def find_summary_block(trace: Trace, cursor: Cursor, at: int) -> int | None:
    """Find the block that holds the summary of a block, if that summary is a message of its own.

    Args:
        trace: the replay.
        cursor: the step.
        at: address of the block.
    """
    envelope = trace.get_frame(cursor).envelope
    piece = envelope.find_piece(at) if 0 <= at < envelope.stop else None
    if piece is None or piece.body != () or piece.by < 0:
        return None
    found = get_summary_block(trace.get_decision(piece.by).edit)
    return found if found >= 0 else None


def compare_with_previous(decision: Decision, previous: Plan | None, slots: dict[str, list[Placeholder]]) -> tuple[bool, int]:
    """Whether the previous request was already as this decision makes it, and the first address that was not.

    Args:
        decision: the decision.
        previous: the plan of the previous request.
        slots: bodies of the inserts of the previous request, by slot.
    """
    edit = decision.edit
    span = edit.span or Span(0, 0)
    body = None if edit.restore else edit.body
    if span.start == span.stop:
        return (body or None) in (slots.get(edit.slot) or [None]), span.start
    at = span.start
    reach = previous.after.stop if previous else 0
    while previous and at < min(span.stop, reach):
        piece = previous.after.find_piece(at)
        same = piece.body == body and (not body or (piece.start, piece.stop) == span)
        if not same:
            return False, at
        at = piece.stop
    return body is None or at >= span.stop, min(at, span.stop - 1)


class _Columns:
    """The payload while it grows, request by request."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.memory = {part.rule.name: part.rule.memory for part in trace.policy.rules}
        self.hidden = False  # whether the provider removed something from a request by now
        self.table: dict[str, int] = {}
        self.actions: list[str] = []  # by decision
        self.changes: list[Cursor] = []
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.decisions: dict[str, list[Any]] = defaultdict(list)
        self.carried: dict[str, list[Any]] = {"paint": [], "until": [0], "hide": [], "hidden": [0], "come": [], "gone": []}
        self.facts: dict[str, int] = {}  # decisions of one rule at one request often share their facts
        self.begun: set[int] = set()  # decisions whose inserts are in the prompt before the request's first decision
        self.ended: set[int] = set()  # decisions whose inserts are in the previous request, as it was sent
        self.inserted: dict[int, Edit] = {}  # by decision: the edits that made inserts
        self.summed: set[int] = set()  # blocks that hold a summary of the tool
        self.blocks = self._describe_blocks()
        self.labels = [label_block(trace.session, block)[:_LONGEST] for block in trace.session.blocks]

    def intern_text(self, text: str) -> int:
        """The number of a text in the table."""
        return self.table.setdefault(text[:_LONGEST], len(self.table))

    def add_carried(self, previous: Plan | None, plan: Plan) -> None:
        """Add what differs between the starts of two neighbours, and between what the provider removes from them."""
        self.actions += [decision.action for decision in plan.decisions]
        start = previous.before if previous else Envelope()
        for begin, stop, (state, by) in difference.compare_envelopes(
            start, plan.before, self._get_state_and_decision, (KEPT, -1)
        ):
            self.carried["paint"] += (begin, stop, state, by)
        self.carried["until"].append(len(self.carried["paint"]) // 4)
        come, gone = difference.compare_inserts(start, plan.before)
        self.begun = self.begun - gone | come
        self.carried["come"].append(sorted(come))
        self.carried["gone"].append(sorted(gone))
        if self.hidden or plan.is_server_edited:
            hidden = previous.seen if previous and self.hidden else Envelope()
            for begin, stop, value in difference.compare_envelopes(hidden, plan.seen, _is_absent, 0):
                self.carried["hide"] += (begin, stop, value)
            self.hidden = True
        self.carried["hidden"].append(len(self.carried["hide"]) // 3)

    def _get_state_and_decision(self, piece: Piece) -> tuple[int, int]:
        return self._get_state(piece.body, piece.by), piece.by

    def _get_state(self, body: Placeholder, by: int) -> int:
        action = self.actions[by] if by >= 0 else ""
        if body is None:
            return RESTORED if action in ("restore", "retrieve") else KEPT
        if not body:
            return SUMMED if action == "condense" else DROPPED
        return _OF.get(action, REWRITTEN)

    def add_plan(self, previous: Plan | None, plan: Plan) -> None:
        """Add the columns of one request and of its decisions."""
        back = self._find_returned(previous, plan)
        if back[2]:
            self.changes.append(Cursor(plan.request.n, 0))
        slots: dict[str, list[Placeholder]] = defaultdict(list)
        for edit in map(self.inserted.__getitem__, self.ended):
            slots[edit.slot].append(edit.body)
        warned = {(d.rule, d.action) for d in previous.decisions if d.splice is None} if previous else set()
        standing = set(self.begun)
        for number, decision in enumerate(plan.decisions, 1):
            span = decision.edit.span or Span(0, 0)
            kind, focus = STILL if decision.splice is None and span.start < span.stop else LOOK, span.start
            if decision.splice and any(
                piece.body is not None for part in (decision.splice.old, decision.splice.new) for piece in part
            ):
                same, focus = compare_with_previous(decision, previous, slots)
                kind = STILL if same else LOOK if decision.rule == DROP_DECISION else CHANGE
            elif decision.action in _EVENTS and (decision.rule, decision.action) not in warned:
                kind = EVENT
            if kind in (CHANGE, EVENT):
                self.changes.append(Cursor(plan.request.n, number))
            standing = self._add_decision(plan, decision, kind=kind, focus=focus, standing=standing)
        self.ended = standing
        self._add_request(plan, back)

    def _add_decision(self, plan: Plan, decision: Decision, kind: int, focus: int, standing: set[int]) -> set[int]:
        """Add the columns of one decision. Returns the inserts that are in the prompt after it."""
        edit, splice, add = decision.edit, decision.splice, self.decisions
        start, stop = edit.span or (0, 0)
        body = None if edit.restore else edit.body
        before, after = (sum_counts(splice.old), sum_counts(splice.new)) if splice else ((0,) * 5, (0,) * 5)
        old, new = (
            (difference.find_insert_decisions(splice.old), difference.find_insert_decisions(splice.new))
            if splice
            else (set(), set())
        )
        if decision.seq in new:
            self.inserted[decision.seq] = edit
        add["rule"].append(self.intern_text(decision.rule))
        add["action"].append(self.intern_text(decision.action))
        add["why"].append(self.intern_text(_NUMBER.sub(_HOLE, edit.because[:_LONGEST])))
        add["numbers"].append("|".join(_NUMBER.findall(edit.because[:_LONGEST])))
        add["start"].append(start)
        add["stop"].append(stop)
        add["focus"].append(focus)
        add["state"].append(self._get_state(body, decision.seq) if splice and start < stop else -1)
        add["kind"].append(kind)
        add["lasts"].append(int(self.memory.get(decision.rule, "remembers") != "fresh"))
        add["offline"].append(int(_is_offline(plan, body)))
        add["size"].append(self._count_placeholder(edit, get_summary_block(edit)) if splice else 0)
        add["summary"].append(get_summary_block(edit))
        add["slot"].append(self.intern_text(edit.slot) if edit.slot else -1)
        add["facts"].append(self._add_facts(plan, decision))
        add["delta"] += [b - a for a, b in zip(before, after, strict=True)]
        add["removes"].append(sorted(old - new) or 0)
        return standing - (old - new) | (new - old)

    def _count_placeholder(self, edit: Edit, summary: int) -> int:
        """Counted tokens of a placeholder; of a summary that is a message of its own, once."""
        if summary >= 0 and summary not in self.summed:
            self.summed.add(summary)
            session = self.trace.session
            message = session.messages[session.blocks[summary].message]
            return self.trace.ledger.count_tokens(message.start, message.stop)
        return sum(self.trace.ledger.count_placeholder(edit.body)) if edit.body and not edit.restore else 0

    def _add_facts(self, plan: Plan, decision: Decision) -> int:
        scored = summary_quality.score_rule_summary(plan, decision)
        facts = dict(scored) | ({"model": decision.edit.model} if decision.edit.model else {})
        if not facts:
            return -1
        values = [value if isinstance(value, (int, float)) else _format_fact(value)[:_LONGEST] for value in facts.values()]
        names = self.intern_text("|".join(name.replace("_", " ") for name in facts))
        return self.facts.setdefault(json.dumps([names, *values]), len(self.facts))

    def _add_request(self, plan: Plan, back: tuple[int, int, int]) -> None:
        add, fit, n = self.requests, self.trace.get_terms(plan.request.n), plan.request.n
        tokens, sure = measure_size(self.trace, n)
        start, terms, later = measure_start(self.trace, n)
        add["size"].append(tokens)
        add["sure"].append(int(sure))
        add["start"].append(start)
        add["was"].append([terms.prefix, terms.earlier, terms.reinjected, terms.get_scale(0), terms.scale])
        add["later"].append(later)
        add["turn"].append(plan.request.turn)
        add["cut"].append(plan.request.cut)
        add["first"].append(len(self.actions))  # number of the first decision after this request
        add["model"].append(self.intern_text(plan.model))
        add["verdict"].append(VERDICTS.index(self.trace.get_verdict(n)))
        add["planned"].append(plan.expected_tokens)
        add["missed"].append(round(plan.calibration.error, 4))
        for name in ("prefix", "earlier", "reinjected", "unattributed"):
            add[name].append(getattr(fit, name))
        add["uncut"].append(fit.max_overestimate)
        add["scale"].append(fit.scale)
        add["static"].append(fit.get_scale(0))
        add["window"].append(plan.budget.window)
        add["known"].append(int(plan.budget.known))
        add["limit"].append(plan.budget.limit)
        add["recorded"].append(plan.request.usage.answered_prompt_tokens if plan.request.usage else 0)
        add["left"] += [sent - seen for sent, seen in zip(plan.after.counts, plan.seen.counts, strict=True)]  # by the provider
        add["back"].append(back if back[2] else 0)
        add["before"] += plan.before.counts
        add["server"].append(self.intern_text(plan.server[-1].edit.because) if plan.server else -1)

    def _find_returned(self, previous: Plan | None, plan: Plan) -> tuple[int, int, int]:
        """Blocks that differ from the previous request although no decision touched them: the first run, and how many."""
        if previous is None:
            return 0, 0, 0
        spans = sorted(d.edit.span for d in plan.decisions if d.splice and d.edit.span)
        runs = difference.compare_envelopes(
            previous.after, plan.after, lambda piece: self._get_state_and_decision(piece)[0], KEPT
        )
        rest = [free for start, stop, _ in runs for free in _iter_outside(start, stop, spans)]
        return (*rest[0], sum(stop - start for start, stop in rest)) if rest else (0, 0, 0)

    def _describe_blocks(self) -> dict[str, Any]:
        """Bucket, tokens and turn of each block, and the blocks that call each tool."""
        order = {bucket: str(number) for number, bucket in enumerate(Bucket)}
        blocks, sums = self.trace.session.blocks, self.trace.ledger.total
        calls: dict[str, list[int]] = defaultdict(list)
        for block in blocks:
            if block.kind == "tool_use":
                calls[block.name or "tool"].append(block.at)
        return {
            "bucket": "".join(order[block.bucket] for block in blocks),
            "tokens": [sums[at + 1] - sums[at] for at in range(len(blocks))],
            "turn": [block.turn for block in blocks],
            "calls": calls,
        }

    def add_prices(self, plan: Plan, prices: Mapping[int, CachePrice]) -> None:
        """Add the provider tokens that are written again for each decision, and its break-even (0 = never, -1 = unknown)."""
        for price in map(prices.get, (decision.seq for decision in plan.decisions)):
            self.decisions["again"].append(price.rewritten if price else 0)
            self.decisions["pays"].append(-1 if price is None or price.usd is None else price.break_even or 0)

    def build_payload(self, paid: ReplayCost) -> dict[str, Any]:
        """Everything as JSON can hold it, with the USD of each request."""
        table = self.table.copy()  # labels stand last: decisions name their texts more often, and small numbers are short
        labels = [table.setdefault(label, len(table)) for label in self.labels]
        return {
            "blocks": {"label": labels} | self.blocks,
            "requests": self.requests | {"usd": [None if usd is None else round(float(usd), 6) for usd in paid.usd]},
            "decisions": {"again": [], "pays": []} | self.decisions,
            "carried": self.carried,
            "facts": [json.loads(fact) for fact in self.facts],
            "states": STATES,
            "kinds": KINDS,
            "verdicts": VERDICTS,
            "table": list(table),
        }


def _is_absent(piece: Piece) -> int:
    return int(piece.body == ())


def _is_offline(plan: Plan, body: Placeholder) -> bool:
    """Whether a placeholder holds an offline summary."""
    made = [answer.text for _, answer in plan.asks if answer.source == "offline" and answer.text]
    return any(text in part.text for text in made for part in body or ())


def _iter_outside(start: int, stop: int, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """The parts of `[start, stop)` that no span covers."""
    for span in spans:
        if span.start >= stop:
            break
        if start < span.start:
            yield start, span.start
        start = max(start, span.stop)
    if start < stop:
        yield start, stop


def _format_fact(value: JSON) -> str:
    """A fact for people: the contents of a list or table without brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_fact(of)}" for name, of in value.items())
    if not isinstance(value, list | tuple):
        return str(value)
    return ", ".join(" ".join(map(str, of)) if isinstance(of, list | tuple) else _format_fact(of) for of in value)
