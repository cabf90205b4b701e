"""Compares policies on a session: replays each, and keeps the newest replays, so that asking again costs nothing.

`views.comparison` says what a row holds. Pages have replays of their own (`library.replay_job`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from os import getpid
from pathlib import Path
from typing import Any

from msgspec import structs

from turnscope.library.fork_worker import iter_in_two
from turnscope.library.loading import get_session, pause_gc
from turnscope.library.opening import AS_RECORDED, begin_replay, load_policy, replay
from turnscope.planning.held_plans import MAX_BYTES, HeldPlans, PlanSequence
from turnscope.planning.policy import REPAIRS, Policy
from turnscope.planning.rejections import SharedChecks
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.views.cached_cost import count_answer_tokens
from turnscope.views.comparison import Comparison, Row, Sending, SharedFacts, build_row, measure_sending
from turnscope.views.losses import find_references
from turnscope.views.replay_cost import bill_record
from turnscope.views.savings import CANDIDATES, Saving, find_best_saving
from turnscope.views.user_rules import RuleIndex

COMPARED_POLICIES = (AS_RECORDED, "keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest", "extracts")
WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
MAX_REPLAYS = 32  # replays that are kept
FORK_FROM = 6_000  # requests of all replays together, from which on a second process is worth it
OnRow = Callable[[Row], object]


def _ignore(_: Row) -> None:
    """Nobody waits for single rows."""


@dataclass(slots=True)
class _Memory:
    """The newest replays of one session."""

    session: Session
    record: Trace | None = None
    shared: SharedFacts | None = None
    made: dict[str, tuple[Trace, Row]] = field(default_factory=dict)

    def replay_all(self, policies: Sequence[Policy], model: str = "", on_row: OnRow = _ignore) -> list[tuple[Trace, Row]]:
        """Replay policies and make their rows. The record, and what all replays share, is made once."""
        self.record = record = self.record or replay(self.session)
        sending = None
        if self.shared is None:
            alone = model or policies[:1] != [record.policy]
            self.shared, sending = (SharedFacts.from_trace(record), None) if alone else _begin_with_record(record)
        keys = [_build_key(policy, model) for policy in policies]
        untold = deque(keys)

        def tell() -> None:
            while untold and untold[0] in self.made:
                on_row(self.made[untold.popleft()][1])

        tell()
        for key, made in self._make_new(dict(zip(keys, policies, strict=True)), model, record, self.shared, sending):
            self.made[key] = made
            tell()
        self._compact()
        found = [self.made[key] for key in keys]
        while len(self.made) > MAX_REPLAYS:
            del self.made[next(iter(self.made))]
        return found

    def _make_new(
        self, wanted: Mapping[str, Policy], model: str, record: Trace, shared: SharedFacts, sending: Sending | None
    ) -> Iterator[tuple[str, tuple[Trace, Row]]]:
        """Make the replays and rows that are not made yet, by their keys, in order."""
        session = replace_model(record, model)
        new = {key: policy for key, policy in wanted.items() if key not in self.made}
        begin = {key: begin_replay(session, policy)[0] for key, policy in new.items() if model or policy != record.policy}
        if begin:
            deque(record.record, maxlen=0)  # what it says of other policies: both processes know it then

        here = getpid()

        def make_row(key: str) -> tuple[HeldPlans | None, Row]:
            trace = begin.get(key, record)
            known = None if key in begin else sending
            row, held = build_row(trace, shared, sent=not model, sending=known), trace.held if key in begin else None
            if held and (held.size > MAX_BYTES // len(new) or getpid() != here):
                held.compact()  # also where the plans would be handed over: planning some again is faster
            return held, row

        work = iter_in_two if len(new) * len(self.session.requests) >= FORK_FROM else map
        # the first by itself: what it finds in texts and messages, both processes know then
        keys = [*islice(new, 1), *sorted(islice(new, 1, None), key=lambda key: -_estimate_work(new[key]))]
        for key, (held, made) in zip(keys, chain(map(make_row, keys[:1]), work(make_row, keys[1:])), strict=True):
            trace = begin.get(key, record)
            if held and trace.held and held is not trace.held:  # planned in the other process
                held.take_over(trace.held)
                trace = replace(trace, plans=PlanSequence(held))
            yield key, (trace, made)

    def _compact(self) -> None:
        """Hold less of the older replays where all of them together are too large."""
        left = MAX_BYTES
        for trace, _ in reversed(self.made.values()):
            if trace.held:
                if trace.held.size > left:
                    trace.held.compact()
                left -= trace.held.size


def _estimate_work(policy: Policy) -> int:
    """How much work a replay may be: the longest first, so that both processes end at about the same time.

    A rule beyond the repairs costs most where it decides anew for each request.
    """
    own = [part.rule for part in policy.rules if part.rule.name not in REPAIRS]
    return sum(2 if rule.memory == "fresh" else 1 for rule in own)


def _begin_with_record(record: Trace) -> tuple[SharedFacts, Sending]:
    """What all replays share, and what sending the record came to; of a long session in two processes."""
    answers, looked, rules = count_answer_tokens(record), SharedChecks(), RuleIndex(record.session)
    parts: list[Callable[[], Any]] = [  # this process takes the first: what it checks of messages, it knows then
        partial(measure_sending, record, answers, looked),
        partial(find_references, record.session),
        partial(_prepare_replays, record, rules),
    ]
    work = iter_in_two if len(record.plans) >= FORK_FROM // 4 else map
    sending, references, _ = work(_call, parts)
    return SharedFacts(references, answers, looked, bill_record(record, sending.listed.total), rules), sending


def _prepare_replays(record: Trace, rules: RuleIndex) -> None:
    """What all replays need and the record holds, where this process is the one that makes them."""
    deque(record.record, maxlen=0)
    deque(rules.held, maxlen=0)


def _call(part: Callable[[], Any]) -> Any:
    return part()


def _build_key(policy: Policy, model: str) -> str:
    return f"{policy.name}\n{model}\n{policy.to_toml()}"


_memory: _Memory | None = None  # of the session that was compared last


def compare(
    session: Session | Thread | Path | str,
    policies: Iterable[Policy | Path | str] = COMPARED_POLICIES,
    *,
    model: str = "",
    window: int = 0,
    limit: int = 0,
    on_row: OnRow = _ignore,
) -> Comparison:
    """Compare policies on a session: a row for each, in their order. Every policy has the recorded answers.

    Args:
        session: a session, a thread, or a path to read one from.
        policies: policies, or their names.
        model: compare as if this model had answered, see `replace_model`; "" = the recorded ones.
        window, limit: tokens, see `resize_budget`; 0 = as they are.
        on_row: is given each row as soon as it and all before it are made.

    Raises:
        PolicyError: there is no policy of a name.

    >>> made = turnscope.compare(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), ["keep-everything", "last-5-pairs"])
    >>> [(row.policy, len(row.losses.hits)) for row in made.rows]
    [('keep-everything', 0), ('last-5-pairs', 4)]
    """
    global _memory
    session = get_session(session)
    if _memory is None or _memory.session is not session:
        _memory = _Memory(session)
    chosen = (
        policy if isinstance(policy, Policy) else load_policy(policy)
        for policy in ((policies,) if isinstance(policies, (str, Policy)) else policies)
    )
    with pause_gc():
        made = _memory.replay_all([resize_budget(policy, window, limit) for policy in chosen], model, on_row)
    return Comparison(session, tuple(row for _, row in made), tuple(trace for trace, _ in made))


def sweep(
    session: Session, policies: Iterable[Policy | Path | str], windows: Sequence[int] = WINDOWS
) -> dict[int, tuple[Row, ...]]:
    """Compare policies on windows of several sizes.

    Args:
        session: the session.
        policies: policies, or their names.
        windows: sizes in tokens.

    Returns:
        Rows by window, in the order of the policies.
    """
    chosen = [policy if isinstance(policy, Policy) else load_policy(policy) for policy in policies]
    memory = _Memory(session)
    return {
        window: tuple(made for _, made in memory.replay_all([resize_budget(policy, window) for policy in chosen]))
        for window in windows
    }


def find_saving(session: Session) -> Saving | None:
    """Find the one change of policy that would have saved most of a session's cost; None = none is worth it."""
    return find_best_saving(compare(session, (AS_RECORDED, *CANDIDATES)).rows)


def resize_budget(policy: Policy, window: int, limit: int = 0) -> Policy:
    """The policy for a model with another window, or with another limit. The record stays as it is.

    Args:
        policy: the policy.
        window: tokens of the window; 0 = as it is.
        limit: tokens that a prompt may have; 0 = as it is.

    >>> policy = next(policy for policy in turnscope.policies() if policy.name == "last-5-pairs")
    >>> resize_budget(policy, window=32_000).budget.window
    32000
    """
    if policy.name == AS_RECORDED or not (window or limit):
        return policy
    changed: dict[str, Any] = ({"window": window} if window else {}) | ({"formula": "fixed", "tokens": limit} if limit else {})
    models = {  # what was asked for holds for every model
        pattern: {
            part: {key: value for key, value in row.items() if part != "budget" or key not in changed}
            for part, row in table.items()
        }
        for pattern, table in policy.models.items()
    }
    return replace(policy, budget=replace(policy.budget, **changed), models=models)


def replace_model(recorded: Trace, model: str) -> Trace:
    """The record as if another model had answered every request, with its window, prices and prompt cache.

    Answers, and the scale of counted tokens, stay those of the recorded models.

    Args:
        recorded: the record.
        model: the model; "" = as it was.
    """
    if not model:
        return recorded
    session = recorded.session
    requests = tuple(structs.replace(request, model=model, requested_model="", window=0) for request in session.requests)
    return replace(recorded, session=structs.replace(session, requests=requests, window=None))
