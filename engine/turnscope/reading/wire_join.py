"""Joins a session of a tool's own log with the same session as it passed a tap: one session, with what each of them lacks.

The recording has what was sent: system prompt, tools, bodies, side requests, failed attempts. The log has what the tool calls
its session: id, title, folder, the names of subagents, and what was said since the last request. Requests are matched by the id
of the answer; where the log has none, by what was billed, by the answer's text, and by the time. Requests of the log that did
not pass are put before and after those that did. Where that is in doubt, the two stay apart, and a note says so. The module
knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from msgspec import structs

from turnscope.reading.wire_part import add_rest, find_answers, list_cuts, number_requests
from turnscope.session.model import (
    BEGINS_MID_CONVERSATION,
    EXACT_REQUESTS,
    FROM_WIRE,
    PROMPT_PRIOR,
    SIDE,
    STATED_HIDDEN,
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
    if log.forks:
        return "the tool's log has branches, and the recording holds them as one conversation"
    main = [pairs[place.mark] for place in own if place.session.id == log.id and place.mark in pairs]
    whole = [place.request.n for place in main if place.session.id == wire.id]
    if any(place.session.id != wire.id and not place.session.about.get(SIDE) for place in main) or not whole:
        return "the recording holds requests of this conversation in another one"
    if whole != sorted(whole):
        return "the requests are in another order there"
    missing = sum(place.mark not in pairs for place in own)
    if missing and (why := _find_gap(log, wire, own, pairs)):
        what = f"{missing:,} of the {len(own):,} answered requests in the tool's log"
        return f"{what} did not pass the tap, or cannot be matched{why}"
    return ""


def _find_gap(log: Session, wire: Session, own: Sequence[_Place], pairs: Pairs) -> str:
    """Why what a tap saw is no part of a session that others can be put around; "" = it is."""
    for session in {place.session.id: None for place in own}:
        seen = [place.mark in pairs for place in own if place.session.id == session]
        if True in seen and not all(seen[seen.index(True) : len(seen) - seen[::-1].index(True)]):
            return ", others before and behind them did"
        if session != log.id and len({*seen}) > 1:
            return ", a subagent's among them"
    first, last = _find_range(log, pairs)
    if [*list_cuts(log, first, last)]:
        return ", and the prompt was cut before or after what did"
    if find_answers(wire, log, log.requests[: first.n]) is None:
        return ", and the first recorded body does not hold what was answered before"
    if last.n + 1 < len(log.requests) and pairs[log.id, last.n].mark != (wire.id, wire.requests[-1].n):
        return ", and the recording goes on where the log does not"
    return ""


def _find_range(log: Session, pairs: Pairs) -> tuple[Request, Request]:
    """The first and the last request of a log's own conversation that was recorded."""
    seen = [request for request in log.requests if (log.id, request.n) in pairs]
    return seen[0], seen[-1]


def _join(log: Session, wire: Session, pairs: Pairs, where: Sequence[str]) -> Session:
    """One session of both: the recording's timeline under the log's name."""
    of = {place.mark: mark for mark, place in pairs.items()}
    known = {place.mark: place.request for place in _list_places(log)}
    agents = {below.id: below for below in _list_below(log)}
    below = []
    for one in wire.subagents:
        named = next((of[(one.id, request.n)][0] for request in one.requests if (one.id, request.n) in of), "")
        below.append(_fill(agents.get(named), one, of, known, log.id))
    unseen_ones = [one for one in log.subagents if _is_unseen(one, pairs)]
    below += [structs.replace(one, at=-1) for one in unseen_ones]
    main = _fill(log, wire, of, known, log.parent)
    side = sum(len(one.requests) for one in wire.subagents if one.about.get(SIDE))
    unlogged = sum(len(one.requests) for one in (wire, *wire.subagents)) - len(pairs)
    facts = {"recordings": [*where], "session": wire.id, "matched": len(pairs), "unlogged": unlogged, "side": side}
    joined = _add_unseen(main, wire, log, pairs)
    unseen = len(joined.requests) - len(main.requests)
    bodies = "the body of its one request" if len(pairs) == 1 else f"the bodies of its {len(pairs):,} requests"
    bodies = f"the bodies of {len(pairs):,} requests" if unseen else bodies
    what = f"from the wire, as a tap recorded it ({', '.join(where)}): system prompt, tools and {bodies}"
    more = f", and {unlogged:,} that the tool's log does not have" if unlogged else ""
    more += f"; what {unseen:,} others sent that did not pass the tap is inferred" if unseen else ""
    notes = (*log.notes, *(structs.replace(note, line=0) for note in wire.notes), Note("info", 0, what + more))
    about = {**joined.about, FROM_WIRE: {**facts, "unseen": unseen}}
    return structs.replace(joined, about=about, notes=notes, subagents=tuple(below))


def _add_unseen(main: Session, wire: Session, log: Session, pairs: Pairs) -> Session:
    """Add what the log alone has: requests before and after those that were recorded, and what was said since."""
    first, last = _find_range(log, pairs)
    if not _is_unseen(log, pairs):
        ends = last is log.requests[-1] and pairs[log.id, last.n].mark == (wire.id, wire.requests[-1].n)
        return add_rest(main, log, last) if ends else main
    before, after = find_answers(wire, log, log.requests[: first.n]) or [], log.requests[last.n + 1 :]
    if pairs[log.id, last.n].mark == (wire.id, wire.requests[-1].n):
        main = add_rest(main, log, last, after)
    return number_requests(main, before, len(after))


def _is_unseen(log: Session, pairs: Pairs) -> bool:
    """Whether a conversation has an answered request that did not pass the tap."""
    return any(place.was_answered and place.mark not in pairs for place in (_Place(log, one) for one in log.requests))


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
