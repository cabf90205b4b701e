"""Notes: texts that the model writes are stored outside the window. An index lists them; the model reads one back by its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.conversation import build_call, find_replaceable, get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.places import find_insert
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.envelope.tool_outputs import make_address
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span

SLOT = "notes"


@dataclass(frozen=True, slots=True)
class Params:
    """The tools that write and read notes, and the index."""

    write: Annotated[str, "tool that writes a note; its input has title and text"] = "write_note"
    read: Annotated[str, "tool that reads a note by its id"] = "read_note"
    heading: Annotated[str, "line in front of the index; {read} is the tool that reads a note"] = (
        "Notes that were written in this conversation; read one with {read}:"
    )
    most: Annotated[int, "maximum lines of the index, the newest notes; all notes can be read"] = 50


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    written: dict[str, str] = dict(ctx.state or ())  # title by id
    calls = ctx.index.calls
    for at in calls[count_before(calls, get_previous_cut(ctx)) : count_before(calls, ctx.request.cut)]:
        block = ctx.session.blocks[at]
        arguments = _get_input(block)
        if block.name == params.read:
            name = str(arguments.get("id", ""))
            what = "was read back" if name in written else "was requested and does not exist"
            yield Edit("retrieve", f"the note {name[:40]!r} {what}", facts={"note": name[:40], "call": at})
        text = arguments.get("text")
        if block.name != params.write or not isinstance(text, str) or not text.strip():
            continue
        name = make_address(text)
        written.pop(name, None)
        written[name] = " ".join(str(arguments.get("title") or text).split())[:80]
        part = build_call(block, {**arguments, "text": f"[note {name}, kept outside the window]"})
        tokens, left = ctx.own.count_tokens(at, at + 1), sum(ctx.own.count_placeholder((part,)))
        span = Span(at, at + 1) if left < tokens and find_replaceable(envelope, at) else None
        facts: dict[str, Any] = {"note": name, "call": at, "tokens": tokens, "left": left}
        because = f"the note {name} was written: its text is outside the window, its line is in the index"
        envelope = yield Edit("truncate" if span else "keep", because, span, (part,) if span else (), facts=facts)
    state = tuple(written.items())
    if written and ctx.index.messages:
        at, (body, many) = ctx.index.messages[0], _build_index(state, ctx, params)
        standing = find_insert(envelope, at, SLOT)
        if body != (standing.body if standing else None):
            because = f"{many} of {len(written)} notes are listed; each can be read by its id"
            facts = {"notes": len(written), "listed": many, "ids": [name for name, _ in state[len(state) - many :]]}
            yield Edit("insert", because, Span(at, at), body, slot=SLOT, facts=facts)
    return ctx.state if state == ctx.state else state


def _build_index(notes: tuple[tuple[str, str], ...], ctx: Ctx, params: Params) -> tuple[tuple[Part, ...], int]:
    """The index, and its number of lines: the newest notes that fit the slot's share of the budget."""
    share = int(ctx.budget.slots.get(SLOT, ctx.budget.limit) / (ctx.calibration.scale if ctx.own is ctx.ledger else 1.0))
    lines = [f"- {name}: {title}" for name, title in notes[-params.most :]] if params.most > 0 else []
    while True:
        text = "\n".join((params.heading.replace("{read}", params.read), *lines))
        body = (Part("system", "text", text, place="system"),)
        if not lines or sum(ctx.own.count_placeholder(body)) <= share:
            return body, len(lines)
        lines = lines[max(1, len(lines) // 10) :]


def _get_input(block: Block) -> Mapping[str, Any]:
    raw = block.raw if isinstance(block.raw, Mapping) else {}
    arguments = raw.get("input")
    return arguments if isinstance(arguments, Mapping) else {}


RULE = Rule(
    "index_notes",
    "Keep the text of notes outside the window. An index lists them, and the model reads one back by its id.",
    edits,
    Params,
    "remembers",
    "session context management: notes outside the window, read back when they are needed",
    state=tuple[tuple[str, str], ...],
)
