"""The decision log: every decision of a trace as a flat row, as JSON Lines or CSV, or one decision as Markdown.

Holds numbers, addresses, names of rules and their reasons, and no text of a block. Tokens are in two units: as counted, and as
the provider would bill them (`Trace.get_terms`).
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.numbering import format_request, format_turn
from turnscope.planning.foreign_summaries import get_summary_block
from turnscope.planning.prompt_cache import simulate_prompt_cache
from turnscope.planning.provider_edits import UNASKED
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON
from turnscope.views import stepper, summary_quality
from turnscope.views.cached_cost import CachePrice, price_decisions
from turnscope.views.text_tables import format_csv

COLUMNS = (
    "session",
    "policy",
    "decision",
    "request",
    "turn",
    "model",
    "by",
    "rule",
    "action",
    "because",
    "start",
    "stop",
    "slot",
    "changed",
    "memory",
    "counted_before",
    "counted_after",
    "tokens_before",
    "tokens_after",
    "limit",
    "verdict",
    "facts",
    "cache_saved",
    "cache_again",
    "cache_usd",
    "cache_each_usd",
    "cache_pays_off",
)
_FENCE = re.compile(r"`{3,}")


def iter_rows(trace: Trace) -> Iterator[dict[str, JSON]]:
    """Yield one flat row per decision, in order. `by` is `policy`, or `server` for edits of the provider."""
    uses = simulate_prompt_cache(trace)
    for plan in trace.plans:
        prices = price_decisions(trace, uses, plan.request.n) if plan.is_changed else {}
        for decision in plan.decisions:
            yield _build_row(trace, plan, decision=decision, by="policy", price=prices.get(decision.seq))
        for decision in plan.server:
            yield _build_row(trace, plan, decision, "server")


def iter_decisions(plan: Plan) -> Iterator[tuple[str, Decision]]:
    """Yield the decisions of a request, and who made each: the policy or the server.

    Edits that a server makes to every request, whoever sends it, are left out.
    """
    yield from (("policy", decision) for decision in plan.decisions)
    yield from (("server", decision) for decision in plan.server if decision.rule not in UNASKED)


def _build_row(trace: Trace, plan: Plan, decision: Decision, by: str, price: CachePrice | None = None) -> dict[str, JSON]:
    span = decision.edit.span
    memory = next((part.rule.memory for part in trace.policy.rules if part.rule.name == decision.rule), "")
    values = (
        trace.session.id,
        trace.policy.name,
        decision.seq,
        plan.request.n,
        plan.request.turn,
        plan.model,
        by,
        decision.rule,
        decision.action,
        decision.edit.because,
        span.start if span else None,
        span.stop if span else None,
        decision.edit.slot,
        decision.splice is not None,
        memory,
        decision.before,
        decision.after,
        *count_tokens(trace, decision),
        plan.budget.limit,
        trace.get_verdict(plan.request.n),
        dict(summary_quality.score_facts(trace, decision)),
        *_list_cache_effects(price),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _list_cache_effects(price: CachePrice | None) -> tuple[JSON, ...]:
    """Tokens saved and rewritten, their USD, and the break-even of a decision."""
    if price is None:
        return (None,) * 5
    usd = (None if each is None else round(float(each), 6) for each in (price.usd, price.usd_per_request))
    return price.saved, price.rewritten, *usd, price.break_even


def count_tokens(trace: Trace, decision: Decision) -> tuple[int, int]:
    """Provider tokens of the request before and after a decision; of a recorded condensation, as its log has them.

    Args:
        trace: the replay.
        decision: one of its decisions.
    """
    n = decision.request
    alone = sum(bool(made.splice) for made in trace.plans[n].decisions) == 1 and stepper.measure_size(trace, n)[1]
    if get_summary_block(decision.edit) >= 0 or (alone and decision.splice and decision.action == "condense"):
        return stepper.measure_start(trace, n)[0], stepper.measure_size(trace, n)[0]
    expected = trace.get_terms(decision.request).predict
    return expected(decision.before), expected(decision.after)


def to_json_lines(trace: Trace) -> str:
    """Write the log as JSON Lines, one decision a line, with the keys of `COLUMNS`."""
    return "".join(json.dumps(row, default=str) + "\n" for row in iter_rows(trace))


def to_csv(trace: Trace) -> str:
    """Write the log as CSV with a header."""
    return format_csv(COLUMNS, (tuple(row.values()) for row in iter_rows(trace)))


def describe_decision(trace: Trace, request: int, number: int, price: CachePrice | None = None) -> tuple[tuple[str, str], ...]:
    """Describe a decision as names and values for people: action, reason, place and tokens.

    Names tools and kinds of blocks, never their text. A reason may name a file.

    Args:
        trace: the replay.
        request: number of the request.
        number: number of the decision in it, from 0.
        price: its effect on the prompt cache, if known.

    Raises:
        IndexError: there is no such decision.
    """
    plan = trace.plans[request]
    decision = plan.decisions[number]
    edit, (before, after) = decision.edit, count_tokens(trace, decision)
    span = edit.span
    place = f"request {format_request(request)} (turn {format_turn(plan.request.turn)})"
    return (
        ("Action", decision.action),
        ("Rule", decision.rule),
        ("Reason", edit.because),
        ("Place", f"{place}, decision {number + 1} of {len(plan.decisions)}"),
        ("Blocks", _describe_blocks(trace, span.start, span.stop) if span and span.start < span.stop else edit.slot or "none"),
        ("Tokens, counted", f"{decision.before:,} -> {decision.after:,} ({trace.ledger.label})"),
        ("Tokens, expected of the provider", f"{before:,} -> {after:,}"),
        *([("Prompt cache, simulated", price.sentence)] if price else ()),
        ("Budget", f"limit {plan.budget.limit:,}, window {plan.budget.window:,}{'' if plan.budget.known else ' (assumed)'}"),
        ("Model", plan.model or "not named"),
        ("Size", stepper.describe_size(trace, request)),
        ("Verdict", trace.get_verdict(request)),
    )


def to_markdown(trace: Trace, request: int, number: int, price: CachePrice | None = None) -> str:
    """Write a decision as Markdown for a bug report, with its session and its policy.

    Args:
        trace: the replay.
        request: number of the request.
        number: number of the decision in it, from 0.
        price: its effect on the prompt cache, if known.

    Raises:
        IndexError: there is no such decision.
    """
    decision = trace.plans[request].decisions[number]
    lines = [
        *describe_decision(trace, request, number, price),
        ("Source", trace.session.source),
        ("Session", f"{len(trace.session.blocks):,} blocks, {len(trace.session.requests):,} requests"),
        ("Python", platform.python_version()),
    ]
    facts = [
        f"| {escape_inline(name)} | {escape_inline(value)} |"
        for name, value in summary_quality.score_facts(trace, decision).items()
    ]
    table = ["", "| fact | value |", "| --- | --- |", *facts] if facts else []
    policy = trace.policy.to_toml()
    fence = "`" * (max((len(found) for found in _FENCE.findall(policy)), default=2) + 1)
    return "\n".join(
        [
            f"## {escape_inline(decision.action)} by {escape_inline(decision.rule)} at request {format_request(request)}",
            "",
            *(f"- **{name}**: {escape_inline(value)}" for name, value in lines),
            *table,
            "",
            f"Policy `{trace.policy.name}`:",
            "",
            f"{fence}toml",
            policy.rstrip("\n"),
            fence,
            "",
        ]
    )


def _describe_blocks(trace: Trace, start: int, stop: int) -> str:
    kinds: dict[str, int] = {}
    for block in trace.session.blocks[start:stop]:
        name = f"{block.role} {block.kind}" + (f" of {block.name}" if block.name else "")
        kinds[name] = kinds.get(name, 0) + 1
    most = sorted(kinds.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in most[:6])
    return f"{start} to {stop - 1}: {listed}" + (", ..." if len(most) > 6 else "")


def escape_inline(value: JSON) -> str:
    """A value on one line, with Markdown's markup escaped.

    Args:
        value: the value, which may be text of a session.
    """
    return re.sub(r"([\\`*_\[\]<>|#!])", r"\\\1", " ".join(str(value).split()))
