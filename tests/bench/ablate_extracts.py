"""What each part of `extracts` brings: `python tests/bench/ablate_extracts.py FOLDER`.

Every session below FOLDER that records usage, under the policy as it ships and without one of its parts at a time. A row per
variant: its cost as a factor of the records, and the share of the references of later answers to what had left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import turnscope
from leave_one_out import Figures, sum_up
from turnscope.envelope.work_extract import FRAME, Candidates, Line
from turnscope.errors import TurnscopeError
from turnscope.library import opening
from turnscope.library.discovery import find_sources
from turnscope.library.policy_table import is_measurable
from turnscope.planning.policy import Policy
from turnscope.rules import extract_old_work
from turnscope.views.comparison import SharedFacts, build_row


def choose_newest(found: Candidates, known: set[str], room: float, now: int) -> list[Line]:
    """The newest lines that fit, whatever they name."""
    chosen: list[Line] = []
    for line in reversed(found.lines.values()):
        room -= FRAME + len(line.text)
        if room < 0:
            break
        chosen.append(line)
    return chosen


Change = tuple[Mapping[str, Any], Sequence[tuple[object, str, Callable[..., Any]]]]  # parameters; what is replaced in the code
VARIANTS: Mapping[str, Change] = {
    "as shipped": ({}, ()),
    "no extract: older work just leaves": ({"extract": 0}, ()),
    "the extract has the newest lines, whatever they name": ({}, ((Candidates, "choose", choose_newest),)),
    "no cut because the cache is cold": ({}, ((extract_old_work, "_explain_cold", lambda _ctx: ""),)),
    "a cut as soon as there is older work, whether it pays or not": ({"payback": 0.0}, ()),
}


def build_policy(changes: Mapping[str, Any]) -> Policy:
    """Build `extracts` with other parameters of its first rule."""
    base = opening.load_policy("extracts")
    (at,) = (n for n, part in enumerate(base.rules) if part.rule.name == "extract_old_work")
    changed = replace(base.rules[at], params=replace(base.rules[at].params, **changes))
    return replace(base, rules=(*base.rules[:at], changed, *base.rules[at + 1 :]))


def measure_file(path: Path) -> list[list[Figures]]:
    """Measure the sessions of one file: figures of each variant; [] where it has none with a bill."""
    found: list[list[Figures]] = []
    try:
        for entry in turnscope.entries(path):
            session = turnscope.load(path, entry.id)
            if not is_measurable(session):
                continue
            record = opening.replay(session)
            shared = SharedFacts.from_trace(record)
            figures: list[Figures] = []
            for changes, replaced in VARIANTS.values():
                with ExitStack() as stack:
                    for owner, name, other in replaced:
                        stack.enter_context(mock.patch.object(owner, name, other))
                    row = build_row(opening.replay(session, build_policy(changes), ledger=record.ledger), shared)
                if row.usd is not None and shared.record.total:
                    lost = len(row.losses.hits), sum(row.losses.uses)
                    figures.append((float(row.usd), float(shared.record.total), *lost))
            if len(figures) == len(VARIANTS):
                found.append(figures)
    except TurnscopeError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where FOLDER holds no session that records usage."""
    paths = sorted(find_sources(Path(arguments[0])))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        sessions = [each for made in pool.map(measure_file, paths) for each in made]
    if not sessions:
        print(f"{arguments[0]} holds no session with a price.", file=sys.stderr)
        return 1
    print("| | cost | lost |\n| --- | --- | --- |")
    for n, name in enumerate(VARIANTS):
        cost, lost = sum_up([figures[n] for figures in sessions])
        print(f"| {name} | {cost:.2f} | {lost * 100:.1f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
