"""The search for a policy's parameters: it reads sessions, tries settings, stores the results, and makes the advice.

A small search space is tried as a grid, a larger one by optuna's multi-objective TPE sampler; both follow from a seed. The
result of a setting on a session is a line of a file. The same seed asks for the same settings again, so a stopped search goes
on where it was, and known results cost nothing. `views.advice` says what the points mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from random import Random

import msgspec

from turnscope.deprecated import accept_old_names
from turnscope.errors import PolicyError, TurnscopeError
from turnscope.library import trial_settings as settings
from turnscope.library.discovery import find_sources
from turnscope.library.loading import entries, load
from turnscope.library.opening import load_policy, replay, replay_record
from turnscope.library.trial_log import TrialLog, TrialResult, open_log
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON, Session
from turnscope.views import advice, parameters
from turnscope.views.advice import Advice, Axis, Figures, OtherPolicy, Point
from turnscope.views.comparison import SharedFacts, build_row

TRIALS = 50
MAX_SESSIONS = 30  # of more sessions a random sample is taken
OTHERS = ("extracts", "condense-oldest", "clear-in-batches")  # policies that are measured beside, as they ship
MIN_SESSION_REQUESTS = 5  # a shorter session shows nothing
MIN_REQUESTS, MIN_USES = 50, 20  # less than this in all searched sessions, and nothing is advised
HOLDOUT_SHARE, MIN_SESSIONS = 0.3, 3  # share of the sessions that is held out, and the fewest sessions for that

Progress = Callable[[int, int], object]  # called with the settings tried so far and in all
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Case:
    """A session on which settings are tried: its key by content, its record, and what all its replays share."""

    name: str
    key: str
    record: Trace
    shared: SharedFacts

    def evaluate(self, policy: Policy) -> tuple[Figures, int]:
        """The figures of a policy on the session, and how many requests have no price. TurnscopeError: a rule failed."""
        trace = replay_record(self.record, policy)
        made = build_row(trace, self.shared)
        lost, uses = len(made.losses.hits), sum(made.losses.uses)
        usd = made.usd or Decimal(0)
        return Figures(
            usd=usd,
            lost=lost,
            uses=uses,
            unsent=len(made.unsent),
            changed=len(made.changed),
            requests=len(trace.plans),
            peak=made.peak[0],
            record_usd=made.record_usd or Decimal(0),
        ), made.cost.unpriced_requests


class Stopped(Exception):
    """The caller stopped the search."""


def _ignore_progress(done: int, of: int) -> None:
    """The default of `progress`."""


def _never_stop() -> bool:
    """The default of `should_stop`."""
    return False


@accept_old_names(of="sessions", turn="keys", tell="progress", stop="should_stop")
def advise(
    sessions: Path | str | Session | Iterable[Session],
    policy: Policy | Path | str,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    keys: Iterable[str] = (),
    folder: Path | None = None,
    progress: Progress | None = None,
    should_stop: Stop | None = None,
) -> Advice:
    """Search a policy's parameters for settings that cost less and lose fewer references.

    Args:
        sessions: a session, several, or the path of a file or folder.
        policy: the policy, or its name.
        trials: settings to try.
        seed: makes the search repeatable.
        keys: keys of the parameters to search (`views.advice.list_axes`); () = the usual ones.
        folder: where trials are stored, so that a stopped search can go on; None = nowhere.
        progress: called with the settings tried so far and in all.
        should_stop: called before each trial; True ends the search.

    Raises:
        PolicyError: there is no such policy or parameter.
        TurnscopeError: the sessions cannot be read.

    >>> found = turnscope.advise(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), "last-20-messages", trials=4)
    >>> found.method, [point.searched.lost for _, point in found.front_points][-1] <= found.points[0].searched.lost
    ('grid', True)
    """
    chosen = policy if isinstance(policy, Policy) else load_policy(policy)
    axes = _choose_axes(chosen, tuple(keys), trials)
    grid = settings.build_grid(axes, trials, seed)
    if grid is None:
        settings.require_optuna()  # before sessions are read
    cases, left_out = _collect_cases(sessions, seed)
    split = _split_holdout(cases, seed)
    empty = _begin_advice(chosen, axes, split, left_out, is_grid=grid is not None, seed=seed, trials=trials)
    search = _Search(chosen, split[0], open_log(folder, chosen) if folder else TrialLog(), should_stop or _never_stop)
    if too_few := _explain_too_few(axes, search, left_out):
        return msgspec.structs.replace(empty, too_few=too_few)
    done = _try_settings(search, empty, grid, progress or _ignore_progress)
    return _add_others(_build_advice(empty, search, split[1], not done), search, split[1], folder)


def _begin_advice(
    policy: Policy,
    axes: tuple[Axis, ...],
    split: tuple[list[Case], list[Case]],
    left_out: Mapping[str, int],
    *,
    is_grid: bool,
    seed: int,
    trials: int,
) -> Advice:
    """Advice before anything was tried. `split`: the sessions that are searched, and those held out."""
    return Advice(
        policy=policy.name,
        title=policy.title or policy.name,
        text=policy.to_toml(),
        axes=axes,
        method="grid" if is_grid else "tpe",
        seed=seed,
        trials=trials,
        searched=tuple(case.name for case in split[0]),
        held=tuple(case.name for case in split[1]),
        left_out=dict(left_out),
    )


def _try_settings(search: _Search, task: Advice, grid: Sequence[dict[str, JSON]] | None, progress: Progress) -> bool:
    """Try the settings of a grid, else those that optuna suggests. Returns whether all were tried."""
    suggested = iter(grid) if grid is not None else settings.sample_settings(task.axes, task.seed, search.evaluate)
    count = task.trials if grid is None else min(task.trials, len(grid))
    try:
        for done, setting in enumerate(islice(suggested, count)):
            progress(done, count)
            search.evaluate(setting)
        progress(count, count)
    except Stopped:
        return False
    return True


def _choose_axes(policy: Policy, keys: Sequence[str], trials: int) -> tuple[Axis, ...]:
    """The parameters to search. PolicyError where there is nothing to try, or no such parameter."""
    if trials < 1:
        raise PolicyError(f"{trials} settings cannot be tried", hint="Give a number from 1 on.")
    known = {axis.key: axis for axis in advice.list_axes(policy)}
    if unknown := [key for key in keys if key not in known]:
        raise PolicyError(
            f"{policy.name} has no parameter {unknown[0]!r} that can be searched", hint=f"There are: {', '.join(known)}."
        )
    return tuple(known[key] for key in keys) or tuple(axis for axis in known.values() if axis.usual)


# Sessions


def _collect_cases(of: Path | str | Session | Iterable[Session], seed: int) -> tuple[list[Case], Counter[str]]:
    """The sessions that have a price, each content once, and why others are left out."""
    found: dict[str, Case] = {}
    left_out: Counter[str] = Counter()
    for name, session in _iter_sessions(of, seed, left_out):
        if len(session.requests) < MIN_SESSION_REQUESTS:
            left_out[f"fewer than {MIN_SESSION_REQUESTS} requests"] += 1
            continue
        record = replay(session)
        if not any(record.prices.find_rates(request.model, 0, request.sent_at) for request in session.requests):
            left_out["no known price"] += 1
            continue
        key = _digest_session(session)
        found.setdefault(key, Case(name, key, record, SharedFacts.from_trace(record)))
        if len(found) == MAX_SESSIONS:
            break
    return [found[key] for key in sorted(found)], left_out


def _iter_sessions(
    of: Path | str | Session | Iterable[Session], seed: int, left_out: Counter[str]
) -> Iterator[tuple[str, Session]]:
    if isinstance(of, Session):
        of = (of,)
    if not isinstance(of, (Path, str)):
        yield from ((session.title or session.id, session) for session in of)
        return
    path = Path(of)
    sources = [*find_sources(path)]
    Random(seed).shuffle(sources)  # noqa: S311 - a sample by a known seed
    for source in sources:
        try:
            listed = [*entries(source)]
            for entry in listed:
                yield f"{source.name}{f' {entry.id}' if len(listed) > 1 else ''}", load(source, entry)
        except (TurnscopeError, OSError):
            if len(sources) == 1:
                raise
            left_out["not readable"] += 1


def _digest_session(session: Session) -> str:
    """A key for a session, from its blocks, its usage and its requests."""
    digest = blake2b(digest_size=12)
    for block in session.blocks:
        digest.update(block.digest.encode())
    digest.update(msgspec.json.encode([(r.cut, r.stop, r.model, r.usage, r.sent_at) for r in session.requests]))
    return digest.hexdigest()


def _split_holdout(cases: Sequence[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """Split the sessions into those that are searched and those held out. The split follows from seed and contents."""
    if len(cases) < MIN_SESSIONS:
        return [*cases], []
    order = [*cases]
    Random(seed).shuffle(order)  # noqa: S311
    many = max(1, round(HOLDOUT_SHARE * len(order)))
    return order[many:], order[:many]


# Settings


@dataclass(slots=True)
class _Search:
    """Settings tried on sessions. `points`: figures by the changes against the file, in the order of the trials."""

    policy: Policy
    cases: Sequence[Case]
    memory: TrialLog
    stop: Stop
    points: dict[str, tuple[dict[str, JSON], Figures]] = field(default_factory=dict)
    impossible: set[str] = field(default_factory=set)

    def evaluate(self, values: Mapping[str, JSON]) -> Figures | None:
        """The figures of a setting on all sessions; None where a rule cannot do it, or where a model has no price."""
        own = {
            parameter.key: parameter.value
            for group in parameters.group_parameters(self.policy)
            for parameter in group.parameters
        }
        changes = {key: value for key, value in values.items() if own[key] != value}
        name = parameters.encode_changes(changes)
        if name not in self.points and name not in self.impossible:
            found = self.evaluate_on(self.cases, changes)
            if found is None:
                self.impossible.add(name)
            else:
                self.points[name] = changes, found
        return self.points[name][1] if name in self.points else None

    def evaluate_on(self, cases: Sequence[Case], changes: Mapping[str, JSON]) -> Figures | None:
        """The figures of changes on some sessions; None as in `evaluate`."""
        lines = [self._evaluate_one(case, changes) for case in cases]
        whole = [self._evaluate_one(case, {}) for case in cases]
        if any(line.error or line.unpriced > base.unpriced for line, base in zip(lines, whole, strict=True)):
            return None
        return sum((line.figures for line in lines), Figures())

    def _evaluate_one(self, case: Case, changes: Mapping[str, JSON]) -> TrialResult:
        name = parameters.encode_changes(changes)
        if (name, case.key) not in self.memory.known:
            if self.stop():
                raise Stopped
            try:
                line = TrialResult(name, case.key, *case.evaluate(parameters.apply_changes(self.policy, changes)))
            except TurnscopeError as error:
                line = TrialResult(name, case.key, error=str(error))
            self.memory.add(line)
        return self.memory.known[name, case.key]


# Advice


def _explain_too_few(axes: Sequence[Axis], search: _Search, left_out: Mapping[str, int]) -> str:
    """Why nothing can be advised, before the search; "" = it can."""
    cases = search.cases
    reasons = ", ".join(
        f"{many:,} with {why}" if why != "not readable" else f"{many:,} {why}" for why, many in left_out.items()
    )
    if not axes:
        return f"{search.policy.title or search.policy.name} has no number that could be turned. Choose another policy."
    if not cases:
        return f"There is no session to learn from{f' ({reasons} left out)' if reasons else ''}."
    requests = sum(len(case.record.plans) for case in cases)
    if requests < MIN_REQUESTS:
        return (
            f"{requests:,} requests are too few to advise by: {MIN_REQUESTS} are wanted. "
            "Give longer sessions, or a folder of them."
        )
    uses = sum(len(words) for case in cases for words in case.shared.references.uses)
    if uses < MIN_USES:
        return (
            f"The answers take up {uses:,} things of earlier messages, too few to see what a policy would lose: {MIN_USES} "
            "are wanted. Sessions with files, names and numbers say more."
        )
    return ""


def _build_advice(made: Advice, search: _Search, holdout: Sequence[Case], stopped: bool) -> Advice:
    """Build the advice: the Pareto front, the chosen point, and how the front does on the held-out sessions."""
    rows = [*search.points.values()]
    figures = [found for _, found in rows]
    best = advice.find_pareto_front(figures)
    number, because = advice.choose_point(figures, best)
    points = [Point(changes, found) for changes, found in rows]
    search.stop = (lambda: True) if stopped else search.stop
    try:
        for n in {0, *best} if rows else ():
            points[n] = msgspec.structs.replace(points[n], held=search.evaluate_on(holdout, rows[n][0]) if holdout else None)
    except Stopped:
        stopped = True
    too_few = _explain_no_effect(figures, stopped)
    return msgspec.structs.replace(
        made,
        points=tuple(points),
        front=best,
        chosen=None if too_few else number,
        because="" if too_few else because,
        impossible=len(search.impossible),
        too_few=too_few,
        stopped=stopped,
    )


def _add_others(made: Advice, search: _Search, holdout: Sequence[Case], folder: Path | None) -> Advice:
    """Add the figures of other policies, where something is advised."""
    if made.stopped or made.chosen is None:
        return made
    return msgspec.structs.replace(made, others=tuple(_measure_others(search, holdout, folder)))


def _measure_others(search: _Search, holdout: Sequence[Case], folder: Path | None) -> Iterator[OtherPolicy]:
    """Measure other policies, as they ship, on the sessions that were searched and on those held out."""
    for name in OTHERS:
        policy = load_policy(name)
        if policy.rules == search.policy.rules:
            continue
        other = _Search(policy, search.cases, open_log(folder, policy) if folder else TrialLog(), search.stop)
        try:
            found, held = other.evaluate_on(search.cases, {}), other.evaluate_on(holdout, {}) if holdout else None
        except Stopped:
            return
        if found is not None:
            yield OtherPolicy(name, found, held)


def _explain_no_effect(figures: Sequence[Figures], stopped: bool) -> str:
    """Why the trials show nothing; "" = they do."""
    if not figures:
        return "It was stopped before a setting was tried." if stopped else "No setting that was tried can be done."
    if any((each.usd, each.lost, each.unsent) != (figures[0].usd, figures[0].lost, figures[0].unsent) for each in figures):
        return ""
    never = "never changed a request" if not any(each.changed for each in figures) else "did the same"
    return (
        f"The policy {never} under any of {len(figures):,} settings: the fullest prompt fills {figures[0].peak:.0%} of its "
        "window, so these sessions say nothing about it. Longer sessions would."
    )
