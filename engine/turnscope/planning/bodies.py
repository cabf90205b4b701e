"""The bodies of one conversation's requests, each made of, and looked over on top of, what it shares with the one before.

A long conversation's next body is the last one and a little more. What is made is what `render.body` and `lint.lint` make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnscope.envelope.plan import Plan
from turnscope.planning.lint import Passed, Problem, lint_on
from turnscope.planning.render import Rendered, body, rendered
from turnscope.pricing.prices import Prices
from turnscope.session.model import JSON, Session


@dataclass(slots=True)
class Bodies:
    """Of one conversation that grows: a block that stood at an address stands there for good. Nobody may change a body."""

    _last: Rendered | None = None
    _passed: Passed | None = None

    def body(self, plan: Plan, session: Session) -> dict[str, JSON]:
        """See `render.body`."""
        self._last = rendered(plan.after, session, self._last)
        return body(plan, session, made_of=self._last)

    def wrong(self, body: Mapping[str, JSON], model: str, prices: Prices) -> tuple[Problem, ...]:
        """See `lint.lint`; without stale thinking."""
        found, self._passed = lint_on(body, model, prices, self._passed)
        return found
