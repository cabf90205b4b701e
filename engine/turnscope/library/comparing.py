"""Comparing policies on a session: replays each, and keeps the last ones, so that asking again costs nothing.

What a row holds is `views.comparison`'s business; the pages hold replays of their own (`library.replaying`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.library.in_two import in_two
from turnscope.library.loading import session_of
from turnscope.library.opening import AS_RECORDED, begun, named, replay
from turnscope.planning.policy import Policy, write
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.views.comparison import Comparison, Row, Shared, row
from turnscope.views.savings import CHANGES, Saving, best

SHOWN = (AS_RECORDED, "keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
KEPT = 32  # replays
LONG = 6_000  # requests of all replays together, from which on a second process is worth its while
V = TypeVar("V")


@dataclass(slots=True)
class _Memory:
    """The newest replays of one session."""

    session: Session
    record: Trace | None = None
    shared: Shared | None = None
    made: dict[str, tuple[Trace, Row]] = field(default_factory=dict)

    def many(self, policies: Sequence[Policy], model: str = "") -> list[tuple[Trace, Row]]:
        """Policies' replays and their rows; what was really sent, and what all share, is put together once."""
        self.record = record = self.record or replay(self.session)
        self.shared = shared = self.shared or Shared.of(record)
        asked = under(record, model)
        wanted = {_key(policy, model): policy for policy in policies}
        new = {key: policy for key, policy in wanted.items() if key not in self.made}
        begin = {key: begun(asked, policy) for key, policy in new.items() if model or policy != record.policy}

        def one(key: str) -> tuple[Sequence[Plan], Row]:
            whole, plans = begin.get(key, (record, record.plans))
            trace = replace(whole, plans=tuple(plans))
            return trace.plans, row(trace, shared, sent=not model)

        work = in_two if len(new) * len(self.session.requests) >= LONG else _here
        for key, (plans, made) in zip(new, work(one, [*new]), strict=True):
            self.made[key] = (replace(begin[key][0], plans=plans) if key in begin else record), made
        found = [self.made[_key(policy, model)] for policy in policies]
        while len(self.made) > KEPT:
            del self.made[next(iter(self.made))]
        return found


def _key(policy: Policy, model: str) -> str:
    return f"{policy.name}\n{model}\n{write(policy)}"


def _here(work: Callable[[str], V], items: Sequence[str]) -> list[V]:
    return [work(item) for item in items]


_memory: _Memory | None = None  # of the session that was compared last


def compare(
    session: Session | Thread | Path | str,
    policies: Iterable[Policy | str] = SHOWN,
    *,
    model: str = "",
    window: int = 0,
    limit: int = 0,
) -> Comparison:
    """Policies side by side on a session (or that of a path), by name or as values: a row for each, in their order.

    Every answer is taken as recorded. `model`: another one than was asked, as `under` says; `window` and `limit` in tokens, as
    `sized` says. PolicyError where there is no policy of a name.

    >>> made = turnscope.compare(turnscope.load("sample_sessions/cache-goes-cold.jsonl"), ["keep-everything", "last-5-pairs"])
    >>> [(row.policy, len(row.losses.hits)) for row in made.rows]
    [('keep-everything', 0), ('last-5-pairs', 4)]
    """
    global _memory
    session = session_of(session)
    if _memory is None or _memory.session is not session:
        _memory = _Memory(session)
    chosen = (
        named(policy) if isinstance(policy, str) else policy
        for policy in ((policies,) if isinstance(policies, (str, Policy)) else policies)
    )
    made = _memory.many([sized(policy, window, limit) for policy in chosen], model)
    return Comparison(session, tuple(row for _, row in made), tuple(trace for trace, _ in made))


def sweep(session: Session, policies: Iterable[Policy | str], windows: Sequence[int] = WINDOWS) -> dict[int, tuple[Row, ...]]:
    """The same policies on windows of several sizes (tokens): rows by window, in the policies' order."""
    chosen = [named(policy) if isinstance(policy, str) else policy for policy in policies]
    memory = _Memory(session)
    return {window: tuple(made for _, made in memory.many([sized(policy, window) for policy in chosen])) for window in windows}


def saving(session: Session) -> Saving | None:
    """The one change of policy that would have saved most of a session's dollars; None where none is worth it."""
    return best(compare(session, (AS_RECORDED, *CHANGES)).rows)


def sized(policy: Policy, window: int, limit: int = 0) -> Policy:
    """A policy for a model with another window, whose prompts may have `limit` tokens; 0 = as they are. The record stays."""
    if policy.name == AS_RECORDED or not (window or limit):
        return policy
    asked = replace(policy.budget, window=window or policy.budget.window)
    return replace(policy, budget=replace(asked, formula="fixed", tokens=limit) if limit else asked)


def under(recorded: Trace, model: str) -> Trace:
    """The record as if every request had asked another model: its window, its prices, its prompt cache; "" = as it was.

    Answers, and what turns counted tokens into the provider's, stay those of the models that were asked.
    """
    if not model:
        return recorded
    session = recorded.session
    asked = tuple(structs.replace(request, model=model, requested_model="", window=0) for request in session.requests)
    return replace(recorded, session=structs.replace(session, requests=asked, window=None))
