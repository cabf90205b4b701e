"""The three branches that become one message: context prompt, system prompt, and what is said now. It changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from turnscope.envelope.conversation import count_static_tokens, find_newest_message
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, find_current, find_current_prompt, get_memo, get_span
from turnscope.envelope.layers.forms import format_time
from turnscope.envelope.layers.places import (
    CONTEXT,
    HEADERS,
    SHRINKABLE,
    count_present_tokens,
    find_current_start,
    find_front,
    find_insert,
)
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Bucket, Edit

_ENVIRONMENT = re.compile(r"<env>|working directory|environment|platform:|operating system", re.IGNORECASE)
_GUARDRAILS = re.compile(r"\b(never|must not|do not|don't|refuse|not allowed|forbidden|safety)\b", re.IGNORECASE)


def edits(envelope: Envelope, ctx: Ctx, params: Split) -> Edits:
    if find_current(ctx, params) < 0:
        return
    at = find_current_start(ctx, params)
    system, described = count_static_tokens(envelope, ctx), _describe_input(ctx, params)
    inserts = {slot: _count_insert(envelope, ctx, find_front(ctx), slot) for slot in (CONTEXT, HEADERS)}
    inserts |= {slot: _count_insert(envelope, ctx, at, slot) for slot in SHRINKABLE}
    question = count_present_tokens(envelope, ctx, get_span(ctx, params, find_current(ctx, params))) + ctx.count_tokens(
        *find_current_prompt(ctx)
    )
    whole = ctx.count_envelope(envelope)
    layers = {slot: tokens for slot, tokens in inserts.items() if tokens}
    context = max(0, whole - system - question)
    kinds = ", ".join(f"{kind} {tokens:,}" for kind, tokens in _count_by_kind(ctx).items())
    because = f"context prompt of {context:,} tokens ({', '.join(f'{k} {v:,}' for k, v in layers.items()) or 'no layer'}), "
    because += f"system prompt of {system:,} ({kinds or 'none'}), input: {described['type'].replace('_', ' ')}"
    facts: dict[str, Any] = {
        "context": context,
        "layers": layers,
        "system": _count_by_kind(ctx),
        "input": described,
        "message": whole,
    }
    yield Edit("keep", because, facts=facts)


def _count_insert(envelope: Envelope, ctx: Ctx, at: int, slot: str) -> int:
    piece = find_insert(envelope, at, slot)
    return sum(ctx.own.count_placeholder(piece.body)) if piece else 0


def _count_by_kind(ctx: Ctx) -> dict[str, int]:
    """Tokens of the system prompt by what its blocks are about: tools, environment, guardrails, other."""
    blocks = ctx.index.static[: count_before(ctx.index.static, ctx.request.cut)]
    known, key = get_memo(ctx), ("system", len(blocks), id(ctx.own))
    if key not in known:
        found: dict[str, int] = {}
        for block in (ctx.session.blocks[at] for at in blocks):
            text = "" if block.bucket is Bucket.TOOLS else block.text
            signs = (("environment", _ENVIRONMENT), ("guardrails", _GUARDRAILS))
            kind = "tools" if not text else next((name for name, sign in signs if sign.search(text)), "other")
            found[kind] = found.get(kind, 0) + ctx.count_tokens(block.at, block.at + 1)
        known[key] = found
    kinds: dict[str, int] = known[key]
    return kinds


def _describe_input(ctx: Ctx, split: Split) -> dict[str, Any]:
    """What is said now: a query, an answer of a tool, or feedback: a further prompt of the conversation that goes on."""
    message = ctx.session.messages[ctx.session.blocks[find_newest_message(ctx)].message]
    blocks = ctx.session.blocks[message.start : min(message.stop, ctx.request.cut)]
    raws = [block.raw for block in blocks if block.kind == "tool_result" and isinstance(block.raw, Mapping)]
    begins = message.start in (find_current_start(ctx, split), ctx.index.turns[0])
    kind = "tool_response" if raws else "user_query" if begins else "user_feedback" if message.role == "user" else "answer"
    described: dict[str, Any] = {"type": kind, "timestamp": format_time(message.sent_at)}
    described |= {"tool_ids": [str(raw.get("tool_use_id")) for raw in raws]} if raws else {}
    described |= {"errors": sum(bool(raw.get("is_error")) for raw in raws)} if raws else {}
    attached = [block.kind for block in blocks if block.kind in ("image", "document")]
    return described | ({"attachments": attached} if attached else {})


RULE = Rule(
    "compose_message",
    "Tell of each request what its three branches hold: context prompt, system prompt by kind, and what is said now.",
    edits,
    Split,
    "fresh",
    "Smart Context Management for AI Code Assistants: three-branch message composition",
)
