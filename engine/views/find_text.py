"""Where a text appears in a session, and when it left the window and why.

Pure functions of a trace. Plain substring search, letter case ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.envelope.plan import Plan
from engine.planning.trace import Trace
from engine.session.model import Block
from engine.views.labels import label

MOST = 200  # hits; more are counted, not listed
AROUND = 60  # characters of context on each side


@dataclass(frozen=True, slots=True)
class Hit:
    """A block that holds the text. `spans`: half-open ranges of requests whose prompt carried it; empty = none did.

    `why`: how it left last, "" while it is still there.
    """

    at: int
    label: str
    bucket: str
    before: str
    match: str
    after: str
    spans: tuple[tuple[int, int], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """All that a search found. `blocks`: how many blocks hold the text; `hits` are the first of them."""

    text: str
    blocks: int
    hits: tuple[Hit, ...]


def search(trace: Trace, text: str, most: int = MOST) -> Found:
    """Every block that holds `text`, and the requests that carried it."""
    needle = text.casefold().strip()
    if not needle:
        return Found(text, 0, ())
    holding = [block for block in trace.session.blocks if needle in block.text.casefold()]
    changes = _changes(trace)
    return Found(text, len(holding), tuple(_hit(trace, block, needle, changes) for block in holding[:most]))


def _changes(trace: Trace) -> list[int]:
    """Requests at which a block may have left the envelope or come back."""
    plans = trace.plans
    return [n for n, plan in enumerate(plans) if plan.decisions or plan.server or (n and plan.model != plans[n - 1].model)]


def _hit(trace: Trace, block: Block, needle: str, changes: list[int]) -> Hit:
    entered = next((n for n, plan in enumerate(trace.plans) if plan.request.cut > block.at), len(trace.plans))
    spans: list[tuple[int, int]] = []
    since, why = (entered if entered < len(trace.plans) else -1), ""
    for n in (n for n in changes if n >= entered):
        there = trace.plans[n].seen.at(block.at).body is None
        if since >= 0 and not there:
            spans += [(since, n)] if n > since else []
            since, why = -1, _reason(trace.plans[n], block.at)
        elif since < 0 and there:
            since, why = n, ""
    if since >= 0:
        spans.append((since, len(trace.plans)))
    start = max(0, block.text.casefold().find(needle))
    stop = start + len(needle)
    head, tail = block.text[max(0, start - AROUND) : start], block.text[stop : stop + AROUND]
    return Hit(block.at, label(trace.session, block), block.bucket, head, block.text[start:stop], tail, tuple(spans), why)


def _reason(plan: Plan, at: int) -> str:
    """Why a block is not in a request that still might have carried it."""
    for decision in (*plan.decisions, *plan.server):
        span = decision.edit.span
        if decision.splice and span and span.start <= at < span.stop:
            return f"left at request {plan.request.n}: {decision.edit.because}"
    return f"left at request {plan.request.n}"
