"""Which policy costs what, and loses what, on a folder of sessions: `python tests/bench/which_policy.py FOLDER [POLICY ...]`.

Every session below FOLDER that records usage, under every policy that can be sent, or those that are named. A row per policy:

- cost: USD of all sessions as a factor of what the records cost, and the interval that 95 % of 1,000 draws of sessions with
  replacement lie in. Simulated with the provider's prompt cache, and scaled to each bill.
- no cache: the same as if nothing were ever cached, for records and policy alike.
- lost: references of later answers to what had left, as a share of all references. Answers are recorded, not made again.
- peak: the fullest window, at the median session. unsent: share of the requests that the provider would refuse.
- calls: summaries that a model would have been requested for, per 100 requests.
- growth: cost factor on the longer half of the sessions, over that on the shorter.

The rows that no other one beats in both cost and losses are marked *; those that the provider would refuse are not among them.
`--kinds` adds the cost factors by kind of session: short (under 50 requests), long (200 and more), idle (a twentieth of the
requests after five minutes), tools (results are over 40 % of what was sent), chat (a prompt for every three requests, or more).
`--csv` prints all of it as CSV. The page Policies has the same table for the sessions of the library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.library.discovery import find_sources
from turnscope.library.opening import AS_RECORDED, policies
from turnscope.library.policy_table import (
    KINDS,
    LEAST,
    MeasuredSession,
    PolicyRow,
    build_table,
    find_best,
    is_measurable,
    measure_session,
    table_to_csv,
)


def measure_files(paths: Sequence[Path], names: Sequence[str]) -> Iterator[MeasuredSession]:
    """Measure every file; several are shared out among processes."""
    measure = partial(measure_file, names=names)
    if len(paths) < 2:
        for path in paths:
            yield from measure(path)
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(measure, paths):
            yield from made


def measure_file(path: Path, names: Sequence[str]) -> list[MeasuredSession]:
    """Measure the sessions of one file under each policy; [] where it is no session with a bill."""
    found: list[MeasuredSession] = []
    try:
        for entry in turnscope.entries(path):
            session = turnscope.load(path, entry.id)
            if is_measurable(session):
                found += measure_session(session, names)
    except TurnscopeError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
    return found


def format_row(row: PolicyRow, best: bool, kinds: bool) -> str:
    line = (
        f"{'*' if best else ' '} {row.policy:<30}{row.cost:>7.2f}  {row.low:>5.2f} - {row.high:<6.2f}{row.uncached:>7.2f}"
        f"{row.lost:>8.1%}{row.peak:>7.0%}{row.unsent:>8.1%}{row.calls:>7.1f}{row.growth:>8.2f}"
    )
    return line + "".join(f"{factor:>8.2f}" for factor in row.by_kind) if kinds else line


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where FOLDER holds no session that records usage."""
    options = {argument for argument in arguments if argument.startswith("--")}
    folder, *names = (argument for argument in arguments if not argument.startswith("--"))
    chosen = names or [policy.name for policy in policies()]
    chosen = [AS_RECORDED, *(name for name in chosen if name != AS_RECORDED)]
    rows = [*measure_files(sorted(find_sources(Path(folder))), chosen)]
    if not rows:
        print(f"{folder} holds no session of {LEAST} requests or more with a price.", file=sys.stderr)
        return 1
    table = build_table(rows)
    if "--csv" in options:
        print(table_to_csv(table), end="")
        return 0
    known = [row for row in rows if row.policy == AS_RECORDED]
    total = sum(row.record_usd for row in known)
    print(f"{len(known)} sessions, {sum(row.requests for row in known):,} requests; as recorded ${total:,.2f}")
    print("  ".join(f"{sum(kind in row.kinds for row in known)} {kind}" for kind in KINDS))
    head = f"  {'policy':<30}{'cost':>7}  {'95 %':^14}{'no cache':>9}{'lost':>6}{'peak':>7}{'unsent':>8}"
    head += f"{'calls':>7}{'growth':>8}"
    print(head + "".join(f"{kind:>8}" for kind in KINDS) if "--kinds" in options else head)
    best = find_best(table)
    for row in table:
        print(format_row(row, row.policy in best, "--kinds" in options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
