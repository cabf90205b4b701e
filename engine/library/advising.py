"""The search for a policy's parameters: sessions read, settings tried, what each came to remembered, and the advice made of it.

A small space is tried as a grid, a larger one by optuna's multi-objective TPE sampler; both go by a seed. What a setting came
to on a session is a line of a file, so that whoever is stopped goes on where that was: the same seed asks for the same settings
again, and those that are known cost nothing. What points mean is `views.advice`'s business.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import blake2b
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from engine.errors import PolicyError, TurnscopeError
from engine.library import opinion
from engine.library.discovery import sources_in
from engine.library.opening import begun, entries, load, named, replay
from engine.planning.policy import Policy
from engine.planning.trace import Trace
from engine.session.model import JSON, Session
from engine.settings import data_folder
from engine.views import advice, knobs
from engine.views.advice import Advice, Axis, Figures, Point
from engine.views.comparison import Shared, row

VERSION = 1  # count up when a setting comes to something else on the same session
TRIALS = 50
MOST = 30  # sessions; of more a sample is taken, by the seed
SHORT = 5  # requests of a session that is too short to say anything
REQUESTS, USES = 50, 20  # that the searched sessions must have, else nothing is advised
HELD, FEW = 0.3, 3  # share of the sessions that is held out, and how many there must be for that
GRID = 4  # values of each parameter below which a grid is too coarse
_END = ".jsonl"

Tell = Callable[[int, int], object]  # settings that were tried, and how many will be
Stop = Callable[[], bool]


class _Line(msgspec.Struct):
    """What a setting came to on a session. `error`: why it is none."""

    setting: str
    session: str
    figures: Figures = Figures()
    unpriced: int = 0
    error: str = ""


@dataclass(slots=True)
class Memory:
    """What settings of one policy came to, in memory and, where there is a `file`, as a line each. A line that was not written
    to its end is passed over."""

    file: Path | None = None
    known: dict[tuple[str, str], _Line] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is None or not self.file.exists():
            return
        for text in self.file.read_bytes().splitlines():
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.DecodeError:
                continue
            self.known[line.setting, line.session] = line

    def keep(self, line: _Line) -> None:
        """Remember one. Whatever was cut off before it gets a line of its own."""
        self.known[line.setting, line.session] = line
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab+") as out:
                torn = out.tell() > 0 and out.seek(-1, 2) >= 0 and out.read(1) != b"\n"
                out.write(b"\n" * torn + msgspec.json.encode(line) + b"\n")


@dataclass(frozen=True, slots=True)
class Case:
    """A session that settings are tried on: its key by content, the record and what all its replays share."""

    name: str
    key: str
    record: Trace
    shared: Shared

    def tried(self, policy: Policy) -> tuple[Figures, int]:
        """What a policy comes to, and how many of its requests have no price. `TurnscopeError`s of rules."""
        whole, plans = begun(self.record, policy)
        trace = replace(whole, plans=tuple(plans))
        made = row(trace, self.shared)
        unsent = made.overflows + made.refusals + len(made.rejected)
        lost, uses = len(made.losses.hits), sum(made.losses.uses)
        usd = made.usd or Decimal(0)
        return Figures(usd, lost, uses, unsent, len(made.changed), len(trace.plans), made.peak[0]), made.cost.unpriced


class Stopped(Exception):
    """Whoever asked wants no more of it."""


def _silent(done: int, of: int) -> None:
    """Nobody hears how far it is."""


def _never() -> bool:
    """Nobody stops it."""
    return False


def kept() -> Path:
    """Where commands and pages keep what was tried."""
    return data_folder() / "advice"


def memory_of(folder: Path, policy: Policy) -> Memory:
    """What is remembered below a folder of a policy, as this version of Turnscope and its prices see it."""
    told = f"{VERSION}\n{opinion.version()}\n{knobs.as_text(policy)}"
    return Memory(folder / f"{policy.name}-{blake2b(told.encode(), digest_size=8).hexdigest()}{_END}")


def advise(
    of: Path | str | Session | Iterable[Session],
    policy: Policy | str,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    turn: Iterable[str] = (),
    folder: Path | None = None,
    tell: Tell | None = None,
    stop: Stop | None = None,
) -> Advice:
    """Search a policy's parameters for settings that cost less and lose less, over a session, several, a file or a folder.

    `turn`: keys of the parameters (`views.advice.axes`), () = the usual ones. `folder`: where what was tried is kept, so that a
    search that was stopped goes on; None = nowhere. `tell` hears how far it is, `stop` says when it is to end. PolicyError: no
    such policy or parameter. `TurnscopeError` where `of` cannot be read.

    >>> found = engine.advise(engine.load("sample_sessions/cache-goes-cold.jsonl"), "last-20-messages", trials=4)
    >>> found.method, [point.searched.lost for _, point in found.on_front][-1] <= found.points[0].searched.lost
    ('grid', True)
    """
    chosen = named(policy) if isinstance(policy, str) else policy
    axes = _axes(chosen, tuple(turn))
    cases, left_out = _cases(of, seed)
    searched, held = _parted(cases, seed)
    grid = _grid(axes, trials, seed)
    made = Advice(
        chosen.name, chosen.title or chosen.name, knobs.as_text(chosen), axes, "tpe" if grid is None else "grid", seed, trials,
        searched=tuple(case.name for case in searched), held=tuple(case.name for case in held), left_out=dict(left_out),
    )  # fmt: skip
    memory = memory_of(folder, chosen) if folder else Memory()
    search = _Search(chosen, searched, memory, stop or _never)
    say = tell or _silent
    if too_few := _too_few(axes, search, left_out):
        return msgspec.structs.replace(made, too_few=too_few)
    stopped = False
    try:
        settings = iter(grid) if grid is not None else _sampled(axes, seed, search)
        many = trials if grid is None else min(trials, len(grid))
        for done, setting in enumerate(islice(settings, many)):
            say(done, many)
            search.all(setting)
        say(many, many)
    except Stopped:
        stopped = True
    return _advice(made, search, held, stopped)


def _axes(policy: Policy, turn: Sequence[str]) -> tuple[Axis, ...]:
    known = {axis.key: axis for axis in advice.axes(policy)}
    if unknown := [key for key in turn if key not in known]:
        raise PolicyError(
            f"{policy.name} has no parameter {unknown[0]!r} that could be turned", hint=f"There are: {', '.join(known)}."
        )
    return tuple(known[key] for key in turn) or tuple(axis for axis in known.values() if axis.usual)


# Sessions


def _cases(of: Path | str | Session | Iterable[Session], seed: int) -> tuple[list[Case], Counter[str]]:
    """The sessions that can be compared in dollars, each content once, and why others are left out."""
    found: dict[str, Case] = {}
    left_out: Counter[str] = Counter()
    for name, session in _sessions(of, seed, left_out):
        if len(session.requests) < SHORT:
            left_out[f"fewer than {SHORT} requests"] += 1
            continue
        record = replay(session)
        if not any(record.prices.rates(request.model, 0, request.sent_at) for request in session.requests):
            left_out["no known price"] += 1
            continue
        key = _key(session)
        found.setdefault(key, Case(name, key, record, Shared.of(record)))
        if len(found) == MOST:
            break
    return [found[key] for key in sorted(found)], left_out


def _sessions(of: Path | str | Session | Iterable[Session], seed: int, left_out: Counter[str]) -> Iterator[tuple[str, Session]]:
    if isinstance(of, Session):
        of = (of,)
    if not isinstance(of, (Path, str)):
        yield from ((session.title or session.id, session) for session in of)
        return
    path = Path(of)
    sources = [*sources_in(path)]
    Random(seed).shuffle(sources)  # noqa: S311 - a sample, by a seed that is told
    for source in sources:
        try:
            listed = [*entries(source)]
            for entry in listed:
                yield f"{source.name}{f' {entry.id}' if len(listed) > 1 else ''}", load(source, entry)
        except (TurnscopeError, OSError):
            if len(sources) == 1:
                raise
            left_out["not readable"] += 1


def _key(session: Session) -> str:
    """Names a session by what was said, billed and sent."""
    digest = blake2b(digest_size=12)
    for block in session.blocks:
        digest.update(block.digest.encode())
    digest.update(msgspec.json.encode([(r.cut, r.stop, r.model, r.usage, r.sent_at) for r in session.requests]))
    return digest.hexdigest()


def _parted(cases: Sequence[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """The sessions that are searched, and those that are held out; which ones follows from seed and contents."""
    if len(cases) < FEW:
        return [*cases], []
    order = [*cases]
    Random(seed).shuffle(order)  # noqa: S311
    many = max(1, round(HELD * len(order)))
    return order[many:], order[:many]


# Settings


@dataclass(slots=True)
class _Search:
    """Settings tried on sessions. `points`: by what differs from the file, in the order in which they were first asked for."""

    policy: Policy
    cases: Sequence[Case]
    memory: Memory
    stop: Stop
    points: dict[str, tuple[dict[str, JSON], Figures]] = field(default_factory=dict)
    impossible: set[str] = field(default_factory=set)

    def all(self, given: Mapping[str, JSON]) -> Figures | None:
        """What a setting comes to on all of them; None where a rule cannot do it, or it goes where there is no price."""
        own = {knob.key: knob.value for group in knobs.groups(self.policy) for knob in group.knobs}
        changes = {key: value for key, value in given.items() if own[key] != value}
        name = knobs.written(changes)
        if name not in self.points and name not in self.impossible:
            found = self.on(self.cases, changes)
            if found is None:
                self.impossible.add(name)
            else:
                self.points[name] = changes, found
        return self.points[name][1] if name in self.points else None

    def on(self, cases: Sequence[Case], changes: Mapping[str, JSON]) -> Figures | None:
        """The same on some sessions."""
        lines = [self._one(case, changes) for case in cases]
        whole = [self._one(case, {}) for case in cases]
        if any(line.error or line.unpriced > base.unpriced for line, base in zip(lines, whole, strict=True)):
            return None
        return sum((line.figures for line in lines), Figures())

    def _one(self, case: Case, changes: Mapping[str, JSON]) -> _Line:
        name = knobs.written(changes)
        if (name, case.key) not in self.memory.known:
            if self.stop():
                raise Stopped
            try:
                line = _Line(name, case.key, *case.tried(knobs.tuned(self.policy, changes)))
            except TurnscopeError as error:
                line = _Line(name, case.key, error=str(error))
            self.memory.keep(line)
        return self.memory.known[name, case.key]


def _grid(axes: Sequence[Axis], trials: int, seed: int) -> list[dict[str, JSON]] | None:
    """All settings of a space that is small enough for so many trials, the file's own first; None where it is not."""
    if not axes:
        return []
    each = max(int((trials + 1e-9) ** (1 / len(axes))), 1)
    values = [_values(axis, each) for axis in axes]
    if each < GRID and any(len(have) < _most(axis) for have, axis in zip(values, axes, strict=True)):
        return None
    rest = [dict(zip((axis.key for axis in axes), row, strict=True)) for row in product(*values)]
    Random(seed).shuffle(rest)  # noqa: S311
    own = {axis.key: axis.own for axis in axes}
    return [own, *(setting for setting in rest if setting != own)]


def _most(axis: Axis) -> int:
    return len(axis.values) or (int(axis.high) - int(axis.low) + 1 if axis.whole else 1_000)


def _values(axis: Axis, many: int) -> list[JSON]:
    """At most so many values of a parameter, the file's own among them: counts by their ratio, shares by difference."""
    if axis.values:
        return [*axis.values][:many]
    if many == 1:
        return [axis.own]
    steps = [step / (many - 1) for step in range(many)]
    if not axis.whole:
        found = {round(axis.low + (axis.high - axis.low) * step, 2) for step in steps}
    else:
        found = {_neat(axis.low * (axis.high / axis.low) ** step) for step in steps}
    near = min(found, key=lambda value: abs(value - axis.own))
    return sorted(found - {near} | {axis.own})


def _sampled(axes: Sequence[Axis], seed: int, search: _Search) -> Iterator[dict[str, JSON]]:
    """Settings as optuna asks for them, the file's own first. What each came to is found in the search when the next is due."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.enqueue_trial({axis.key: axis.own for axis in axes})
    while True:
        trial = study.ask()
        setting = {axis.key: _suggested(trial, axis) for axis in axes}
        yield setting
        found = search.all(setting)
        if found is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            trial.set_constraint("unsent", float(found.unsent))
            study.tell(trial, (float(found.usd), float(found.lost)))


def _suggested(trial: Any, axis: Axis) -> JSON:
    if axis.values:
        return trial.suggest_categorical(axis.key, [*axis.values])
    if axis.whole:
        count = trial.suggest_int(axis.key, int(axis.low), int(axis.high), log=True)
        return count if count == axis.own else _neat(count)
    value = trial.suggest_float(axis.key, axis.low, axis.high)
    return value if value == axis.own else round(value, 2)


def _neat(count: float) -> int:
    """A count as a person would write it: two digits, then zeros."""
    return int(float(f"{count:.1e}")) if count >= 100 else round(count)


# Advice


def _too_few(axes: Sequence[Axis], search: _Search, left_out: Mapping[str, int]) -> str:
    """Why nothing can be advised, before anything is searched; "" where it can."""
    cases = search.cases
    reasons = ", ".join(
        f"{many:,} with {why}" if why != "not readable" else f"{many:,} {why}" for why, many in left_out.items()
    )
    if not axes:
        return f"{search.policy.title or search.policy.name} has no number that could be turned. Choose another policy."
    if not cases:
        return f"There is no session to learn from{f' ({reasons} left out)' if reasons else ''}."
    requests = sum(len(case.record.plans) for case in cases)
    if requests < REQUESTS:
        return (
            f"{requests:,} requests are too few to advise by: {REQUESTS} are wanted. Give longer sessions, or a folder of them."
        )
    uses = sum(len(words) for case in cases for words in case.shared.used.uses)
    if uses < USES:
        return (
            f"The answers take up {uses:,} things that were said before, too few to see what a policy would lose: {USES} are "
            "wanted. Sessions with files, names and numbers say more."
        )
    return ""


def _advice(made: Advice, search: _Search, held: Sequence[Case], stopped: bool) -> Advice:
    """The points put together: front, choice, and how those on the front do on what was held out."""
    rows = [*search.points.values()]
    figures = [found for _, found in rows]
    best = advice.front(figures)
    number, because = advice.chosen(figures, best)
    points = [Point(changes, found) for changes, found in rows]
    search.stop = (lambda: True) if stopped else search.stop
    try:
        for n in {0, *best} if rows else ():
            points[n] = msgspec.structs.replace(points[n], held=search.on(held, rows[n][0]) if held else None)
    except Stopped:
        stopped = True
    too_few = _idle(figures, stopped)
    return msgspec.structs.replace(
        made, points=tuple(points), front=best, chosen=None if too_few else number, because="" if too_few else because,
        impossible=len(search.impossible), too_few=too_few, stopped=stopped,
    )  # fmt: skip


def _idle(figures: Sequence[Figures], stopped: bool) -> str:
    """Why what was tried says nothing; "" where it does."""
    if not figures:
        return "It was stopped before a setting was tried." if stopped else "No setting that was tried can be done."
    if any((each.usd, each.lost, each.unsent) != (figures[0].usd, figures[0].lost, figures[0].unsent) for each in figures):
        return ""
    never = "never changed a request" if not any(each.changed for each in figures) else "did the same"
    return (
        f"The policy {never} under any of {len(figures):,} settings: the fullest prompt fills {figures[0].peak:.0%} of its "
        "window, so these sessions say nothing about it. Longer sessions would."
    )
