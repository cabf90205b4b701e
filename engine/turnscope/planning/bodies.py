"""Request bodies of one conversation, each built and checked on top of the previous one.

A body of a long conversation is the previous body and a little more. The results equal `render.build_body` and `lint.lint`.
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
    """The bodies of one growing conversation: a block never changes once it is there. Callers must not change a body."""

    _last: Rendering | None = None
    _passed: CheckedMessages | None = None

    def build(self, plan: Plan, session: Session) -> dict[str, JSON]:
        """Return the body of a plan; see `render.build_body`.

        Args:
            plan: The plan.
            session: Its session.
        """
        self._last = render_envelope(plan.after, session, self._last)
        return build_body(plan, session, rendering=self._last)

    def lint(self, body: Mapping[str, JSON], model: str, prices: Prices) -> tuple[Problem, ...]:
        """Return what the provider would reject; see `lint.lint`. Stale thinking is not checked.

        Args:
            body: The body of a request.
            model: The model that it goes to.
            prices: What is known of models.
        """
        found, self._passed = lint_continued(body, model, prices, self._passed)
        return found
