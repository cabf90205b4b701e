"""Which window each session is shown with, and what it is known by. `python tests/bench/window_table.py [FILE ...]`.

A line per session: the window of the table of models, the one that is shown, its evidence, and the least size at which the tool
compacted by itself. Below them: how many show a window over 200,000, or would by the table alone, although their tool compacted
below it. And over all policies with a limit: requests whose shown size is over it, and how many of those are shown to fit, by
their plan (as it was before) and by their verdict. Default files: the Claude Code sessions kept beside the project and those of
recorded runs, else the samples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.library.opening import begin_replay, policies  # noqa: E402
from turnscope.session.model import Session  # noqa: E402
from turnscope.session.window_facts import STANDARD_WINDOW  # noqa: E402

from tests.bench.fit_table import files  # noqa: E402
from tests.wire import folders, open_run  # noqa: E402
from tests.wire.compare import sessions  # noqa: E402

SENT = ("send", "warn")


def find_sessions(paths: list[Path]) -> Iterator[tuple[str, Session]]:
    """The sessions of the files, each with a name."""
    for path in paths or files():
        yield path.stem, turnscope.load(path)
    wire = ROOT.parent / "shared" / "data" / "wire" / "claude"
    for folder in folders(wire) if wire.is_dir() and not paths else ():
        with open_run(folder) as run:
            yield from ((f"{run.name} {session.id[:8]}", session) for session in sessions(run.transcripts))


def find_least_compaction(session: Session) -> int:
    """Tokens of the smallest prompt that the tool compacted by itself; 0 = none."""
    facts = [seen.edit.facts for seen in session.observed if seen.edit.action == "condense"]
    return min((int(each["preTokens"]) for each in facts if each.get("trigger") == "auto" and "preTokens" in each), default=0)


def count_limits(session: Session) -> tuple[int, int, int]:
    """Requests over their limit as shown under all policies; those of them that their plans, and their verdicts, let pass."""
    over = planned = shown = 0
    record = turnscope.replay(session)
    for policy in policies():
        if policy.name == "as-recorded" or all(part.rule.name.startswith("follow_") for part in policy.rules):
            continue
        begun, plans = begin_replay(record, policy)
        made = replace(begun, plans=tuple(plans))
        for n, plan in enumerate(made.plans):
            if made.count_tokens(n) > plan.budget.limit and plan.verdict != "refuse":
                over, planned = over + 1, planned + (plan.verdict in SENT)
                shown += made.get_verdict(n) in SENT
    return over, planned, shown


def main() -> int:
    small = table = over = planned = shown = 0
    for name, session in find_sessions([Path(argument) for argument in sys.argv[1:]]):
        least = find_least_compaction(session)
        for each in turnscope.overview(session).evidence:
            print(f"{name[:44]:44} {each.table:>9,} {each.window:>9,} {each.kind:10} {least:>9,}")
            wide = 0 < least < STANDARD_WINDOW
            small, table = small + (wide and each.window > STANDARD_WINDOW), table + (wide and each.table > STANDARD_WINDOW)
        found = count_limits(session)
        over, planned, shown = over + found[0], planned + found[1], shown + found[2]
    print(f"a larger window although compacted below {STANDARD_WINDOW:,}: {table} by the table alone, {small} as shown")
    print(f"requests over their limit: {over:,}; let pass by their plan: {planned:,}, by their verdict: {shown:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
