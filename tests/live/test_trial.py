"""Which policies must not send a chat, and what says so: tried as a chat is, kept for the list, told in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trials import wrong
from turnscope.live import trial
from turnscope.live.trial import Trial, list_doubts, run_trial, summarize_doubts
from turnscope.planning.policy import list_policies, load
from turnscope.session.destination import Destination

HERE, SERVER = Destination("offline", model="offline-16k"), Destination("server", "http://127.0.0.1:1", "local", 8_000)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", [name for name in list_policies() if name != "as-recorded"])
def test_what_is_kept_is_what_a_policy_comes_to(name: str) -> None:
    kept = {key: held for key, held in trial.load_trials().items() if key == name}
    assert wrong([name]) == kept, "run `python -m tests.regenerate trials`"


def test_what_is_kept_names_policies_that_there_are() -> None:
    assert set(trial.load_trials()) <= set(list_policies())
    assert not {"balanced", "last-5-pairs", "cline-classic"} & set(trial.load_trials())


@pytest.mark.parametrize(
    ("name", "few", "said"),
    [
        ("balanced", "", ""),
        ("cline-classic", "", ""),
        ("keep-everything", "ends when the window is full", "the first at turn 7: it does not make room"),
    ],
)
def test_a_policy_that_leaves_messages_unanswered_says_so(name: str, few: str, said: str) -> None:
    policy = load(name)
    assert summarize_doubts(policy, HERE) == few
    found = list_doubts(policy, HERE, trial.get_trial(policy), True)
    assert len(found) == bool(few)
    assert said in "".join(found)


def test_what_a_server_must_be_able_to_do_is_told_where_it_is_another_one() -> None:
    for name in ("server-compaction", "server-clear-tool-uses", "server-compaction-on-demand"):
        policy = load(name)
        assert (summarize_doubts(policy, HERE), list_doubts(policy, HERE, Trial(), True)) == ("", ())
        assert summarize_doubts(policy, SERVER) == "needs Anthropic's API"
        assert "which Anthropic's API has" in list_doubts(policy, SERVER, Trial(), True)[0]


def test_a_policy_whose_summaries_are_switched_off_or_whose_budget_no_window_holds_says_so() -> None:
    policy = load("condense-oldest")
    assert run_trial(policy).is_usable
    without = run_trial(policy, summaries=False)
    assert without.runs_full
    assert "switched off" in list_doubts(policy, HERE, without, False)[0]
    fixed = load("chainreview-recommended")
    assert "144,000 tokens" in list_doubts(fixed, HERE, trial.get_trial(fixed), True)[0]
    assert list_doubts(fixed, Destination("anthropic", model="claude-opus-5-5"), trial.get_trial(fixed), True) == ()


def test_a_policy_that_was_turned_is_tried_as_it_is() -> None:
    policy = load("last-20-messages")
    more = replace(
        policy, rules=(replace(policy.rules[0], params=replace(policy.rules[0].params, keep=500)), *policy.rules[1:])
    )
    assert list_doubts(policy, HERE, trial.get_trial(policy), True) == ()
    assert "does not make room" in list_doubts(more, HERE, trial.get_trial(more, shipped=False), True)[0]
