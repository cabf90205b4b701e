"""Write what the shipped policies come to when they are tried for chats: `python -m tests.trials` (see `engine.live.trial`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.live.trial import KEPT, Trial, on_server, tried
from engine.planning.policy import load, names


def wrong(of: Iterable[str]) -> dict[str, Trial]:
    """Those that left a message without an answer, by name. What a server cuts is not tried."""
    found = {name: tried(policy) for name in of if name != "as-recorded" and not on_server(policy := load(name))}
    return {name: trial for name, trial in found.items() if not trial.right}


if __name__ == "__main__":
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(wrong(names()))) + b"\n")
