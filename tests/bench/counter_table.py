"""How far each counter is off what providers billed, by tokenizer family. `python tests/bench/counter_table.py [PATH ...]`.

What a prompt grew by from one request to the next is billed and counted; so what no log holds (system prompt, tools) falls out.
Steps at which something was cut or put in unseen are left out, by the family's own estimate. Default files: real sessions
where they are kept beside the project, else the samples.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.counting.calibration import GROWTH_LIMIT  # noqa: E402
from turnscope.counting.ledger import build_ledger  # noqa: E402
from turnscope.counting.tokens import NAMED_COUNTERS, make_estimator  # noqa: E402
from turnscope.errors import TurnscopeError  # noqa: E402
from turnscope.planning.session_fit import get_prompt_tokens  # noqa: E402
from turnscope.pricing.prices import PRICES  # noqa: E402
from turnscope.session.model import Session  # noqa: E402

LEAST = 5_000  # billed tokens of growth from which a session says something
Growth = dict[str, list[tuple[int, int]]]  # by counter: counted and billed tokens of each session


def sessions(paths: list[Path]) -> Iterator[Session]:
    """Sessions of every file, subagents by themselves."""
    for path in (file for home in paths for file in ([home] if home.is_file() else sorted(home.rglob("*.*")))):
        try:
            main = turnscope.load(path)
        except (TurnscopeError, OSError):
            continue
        yield from (main, *main.subagents)


def measure_growth(found: Iterator[Session]) -> dict[str, Growth]:
    """Growth by tokenizer family and counter."""
    table: dict[str, Growth] = defaultdict(lambda: defaultdict(list))
    for session in found:
        steps = [
            (a, b)
            for a, b in pairwise(session.requests)
            if min(get_prompt_tokens(a), get_prompt_tokens(b)) > 0 and a.model == b.model
        ]
        if not steps:
            continue
        family = PRICES.find_facts(steps[-1][1].model).family
        counters = {"the family's estimate": make_estimator(family)} | NAMED_COUNTERS
        ledgers = {name: build_ledger(session, counter, per_message=0) for name, counter in counters.items()}
        own = ledgers["the family's estimate"]
        spans = [(a.cut, b.cut, get_prompt_tokens(b) - get_prompt_tokens(a)) for a, b in steps]
        kept = [
            (a, b, grown)
            for a, b, grown in spans
            if own.count_tokens(a, b) / GROWTH_LIMIT < grown < own.count_tokens(a, b) * GROWTH_LIMIT
        ]
        billed = sum(grown for _, _, grown in kept)
        for name, ledger in ledgers.items() if billed >= LEAST else ():
            table[family or "unknown"][name].append((sum(ledger.count_tokens(a, b) for a, b, _ in kept), billed))
    return table


def main(arguments: list[str]) -> None:
    real = ROOT.parent / "shared" / "data" / "open"
    paths = [Path(path) for path in arguments] or [real if real.is_dir() else ROOT / "sample_sessions"]
    print(f"{'tokenizer':12} {'counter':22} {'sessions':>8} {'median':>8} {'5 %':>8} {'95 %':>8}   (counted / billed - 1)")
    for family, growth in sorted(measure_growth(sessions(paths)).items()):
        for name, rows in growth.items():
            errors = np.array([counted / billed - 1 for counted, billed in rows])
            low, high = np.percentile(errors, (5, 95))
            print(f"{family:12} {name:22} {len(rows):8} {np.median(errors):+8.1%} {low:+8.1%} {high:+8.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
