"""Replace the content of tool results by a placeholder text: the one way for every rule that clears results."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Any

from turnscope.envelope.conversation import build_call, build_result, find_replaceable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.session.model import JSON, Edit, Span


def clear_results(
    envelope: Envelope,
    ctx: Ctx,
    results: Iterable[int],
    text: str,
    because: str,
    facts: Mapping[str, JSON] | None = None,
    inputs: bool | Collection[str] = False,
) -> Generator[Edit, Any, Envelope]:
    """Replace the content of tool results by a text.

    A result is skipped where it cannot be replaced on its own: it is dropped already, or part of a larger placeholder.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        results: Addresses of the results, in order.
        text: The placeholder.
        because: The reason for the decision log.
        facts: Further facts of the decisions.
        inputs: Whether to clear the input of the call as well: for all tools, or for the tools named.

    Returns:
        The envelope after all edits.
    """
    facts_of_edit = facts or {}
    for at in results:
        if not find_replaceable(envelope, at):
            continue
        block = ctx.session.blocks[at]
        envelope = yield Edit("clear", because, Span(at, at + 1), (build_result(block, text),), facts=facts_of_edit)
        emptied = inputs if isinstance(inputs, bool) else block.name in inputs
        if emptied and block.pair >= 0 and find_replaceable(envelope, block.pair):
            part = build_call(ctx.session.blocks[block.pair], {})
            envelope = yield Edit("clear", because, Span(block.pair, block.pair + 1), (part,), facts=facts_of_edit)
    return envelope
