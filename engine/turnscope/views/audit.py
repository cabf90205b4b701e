"""The pre-deploy checklist of the session-context pattern, held against a session: seven points and three anti-patterns.

A log shows what happened, not what would have: where a point needs something that never happened in it (a full window, an
overflow), it is unknown, and says what would show it. Source of the points: the pattern's checklist and its anti-patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import Trace
from turnscope.session.model import CHAT, JSON, Block, Bucket
from turnscope.views.decision_log import made
from turnscope.views.overview import Overview

Verdict = Literal["pass", "warning", "fail", "unknown"]
SHOWN = 12  # requests that a point links to
LONG = 0.5  # of the window: below, nothing had to be taken out
TOLD = 0.15  # share of the prompts that may stand in no named bucket
HELD = 0.5  # share of the tokens of all requests after the first that a cache should have held
SLIDES = 3  # requests in a row that each leave out more of the oldest messages


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the checklist. `asks` is what it wants, `found` what the session shows, `requests` where."""

    key: str
    title: str
    asks: str
    verdict: Verdict
    found: str
    requests: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Case:
    """What the points look at. `cuts`: decisions that took content out, by the policy or the server, with their request."""

    trace: Trace
    view: Overview

    @cached_property
    def cuts(self) -> list[tuple[Plan, str, Decision]]:
        took = ("condense", "drop", "clear", "truncate", "strip")
        found = [(plan, by, decision) for plan in self.trace.plans for by, decision in made(plan)]
        return [row for row in found if row[2].splice and row[2].action in took and _talk(self.trace, row[2])]

    @cached_property
    def unlogged(self) -> list[int]:
        return [marker.request for marker in self.view.markers if marker.kind == "unlogged"]

    @cached_property
    def refused(self) -> list[int]:
        """Requests that were held back: a policy says so, or the record."""
        plans = enumerate(self.trace.plans)
        return [n for n, plan in plans if plan.verdict == "refuse" or plan.request.stop_reason == "refused"]

    @cached_property
    def late(self) -> list[int]:
        """Requests that were sent although they did not fit."""
        plans = enumerate(self.trace.plans)
        return [n for n, plan in plans if plan.verdict == "overflow" and plan.request.stop_reason != "refused"]

    @property
    def ours(self) -> bool:
        return self.trace.session.source == CHAT

    @property
    def peak(self) -> float:
        """The largest share of its window that a request filled; 0 where no window is known."""
        known = [p / w for p, w in zip(self.view.prompts, self.view.windows, strict=True) if w]
        return float(max(known, default=0.0))


def audit(trace: Trace, view: Overview) -> tuple[Point, ...]:
    """The seven points of the checklist in order, then the three anti-patterns. `view`: the overview of the same trace."""
    case = _Case(trace, view)
    return tuple(
        Point(key, title, asks, verdict, f"{found[:1].upper()}{found[1:]}", tuple(dict.fromkeys(requests))[:SHOWN])
        for key, title, asks, look in POINTS
        for verdict, found, requests in (look(case),)
    )


_Found = tuple[Verdict, str, Sequence[int]]


def _talk(trace: Trace, decision: Decision) -> bool:
    """Whether a decision took content of the conversation out: notices that were never content do not count."""
    span = decision.edit.span
    return span is None or any(block.kind != "notice" for block in trace.session.blocks[span.start : span.stop])


def _buckets(case: _Case) -> _Found:
    cells, whole = case.view.cells, int(case.view.prompts.sum())
    outside = int(cells[:, 8].sum()) / whole if whole else 1.0
    if outside > TOLD:
        return "unknown", f"{outside:.0%} of all prompt tokens stand in no named bucket: the log does not hold them.", ()
    flat = [plan.request.n for plan, _, decision in case.cuts if decision.action == "drop" and _mixed(case.trace, decision)]
    if flat:
        return "fail", f"{_many(flat)} left out messages and tool results alike, whatever their bucket.", flat
    if not case.cuts:
        return "unknown", "Every token is in a named bucket; nothing was cut, so no bucket's own rule shows.", ()
    where = _where(case.cuts)
    return "pass", f"Every token is in a named bucket; the cuts at {_many(where)} name what they took.", where


def _mixed(trace: Trace, decision: Decision) -> bool:
    """Whether what was dropped parts a tool's result from its call: the mark of a cut that knows no buckets."""
    span = decision.edit.span
    if span is None:
        return False
    held = trace.session.blocks[span.start : span.stop]
    return any(block.pair >= 0 and not span.start <= block.pair < span.stop for block in held)


def _cached(case: _Case) -> _Found:
    told = [(n, usage) for n, plan in enumerate(case.trace.plans) if (usage := plan.request.usage) and usage.prompt_tokens]
    if len(told) < 2:
        return "unknown", "Fewer than two requests say what they were billed.", ()
    later = told[1:]
    read = sum(usage.cache_read_input_tokens for _, usage in later)
    whole = sum(usage.prompt_tokens for _, usage in later)
    cold = [n for n, usage in later if not usage.cache_read_input_tokens]
    share = f"{read / whole:.0%} of the prompt tokens after the first request were read from a cache"
    if not read:
        return "fail", "No request read anything from a cache.", cold
    if read / whole < HELD:
        return "warning", f"{share}; {_many(cold)} read none.", cold
    return "pass", f"{share}{f'; {_many(cold)} read none' if cold else ''}.", cold


def _compacts(case: _Case) -> _Found:
    condensed = [(plan, by, decision) for plan, by, decision in case.cuts if decision.action == "condense"]
    if case.unlogged:
        return "fail", f"{_many(case.unlogged)} lost content, and no event in the log says so.", case.unlogged
    if not condensed:
        if case.late:
            return "fail", f"{_many(case.late)} overflowed, and nothing was compacted.", case.late
        return "unknown", f"Nothing was compacted; the window was {case.peak:.0%} full at most.", ()
    theirs = [row for row in condensed if row[1] == "server"]
    if len(theirs) == len(condensed):
        return "pass", f"{_many(_where(theirs))} compacted by the provider's server, as events.", _where(theirs)
    own = _where([row for row in condensed if row[1] != "server"])
    return "warning", f"{_many(own)} compacted as events, but by the client and not by the provider's server.", own


def _edits(case: _Case) -> _Found:
    fine = [row for row in case.cuts if row[2].action in ("clear", "truncate", "strip")]
    if fine:
        actions = ", ".join(sorted({row[2].action for row in fine}))
        return "pass", f"{_many(_where(fine))} had single blocks edited: {actions}.", _where(fine)
    results = int(case.view.cells[:, list(Bucket).index(Bucket.TOOL_RESULTS)].max()) if len(case.view) else 0
    if case.peak < LONG or not results:
        return "unknown", f"The window was {case.peak:.0%} full at most, and nothing was cleared.", ()
    sizes = enumerate(zip(case.view.prompts, case.view.windows, strict=True))
    full = [n for n, (prompt, window) in sizes if window and prompt > LONG * window]
    return "fail", f"{_many(full)} filled over half of it; of up to {results:,} tokens of tool results none was cleared.", full


def _named(case: _Case) -> _Found:
    session = case.trace.session
    if case.ours:
        return "pass", f"Every request carries {session.id} in a header, in its record, and in each span and decision.", ()
    if session.source == "otel":
        named = session.about.get("conversation")
        if named:
            return "pass", f"The spans carry the conversation {named}.", ()
        return "fail", "No span carries a conversation's id.", ()
    return "unknown", "A transcript does not show the headers and spans of its requests.", ()


def _enforced(case: _Case) -> _Found:
    if case.late:
        return "fail", f"{_many(case.late)} went over the window: nothing held back what did not fit.", case.late
    if case.ours:
        told = f"; {_many(case.refused)} went no further" if case.refused else ""
        whole = len(case.trace.plans)
        return "pass", f"Each of {whole:,} requests was projected and held against its window{told}.", case.refused
    unseen = "whether anything would hold one back does not show"
    return "unknown", f"No request went over its window ({case.peak:.0%} at most); {unseen}.", ()


def _typed(case: _Case) -> _Found:
    errors = [r.n for r in case.trace.session.requests if r.stop_reason in ("error", "model_context_window_exceeded")]
    if case.refused and case.ours and not case.late:
        return "pass", f"{_many(case.refused)} ended in a ContextWindowExceededError with the counters so far.", case.refused
    if case.late or errors:
        found = sorted({*case.late, *errors})
        return "fail", f"{_many(found)} failed or overflowed, and no typed refusal says by how much.", found
    return "unknown", "No request overflowed.", ()


def _naive(case: _Case) -> _Found:
    drops = [(plan, decision) for plan, _, decision in case.cuts if decision.action == "drop"]
    dropped = sorted({plan.request.n for plan, decision in drops if _oldest(case, decision)})
    runs = [n for n in dropped if all(n - back in dropped for back in range(SLIDES))]
    if runs:
        return "fail", f"{_many(dropped)} each left out more of the oldest messages: the cache breaks at every one.", runs
    if dropped:
        return "pass", f"Old messages were left out at {_many(dropped)}, not at each.", dropped
    return "pass", "No request left out the oldest messages.", ()


def _oldest(case: _Case, decision: Decision) -> bool:
    """Whether a decision dropped content that stands before all that is kept of the conversation."""
    span, messages = decision.edit.span, case.trace.session.messages
    first = next((message.start for message in messages if message.role in ("user", "assistant")), 0)
    return span is not None and span.start <= first + len(messages) // 2 and decision.edit.body == ()


def _shared(case: _Case) -> _Found:
    system = [block for block in case.trace.session.blocks if block.bucket is Bucket.SYSTEM and block.kind == "system"]
    prompts = [(plan.request.n, _digests(plan, system)) for plan in case.trace.plans]
    known = [digest for _, digest in prompts if digest]
    if not known:
        return "unknown", "The log holds no system prompt, by which agents could be told apart.", ()
    back = [n for at, (n, digest) in enumerate(prompts) if at and digest != prompts[at - 1][1] and digest in known[: at - 1]]
    if back:
        return "fail", f"Several system prompts take turns in one conversation, at {_many(back)}.", back
    agents = len(case.trace.session.subagents)
    apart = f"; {agents:,} subagents have conversations of their own" if agents else ""
    return "pass", f"One system prompt holds throughout{apart}.", ()


def _digests(plan: Plan, system: Sequence[Block]) -> str:
    """The system prompt of a request, by its digests."""
    return "".join(block.digest for block in system if block.at < plan.request.cut and plan.after.at(block.at).body is None)


def _silent(case: _Case) -> _Found:
    if case.unlogged:
        return "fail", f"{_many(case.unlogged)} lost content without an event in the log.", case.unlogged
    condensed = [(plan, by, decision) for plan, by, decision in case.cuts if decision.action == "condense"]
    if not condensed:
        return "pass", "Nothing was summed up.", ()
    silent = [plan.request.n for plan, by, decision in condensed if by == "policy" and not _counted(plan, decision)]
    if silent:
        return "fail", f"{_many(silent)} summed up without any usage on record.", silent
    asks = [(plan, answer) for plan, _, _ in condensed for _, answer in plan.asks]
    own = [plan.request.n for plan, answer in asks if answer.usage and answer.model in ("", plan.model)]
    if own:
        return "warning", f"{_many(own)} had the conversation's own model write the summary.", own
    return "pass", f"{_many(_where(condensed))} summed up, each with usage or sizes on record.", _where(condensed)


def _counted(plan: Plan, decision: Decision) -> bool:
    """Whether a condensation's usage, or at least the tokens it began with, are on record."""
    facts: dict[str, JSON] = dict(decision.edit.facts)
    return bool(facts.get("preTokens")) or any(answer.usage or answer.source != "offline" for _, answer in plan.asks)


def _where(rows: Sequence[tuple[Plan, str, Decision]]) -> list[int]:
    return [plan.request.n for plan, _, _ in rows]


def _many(requests: Sequence[int]) -> str:
    found = sorted(set(requests))
    return f"request {found[0]}" if len(found) == 1 else f"{len(found):,} requests"


POINTS = (
    ("buckets", "Five named buckets", "The request is five named buckets, and each has its own rule for cutting.", _buckets),
    ("cache", "The static prefix is cached", "The vendor's prompt cache is used, and reads from it are not zero.", _cached),
    ("compaction", "Compaction handles overflow", "By the server as the default, with a log of typed events.", _compacts),
    ("editing", "Context is edited finely", "Long sessions clear tool results and thinking before anything coarser.", _edits),
    ("id", "One conversation id", "It is on every span, header and log line.", _named),
    ("gateway", "The gateway enforces the budget", "Checked before the call: compaction, fallback, typed error.", _enforced),
    ("typed", "Overflow is typed and explicit", "The error carries the usage counters, so that the caller can decide.", _typed),
    ("last-n", "No naive last-N", "Messages are not cut by their number, whatever they hold.", _naive),
    ("shared-id", "No id over several agents", "A conversation belongs to one agent.", _shared),
    ("silent", "No silent self-summary", "A summary is an event with its usage, and not the same model's secret.", _silent),
)
CHECKLIST = 7
"""The first seven are the checklist, the rest anti-patterns."""
