"""How a folder of sessions uses the prompt cache, beside a published population: `python tests/bench/population.py FOLDER`.

A row per tool and one for all sessions of coding agents that record usage:

- cached: share of all prompt tokens that were read from the cache.
- fresh: of the tokens that were not read from it, the share that no earlier request had sent: prompts and tool results. The
  system prompt, tools, and answers that come back are not fresh; nor is what was sent before and is sent again.
- amplification: tokens that were not read from the cache, over fresh ones.
- idle: cost of cache misses after a person waited longer than the cache lives, as a share of all dollars.

The last rows are TraceLab's: 4,265 sessions of Claude Code and Codex in daily use, arXiv 2606.30560, tables of its pages
prefix_cache/redundant_prefill and human_idle_cache_counterfactual. Two differences: its fresh tokens are counted by the
provider's totals, ours by block; its waits are any pause before a prompt, ours those after which the cache was cold.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.library.discovery import find_sources
from turnscope.planning.trace import Trace
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.replay_cost import price_record

PUBLISHED = (
    ("TraceLab, Claude Code", None, 0.123, 8.1, 0.162),
    ("TraceLab, Codex", None, 0.258, 3.9, 0.085),
    ("TraceLab, all", 0.96, 0.190, 5.3, 0.128),
)


@dataclass(slots=True)
class Population:
    """Sums over sessions: tokens of the provider, and USD."""

    sessions: int = 0
    requests: int = 0
    prompt: int = 0
    appended: int = 0
    fresh: float = 0.0
    usd: float = 0.0
    idle_usd: float = 0.0

    def add(self, other: Population) -> None:
        """Add the sums of other sessions."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def measure_record(record: Trace) -> Population:
    """The sums of one session; no requests where it records no usage."""
    session, made, end = record.session, Population(sessions=1), 0
    for request in session.requests:
        start, end = end, request.stop
        if not request.usage:
            continue
        made.requests += 1
        made.prompt += request.usage.prompt_tokens
        made.appended += request.usage.prompt_tokens - request.usage.cache_read_input_tokens
        new = [block for block in session.blocks[start : request.cut] if block.bucket in ("messages", "tool_results")]
        counted = sum(record.ledger.count_tokens(block.at, block.at + 1) for block in new if block.role != "assistant")
        made.fresh += counted * record.get_terms(request.n).scale
    made.usd = float(price_record(record).billed or 0)
    prompts = {
        request.n for request in session.requests if not request.n or request.turn != session.requests[request.n - 1].turn
    }
    idle = [miss for miss in find_breaks(record) if miss.cause == "idle" and miss.request in prompts]
    made.idle_usd = float(sum(miss.usd for miss in idle if miss.usd is not None))
    return made


def measure_folder(folder: Path) -> dict[str, Population]:
    """The sums of all sessions below a folder, by tool."""
    found: dict[str, Population] = defaultdict(Population)
    for path in sorted(find_sources(folder)):
        try:
            for entry in turnscope.entries(path):
                session = turnscope.load(path, entry.id)
                if any(request.usage and request.usage.cache_read_input_tokens for request in session.requests):
                    found[session.source].add(measure_record(turnscope.replay(session)))
        except TurnscopeError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
    return found


def format_rows(found: dict[str, Population]) -> Iterator[str]:
    """The table: a row per tool, all together, and what was published."""
    yield f"{'':<24}{'sessions':>9}{'requests':>10}{'cached':>8}{'fresh':>8}{'amplification':>15}{'idle':>8}{'USD':>12}"
    whole = Population()
    for each in found.values():
        whole.add(each)
    for name, row in [*sorted(found.items()), ("all", whole)]:
        cached, fresh, times = 1 - row.appended / row.prompt, row.fresh / row.appended, row.appended / (row.fresh or 1)
        idle = row.idle_usd / row.usd if row.usd else 0
        yield (
            f"{name:<24}{row.sessions:>9,}{row.requests:>10,}{cached:>8.1%}{fresh:>8.1%}{times:>14.1f}x{idle:>8.1%}"
            f"{row.usd:>12,.2f}"
        )
    for name, share, *published in PUBLISHED:
        yield "{:<43}{:>8}{:>8.1%}{:>14.1f}x{:>8.1%}".format(name, f"{share:.0%}" if share else "-", *published)


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where no session of the folder records a prompt cache."""
    found = measure_folder(Path(arguments[0]))
    if not found:
        print(f"{arguments[0]} holds no session that records what was read from a prompt cache.", file=sys.stderr)
        return 1
    print(*format_rows(found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
