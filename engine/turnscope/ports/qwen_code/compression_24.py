"""When Qwen Code 0.24 compacts, and which files come back.

Ported from `packages/core/src/services/{chatCompressionService,postCompactAttachments,tokenEstimation}.ts` of npm
@qwen-code/qwen-code 0.24.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.envelope.conversation import memoize
from turnscope.envelope.file_touches import Touch, iter_touches
from turnscope.session.index import Index
from turnscope.session.model import Session

READS, WRITES = ("read_file",), ("write_file", "edit", "replace")
RESERVE, BUFFER = 20_000, 13_000  # tokens for the summary, and between it and the trigger
CHARS = 4  # characters of a token, as it estimates
FILES, FILE, ALL_FILES = 5, 5_000, 50_000  # files that come back, tokens of one, tokens of all


def compute_trigger(window: int, share: float) -> float:
    """Return the tokens from which on it compacts (`computeThresholds`).

    Args:
        window: Tokens of the window.
        share: The share of the window that a prompt may fill; less where summary and buffer leave less.
    """
    ceiling = window - RESERVE - BUFFER
    return min(share * window, ceiling) if ceiling > 0 else share * window


@memoize
def list_touches(session: Session, index: Index) -> Sequence[Touch]:
    """All reads and writes of files, in order."""
    return tuple(iter_touches(session, index, READS, WRITES))


def split_files(files: Sequence[tuple[str, str | None]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the files that come back by name alone, and those that do whole with their texts (`buildFileRestorationBlocks`).

    Args:
        files: Path and text of each, newest first; None where the conversation does not tell the text.
    """
    named, whole, used = list[str](), list[tuple[str, str]](), 0
    for path, text in files:
        if text is None or len(text) > CHARS * FILE or used + len(text) > CHARS * ALL_FILES:
            named.append(path)
        else:
            whole.append((path, text))
            used += len(text)
    return named, whole
