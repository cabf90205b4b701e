"""Letta's limits and cuts, as pure functions.

From letta (server 0.16.7, f33324768): `letta/services/summarizer/` `thresholds.py`, `summarizer_sliding_window.py`,
`summarizer.py`; `letta/constants.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

TRIGGER = 0.9  # SUMMARIZATION_TRIGGER_MULTIPLIER
SHARE = 0.3  # sliding_window_percentage
STEP = 0.1
CLIP = 50_000  # clip_chars
PARTIAL = 0.7  # share of the messages that the older summariser evicts
BUFFER, KEPT = 60, 15  # messages of its static buffer: at most, and after an eviction
CLAMPED = 5_000  # characters of a tool output, if the summariser's own prompt was too long
CUT = "[... the summary was cut here]"


def compute_threshold(window: int) -> int:
    """Return the tokens above which a step is followed by a compaction."""
    return int(window * TRIGGER)


def estimate_tokens(message: Any) -> int:
    """Estimate the tokens of a message that no provider counts: a quarter of the bytes of its JSON, and 30 % more."""
    return int(math.ceil(len(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")) / 4) * 1.3)


def find_sliding_cut(
    answers: Sequence[bool], tokens: Callable[[int], int], window: int, share: float = SHARE, pending: bool = False
) -> int | None:
    """Return the number of the first message that stays; None if no cut is enough, so that everything is summarised.

    Args:
        answers: Whether each message is an answer, the system message first.
        tokens: Returns the tokens of the system prompt and of everything from message i on.
        window: The window in tokens.
        share: The share of the messages that is evicted first. Each try adds 10 %, the first one too. The floats add up as
            in the original:
            a cut at 100 % is tried, and fails even if it reaches the goal.
        pending: Whether the newest message waits for an approval.
    """
    count, goal = len(answers), (1 - share) * window
    found, left, evicted = None, float(window), share
    while left >= goal and evicted < 1.0:
        evicted += STEP
        index = round(evicted * count)
        chosen = next((i for i in range(min(index, count - 1), 0, -1) if answers[i]), None)
        if chosen is not None:
            found, left = chosen, tokens(chosen)
    if found is None or evicted >= 1.0 or found >= count - (2 if pending else 1):
        return None
    return found


def find_partial_cut(answers: Sequence[bool], share: float = PARTIAL) -> int | None:
    """Return the cut of the older summariser: the first answer from this share of the messages on.

    Args:
        answers: Whether each message is an answer.
        share: The share of the messages, between 0 and 1.
    """
    return next((i for i in range(round(share * len(answers)), len(answers)) if answers[i]), None)


def find_buffer_start(prompts: Sequence[bool], most: int = BUFFER, least: int = KEPT) -> int | None:
    """Return where the static buffer begins; None if there are no more than `most` messages.

    Args:
        prompts: Whether each message is a prompt.
        most: Messages that the buffer may hold.
        least: The buffer begins at the first prompt among the newest `least` messages.
    """
    if len(prompts) <= most:
        return None
    return next((i for i in range(len(prompts) - least, len(prompts)) if prompts[i]), None)


def clip(text: str, most: int = CLIP) -> str:
    """Return the first `most` characters of a summary.

    Args:
        text: The summary.
        most: Characters that stay, without the mark of the cut.
    """
    return text if len(text) <= most else text[:most] + CUT
