"""What each shipped policy comes to in a chat (see `turnscope.live.trial`): `python -m tests.regenerate trials` stores it."""

from __future__ import annotations

from collections.abc import Iterable

from turnscope.live.trial import Trial, edits_on_server, run_trial
from turnscope.planning.policy import load


def wrong(of: Iterable[str]) -> dict[str, Trial]:
    """Those that left a message without an answer, by name. What a server cuts is not tried."""
    found = {name: run_trial(policy) for name in of if name != "as-recorded" and not edits_on_server(policy := load(name))}
    return {name: trial for name, trial in found.items() if not trial.is_usable}
