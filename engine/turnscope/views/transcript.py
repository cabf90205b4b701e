"""Every block of a session in order, and how it stands in one request: in it, or out of it and why.

Pure functions of a trace. `build_lines` is slow per block, so call it for one page; `list_states` handles all blocks at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnscope.numbering import format_request
from turnscope.planning.trace import BlockStatus, State, Trace
from turnscope.session.model import Block
from turnscope.views.events import classify_action, describe_event
from turnscope.views.labels import label_block

__all__ = ["Line", "State", "build_lines", "explain_absence", "get_role", "list_states"]

MAX_TEXT = 160  # characters of a block's text on its line


@dataclass(frozen=True, slots=True)
class Line:
    """One block as a line of the transcript. `tokens`: provider tokens; `because`: why it is not in the request verbatim."""

    at: int
    turn: int
    role: str
    kind: str
    tool: str
    label: str
    bucket: str
    tokens: int
    state: State
    because: str
    text: str


def get_role(block: Block) -> str:
    """The speaker: user, assistant, system, or tool for a tool result."""
    return "tool" if block.kind == "tool_result" else block.role


def list_states(trace: Trace, n: int) -> list[State]:
    """List how every block of the session stands in a request, by address.

    Args:
        trace: the replay.
        n: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    plan = trace.plans[n]
    found: list[State] = ["later"] * len(trace.session.blocks)
    for piece in plan.after.pieces:
        state: State = "unseen" if piece.body is None else "replaced" if piece.body else "absent"
        found[piece.start : piece.stop] = [state] * (piece.stop - piece.start)
    for piece in plan.seen.pieces:
        if piece.body is None:
            found[piece.start : piece.stop] = ["here"] * (piece.stop - piece.start)
    return found


def build_lines(trace: Trace, n: int, places: Iterable[int]) -> tuple[Line, ...]:
    """Build the lines of some blocks for a request, each with the reason why it is not there verbatim.

    Args:
        trace: the replay.
        n: number of the request.
        places: addresses of the blocks.
    """
    return tuple(_build_line(trace, n, trace.session.blocks[at]) for at in places)


def explain_absence(standing: BlockStatus) -> str:
    """Why a block is not in a request verbatim, in the words of `events`; "" = it is there."""
    if standing.state == "here":
        return ""
    made = standing.decision
    if standing.by != "policy" or made is None:
        return standing.sentence
    return f"{describe_event(classify_action(made.action), made.edit.because)}, at request {format_request(standing.since)}."


def _build_line(trace: Trace, n: int, block: Block) -> Line:
    standing = trace.explain(block.at, n)
    tokens = trace.get_terms(n).convert(trace.ledger.count_by_bucket(block.at, block.at + 1))
    text = " ".join(block.text[: 2 * MAX_TEXT].split())[:MAX_TEXT]
    name, because = label_block(trace.session, block), explain_absence(standing)
    return Line(
        at=block.at,
        turn=block.turn,
        role=get_role(block),
        kind=block.kind,
        tool=block.name,
        label=name,
        bucket=block.bucket,
        tokens=tokens,
        state=standing.state,
        because=because,
        text=text,
    )
