"""Requests for summaries that Claude Code sends when it compacts: billed, and in no log. Inferred from the compactions.

What such a request carries was read from recorded runs of 2.1.330: the messages of the request before, whose prefix is read
from the cache up to the last answer; then the instruction, which is not cached. Over eleven compactions of one run the inferred
prompts are 0.01 % off together, and the cost is 0.3 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.trace import Trace
from turnscope.session.model import ObservedEdit, Usage

SOURCE = "claude-code"
INSTRUCTION = 1_600  # tokens of the instruction to summarise: 6,361 characters
WRAPPER = 300  # tokens that the tool writes around the summary that was answered


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A request for a summary, sent before `request`. `usage` and `usd` are inferred; `usd` is None without a known price."""

    request: int
    usage: Usage
    usd: Decimal | None

    @property
    def sentence(self) -> str:
        """What a person should know."""
        cost = "" if self.usd is None else f", ${self.usd:,.4f}"
        size = f"{self.usage.prompt_tokens:,} tokens"
        return f"a request for a summary came before it that the log does not hold: about {size}{cost}, inferred"


def infer_summary_requests(trace: Trace) -> tuple[SummaryRequest, ...]:
    """Infer the requests for the summaries of a session, one for each compaction that its log records.

    Args:
        trace: the session as recorded.
    """
    return tuple(_infer(trace)) if trace.session.source == SOURCE else ()


def _infer(trace: Trace) -> Iterator[SummaryRequest]:
    requests = trace.session.requests
    seen: set[int] = set()
    for compaction in trace.session.observed:
        recorded = compaction.edit.action == "condense" and "trigger" in compaction.edit.facts
        if not recorded or compaction.request in seen:
            continue
        seen.add(compaction.request)
        earlier = (request for request in reversed(requests[: compaction.request]) if request.usage)
        before = next(earlier, None)
        if before is None or before.usage is None:
            continue
        billed = before.usage
        fresh = billed.input_tokens + billed.cache_creation_input_tokens + INSTRUCTION
        answer = _count_summary(trace, compaction)
        usage = Usage(fresh, cache_read_input_tokens=billed.cache_read_input_tokens, output_tokens=answer)
        cost = trace.prices.compute_cost(usage, before.model, before.sent_at)
        yield SummaryRequest(compaction.request, usage, cost.total if cost else None)


def _count_summary(trace: Trace, compaction: ObservedEdit) -> int:
    """Tokens of the summary that a compaction left, in the counter's units; 0 where it is not known."""
    at = compaction.edit.facts.get("summary")
    if isinstance(at, int) and 0 <= at < len(trace.session.blocks):
        counted = trace.ledger.count_tokens(at, at + 1)
    else:
        counted = trace.ledger.count_parts(part for part in compaction.edit.body or () if part.kind == "summary")
    return max(0, counted - WRAPPER)
