"""Jan's message building: drop empty answers, join neighbouring prompts, fail broken calls, put files into texts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_first_present
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.jan.messages import DENIED, DONE, Unit, add_files, drop_images, join_messages, repair_calls
from turnscope.ports.jan.units import Chat, get_chat
from turnscope.ports.rows import memoize_by_ledger
from turnscope.reading.jan_threads import is_call
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    vision: Annotated[bool, "the model sees images"] = True


class _RunEdit(NamedTuple):
    """The edit of the messages `numbers` of a run, up to the block `end`. None: they are sent verbatim."""

    numbers: Sequence[int]
    end: int
    edit: Edit | None


@memoize_by_ledger
def _get_runs(_session: Session, _index: Index, _own: Ledger) -> dict[bool, list[tuple[int, int]]]:
    return {}


@memoize_by_ledger
def _get_edits(_session: Session, _index: Index, _own: Ledger) -> dict[tuple[int, bool], _RunEdit]:
    """Return the newest edit of each run, by its first message and `vision`.

    The rule is `fresh`, so each request wants them all again; only the run that grows, or that is cut into, needs another one.
    """
    return {}


def _find_changed(ctx: Ctx, vision: bool) -> list[tuple[int, int]]:
    """Return the runs of messages that are not sent verbatim, as numbers of their first message and of the one after them."""
    known = _get_runs(ctx)
    if vision not in known:
        found, units, number = [], get_chat(ctx).units, 0
        while number < len(units):
            stop = number + 1
            while stop < len(units) and len(join_messages([unit.message for unit in units[number : stop + 1]])) == 1:
                stop += 1
            if stop - number > 1 or _join([units[number]], vision) != [_copy_message(units[number])]:
                found.append((number, stop))
            number = stop
        known[vision] = found
    return known[vision]


def _copy_message(unit: Unit) -> dict[str, Any]:
    return {**unit.message, "parts": list(unit.message["parts"])}


def _join(units: list[Unit], vision: bool) -> list[dict[str, Any]]:
    files = [add_files(unit.message) for unit in units]
    return join_messages(repair_calls(drop_images(files, vision)))


@memoize_by_ledger
def _get_whole(_session: Session, _index: Index, _own: Ledger) -> dict[bool, list[Edit | None]]:
    """Return the edits of the first runs of `_find_changed`, of each as a whole, by `vision`."""
    return {}


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request, for every run that is verbatim so far and must be changed."""
    talk, known, vision = get_chat(ctx), _get_edits(ctx), params.vision
    there = bisect_left(talk.starts, ctx.request.cut)
    changed, whole = _find_changed(ctx, vision), _get_whole(ctx).setdefault(vision, [])
    at = bisect_right(changed, find_first_present(envelope, talk.starts), key=itemgetter(1))
    end, made = bisect_left(changed, there, key=itemgetter(0)), list[Edit | None]()
    while at < end:
        start, stop = changed[at]
        inside = envelope.find_piece(talk.starts[start])
        # Runs that end inside a verbatim piece, and before the newest message, are changed as for every other request.
        last = min(there - 1, bisect_left(talk.starts, inside.stop)) if inside.body is None else 0
        count = bisect_right(changed, last, key=itemgetter(1))
        whole += (_find_edit(talk, known, range(*run), ctx.request.cut, vision) for run in changed[len(whole) : count])
        if count > at:
            made += whole[at:count]
            at = count
            continue
        if numbers := _find_verbatim(envelope, inside, talk.starts, range(start, min(stop, there))):
            made.append(_find_edit(talk, known, numbers, ctx.request.cut, vision))
        at += 1
    if wanted := tuple(edit for edit in made if edit is not None):
        yield wanted


def _find_edit(
    talk: Chat, known: dict[tuple[int, bool], _RunEdit], numbers: Sequence[int], cut: int, vision: bool
) -> Edit | None:
    """Return the edit of these messages of a run."""
    start = numbers[0]
    end = min(talk.units[numbers[-1]].stop, cut)
    found = known.get((start, vision))
    if found is None or found.end != end or found.numbers != numbers:
        edit = _build_edit([talk.units[number] for number in numbers], end, vision)
        found = known[start, vision] = _RunEdit(numbers, end, edit)
    return found.edit


def _find_verbatim(envelope: Envelope, first: Piece, starts: Sequence[int], numbers: range) -> Sequence[int]:
    """Return the numbers of the messages that begin in a verbatim piece. `first` is the piece in which they begin."""
    if first.body is None and starts[numbers[-1]] < first.stop:
        return numbers
    found, piece = list[int](), first
    for number in numbers:
        if starts[number] >= piece.stop:
            piece = envelope.find_piece(starts[number])
        if piece.body is None:
            found.append(number)
    return tuple(found)


def _build_edit(units: list[Unit], end: int, vision: bool) -> Edit | None:
    """Return the edit of messages, up to the block `end`; None if they are sent verbatim."""
    made = _join(units, vision)
    if made == [_copy_message(unit) for unit in units]:
        return None
    body = tuple(part for message in made for part in _build_parts(message))
    because = "empty answers are dropped, prompts joined, broken calls fail, files and images are put into texts"
    return Edit("repair" if body else "drop", because, Span(units[0].start, end), body)


def _build_parts(message: dict[str, Any]) -> Iterator[Part]:
    results = []
    for part in message["parts"]:
        kind, text = part.get("type"), part.get("text") or ""
        if is_call(part):
            name = part.get("toolName") or str(kind).removeprefix("tool-")
            raw = {"type": "tool_use", "id": part.get("toolCallId"), "name": name, "input": part.get("input")}
            yield Part("assistant", "tool_use", name, raw)
            if part.get("state") in DONE:
                results.append(part)
        elif kind == "reasoning":
            yield Part("assistant", "thinking", text, {"type": "thinking", "thinking": text})
        elif kind == "file":
            yield Part(message["role"], "image", "", dict(part))
        elif kind == "text":
            yield Part(message["role"], "text", text, {"type": "text", "text": text})
    for part in results:
        failed = part["state"] != "output-available"
        output = (part.get("errorText") or DENIED) if failed else part.get("output")
        raw = {"type": "tool_result", "tool_use_id": part.get("toolCallId"), "content": output}
        raw |= {"is_error": True} if failed else {}
        yield Part("user", "tool_result", str(output), raw)


RULE = Rule(
    "join_turns",
    "Drop empty answers, join neighbouring prompts, and mark broken calls as failed.",
    edits,
    Params,
    "fresh",
    "janhq/jan 92eeab44, web-app/src/lib/custom-chat-transport.ts",
)
