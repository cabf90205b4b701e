"""Codex's limits, and what a compaction keeps. Pure functions.

From openai/codex, `codex-rs/core/src`: `compact.rs` (e06dd0e5d5), `session/context_window.rs` (11237ebb1b). The prefix of
its summary is our wording, at the length of the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PROMPTS = 20_000  # COMPACT_USER_MESSAGE_MAX_TOKENS
EFFECTIVE = 95  # effective_context_window_percent: what its logs call the window
ENCRYPTED = 650  # bytes that are subtracted from three quarters of encrypted thinking
EMPTY = "(no summary available)"
PREFIX = (
    "Another model began this task and has summed up what it did and how it thought. What it wrote stands below, beside the "
    "newest messages of the user. The files and tools are as that model left them, so take its work as done and go on from it "
    "instead of doing the same again. Where the summary and what you see for yourself are different, trust what you see. The "
    "summary of that other model begins here:"
)


def estimate_tokens(size: int) -> int:
    """Estimate tokens from bytes."""
    return -(-size // 4)


def estimate_encrypted_tokens(length: int) -> int:
    """Estimate the tokens of encrypted thinking from its characters."""
    return estimate_tokens(max(0, length * 3 // 4 - ENCRYPTED))


def compute_limit(window: int, configured: int = 0) -> int:
    """Return the tokens at which Codex compacts.

    Args:
        window: The whole window in tokens.
        configured: The configured limit in tokens; it is at most nine tenths of the window.
    """
    return min(configured, window * 9 // 10) if configured else window * 9 // 10


def compute_whole_window(effective: int) -> int:
    """Return the whole window from the effective one, which a log names."""
    return round(effective * 100 / EFFECTIVE)


def select_kept(sizes: Sequence[int], most: int = PROMPTS) -> Iterator[tuple[int, int]]:
    """Select the prompts that stay, newest first, each with the tokens that it may have.

    The first prompt that does not fit is cut to the rest of the room, and older ones are dropped.

    Args:
        sizes: Tokens of the prompts, oldest first.
        most: Tokens of all prompts that stay; below 0 = all stay.
    """
    left = most if most >= 0 else sum(sizes)
    for number in range(len(sizes) - 1, -1, -1):
        if left <= 0:
            return
        yield number, min(sizes[number], left)
        left -= sizes[number]


def shorten(text: str, tokens: int) -> str:
    """Cut the middle out of a text, so that about `tokens` tokens are left.

    Args:
        text: The text.
        tokens: Tokens that stay, at four bytes of UTF-8 each.
    """
    data = text.encode("utf-8", "surrogatepass")
    if estimate_tokens(len(data)) <= tokens:
        return text
    room = tokens * 4
    head, tail = data[: room // 2], data[len(data) - (room - room // 2) :]
    gone = estimate_tokens(len(data) - room)
    return f"{head.decode('utf-8', 'ignore')}…{gone} tokens truncated…{tail.decode('utf-8', 'ignore')}"
