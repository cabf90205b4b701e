"""The tools of a layered chat: the model retrieves earlier conversations, and reports on its turn.

A call changes nothing by itself. It is a block of the session, where the rules for layers read it for the next request, live
and in every replay. The result of a call says what those rules will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.envelope.layers.archive import FORMS, PRIORITIES, TOOL
from turnscope.envelope.layers.context_summary import FIELDS, REPORT
from turnscope.envelope.layers.conversations import find_current, get_span
from turnscope.envelope.layers.retrieval import answer_calls
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx
from turnscope.live.chat_state import ChatState
from turnscope.planning.policy import Policy
from turnscope.session.model import JSON, Block

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_REPORT_FIELDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "response_header": (_TEXT, "your answer in one line"),
    "query_header": (_TEXT, "the question in one line"),
    "context_summary": (_TEXT, "where the whole conversation stands, in a few sentences"),
    "key_decisions": (_TEXTS, "what was decided in this turn"),
    "code_changes": (_TEXTS, "what was changed, with the file"),
    "understood_intent": (_TEXT, "what the user wants, in one sentence"),
    "context_used": (_TEXTS, "ids of the conversations that you used"),
}
DEFINITIONS: Sequence[dict[str, Any]] = (
    {
        "name": TOOL,
        "description": "Get earlier conversations of this chat by the ids in their headers. They stand in your next request.",
        "input_schema": {
            "type": "object",
            "properties": {
                "ids": {**_TEXTS, "description": "such as c12"},
                "format": {
                    "type": "string",
                    "enum": [*FORMS],
                    "description": "summary is the cheapest that tells what was done",
                },
                "priority": {"type": "string", "enum": [*PRIORITIES], "description": "which come first, if not all may come"},
            },
            "required": ["ids"],
        },
    },
    {
        "name": REPORT,
        "description": "Tell what you made of this turn; it becomes part of the context summary of the next one.",
        "input_schema": {
            "type": "object",
            "properties": {name: {**kind, "description": what} for name, (kind, what) in _REPORT_FIELDS.items()},
        },
    },
)
TOOL_NAMES = tuple(tool["name"] for tool in DEFINITIONS)


def list_definitions(policy: Policy) -> Sequence[JSON]:
    """Return the definitions of these tools; none if the policy keeps no archive."""
    return DEFINITIONS if any(part.rule.name == TOOL for part in policy.rules) else ()


def find_turn_conversations(chat: ChatState) -> Iterator[Sequence[Block]]:
    """Yield the conversations that the last answered turn belongs to, newest first, if the policy keeps an archive.

    A conversation may not be over yet: only later silence or another topic ends it. So the model writes its metadata
    now, and again after it went on. The answer is recorded for exactly these blocks, and the next request looks it up by
    them.
    """
    part = next((part for part in chat.policy.rules if part.rule.name == TOOL), None)
    if part is None or chat.plan is None:
        return
    ctx, blocks = _build_context(chat, chat.plan), chat.live_session.session.blocks
    for number in range(find_current(ctx, part.params), -1, -1):
        span = get_span(ctx, part.params, number)
        if span.stop <= ctx.index.turns[-1]:
            return
        yield blocks[span.start : span.stop]


def _build_context(chat: ChatState, plan: Plan) -> Ctx:
    """Return what a rule could read if the next request were sent now."""
    basis = chat.live_session.get_policy_basis(chat.policy)
    return Ctx(
        session=chat.live_session.session,
        request=chat.build_request(chat.live_session),
        index=basis.index,
        ledger=basis.ledger,
        own=basis.own,
        previous=plan,
        calibration=plan.calibration,
        budget=plan.budget,
        limit=plan.budget.limit,
        previous_usage=0,
    )


def handles_all(blocks: Sequence[Block]) -> bool:
    """Return whether these tools handle all calls of an answer."""
    return all(block.name in TOOL_NAMES for block in blocks if block.kind == "tool_use")


def run_tool(chat: ChatState, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
    """Run a tool call that is already in the session.

    Args:
        chat: The chat.
        name: The name of the tool.
        arguments: Its arguments.

    Returns:
        The text of the result, and whether it is an error.
    """
    if name == REPORT:
        reported = [field for field in _REPORT_FIELDS if arguments.get(field)]
        used = [field for field in reported if field in FIELDS]
        what = f"Kept: {', '.join(reported)}. The next turn's context summary is made with {', '.join(used) or 'none of them'}."
        return (what, False) if reported else (f"Nothing was reported; the fields are {', '.join(_REPORT_FIELDS)}.", True)
    part = next((part for part in chat.policy.rules if part.rule.name == TOOL), None)
    plan = chat.plan
    if part is None or plan is None:
        return "The policy of this chat keeps no archive.", True
    ctx = _build_context(chat, plan)
    envelope = plan.after.grow(ctx.request.cut, ctx.ledger)
    _, found = answer_calls(envelope, ctx, part.params, plan.get_state(TOOL))
    mine = [grants for call, grants in found if ctx.session.blocks[call].raw.get("input") == arguments]
    text = "; ".join(grant.sentence for grant in (mine[-1] if mine else ()))
    return text or "No conversation was named.", not text
