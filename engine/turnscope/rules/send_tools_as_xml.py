"""Send tool blocks as text: a call as XML, its result under a heading line, definitions in the system prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.envelope.conversation import find_path, get_call_input
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.content import dumps, extract_text
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Session, Span

KINDS = ("tool", "tool_use", "tool_result")
_ODD = re.compile(r"[^\w.-]")


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    cut, done = ctx.request.cut, ctx.state or 0
    changed = () if ctx.earlier_decisions is None else (d.edit.span for d in ctx.earlier_decisions if d.splice and d.edit.span)
    for span in [Span(done if ctx.earlier_decisions is not None else 0, cut), *(s for s in changed if s.start < done)]:
        for at in _find_tools(ctx, span):
            piece = envelope.find_piece(at)
            if piece.body is None or (piece.start == at and any(part.kind in KINDS for part in piece.body)):
                where = Span(at, at + 1) if piece.body is None else Span(piece.start, piece.stop)
                body = tuple(
                    part
                    for one in _get_parts(piece, ctx, at)
                    for part in _render_part(one, ctx.session.blocks[at], ctx.session)
                )
                envelope = yield Edit("condense", "tool blocks are sent as XML text", where, body, slot=piece.slot)
    return cut


def _find_tools(ctx: Ctx, span: Span) -> Iterator[int]:
    """Definitions, calls and results in a span, in order."""
    kinds = (ctx.index.static, ctx.index.calls, ctx.index.results)
    found = sorted(at for kind in kinds for at in kind[count_before(kind, span.start) : count_before(kind, span.stop)])
    return (at for at in found if ctx.session.blocks[at].kind in KINDS)


def _get_parts(piece: Piece, ctx: Ctx, at: int) -> tuple[Part, ...]:
    block = ctx.session.blocks[at]
    return (Part(block.role, block.kind, raw=block.raw),) if piece.body is None else piece.body


def _render_part(part: Part, block: Block, session: Session) -> Iterator[Part]:
    """What is sent for one part. Pictures in a result follow its text unchanged."""
    raw: Any = part.raw if part.ref is None else session.blocks[part.ref].raw
    kind = part.kind if part.ref is None else session.blocks[part.ref].kind
    if kind not in KINDS or not isinstance(raw, Mapping):
        yield part
    elif kind == "tool":
        yield Part(
            "system", "system", render_element("tool", {key: raw[key] for key in raw if key != "cache_control"}), place="system"
        )
    elif kind == "tool_use":
        yield Part(part.role, "text", render_element(str(raw.get("name") or block.name or "tool"), raw.get("input")))
    else:
        path = find_path(get_call_input(session, block))
        content, failed = raw.get("content"), " (failed)" if raw.get("is_error") else ""
        listed = content if isinstance(content, list) else []
        media = [one for one in listed if isinstance(one, Mapping) and one.get("type") in ("image", "document")]
        text = extract_text([one for one in listed if one not in media] if listed else content)
        of = f"{block.name or 'tool'} for '{path}'" if path else block.name or "tool"
        yield Part(part.role, "text", f"[{of}] Result{failed}:\n{text}")
        yield from (Part(part.role, str(one["type"]), raw=one) for one in media)


def render_element(name: str, content: Any) -> str:
    """Return a value as an XML element: keys of an object are its children. Text is not escaped, as in the tools that do this.

    Args:
        name: Name of the element.
        content: The value.
    """
    name = _ODD.sub("_", name) or "tool"
    if isinstance(content, Mapping):
        inside = "\n".join(render_element(str(key), value) for key, value in content.items())
        return f"<{name}>\n{inside}\n</{name}>" if inside else f"<{name}>\n</{name}>"
    return f"<{name}>{content if isinstance(content, str) else dumps(content)}</{name}>"


RULE = Rule(
    "send_tools_as_xml",
    "Send calls, results and definitions of tools as text in the form of XML elements.",
    edits,
    NoParams,
    source="Smart Context Management for AI Code Assistants: tool blocks stored in Anthropic's format, sent as XML text",
    state=int,
)
