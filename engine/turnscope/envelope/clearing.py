"""Results of tools that give way to a text: one way for every rule that clears them, whichever it chooses."""

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
    """Put a text in place of each of the `results` that can be replaced on its own, and give the envelope after that.

    Where `inputs` says so, for all tools or by name, its call keeps no input either.
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
