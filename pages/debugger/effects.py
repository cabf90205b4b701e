"""What a changed parameter cannot do: shown next to the policy, with the reason, once both replays are whole."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st
from turnscope import Policy, TurnscopeError
from turnscope.views import parameter_effects, parameters

from pages.debugger import policy_replay
from pages.debugger.policy_replay import Replay
from pages.parts import opening, widgets
from pages.parts.formats import escape
from pages.parts.policies import load_policies

POLL = 0.5  # seconds
_KEPT = 64  # policies whose outcomes are kept
_Key = tuple[str, int, int, str]
_Outcome = tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]
"""Tokens of each request, how many have each verdict, and the model of each."""


def draw(shown: opening.ShownSession, replay: Replay) -> None:
    """Draw it; nothing where no parameter is changed, or each has an effect.

    Args:
        shown: the session that is shown.
        replay: the whole replay of the policy that is chosen.
    """
    base = load_policies().policies.get(replay.policy.name)
    if base is None:
        return
    outcome, outcomes = _find_outcome(replay), _get_outcomes()
    _keep_outcome(_make_key(shown, replay.policy), outcome)
    if not parameters.find_changes(replay.policy, base):
        return
    idle = []
    for key, policy in parameter_effects.take_back_each(replay.policy, base, shown.trace).items():
        without = outcomes.get(_make_key(shown, policy))
        if without is None:
            st.fragment(lambda policy=policy: _replay_without(shown, policy), run_every=POLL)()
            return
        if without == outcome:
            idle.append(key)
    acted = list(dict.fromkeys(cursor.request for cursor in replay.steps.changes))
    reasons = parameter_effects.explain_without_effect(
        replay.trace, base, shown.trace, sizes=replay.steps.sizes, idle=idle, changed=acted
    )
    labels = parameters.list_labels(base)
    rows = "".join(f"<li><b>{escape(labels[key])}</b>: {escape(reason)}.</li>" for key, reason in reasons.items())
    if rows:
        st.html(f'<div class="no-effect" role="status"><b>Without effect in this session</b><ul>{rows}</ul></div>')


def _replay_without(shown: opening.ShownSession, policy: Policy) -> None:
    """Replay the policy without one change, and draw the page again when that is done. Its outcome is all that is kept."""
    with suppress(TurnscopeError):  # that policy fails on this session; the changed one is shown
        _, unchanged = policy_replay.replay_policy(shown, policy, wait=0.0)
        if unchanged is not None and unchanged.is_whole:
            _keep_outcome(_make_key(shown, policy), _find_outcome(unchanged))
            widgets.rerun_page()


def _make_key(shown: opening.ShownSession, policy: Policy) -> _Key:
    return shown.key, shown.part, len(shown.view), policy.to_toml()


@st.cache_resource(show_spinner=False)
def _get_outcomes() -> dict[_Key, _Outcome]:
    """What came out under each policy. Their replays may be dropped meanwhile."""
    return {}


def _find_outcome(replay: Replay) -> _Outcome:
    models = tuple(plan.model for plan in replay.trace.outlines)
    return replay.steps.sizes, replay.steps.verdicts, models


def _keep_outcome(key: _Key, outcome: _Outcome) -> None:
    kept = _get_outcomes()
    kept.pop(key, None)
    kept[key] = outcome
    while len(kept) > _KEPT:
        kept.pop(next(iter(kept)))
