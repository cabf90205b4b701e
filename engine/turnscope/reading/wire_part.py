"""Puts the requests of a tool's log that no tap saw around those that one did: a session that was tapped only in part.

The body that was recorded first holds what was said before it, so the requests before it find their answers there. What came
after the last one is the log's own. Neither was recorded: system prompt and tools of these requests are taken to be those of
the recorded ones, and they are marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from turnscope.session.model import EXACT_REQUESTS, Block, Message, Request, Session


def find_answers(recorded: Session, log: Session, before: Sequence[Request]) -> list[Request] | None:
    """Find the answers of earlier requests in the body that was recorded first. None where one of them is not in it.

    Args:
        recorded: The recorded conversation.
        log: The conversation in the log.
        before: Its requests before the first recorded one.

    Returns:
        These requests, with the places of their answers in the recorded conversation.
    """
    end = recorded.requests[0].cut
    answers = (each for each in reversed(recorded.messages) if each.role == "assistant" and each.stop <= end)
    placed: list[Request] = []
    for request in reversed(before):
        if request.stop > request.cut:
            wanted = _outline(log.blocks[request.cut : request.stop])
            found = next((each for each in answers if _outline(recorded.blocks[each.start : each.stop]) == wanted), None)
            if found is None:
                return None
            end = found.start
            placed.append(structs.replace(request, cut=end, stop=found.stop, turn=recorded.blocks[end].turn))
        else:
            placed.append(structs.replace(request, cut=end, stop=end))
    return placed[::-1]


def _outline(blocks: Sequence[Block]) -> list[str]:
    """What the model wrote and which tools it called, without what tools store differently."""
    return [
        "".join(each.text.split()) if each.kind == "text" else each.name for each in blocks if each.kind in ("text", "tool_use")
    ]


def add_rest(joined: Session, log: Session, last: Request, after: Sequence[Request] = ()) -> Session:
    """Add what was said since the last recorded request, and the requests that sent it.

    Args:
        joined: The recorded conversation.
        log: The conversation in the log.
        last: The last recorded request, as the log has it.
        after: The requests of the log after it.
    """
    end, rest = joined.requests[-1], log.blocks[last.stop :]
    if not rest or len(joined.blocks) != end.stop:
        return joined
    by, more, turns = len(joined.blocks) - last.stop, len(joined.messages) - rest[0].message, end.turn - last.turn
    calls = {_read_call(block): block.at for block in joined.blocks[end.cut :] if block.kind == "tool_use"}
    blocks = [_shift(block, last.stop, by, more, turns, calls) for block in rest]
    messages = tuple(_shift_message(each, by) for each in log.messages[rest[0].message :])
    pairs = {block.pair: block.at for block in blocks if 0 <= block.pair < len(joined.blocks)}
    linked = (structs.replace(each, pair=pairs[each.at]) if each.at in pairs else each for each in joined.blocks)
    sent = (structs.replace(each, cut=each.cut + by, stop=each.stop + by, turn=each.turn + turns) for each in after)
    requests, messages = (*joined.requests, *sent), (*joined.messages, *messages)
    return structs.replace(joined, blocks=(*linked, *blocks), messages=messages, requests=requests)


def number_requests(joined: Session, before: Sequence[Request], after: int) -> Session:
    """Put earlier requests before the recorded ones, number all anew, and mark those that were not recorded.

    Args:
        joined: The recorded conversation, with the requests after it.
        before: The requests before it.
        after: How many of its own came after.
    """
    whole = (*before, *joined.requests)
    requests = tuple(structs.replace(each, n=n) for n, each in enumerate(whole))
    observed = tuple(structs.replace(each, request=each.request + len(before)) for each in joined.observed)
    recorded = len(joined.requests) - after
    unseen = [*range(len(before)), *range(len(before) + recorded, len(whole))]
    exact = {"requests": recorded, "proven": 0, "bodies": recorded, "inferred": unseen}
    return structs.replace(joined, requests=requests, observed=observed, about={**joined.about, EXACT_REQUESTS: exact})


def list_cuts(log: Session, first: Request, last: Request) -> Iterator[int]:
    """List the requests outside of a range at which the log says that the prompt was cut.

    Args:
        log: The conversation in the log.
        first: The first request of the range.
        last: The last one.
    """
    yield from (each.request for each in log.observed if not first.n < each.request <= last.n)


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
