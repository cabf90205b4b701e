"""Reading the conversation for rules: where it may be cut, how much of it fits, which of its blocks can be replaced.

Pure functions of a session, its index and an envelope, each in O(log n + size of the result). They yield no edits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, TypeVar

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.session.content import extract_block_text, extract_text
from turnscope.session.index import Index, count_before
from turnscope.session.model import Block, Part, Session, Span

T = TypeVar("T")
_PATHS = ("file_path", "path", "filePath", "target_file", "filename", "file", "absolute_path")  # of the agents' own tools
_REMEMBERED = 2  # sessions whose results are cached: the one shown, and the one it is compared with


def memoize(read: Callable[[Session, Index], T]) -> Callable[[Ctx], T]:
    """Decorate a pure function of a whole session, so that it runs once for all replays of the session.

    A rule that uses the result looks only at addresses below its request's cut.
    """
    known: dict[int, tuple[object, T]] = {}  # by id; the object is held, so its id is not reused

    def recall(ctx: Ctx) -> T:
        shared = ctx.index.shared
        found = known.get(id(shared))
        if found is None or found[0] is not shared:
            found = (shared, read(ctx.session, ctx.index))
            while len(known) >= _REMEMBERED:
                known.pop(next(iter(known), 0), None)
            known[id(shared)] = found
        return found[1]

    return recall


@memoize
def find_signed_thinking(session: Session, index: Index) -> tuple[int, ...]:
    """Addresses of thinking blocks as a provider knows them. Thinking between tags is text to a provider.

    Args:
        session: The session.
        index: Its index.
    """
    return tuple(at for at in index.thinking if not session.blocks[at].in_tags)


@memoize
def _find_open_results(session: Session, index: Index) -> tuple[int, ...]:
    """For each message: the first result at or behind its start that answers an earlier call; else the end."""
    links = sorted((block.pair, at) for at in index.results if 0 <= (block := session.blocks[at]).pair < at)
    open_results: list[int] = []
    parted, next_link = [], 0
    for start in index.messages:
        while next_link < len(links) and links[next_link][0] < start:
            heappush(open_results, links[next_link][1])
            next_link += 1
        while open_results and open_results[0] < start:
            heappop(open_results)
        parted.append(open_results[0] if open_results else len(session.blocks))
    return tuple(parted)


def find_start(ctx: Ctx, at: int, prompt: bool = False, answer: bool = False) -> int:
    """Return the first message at or after `at` from which the request can begin: every later result has its call.

    The newest message always stays. If no start at or after `at` works, the last one before it that works is returned.

    Args:
        ctx: What the rule may read.
        at: Address from which a start is searched.
        prompt: Prefer the next turn's prompt, if there is one.
        answer: A user's message precedes the kept part, so it may begin with an answer. Otherwise a single answer in front of a
            user's message is skipped.
    """
    cut, messages, blocks = ctx.request.cut, ctx.index.messages, ctx.session.blocks
    last = count_before(messages, cut) - 1
    if last < 0:
        return cut
    parted = _find_open_results(ctx)
    place = min(bisect_left(messages, at), last)
    if prompt:
        for turn in ctx.index.turns[bisect_left(ctx.index.turns, messages[place]) : count_before(ctx.index.turns, cut)]:
            if parted[bisect_left(messages, turn)] >= cut:
                return turn
    here = place
    while here <= last and parted[here] < cut:  # every start up to that result lacks the same call
        here = bisect_right(messages, parted[here])
    if here <= last:
        follows = here < last and parted[here + 1] >= cut and blocks[messages[here + 1]].role == "user"
        lone = blocks[messages[here]].role != "user" and follows and not answer
        return messages[here + 1] if lone else messages[here]
    while place > 0 and parted[place] < cut:
        place = bisect_right(messages, blocks[parted[place]].pair) - 1
    return messages[place]


def find_head_end(ctx: Ctx, count: int) -> int:
    """Return where the first `count` messages end; fewer messages, if one of them calls a tool whose result comes later.

    Args:
        ctx: What the rule may read.
        count: Number of messages.
    """
    parted, starts = _find_open_results(ctx), ctx.index.messages
    there = count_before(starts, ctx.request.cut)
    count = min(count, there)
    while 0 < count < there and parted[count] < ctx.request.cut:
        count -= 1
    return starts[count] if count < there else ctx.request.cut


def get_previous_cut(ctx: Ctx) -> int:
    """Return the address of the first block that the previous plan did not have."""
    return ctx.previous.request.cut if ctx.previous else 0


def find_newest_message(ctx: Ctx) -> int:
    """Return the start of the newest message of the request."""
    there = count_before(ctx.index.messages, ctx.request.cut)
    return ctx.index.messages[there - 1] if there else ctx.request.cut


def find_droppable(ctx: Ctx, envelope: Envelope, start: int, stop: int) -> Iterator[Span]:
    """Yield the conversation in `[start, stop)` that is still sent, as spans that cut no placeholder in two.

    Args:
        ctx: What the rule may read.
        envelope: The request as it stands.
        start: Address of the first block.
        stop: Address behind the last block.
    """
    if start < stop:
        first = envelope.find_piece(start)
        start = first.stop if first.body and first.start < start else start
        end = envelope.find_piece(stop) if stop < envelope.stop else None
        stop = end.start if end and end.body and end.start < stop else stop
    for span in ctx.index.find_conversation_spans(start, stop) if start < stop else ():
        piece = envelope.find_piece(span.start)
        if piece.body != () or piece.stop < span.stop:
            yield span


def find_first_present(envelope: Envelope, starts: Sequence[int]) -> int:
    """Return the number of the first message that is still sent, at least in part; len(starts) where none is.

    Args:
        envelope: The request as it stands.
        starts: Addresses at which the messages begin.
    """
    for chunk in envelope.chunks:
        for piece in chunk.pieces if chunk.is_sent else ():
            if piece.body != () and piece.start < piece.stop:
                number = bisect_left(starts, piece.start)
                if number < len(starts) and starts[number] < piece.stop:
                    return number
    return len(starts)


@memoize
def sum_characters(session: Session, _index: Index) -> tuple[int, ...]:
    """Return the characters of all blocks before each block, and of all of them."""
    return tuple(accumulate((len(block.text) for block in session.blocks), initial=0))


def find_replaceable(envelope: Envelope, at: int) -> Piece | None:
    """Return the piece of block `at` if the block can be replaced on its own, else None.

    It can if it is sent verbatim, or has a placeholder of its own.

    Args:
        envelope: The request as it stands.
        at: Address of the block.
    """
    piece = envelope.find_piece(at)
    return piece if piece.body is None or (piece.body and piece.start == at and piece.stop == at + 1) else None


def count_static_tokens(envelope: Envelope, ctx: Ctx) -> int:
    """Return the tokens of system prompt and tools in an envelope, in the policy's own units.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    if ctx.own is ctx.ledger:
        return envelope.counts[0] + envelope.counts[1]
    return sum(sum(ctx.count_chunk(chunk)[:2]) for chunk in envelope.chunks)


def count_conversation_tokens(envelope: Envelope, ctx: Ctx, stop: int) -> int:
    """Return the tokens of the conversation before `stop`, in the policy's own units.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        stop: An address that cuts no piece in two.
    """
    first = ctx.index.messages[0]
    return sum(_count_conversation(piece, ctx) for piece in envelope.iter_pieces(Span(first, stop))) if first < stop else 0


def find_fitting_start(envelope: Envelope, ctx: Ctx, room: int) -> int:
    """Return the lowest address from which the conversation has at most `room` tokens. Verbatim runs are searched by bisection.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        room: Tokens in the policy's own units.
    """
    at = envelope.stop
    for chunk in reversed(envelope.chunks):
        if (talk := sum(ctx.count_chunk(chunk)[2:])) <= room:
            room, at = room - talk, chunk.pieces[0].start
            continue
        for piece in reversed(chunk.pieces):
            tokens = _count_conversation(piece, ctx)
            if tokens > room:
                return piece.stop if piece.body is not None else _bisect_fitting(piece, ctx, room)
            room, at = room - tokens, piece.start
    return at


def _count_conversation(piece: Piece, ctx: Ctx) -> int:
    if ctx.own is ctx.ledger:
        return sum(piece.counts[2:])
    return sum(
        (ctx.own.count_by_bucket(piece.start, piece.stop) if piece.body is None else ctx.own.count_placeholder(piece.body))[2:]
    )


def _bisect_fitting(piece: Piece, ctx: Ctx, room: int) -> int:
    total, system, tools = ctx.own.total, ctx.own.sums[0], ctx.own.sums[1]
    run = range(piece.start, piece.stop)
    least = total[piece.stop] - system[piece.stop] - tools[piece.stop] - room
    return piece.start + bisect_left(run, least, key=lambda at: total[at] - system[at] - tools[at])


def get_result_text(block: Block) -> str | None:
    """Return the text of a tool result; None where the block is no result, or holds anything but text (such as an image)."""
    if block.kind != "tool_result" or not isinstance(block.raw, Mapping):
        return None
    content = block.raw.get("content")
    listed = content if isinstance(content, list) else []
    plain = all(isinstance(part, str) or (isinstance(part, Mapping) and part.get("type") == "text") for part in listed)
    return extract_text(content) if plain else None


def build_result(block: Block, text: str) -> Part:
    """Return a placeholder for a tool result: the same result with `text` as its content, so that its call keeps an answer.

    Args:
        block: The result.
        text: The new content.
    """
    raw = block.raw
    return Part(block.role, "tool_result", text, {**raw, "content": text} if isinstance(raw, Mapping) else text)


def build_call(block: Block, tool_input: Mapping[str, Any]) -> Part:
    """Return a placeholder for a tool call: the same call with another input.

    Args:
        block: The call.
        tool_input: The new input.
    """
    raw = {**block.raw, "input": dict(tool_input)} if isinstance(block.raw, Mapping) else block.raw
    return Part(block.role, "tool_use", extract_block_text("tool_use", raw), raw)


def get_call_input(session: Session, result: Block) -> Mapping[str, Any]:
    """Return the input of the call that a tool result answers; {} where there is none.

    Args:
        session: The session.
        result: The result.
    """
    raw = session.blocks[result.pair].raw if result.pair >= 0 else None
    arguments = raw.get("input") if isinstance(raw, Mapping) else None
    return arguments if isinstance(arguments, Mapping) else {}


def find_path(tool_input: Mapping[str, Any]) -> str:
    """Return the file that a call's input names; "" where it names none."""
    return next((tool_input[key] for key in _PATHS if isinstance(tool_input.get(key), str)), "")
