"""Jan's message building: drop empty answers, join neighbouring prompts, fail broken calls, put files into texts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_first_present
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.jan.messages import DONE, Unit, add_files, drop_images, join_messages, repair_calls
from turnscope.ports.jan.units import get_chat
from turnscope.ports.rows import memoize_by_ledger
from turnscope.reading.jan_threads import is_call
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Placeholder, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    vision: Annotated[bool, "the model sees images"] = True


@memoize_by_ledger
def _get_runs(_session: Session, _index: Index, _own: Ledger) -> dict[bool, list[tuple[int, int]]]:
    return {}


@memoize_by_ledger
def _get_bodies(_session: Session, _index: Index, _own: Ledger) -> dict[tuple[int, int, bool], Placeholder]:
    """Return the placeholders of the runs of messages that were changed as a whole."""
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


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request, for every run that is verbatim so far and must be changed."""
    talk = get_chat(ctx)
    there = bisect_left(talk.starts, ctx.request.cut)
    changed, bodies = _find_changed(ctx, params.vision), _get_bodies(ctx)
    begin = bisect_right(changed, find_first_present(envelope, talk.starts), key=itemgetter(1))
    for start, stop in changed[begin : bisect_left(changed, there, key=itemgetter(0))]:
        units = talk.units[start : min(stop, there)]
        units = [unit for unit in units if envelope.find_piece(unit.start).body is None]
        if not units:
            continue
        key, whole = (start, min(stop, there), params.vision), len(units) == min(stop, there) - start
        body = bodies[key] if whole and key in bodies else _build_body(units, params.vision)
        if whole:
            bodies[key] = body
        if body is None:
            continue
        because = "empty answers are dropped, prompts joined, broken calls fail, files and images are put into texts"
        stop_at = min(units[-1].stop, ctx.request.cut)
        envelope = yield Edit("repair" if body else "drop", because, Span(units[0].start, stop_at), body)


def _build_body(units: list[Unit], vision: bool) -> Placeholder:
    """Return the placeholder for messages; None if they are sent verbatim."""
    made = _join(units, vision)
    if made == [_copy_message(unit) for unit in units]:
        return None
    return tuple(part for message in made for part in _build_parts(message))


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
        failed = part["state"] == "output-error"
        output = part.get("errorText") if failed else part.get("output")
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
