"""What a compaction kept that a tool recorded or a server made: scored when somebody looks, for no rule asked for its summary.

The scores are those of `envelope.kept`, which a rule's own condensation carries as facts. Pure functions of a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.envelope.kept import scored
from engine.envelope.pieces import Decision
from engine.envelope.plan import Plan
from engine.planning.foreign_summaries import summary_at
from engine.planning.trace import Trace
from engine.session.model import JSON, Block, Session

CLIP = 2_000  # characters of a tool's result that are read, as for those who make summaries


def facts(trace: Trace, decision: Decision) -> Mapping[str, JSON]:
    """The facts of a decision; of a condensation whose rule asked nobody, with what its summary kept."""
    edit = decision.edit
    if edit.action != "condense" or "kept" in edit.facts or edit.span is None or edit.facts.get("edited"):
        return edit.facts
    plan = trace.plans[decision.request]
    group = [d for d in (*plan.decisions, *plan.server) if d.edit.action == "condense" and d.rule == decision.rule]
    summary = next((text for one in group if (text := _summary(trace.session, plan, one))), "")
    source = "\n".join(line for one in group for line in _lines(trace.session, plan, one))
    return {**edit.facts, **scored(source, summary)} if summary and source else edit.facts


def _summary(session: Session, plan: Plan, decision: Decision) -> str:
    """What stands for what a decision took out: its own words, a message of the log, or the server's block behind it."""
    edit = decision.edit
    if (at := summary_at(edit)) >= 0:
        message = session.messages[session.blocks[at].message]
        return "\n".join(block.text for block in session.blocks[message.start : message.stop])
    if edit.body:
        return "\n".join(part.text for part in edit.body if part.kind == "summary")
    behind = session.blocks[edit.span.stop : plan.request.cut] if edit.span and decision in plan.server else ()
    return next((block.text for block in behind if block.kind == "compaction"), "")


def _lines(session: Session, plan: Plan, decision: Decision) -> Iterator[str]:
    """What stood there before, as `role: text` lines."""
    span = decision.edit.span
    for piece in plan.before.over(span) if span and span.stop <= plan.before.stop else ():
        if piece.body is not None:
            yield from (f"{part.role}: {part.text}" for part in piece.body if part.text.strip())
        elif span:
            blocks = session.blocks[max(piece.start, span.start) : min(piece.stop, span.stop)]
            yield from (f"{_speaker(block)}: {block.text[:CLIP]}" for block in blocks if _told(block))


def _told(block: Block) -> bool:
    return block.role in ("user", "assistant") and "thinking" not in block.kind and bool(block.text.strip())


def _speaker(block: Block) -> str:
    return "tool" if block.kind == "tool_result" else block.role
