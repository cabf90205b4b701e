"""Try every shipped policy on a chat and store the outcomes: `python -m tests.trials` (see `turnscope.live.trial`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from turnscope.live.trial import TRIALS_FILE, Trial, edits_on_server, run_trial
from turnscope.planning.policy import list_policies, load


def wrong(of: Iterable[str]) -> dict[str, Trial]:
    """Those that left a message without an answer, by name. What a server cuts is not tried."""
    found = {name: run_trial(policy) for name in of if name != "as-recorded" and not edits_on_server(policy := load(name))}
    return {name: trial for name, trial in found.items() if not trial.is_usable}


if __name__ == "__main__":
    TRIALS_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(wrong(list_policies()))) + b"\n")
