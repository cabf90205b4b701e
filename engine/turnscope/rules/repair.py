"""Repair what a provider would reject after other rules cut: results without calls, calls without results, and the like."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import structs

from turnscope.envelope.conversation import find_newest_message, memoize
from turnscope.envelope.difference import find_changes, get_visible
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pairs import (
    as_mapping,
    build_opening_notice,
    explain_stray,
    find_duplicate_ids,
    find_invalid_inputs,
    find_previous_message,
    find_result,
    get_call_id,
    get_parts,
    get_role,
    is_invalid_id,
    is_late,
    is_sent,
    iter_message_starts,
    select_within,
    stands_alone,
)
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.content import extract_block_text
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Session, Span

RepairSteps = Generator[Edit, Any, Envelope]


@dataclass(frozen=True, slots=True)
class Params:
    """Texts in place of what is missing."""

    result: Annotated[str, "text of the result of a call that has none"] = "[No result of this call is shown.]"
    notice: Annotated[str, "text of the user's message in front of a leading answer"] = "[Earlier messages are left out.]"
    stray: Annotated[str, "text in front of a result in the newest message whose call was dropped"] = (
        "[Result of a call that is not shown:]"
    )
    begin: Annotated[bool, "add the notice in front of a leading answer; False = another rule does"] = True
    filler: Annotated[str, "text of a message between two of one role that may not be merged (empty = none)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    blocks, messages = ctx.session.blocks, ctx.session.messages
    spans = find_changes(envelope, ctx)
    if not params.filler and len(spans) == 1 and _stands(envelope, ctx, spans[0]):
        if params.begin and ctx.index.messages and (edit := build_opening_notice(envelope, ctx, params.notice)):
            yield edit
        return
    envelope = yield from _rename_calls(envelope, ctx, spans)
    envelope = yield from _repair_inputs(envelope, ctx, spans)
    calls = [*select_within(ctx.index.calls, spans)]
    ends = {messages[blocks[at].message].stop - 1 for at in calls if not _is_whole(envelope, ctx, at)}
    theirs = {blocks[at].pair for at in calls if at < blocks[at].pair < ctx.request.cut}
    envelope = yield from _undo_repairs(envelope, ctx, calls, theirs, params)
    for at in sorted({*select_within(ctx.index.results, spans), *theirs}):
        if _is_whole(envelope, ctx, at):
            continue
        if why := explain_stray(envelope, ctx, at):
            body = (Part("user", "text", f"{params.stray}\n{blocks[at].text}"),) if _holds_only_results(ctx, at) else ()
            envelope = yield Edit("repair", why, Span(at, at + 1), body, facts={"block": at, "call": blocks[at].pair})
        if blocks[at].pair >= 0:
            ends.add(messages[blocks[blocks[at].pair].message].stop - 1)
    for last in sorted(ends):
        envelope = yield from _add_results(envelope, ctx, last, params)
    if params.filler:
        envelope = yield from _add_fillers(envelope, ctx, spans, params)
    edit = build_opening_notice(envelope, ctx, params.notice) if params.begin and ctx.index.messages else None
    if edit is not None:
        yield edit


def _stands(envelope: Envelope, ctx: Ctx, span: Span) -> bool:
    """Whether a span at the end of a request needs no repair: what came is verbatim, and so is all that it belongs to."""
    last = envelope.chunks[-1].pieces[-1]
    if last.body is not None or not last.start <= span.start < span.stop == last.stop == ctx.request.cut:
        return False
    return last.start <= _recall_begin(ctx, span)


def _find_idle_start(ctx: Ctx, span: Span, params: Params) -> int:
    return -1 if params.filler or params.begin else _recall_begin(ctx, span)


def _recall_begin(ctx: Ctx, span: Span) -> int:
    """What `_find_begin` finds. Policies that keep what came with a request ask for the same."""
    known = _remember_begins(ctx)
    if span not in known:
        known[span] = _find_begin(ctx, span)
    return known[span]


@memoize
def _remember_begins(_session: Session, _index: Index) -> dict[Span, int]:
    """What `_find_begin` found, by span."""
    return {}


def _find_begin(ctx: Ctx, span: Span) -> int:
    """From where on a request must be verbatim for the calls and results at its end to be whole; -1 = they are not whole."""
    blocks, messages, begin = ctx.session.blocks, ctx.session.messages, span.start
    if find_duplicate_ids(ctx) or any(True for _ in select_within(find_invalid_inputs(ctx), [span])):
        return -1
    for at in (*select_within(ctx.index.calls, [span]), *select_within(ctx.index.results, [span])):
        pair = blocks[at].pair
        if not 0 <= pair < span.stop or blocks[pair].pair != at or abs(blocks[at].message - blocks[pair].message) != 1:
            return -1
        begin = min(begin, at, pair, messages[blocks[min(at, pair)].message].stop - 1)
    return begin


def _is_whole(envelope: Envelope, ctx: Ctx, at: int) -> bool:
    """Whether a call and its result are in neighbouring messages, each by itself, or are both dropped."""
    blocks, pair = ctx.session.blocks, ctx.session.blocks[at].pair
    if not 0 <= pair < ctx.request.cut or blocks[pair].pair != at or abs(blocks[at].message - blocks[pair].message) != 1:
        return False
    piece = envelope.find_piece(at)
    if piece.start <= pair < piece.stop and get_visible(piece) in (None, ()):
        return True
    last = ctx.session.messages[blocks[min(at, pair)].message].stop - 1
    return all(stands_alone(envelope, ctx, place) for place in (at, pair, last))


def _undo_repairs(envelope: Envelope, ctx: Ctx, calls: list[int], theirs: set[int], params: Params) -> RepairSteps:
    """Undo earlier repairs of calls that are sent again: results that became text, notices between calls."""
    session = ctx.session
    behind = {at for call in calls for at in range(call + 1, session.messages[session.blocks[call].message].stop)}
    for at in sorted(theirs | behind):
        piece = envelope.find_piece(at)
        text = piece.body[0].text if piece.body and piece.stop - piece.start == 1 else ""
        if at in behind and text == params.notice and piece.body:
            rest = piece.body[1:]
            why, bare = "the calls before it are sent again", len(rest) == 1 and rest[0].ref == at
            envelope = yield Edit("repair", why, Span(at, at + 1), () if bare else rest, restore=bare, facts={"block": at})
        elif at in theirs and text.startswith(f"{params.stray}\n") and is_sent(envelope, ctx, session.blocks[at].pair):
            envelope = yield Edit("repair", "the call of this result is sent again", Span(at, at + 1), restore=True)
    return envelope


def _holds_only_results(ctx: Ctx, result: int) -> bool:
    """Whether the newest message, which is never dropped, has only results."""
    blocks = ctx.session.blocks
    return result >= find_newest_message(ctx) and all(
        b.kind == "tool_result" and b.role == "user" for b in blocks[find_newest_message(ctx) : ctx.request.cut]
    )


def _rename_calls(envelope: Envelope, ctx: Ctx, spans: list[Span]) -> RepairSteps:
    """Give calls whose id an earlier call uses, and their results, a new id."""
    names = find_duplicate_ids(ctx)
    calls = [(at, "id", names[at]) for at in select_within(ctx.index.calls, spans) if at in names] if names else []
    pairs = [(at, ctx.session.blocks[at].pair) for at in select_within(ctx.index.results, spans)] if names else []
    for at, key, name in (*calls, *((at, "tool_use_id", names[call]) for at, call in pairs if call in names)):
        piece = envelope.find_piece(at)
        parts = piece.body if piece.body is not None else (Part(ctx.session.blocks[at].role, ctx.session.blocks[at].kind),)
        raw = as_mapping(parts[0].raw) or as_mapping(ctx.session.blocks[at].raw) if parts else {}
        if parts and not _is_text(parts[0]) and raw.get(key) != name and (piece.body is None or piece.stop - piece.start == 1):
            text = parts[0].text or ctx.session.blocks[at].text
            body = (structs.replace(parts[0], text=text, raw={**raw, key: name}, ref=None), *parts[1:])
            why = f"an earlier call has the id {raw.get(key)}"
            why = f"a provider rejects the id {raw.get(key)!r}" if is_invalid_id(raw.get(key)) else why
            envelope = yield Edit("repair", why, Span(at, at + 1), body, facts={"id": name})
    return envelope


def _repair_inputs(envelope: Envelope, ctx: Ctx, spans: list[Span]) -> RepairSteps:
    """Wrap a call's input that is no object in one."""
    for at in select_within(find_invalid_inputs(ctx), spans):
        piece, parts = get_parts(envelope, ctx, at)
        call = as_mapping(parts[0].raw) or as_mapping(ctx.session.blocks[at].raw) if parts else {}
        open_input = not isinstance(call.get("input"), Mapping)
        if parts and piece.stop - piece.start == 1 and open_input and not _is_text(parts[0]):
            arguments = call.get("input")
            raw = {**call, "input": {} if arguments is None else {"input": arguments}}
            body = (structs.replace(parts[0], text=extract_block_text("tool_use", raw), raw=raw, ref=None), *parts[1:])
            envelope = yield Edit("repair", "a call's input must be an object", Span(at, at + 1), body, facts={"block": at})
    return envelope


def _is_text(part: Part) -> bool:
    """Whether a part is a text in place of a call or result, without id and input."""
    return part.ref is None and part.kind not in ("tool_use", "tool_result")


def _add_results(envelope: Envelope, ctx: Ctx, last: int, params: Params) -> RepairSteps:
    """Add the results that are missing behind the message that ends with block `last`."""
    piece, parts = get_parts(envelope, ctx, last)
    ours = (
        [part for part in parts if part.role == "user" and part.kind == "tool_result"] if piece.stop - piece.start == 1 else []
    )
    base = tuple(part for part in parts if part not in ours)
    found = [*_find_missing_results(envelope, ctx, last, ours, params)]
    added, moved = [part for part, _ in found], [at for _, at in found if at is not None]
    if (*base, *added) == parts or (not added and piece.body is None):
        return envelope
    lacking = len(added) - len(moved)
    what = (
        f"{lacking} call{'s have' if lacking > 1 else ' has'} no result" if lacking else "a result comes after a later answer"
    )
    facts = {"added": lacking, "moved": len(moved)}
    span = Span(piece.start, piece.stop)
    if not added and len(base) == 1 and base[0].ref == last:
        return (yield Edit("repair", "the result is sent now", span, restore=True, facts=facts))  # type: ignore[no-any-return]
    envelope = yield Edit("repair", what if added else "the result is sent now", span, (*base, *added), facts=facts)
    for result in moved:
        if is_sent(envelope, ctx, result):
            envelope = yield Edit("repair", "this result moved to its call", Span(result, result + 1), (), facts=facts)
    return envelope


def _find_missing_results(
    envelope: Envelope, ctx: Ctx, last: int, ours: list[Part], params: Params
) -> Iterator[tuple[Part, int | None]]:
    """The results to add behind the message that ends with block `last`, with the address of one that is elsewhere."""
    blocks = ctx.session.blocks
    for call in range(ctx.session.messages[blocks[last].message].start, last + 1):
        if as_mapping(blocks[call].raw).get("type") != "tool_use" or not is_sent(envelope, ctx, call):
            continue
        name, result = get_call_id(envelope, ctx, call), find_result(envelope, ctx, call)
        if result is not None:
            if is_late(envelope, ctx, result):
                yield from ((part, result) for part in get_parts(envelope, ctx, result)[1])
            continue
        raw = {"type": "tool_result", "tool_use_id": name, "content": params.result}
        kept = [
            p
            for p in ours
            if (p.ref is not None and p.ref == blocks[call].pair) or as_mapping(p.raw).get("tool_use_id") == name
        ]
        yield (kept or [Part("user", "tool_result", params.result, raw)])[0], None


def _add_fillers(envelope: Envelope, ctx: Ctx, spans: list[Span], params: Params) -> RepairSteps:
    """Put a message of the other role between two messages of one role that may not be merged."""
    for at in iter_message_starts(ctx, spans):
        role, other = get_role(envelope, ctx, at), find_previous_message(envelope, ctx, at)
        fenced = [ctx.session.messages[ctx.session.blocks[a].message].fence for a in (at, other) if a is not None]
        if other is not None and role and role == get_role(envelope, ctx, other) and any(fenced):
            part = Part("assistant" if role == "user" else "user", "text", params.filler)
            why = f"two messages of the {role} are neighbours"
            envelope = yield Edit("repair", why, Span(at, at), (part,), slot="repair", facts={"block": at})
    return envelope


RULE = Rule(
    "repair",
    "Repair what a provider would reject: results without calls, calls without results, bad ids and inputs, a leading answer.",
    edits,
    Params,
    memory="monotone",
    source="what agents do before they send: Cline ensureToolResultsFollowToolUse (v3.89.2), Codex normalize.rs",
    idle_from=_find_idle_start,
)
