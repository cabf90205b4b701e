"""LobeHub's preparation of messages: templates, images and names take their sent form, and each result follows its call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_first_present
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import build_parts
from turnscope.ports.lobechat.prompt import parse_variables
from turnscope.ports.lobechat.shaping import FINISH, Made, Shape, prepare_messages
from turnscope.ports.lobechat.stored import Topic, are_same, find_stretch, get_topic
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    template: Annotated[str, 'what every text of the user goes into, at {{text}}; "" = as it is'] = ""
    variables: Annotated[tuple[str, ...], "what stands for {{name}}, as name=text"] = ()
    calling: Annotated[bool, "the model calls functions"] = True
    vision: Annotated[bool, "the model sees images"] = True
    files: Annotated[bool, "list attached files and images in the text"] = True
    disabled: Annotated[tuple[str, ...], "tools whose calls are not sent, by identifier"] = ()
    last_step: Annotated[bool, "the step limit is reached: a system message ends the request"] = False


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[Shape, tuple[int, ...]]:
    """Return the numbers of the stretches that are not sent verbatim once they are complete, by what shapes them."""
    return {}


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request, for every stretch that is not sent verbatim, and for its first and last stretch."""
    found, variables = get_topic(ctx), tuple(parse_variables(params.variables).items())
    shape = Shape(params.template, variables, params.calling, params.vision, params.files, params.disabled)
    known = _memo(ctx)
    if shape not in known:
        known[shape] = tuple(_find_changed(found, shape))
    there = bisect_left(found.starts, ctx.request.cut)
    first = find_first_present(envelope, found.starts)
    last, begin = find_stretch(found, there - 1), find_stretch(found, first)
    odd = known[shape][bisect_left(known[shape], begin) : bisect_left(known[shape], last)]
    for number in sorted({*odd, begin, last}) if first < there else ():
        numbers = [n for n in _get_numbers(found, number, there) if found.units[n].stop <= ctx.request.cut]
        for edit in _build_edits(found, [n for n in numbers if envelope.find_piece(found.starts[n]).body is None], shape):
            envelope = yield edit
    if params.last_step:
        place = Span(ctx.request.cut, ctx.request.cut)
        part = Part("system", "text", FINISH, fence=True)
        yield Edit("insert", "the step limit is reached", place, (part,), slot="last step")


def _find_changed(found: Topic, shape: Shape) -> Iterator[int]:
    for number in range(len(found.cuts)):
        if any(_build_edits(found, [*_get_numbers(found, number, len(found.units))], shape)):
            yield number


def _get_numbers(found: Topic, number: int, there: int) -> range:
    """Return the messages of a stretch that exist so far."""
    stop = found.cuts[number + 1] if number + 1 < len(found.cuts) else there
    return range(found.cuts[number], min(stop, there))


def _build_edits(found: Topic, numbers: list[int], shape: Shape) -> Iterator[Edit]:
    """Return the edits of messages that belong together. Each changed message keeps its place; results follow their call."""
    units = [found.units[n] for n in numbers]
    rows: dict[int, list[Any]] = {}
    behind: list[tuple[int, Made]] = []
    at = -1
    for made in prepare_messages([unit.message for unit in units], shape):
        grouped = at >= 0 and len(found.plain[numbers[at]]) > 1
        if made.of in (at, at + 1) or (made.of > at and made.message["role"] != "tool") or (grouped and made.of < 0):
            at = max(at, made.of)
            rows.setdefault(at, []).append(made.message)
        else:
            behind.append((at, made))
    for number, unit in enumerate(units):
        if unit.message["role"] == "system":
            continue
        sent = rows.get(number, [])
        if not sent:
            yield Edit("drop", "it is not sent, or it follows its call", Span(unit.start, unit.stop))
        elif not are_same(sent, found.plain[numbers[number]]):
            because = "it is sent in the app's form: template, variables, images, names"
            yield Edit("repair", because, Span(unit.start, unit.stop), tuple(build_parts(sent)))
    for count, (at, made) in enumerate(behind):
        place, because = units[at].stop, "a result follows its call" if made.of >= 0 else "the call has no result"
        yield Edit("insert", because, Span(place, place), tuple(build_parts([made.message])), slot=f"result {count}")


RULE = Rule(
    "send_prepared",
    "Send stored messages in the app's form, each result after its call. A missing result counts as a failure.",
    edits,
    Params,
    "fresh",
    "lobehub 2.2.10, packages/context-engine: engine/messages/MessagesEngine.ts and its processors",
)
