"""The three branches that become one message: context prompt, system prompt, and the newest message. It changes nothing."""

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
    RETRIEVED,
    SHRINKABLE,
    count_present_tokens,
    find_current_start,
    find_front,
    find_insert,
)
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.content import extract_text
from turnscope.session.index import count_before
from turnscope.session.model import Bucket, Edit

_ENVIRONMENT = re.compile(r"<env>|working directory|environment|platform:|operating system", re.IGNORECASE)
FEEDBACK = re.compile(  # a prompt that judges the answer before it
    r"\s*(?:no\b[,.! ]|wrong\b|that(?:'s| is| was)? (?:not|wrong|right|correct|better|perfect|fine|good|great)\b"
    r"|this (?:is|was) (?:not|wrong|right|correct)\b|not (?:quite|what)\b|you (?:missed|forgot|broke|misunderstood)\b"
    r"|(?:thanks|thank you|perfect|great|good|exactly|yes)\b[,.! ])",
    re.IGNORECASE,
)
ERROR = 300  # characters of an error's text that are recorded
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
    metadata = sum(tokens for slot, tokens in layers.items() if slot != RETRIEVED)
    because += f"system prompt of {system:,} ({kinds or 'none'}), input: {described['type'].replace('_', ' ')}"
    because += f"; {metadata:,} of {whole:,} tokens are metadata ({metadata / whole:.0%})" if metadata else ""
    facts: dict[str, Any] = {
        "context": context,
        "layers": layers,
        "system": _count_by_kind(ctx),
        "input": described,
        "metadata": metadata,
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
            tokens = ctx.count_tokens(block.at, block.at + 1)
            for kind, share in _share_kinds("" if block.bucket is Bucket.TOOLS else block.text, tokens).items():
                found[kind] = found.get(kind, 0) + share
        known[key] = found
    kinds: dict[str, int] = known[key]
    return kinds


def _share_kinds(text: str, tokens: int) -> dict[str, int]:
    """Return the tokens of a block of the system prompt by kind: each paragraph has one, and tokens by its length."""
    if not text:
        return {"tools": tokens}
    signs, sizes = (("environment", _ENVIRONMENT), ("guardrails", _GUARDRAILS)), dict[str, int]()
    for part in re.split(r"\n\s*\n", text):
        kind = next((name for name, sign in signs if sign.search(part)), "other")
        sizes[kind] = sizes.get(kind, 0) + len(part)
    whole = sum(sizes.values()) or 1
    shares = {kind: tokens * size // whole for kind, size in sizes.items()}
    largest = max(sizes, key=lambda kind: sizes[kind])
    return shares | {largest: shares[largest] + tokens - sum(shares.values())}


def _describe_input(ctx: Ctx, split: Split) -> dict[str, Any]:
    """The newest message: a query, an answer of a tool, or feedback: a further prompt of the conversation that goes on."""
    message = ctx.session.messages[ctx.session.blocks[find_newest_message(ctx)].message]
    blocks = ctx.session.blocks[message.start : min(message.stop, ctx.request.cut)]
    raws = [block.raw for block in blocks if block.kind == "tool_result" and isinstance(block.raw, Mapping)]
    begins = message.start in (find_current_start(ctx, split), ctx.index.turns[0])
    prompt = next((block.text for block in blocks if block.kind == "text"), "")
    judges = message.start != ctx.index.turns[0] and FEEDBACK.match(prompt) is not None
    query = "user_query" if begins and not judges else "user_feedback"
    kind = "tool_response" if raws else query if message.role == "user" else "answer"
    described: dict[str, Any] = {"type": kind, "timestamp": format_time(message.sent_at)}
    described |= {"tool_ids": [str(raw.get("tool_use_id")) for raw in raws]} if raws else {}
    failed = [extract_text(raw.get("content") or "")[:ERROR] for raw in raws if raw.get("is_error")]
    described |= {"errors": failed} if raws else {}
    attached = [block.kind for block in blocks if block.kind in ("image", "document")]
    return described | ({"attachments": attached} if attached else {})


RULE = Rule(
    "compose_message",
    "Record for each request what its three branches hold: context prompt, system prompt by kind, and the newest message.",
    edits,
    Split,
    "fresh",
    "Smart Context Management for AI Code Assistants: three-branch message composition",
)
