"""One request of LibreChat's agents: calibrate, shorten, keep what fits, repair pairs, and save a request that became empty.

Pure functions, ported from `createPruneMessages` (prune.ts, @librechat/agents 3.6.11). The rule `prune_by_pressure` acts on
their results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from msgspec import Struct, structs

from turnscope.ports.librechat.agents import (
    PRIMER,
    Fit,
    Reasoning,
    Repaired,
    Terms,
    add_reasoning,
    remove_calls,
    repair_pairs,
    sanitize,
    select_newest,
)
from turnscope.ports.librechat.counts import sum_between
from turnscope.ports.librechat.cuts import LEAST_RESULT, MAX_RESULT, ByPosition
from turnscope.ports.librechat.fading import (
    Held,
    cut_args,
    cut_results,
    fade_args,
    fade_results,
    mask_answered,
    trim_by_position,
)
from turnscope.ports.librechat.history import Bodies, History
from turnscope.ports.librechat.state import (
    Seen,
    Sent,
    State,
    calibrate,
    compute_overhead,
    compute_reserve,
    grow_counts,
    round_half_up,
)
from turnscope.session.model import JSON

PRESSED = 0.8  # share of the budget from which on results are shortened
BANDS = ((0.99, 0.05), (0.9, 0.2), (0.85, 0.5), (0.8, 1.0))  # share of the budget; share of the room that caps are made of
NONE = frozenset[int]()  # one object for all plans, to save memory
LEAST_ROOM = 1_024  # tokens that caps are made of, at least


@dataclass(frozen=True, slots=True)
class Settings(ByPosition):
    """The options of the original."""

    reserve: Annotated[float, "share of the budget kept free for counting errors"] = 0.05
    thinking: Annotated[bool, "restore reasoning that answers and results at the end would lose"] = True
    reasoning: Annotated[Reasoning, "look for reasoning_content alone (Bedrock), or thinking as well"] = "thinking"
    starts: Annotated[tuple[str, ...], "types of messages of which one must come first; the original gives none"] = ()
    summarization: Annotated[bool, "dropped messages will be summarised, so results are shortened less"] = False
    repair: Annotated[bool, "repair calls and results once more before the model is called"] = True


class Outcome(Struct, frozen=True, gc=False):
    """The messages that are sent, by number, those that may be summarised (runs), and the state for the next request.

    `faded`: messages that were shortened for good. `shaped`: how others are sent in this request alone.
    """

    state: State
    kept: Sequence[int] = ()
    refine: tuple[tuple[int, int], ...] = ()
    faded: frozenset[int] = frozenset()
    shaped: Mapping[int, Bodies] = {}
    facts: Mapping[str, JSON] = {}


class _Choice(NamedTuple):
    fit: Fit
    repaired: Repaired
    held: Held
    changed: frozenset[int]  # shortened for this choice alone


def prepare(history: History, old: State, seen: Seen | None, limit: int, instructions: int, settings: Settings) -> Outcome:
    """Prepare one request.

    Args:
        history: The messages.
        old: The state after the previous request.
        seen: What the provider reported for the previous request; None = nothing.
        limit: The limit in tokens.
        instructions: Estimated tokens of what is sent besides the messages.
        settings: The options.
    """
    budget, there = limit - compute_reserve(limit, settings.reserve), len(history)
    if not there:
        return _prepare_nothing(old, budget, instructions)
    held, fresh = grow_counts(history, old, seen)
    held = cut_results(history, held, MAX_RESULT)[0]
    scale = calibrate(history, held, fresh, old, seen, instructions)
    used = compute_overhead(scale, instructions)
    room, before = max(0, budget - used), round_half_up(sum_between(held.counts, 0, there) * scale.ratio)
    pressure = before / budget if budget > 0 else 0.0
    state = structs.replace(old, held=held, scale=scale, start=there)
    if not room and settings.summarization:
        state = structs.replace(state, sent=_describe_sent(history, [], ()))
        facts = _build_facts(state, budget=budget, used=used, tokens=before, left=0, pressure=pressure)
        return Outcome(state, refine=((0, there),), facts=facts)
    held, faded, masked = _fade(history, held, room, pressure, scale.ratio, settings)
    state = structs.replace(state, held=held, scale=structs.replace(scale, counted=0, reported=0) if masked else scale)
    tokens = round_half_up(sum_between(held.counts, 0, there) * scale.ratio)
    left = budget - tokens - round_half_up(PRIMER * scale.ratio) - used
    chosen: Sequence[int] = range(there)
    reshaped: dict[int, Bodies] = {}
    refine: tuple[tuple[int, int], ...] = ()
    if old.cutoff or left < 0:
        choices = _choose_messages(history, state, budget, used, settings)
        first, last = choices[0], choices[-1]
        left = max(0, min(budget, round_half_up(max(0, first.fit.remaining + last.repaired.reclaimed) * scale.ratio)))
        runs = (run for c in choices for run in (c.fit.refine, *((i, i + 1) for i in c.repaired.dropped)))
        refine = tuple(run for run in runs if run[0] < run[1])
        attached = _collect_attached(history, state, choices)
        state = structs.replace(state, thought=first.fit.thought, attached=attached, cutoff=_find_cutoff(history, last))
        chosen, reshaped = last.repaired.kept, _collect_shaped(history, last)
    kept, shaped = _finish(history, state, chosen, reshaped, settings)
    state = structs.replace(state, sent=_describe_sent(history, kept, shaped))
    facts = _build_facts(state, budget=budget, used=used, tokens=tokens, left=left, pressure=pressure)
    return Outcome(state, kept, refine=refine, faded=faded, shaped=shaped, facts=facts)


def _prepare_nothing(old: State, budget: int, instructions: int) -> Outcome:
    """A request without messages."""
    left = max(0, budget - instructions - round_half_up(PRIMER * old.scale.ratio))
    return Outcome(old, facts=_build_facts(old, budget=budget, used=instructions, tokens=0, left=left, pressure=None))


def _choose_messages(history: History, state: State, budget: int, used: int, settings: Settings) -> list[_Choice]:
    """Return the choices that the original makes one after another; the last one is sent."""
    raw = Terms(
        round_half_up(budget / state.scale.ratio),
        round_half_up(used / state.scale.ratio),
        starts=settings.starts,
        thinking=settings.thinking,
        reasoning=settings.reasoning,
    )
    first = _choose(history, state, raw, state.held, frozenset())
    plain = structs.replace(raw, limit=budget, instructions=used)  # the original does not scale them on its second try
    return [first, *_rescue(history, state, plain, first, max(0, budget - used), settings)]


def _build_facts(state: State, budget: int, used: int, tokens: int, left: int, pressure: float | None) -> dict[str, JSON]:
    numbers = {"budget": budget, "instructions": used, "tokens": tokens, "remaining": left, "ratio": state.scale.ratio}
    return {**numbers, "pressure": pressure}


def _fade(
    history: History, held: Held, room: int, pressure: float, ratio: float, settings: Settings
) -> tuple[Held, frozenset[int], bool]:
    """Shorten for good, by fill, by age or by the whole room. Return whether answered results were shortened."""
    touched, masked, raw = set[int](), list[int](), math.floor(room / ratio)
    if pressure >= PRESSED:
        extra = math.floor(raw * settings.reserve * 0.5) if settings.summarization else 0
        held, masked = mask_answered(history, held, raw + extra)
        touched.update(masked)
    caps = 0
    if settings.summarization:
        caps = round_half_up(room / ratio)
    elif pressure >= PRESSED:
        caps = max(LEAST_ROOM, math.floor(room * next(factor for share, factor in BANDS if pressure >= share)))
    if caps > 0:
        for fade in (fade_results, fade_args):
            held, changed = fade(history, held, caps)
            touched.update(changed)
    if not settings.summarization:
        held, changed = trim_by_position(history, held, settings)
        touched.update(changed)
    return held, frozenset(touched), bool(masked)


def _choose(history: History, state: State, terms: Terms, held: Held, changed: frozenset[int]) -> _Choice:
    fit = select_newest(history, held.counts, terms, state.thought if terms.thinking else -1)
    whole = isinstance(fit.kept, range) and history.is_paired(fit.kept.start)
    if whole:
        return _Choice(fit, Repaired(fit.kept), held, changed)
    attach = fit.attach

    def bodies(i: int) -> Bodies:
        found = held.get_bodies(history, i)
        return add_reasoning(history, i, found, attach[1]) if attach and attach[0] == i else found

    return _Choice(fit, repair_pairs(history, fit.kept, held.counts, bodies, attach[0] if attach else -1), held, changed)


def _rescue(history: History, state: State, terms: Terms, first: _Choice, room: int, settings: Settings) -> list[_Choice]:
    """Cut results and arguments for this request alone if nothing would be left to send; at last into pieces."""
    tries: list[_Choice] = []
    if first.repaired.kept or room <= 0:
        return tries
    if settings.summarization:
        held, results = fade_results(history, first.held, max(LEAST_ROOM, room))
        held, calls = fade_args(history, held, max(LEAST_ROOM, room))
        found = _choose(history, state, terms, held, frozenset([*results, *calls]))
        if found.repaired.kept:
            return [found]
    limit = max(LEAST_RESULT, room // len(history) * 4)
    held, results = cut_results(history, first.held, limit)
    held, calls = cut_args(history, held, limit)
    return [_choose(history, state, terms, held, frozenset([*results, *calls]))]


def _find_cutoff(history: History, choice: _Choice) -> int:
    kept = choice.repaired.kept
    return max(len(history) - (len(kept) - (1 if kept and history.get_role(kept[0]) == "system" else 0)), 0)


def _collect_attached(history: History, state: State, choices: Sequence[_Choice]) -> Mapping[int, int]:
    """Return the reasoning that stays where it was put: the original changes the message's list itself."""
    found = dict(state.attached)
    for choice in choices:
        i, block = choice.fit.attach or (-1, -1)
        bare = i >= 0 and any(isinstance(b.raw, str) for b in history.get_blocks(i))
        if i >= 0 and not bare and add_reasoning(history, i, {}, block):
            found[history.since + i] = block
    return found or state.attached


def _collect_shaped(history: History, choice: _Choice) -> dict[int, Bodies]:
    """Return the messages that are sent otherwise in this request than they are held."""
    shaped: dict[int, Bodies] = {i: choice.held.get_bodies(history, i) for i in choice.changed if i in choice.repaired.kept}
    for i, gone in choice.repaired.stripped.items():
        shaped[i] = remove_calls(shaped.get(i, choice.held.get_bodies(history, i)), gone)
    if choice.fit.attach and choice.fit.attach[0] in choice.repaired.kept:
        i, block = choice.fit.attach
        shaped[i] = add_reasoning(history, i, shaped.get(i, choice.held.get_bodies(history, i)), block)
    return shaped


def _finish(
    history: History, state: State, kept: Sequence[int], shaped: dict[int, Bodies], settings: Settings
) -> tuple[Sequence[int], dict[int, Bodies]]:
    """Return the outcome after the last repair, with reasoning that stays before messages."""
    whole = isinstance(kept, range) and history.is_paired(kept.start)
    if settings.repair and not whole:
        repaired = sanitize(history, kept)
        for i, gone in repaired.stripped.items():
            shaped[i] = remove_calls(shaped.get(i, state.held.get_bodies(history, i)), gone)
        kept = repaired.kept
    for number, block in state.attached.items():
        i = number - history.since
        if i not in shaped and i in kept:
            shaped[i] = add_reasoning(history, i, state.held.get_bodies(history, i), block)
    return kept, shaped


def _describe_sent(history: History, kept: Sequence[int], shaped: Iterable[int]) -> Sent:
    since, base = history.since, int(history.has_instructions)
    lead = {since} if base and not (kept and kept[0] == 0) else set[int]()
    if isinstance(kept, range):
        first = kept.start if len(kept) else len(history)
        return Sent(since + max(first, base), frozenset(lead) or NONE, frozenset(since + i for i in shaped) or NONE)
    rest = [i for i in kept if i >= base]
    first = rest[0] if rest else len(history)
    gone = set(range(first, len(history))).difference(rest)
    left = set(kept).intersection(shaped)
    gone = lead | {since + i for i in gone}
    return Sent(since + first, frozenset(gone) or NONE, frozenset(since + i for i in left) or NONE)
