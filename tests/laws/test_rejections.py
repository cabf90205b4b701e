"""What a provider would reject of a trace's requests, read on what changed, is what lint finds in each whole body."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from law_sessions import ledger_of, sessions

from engine.planning.assemble import replay
from engine.planning.lint import lint
from engine.planning.policy import names
from engine.planning.rejections import Looking
from engine.planning.render import body
from engine.pricing.prices import PRICES
from engine.session.model import Session
from tests.laws.test_policies import limits, tight


@pytest.mark.parametrize("name", names())
@settings(max_examples=10)
@given(session=sessions, limit=limits)
def test_what_is_read_on_what_changed_is_what_lint_finds(name: str, session: Session, limit: int) -> None:
    looking = Looking(session)
    for plan in replay(session, tight(name, limit), ledger_of(session)):
        found = lint(body(plan, session), plan.model, prices=PRICES)
        assert sorted(looking.look(plan, PRICES)) == sorted(found), plan
