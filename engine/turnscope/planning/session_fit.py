"""What is hidden in the requests of a session, and their scale: the fit of all is shown, that of the first ones plans."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as replace_struct

from turnscope.counting.calibration import Calibration, PolicyEstimate
from turnscope.counting.media import count_largest_images
from turnscope.counting.reconciliation import (
    DRIFT_LIMIT,
    SCALE_LIMITS,
    Fit,
    Ints,
    StaticHints,
    add_remainders,
    fit_requests,
)
from turnscope.planning.first_request import get_prompt_prior
from turnscope.planning.provider_additions import find_provider_additions
from turnscope.session.model import BEGINS_MID_CONVERSATION, CHAT, EXACT_REQUESTS, STATED_HIDDEN, Bucket, Request, Session

LEAST_POLICY_ERROR = 0.05  # share of the prompt; what later requests move the fit by, in 95 % of those of real sessions
REFITS = 16  # a session of n requests is fitted anew after n / 16 more, after a compaction and with another model
TOOL_REFERENCE = '"tool_reference"'  # in the result of a tool search: tools that the next request has


class RecordStep(Struct, frozen=True, gc=False):
    """What a replay needs to know of a request as it was really sent.

    Attributes:
        tokens: its counted tokens.
        static: those of its system prompt and tools.
        calibration: what its bill leaves to the next request, under whatever policy that is planned.
    """

    tokens: int
    static: int
    calibration: Calibration


class _Contents(NamedTuple):
    """What a log holds that a fit must know of.

    `compactions`: numbers of the requests at which the tool condensed. The others are addresses of the first block of a system
    prompt, of tool definitions, of a tool call; behind the last block where there is none.
    """

    compactions: frozenset[int]
    system: int
    tools: int
    call: int

    def lacks_tools(self, stop: int) -> bool:
        """Whether the blocks before `stop` hold a system prompt, and calls of tools, but not their definitions."""
        return max(self.system, self.call) < stop <= self.tools


def _find_contents(session: Session) -> _Contents:
    blocks = session.blocks
    return _Contents(
        frozenset(seen.request for seen in session.observed if seen.edit.action == "condense"),
        next((block.at for block in blocks if block.bucket is Bucket.SYSTEM), len(blocks)),
        next((block.at for block in blocks if block.bucket is Bucket.TOOLS), len(blocks)),
        next((block.at for block in blocks if block.kind == "tool_use"), len(blocks)),
    )


class RunningFit:
    """The fit over the requests so far of a record: what planning under another policy may know of the one that is shown.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.contents = _find_contents(session)
        self.sizes: list[int] = []
        self.statics: list[int] = []
        self.billed: Tally[str] = Tally()  # requests with a bill, by model
        self._recorded = _list_recorded(session.requests)
        self.fitted = 0  # requests in the newest fit
        self.estimate: PolicyEstimate | None = None

    def learn(self, step: RecordStep) -> RecordStep:
        """Return one more step of the record with what its calibration says of other policies; of a chat as it is.

        Long sessions are not fitted anew at each request, as that would take the square of their length. A chat learns from
        what it sent itself.

        Args:
            step: The step.
        """
        if self.session.source == CHAT:
            return step
        self.sizes.append(step.tokens)
        self.statics.append(step.static)
        count, requests = len(self.sizes), self.session.requests
        self.billed[requests[count - 1].model] += get_prompt_tokens(requests[count - 1]) > 0
        switched = count > 1 and requests[count - 2].model != requests[count - 1].model
        due = switched or count - 1 in self.contents.compactions or count - self.fitted >= max(1, count // REFITS)
        if due and step.calibration.seen:
            self.fitted = count
            self.estimate = self._make_estimate(requests[:count])
        return replace_struct(step, calibration=replace_struct(step.calibration, estimate=self.estimate))

    def _make_estimate(self, requests: Sequence[Request]) -> PolicyEstimate | None:
        """What the newest stretch of these requests says; its error shrinks as the scale is learned.

        None where most of a prompt is not in the log: such a bill is not of what was counted.
        """
        recorded = self._recorded[: len(requests)]
        fit = _fit(self.session, requests, recorded, self.sizes, self.statics, self.contents)[-1]
        if fit.injected > fit.prefix + fit.earlier + fit.scale * self.sizes[-1]:
            return None
        billed = max(1, self.billed[requests[-1].model])
        error = max(LEAST_POLICY_ERROR + DRIFT_LIMIT / billed, fit.error or 0.0)
        terms, static = fit.get_policy_terms(), self.statics[-1]
        apart = round((terms.get_scale(0) - terms.scale) * static)
        return PolicyEstimate(terms.hidden_tokens + apart, terms.scale, error)


def fit_session(
    session: Session, requests: Sequence[Request], sizes: Sequence[int], statics: Sequence[int] = ()
) -> tuple[Fit, ...]:
    """Return what is hidden in the requests of a session, and their scale. All pages use this fit.

    It reads nothing of the session that came after the last of the requests.

    Args:
        session: The session.
        requests: Its requests, or the first of them.
        sizes: Counted tokens of each request.
        statics: Counted tokens of each request's system prompt and tools, where the log holds whole requests.
    """
    return _fit(session, requests, _list_recorded(requests), sizes, statics, _find_contents(session), remainders=True)


def _fit(
    session: Session,
    requests: Sequence[Request],
    recorded: Ints,
    sizes: Sequence[int],
    statics: Sequence[int],
    contents: _Contents,
    *,
    remainders: bool = False,
) -> tuple[Fit, ...]:
    """The fits of `fit_session`; without `remainders` what planning needs of them, in a third of the time."""
    if stated := _list_stated(session, len(requests)):
        runs = groupby(range(len(stated)), key=stated.__getitem__)
        spans = ((hidden, [*run]) for hidden, run in runs)
        return tuple(Fit(run[0], run[-1] + 1, hidden, 1.0) for hidden, run in spans)
    stop = requests[-1].stop if requests else len(session.blocks)
    counted, models = np.array(sizes, dtype=np.int64), [request.model for request in requests]
    known_static = min(contents.system, contents.tools) < stop and not contents.lacks_tools(stop)
    fits = fit_requests(
        counted,
        recorded,
        models,
        known_static=known_static,
        compactions=contents.compactions,
        mid_conversation=session.about.get(BEGINS_MID_CONVERSATION) is True,
        tools=contents.tools < stop,
        hints=StaticHints(partial(changes_static, session, requests), get_prompt_prior(session)[0]),
    )
    if remainders:
        added, images = find_provider_additions(session, requests), partial(_count_new_images, session, requests)
        fits = add_remainders(fits, counted, recorded, models, added, images)
    if isinstance(recorded_whole := session.about.get(EXACT_REQUESTS), dict):
        inferred = frozenset(recorded_whole.get("inferred") or ())
        fits = tuple(replace(fit, inferred=inferred, whole=True) for fit in fits)
        return tuple(_fit_static(fit, requests, sizes, statics) for fit in fits)
    if known_static and session.source != CHAT:  # what a chat sends is counted before it is billed, with one scale
        return tuple(_fit_static(fit, requests, sizes, statics) for fit in fits)
    logged = {seen.request for seen in session.observed if seen.edit.is_unlocated_cut}
    return tuple(_measure_cut(fit, logged, recorded, sizes) if fit.cut_at_start else fit for fit in fits)


def _list_recorded(requests: Sequence[Request]) -> Ints:
    """The recorded prompt tokens of each request; -1 where the log has none, or an earlier pass had another prompt."""
    several = (request.usage is not None and request.usage.iterations for request in requests)
    return np.array([-1 if apart else get_prompt_tokens(q) for q, apart in zip(requests, several, strict=True)], dtype=np.int64)


def _list_stated(session: Session, count: int) -> list[int]:
    """What the log states of the hidden tokens of the first requests; none where it does not."""
    stated = session.about.get(STATED_HIDDEN)
    whole = isinstance(stated, list) and len(stated) == len(session.requests)
    return stated[:count] if whole and all(isinstance(tokens, int) for tokens in stated) else []  # type: ignore[index,union-attr]


def _fit_static(fit: Fit, requests: Sequence[Request], sizes: Sequence[int], statics: Sequence[int]) -> Fit:
    """Return the fit where the log holds system prompt and tools: they have a scale of their own.

    The request with the least conversation shows it. Otherwise these would seem to change with the conversation.
    """
    model = requests[fit.start].model
    prompts = [(n, get_prompt_tokens(request)) for n, request in enumerate(requests[: len(statics)]) if request.model == model]
    billed = [(n, tokens - fit.hidden_tokens) for n, tokens in prompts if tokens > fit.hidden_tokens and statics[n]]
    billed = [row for row in billed if row[0] not in fit.inferred] or billed
    if not billed:
        return fit
    least, tokens = max(billed, key=lambda row: statics[row[0]] / sizes[row[0]])
    static_scale = tokens / sizes[least]
    counted = sum(sizes[n] - statics[n] for n, _ in billed)
    scale = sum(tokens - static_scale * statics[n] for n, tokens in billed) / max(1, counted)
    low, high = fit.scale_limits
    if not (SCALE_LIMITS[0] <= static_scale <= SCALE_LIMITS[1] and low <= scale <= high):
        return fit
    return replace(fit, scale=scale, static_scale=static_scale)


def _measure_cut(fit: Fit, logged: Collection[int], recorded: Ints, sizes: Sequence[int]) -> Fit:
    """Return the fit with the cut at its start as it was billed: what the prompt fell by, and what came in.

    There is none where the log reports content that was cleared and that it does not hold (`logged`).
    """
    start, before = fit.start, np.flatnonzero(recorded[: fit.start] >= 0)
    last = int(before[-1]) if len(before) else -1
    if any(last < n <= start for n in logged):
        return replace(fit, cut_at_start=0)
    if last < 0 or recorded[start] < 0:
        return fit
    gone = int(recorded[last] - recorded[start]) + round(fit.scale * (sizes[start] - sizes[last]))
    return replace(fit, cut_at_start=gone) if gone > 0 else fit


def changes_static(session: Session, requests: Sequence[Request], number: int) -> bool:
    """Whether a log shows that system prompt or tools changed at a request.

    Tools were searched for, or most of what was cached was not read again.

    Args:
        session: The session.
        requests: Its requests.
        number: Number of the request.
    """
    if number == 0:
        return False
    last, request = requests[number - 1], requests[number]
    results = (block for block in session.blocks[last.cut : request.cut] if block.kind == "tool_result")
    if any(TOOL_REFERENCE in block.text for block in results):
        return True
    if last.usage is None or request.usage is None or last.model != request.model:
        return False
    cached = last.usage.cache_read_input_tokens + last.usage.cache_creation_input_tokens
    return request.usage.cache_read_input_tokens < cached // 2


def _count_new_images(session: Session, requests: Sequence[Request], number: int) -> int:
    """The most tokens that images may have that came with a request: in new blocks, or in what a tool wrote anew."""
    start = requests[number - 1].cut if number else 0
    new = (block.raw for block in session.blocks[start : requests[number].cut])
    anew = (part.raw for seen in session.observed if seen.request == number for part in seen.edit.body or ())
    return sum(map(count_largest_images, (*new, *anew)))


def lacks_tools(session: Session) -> bool:
    """Return whether the log holds the system prompt, and calls of tools, but not their definitions: these alone are hidden."""
    return _find_contents(session).lacks_tools(len(session.blocks))


def get_prompt_tokens(request: Request) -> int:
    """Return the recorded prompt tokens of a request; -1 where the log has none. Zeros mean that nothing was recorded."""
    return request.usage.answered_prompt_tokens or -1 if request.usage else -1
