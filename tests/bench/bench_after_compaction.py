"""The first request after each compaction, as planned and as billed: `python tests/bench/bench_after_compaction.py [PATH ...]`.

A line for each recorded compaction: tokens planned and billed, by how much the plan missed, and the error that it stated.
Below: the miss at the median, and how many are within their stated error. `--inferred`: files are read without the records of
whole requests and prompts, as an older version would have written them. A path may hold recorded runs of agents
(`tests.wire`). Exit code 1 where the median is above 8 %, or fewer
than 95 % are covered. Default: the Claude Code sessions of `../shared/data/open`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.session.model import Session  # noqa: E402

from tests.wire import folders, open_run  # noqa: E402
from tests.wire.compare import sessions  # noqa: E402

MEDIAN, COVERED = 0.08, 0.95
FOLDER = ROOT.parent / "shared" / "data" / "open" / "claude-code"
EXACT = ("api-request", "api-request-blob", "api-request-shape")


@dataclass(frozen=True, slots=True)
class First:
    """The first request after a compaction, in tokens. `stated`: the error of the plan, as a share of the prompt."""

    name: str
    request: int
    planned: int
    billed: int
    stated: float

    @property
    def miss(self) -> float:
        """The plan beyond the bill, as a share of the bill."""
        return (self.planned - self.billed) / self.billed

    @property
    def covered(self) -> bool:
        """Whether the plan is within the error that it stated."""
        return abs(self.miss) <= self.stated


def measure(name: str, session: Session) -> Iterator[First]:
    """Measure each compaction of a session with a bill."""
    plans = turnscope.replay(session).plans
    for number in sorted({seen.request for seen in session.observed if seen.edit.action == "condense"}):
        usage, plan = session.requests[number].usage, plans[number]
        if usage and usage.prompt_tokens:
            yield First(name, number, plan.expected_tokens, usage.prompt_tokens, plan.calibration.error)


def strip(path: Path, folder: Path) -> Path:
    """Copy a transcript without what newer versions record of whole requests and prompts."""
    target = folder / path.name
    with path.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            record = json.loads(line)
            snapshot = record.get("type") == "attachment" and record.get("attachment", {}).get("type") == "prompt_snapshot"
            if record.get("type") not in EXACT and not snapshot:
                kept = {key: value for key, value in record.items() if key not in ("requestRef", "requestSessionId")}
                out.write(json.dumps(kept) + "\n")
    return target


def measure_runs(path: Path) -> list[First]:
    """Measure the sessions of recorded runs of agents at or below a path."""
    made: list[First] = []
    for folder in folders(path):
        with open_run(folder) as run:
            made += (first for session in sessions(run.transcripts) for first in measure(run.name, session))
    return made


def measure_files(paths: list[Path], *, inferred: bool = False) -> list[First]:
    """Measure the sessions of files at or below some paths."""
    made = [] if inferred else [first for path in paths if path.is_dir() for first in measure_runs(path)]
    files = (found for path in paths for found in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]))
    with TemporaryDirectory() as folder:
        for path in files:
            if path.parent.name != "subagents":
                session = turnscope.load(strip(path, Path(folder)) if inferred else path)
                made += measure(path.stem[:40], session)
    return made


def main(arguments: list[str]) -> int:
    """Print the table; 1 outside the limits, else 0."""
    paths = [Path(arg) for arg in arguments if arg != "--inferred"]
    made = measure_files(paths or [FOLDER], inferred="--inferred" in arguments)
    print(f"{'session':42}{'request':>8}{'planned':>10}{'billed':>10}{'miss':>8}{'stated':>8}")
    for each in made:
        print(f"{each.name:42}{each.request:8}{each.planned:10,}{each.billed:10,}{each.miss:8.1%}{each.stated:8.1%}")
    if not made:
        return 0
    median, covered = float(np.median([abs(each.miss) for each in made])), sum(each.covered for each in made) / len(made)
    print(f"{len(made)} compactions: {median:.1%} off at the median, {covered:.0%} within the stated error")
    return int(median > MEDIAN or covered < COVERED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
