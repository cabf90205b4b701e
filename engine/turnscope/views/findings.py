"""Findings of a session: at most three ranked sentences with numbers, and one about the placement of the task in a long prompt.

One pure function per kind, each with a threshold. Having no finding is a valid result. Cache misses are read in `cache_breaks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Floats, Ints
from turnscope.envelope.plan import Plan
from turnscope.envelope.user_rules import RULE_SOURCES
from turnscope.numbering import format_request, format_requests
from turnscope.planning.trace import Trace
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import JSON, UNRECORDED, Action, Message, Session
from turnscope.views.cache_breaks import SHORT_TTL, CacheBreak, Cause, find_breaks
from turnscope.views.events import EVENTS, classify_action
from turnscope.views.overview import CELLS, Marker, Overview
from turnscope.views.persistent_context import PERSISTENT_KINDS, measure_persistent_context
from turnscope.views.phrases import format_duration, format_time, format_tokens, format_usd, spell_count, spell_times
from turnscope.views.position import LONG_PROMPT, compute_share, is_mid_prompt
from turnscope.views.repeats import find_repeats
from turnscope.views.side_requests import describe_side_requests
from turnscope.views.user_rules import RuleIndex, describe_lost_rules, trace_rules

MAX_FINDINGS = 3
BILL_SHARE = 0.5  # of the input cost; one kind of content that is half of it is the first to look at
THINKING_SHARE = 0.33  # of the prompt; below this the work itself is most of what is sent
THINKING_TOKENS = 5_000  # of thinking; less is not worth a finding
FULL_SHARE = 0.95  # of the window; tools warn and cut at 80 to 92 %
MIN_REBILLED = 10_000  # tokens written again in all; less is not worth a finding
MIN_COST_SHARE = 0.01  # of the session's cost; cheaper misses are not worth a finding
MIN_REPEATED = 2_000  # tokens of all copies of one file
CUT_SHARE = 0.05  # of the prompt; smaller cuts are housekeeping
MAX_CHECKED = 20  # prompts that are checked before the finding is dropped
MIN_ATTEMPTS = 3  # a single retry is common
PERSISTENT_SHARE = 0.05  # of all tokens sent; below this other content saves more
PERSISTENT_TOKENS = 2_000  # at one request; less is not worth switching anything off
MIN_NAMED = 300  # tokens of a kind; smaller kinds are not named
DOUBTFUL = 0.05  # of answers, or of input tokens; above this the log itself is in doubt
MIN_COUNTED_USD = Decimal(1)  # USD that counted answers add; less does not change the picture
DOUBTFUL_TOKENS = 1_000  # at one request; less is framing that no log holds
COST_GROUPS = {
    "Tool results are": ("tool_results",),
    "System prompt and tools are": ("system", "tools", "prefix"),
    "The conversation before this file begins is": ("earlier",),
    "What the tool injected and its log does not hold is": ("reinjected",),
}
UNRANKED = ("unrecorded", "middle")  # the first stands before all others, the second behind them
CUT_ACTIONS: frozenset[Action] = frozenset(("condense", "drop", "truncate", "clear"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a session.

    Attributes:
        request: the request to look at.
        usd: its cost; None where it has no price.
        tokens: rank it where there is no price.
        evidence: the numbers behind the sentence.
    """

    text: str
    request: int
    kind: str
    usd: Decimal | None
    tokens: int
    evidence: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What several kinds read, computed once.

    `input_usd`: USD without the answer, `[request, cell]`; `broken`: cache misses.
    """

    trace: Trace
    view: Overview
    prompts: Ints
    input_usd: Floats
    broken: tuple[CacheBreak, ...]

    @property
    def has_prices(self) -> bool:
        return bool(self.input_usd.any())


def rank_findings(
    trace: Trace, view: Overview, broken: Sequence[CacheBreak] | None = None, most: int = MAX_FINDINGS
) -> tuple[Finding, ...]:
    """Find what stands out in a recorded session, the most important first; empty = nothing.

    Findings are ranked by USD. A finding without a price has its tokens at the session's mean price of an input token; without
    prices, tokens rank. A finding about placement has no rank and is added at the end; one about requests that are not
    recorded comes first.

    Args:
        trace: the session as recorded.
        view: the overview of the same trace.
        broken: its cache misses, if known already.
        most: ranked findings.
    """
    if not len(view):
        return ()
    broken = find_breaks(trace) if broken is None else broken
    known = _Facts(trace=trace, view=view, prompts=view.prompts, input_usd=view.usd, broken=tuple(broken))
    found = [finding for kind in FINDERS for finding in kind(known)]
    mean = float(known.input_usd.sum()) / max(1, int(known.prompts.sum()))

    def weight(finding: Finding) -> float:
        return (float(finding.usd) if finding.usd is not None else finding.tokens * mean) if mean else finding.tokens

    ranked = sorted((finding for finding in found if finding.kind not in UNRANKED), key=weight, reverse=True)
    first, last = ([finding for finding in found if finding.kind == kind] for kind in UNRANKED)
    return (*first, *ranked[:most], *last)


def format_headline(view: Overview, n: int) -> str:
    """One sentence about what the model saw at a request.

    Args:
        view: the session.
        n: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    window = int(view.windows[n])
    about = "" if view.recorded[n] >= 0 else "about "
    of = f" of {window:,}" if window else ""
    return f"At request {format_request(n)} the model saw {about}{view.get_prompt(n):,}{of} tokens."


def mark_breaks(broken: Sequence[CacheBreak]) -> tuple[Marker, ...]:
    """Cache misses as markers for a chart."""
    return tuple(Marker(b.request, "break", f"cache miss ({b.cause}): {b.evidence}") for b in broken)


def _find_cost_share(known: _Facts) -> list[Finding]:
    """One kind of content is most of the input cost."""
    table = known.input_usd if known.has_prices else known.view.cells.astype(np.float64)
    whole, cells, sums = float(table.sum()), known.view.cells, table.sum(axis=0)
    found = []
    for what, names in COST_GROUPS.items():
        columns = [CELLS.index(name) for name in names]
        part, tokens = float(sums[columns].sum()), cells[:, columns].sum(axis=1)
        share = part / whole if whole else 0.0
        if share >= BILL_SHARE:
            whose = "this branch's" if known.view.bill.branches.requests else "the"
            of = f"{whose} input bill: ${part:,.2f} of ${whole:,.2f}" if known.has_prices else "all input tokens"
            usd = Decimal(str(round(part, 6))) if known.has_prices else None
            evidence = {"share": share, "part": part, "whole": whole, "unit": "USD" if known.has_prices else "tokens"}
            paid = table[:, columns].sum(axis=1)
            most = int(np.argmax(paid))
            amount = f"paid the most of it, ${paid[most]:,.2f}" if known.has_prices else f"has {format_tokens(int(paid[most]))}"
            text = f"{what} {share * 100:.0f} % of {of}; request {format_request(most)} {amount}."
            found.append(Finding(text=text, request=most, kind="bill", usd=usd, tokens=int(tokens.sum()), evidence=evidence))
    return found


def _find_cache_breaks(known: _Facts) -> list[Finding]:
    """Cache misses: one finding per cause, at the most expensive one."""
    groups: dict[Cause, list[CacheBreak]] = defaultdict(list)
    for broken in known.broken:
        groups[broken.cause].append(broken)
    found = []
    bill = known.view.total or Decimal(0)
    for cause, group in groups.items():
        tokens = sum(b.rebilled_tokens for b in group)
        prices = [b.usd for b in group if b.usd is not None]
        usd = sum(prices, Decimal(0)) if prices else None
        if tokens < MIN_REBILLED or (usd is not None and usd < bill * Decimal(str(MIN_COST_SHARE))):
            continue
        worst = max(group, key=lambda b: (b.usd or 0, b.rebilled_tokens))
        price = (
            f"${usd:,.2f} extra to send {format_tokens(tokens)} tokens again"
            if usd is not None
            else f"{format_tokens(tokens)} tokens sent again"
        )
        evidence = {"cause": cause, "requests": [b.request for b in group], "tokens": tokens, "why": worst.evidence}
        text = f"{_describe_break(known, cause, worst, len(group))}: {price}."
        found.append(Finding(text=text, request=worst.request, kind="cache", usd=usd, tokens=tokens, evidence=evidence))
    return found


def _describe_break(known: _Facts, cause: Cause, worst: CacheBreak, count: int) -> str:
    n = worst.request
    often = f" {spell_times(count)}, worst" if count > 1 else ""
    if cause == "idle":
        sent = known.view.sent_at
        when = format_time(float(sent[n]), dated=float(np.nanmax(sent) - np.nanmin(sent)) > 86_400)
        return f"The cache expired{often} at request {format_request(n)} ({when}) after {_describe_idle(known, worst)}"
    what = {
        "model": "Switching models left the cache behind",
        "static": "A changed system prompt or changed tools caused a cache miss",
        "thinking": "Dropping the thinking of past turns caused a cache miss",
        "compaction": "Compaction caused a cache miss",
        "edit": "A change to earlier content caused a cache miss",
        "settings": "A changed setting caused a cache miss",
        "off": "The prompt was sent without caching",
        "unknown": "Unexplained cache miss",
    }[cause]
    return f"{what}{often} at request {format_request(n)}" + (f" (to {known.view.models[n]})" if cause == "model" else "")


def _describe_idle(known: _Facts, worst: CacheBreak) -> str:
    request = known.trace.session.requests[worst.request]
    idle = worst.idle or 0.0
    if idle < SHORT_TTL and request.attempts > 1 and request.answered_at and request.sent_at:
        return f"{spell_count(request.attempts)} attempts in {format_duration(request.answered_at - request.sent_at)}"
    length, unit = format_duration(idle).split()
    return f"{length} idle {unit}"


def _find_repeats(known: _Facts) -> list[Finding]:
    """The file whose repeated reading was most expensive."""
    cells = known.view.cells[:, 3]
    table = known.input_usd[:, 3] if known.has_prices else cells.astype(np.float64)
    per_token = np.divide(table, cells, out=np.zeros(len(cells)), where=cells > 0)
    found = find_repeats(known.trace, known.view.scales, np.concatenate([[0.0], np.cumsum(per_token)]))
    worst = max((r for r in found if r.tokens >= MIN_REPEATED), key=lambda r: r.weight, default=None)
    if worst is None:
        return []
    name = "/".join(worst.path.replace("\\", "/").split("/")[-2:])
    many = worst.stop > worst.start
    where = (
        f"Request{'s' if many else ''} {format_requests(worst.start, worst.stop + 1)} {'carry up to' if many else 'carries'}"
    )
    most = f", all of them at request {format_request(worst.peak_request)}" if many else ""
    text = f"{where} {format_tokens(worst.tokens)} tokens of a file read {spell_times(worst.reads)}{most} ({name})."
    usd = Decimal(str(round(worst.weight, 6))) if known.has_prices else None
    evidence = {"path": worst.path, "reads": worst.reads, "start": worst.start, "stop": worst.stop, "tokens": worst.tokens}
    return [
        Finding(
            text=text,
            request=worst.peak_request,
            kind="repeated",
            usd=usd,
            tokens=int(worst.weight) if usd is None else worst.tokens,
            evidence=evidence,
        )
    ]


def _find_persistent_context(known: _Facts) -> list[Finding]:
    """Content that the tool injected and that every request carries, at the average price of messages."""
    carried, whole = measure_persistent_context(known.trace, known.view.scales), max(1, int(known.prompts.sum()))
    summed: Floats = sum(carried.values(), np.zeros(len(known.view)))
    there = summed[summed > 0]
    if len(there) < 2 or np.median(there) < PERSISTENT_TOKENS or summed.sum() < PERSISTENT_SHARE * whole:
        return []
    (first, row), *others = carried.items()
    sizes = {kind: round(float(np.median(tokens[tokens > 0]))) for kind, tokens in carried.items()}
    often = "every request" if row.all() else f"{np.count_nonzero(row):,} of {len(row):,} requests"
    more = ", ".join(f"{PERSISTENT_KINDS[kind]} {format_tokens(sizes[kind])}" for kind, _ in others if sizes[kind] >= MIN_NAMED)
    part = f"{row.sum() / whole * 100:.0f} % of what was sent"
    text = f"{PERSISTENT_KINDS[first]}: {format_tokens(sizes[first])} tokens in {often} ({part})"
    text += f"; also {more} ({summed.sum() / whole * 100:.0f} % in all)" if more else ""
    paid = known.input_usd[:, 2] / np.maximum(known.view.cells[:, 2], 1)
    usd = Decimal(str(round(float((summed * paid).sum()), 6))) if known.has_prices else None
    text += f": about ${usd:,.2f}." if usd is not None and usd >= Decimal("0.01") else "."
    evidence = {"kinds": sizes, "share": float(summed.sum()) / whole, "requests": len(there)}
    return [
        Finding(
            text=text[:1].upper() + text[1:],
            request=int(np.argmax(summed)),
            kind="standing",
            usd=usd,
            tokens=int(summed.sum()),
            evidence=evidence,
        )
    ]


def _find_cuts(known: _Facts) -> list[Finding]:
    """Content removed from the window, of the kind of event that removed most; points at the largest event."""
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for plan in known.trace.plans:
        n = plan.request.n
        made = (d for d in (*plan.decisions, *plan.server) if not d.edit.facts.get("superseded"))  # another version came in
        acted = [d for d in made if d.edit.is_unlocated_cut or (d.splice and d.action in CUT_ACTIONS)]
        for kind in {classify_action(d.action) for d in acted}:
            size = round(sum(d.before - d.after for d in acted if classify_action(d.action) == kind) * plan.calibration.scale)
            if kind == "compact" and n:  # the summary came in with it, so the fall of the prompt counts
                size = int(known.prompts[n - 1] - known.prompts[n])
            elif n and known.view.recorded[n] > 0 < known.view.recorded[n - 1]:
                size = _correct_size(known, plan, size)
            if n and size >= CUT_SHARE * known.prompts[n - 1] > 0:
                groups[kind].append((n, size))
    if not groups:
        return []
    kind, events = max(groups.items(), key=lambda item: sum(size for _, size in item[1]))
    removed, event = sum(size for _, size in events), EVENTS[kind]
    largest, size = max(events, key=lambda item: item[1])
    many = f"{spell_count(len(events)).capitalize()} {event.noun if len(events) == 1 else event.nouns}"
    what = f"{many} took out {format_tokens(removed)} tokens"
    left = f"leaving {format_tokens(int(known.prompts[largest]))}"
    where = (
        f" at request {format_request(largest)}, {left}"
        if len(events) == 1
        else f"; the largest, {format_tokens(size)} at request {format_request(largest)}, {left}"
    )
    evidence = {"requests": [n for n, _ in events], "removed": removed, "event": kind}
    return [Finding(text=f"{what}{where}.", request=largest, kind="cut", usd=None, tokens=removed, evidence=evidence)]


def _correct_size(known: _Facts, plan: Plan, counted: int) -> int:
    """The tokens of a cut by what was billed: what the prompt fell by, and what came in.

    The count stays where the bill says much less: something else came in that the log does not hold. It is too little where
    some of the cut is in no file.
    """
    n = plan.request.n
    came = known.trace.ledger.count_tokens(known.trace.plans[n - 1].request.cut, plan.request.cut) * plan.calibration.scale
    billed = int(known.prompts[n - 1] - known.prompts[n]) + round(came)
    if any(decision.edit.is_unlocated_cut for decision in plan.decisions):
        return max(counted, billed)
    return min(counted, billed) if billed > counted / 2 else counted


def _find_unlogged_cuts(known: _Facts) -> list[Finding]:
    """The tool cut something that its log does not hold: the prompt fell, though all counted content is still there."""
    fallen = [fit for fit in known.view.fits if fit.cut_at_start]
    if not fallen:
        return []
    worst, gone = max(fallen, key=lambda fit: fit.cut_at_start), sum(fit.cut_at_start for fit in fallen)
    often = (
        f" {spell_times(len(fallen))}, the largest cut at request {format_request(worst.start)}"
        if len(fallen) > 1
        else f" at request {format_request(worst.start)}"
    )
    text = f"The tool cut something{often} that its log does not hold: about {format_tokens(gone)} tokens."
    return [
        Finding(
            text=text,
            request=worst.start,
            kind="unlogged",
            usd=None,
            tokens=gone,
            evidence={"requests": [fit.start for fit in fallen], "tokens": gone},
        )
    ]


def _find_lost_task(known: _Facts) -> list[Finding]:
    """The first user message left the window."""
    trace = known.trace
    at = next((_find_own_words(trace.session, m) for m in trace.session.messages if m.origin == "prompt"), None)
    if at is None:
        return []
    spans = next(trace.iter_shown_spans([at]))
    n = spans[0].stop if spans else trace.find_first_request(at)
    if n == len(trace.plans):
        return []
    plan, out = trace.plans[n], trace.explain(at, n)
    since = ", and the model has a summary of it since" if out.decision and out.decision.action == "condense" else ""
    tokens = round(sum(d.before - d.after for d in (*plan.decisions, *plan.server) if d.splice) * plan.calibration.scale)
    text = f"The first user message left the window at request {format_request(n)}{since}."
    return [
        Finding(text=text, request=n, kind="forgotten", usd=None, tokens=tokens, evidence={"block": at, "because": out.because})
    ]


def _find_lost_rules(known: _Facts) -> list[Finding]:
    """A rule that a person gave in words left the window: their own before one of a file, then one that did not come back."""
    trace = known.trace
    fates = trace_rules(trace, RuleIndex(trace.session))
    lost = sorted((f for f in fates if not f.is_kept), key=lambda f: (RULE_SOURCES.index(f.rule.source), f.back >= 0, f.lost))
    if not lost:
        return []
    first = lost[0]
    n, plan = first.lost, trace.plans[first.lost]
    back = f" and came back at request {format_request(first.back)}" if first.back >= 0 else ""
    text = describe_lost_rules([fate.rule for fate in lost], f"left the window at request {format_request(n)}{back}")
    tokens = round(sum(d.before - d.after for d in (*plan.decisions, *plan.server) if d.splice) * plan.calibration.scale)
    listed = [
        {"text": f.rule.text, "source": f.rule.source, "block": f.rule.block, "lost": f.lost, "back": f.back} for f in lost
    ]
    evidence = {"rules": len(fates), "kept": len(fates) - len(lost), "lost": listed}
    return [Finding(text=text, request=n, kind="rule", usd=None, tokens=tokens, evidence=evidence)]


def _find_mid_prompt(known: _Facts) -> list[Finding]:
    """The task, or the last instruction, is in the middle half of a long prompt, where models recall least.

    The number of prompts follows from the messages after it, whatever was done to that since; the named prompt is checked.
    """
    trace, session = known.trace, known.trace.session
    prompts = (_find_own_words(session, message) for message in session.messages if message.origin == "prompt")
    starts = np.array([*prompts], dtype=np.int64)
    explained = known.view.cells[:, CELLS.index("unattributed")] <= DOUBTFUL * known.prompts  # else its place is not known
    long = np.flatnonzero((known.prompts >= LONG_PROMPT) & explained)
    cuts = np.array([session.requests[n].cut for n in long], dtype=np.int64)
    last = np.searchsorted(starts, cuts) - 1
    found: list[Finding] = []
    for what, number in (("task", np.where(last >= 0, 0, -1)), ("last instruction", np.where(last > 0, last, -1))):
        there, at = long[number >= 0], starts[number[number >= 0]]
        whole, per_token = (
            _count_message_tokens(trace.ledger, cuts[number >= 0]),
            known.view.scales[there] / known.prompts[there],
        )
        begins, ends = (1 - (whole - _count_message_tokens(trace.ledger, edge)) * per_token for edge in (at, at + 1))
        rows = [
            (int(known.prompts[n]), int(n), int(block))
            for n, block, *edges in zip(there, at, begins, ends, strict=True)
            if is_mid_prompt(*edges)
        ]
        for tokens, n, block in sorted(rows, reverse=True)[:MAX_CHECKED]:
            exact = compute_share(trace, n, block)
            upto = compute_share(trace, n, block + 1) if block + 1 < session.requests[n].cut else 1.0
            if is_mid_prompt(exact, upto) and trace.plans[n].seen.find_piece(block).body is None:
                others = len(rows) - 1
                also = f"; also in {others:,} other long prompt{'s' if others > 1 else ''}" if others else ""
                place = f"{exact * 100:.0f} % into the prompt of request {format_request(n)} ({format_tokens(tokens)} tokens)"
                text = f"The {what} sits {place}{also}."
                found.append(
                    Finding(
                        text=text,
                        request=n,
                        kind="middle",
                        usd=None,
                        tokens=tokens,
                        evidence={"what": what, "share": exact, "requests": len(rows)},
                    )
                )
                break
    return sorted(found, key=lambda each: -int(str(each.evidence["requests"])))[:1]


def _find_own_words(session: Session, message: Message) -> int:
    """The first block of a prompt that is not injected: reminders may come before the user's own text."""
    blocks = session.blocks[message.start : message.stop]
    return next((block.at for block in blocks if block.kind not in INJECTED_KINDS), message.start)


def _count_message_tokens(ledger: Ledger, at: Ints) -> Ints:
    """Counted tokens of messages before each address."""
    system, tools, *_ = ledger.sums
    return np.array([ledger.total[a] - system[a] - tools[a] for a in at], dtype=np.int64)


def _find_thinking(known: _Facts) -> list[Finding]:
    """Thinking became a large part of the prompt."""
    cells = known.view.cells[:, 4]
    share = np.minimum(cells / np.maximum(known.prompts, 1), 1.0)  # an estimate may exceed the prompt
    n = int(np.argmax(np.where(cells >= THINKING_TOKENS, share, 0)))
    if share[n] < THINKING_SHARE or cells[n] < THINKING_TOKENS:
        return []
    where = f"the prompt at request {format_request(n)} ({format_tokens(int(cells[n]))} tokens)"
    text = f"Thinking grew to {share[n] * 100:.0f} % of {where}."
    usd = Decimal(str(round(float(known.input_usd[:, 4].sum()), 6))) if known.has_prices else None
    return [
        Finding(
            text=text,
            request=n,
            kind="thinking",
            usd=usd,
            tokens=int(cells.sum()),
            evidence={"share": float(share[n]), "tokens": int(cells[n])},
        )
    ]


def _find_full_window(known: _Facts) -> list[Finding]:
    """A prompt nearly filled the window, or exceeded it."""
    fill = np.nan_to_num(known.view.fill)
    n = int(np.argmax(fill))
    if fill[n] < FULL_SHARE:
        return []
    tokens, window = int(known.prompts[n]), int(known.view.windows[n])
    text = f"Request {format_request(n)} filled {fill[n] * 100:.0f} % of the window ({tokens:,} of {window:,} tokens)."
    return [Finding(text=text, request=n, kind="full", usd=None, tokens=tokens, evidence={"fill": float(fill[n])})]


def _find_unrecorded(known: _Facts) -> list[Finding]:
    """Requests passed a tap that it could not record."""
    lost = known.trace.session.about.get(UNRECORDED)
    if not isinstance(lost, Mapping):
        return []
    number = int(lost.get("requests") or 0)
    many, them = ("1 request", "it") if number == 1 else (f"{number:,} requests", "them")
    text = f"Not recorded: {many} passed the tap, and the log holds nothing of {them} ({lost.get('why')}). "
    text += "Cost and counts here lack them."
    return [Finding(text=text, request=0, kind="unrecorded", usd=None, tokens=0, evidence={"requests": number})]


def _find_side_requests(known: _Facts) -> list[Finding]:
    """What was sent beside the conversation is a part of what the session cost."""
    session, bill = known.trace.session, known.view.bill
    aside, whole = bill.side_total, bill.whole
    if not aside.requests or not aside.usd or not whole.usd or aside.usd < whole.usd * Decimal(str(MIN_COST_SHARE)):
        return []
    share = float(aside.usd / whole.usd)
    text = f"Beside the conversation, {format_usd(aside.usd)} or {share:.0%} of the cost: "
    text += f"{describe_side_requests(bill, session)}."
    first = next((marker.request for marker in known.view.markers if marker.kind == "side"), 0)
    evidence = {"share": share, "requests": aside.requests} | {kind: float(part.usd or 0) for kind, part in bill.side}
    return [
        Finding(text=text, request=first, kind="side", usd=aside.usd, tokens=aside.prompt + aside.output, evidence=evidence)
    ]


def _find_retries(known: _Facts) -> list[Finding]:
    """A prompt was sent several times."""
    request = max(known.trace.session.requests, key=lambda r: r.attempts)
    if request.attempts < MIN_ATTEMPTS:
        return []
    took = ""
    if request.sent_at is not None and request.answered_at is not None and request.answered_at - request.sent_at >= 60:
        took = f", {format_duration(request.answered_at - request.sent_at)} after the first time"
    text = f"Request {format_request(request.n)} was sent {spell_times(request.attempts)} before the provider answered{took}."
    again = sum(r.attempts > 1 for r in known.trace.session.requests)
    evidence = {"attempts": request.attempts, "requests_with_retries": again}
    return [
        Finding(text=text, request=request.n, kind="retry", usd=None, tokens=int(known.prompts[request.n]), evidence=evidence)
    ]


def _find_output_stubs(known: _Facts) -> list[Finding]:
    """The log understates the output."""
    stubs = [request.n for request in known.trace.session.requests if request.output_stub]
    tokens, whole = int(known.view.answers[stubs].sum()), int(known.view.answers.sum())
    usd, path = known.view.bill.path.counted_usd, known.view.path_total
    if path is not None and (usd < MIN_COUNTED_USD or usd < path * Decimal(str(DOUBTFUL))):
        return []
    if len(stubs) < DOUBTFUL * len(known.view) or tokens < DOUBTFUL * whole:
        return []
    of = f"{len(stubs)} of {len(known.view)} answers, the first at request {format_request(stubs[0])},"
    money = f", which adds ${usd:,.2f} to a recorded ${path - usd:,.2f}" if path is not None else ""
    text = f"{of} record fewer output tokens than their text has: {format_tokens(tokens)} were counted{money}."
    evidence = {"requests": len(stubs), "counted": tokens, "usd": float(usd)}
    return [
        Finding(
            text=text, request=stubs[0], kind="stub", usd=usd if path is not None else None, tokens=tokens, evidence=evidence
        )
    ]


def _find_unattributed(known: _Facts) -> list[Finding]:
    """The log does not explain what was billed."""
    view = known.view
    rest, whole = view.cells[:, CELLS.index("unattributed")] + view.over, int(known.prompts.sum())
    share = rest.sum() / max(1, whole)
    n = int(np.argmax(rest))
    if share <= DOUBTFUL or rest[n] < DOUBTFUL_TOKENS:
        return []
    text = f"The log does not account for {share * 100:.0f} % of all recorded input"
    text += f"; request {format_request(n)} has the most of it."
    return [
        Finding(
            text=text,
            request=n,
            kind="unattributed",
            usd=None,
            tokens=int(rest.sum()),
            evidence={"share": float(share), "tokens": int(rest.sum())},
        )
    ]


FINDERS: tuple[Callable[[_Facts], list[Finding]], ...] = (
    _find_cost_share,
    _find_persistent_context,
    _find_cache_breaks,
    _find_repeats,
    _find_cuts,
    _find_unlogged_cuts,
    _find_lost_task,
    _find_lost_rules,
    _find_mid_prompt,
    _find_thinking,
    _find_full_window,
    _find_unrecorded,
    _find_side_requests,
    _find_retries,
    _find_output_stubs,
    _find_unattributed,
)
