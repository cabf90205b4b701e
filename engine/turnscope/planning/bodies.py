"""The bodies of one conversation's requests, each made of, and looked over on top of, what it shares with the one before.

A next body of a long conversation is the last one and a little more. It is what `render.build_body` and `lint.lint` make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnscope.envelope.plan import Plan
from turnscope.planning.lint import CheckedMessages, Problem, lint_continued
from turnscope.planning.render import Rendering, build_body, render_envelope
from turnscope.pricing.prices import Prices
from turnscope.session.model import JSON, Session


@dataclass(slots=True)
class Bodies:
    """Of one conversation that grows: a block that stood at an address stands there for good. Nobody may change a body."""

    _last: Rendering | None = None
    _passed: CheckedMessages | None = None

    def build(self, plan: Plan, session: Session) -> dict[str, JSON]:
        """See `render.build_body`."""
        self._last = render_envelope(plan.after, session, self._last)
        return build_body(plan, session, rendering=self._last)

    def lint(self, body: Mapping[str, JSON], model: str, prices: Prices) -> tuple[Problem, ...]:
        """See `lint.lint`; without stale thinking."""
        found, self._passed = lint_continued(body, model, prices, self._passed)
        return found
