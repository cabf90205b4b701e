"""Every policy over every session of a folder: `python tests/bench/bench_policies.py FOLDER [POLICY ...]`; 1 = a law is broken.

For each policy, over all sessions: exceptions; decisions without a reason; requests planned otherwise a second time; requests
planned otherwise when the session ends behind them (`step` must not see the future); requests over a budget or calls parted
from their results where the policy guarantees neither, what the log itself parts aside; and requests that the provider of
their model would refuse, which may be none under a policy of ours. Beside them how many are not judged: of what their provider
refuses nothing is known. Sessions of more than MOST requests are left out, files are shared out among processes. What is wrong
is printed below the table, the first of each kind.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from turnscope.counting.ledger import Ledger
from turnscope.envelope.plan import Plan
from turnscope.errors import TurnscopeError
from turnscope.library.opening import count_session, load_all
from turnscope.planning import refusals
from turnscope.planning.assemble import replay
from turnscope.planning.policy import OURS, Policy, list_policies, load
from turnscope.planning.rejections import RequestChecker
from turnscope.planning.trace import build_own_ledger
from turnscope.pricing.prices import PRICES
from turnscope.session.fork import truncate_session
from turnscope.session.model import Session
from turnscope.views.rejections import classify_problem

MOST = 3_000  # requests
TWICE = 100  # requests of a session up to which it is planned twice as a whole
COLUMNS = ("exceptions", "no reason", "not the same", "not a prefix", "over budget", "parted", "refused")
PAIRS = ("has no result", "no call before", "does not directly follow its call")


@dataclass
class Row:
    """What came of one policy; `why`: the first mistake of each kind."""

    requests: int = 0
    unjudged: int = 0
    seconds: float = 0.0
    wrong: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)

    def note_finding(self, column: str, where: str) -> None:
        self.wrong[column] += 1
        self.why.setdefault(column, where)

    def add(self, other: Row) -> None:
        self.requests += other.requests
        self.unjudged += other.unjudged
        self.seconds += other.seconds
        self.wrong += other.wrong
        self.why = other.why | self.why


def examine(path: Path, chosen: Sequence[str]) -> tuple[dict[str, Row], int, str]:
    """One file under every policy: a row for each, how many sessions it has, and why it cannot be read."""
    rows = {name: Row() for name in chosen}
    try:
        sessions = [session for session in load_all(path) if 0 < len(session.requests) <= MOST]
    except TurnscopeError as error:
        return rows, 0, f"{path.name}: {error}"
    for session in sessions:
        ledger, known = count_session(session), torn(session)
        for name, row in rows.items():
            began = process_time()
            try:
                judge(row, session, load(name), ledger, known, f"{path.name}, {session.id[:16]}")
            except Exception as error:  # noqa: BLE001 - a raw error is what this looks for
                row.note_finding("exceptions", f"{path.name}: {type(error).__name__}: {error}"[:200])
            row.seconds += process_time() - began
    return rows, len(sessions), ""


def torn(session: Session) -> set[str]:
    """What is wrong with calls and results in the log itself, whoever cuts."""
    looking = RequestChecker(session)
    bare = Policy("bare", "", "", "", "")
    plans = replay(session, bare, count_session(session))
    return {problem.what for plan in plans for problem in looking.check(plan, PRICES) if any(p in problem.what for p in PAIRS)}


def judge(row: Row, session: Session, policy: Policy, ledger: Ledger, known: set[str], where: str) -> None:
    """One session under one policy."""
    looking, own = RequestChecker(session), build_own_ledger(session, policy)
    made = []
    for plan in replay(session, policy, ledger, own):
        place = f"{where}, request {plan.request.n}"
        row.requests += 1
        made.append(describe_plan(plan))
        for decision in plan.decisions:
            if not decision.edit.because.strip():
                row.note_finding("no reason", f"{place}: {decision!r}")
        if "fits" in policy.guarantees and plan.verdict != "refuse" and plan.expected_tokens > plan.budget.limit:
            row.note_finding("over budget", f"{place}: {plan.expected_tokens:,} of {plan.budget.limit:,}")
        wrong = looking.check(plan, PRICES) if plan.verdict != "refuse" else ()
        rules = refusals.find_judge(plan.model, PRICES)
        row.unjudged += rules == refusals.UNKNOWN
        if refused := refusals.select_refused(wrong, rules):
            row.note_finding("refused", f"{place}: {classify_problem(refused[0])}")
        parted = [p.what for p in wrong if any(words in p.what for words in PAIRS) and p.what not in known]
        if parted and "paired" in policy.guarantees:
            row.note_finding("parted", f"{place}: {parted[0]}")
    if len(made) <= TWICE and [*map(describe_plan, replay(session, policy, ledger, own))] != made:
        row.note_finding("not the same", where)
    half = max(1, min(len(made) // 2, TWICE))
    begun = truncate_session(session, session.requests[half - 1].stop, half)
    short = count_session(begun)
    if (
        short.label == ledger.label
        and [*map(describe_plan, replay(begun, policy, short, build_own_ledger(begun, policy)))] != made[:half]
    ):
        row.note_finding("not a prefix", f"{where}, the first {half} requests")


def describe_plan(plan: Plan) -> tuple[object, ...]:
    """What a plan decided, as values."""
    decided = tuple((d.rule, d.action, d.edit.because, d.edit.span, d.before, d.after) for d in plan.decisions)
    return plan.request.n, plan.verdict, plan.model, plan.after.counts, decided


def files(folder: Path) -> list[Path]:
    """The files of a folder that may be sessions, the largest first."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".tsv", ".txt", ".py"))
    return sorted(found, key=lambda path: -path.stat().st_size)


def table(rows: dict[str, Row]) -> Iterator[str]:
    """The table as lines."""
    yield (
        f"{'policy':30}{'requests':>10}{'not judged':>12}" + "".join(f"{column:>14}" for column in COLUMNS) + f"{'seconds':>10}"
    )
    for name, row in rows.items():
        wrong = "".join(f"{row.wrong[column]:14,}" for column in COLUMNS)
        yield f"{name:30}{row.requests:10,}{row.unjudged:12,}{wrong}{row.seconds:10.1f}"


def list_broken_laws(name: str, row: Row) -> list[str]:
    """The laws that a policy broke."""
    ours = load(name).fidelity.startswith(OURS)
    return [column for column in COLUMNS if row.wrong[column] and (column != "refused" or ours)]


def main(given: list[str]) -> int:
    """Print the table; 1 where a law is broken."""
    if not given or not Path(given[0]).is_dir():
        print(__doc__)
        return 2
    chosen = given[1:] or [*list_policies()]
    rows, many = {name: Row() for name in chosen}, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found, count, error in pool.map(partial(examine, chosen=chosen), files(Path(given[0]))):
            many += count
            for name, row in found.items():
                rows[name].add(row)
            if error:
                print(f"not read: {error[:150]}", flush=True)
    print(f"{many} sessions")
    for line in table(rows):
        print(line)
    bad = False
    for name, row in rows.items():
        for column in list_broken_laws(name, row):
            bad = True
            print(f"{name}: {column}: {row.why[column]}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
