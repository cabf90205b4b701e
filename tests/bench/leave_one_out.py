"""Whether the parameters of `extracts` hold where they were not chosen: `python tests/bench/leave_one_out.py FOLDER`.

Every session below FOLDER that records usage, under 27 settings: 8,000, 12,000 and 16,000 newest tokens, an extract of 8,000,
10,000 and 12,000, a payback of 1, 1.5 and 2. For each session a setting is chosen on all the others and held against it: of
those that cost at most a standard error more than the cheapest one, the one that loses least. The cheapest one is the cheapest
that loses at most 1.0 % of the references. A row per session; then all of them together, the same with the cheapest setting,
and the setting that ships.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.library import opening
from turnscope.library.discovery import find_sources
from turnscope.library.policy_table import is_measurable
from turnscope.planning.policy import Policy
from turnscope.views.comparison import SharedFacts, build_row

Setting = tuple[int, int, float]
SETTINGS: tuple[Setting, ...] = tuple(product((8_000, 12_000, 16_000), (8_000, 10_000, 12_000), (1.0, 1.5, 2.0)))
SHIPPED: Setting = (12_000, 10_000, 1.5)
MOST = 0.010  # share of the references that a setting may lose where it is chosen

Figures = tuple[float, float, int, int]  # USD under the setting and of the record; references lost and found
Measured = dict[Setting, Figures]


def build_policy(setting: Setting) -> Policy:
    """Build `extracts` with other parameters."""
    base = opening.load_policy("extracts")
    keep, extract, payback = setting
    (at,) = (n for n, part in enumerate(base.rules) if part.rule.name == "extract_old_work")
    step = base.rules[at]
    changed = replace(step, params=replace(step.params, keep=keep, extract=extract, payback=payback))
    return replace(base, rules=(*base.rules[:at], changed, *base.rules[at + 1 :]))


def measure_file(path: Path, settings: Sequence[Setting] = SETTINGS) -> list[tuple[str, int, Measured]]:
    """Measure the sessions of one file under each setting: name, requests and figures; [] where it has none with a bill."""
    found: list[tuple[str, int, Measured]] = []
    try:
        for entry in turnscope.entries(path):
            session = turnscope.load(path, entry.id)
            if not is_measurable(session):
                continue
            record = opening.replay(session)
            shared = SharedFacts.from_trace(record)
            rows = {
                each: build_row(opening.replay(session, build_policy(each), ledger=record.ledger), shared) for each in settings
            }
            figures = {
                each: (float(row.usd), float(shared.record.total), len(row.losses.hits), sum(row.losses.uses))
                for each, row in rows.items()
                if row.usd is not None and shared.record.total
            }
            if len(figures) == len(settings):
                found.append((path.stem[:24], len(session.requests), figures))
    except TurnscopeError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
    return found


def sum_up(figures: Sequence[Figures]) -> tuple[float, float]:
    """Cost as a factor of the records, and the share of references that are lost."""
    usd, record, hits, uses = (sum(each[n] for each in figures) for n in range(4))
    return usd / record, hits / max(1, uses)


def choose(others: Sequence[Measured]) -> Setting:
    """The setting that loses least, of those within one standard error of the cheapest one's cost."""
    cheapest = choose_cheapest(others)
    rows = {setting: sum_up([each[setting] for each in others]) for setting in others[0]}
    most = rows[cheapest][0] + compute_error([each[cheapest] for each in others])
    return min((setting for setting in rows if rows[setting][0] <= most), key=lambda setting: rows[setting][::-1])


def compute_error(figures: Sequence[Figures]) -> float:
    """The standard error of the cost as a factor, by leaving out one session at a time (jackknife)."""
    if len(figures) < 2:
        return 0.0
    parts = [sum_up([*figures[:n], *figures[n + 1 :]])[0] for n in range(len(figures))]
    mean = sum(parts) / len(parts)
    return float(((len(parts) - 1) / len(parts) * sum((part - mean) ** 2 for part in parts)) ** 0.5)


def choose_cheapest(others: Sequence[Measured]) -> Setting:
    """The cheapest setting that loses little on these sessions; where each loses more, the one that loses least."""
    rows = {setting: sum_up([each[setting] for each in others]) for setting in others[0]}
    good = [setting for setting, (_, lost) in rows.items() if lost <= MOST]
    return min(good, key=lambda setting: rows[setting]) if good else min(rows, key=lambda setting: rows[setting][1])


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where FOLDER holds fewer than two sessions that record usage."""
    paths = sorted(find_sources(Path(arguments[0])))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        sessions = [each for made in pool.map(measure_file, paths) for each in made]
    if len(sessions) < 2:
        print(f"{arguments[0]} holds fewer than two sessions with a price.", file=sys.stderr)
        return 1
    held, cheap = list[Figures](), list[Figures]()
    print(f"  {'session':<26}{'requests':>9}{'chosen on the others':>28}{'cost':>7}{'lost':>8}")
    for n, (name, requests, measured) in enumerate(sessions):
        others = [each[2] for place, each in enumerate(sessions) if place != n]
        setting = choose(others)
        held.append(measured[setting])
        cheap.append(measured[choose_cheapest(others)])
        cost, lost = sum_up(held[-1:])
        print(f"  {name:<26}{requests:>9}{f'{setting[0]:,} {setting[1]:,} {setting[2]:g}':>28}{cost:>7.2f}{lost:>8.1%}")
    shipped = [each[2][SHIPPED] for each in sessions]
    for what, figures in (("all of them", held), ("with the cheapest", cheap), ("as shipped", shipped)):
        cost, lost = sum_up(figures)
        print(f"  {what:<63}{cost:>7.2f}{lost:>8.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
