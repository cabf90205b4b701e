"""Hold what Turnscope rebuilds against what went over the wire: `python -m tests.wire FOLDER`.

A line per run: main requests sent, found and exact; the share of characters equal in system, tools and messages (median, and
the least); characters that were not sent; the first text that is missing. `-v` prints every request. With `--policies` the
policies of the agents are held against what these did (`tests.wire.policies`); with `--side` the requests beside the
conversation are counted and priced (`tests.wire.side`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from tests.wire import folders, open_run, policies, side
from tests.wire.compare import PARTS, compare


def main(arguments: list[str]) -> int:
    """Print the table. Gives 1 where a request was not found, else 0."""
    verbose = "-v" in arguments
    paths = [Path(argument) for argument in arguments if not argument.startswith("-")]
    if "--policies" in arguments:
        return hold_policies(paths)
    if "--side" in arguments:
        return measure_side(paths)
    lost = 0
    print(f"{'run':<28}{'sent':>6}{'found':>6}{'exact':>6}  " + "".join(f"{part:>20}" for part in PARTS) + "   not sent")
    for folder in (found for path in paths for found in folders(path)):
        with open_run(folder) as run:
            made = compare(run)
        lost += sum(one.rebuilt is None for one in made)
        shares = [[one.equal[part] for one in made] for part in PARTS]
        cells = "".join(f"{median(share):>11.1%} ({min(share):>5.1%})" for share in shares if share)
        exact = sum(one.rebuilt is not None and one.rebuilt.exact for one in made)
        found = sum(one.rebuilt is not None for one in made)
        more = median(one.more for one in made) if made else 0
        print(f"{run.name:<28}{len(made):>6}{found:>6}{exact:>6}  {cells}{more:>11,.0f}")
        missing = next((f"{one.arrival}: {one.missing}" for one in made if one.missing), "")
        print(f"    first difference at request {missing}" if missing else "    no difference")
        for one in made if verbose else ():
            print(
                "   ", one.arrival, " ".join(f"{part} {share:.1%}" for part, share in one.equal.items()), one.more, one.missing
            )
    return int(lost > 0)


def hold_policies(paths: list[Path]) -> int:
    """Print the table of policies. Gives 1 where a recorded cut was not met, or one came where none is recorded."""
    wrong = 0
    print(policies.HEADING)
    for folder in (found for path in paths for found in folders(path)):
        with open_run(folder) as run:
            held = policies.hold(folder, run)
        if held is None:
            print(f"{'/'.join(folder.parts[-2:]):<28}no policy of this agent")
            continue
        print(policies.format_held(run.name, held))
        wrong += held.made != held.recorded
    return int(wrong > 0)


def measure_side(paths: list[Path]) -> int:
    """Print the table of requests beside the conversation."""
    print(side.HEADING)
    for folder in (found for path in paths for found in folders(path)):
        with open_run(folder) as run:
            print(*side.format_side(run.name, run), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
