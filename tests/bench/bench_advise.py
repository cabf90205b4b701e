"""Advice over twenty real sessions: `python tests/bench/bench_advise.py [POLICY]`; exit 1 below a limit.

Fifty settings tried on twenty sessions of `../shared/data/open`, the largest that have a price, six of them held out: a grid,
and a sampled search. Settings per minute of CPU time, records and held-out sessions included; then the same from what was kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.library import find_sources

OPEN = Path(__file__).resolve().parents[3] / "shared" / "data" / "open"
SESSIONS, TRIALS = 20, 50
LEAST = 30.0  # settings per minute


def sessions() -> list[turnscope.Session]:
    """The largest sessions with a price; each file alone, so that what cannot be read is passed over."""
    found = [session for path in find_sources(OPEN) for session in _load_sessions(path)]
    priced = [session for session in found if turnscope.overview(session).total]
    return sorted(priced, key=lambda session: -len(session.requests))[:SESSIONS]


def _load_sessions(path: Path) -> Iterator[turnscope.Session]:
    try:
        for entry in turnscope.entries(path):
            yield turnscope.load(path, entry)
    except turnscope.TurnscopeError as error:
        print(f"    {path.name}: {error}")


def main() -> int:
    chosen = sessions()
    requests = sum(len(session.requests) for session in chosen)
    print(f"{len(chosen)} sessions, {requests:,} requests")
    slow = False
    for policy in sys.argv[1:] or ("clear-tool-results", "balanced"):
        with TemporaryDirectory() as folder:
            began = process_time()
            made = turnscope.advise(chosen, policy, trials=TRIALS, folder=Path(folder))
            took = process_time() - began
            began = process_time()
            again = turnscope.advise(chosen, policy, trials=TRIALS, folder=Path(folder))
            kept = process_time() - began
        assert again == made
        rate = 60 * len(made.points) / took
        slow |= rate < LEAST
        print(f"{policy}: {len(made.points)} settings ({made.method}) on {len(made.searched)} + {len(made.held)} sessions")
        print(f"    in {took:.1f} s, {rate:.0f} per minute; from what was kept {kept:.1f} s")
        print(f"    {made.because}\n    {made.holdout_result}".rstrip())
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
