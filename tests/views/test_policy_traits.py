"""What policies are chosen by: kinds, proofs, measured figures, and the strategies."""

from __future__ import annotations

from pathlib import Path

import pytest
from policy_figures import measure
from turnscope.library.opening import load, replay
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.policy import list_policies
from turnscope.planning.policy_catalog import load_shipped
from turnscope.views import policy_traits
from turnscope.views.policy_figures import draw_strip, fill_window, load_figures

SAMPLES = Path(__file__).resolve().parents[2] / "sample_sessions"
TRAITS = {each.name: each for each in policy_traits.list_traits(load_shipped())}


def test_every_shipped_policy_has_a_kind_a_proof_and_figures() -> None:
    assert {*TRAITS} == {*list_policies()}
    for name, traits in TRAITS.items():
        assert traits.kinds, name
        assert {*traits.kinds} <= {*policy_traits.KINDS}, name
        assert traits.proof in policy_traits.PROOFS
        assert (traits.figures is None) == (name == AS_RECORDED), f"{name}: run `python -m tests.regenerate figures`"


@pytest.mark.parametrize(
    ("name", "kinds", "proof"),
    [
        ("keep-everything", {"keeps"}, "illustrative"),
        ("claude-code", {"condenses"}, "approximate"),
        ("cline-classic", {"truncates"}, "verified"),
        ("gemini-cli", {"condenses"}, "partly"),
        ("codex", {"condenses", "truncates"}, "wire"),
        ("goose", {"condenses"}, "source"),
        ("clear-tool-results", {"clears"}, "illustrative"),
        ("librechat-memory", {"memory", "truncates"}, "approximate"),
    ],
)
def test_kind_and_proof_come_from_the_rules_and_the_file(name: str, kinds: set[str], proof: str) -> None:
    assert ({*TRAITS[name].kinds}, TRAITS[name].proof) == (kinds, proof)


@pytest.mark.thorough
def test_the_stored_figures_are_those_that_are_measured() -> None:
    names = ["clear-tool-results", "keep-everything"]
    stored = {name: load_figures()[name] for name in names}
    assert measure(names) == stored, "run `python -m tests.regenerate figures`"
    assert stored["keep-everything"].is_lossless
    assert not stored["clear-tool-results"].is_lossless
    assert len(stored["keep-everything"].factors) == 3, "one sample does not fit when nothing is cut"
    assert {part.state for part in stored["clear-tool-results"].strip} == {"kept", "cleared"}


def test_words_find_policies_by_name_tool_and_sentence() -> None:
    assert TRAITS["roo"].matches("roo SUMMARY")
    assert not TRAITS["roo"].matches("roo pictures")
    assert TRAITS["server-clear-thinking"].matches("anthropic")


def test_strategies_name_what_stays_and_what_is_published_with_its_source() -> None:
    found = {each.policy: each for each in policy_traits.list_strategies(load_shipped())}
    window = found["multi-turn-window"]
    assert (window.complexity, window.saving, window.loss) == ("low", "moderate, 20-40 %", "high")
    assert "survey of memory patterns" in window.sources
    assert "(" not in "".join(each.complexity + each.saving + each.loss for each in found.values())
    assert all(each.figures and each.figures.samples for each in found.values())


def test_a_strip_shows_what_is_left_of_the_prompt_that_was_shortened_most() -> None:
    trace = replay(load(SAMPLES / "tool-results-eat-the-window.jsonl"), "condense-oldest")
    strip = draw_strip(trace)
    assert "summary" in {part.state for part in strip}
    whole = sum(part.share for part in draw_strip(replay(trace.session, "keep-everything")))
    assert 0 < sum(part.share for part in strip) < 0.5 * whole


def test_a_full_window_names_the_size_at_which_a_policy_acts_and_what_becomes_of_every_part() -> None:
    trace = replay(load(SAMPLES / "tool-results-eat-the-window.jsonl"), "condense-oldest")
    full = fill_window(trace)
    act = next(act for act in full.acts if act.action == "condense")
    first = next(plan for plan in trace.plans if "condense" in plan.actions)
    assert (act.before, act.after) == (first.before.tokens, first.seen.tokens)
    assert act.after < act.before <= full.limit <= full.window
    plans = [plan for plan in trace.plans if plan.seen.tokens == sum(fate.after for fate in full.fates)]
    assert any(trace.ledger.count_tokens(0, plan.request.cut) == sum(fate.before for fate in full.fates) for plan in plans)
    condensed = next(fate for fate in full.fates if fate.state == "summary")
    assert 0 < condensed.after < 0.2 * condensed.before


def test_what_a_policy_keeps_stays_as_large_and_what_it_drops_leaves_nothing() -> None:
    for name, figures in load_figures().items():
        assert figures.full, name
        for fate in figures.full.fates:
            assert fate.state != "kept" or fate.after == fate.before, (name, fate)
            assert fate.state != "dropped" or not fate.after, (name, fate)
            assert fate.state != "insert" or not fate.before, (name, fate)
