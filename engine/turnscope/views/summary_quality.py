"""Summary quality: how much of its source a condensation's summary still holds, added to the facts of its decision on demand.

The source is what the rule condensed, or what stood there before a compaction of a tool or server. `envelope.retention`
scores it. Pure functions of a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.envelope.retention import score_summary
from turnscope.planning.foreign_summaries import get_summary_block
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON, Block, Session

CACHE_SIZE = 512  # scores that are cached
MAX_RESULT = 2_000  # characters of a tool result that are read, the same as for a summary
_scores: dict[bytes, Mapping[str, JSON]] = {}  # by digest of source and summary, the newest last


def score_facts(trace: Trace, decision: Decision) -> Mapping[str, JSON]:
    """The facts of a decision; of a condensation with its summary quality.

    Args:
        trace: the replay.
        decision: one of its decisions.
    """
    edit, plan = decision.edit, trace.plans[decision.request]
    known = score_rule_summary(plan, decision)
    if edit.action != "condense" or known is not edit.facts or edit.span is None or edit.facts.get("edited"):
        return known
    group = [d for d in (*plan.decisions, *plan.server) if d.edit.action == "condense" and d.rule == decision.rule]
    summary = next((text for one in group if (text := _find_summary(trace.session, plan, one))), "")
    source = "\n".join(line for one in group for line in _iter_source_lines(trace.session, plan, one))
    return {**edit.facts, **score_summary(source, summary)} if summary and source else edit.facts


def score_rule_summary(plan: Plan, decision: Decision) -> Mapping[str, JSON]:
    """The facts of a decision, with the quality of a summary that a rule requested. This is cheap.

    Args:
        plan: the plan of the request.
        decision: one of its decisions.
    """
    edit = decision.edit
    if edit.action != "condense" or not edit.body or edit.restore:
        return edit.facts
    asks = [(ask, answer) for ask, answer in plan.asks if ask.kind == "summary" and answer.text.strip()]
    stands = [pair for pair in asks if any(pair[1].text.strip() in part.text for part in edit.body)]
    if not stands and len(asks) != 1:
        return edit.facts
    ask, answer = (stands or asks)[-1]
    return {**edit.facts, **_score(ask.content, answer.text)}


def _score(source: str, summary: str) -> Mapping[str, JSON]:
    """Score a summary, once. The score is kept by a digest: the sources of many long sessions would fill the memory."""
    key = sha256(f"{len(source)}\n{source}{summary}".encode("utf-8", "surrogatepass")).digest()
    score = _scores.pop(key, None)
    _scores[key] = score = score_summary(source, summary) if score is None else score
    for oldest in [*_scores][:-CACHE_SIZE]:
        _scores.pop(oldest, None)
    return score


def _find_summary(session: Session, plan: Plan, decision: Decision) -> str:
    """Find the summary: the decision's own text, a message of the log, or the server's block."""
    edit = decision.edit
    if (at := get_summary_block(edit)) >= 0:
        message = session.messages[session.blocks[at].message]
        return "\n".join(block.text for block in session.blocks[message.start : message.stop])
    if edit.body:
        return "\n".join(part.text for part in edit.body if part.kind == "summary")
    behind = session.blocks[edit.span.stop : plan.request.cut] if edit.span and decision in plan.server else ()
    return next((block.text for block in behind if block.kind == "compaction"), "")


def _iter_source_lines(session: Session, plan: Plan, decision: Decision) -> Iterator[str]:
    """What stood there before, as `role: text` lines."""
    span = decision.edit.span
    for piece in plan.before.iter_pieces(span) if span and span.stop <= plan.before.stop else ():
        if piece.body is not None:
            yield from (f"{part.role}: {part.text}" for part in piece.body if part.text.strip())
        elif span:
            blocks = session.blocks[max(piece.start, span.start) : min(piece.stop, span.stop)]
            yield from (f"{_get_speaker(block)}: {block.text[:MAX_RESULT]}" for block in blocks if _is_source(block))


def _is_source(block: Block) -> bool:
    return block.role in ("user", "assistant") and "thinking" not in block.kind and bool(block.text.strip())


def _get_speaker(block: Block) -> str:
    return "tool" if block.kind == "tool_result" else block.role
