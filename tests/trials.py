"""Try every shipped policy on a chat and store the outcomes: `python -m tests.trials` (see `turnscope.live.trial`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from turnscope.live.trial import KEPT, Trial, on_server, tried
from turnscope.planning.policy import load, names


def wrong(of: Iterable[str]) -> dict[str, Trial]:
    """Those that left a message without an answer, by name. What a server cuts is not tried."""
    found = {name: tried(policy) for name in of if name != "as-recorded" and not on_server(policy := load(name))}
    return {name: trial for name, trial in found.items() if not trial.right}


if __name__ == "__main__":
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(wrong(names()))) + b"\n")
