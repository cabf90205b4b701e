"""Joins a session of a tool's own log with the same session as it passed a tap: one session, with what each of them lacks.

The recording has what was sent: system prompt, tools, bodies, side requests, failed attempts. The log has what the tool calls
its session: id, title, folder, the names of subagents, and what was said since the last request. Requests are matched by the id
of the answer; where the log has none, by what was billed, by the answer's text, and by the time. Where a request of the log has
no match, the two stay apart, and a note says so. The module knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from msgspec import structs

from turnscope.session.model import (
    BEGINS_MID_CONVERSATION,
    EXACT_REQUESTS,
    FROM_WIRE,
    PROMPT_PRIOR,
    SIDE,
    STATED_HIDDEN,
    Block,
    Message,
    Note,
    Request,
    Session,
)

CLOCK_SECONDS = 60.0  # by how much the time of a log may differ from that of the wire: some logs have that of the answer's end
_OF_THE_LOG = (STATED_HIDDEN, PROMPT_PRIOR, BEGINS_MID_CONVERSATION)  # facts about what a log lacks, which the wire has


@dataclass(frozen=True, slots=True)
class _Place:
    """A request and the session that holds it."""

    session: Session
    request: Request

    @property
    def mark(self) -> tuple[str, int]:
        return self.session.id, self.request.n

    @property
    def answer(self) -> str:
        """What the model wrote, without white space: tools store it differently."""
        blocks = self.session.blocks[self.request.cut : self.request.stop]
        return "".join("".join((block.name, *block.text.split())) for block in blocks if block.kind == "text")

    @property
    def billed(self) -> tuple[int, int] | None:
        used = self.request.usage
        return (used.prompt_tokens, used.output_tokens) if used else None

    @property
    def was_answered(self) -> bool:
        """Whether a model answered it. Some tools write an answer of their own in the place of one that failed."""
        return self.request.stop > self.request.cut if self.billed is None else any(self.billed)


Pairs = dict[tuple[str, int], _Place]
"""The recorded request of each request of a log that was found: by session and number."""


def join_recording(log: Session, recorded: Iterable[Session], where: Sequence[str]) -> Session:
    """Join a session of a log with its recording; the session as it is, with a note, where that is in doubt.

    Args:
        log: The session of the tool's own log.
        recorded: Sessions that passed a tap. Those that share no request with it count for nothing.
        where: Names of the recordings.
    """
    own = [place for place in _list_places(log) if place.was_answered]
    found = [(wire, _pair(own, [*_list_places(wire)])) for wire in recorded]
    wire, pairs = max(found, key=lambda each: len(each[1]), default=(None, {}))
    if wire is None or not pairs:
        return log
    if doubt := _find_doubt(log, wire, own, pairs):
        note = Note("info", 0, f"what a tap recorded of this session ({', '.join(where)}) stays apart: {doubt}")
        return structs.replace(log, notes=(*log.notes, note))
    return _join(log, wire, pairs, where)


def _list_places(session: Session) -> Iterator[_Place]:
    for request in session.requests:
        yield _Place(session, request)
    for below in session.subagents:
        yield from _list_places(below)


def _pair(own: Sequence[_Place], sent: Sequence[_Place]) -> Pairs:
    """Pair the requests of a log with those that were sent, each with one."""
    by_id = {place.request.id: place for place in sent if place.request.id}
    pairs = {place.mark: by_id[place.request.id] for place in own if place.request.id in by_id}
    taken = {place.mark for place in pairs.values()}
    for session in {place.session.id: None for place in own}:
        left = [place for place in own if place.session.id == session and place.mark not in pairs]
        for other in {place.session.id: None for place in sent}:
            free = [place for place in sent if place.session.id == other and place.mark not in taken and place.was_answered]
            for one, place in _pair_in_order([each for each in left if each.mark not in pairs], free):
                pairs[one.mark] = place
                taken.add(place.mark)
    return pairs


def _pair_in_order(own: Sequence[_Place], sent: Sequence[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Pair the requests of one conversation with those of another one that were billed and answered the same, in order."""
    if not own or not sent:
        return
    billed = any(place.billed for place in own)
    first, second = ([(place.billed if billed else None, place.answer) for place in places] for places in (own, sent))
    for at, other, size in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        for one, place in zip(own[at : at + size], sent[other : other + size], strict=True):
            if _is_near(one.request, place.request):
                yield one, place


def _is_near(own: Request, sent: Request) -> bool:
    """Whether a request of a log was sent when a recorded one was, as far as both say when."""
    if own.sent_at is None or sent.sent_at is None:
        return True
    return sent.sent_at - CLOCK_SECONDS <= own.sent_at <= (sent.answered_at or sent.sent_at) + CLOCK_SECONDS


def _find_doubt(log: Session, wire: Session, own: Sequence[_Place], pairs: Pairs) -> str:
    """Why a log and a recording cannot be one session; "" = they can."""
    if missing := sum(place.mark not in pairs for place in own):
        return f"{missing:,} of the {len(own):,} answered requests in the tool's log did not pass the tap, or cannot be matched"
    if log.forks:
        return "the tool's log has branches, and the recording holds them as one conversation"
    main = [pairs[place.mark] for place in own if place.session.id == log.id]
    whole = [place.request.n for place in main if place.session.id == wire.id]
    if any(place.session.id != wire.id and not place.session.about.get(SIDE) for place in main) or not whole:
        return "the recording holds requests of this conversation in another one"
    if whole != sorted(whole):
        return "the requests are in another order there"
    return ""


def _join(log: Session, wire: Session, pairs: Pairs, where: Sequence[str]) -> Session:
    """One session of both: the recording's timeline under the log's name."""
    of = {place.mark: mark for mark, place in pairs.items()}
    known = {place.mark: place.request for place in _list_places(log)}
    agents = {below.id: below for below in _list_below(log)}
    below = []
    for one in wire.subagents:
        named = next((of[(one.id, request.n)][0] for request in one.requests if (one.id, request.n) in of), "")
        below.append(_fill(agents.get(named), one, of, known, log.id))
    main = _fill(log, wire, of, known, log.parent)
    side = sum(len(one.requests) for one in wire.subagents if one.about.get(SIDE))
    unlogged = sum(len(one.requests) for one in (wire, *wire.subagents)) - len(pairs)
    facts = {"recordings": [*where], "session": wire.id, "matched": len(pairs), "unlogged": unlogged, "side": side}
    bodies = "the body of its one request" if len(pairs) == 1 else f"the bodies of its {len(pairs):,} requests"
    what = f"from the wire, as a tap recorded it ({', '.join(where)}): system prompt, tools and {bodies}"
    more = f", and {unlogged:,} that the tool's log does not have" if unlogged else ""
    notes = (*log.notes, *(structs.replace(note, line=0) for note in wire.notes), Note("info", 0, what + more))
    about = {**main.about, FROM_WIRE: facts}
    joined = structs.replace(main, about=about, notes=notes, subagents=tuple(below))
    ends = bool(log.requests) and of.get((wire.id, wire.requests[-1].n)) == (log.id, log.requests[-1].n)
    return _add_rest(joined, log) if ends else joined


def _list_below(session: Session) -> Iterator[Session]:
    for below in session.subagents:
        yield below
        yield from _list_below(below)


def _fill(
    log: Session | None,
    wire: Session,
    of: dict[tuple[str, int], tuple[str, int]],
    known: dict[tuple[str, int], Request],
    parent: str,
) -> Session:
    """A recorded conversation with what the log says of it; as it was recorded, where the log does not have it.

    Args:
        log: The conversation in the log.
        wire: The recorded one.
        of: The request of the log for each recorded one.
        known: The requests of the log.
        parent: Id of the session above.
    """
    if log is None:
        return structs.replace(wire, parent=parent)
    requests = tuple(
        _fill_request(known[of[(wire.id, each.n)]], each) if (wire.id, each.n) in of else each for each in wire.requests
    )
    about = {key: value for key, value in log.about.items() if key not in _OF_THE_LOG}
    about |= wire.about
    about[EXACT_REQUESTS] = {"requests": len(requests), "proven": 0, "bodies": len(requests)}
    return structs.replace(
        wire,
        id=log.id,
        title=log.title or wire.title,
        source=log.source,
        requests=requests,
        notes=log.notes,
        about=about,
        window=wire.window if log.window is None else log.window,
        recorded=log.recorded,
        parent=parent,
    )


def _fill_request(own: Request, sent: Request) -> Request:
    """A recorded request with what the log alone knows of it. An id of the wire stays: it is counted once by it."""
    return structs.replace(
        sent,
        id=sent.id or own.id,
        usage=sent.usage or own.usage,
        logged_usd=own.logged_usd if sent.logged_usd is None else sent.logged_usd,
        window=sent.window or own.window,
        applied=sent.applied or own.applied,
        cache_miss=sent.cache_miss or own.cache_miss,
    )


def _add_rest(joined: Session, log: Session) -> Session:
    """Add what was said since the last request, which both have: no request has sent it yet."""
    last, end = log.requests[-1], joined.requests[-1]
    rest = log.blocks[last.stop :]
    if not rest or len(joined.blocks) != end.stop:
        return joined
    by, more, turns = len(joined.blocks) - last.stop, len(joined.messages) - rest[0].message, end.turn - last.turn
    calls = {_read_call(block): block.at for block in joined.blocks[end.cut :] if block.kind == "tool_use"}
    blocks = [_shift(block, last.stop, by, more, turns, calls) for block in rest]
    messages = tuple(_shift_message(each, by) for each in log.messages[rest[0].message :])
    pairs = {block.pair: block.at for block in blocks if 0 <= block.pair < len(joined.blocks)}
    linked = (structs.replace(each, pair=pairs[each.at]) if each.at in pairs else each for each in joined.blocks)
    return structs.replace(joined, blocks=(*linked, *blocks), messages=(*joined.messages, *messages))


def _shift(block: Block, start: int, by: int, messages: int, turns: int, calls: dict[str, int]) -> Block:
    pair = block.pair + by if block.pair >= start else calls.get(_read_call(block), -1) if block.pair >= 0 else -1
    return structs.replace(block, at=block.at + by, message=block.message + messages, turn=block.turn + turns, pair=pair)


def _shift_message(message: Message, by: int) -> Message:
    return structs.replace(message, start=message.start + by, stop=message.stop + by)


def _read_call(block: Block) -> str:
    """The id of a call, of the call itself or of its result."""
    raw = block.raw
    found = (raw.get("tool_use_id") or raw.get("id")) if isinstance(raw, dict) else ""
    return found if isinstance(found, str) else ""
