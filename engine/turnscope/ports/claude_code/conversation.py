"""What Claude Code's compactions look at in a conversation: its estimated tokens, and the files that were read in it."""

from __future__ import annotations

from itertools import accumulate

from turnscope.envelope.conversation import find_path, get_call_input, memoize
from turnscope.ports.claude_code.limits import estimate
from turnscope.session.index import Index
from turnscope.session.model import Session

SLOT = "files read"  # of the files that come back


@memoize
def sum_tokens(session: Session, _index: Index) -> tuple[int, ...]:
    """Return the estimated tokens of all blocks before each block."""
    return tuple(accumulate((estimate(len(block.text)) for block in session.blocks), initial=0))


@memoize
def find_reads(session: Session, index: Index) -> tuple[tuple[int, str], ...]:
    """Return the tool results that hold a file, each with its path."""
    found = (
        (at, find_path(get_call_input(session, session.blocks[at])))
        for at in index.results
        if session.blocks[at].name == "Read"
    )
    return tuple((at, path) for at, path in found if path)
