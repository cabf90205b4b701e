"""What passing requests cost, by session and by day, what is held back for those that run, and whether a budget is used up.

Beside others a request leaves only where the budget pays for all of them at their dearest; else it waits for them. Alone it
leaves where the budget pays for what its session's requests have cost of late. Prices are those of every other page.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from turnscope.pricing.prices import Prices
from turnscope.session.model import Usage
from turnscope.tap.expected_costs import ExpectedCost
from turnscope.tap.log_sums import RECENT
from turnscope.tap.refusal_forms import Refusal, refuse_spending
from turnscope.tap.spending_ledger import Shares, SpendingLedger, Sums

RUN = "run"  # the session of requests that name none: those of one tap


@dataclass(frozen=True, slots=True)
class Budgets:
    """Most USD of one session and of one day; None = no limit."""

    session: Decimal | None = None
    day: Decimal | None = None

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self.session is not None or self.day is not None


@dataclass(eq=False, slots=True)
class Hold:
    """What is held back for a running request. `usd`: how much."""

    session: str
    usd: Decimal


@dataclass(frozen=True, slots=True)
class _Scope:
    """One budget: `most` of it, what was spent, and what is held back, in USD."""

    name: str
    most: Decimal
    spent: Decimal
    held: Decimal


class Spending:
    """What was spent and is held back. Any thread may use it.

    Args:
        budgets: The budgets.
        prices: Prices of models.
        report: Is told once of each model without a price.
        clock: Gives the time in seconds since the Unix epoch.
        ledger: What other taps spend; None = nothing is known of others.
    """

    def __init__(
        self,
        budgets: Budgets,
        prices: Prices,
        report: Callable[[str], None],
        clock: Callable[[], float],
        ledger: SpendingLedger | None = None,
    ) -> None:
        self.budgets, self.prices, self.ledger, self._report, self._clock = budgets, prices, ledger, report, clock
        self.by_session: dict[str, Decimal] = {}
        self.by_day: dict[str, Decimal] = {}
        self._recent: dict[str, deque[Decimal]] = {}
        self._holds: set[Hold] = set()
        self._unpriced: set[str] = set()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    def hold(self, api: str, session: str, cost: ExpectedCost) -> Hold | Refusal | None:
        """Hold back what a request may cost; None where it has to wait for those that run, a refusal where no budget pays it.

        Args:
            api: Its API.
            session: Its session.
            cost: What it may cost.
        """
        with self._lock, self._open_ledger(session) as others:
            known = max(self._find_usual(session), others.session.usual) or self._find_usual() or others.day.usual
            usual = min(cost.most, known or cost.prompt)
            scopes = self._list_scopes(session, others)
            for scope in scopes:
                if scope.spent >= scope.most or scope.spent + usual > scope.most:
                    return refuse_spending(api, scope.spent, scope.most, scope.name, usual)
            if any(scope.held and scope.spent + scope.held + cost.most > scope.most for scope in scopes):
                return None
            made = Hold(session, cost.most)
            self._holds.add(made)
            return made

    def wait(self, seconds: float) -> None:
        """Wait until something is no longer held back, or so long: other taps are not heard of.

        Args:
            seconds: How long at most.
        """
        with self._changed:
            self._changed.wait(seconds)

    def release(self, hold: Hold | None) -> None:
        """Hold something back no longer. What it cost is added before, if anything. Again it does nothing.

        Args:
            hold: What was held back.
        """
        with self._changed:
            if hold in self._holds:
                self._holds.discard(hold)
                self._tell(hold.session)

    def add(self, session: str, model: str, usage: Usage, at: float, hold: Hold | None = None) -> None:
        """Add what a request was billed, and hold nothing back for it any more.

        Args:
            session: Its session.
            model: Its model.
            usage: Its tokens.
            at: When it was sent, in seconds since the Unix epoch.
            hold: What was held back for it.
        """
        cost = self.prices.compute_cost(usage, model, at)
        if cost is None:
            self.say_unpriced(model)
            self.release(hold)
            return
        with self._changed:
            day = name_day(at)
            self.by_session[session] = self.by_session.get(session, Decimal(0)) + cost.total
            self.by_day[day] = self.by_day.get(day, Decimal(0)) + cost.total
            self._recent.setdefault(session, deque(maxlen=RECENT)).append(cost.total)
            if hold:
                self._holds.discard(hold)
            self._tell(session)

    def say_unpriced(self, model: str) -> None:
        """Report once that a model has no known price."""
        with self._lock:
            if model not in self._unpriced and self.budgets.are_set:
                self._report(f"no price is known for {model or 'an unnamed model'}: budgets do not count it")
            self._unpriced.add(model)

    def refuse(self, api: str, session: str) -> Refusal | None:
        """Refuse the next request of a session where a budget is used up, by what this tap alone spent.

        Args:
            api: Its API.
            session: The session.
        """
        with self._lock:
            scopes = self._list_scopes(session, Shares())
        used = (scope for scope in scopes if scope.spent >= scope.most)
        return next((refuse_spending(api, scope.spent, scope.most, scope.name) for scope in used), None)

    def close(self) -> None:
        """Tell the other taps that this one has ended. Its log is written by then."""
        with self._lock:
            if self.ledger:
                self.ledger.close()
            self.ledger = None

    @contextmanager
    def _open_ledger(self, session: str) -> Iterator[Shares]:
        """Give what other taps spent and hold. They wait, and are told behind the block what this one does."""
        if self.ledger is None:
            yield Shares()
            return
        with self.ledger.open(_name_shared(session), lambda: self._add_own(session)) as others:
            yield others

    def _tell(self, session: str) -> None:
        """Tell requests that wait, and other taps, that something changed."""
        if self.ledger:
            self.ledger.write(_name_shared(session), self._add_own(session))
        self._changed.notify_all()

    def _add_own(self, session: str) -> Shares:
        spent = self.by_day.get(name_day(self._clock()), Decimal(0))
        of_session = Sums(self.by_session.get(session, Decimal(0)), self._sum_held(session), self._find_usual(session))
        return Shares(Sums(spent, self._sum_held(), self._find_usual()), of_session)

    def _list_scopes(self, session: str, others: Shares) -> list[_Scope]:
        own = self._add_own(session)
        known = [
            ("session", self.budgets.session, own.session, others.session),
            ("day", self.budgets.day, own.day, others.day),
        ]
        return [
            _Scope(name, most, mine.spent + theirs.spent, mine.held + theirs.held)
            for name, most, mine, theirs in known
            if most is not None
        ]

    def _find_usual(self, session: str | None = None) -> Decimal:
        """What the dearest of a session's requests of late cost; without one, of all sessions."""
        return max(
            (cost for name, costs in self._recent.items() if session in (None, name) for cost in costs), default=Decimal(0)
        )

    def _sum_held(self, session: str | None = None) -> Decimal:
        return sum((hold.usd for hold in self._holds if session in (None, hold.session)), Decimal(0))


def _name_shared(session: str) -> str:
    """The name by which other taps know a session; "" = by none."""
    return "" if session == RUN else session


def name_day(at: float) -> str:
    """Name the day of a moment, where this machine is."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"
