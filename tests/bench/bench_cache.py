"""Holds the simulated cost of each record against its bill: `python tests/bench/bench_cache.py [-v] [PATH ...]`; exit 1.

A line for each path of a session (the main one, branches, subagents) with usage: requests, USD billed and simulated, the error,
and how far simulated cache reads are from the recorded ones, in shares of the prompt. `-v`: every request that is further off
than 2 % of its prompt. Below: the error over all paths at the median and the 90th percentile, and the same of those with fewer
than ten requests. Exit code 1 above the limits. Default: the Claude Code sessions of `../shared/data/open`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.errors import TurnscopeError  # noqa: E402
from turnscope.planning.prompt_cache import simulate_prompt_cache  # noqa: E402
from turnscope.session.model import Session, select_model_output  # noqa: E402
from turnscope.views.bill import charge  # noqa: E402
from turnscope.views.cached_cost import simulate_cost  # noqa: E402

MEDIAN, P90 = 0.02, 0.08  # of the bill
FAR = 0.02  # of the prompt
SHORT = 10  # requests
FOLDER = ROOT.parent / "shared" / "data" / "open" / "claude-code"


@dataclass(frozen=True, slots=True)
class Cost:
    """One path: USD of its requests with usage and a price, and by request the tokens read, simulated and recorded."""

    name: str
    billed: Decimal
    simulated: Decimal
    reads: tuple[tuple[int, int, int, int], ...]  # request, simulated, recorded, prompt

    @property
    def error(self) -> float:
        """The simulated cost beyond the bill, as a share of it."""
        return float((self.simulated - self.billed) / self.billed)


def find_paths(given: Iterable[Path]) -> list[Path]:
    """Session files at or below some paths; files of subagents open with their session."""
    files = (found for path in given for found in (path.rglob("*.jsonl") if path.is_dir() else [path]))
    return sorted(path for path in files if path.parent.name != "subagents")


def measure_path(path: Path) -> Iterator[Cost]:
    """Measure every path of a file's sessions that has a bill."""
    for session in turnscope.load_all(path):
        for number, each in enumerate((session, *session.branches, *session.subagents)):
            if (cost := measure(f"{path.stem[:36]} {number}", each)) is not None:
                yield cost


def measure(name: str, session: Session) -> Cost | None:
    """Measure one path; None where nothing was billed."""
    trace = turnscope.replay(session)
    kept = simulate_prompt_cache(trace)
    billed = simulated = Decimal(0)
    reads = []
    for request, use, usd in zip(session.requests, kept, simulate_cost(trace, kept).usd, strict=True):
        answer = select_model_output(session.blocks[request.cut : request.stop])
        cost = charge(request, trace.prices, answer, trace.ledger.count_content).cost
        if request.usage and request.usage.prompt_tokens and cost and usd is not None:
            billed, simulated = billed + cost.total, simulated + usd
            reads.append((request.n, use.read, request.usage.cache_read_input_tokens, request.usage.prompt_tokens))
    return Cost(name, billed, simulated, tuple(reads)) if billed else None


def main(arguments: list[str]) -> int:
    """Print the table; 1 where an error is above its limit, else 0."""
    paths = find_paths([Path(arg) for arg in arguments if arg != "-v"] or [FOLDER])
    made: list[Cost] = []
    print(f"{'path':40}{'requests':>9}{'billed':>10}{'simulated':>10}{'error':>9}{'reads off, median':>19}{'within 2 %':>12}")
    for path in paths:
        try:
            costs = [*measure_path(path)]
        except TurnscopeError as error:
            print(f"{path.name}: {error}")
            continue
        for cost in costs:
            print_cost(cost, verbose="-v" in arguments)
        made += costs
    for title, some in (("all", made), (f"fewer than {SHORT} requests", [cost for cost in made if len(cost.reads) < SHORT])):
        if some:
            errors = [abs(cost.error) for cost in some]
            print(f"{title}: {len(some)} paths, {np.median(errors):.2%} at the median, {np.quantile(errors, 0.9):.2%} at p90")
    errors = [abs(cost.error) for cost in made] or [0.0]
    return int(float(np.median(errors)) > MEDIAN or float(np.quantile(errors, 0.9)) > P90)


def print_cost(cost: Cost, *, verbose: bool) -> None:
    """Print the line of a path, and its requests that are far off."""
    off = [abs(read - recorded) / prompt for _, read, recorded, prompt in cost.reads]
    within = sum(error <= FAR for error in off) / len(off)
    print(
        f"{cost.name:40}{len(off):9}{cost.billed:10.3f}{cost.simulated:10.3f}{cost.error:9.2%}{np.median(off):19.2%}{within:12.0%}"
    )
    for (n, read, recorded, prompt), error in zip(cost.reads, off, strict=True):
        if verbose and error > FAR:
            print(f"    request {n}: {read:,} simulated, {recorded:,} recorded of {prompt:,}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
