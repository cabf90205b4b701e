"""Letta's limits and cuts, as pure functions. From letta (server 0.16.7, f33324768): `letta/services/summarizer/`
`thresholds.py`, `summarizer_sliding_window.py`, `summarizer.py`; `letta/constants.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

TRIGGER = 0.9  # SUMMARIZATION_TRIGGER_MULTIPLIER
SHARE = 0.3  # sliding_window_percentage
STEP = 0.1
CLIP = 50_000  # clip_chars
PARTIAL = 0.7  # of the messages, that the older summarizer evicts
BUFFER, KEPT = 60, 15  # messages: its static buffer
CLAMPED = 5_000  # characters of an output, where the summariser's own prompt was too long
CUT = "[... the summary was cut here]"


def compute_threshold(window: int) -> int:
    """Tokens above which a step is followed by a compaction."""
    return int(window * TRIGGER)


def estimate_tokens(message: Any) -> int:
    """Tokens of what no provider counts: a quarter of the bytes of its JSON, and 30 % more."""
    return int(math.ceil(len(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")) / 4) * 1.3)


def find_sliding_cut(
    answers: Sequence[bool], tokens: Callable[[int], int], window: int, share: float = SHARE, pending: bool = False
) -> int | None:
    """The message at which what stays begins; None where no cut will do, and everything is to be summed up.

    `answers`: of each message, the system's first, whether it is an answer. `tokens(i)`: of the system prompt and all from
    message i on. `pending`: the newest message waits for an approval. The first cut is at `share` + 10 %; floats add up as in
    the original, so a cut at 100 % is still tried, and fails even where it met the goal.
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
    """Where the older summarizer's cut lies: at the first answer from `share` of the messages on."""
    return next((i for i in range(round(share * len(answers)), len(answers)) if answers[i]), None)


def find_buffer_start(prompts: Sequence[bool], most: int = BUFFER, least: int = KEPT) -> int | None:
    """Where its static buffer begins: at the first prompt among the newest `least`, once more than `most` messages stand."""
    if len(prompts) <= most:
        return None
    return next((i for i in range(len(prompts) - least, len(prompts)) if prompts[i]), None)


def clip(text: str, most: int = CLIP) -> str:
    """A summary of at most so many characters."""
    return text if len(text) <= most else text[:most] + CUT
