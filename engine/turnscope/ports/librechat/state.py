"""What a run of LibreChat's agents carries from request to request: counts, shortened texts, calibration, and what was sent.

Pure functions, ported from `createPruneMessages` (prune.ts, @librechat/agents 3.6.11).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct, field, structs

from turnscope.ports.librechat.counts import sum_between
from turnscope.ports.librechat.fading import Held, add_new_messages, begin_held
from turnscope.ports.librechat.history import History

LOWEST, HIGHEST = 0.5, 5.0  # the provider's count as a multiple of ours
STABLE = 0.1  # an observed overhead is believed while the estimated instructions change by no more than this share


def round_half_up(value: float) -> int:
    """Round as JavaScript's Math.round: halves go up."""
    return math.floor(value + 0.5)


class Sent(Struct, frozen=True, gc=False):
    """Which messages were in a request: `first` and all after it, except those `gone`. Some were `shaped` for it alone.

    Numbers are places in the session's reading. A system message before `first` was sent unless it is `gone`.
    """

    first: int = 0
    gone: frozenset[int] = frozenset()
    shaped: frozenset[int] = frozenset()


class Scale(Struct, frozen=True, gc=False):
    """The calibration: tokens of messages as sent and as reported by the provider, and the overhead that fits them best."""

    ratio: float = 1.0
    counted: int = 0
    reported: int = 0
    variance: float | None = None
    overhead: int | None = None
    estimate: int = 0  # tokens of the instructions, when the overhead was observed


class State(Struct, frozen=True, gc=False):
    """What the next request starts from. `host_counts`: the host's counts by message; None = it counted all so far."""

    held: Held = field(default_factory=Held)
    scale: Scale = field(default_factory=Scale)
    start: int = 0  # messages before it existed at the previous request
    cutoff: int = 0  # the first message that was sent
    thought: int = -1
    attached: Mapping[int, int] = {}
    sent: Sent = field(default_factory=Sent)
    host_counts: Mapping[int, int] | None = None
    since: int = 0  # messages before it were summarised
    summary: int = 0  # tokens of their summary


def restart(history: History, state: State, since: int, summary: int) -> State:
    """Return the state at the start of a run. Shortened texts and observations are forgotten; the host counts everything again.

    Args:
        history: The messages.
        state: The state so far.
        since: Messages of the reading that a summary replaces.
        summary: Tokens of that summary.
    """
    sent = state.sent
    gone, shaped = (frozenset(i for i in numbers if i >= since) for numbers in (sent.gone, sent.shaped))
    sent = Sent(max(sent.first, since), gone, shaped)
    return State(scale=Scale(state.scale.ratio), start=history.there - since, sent=sent, since=since, summary=summary)


class Seen(Struct, frozen=True, gc=False):
    """Tokens that the provider reported for the previous request: its prompt and its answer."""

    prompt: int
    answer: int


def grow_counts(history: History, state: State, seen: Seen | None) -> tuple[Held, AbstractSet[int]]:
    """Add the counts of new messages. Return them, and the messages that the provider has not seen yet.

    The first new answer has the tokens that the provider reported. Results are recounted, and their counts only grow.

    Args:
        history: The messages.
        state: The state before the request.
        seen: What the provider reported for the previous request; None = nothing.
    """
    fresh = set[int]()
    counts: list[int] = []
    held, answered = state.held, seen is None
    if state.host_counts is None and not len(held.counts):
        held = begin_held(history, state.start)
    for i in range(len(held.counts), len(history)):
        new, known = i >= state.start, (state.host_counts or {}).get(i)
        count = known
        if history.get_role(i) == "tool":
            recount = history.recount(i)
            count = recount if known is None else max(recount, known)
            if new and count != known:
                fresh.add(i)
        elif known is None and new:
            if seen and not answered and history.get_role(i) == "ai":
                count, answered = seen.answer, True
            else:
                count = history.recount(i)
            if seen:
                fresh.add(i)
        counts.append(count or 0)
    return add_new_messages(history, held, counts), fresh


def calibrate(
    history: History, held: Held, fresh: AbstractSet[int], state: State, seen: Seen | None, instructions: int
) -> Scale:
    """Return the calibration with what the provider reported for the previous request; unchanged if that cannot be compared.

    Args:
        history: The messages.
        held: What is known of them.
        fresh: Messages that the provider has not seen.
        state: The state before the request.
        seen: What the provider reported; None = nothing.
        instructions: Estimated tokens of the instructions.
    """
    scale = state.scale
    if seen is None:
        return scale
    base = int(history.has_instructions)
    sent = sum_between(held.counts, max(state.cutoff, base), len(history)) + (held.counts[0] if base else 0)
    sent -= sum(held.counts[i] for i in fresh if i >= max(state.cutoff, base))
    messages = max(0, seen.prompt - instructions)
    if sent <= 0 or messages <= 0 or seen.prompt < instructions + sent * LOWEST:
        return scale
    counted, reported = scale.counted + sent, scale.reported + messages
    ratio = max(LOWEST, min(HIGHEST, reported / counted))
    scale = structs.replace(scale, ratio=ratio, counted=counted, reported=reported)
    expected = instructions + sent * ratio
    variance = abs((seen.prompt / expected if expected > 0 else 0) - 1)
    if scale.variance is None or variance < scale.variance:
        overhead = max(0, round_half_up(seen.prompt - sent * ratio))
        scale = structs.replace(scale, variance=variance, overhead=overhead, estimate=instructions)
    return scale


def compute_overhead(scale: Scale, instructions: int) -> int:
    """Return the tokens of the instructions: as observed, if that is below the estimate and the estimate has hardly changed.

    Args:
        scale: The calibration.
        instructions: Estimated tokens of the instructions.
    """
    if scale.overhead is None or scale.estimate <= 0 or scale.overhead > instructions:
        return instructions
    return scale.overhead if abs(instructions - scale.estimate) / scale.estimate < STABLE else instructions


def compute_reserve(limit: int, share: float) -> int:
    """Return the tokens of `limit` that are kept free.

    Args:
        limit: Tokens of the window.
        share: The share that is kept free; 0 where it is not between 0 and 1.
    """
    return round_half_up(limit * share) if 0 < share < 1 else 0
