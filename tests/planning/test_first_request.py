"""A request is held to its limit by what would be sent; the first one is planned with what its log is known to lack."""

from __future__ import annotations

from dataclasses import replace

import pytest
import turnscope
from msgspec import structs
from turnscope.counting.calibration import PrefixPrior
from turnscope.library.opening import begin_replay, load_policy
from turnscope.planning.first_request import OWN_BILL, find_prior
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import CHAT, PROMPT_PRIOR, Session, Usage
from turnscope.views import comparison, overflow_tree, stepper

from tests.conftest import shared

POLICIES = ("keep-everything", "newest-within-budget", "relevant-within-budget", "openrouter-middle-out", "last-5-pairs")


def talk(*sizes: int, source: str = "test") -> Session:
    """A session whose prompts were billed so, of which its log holds a few words each."""
    builder = Builder("s", source, "t")
    builder.window = 200_000
    for n, size in enumerate(sizes):
        builder.add_message("user", f"go on with part {n}")
        usage = Usage(size, output_tokens=20) if size else None
        builder.set_request(builder.add_message("assistant", f"Done {n}."), model="claude-sonnet-4-5", usage=usage)
    return builder.build()


def replay_session(session: Session, name: str) -> Trace:
    begun, plans = begin_replay(turnscope.replay(session), load_policy(name))
    return replace(begun, plans=tuple(plans))


@pytest.mark.parametrize("name", ["as-recorded", "keep-everything", "last-5-pairs"])
def test_the_first_request_is_planned_with_what_it_was_billed_beyond_its_log(name: str) -> None:
    first = replay_session(talk(135_000, 135_300), name).plans[0]
    assert (first.expected_tokens, first.calibration.prior.source) == (135_000, OWN_BILL)
    assert first.calibration.error == 0.01
    assert replay_session(talk(135_000, 135_300), name).plans[1].calibration.prior is None, "it has learned by then"
    assert replay_session(talk(135_000), name).plans[0] == first, "no plan depends on what came later"


def test_a_chat_and_a_first_request_without_usage_have_no_prior() -> None:
    for session in (talk(135_000, source=CHAT), talk(0, 135_000), Session("empty")):
        assert find_prior(session, turnscope.replay(session).ledger) is None


def test_a_first_request_over_the_limit_is_not_planned_as_one_that_fits() -> None:
    made = replay_session(talk(250_000, 251_000), "keep-everything")
    assert [plan.verdict for plan in made.plans] == ["overflow", "overflow"]


def test_a_request_is_over_its_limit_by_what_would_be_sent_where_its_plan_expected_less() -> None:
    made = replay_session(talk(150_000, 150_020, 210_000, 210_020), "keep-everything")
    limit = made.plans[2].budget.limit
    assert made.plans[2].verdict == "send"
    assert made.plans[2].expected_tokens <= limit < made.count_tokens(2)
    assert made.get_verdict(2) == "overflow"
    assert overflow_tree.build_tree(made, 2)[-1].applies is False
    assert not any(node.applies for node in overflow_tree.build_tree(made, 2)), "it is not shown as sent within its limit"
    told = stepper.describe_size(made, 2)
    assert told.startswith(f"{made.plans[2].expected_tokens:,} tokens planned, ±")
    assert told.endswith(
        f"{made.count_tokens(2):,} would be sent; the limit is {limit:,}: {made.count_tokens(2) - limit:,} over"
    )
    row = comparison.build_row(made, comparison.SharedFacts.from_trace(made))
    assert row.overflows == sum(size > limit for size in row.sizes) > 0
    assert row.overflows == stepper.build_steps(made).verdicts[stepper.VERDICTS.index("overflow")]


def test_a_request_whose_plan_expected_too_much_is_none_over_its_limit() -> None:
    made = replay_session(talk(150_000, 150_020), "keep-everything")
    plan = structs.replace(made.plans[1], verdict="overflow")
    assert replace(made, plans=(made.plans[0], plan)).get_verdict(1) == "send"


@pytest.mark.thorough(every=5)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("file", ["entire-cd95-3compactions", "entire-b029-2compactions-apierrors"])
def test_no_real_request_is_over_its_limit_without_being_shown_so(file: str, name: str) -> None:
    made = replay_session(turnscope.load(shared("data", "open", "claude-code", f"{file}.jsonl")), name)
    over = {n for n, plan in enumerate(made.plans) if made.count_tokens(n) > plan.budget.limit}
    found = {n for n in range(len(made.plans)) if made.get_verdict(n) in ("overflow", "refuse")}
    assert over <= found <= {*overflow_tree.find_over_limit(made)}
    assert abs(made.plans[0].expected_tokens / made.count_tokens(0) - 1) < 0.05
    ended = [any(node.applies and node.step != "refuse" for node in overflow_tree.build_tree(made, n)) for n in over]
    assert not any(ended)


def test_without_a_bill_sessions_of_the_same_tool_and_version_tell_the_prior() -> None:
    session = structs.replace(talk(0, 0), about={PROMPT_PRIOR: {"tokens": 17_000, "source": "another session"}})
    first = turnscope.replay(session).plans[0]
    assert first.calibration.prior == PrefixPrior(17_000, 0.5, "another session")
    assert 17_000 < first.expected_tokens < 17_050
