"""How long the Fleet page's questions take: `python tests/bench/bench_fleet_page.py TABLES [--times 5]`.

TABLES are a fleet's tables, such as `make_fleet_tables.py` makes. Prints seconds by the clock and by the CPU, of the first time
and of the median of the others; and the load of the machine, which the clock depends on.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))

from turnscope.fleet import queries
from turnscope.fleet.anomalies import find_anomalies
from turnscope.fleet.dataset import open_fleet
from turnscope.fleet.notable_sessions import find_sessions
from turnscope.fleet.sandbox import Sandbox
from turnscope.fleet.warehouse import EVERYTHING, Selection, Warehouse

SQL = "SELECT team, model, count(*), sum(usd), avg(fill) FROM requests WHERE counted GROUP BY ALL"


def measure(name: str, question: Callable[[], Any], times: int) -> Any:
    """Ask several times and print how long it took."""
    took, answer = [], None
    for _ in range(times):
        clock, cpu = time.perf_counter(), time.process_time()
        answer = question()
        took.append((time.perf_counter() - clock, time.process_time() - cpu))
    later = took[1:] or took
    print(
        f"{name:<34}{took[0][0]:>9.3f}{took[0][1]:>9.3f}{median(t for t, _ in later):>9.3f}{median(c for _, c in later):>9.3f}"
    )
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description="Times of the Fleet page's questions.")
    parser.add_argument("tables")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    fleet = open_fleet(given.tables)
    print(
        f"{fleet.count_rows('requests'):,} requests, {fleet.count_rows('sessions'):,} sessions; load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'seconds':<34}{'first':>9}{'CPU':>9}{'later':>9}{'CPU':>9}")
    warehouse: Warehouse = measure("open", lambda: Warehouse(fleet), 1)
    span = queries.find_days(warehouse)
    month = Selection(since=span[1] - timedelta(days=30)) if span else EVERYTHING
    team = Selection(team=queries.list_names(warehouse, "team")[0])
    for name, chosen in {"everything": EVERYTHING, "30 days": month, "a team": team}.items():
        measure(f"totals, {name}", lambda c=chosen: queries.sum_costs(warehouse, c), given.times)
        for by in ("team", "person", "day"):
            measure(f"costs by {by}, {name}", lambda c=chosen, b=by: queries.list_costs(warehouse, c, b), given.times)
        measure(f"chart by project, {name}", lambda c=chosen: queries.list_spending(warehouse, c, "project"), given.times)
        measure(f"distributions, {name}", lambda c=chosen: queries.measure_distributions(warehouse, c), given.times)
        measure(f"anomalies by project, {name}", lambda c=chosen: find_anomalies(warehouse, c, "project"), given.times)
        measure(f"sessions, {name}", lambda c=chosen: find_sessions(warehouse, c), given.times)
        measure(f"policies, {name}", lambda c=chosen: queries.list_policies(warehouse, c), given.times)
    sandbox = Sandbox(fleet)
    measure("SQL over all requests", lambda: sandbox.run(SQL), given.times)
    print(f"load {os.getloadavg()[0]:.1f}; at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB of memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
