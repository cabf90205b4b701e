"""Holds the simulated prompt cache against recorded reads: `python tests/bench/bench_cache.py FILE...`; exit 1 above a limit.

For each file, and for all requests together: the error per request, |simulated - recorded| tokens over the prompt's (median,
90th percentile, share of the requests within 2 %), what all reads come to, and what the session would cost by it against what
was billed. Then every request that is further off. Default: the Claude Code sessions of `../shared/data/open`.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from time import process_time

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.planning.prompt_cache import simulate_prompt_cache  # noqa: E402
from turnscope.session.model import select_model_output  # noqa: E402
from turnscope.views.bill import charge  # noqa: E402
from turnscope.views.cached_cost import simulate_cost  # noqa: E402

MEDIAN = 0.02  # of the prompt
FOLDER = ROOT.parent / "shared" / "data" / "open" / "claude-code"


def main(paths: list[Path]) -> int:
    everything: list[float] = []
    for path in paths:
        session = turnscope.load_all(path)[0]
        trace = turnscope.replay(session)
        began = process_time()
        kept = simulate_prompt_cache(trace)
        took = process_time() - began
        rows = [(r.n, kept[r.n].read, r.usage) for r in session.requests if r.usage and r.usage.prompt_tokens]
        errors = [abs(read - usage.cache_read_input_tokens) / usage.prompt_tokens for _, read, usage in rows]
        everything += errors
        usd = simulate_cost(trace, kept).total or Decimal(0)
        answers = (select_model_output(session.blocks[r.cut : r.stop]) for r in session.requests)
        made = (charge(r, trace.prices, a, trace.ledger.count_content) for r, a in zip(session.requests, answers, strict=True))
        billed = sum((each.cost.total for each in made if each.cost), Decimal(0))
        reads = sum(usage.cache_read_input_tokens for _, _, usage in rows)
        print(
            f"{path.name}: {_figures(errors)}; read {sum(k.read for k in kept):,} of {reads:,} recorded; "
            f"{usd:.2f} USD of {billed:.2f} billed; {took:.3f} s"
        )
        for (n, read, usage), error in zip(rows, errors, strict=True):
            if error > MEDIAN:
                recorded = f"{usage.cache_read_input_tokens:,} recorded of {usage.prompt_tokens:,}"
                print(f"    request {n}: {read:,} simulated, {recorded}")
    print(f"all: {_figures(everything)}")
    return int(float(np.median(everything)) > MEDIAN)


def _figures(errors: list[float]) -> str:
    within = sum(error <= MEDIAN for error in errors) / len(errors)
    return (
        f"{len(errors)} requests, error {np.median(errors):.2%} at the median, {np.quantile(errors, 0.9):.2%} at the 90th "
        f"percentile, {within:.0%} within {MEDIAN:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main([Path(arg) for arg in sys.argv[1:]] or sorted((*FOLDER.glob("*.jsonl"), *FOLDER.glob("worktrees/*.jsonl")))))
