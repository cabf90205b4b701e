"""What passing requests cost, by session and by day, and whether a budget is used up.

Prices are those of every other page. A request whose answer names no usage is estimated by its texts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.pricing.prices import Prices
from turnscope.reading.source import Source
from turnscope.reading.tap_log import TapCall, is_tap_log, read_tap_log
from turnscope.session.model import Usage
from turnscope.tap.client_bodies import CONVERSATIONS
from turnscope.tap.refusal_forms import Refusal, refuse_spending
from turnscope.tap.upstream_answers import read_answer


@dataclass(frozen=True, slots=True)
class Budgets:
    """Most USD of one session and of one day; None = no limit."""

    session: Decimal | None = None
    day: Decimal | None = None


class Spending:
    """What was spent. Any thread may add to it.

    Args:
        budgets: The budgets.
        prices: Prices of models.
        report: Is told once of each model without a price.
        clock: Gives the time in seconds since the Unix epoch.
    """

    def __init__(self, budgets: Budgets, prices: Prices, report: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.budgets, self.prices, self._report, self._clock = budgets, prices, report, clock
        self.by_session: dict[str, Decimal] = {}
        self.by_day: dict[str, Decimal] = {}
        self._unpriced: set[str] = set()
        self._lock = threading.Lock()

    def add(self, session: str, model: str, usage: Usage, at: float) -> None:
        """Add what a request was billed.

        Args:
            session: Its session.
            model: Its model.
            usage: Its tokens.
            at: When it was sent, in seconds since the Unix epoch.
        """
        cost = self.prices.compute_cost(usage, model, at)
        with self._lock:
            if cost is None:
                if model not in self._unpriced and (self.budgets.session or self.budgets.day):
                    self._report(f"no price is known for {model or 'an unnamed model'}: budgets do not count it")
                self._unpriced.add(model)
                return
            day = name_day(at)
            self.by_session[session] = self.by_session.get(session, Decimal(0)) + cost.total
            self.by_day[day] = self.by_day.get(day, Decimal(0)) + cost.total

    def refuse(self, api: str, session: str) -> Refusal | None:
        """Refuse the next request of a session where a budget is used up.

        Args:
            api: Its API.
            session: The session.
        """
        with self._lock:
            spent = {
                "session": (self.by_session.get(session, Decimal(0)), self.budgets.session),
                "day": (self.by_day.get(name_day(self._clock()), Decimal(0)), self.budgets.day),
            }
        found = ((name, used, most) for name, (used, most) in spent.items() if most is not None and used >= most)
        return next((refuse_spending(api, used, most, name) for name, used, most in found), None)

    def read_earlier(self, folder: Path) -> None:
        """Add what earlier taps recorded today.

        Args:
            folder: The folder of their logs.
        """
        today = name_day(self._clock())
        for path in sorted(folder.glob("*.jsonl")):
            if name_day(path.stat().st_mtime) == today:
                for call in _read_calls(path):
                    if call.sent_at and name_day(call.sent_at) == today and call.status == 200 and call.api in CONVERSATIONS:
                        model, usage = measure_answer(call.api, call.body, "".join(call.answer), call.model)
                        self.add(f"{path.stem}", model, usage, call.sent_at)


def _read_calls(path: Path) -> Iterator[TapCall]:
    source = Source(path)
    if is_tap_log(source):
        yield from read_tap_log(source).calls


def measure_answer(api: str, body: str, answer: str, model: str = "") -> tuple[str, Usage]:
    """Give the model that answered, and what is billed: as reported, else as counted by the texts.

    Args:
        api: The API.
        body: The body as it was sent.
        answer: What came back.
        model: The model, where neither of them names it.
    """
    call = read_answer(api, {}, answer, model)
    usage: Usage | None = call.about.get("usage") if call else None
    named = str(call.about.get("model") or "") if call else ""
    if usage is None:
        prompt, written = count_texts([body, answer], make_estimator(""))
        usage = Usage(prompt, output_tokens=written)
    return named or model, usage


def name_day(at: float) -> str:
    """Name the day of a moment, where this machine is."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"
