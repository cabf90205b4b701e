"""Compares policies on a session: replays each, and keeps the newest replays, so that asking again costs nothing.

`views.comparison` says what a row holds. Pages have replays of their own (`library.replay_job`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.library.fork_worker import map_in_two
from turnscope.library.loading import get_session
from turnscope.library.opening import AS_RECORDED, begin_replay, load_policy, replay
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.views.comparison import Comparison, Row, SharedFacts, build_row
from turnscope.views.savings import CANDIDATES, Saving, find_best_saving

COMPARED_POLICIES = (AS_RECORDED, "keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
MAX_REPLAYS = 32  # replays that are kept
FORK_FROM = 6_000  # requests of all replays together, from which on a second process is worth it
V = TypeVar("V")


@dataclass(slots=True)
class _Memory:
    """The newest replays of one session."""

    session: Session
    record: Trace | None = None
    shared: SharedFacts | None = None
    made: dict[str, tuple[Trace, Row]] = field(default_factory=dict)

    def replay_all(self, policies: Sequence[Policy], model: str = "") -> list[tuple[Trace, Row]]:
        """Replay policies and make their rows. The record, and what all replays share, is made once."""
        self.record = record = self.record or replay(self.session)
        self.shared = shared = self.shared or SharedFacts.from_trace(record)
        session = replace_model(record, model)
        wanted = {_build_key(policy, model): policy for policy in policies}
        new = {key: policy for key, policy in wanted.items() if key not in self.made}
        begin = {key: begin_replay(session, policy) for key, policy in new.items() if model or policy != record.policy}

        def one(key: str) -> tuple[Sequence[Plan], Row]:
            whole, plans = begin.get(key, (record, record.plans))
            trace = replace(whole, plans=tuple(plans))
            return trace.plans, build_row(trace, shared, sent=not model)

        work = map_in_two if len(new) * len(self.session.requests) >= FORK_FROM else _run_here
        for key, (plans, made) in zip(new, work(one, [*new]), strict=True):
            self.made[key] = (replace(begin[key][0], plans=plans) if key in begin else record), made
        found = [self.made[_build_key(policy, model)] for policy in policies]
        while len(self.made) > MAX_REPLAYS:
            del self.made[next(iter(self.made))]
        return found


def _build_key(policy: Policy, model: str) -> str:
    return f"{policy.name}\n{model}\n{policy.to_toml()}"


def _run_here(work: Callable[[str], V], items: Sequence[str]) -> list[V]:
    return [work(item) for item in items]


_memory: _Memory | None = None  # of the session that was compared last


def compare(
    session: Session | Thread | Path | str,
    policies: Iterable[Policy | str] = COMPARED_POLICIES,
    *,
    model: str = "",
    window: int = 0,
    limit: int = 0,
) -> Comparison:
    """Compare policies on a session: a row for each, in their order. Every policy has the recorded answers.

    Args:
        session: a session, a thread, or a path to read one from.
        policies: policies, or their names.
        model: compare as if this model had been asked, see `replace_model`; "" = the recorded ones.
        window, limit: tokens, see `resize_budget`; 0 = as they are.

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
        load_policy(policy) if isinstance(policy, str) else policy
        for policy in ((policies,) if isinstance(policies, (str, Policy)) else policies)
    )
    made = _memory.replay_all([resize_budget(policy, window, limit) for policy in chosen], model)
    return Comparison(session, tuple(row for _, row in made), tuple(trace for trace, _ in made))


def sweep(session: Session, policies: Iterable[Policy | str], windows: Sequence[int] = WINDOWS) -> dict[int, tuple[Row, ...]]:
    """Compare policies on windows of several sizes.

    Args:
        session: the session.
        policies: policies, or their names.
        windows: sizes in tokens.

    Returns:
        Rows by window, in the order of the policies.
    """
    chosen = [load_policy(policy) if isinstance(policy, str) else policy for policy in policies]
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
    budget = replace(policy.budget, window=window or policy.budget.window)
    return replace(policy, budget=replace(budget, formula="fixed", tokens=limit) if limit else budget)


def replace_model(recorded: Trace, model: str) -> Trace:
    """The record as if every request had asked another model, with its window, prices and prompt cache.

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
