"""Checks a session against the pre-deploy checklist of the session-context pattern: seven points and three anti-patterns.

A log shows only what happened. A point is unknown where it needs something that never happened, such as a full window or an
overflow; its text says what would show it. The points are those of the pattern's own checklist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.numbering import format_request
from turnscope.planning.trace import Trace
from turnscope.session.model import CHAT, JSON, Block, Bucket
from turnscope.views.decision_log import iter_decisions
from turnscope.views.overview import Overview

Verdict = Literal["pass", "warning", "fail", "unknown"]
MAX_LINKS = 12  # requests that a point links to, at most
LONG_SHARE = 0.5  # of the window; in a shorter prompt nothing had to be cut
MAX_UNNAMED_SHARE = 0.15  # of all prompt tokens; more than this in no bucket, and the buckets cannot be judged
MIN_CACHED_SHARE = 0.5  # of all prompt tokens after the first request; a working cache serves at least this
MIN_SLIDES = 3  # requests in a row that each drop more of the oldest messages


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the checklist.

    Attributes:
        requirement: what the checklist asks for.
        verdict: pass, warning, fail or unknown.
        found: what the session shows.
        requests: the requests that show it, at most `MAX_LINKS`.
    """

    key: str
    title: str
    requirement: str
    verdict: Verdict
    found: str
    requests: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Case:
    """What the checks read. `cuts`: decisions of the policy or the server that removed content, each with its plan."""

    trace: Trace
    view: Overview

    @cached_property
    def cuts(self) -> list[tuple[Plan, str, Decision]]:
        took = ("condense", "drop", "clear", "truncate", "strip")
        found = [(plan, by, decision) for plan in self.trace.plans for by, decision in iter_decisions(plan)]
        return [row for row in found if row[2].splice and row[2].action in took and _cuts_conversation(self.trace, row[2])]

    @cached_property
    def unlogged_cuts(self) -> list[int]:
        return [marker.request for marker in self.view.markers if marker.kind == "unlogged"]

    @cached_property
    def refusals(self) -> list[int]:
        """Requests that were not sent, by the policy or by the record."""
        plans = enumerate(self.trace.plans)
        return [n for n, plan in plans if plan.verdict == "refuse" or plan.request.stop_reason == "refused"]

    @cached_property
    def overflows(self) -> list[int]:
        """Requests that were sent although they did not fit."""
        plans = enumerate(self.trace.plans)
        sent = (n for n, plan in plans if plan.request.stop_reason != "refused")
        return [n for n in sent if self.trace.get_verdict(n) == "overflow"]

    @property
    def is_chat(self) -> bool:
        return self.trace.session.source == CHAT

    @property
    def peak(self) -> float:
        """The highest fill of a window, 0 to 1; 0 where no window is known."""
        known = [p / w for p, w in zip(self.view.prompts, self.view.windows, strict=True) if w]
        return float(max(known, default=0.0))


def audit(trace: Trace, view: Overview) -> tuple[Point, ...]:
    """Check a session: the seven points of the checklist, then the three anti-patterns.

    Args:
        trace: the session as it was sent.
        view: the overview of the same trace.
    """
    case = _Case(trace, view)
    return tuple(
        Point(
            key=key,
            title=title,
            requirement=asks,
            verdict=verdict,
            found=f"{found[:1].upper()}{found[1:]}",
            requests=tuple(dict.fromkeys(requests))[:MAX_LINKS],
        )
        for key, title, asks, look in POINTS
        for verdict, found, requests in (look(case),)
    )


_Outcome = tuple[Verdict, str, Sequence[int]]


def _cuts_conversation(trace: Trace, decision: Decision) -> bool:
    """Whether a decision removed content of the conversation. Notices are no content."""
    span = decision.edit.span
    return span is None or any(block.kind != "notice" for block in trace.session.blocks[span.start : span.stop])


def _check_buckets(case: _Case) -> _Outcome:
    cells, whole = case.view.cells, int(case.view.prompts.sum())
    outside = int(cells[:, 8].sum()) / whole if whole else 1.0
    if outside > MAX_UNNAMED_SHARE:
        return "unknown", f"{outside:.0%} of all prompt tokens stand in no named bucket: the log does not hold them.", ()
    flat = [
        plan.request.n for plan, _, decision in case.cuts if decision.action == "drop" and _splits_pair(case.trace, decision)
    ]
    if flat:
        return "fail", f"{_format_requests(flat)} left out messages and tool results alike, whatever their bucket.", flat
    if not case.cuts:
        return "unknown", "Every token is in a named bucket; nothing was cut, so no bucket's own rule shows.", ()
    where = _list_requests(case.cuts)
    return "pass", f"Every token is in a named bucket; the cuts at {_format_requests(where)} name what they removed.", where


def _splits_pair(trace: Trace, decision: Decision) -> bool:
    """Whether a drop separates a tool result from its call, as a cut does that ignores buckets."""
    span = decision.edit.span
    if span is None:
        return False
    blocks = trace.session.blocks[span.start : span.stop]
    return any(block.pair >= 0 and not span.start <= block.pair < span.stop for block in blocks)


def _check_cache(case: _Case) -> _Outcome:
    billed = [(n, usage) for n, plan in enumerate(case.trace.plans) if (usage := plan.request.usage) and usage.prompt_tokens]
    if len(billed) < 2:
        return "unknown", "Fewer than two requests say what they were billed.", ()
    later = billed[1:]
    read = sum(usage.cache_read_input_tokens for _, usage in later)
    whole = sum(usage.prompt_tokens for _, usage in later)
    cold = [n for n, usage in later if not usage.cache_read_input_tokens]
    share = f"{read / whole:.0%} of the prompt tokens after the first request were read from a cache"
    if not read:
        return "fail", "No request read anything from a cache.", cold
    if read / whole < MIN_CACHED_SHARE:
        return "warning", f"{share}; {_format_requests(cold)} read none.", cold
    return "pass", f"{share}{f'; {_format_requests(cold)} read none' if cold else ''}.", cold


def _check_compaction(case: _Case) -> _Outcome:
    condensed = [(plan, by, decision) for plan, by, decision in case.cuts if decision.action == "condense"]
    if case.unlogged_cuts:
        return (
            "fail",
            f"{_format_requests(case.unlogged_cuts)} lost content, and no event in the log says so.",
            case.unlogged_cuts,
        )
    if not condensed:
        if case.overflows:
            return "fail", f"{_format_requests(case.overflows)} overflowed, and nothing was compacted.", case.overflows
        return "unknown", f"Nothing was compacted; the window was {case.peak:.0%} full at most.", ()
    theirs = [row for row in condensed if row[1] == "server"]
    if len(theirs) == len(condensed):
        return (
            "pass",
            f"{_format_requests(_list_requests(theirs))} compacted by the provider's server, as events.",
            _list_requests(theirs),
        )
    own = _list_requests([row for row in condensed if row[1] != "server"])
    return "warning", f"{_format_requests(own)} compacted as events, but by the client and not by the provider's server.", own


def _check_editing(case: _Case) -> _Outcome:
    fine = [row for row in case.cuts if row[2].action in ("clear", "truncate", "strip")]
    if fine:
        actions = ", ".join(sorted({row[2].action for row in fine}))
        return "pass", f"{_format_requests(_list_requests(fine))} had single blocks edited: {actions}.", _list_requests(fine)
    results = int(case.view.cells[:, list(Bucket).index(Bucket.TOOL_RESULTS)].max()) if len(case.view) else 0
    if case.peak < LONG_SHARE or not results:
        return "unknown", f"The window was {case.peak:.0%} full at most, and nothing was cleared.", ()
    sizes = enumerate(zip(case.view.prompts, case.view.windows, strict=True))
    full = [n for n, (prompt, window) in sizes if window and prompt > LONG_SHARE * window]
    return (
        "fail",
        f"{_format_requests(full)} filled over half of the window, and no tool result was cleared (up to {results:,} tokens).",
        full,
    )


def _check_conversation_id(case: _Case) -> _Outcome:
    session = case.trace.session
    if case.is_chat:
        return "pass", f"Every request carries {session.id} in a header, in its record, and in each span and decision.", ()
    if session.source == "otel":
        named = session.about.get("conversation")
        if named:
            return "pass", f"The spans carry the conversation {named}.", ()
        return "fail", "No span carries a conversation's id.", ()
    return "unknown", "A transcript does not show the headers and spans of its requests.", ()


def _check_gateway(case: _Case) -> _Outcome:
    if case.overflows:
        return (
            "fail",
            f"{_format_requests(case.overflows)} went over the window: nothing held back what did not fit.",
            case.overflows,
        )
    if case.is_chat:
        refused = f"; {_format_requests(case.refusals)} went no further" if case.refusals else ""
        whole = len(case.trace.plans)
        return "pass", f"Each of {whole:,} requests was projected and held against its window{refused}.", case.refusals
    unseen = "whether anything would hold one back does not show"
    return "unknown", f"No request went over its window ({case.peak:.0%} at most); {unseen}.", ()


def _check_typed_errors(case: _Case) -> _Outcome:
    errors = [r.n for r in case.trace.session.requests if r.stop_reason in ("error", "model_context_window_exceeded")]
    if case.refusals and case.is_chat and not case.overflows:
        return (
            "pass",
            f"{_format_requests(case.refusals)} ended in a ContextWindowExceededError with the counters so far.",
            case.refusals,
        )
    if case.overflows or errors:
        found = sorted({*case.overflows, *errors})
        return "fail", f"{_format_requests(found)} failed or overflowed, and no typed refusal says by how much.", found
    return "unknown", "No request overflowed.", ()


def _check_last_n(case: _Case) -> _Outcome:
    drops = [(plan, decision) for plan, _, decision in case.cuts if decision.action == "drop"]
    dropped = sorted({plan.request.n for plan, decision in drops if _drops_oldest(case, decision)})
    runs = [n for n in dropped if all(n - back in dropped for back in range(MIN_SLIDES))]
    if runs:
        return (
            "fail",
            f"{_format_requests(dropped)} each left out more of the oldest messages: the cache breaks at every one.",
            runs,
        )
    if dropped:
        return "pass", f"Old messages were left out at {_format_requests(dropped)}, not at each.", dropped
    return "pass", "No request left out the oldest messages.", ()


def _drops_oldest(case: _Case, decision: Decision) -> bool:
    """Whether a decision dropped content that precedes all kept messages."""
    span, messages = decision.edit.span, case.trace.session.messages
    first = next((message.start for message in messages if message.role in ("user", "assistant")), 0)
    return span is not None and span.start <= first + len(messages) // 2 and decision.edit.body == ()


def _check_shared_id(case: _Case) -> _Outcome:
    system = [block for block in case.trace.session.blocks if block.bucket is Bucket.SYSTEM and block.kind == "system"]
    prompts = [(plan.request.n, _digest_system_prompt(plan, system)) for plan in case.trace.plans]
    known = [digest for _, digest in prompts if digest]
    if not known:
        return "unknown", "The log holds no system prompt, by which agents could be distinguished.", ()
    back = [n for at, (n, digest) in enumerate(prompts) if at and digest != prompts[at - 1][1] and digest in known[: at - 1]]
    if back:
        return "fail", f"Several system prompts take turns in one conversation, at {_format_requests(back)}.", back
    agents = len(case.trace.session.subagents)
    apart = f"; {agents:,} subagents have conversations of their own" if agents else ""
    return "pass", f"One system prompt holds throughout{apart}.", ()


def _digest_system_prompt(plan: Plan, system: Sequence[Block]) -> str:
    """The digests of a request's system prompt, as one string."""
    return "".join(
        block.digest for block in system if block.at < plan.request.cut and plan.after.find_piece(block.at).body is None
    )


def _check_silent_summary(case: _Case) -> _Outcome:
    if case.unlogged_cuts:
        return "fail", f"{_format_requests(case.unlogged_cuts)} lost content without an event in the log.", case.unlogged_cuts
    condensed = [(plan, by, decision) for plan, by, decision in case.cuts if decision.action == "condense"]
    if not condensed:
        return "pass", "Nothing was summed up.", ()
    silent = [plan.request.n for plan, by, decision in condensed if by == "policy" and not _has_usage(plan, decision)]
    if silent:
        return "fail", f"{_format_requests(silent)} summed up without any usage on record.", silent
    asks = [(plan, answer) for plan, _, _ in condensed for _, answer in plan.asks]
    own = [plan.request.n for plan, answer in asks if answer.usage and answer.model in ("", plan.model)]
    if own:
        return "warning", f"{_format_requests(own)} had the conversation's own model write the summary.", own
    return (
        "pass",
        f"{_format_requests(_list_requests(condensed))} summed up, each with usage or sizes on record.",
        _list_requests(condensed),
    )


def _has_usage(plan: Plan, decision: Decision) -> bool:
    """Whether the record holds a condensation's usage, or at least the tokens before it."""
    facts: dict[str, JSON] = dict(decision.edit.facts)
    return bool(facts.get("preTokens")) or any(answer.usage or answer.source != "offline" for _, answer in plan.asks)


def _list_requests(rows: Sequence[tuple[Plan, str, Decision]]) -> list[int]:
    return [plan.request.n for plan, _, _ in rows]


def _format_requests(requests: Sequence[int]) -> str:
    found = sorted(set(requests))
    return f"request {format_request(found[0])}" if len(found) == 1 else f"{len(found):,} requests"


POINTS = (
    (
        "buckets",
        "Five named buckets",
        "The request is five named buckets, and each has its own rule for cutting.",
        _check_buckets,
    ),
    (
        "cache",
        "The static prefix is cached",
        "The vendor's prompt cache is used, and reads from it are not zero.",
        _check_cache,
    ),
    (
        "compaction",
        "Compaction handles overflow",
        "The provider's server compacts by default, and logs it as typed events.",
        _check_compaction,
    ),
    (
        "editing",
        "Fine-grained context editing",
        "Long sessions clear tool results and thinking before anything coarser.",
        _check_editing,
    ),
    ("id", "One conversation id", "Every span, header and log line carries it.", _check_conversation_id),
    (
        "gateway",
        "The gateway enforces the budget",
        "Before each call it checks the budget, then compacts, falls back or returns a typed error.",
        _check_gateway,
    ),
    (
        "typed",
        "Overflow is typed and explicit",
        "The error carries the usage counters, so that the caller can decide.",
        _check_typed_errors,
    ),
    ("last-n", "No naive last-N", "Messages are not cut by count alone, whatever they hold.", _check_last_n),
    ("shared-id", "No id over several agents", "A conversation belongs to one agent.", _check_shared_id),
    (
        "silent",
        "No silent self-summary",
        "A summary is a logged event with its usage; the model does not write it unseen.",
        _check_silent_summary,
    ),
)
CHECKLIST = 7
"""The first seven are the checklist, the rest anti-patterns."""
