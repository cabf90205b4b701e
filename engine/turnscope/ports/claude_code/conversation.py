"""What Claude Code's compactions look at in a conversation: its estimated tokens, and the files that were read in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from turnscope.envelope.conversation import find_path, get_call_input, get_result_text, memoize
from turnscope.envelope.rule import Ctx
from turnscope.ports.claude_code.limits import estimate
from turnscope.session.index import Index, count_before
from turnscope.session.model import Session

SLOT = "files read"  # of the files that come back


@memoize
def sum_tokens(session: Session, _index: Index) -> tuple[int, ...]:
    """Return the estimated tokens of all blocks before each block."""
    return tuple(accumulate((estimate(len(block.text)) for block in session.blocks), initial=0))


def iter_last_files(ctx: Ctx, most: int) -> Iterator[tuple[str, str]]:
    """Yield path and text of the files that were read last, latest first, as the conversation holds them.

    Nothing is read from the disk.

    Args:
        ctx: What the rule may read.
        most: How many files, at most.
    """
    reads, met = _find_reads(ctx), set[str]()
    for at, path in reversed(reads[: count_before([at for at, _ in reads], ctx.request.cut)]):
        text = None if path in met else get_result_text(ctx.session.blocks[at])
        if text is not None and len(met) < most:
            met.add(path)
            yield path, text


@memoize
def _find_reads(session: Session, index: Index) -> tuple[tuple[int, str], ...]:
    """Return the tool results that hold a file, each with its path."""
    found = (
        (at, find_path(get_call_input(session, session.blocks[at])))
        for at in index.results
        if session.blocks[at].name == "Read"
    )
    return tuple((at, path) for at, path in found if path)
