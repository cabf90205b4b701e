"""Runs over sources: only what is new is read, what changed is replaced, and what fails is reported."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import turnscope
from turnscope.errors import PolicyError, TurnscopeError
from turnscope.fleet import run as runs
from turnscope.fleet import tasks, upkeep
from turnscope.fleet.cluster import SerialCluster
from turnscope.fleet.dataset import SUMS, Fleet, open_fleet
from turnscope.fleet.reader import ReadResult, ReadTask, read_source
from turnscope.fleet.run import FleetRun, RunReport, build_options, list_runs
from turnscope.fleet.sources import SourceUnit, find_owner, list_sources, parse_layout, stamp_again
from turnscope.fleet.tasks import find_policy_problem
from turnscope.fleet.writing import forget_person
from turnscope.library.opening import load_policy, overview
from turnscope.library.policy_table import measure_session
from turnscope.settings import find_data_folder

from tests.fleet.made import PRIVATE, find_differences, write_log


class InProcess:
    """Reads without a process of its own, which takes a second to start."""

    limit = 0.0

    def read(self, task: ReadTask) -> ReadResult:
        return read_source(task)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_get_reader", lambda _: InProcess())
    monkeypatch.setattr(runs, "BACK_OFF", 0.0)
    monkeypatch.setattr(tasks, "BACK_OFF", 0.0)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for n in range(4):
        write_log(
            tmp_path / "logs" / "search" / f"s{n}.jsonl", 2 + n, cwd=f"/home/{'lynn' if n % 2 else 'tom'}/shop", day=2 + n // 2
        )
    return tmp_path / "logs"


def read(
    source: Path | str, dest: Path | str, *, key: bytes | None = None, layout: str = "", **given: Any
) -> tuple[RunReport, Fleet]:
    run = FleetRun(open_fleet(str(dest)), build_options(key=key, layout=layout, **given), key)
    report = run.run(list_sources(str(source), layout), SerialCluster())
    return report, open_fleet(str(dest))


def test_every_session_has_its_rows(logs: Path, tmp_path: Path) -> None:
    report, fleet = read(logs, tmp_path / "out")
    assert (report.read, report.sessions, report.failed, report.found) == (4, 4, 0, 4)
    sessions = fleet.read("sessions").to_pylist()
    assert {row["person"] for row in sessions} == {"lynn", "tom"}
    assert fleet.count_rows("requests") == 2 + 3 + 4 + 5
    assert {file.day for file in fleet.files.values() if file.table == "requests"} == {"2026-11-02", "2026-11-03"}
    for row in sessions:
        session = turnscope.load(row["source"])
        assert row["usd"] == round(overview(session).total, 12)
        assert row["tool_errors"] == 1
    whole = pc.sum(fleet.read("requests", ["usd"])["usd"]).as_py()
    assert whole == sum(row["usd"] for row in sessions) > Decimal(0)
    assert report.bytes == sum(path.stat().st_size for path in logs.rglob("*.jsonl"))
    assert report.cpu_per_gb is not None
    assert "s per GB" in repr(report)


def test_a_second_run_reads_nothing_and_a_changed_source_replaces_its_rows(logs: Path, tmp_path: Path) -> None:
    read(logs, tmp_path / "out")
    report, fleet = read(logs, tmp_path / "out")
    assert (report.read, report.unchanged, fleet.number) == (0, 4, 1)
    write_log(logs / "search" / "s0.jsonl", 6, day=9)
    write_log(logs / "pay" / "new.jsonl", 1)
    report, fleet = read(logs, tmp_path / "out")
    assert (report.read, report.unchanged) == (2, 3)
    read(logs, tmp_path / "other")
    assert find_differences(str(tmp_path / "out"), str(tmp_path / "other")) == []


def test_a_source_that_was_only_touched_keeps_its_rows(logs: Path, tmp_path: Path) -> None:
    _, before = read(logs, tmp_path / "out")
    os.utime(logs / "search" / "s0.jsonl", (1, 1))
    report, after = read(logs, tmp_path / "out")
    assert report.read == 1
    assert before.list_files("requests") == after.list_files("requests")
    assert read(logs, tmp_path / "out")[0].read == 0


def test_other_options_read_everything_again(logs: Path, tmp_path: Path) -> None:
    read(logs, tmp_path / "out")
    report, fleet = read(logs, tmp_path / "out", with_text=True)
    assert report.read == 4
    assert fleet.count_rows("sessions") == 4


def test_no_text_of_a_session_is_stored_unless_it_is_requested(logs: Path, tmp_path: Path) -> None:
    def holds(dest: str) -> bool:
        fleet = open_fleet(dest)
        return any(PRIVATE in repr(fleet.read(name).to_pylist()) for name in ("sessions", "requests", "findings", "decisions"))

    read(logs, tmp_path / "out")
    assert not holds(str(tmp_path / "out"))
    read(logs, tmp_path / "text", with_text=True)
    assert holds(str(tmp_path / "text"))


def test_people_and_paths_are_hashed_with_a_key(logs: Path, tmp_path: Path) -> None:
    (logs / "search" / "broken.jsonl").write_text("{")
    report, fleet = read(logs, tmp_path / "out", key=b"k" * 32)
    assert report.failed == 1
    stored = repr({name: fleet.read(name).to_pylist() for name in ("sessions", "requests", "sources")})
    stored += repr([*list_runs(fleet)])
    assert not any(name in stored for name in ("lynn", "/home", str(logs), "broken"))
    people = fleet.read("sessions", ["person"])["person"].to_pylist()
    assert len({*people}) == 2
    _, other = read(logs, tmp_path / "other", key=b"l" * 32)
    assert not {*people} & {*other.read("sessions", ["person"])["person"].to_pylist()}


def test_a_person_who_is_forgotten_leaves_every_file_and_stays_away(logs: Path, tmp_path: Path) -> None:
    read(logs, tmp_path / "out")
    write_log(logs / "search" / "s1.jsonl", 9, cwd="/home/lynn/shop")  # old rows in a file that counts no more
    _, fleet = read(logs, tmp_path / "out")
    after, gone = forget_person(fleet, "lynn")
    assert gone == 2
    stored = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet"))
    assert b"lynn" not in stored
    assert {file.path for file in after.files.values()} == {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*.parquet")
        if SUMS not in path.parts
    }
    assert read(logs, tmp_path / "out")[0].read == 0
    write_log(logs / "search" / "s1.jsonl", 4, cwd="/home/lynn/shop")
    write_log(logs / "search" / "more.jsonl", 2, cwd="/home/lynn/other")
    report, fleet = read(logs, tmp_path / "out")
    assert report.read == 2
    assert {*fleet.read("sessions", ["person"])["person"].to_pylist()} == {"tom"}
    assert {row["state"] for row in fleet.read("sources").to_pylist() if not row["source"]} == {"forgotten"}


def test_a_request_that_two_sessions_hold_counts_once(tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "a.jsonl", 3, first="same", day=3)
    write_log(tmp_path / "logs" / "b.jsonl", 5, first="same", day=2)
    _, fleet = read(tmp_path / "logs", tmp_path / "out")
    counted = fleet.read("requests", ["counted", "day"]).to_pylist()
    assert sorted(row["day"].day for row in counted if row["counted"]) == [2] * 5
    (tmp_path / "logs" / "b.jsonl").unlink()
    write_log(tmp_path / "logs" / "b.jsonl", 1, first="own", day=2)
    _, fleet = read(tmp_path / "logs", tmp_path / "out")
    assert all(row["counted"] for row in fleet.read("requests", ["counted"]).to_pylist())


def test_losses_are_those_of_compare(logs: Path, tmp_path: Path) -> None:
    _, fleet = read(logs, tmp_path / "out", policies=["last-5-pairs"])
    rows = {row["session"]: row for row in fleet.read("losses").to_pylist()}
    assert len(rows) == 4
    for session in fleet.read("sessions").to_pylist():
        (measured,) = measure_session(turnscope.load(session["source"]), ["last-5-pairs"])
        row = rows[session["session"]]
        assert (row["usd"], row["hits"], row["uses"]) == (measured.usd, measured.hits, measured.uses)


def test_policies_of_ones_own_go_to_the_workers_with_their_text(logs: Path, tmp_path: Path) -> None:
    text = load_policy("last-5-pairs").to_toml()
    file, saved = tmp_path / "mine.toml", find_data_folder() / "policies" / "saved.toml"
    file.write_text(text)
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(text)
    options = build_options([str(file), "saved", "last-5-pairs"])
    file.unlink()
    saved.unlink()  # as it is on another machine
    run = FleetRun(open_fleet(str(tmp_path / "out")), options)
    assert run.run(list_sources(str(logs)), SerialCluster()).failed == 0
    usd = defaultdict[str, list[float]](list)
    for row in run.fleet.read("losses").sort_by("session").to_pylist():
        usd[row["policy"]].append(row["usd"])
    assert {*usd} == {"mine.toml", "saved", "last-5-pairs"}
    assert usd["mine.toml"] == usd["saved"] == usd["last-5-pairs"]


def test_a_worker_that_lacks_what_a_policy_needs_is_a_sentence(tmp_path: Path) -> None:
    text = load_policy("last-5-pairs").to_toml()
    assert find_policy_problem({"mine": text}) == ""
    assert "no_such_rule" in find_policy_problem({"mine": text + '\n[[rules]]\nrule = "no_such_rule"\n'})
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.toml").write_text(text)
    with pytest.raises(PolicyError, match="two policies have the same name"):
        build_options([str(tmp_path / folder / "mine.toml") for folder in ("a", "b")])


def test_what_cannot_be_read_is_reported_and_not_read_again(logs: Path, tmp_path: Path) -> None:
    (logs / "search" / "broken.jsonl").write_text('{"type": "user", "uuid": "a", "sessionId": "b", "message": {"role": "us')
    report, fleet = read(logs, tmp_path / "out")
    assert (report.read, report.failed) == (4, 1)
    (problem,) = report.problems
    assert problem.url.endswith("broken.jsonl")
    assert problem.state == "unreadable"
    assert problem.error
    assert read(logs, tmp_path / "out")[0].failed == 0
    run = FleetRun(open_fleet(str(tmp_path / "out")), build_options())
    assert run.run(list_sources(str(logs)), SerialCluster(), retry=True).failed == 1
    assert next(list_runs(fleet)).failed == 1


def fail_for(monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[[], ReadResult]) -> list[str]:
    """Let the reader come to something else for one source; gives the sources that it was asked for."""
    asked: list[str] = []

    class Failing(InProcess):
        def read(self, task: ReadTask) -> ReadResult:
            asked.append(Path(task.path).name)
            return answer() if Path(task.path).name == name else super().read(task)

    monkeypatch.setattr(tasks, "_get_reader", lambda _: Failing())
    return asked


@pytest.mark.parametrize("state", ["crashed", "hung"])
def test_a_source_that_crashes_or_hangs_is_set_aside_after_some_tries(
    state: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = fail_for(monkeypatch, "s1.jsonl", lambda: ReadResult(state, error="it did"))
    report, fleet = read(logs, tmp_path / "out")
    assert asked.count("s1.jsonl") == runs.MOST_TRIES
    assert (report.read, report.failed, report.retried) == (3, 1, runs.MOST_TRIES - 1)
    assert {row["state"] for row in fleet.read("sources").to_pylist() if row["tries"] == 3} == {"set aside"}
    asked.clear()
    assert read(logs, tmp_path / "out")[0].read == 0
    assert asked == []


def test_a_source_that_crashes_once_is_read(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashes = iter([ReadResult("crashed", error="once")])
    asked = fail_for(monkeypatch, "s1.jsonl", lambda: next(crashes))

    def answer(task: ReadTask) -> ReadResult:
        asked.append(task.path)
        return next(crashes, None) or read_source(task)

    monkeypatch.setattr(InProcess, "read", lambda _, task: answer(task))
    monkeypatch.setattr(tasks, "_get_reader", lambda _: InProcess())
    report, _ = read(logs, tmp_path / "out")
    assert (report.read, report.retried) == (4, 1)


def test_a_source_that_is_replaced_while_it_is_read_is_read_again(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, reads = logs / "search" / "s1.jsonl", list[str]()

    def answer(task: ReadTask) -> ReadResult:
        result = read_source(task)
        if Path(task.path) == target:
            reads.append(task.content)
            if len(reads) == 1:
                write_log(target, 7, day=5)
        return result

    monkeypatch.setattr(InProcess, "read", lambda _, task: answer(task))
    report, fleet = read(logs, tmp_path / "out")
    assert len({*reads}) == 2
    assert (report.read, report.retried) == (4, 1)
    row = next(row for row in fleet.read("sessions").to_pylist() if row["source"].endswith("s1.jsonl"))
    assert row["requests"] == 7
    assert read(logs, tmp_path / "out")[0].read == 0


def test_a_source_that_cannot_be_fetched_keeps_its_rows_and_is_read_the_next_time(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(logs, tmp_path / "out")
    write_log(logs / "search" / "s1.jsonl", 8)
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "stamp_again", lambda _: _raise(TurnscopeError("the network is down")))
        report, fleet = read(logs, tmp_path / "out")
    assert report.failed == 1
    assert fleet.count_rows("sessions") == 4
    report, fleet = read(logs, tmp_path / "out")
    assert (report.read, fleet.count_rows("sessions"), fleet.count_rows("sources")) == (1, 4, 4)


def _raise(error: Exception) -> Any:
    raise error


def test_a_run_that_is_stopped_goes_on_where_it_was(logs: Path, tmp_path: Path) -> None:
    def stop(report: RunReport) -> None:
        if report.read == 2:
            raise KeyboardInterrupt

    run = FleetRun(open_fleet(str(tmp_path / "out")), build_options())
    with pytest.raises(KeyboardInterrupt):
        run.run(list_sources(str(logs)), SerialCluster(), stop)
    assert run.report.left == 2
    assert open_fleet(str(tmp_path / "out")).count_rows("sessions") == 2
    assert read(logs, tmp_path / "out")[0].read == 2
    read(logs, tmp_path / "other")
    assert find_differences(str(tmp_path / "out"), str(tmp_path / "other")) == []


def test_many_small_files_of_a_day_become_one(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "COMMIT_SOURCES", 1)
    _, before = read(logs, tmp_path / "out")
    assert len(before.list_files("tools")) == 4
    monkeypatch.setattr(upkeep, "MANY_FILES", 2)
    after = upkeep.tidy(before)
    assert len(after.list_files("tools")) == 2
    read(logs, tmp_path / "other")
    assert find_differences(str(tmp_path / "out"), str(tmp_path / "other")) == []
    write_log(logs / "search" / "s0.jsonl", 6, day=2)  # rows of one source leave a file that several commits wrote
    read(logs, tmp_path / "out")
    read(logs, tmp_path / "other")
    assert find_differences(str(tmp_path / "out"), str(tmp_path / "other")) == []


def test_tables_of_other_storage_are_the_same(logs: Path, tmp_path: Path) -> None:
    read(logs, f"memory://{tmp_path.name}")
    read(logs, tmp_path / "out")
    assert find_differences(f"memory://{tmp_path.name}", str(tmp_path / "out")) == []


def test_subagents_in_files_of_their_own_belong_to_their_session(tmp_path: Path, shared: Any) -> None:
    write_log(tmp_path / "logs" / "a.jsonl")
    write_log(tmp_path / "logs" / "a" / "subagents" / "agent-1.jsonl", 2)
    (tmp_path / "logs" / "a" / "subagents" / "agent-1.meta.json").write_text(json.dumps({"toolUseId": "t0"}))
    (tmp_path / "logs" / ".hidden").mkdir()
    write_log(tmp_path / "logs" / ".hidden" / "b.jsonl")
    (tmp_path / "logs" / "notes.txt").write_text("nothing")
    (unit,) = list_sources(str(tmp_path / "logs"))
    assert (unit.main, len(unit.files)) == ("a.jsonl", 3)
    assert [each.main for each in list_sources(str(tmp_path / "logs" / "*.jsonl"))] == ["a.jsonl"]
    (alone,) = list_sources(str(tmp_path / "logs" / "a.jsonl"))
    assert alone == unit
    write_log(tmp_path / "logs" / "a" / "subagents" / "agent-1.jsonl", 4)
    assert stamp_again(unit).stamp != unit.stamp
    with pytest.raises(TurnscopeError, match="holds no file"):
        list_sources(str(tmp_path / "nowhere"))


def test_a_copy_of_remote_storage_groups_files_as_a_disk_does(logs: Path, tmp_path: Path) -> None:
    import fsspec

    write_log(logs / "search" / "s0" / "subagents" / "agent-1.jsonl", 2)
    fsspec.filesystem("memory").put(str(logs), f"/{tmp_path.name}/logs", recursive=True)

    def describe(units: list[SourceUnit]) -> list[tuple[str, list[str]]]:
        return sorted((unit.main, [file.path for file in unit.files]) for unit in units)

    assert describe(list_sources(f"memory://{tmp_path.name}/logs")) == describe(list_sources(str(logs)))
    report, fleet = read(f"memory://{tmp_path.name}/logs", tmp_path / "out")
    assert (report.read, fleet.count_rows("sessions")) == (4, 4)
    shutil.rmtree(logs)


@pytest.mark.parametrize(
    ("layout", "path", "owner"),
    [
        ("{team}/{person}/**", "search/lynn/x/y.jsonl", ("search", "", "lynn")),
        ("{team}/*/{project}", "search/x/shop/y.jsonl", ("search", "shop", "")),
        ("logs-{team}/**", "logs-a.b/1.jsonl", ("a.b", "", "")),
        ("{team}/{person}/**", "1.jsonl", ("", "", "")),
    ],
)
def test_a_layout_says_whose_sessions_a_path_holds(layout: str, path: str, owner: tuple[str, str, str]) -> None:
    found = find_owner(parse_layout(layout), path)
    assert (found.team, found.project, found.person) == owner


def test_a_layout_that_names_a_part_twice_is_a_sentence() -> None:
    with pytest.raises(TurnscopeError, match="cannot be used"):
        parse_layout("{team}/{team}")


def test_owners_come_from_the_layout(logs: Path, tmp_path: Path) -> None:
    _, fleet = read(logs, tmp_path / "out", layout="{team}/**")
    assert {row["team"] for row in fleet.read("sessions").to_pylist()} == {"search"}
