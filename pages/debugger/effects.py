"""What a changed parameter cannot do: shown next to the policy, with the reason, once both replays are whole."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st
from turnscope import Policy, TurnscopeError
from turnscope.views import parameter_effects, parameters

from pages.debugger import policy_replay
from pages.debugger.policy_replay import Replay
from pages.parts import opening
from pages.parts.formats import escape
from pages.parts.policies import load_policies

POLL = 0.5  # seconds
_KEPT = 64  # policies whose sizes are kept
_Key = tuple[str, int, int, str]


def draw(shown: opening.ShownSession, replay: Replay) -> None:
    """Draw it; nothing where no parameter is changed, or each has an effect.

    Args:
        shown: the session that is shown.
        replay: the whole replay of the policy that is chosen.
    """
    base = load_policies().policies.get(replay.policy.name)
    if base is None:
        return
    if not parameters.find_changes(replay.policy, base):
        _keep_sizes(_make_key(shown, base), replay)
        return
    if (before := _get_sizes().get(_make_key(shown, base))) is None:
        st.fragment(lambda: _replay_unchanged(shown, base), run_every=POLL)()
        return
    reasons = parameter_effects.explain_without_effect(
        replay.trace, base, shown.trace, sizes=replay.steps.sizes, sizes_before=before
    )
    labels = parameters.list_labels(base)
    rows = "".join(f"<li><b>{escape(labels[key])}</b>: {escape(reason)}.</li>" for key, reason in reasons.items())
    if rows:
        st.html(f'<div class="no-effect" role="status"><b>Without effect in this session</b><ul>{rows}</ul></div>')


def _replay_unchanged(shown: opening.ShownSession, base: Policy) -> None:
    """Replay the policy without the changes, and draw the page again when that is done. Its sizes are all that is kept."""
    with suppress(TurnscopeError):  # the policy as it is fails on this session; the changed one is shown
        _, unchanged = policy_replay.replay_policy(shown, base, wait=0.0)
        if unchanged is not None and unchanged.is_whole:
            _keep_sizes(_make_key(shown, base), unchanged)
            st.rerun()


def _make_key(shown: opening.ShownSession, policy: Policy) -> _Key:
    return shown.key, shown.part, len(shown.view), policy.to_toml()


@st.cache_resource(show_spinner=False)
def _get_sizes() -> dict[_Key, tuple[int, ...]]:
    """Tokens of each request under policies that nothing was changed of. Their replays may be dropped meanwhile."""
    return {}


def _keep_sizes(key: _Key, replay: Replay) -> None:
    sizes = _get_sizes()
    sizes.pop(key, None)
    sizes[key] = replay.steps.sizes
    while len(sizes) > _KEPT:
        sizes.pop(next(iter(sizes)))
