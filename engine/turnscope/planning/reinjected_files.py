"""How many tokens of files a tool re-injects after a compaction where its log does not hold them.

Claude Code attaches the five files that were read or written last, each up to 5,000 tokens. Newer logs hold them; older ones do
not, and what they show of each file before the compaction gives its size. Reads no file from the disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_path
from turnscope.envelope.file_reads import PARTS
from turnscope.ports.claude_code.limits import ALL_FILES, FILE, FILES
from turnscope.session.model import BEGINS_MID_CONVERSATION, EXACT_REQUESTS, Block, Request, Session

SOURCE = "claude-code"  # the importer of the only tool that is known to do so
HELD = "files"  # kind of the blocks in which a newer log holds them
READ, WRITE, EDIT = "Read", "Write", ("Edit", "MultiEdit", "NotebookEdit")
UNSEEN = (
    1_600  # tokens of a file that was read before the log begins: the mean of 99 files in real sessions, none above the limit
)
IN_PARTS = (
    3_500  # tokens of a file of which only parts were read; assumed, as it is larger than most and no more than the limit
)


def estimate_reinjected_files(session: Session, request: Request, ledger: Ledger) -> int:
    """Return how many counted tokens of files come back after a compaction and are not in the log.

    Args:
        session: The session.
        request: The request.
        ledger: Token counts of the session.
    """
    if session.source != SOURCE or EXACT_REQUESTS in session.about:
        return 0
    before = session.messages[: bisect_right(session.messages, request.cut, key=lambda message: message.stop)]
    newest = next((message for message in reversed(before) if message.origin == "summary"), None)
    end = newest.start if newest else request.cut
    if any(block.kind == HELD for block in session.blocks[end : request.cut]):
        return 0
    sizes = _find_sizes(session.blocks[:end], ledger)
    last = [min(size, FILE) for size in reversed([*sizes.values()])][:FILES]
    begun = session.about.get(BEGINS_MID_CONVERSATION) is True
    return min(sum(last) + UNSEEN * (FILES - len(last) if begun else 0), ALL_FILES)


def _find_sizes(blocks: tuple[Block, ...], ledger: Ledger) -> dict[str, int]:
    """Tokens of each file that was read or written, the last one last."""
    found: dict[str, int] = {}
    for block, path, arguments in _iter_file_calls(blocks):
        known = found.pop(path, 0)
        if block.name == WRITE:
            known = ledger.count_tokens(block.at, block.at + 1)
        elif block.name == READ and not any(arguments.get(part) is not None for part in PARTS) and block.pair < len(blocks):
            known = ledger.count_tokens(block.pair, block.pair + 1)
        found[path] = known or IN_PARTS
    return found


def _iter_file_calls(blocks: tuple[Block, ...]) -> Iterator[tuple[Block, str, Mapping[str, object]]]:
    """Calls that read or write a file and were answered, with its path and their input."""
    for block in blocks:
        if block.kind == "tool_use" and block.pair >= 0 and (block.name in (READ, WRITE) or block.name in EDIT):
            arguments = block.raw.get("input") if isinstance(block.raw, Mapping) else None
            if isinstance(arguments, Mapping) and (path := find_path(arguments)):
                yield block, path, arguments
