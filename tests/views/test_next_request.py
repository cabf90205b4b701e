"""When a chat is cut next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from turnscope.views import next_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnscope.envelope.plan import Plan

WINDOW, SHARE = 16_000, 0.5


def plan_next(messages: Sequence[tuple[str, str]]) -> Plan:
    """A policy that removes old turns above half of the window, and can do nothing about one large message."""
    tokens = 1_000 + sum(len(text.split()) for _, text in messages)
    cut = tokens > SHARE * WINDOW and len(messages) > 1
    return cast(
        "Plan",
        SimpleNamespace(
            budget=SimpleNamespace(window=WINDOW),
            before=SimpleNamespace(tokens=tokens),
            calibration=SimpleNamespace(predict=int),
            is_changed=cut,
            verdict="overflow" if tokens > WINDOW and not cut else "fits",
        ),
    )


def test_small_turns_after_a_summary_do_not_say_that_the_policy_makes_no_room() -> None:
    ahead = next_request.predict_next_cut(plan_next, growth=70)
    assert not ahead.blocked
    assert ahead.turns is None, "too many to say"
    assert ahead.cut_at is not None
    assert abs(ahead.cut_at - SHARE * WINDOW) < WINDOW / 32


def test_turns_are_counted_where_the_cut_is_near() -> None:
    ahead = next_request.predict_next_cut(plan_next, growth=1_000)
    assert ahead == next_request.NextCut(ahead.cut_at, 7, 1_000)
