"""The beginning of a session as a session of its own: what a fork shares, and what it needs to continue.

Blocks keep their addresses, so all shared requests are planned as they were. The module holds no policy and no storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from msgspec import structs

from turnscope.session.model import FORKED, JSON, Block, Message, Session, list_fork_points
from turnscope.session.timeline import link_pair, make_block

NO_RESULT = "[This conversation was forked before the tool answered.]"


def truncate_session(session: Session, at: int, requests: int | None = None) -> Session:
    """Keep the first blocks of a session, and the requests that were complete by then. Nothing points past its end.

    Args:
        session: The session.
        at: How many blocks to keep.
        requests: Keep at most so many requests; None = all that fit.
    """
    shared = tuple(takewhile(lambda r: r.stop <= at, session.requests[:requests]))
    return structs.replace(
        session,
        blocks=tuple(structs.replace(b, pair=-1) if b.pair >= at else b for b in session.blocks[:at]),
        messages=tuple(structs.replace(m, stop=min(m.stop, at)) for m in session.messages if m.start < at),
        requests=shared,
        observed=tuple(o for o in session.observed if o.request < len(shared)),
        subagents=(),
        forks=(),
    )


def add_fork_points(about: Mapping[str, JSON], parent: Session) -> Mapping[str, JSON]:
    """Return what a branch says about itself, with where the paths before it left others.

    Args:
        about: What it says otherwise.
        parent: The session that it leaves.
    """
    points = list_fork_points(parent)
    return {**about, FORKED: [*points]} if points else {key: value for key, value in about.items() if key != FORKED}


def fork_session(session: Session, request: int) -> Session:
    """Make the session that a branch starts from, so that request `request` can be sent differently.

    Calls of the newest answer whose results came later, or never, get a text that says so: no provider accepts a request with
    open calls. These results follow the answer directly, unless a shared request continued from there.

    Args:
        session: The session to fork.
        request: Number of the request that the branch replaces.

    Raises:
        IndexError: The session has no such request.
    """
    cut = session.requests[request].cut
    start = structs.replace(
        truncate_session(session, cut, request),
        id=f"{session.id}@{request}",
        parent=session.id,
        at=cut,
        about=add_fork_points(session.about, session),
    )
    last = next((m for m in reversed(start.messages) if m.role == "assistant"), None)
    calls = [b for b in start.blocks[last.start : last.stop] if b.pair < 0 and _is_client_call(b)] if last else []
    if last is None or not calls:
        return start
    place = max((last.stop, *(r.stop for r in start.requests)))
    results: list[JSON] = [
        {"type": "tool_result", "tool_use_id": call.raw.get("id"), "content": NO_RESULT, "is_error": True} for call in calls
    ]
    return _insert_results(start, place, calls, results)


def _is_client_call(block: Block) -> bool:
    """Whether the caller answers this call. A provider answers calls of its own tools inside the answer."""
    return block.kind == "tool_use" and block.raw.get("type") == "tool_use"


def _insert_results(session: Session, place: int, calls: Sequence[Block], results: Sequence[JSON]) -> Session:
    """Insert a message of results at address `place`, where a message begins. Later blocks are shifted."""
    ordinal = next((i for i, m in enumerate(session.messages) if m.start >= place), len(session.messages))
    far = len(results)
    added = [make_block(place + i, ordinal, calls[0].turn, "user", "", raw) for i, raw in enumerate(results)]
    blocks = [*session.blocks[:place], *added]
    for block in session.blocks[place:]:
        pair = block.pair + far if block.pair >= place else block.pair
        blocks.append(structs.replace(block, at=block.at + far, message=block.message + 1, pair=pair))
    for at, block in enumerate(session.blocks[:place]):
        if block.pair >= place:
            blocks[at] = structs.replace(block, pair=block.pair + far)
    for call, result in zip(calls, added, strict=True):
        blocks[call.at], blocks[result.at] = link_pair(call, result)
    moved = (structs.replace(m, start=m.start + far, stop=m.stop + far) for m in session.messages[ordinal:])
    message = Message(place, place + far, "user", "tool")
    return structs.replace(session, blocks=tuple(blocks), messages=(*session.messages[:ordinal], message, *moved), at=place)
