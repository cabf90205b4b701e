"""What comes back after a compaction, where an older log does not hold it, and the error that a plan states for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import turnscope
from bench.bench_after_compaction import COVERED, EXACT, MEDIAN, First, measure, measure_files, strip
from claude_log import Log, call
from conftest import shared
from turnscope.planning.reinjected_files import IN_PARTS, UNSEEN, estimate_reinjected_files
from turnscope.session.model import Session

from tests.wire import open_run

LINE = "the quick brown fox jumps over the lazy dog\n"
PREFIX = 20_000  # tokens of system prompt and tools


def read(log: Log, name: str, lines: int, **given: int) -> None:
    id = f"c{len(log.lines)}"
    log.answer(f"m{id}", call(id, "Read", file_path=f"/work/{name}", **given), usage=(3, 0, PREFIX, 9))
    log.result(id, LINE * lines)


def begun(parent: str | None = None) -> Log:
    log = Log()
    log.user("Look around.", parent=parent)
    for n in range(7):
        read(log, f"f{n}.py", 200)
    return log


def make_compacted(log: Log, folder: Path, billed: int = 40_000) -> Session:
    log.compact()
    log.user("go on")
    log.answer("after", "done", usage=(3, billed - 3 - PREFIX, PREFIX, 9))
    return turnscope.load(log.save(folder / "s1.jsonl"))


def estimate(session: Session) -> int:
    return estimate_reinjected_files(session, session.requests[-1], turnscope.replay(session).ledger)


def test_the_five_files_read_last_come_back_with_the_size_that_they_had(tmp_path: Path) -> None:
    session = make_compacted(begun(), tmp_path)
    ledger = turnscope.replay(session).ledger
    size = next(ledger.count_tokens(b.at, b.at + 1) for b in session.blocks if b.kind == "tool_result")
    assert estimate(session) == 5 * size


def test_a_file_comes_back_once_and_no_longer_than_the_limit(tmp_path: Path) -> None:
    log = Log()
    log.user("Look around.")
    read(log, "long.py", 2_000)
    read(log, "long.py", 2_000)
    read(log, "part.py", 20, offset=100, limit=20)
    assert estimate(make_compacted(log, tmp_path)) == 5_000 + IN_PARTS


def test_files_that_were_read_before_the_log_begins_are_taken_to_be_usual_ones(tmp_path: Path) -> None:
    log = Log()
    log.user("Look around.", parent="elsewhere")
    read(log, "long.py", 2_000)
    assert estimate(make_compacted(log, tmp_path)) == 5_000 + 4 * UNSEEN


def test_a_log_that_holds_the_files_has_nothing_to_estimate(tmp_path: Path) -> None:
    log = begun()
    log.compact()
    log.line("attachment", attachment={"type": "compact_file_reference", "filename": "/work/f1.py", "displayPath": "f1.py"})
    log.user("go on")
    log.answer("after", "done", usage=(3, 2_000, PREFIX, 9))
    assert estimate(turnscope.load(log.save(tmp_path / "s1.jsonl"))) == 0


def test_a_cache_that_lost_all_else_tells_system_prompt_from_a_conversation_before_the_log(tmp_path: Path) -> None:
    log = Log()
    log.user("Where were we?", parent="elsewhere")
    log.answer("m1", "Here.", usage=(3, 90_000, 0, 9))
    log.user("Go on.")
    log.answer("m2", "There.", usage=(3, 70_000, PREFIX, 9))
    session = make_compacted(log, tmp_path, billed=PREFIX + 5 * UNSEEN + 100)
    [first] = measure("s1", session)
    assert first.planned == pytest.approx(first.billed, rel=0.02)
    assert first.covered


def test_older_logs_are_planned_within_the_error_that_is_stated() -> None:
    check(measure_files([shared("data", "open", "claude-code")]), 5)


def test_recorded_runs_without_the_records_of_their_requests_are_too(tmp_path: Path) -> None:
    made: list[First] = []
    for name in ("B2-acwindow100k", "C", "D-tui"):
        with open_run(shared("data", "wire", "claude", name)) as run:
            files = [path for path in run.transcripts.rglob("*.jsonl") if "projects" in path.parts]
            made += measure_files(files, inferred=True)
    check(made, 12)


@pytest.mark.parametrize("begins", [45, 55, 241, 276])
def test_a_log_that_begins_late_states_an_error_that_covers_what_it_cannot_know(begins: int, tmp_path: Path) -> None:
    """The lines before are cut off a real file. How much of the first prompt is system prompt and tools is then unknown."""
    whole = shared("data", "open", "claude-code", "entire-b029-2compactions-apierrors.jsonl")
    late = tmp_path / "late.jsonl"
    late.write_text("".join(whole.read_text("utf-8").splitlines(keepends=True)[begins:]), encoding="utf-8")
    first, *later = measure("late", turnscope.load(late))
    assert first.covered
    assert abs(first.miss) < 0.25
    assert all(each.covered and abs(each.miss) < 0.09 for each in later)


def test_what_follows_later_compactions_of_other_tools_is_planned_by_the_first(tmp_path: Path) -> None:
    """What a tool brings back is the same each time; what an estimate drifts by in between is not."""
    with open_run(shared("data", "wire", "codex", "B2-limit60k")) as run:
        first, *later = (
            one for path in run.transcripts.rglob("rollout*.jsonl") for one in measure("codex", turnscope.load(path))
        )
    assert first.covered
    assert len(later) == 9
    assert sorted(abs(each.miss) for each in later)[4] < 0.03
    assert max(abs(each.miss) for each in later) < 0.2


def check(made: list[First], least: int) -> None:
    misses = sorted(abs(each.miss) for each in made)
    assert len(misses) >= least
    assert misses[len(misses) // 2] <= MEDIAN
    assert sum(each.covered for each in made) >= COVERED * len(made)


def test_a_stripped_transcript_holds_no_recorded_request(tmp_path: Path) -> None:
    log = begun()
    log.add_bare(type="api-request", id="r1")
    found = strip(log.save(tmp_path / "in" / "s1.jsonl"), tmp_path)
    assert not any(name in found.read_text() for name in EXACT)
    assert len(found.read_text().splitlines()) == len(log.lines) - 1
