"""Long random courses of chats: `python tests/bench/bench_chat_laws.py [--turns 300] [--seeds 1] [POLICY ...]`.

Each course condenses by hand, edits, undoes, leaves out, resumes, stops, meets faults, and changes model, window and thinking
at random moments (`chat_courses`). Printed by policy: requests, how often it fell back, refused requests, and what must be
none: rejected or dead courses, and a replay or ledger that differs. Exit 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chat_courses import MODELS, Course, drive, list_offered  # noqa: E402
from turnscope.storage.threads import Threads  # noqa: E402

WINDOWS = (0, 12_000, 32_000)  # tokens


def make_course(policy: str, seed: int, turns: int) -> Course:
    random = Random(f"{policy} {seed} long")
    model, window, thinking = random.choice(MODELS), random.choice(WINDOWS), random.random() < 0.5
    return Course(policy, seed, turns, model, min(window, 16_000) if "16k" in model else window, thinking, 0.3, stored=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=list_offered())
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    wrong, requests, fell, refused = 0, 0, 0, 0
    print(f"{'policy':32} {'courses':>8} {'requests':>9} {'fell back':>10} {'refused':>8} {'wrong':>6}")
    with tempfile.TemporaryDirectory() as folder:
        threads = Threads(Path(folder) / "chats.db")
        for policy in given.policies:
            made = [drive(make_course(policy, seed, given.turns), threads) for seed in range(given.seeds)]
            row = [sum(o.requests for o in made), sum(o.fell_back for o in made), sum(o.refused for o in made)]
            bad = [what for outcome in made for what in outcome.wrong]
            print(f"{policy:32} {given.seeds:8} {row[0]:9,} {row[1]:10} {row[2]:8} {len(bad):6}", flush=True)
            for what in bad[:3]:
                print(f"    {what}")
            requests, fell, refused = requests + row[0], fell + row[1], refused + row[2]
            wrong += len(bad)
    courses = len(given.policies) * given.seeds
    print(
        f"{courses} courses of {given.turns} turns: {requests:,} requests, {fell} fell back, {refused} refused, {wrong} wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
