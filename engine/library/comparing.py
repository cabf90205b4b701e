"""Comparing policies on a session: replays each, and keeps the last ones, so that asking again costs nothing.

What a row holds is `views.comparison`'s business; the pages hold replays of their own (`library.replaying`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from engine.library.opening import AS_RECORDED, begun, named, replay
from engine.planning.policy import Policy, write
from engine.planning.trace import Trace
from engine.session.model import Session
from engine.views.comparison import Comparison, Row, Shared, row
from engine.views.savings import CHANGES, Saving, best

SHOWN = (AS_RECORDED, "keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
WINDOWS = (8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
KEPT = 32  # replays


@dataclass(slots=True)
class _Memory:
    """The newest replays of one session."""

    session: Session
    record: Trace | None = None
    shared: Shared | None = None
    made: dict[str, tuple[Trace, Row]] = field(default_factory=dict)

    def trace(self, policy: Policy, model: str = "") -> Trace:
        """A policy's replay; what was really sent is put together once for all."""
        self.record = self.record or replay(self.session)
        if policy == self.record.policy and not model:
            return self.record
        whole, plans = begun(under(self.record, model), policy)
        return replace(whole, plans=tuple(plans))

    def one(self, policy: Policy, model: str = "") -> tuple[Trace, Row]:
        """A policy's replay and its row."""
        key = f"{policy.name}\n{model}\n{write(policy)}"
        if key not in self.made:
            trace = self.trace(policy, model)
            self.shared = self.shared or Shared.of(trace)
            self.made[key] = trace, row(trace, self.shared, sent=not model)
            while len(self.made) > KEPT:
                del self.made[next(iter(self.made))]
        return self.made[key]


_memory: _Memory | None = None  # of the session that was compared last


def compare(
    session: Session, policies: Iterable[Policy | str] = SHOWN, *, model: str = "", window: int = 0, limit: int = 0
) -> Comparison:
    """Policies side by side on a session, by name or as values: a row for each, in their order.

    Every answer is taken as recorded. `model`: another one than was asked, as `under` says; `window` and `limit` in tokens, as
    `sized` says. PolicyError where there is no policy of a name.

    >>> made = engine.compare(engine.load("sample_sessions/cache-goes-cold.jsonl"), ["keep-everything", "last-5-pairs"])
    >>> [(row.policy, len(row.losses.hits)) for row in made.rows]
    [('keep-everything', 0), ('last-5-pairs', 4)]
    """
    global _memory
    if _memory is None or _memory.session is not session:
        _memory = _Memory(session)
    chosen = (named(policy) if isinstance(policy, str) else policy for policy in policies)
    made = [_memory.one(sized(policy, window, limit), model) for policy in chosen]
    return Comparison(session, tuple(row for _, row in made), tuple(trace for trace, _ in made))


def sweep(session: Session, policies: Iterable[Policy | str], windows: Sequence[int] = WINDOWS) -> dict[int, tuple[Row, ...]]:
    """The same policies on windows of several sizes (tokens): rows by window, in the policies' order."""
    chosen = [named(policy) if isinstance(policy, str) else policy for policy in policies]
    memory = _Memory(session)
    return {window: tuple(memory.one(sized(policy, window))[1] for policy in chosen) for window in windows}


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
    asked = tuple(structs.replace(request, model=model, asked="", window=0) for request in session.requests)
    return replace(recorded, session=structs.replace(session, requests=asked, window=None))
