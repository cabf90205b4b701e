"""What the tables of a fleet come to is the same, whether it was stored, partly stored, or has to be made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from turnscope.fleet.cluster import SerialCluster
from turnscope.fleet.dataset import SUMS, Fleet, open_fleet
from turnscope.fleet.run import FleetRun, build_options
from turnscope.fleet.sources import list_sources
from turnscope.fleet.sums import DAYS, QUERIES, SumTables, open_sums, store_sums
from turnscope.fleet.warehouse import Warehouse
from turnscope.fleet.writing import forget_person

from tests.fleet.conftest import make_fleet
from tests.fleet.made import write_log


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return make_fleet(str(tmp_path / "fleet"), 400, 20, 6)


def read_all(tables: SumTables) -> dict[str, list[Any]]:
    """The rows of all small tables."""
    for name in QUERIES:
        tables.make(name)
    return {name: tables.connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in QUERIES}


def remove(fleet: Fleet, table: str) -> None:
    for path in fleet.list_files(table):
        Path(path).unlink()


def test_what_was_stored_is_taken_and_no_request_is_read(fleet: Fleet) -> None:
    made = read_all(SumTables(fleet))
    assert all(made.values())
    assert store_sums(fleet)
    assert not store_sums(fleet), "they are there"
    for table in ("requests", "sessions", "losses", "tools"):
        remove(fleet, table)
    tables = SumTables(fleet)
    assert tables.is_stored
    assert read_all(tables) == made
    types = tables.connection.execute("SELECT typeof(uncached), typeof(usd) FROM sums LIMIT 1").fetchall()
    assert types == [("BIGINT", "DECIMAL(38,12)")], "sums are exact"
    assert Warehouse(fleet).ask(
        "FROM replayed SELECT count(*) AS many, $since, $until, $team, $project, $person, $tool, $model"
    )


def test_days_that_changed_are_made_and_the_others_are_taken(fleet: Fleet) -> None:
    store_sums(fleet)
    first, *rest = sorted(file.day for file in fleet.files.values() if file.table == "requests" and file.day)
    [file] = [file for file in fleet.files.values() if file.table == "requests" and file.day == first]
    new = fleet.rewrite(file, lambda rows: rows.slice(0, rows.num_rows // 2))
    gone = [path for path, each in fleet.files.items() if each.day == rest[-1]]
    changed = fleet.commit("read", new, [file.path, *gone])
    tables = SumTables(changed)
    assert (tables.uses_stored, tables.is_stored) == (True, False)
    found, whole = read_all(tables), read_all(SumTables(changed, use_stored=False))
    assert found == whole
    assert found != read_all(SumTables(fleet, use_stored=False))
    for path in fleet.list_files("requests"):
        if first not in path:
            Path(path).unlink()
    assert read_all(SumTables(changed))["sums"] == whole["sums"], "one day alone was read"
    policies = tables.connection.execute("SELECT policy, session FROM replayed").fetchall()
    assert policies == sorted(policies), "as intervals need them"


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "sums.parquet").write_bytes(b"PAR1 no"),
        lambda folder: (folder / "opened.parquet").unlink(),
        lambda folder: (folder / DAYS).write_text("["),
        lambda folder: (folder / DAYS).unlink(),
        lambda folder: folder.rename(folder.with_name("00000001-0ther")),
    ],
)
def test_stored_tables_that_cannot_be_read_are_made_anew(fleet: Fleet, damage: Callable[[Path], object]) -> None:
    made = read_all(SumTables(fleet))
    store_sums(fleet)
    [folder] = Path(fleet.storage.root, SUMS).iterdir()
    damage(folder)
    assert read_all(open_sums(fleet, QUERIES)) == made


def test_a_run_stores_them_and_removes_older_ones(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", str(tmp_path / "out")

    def read() -> Fleet:
        run = FleetRun(open_fleet(out), build_options())
        run.run(list_sources(str(logs)), SerialCluster())
        return run.fleet

    write_log(logs / "s0.jsonl", cwd="/home/lynn/shop")
    assert SumTables(read()).is_stored
    write_log(logs / "s1.jsonl", cwd="/home/ada/shop", day=3)
    fleet = read()
    assert SumTables(fleet).is_stored
    assert [path.name[:8] for path in Path(out, SUMS).iterdir() if any(path.iterdir())] == [f"{fleet.number:08d}"]
    [sums] = Path(out, SUMS).glob(f"{fleet.number:08d}*/sums.parquet")
    assert {row["person"] for row in parquet.read_table(sums).to_pylist()} == {"lynn", "ada"}
    after, gone = forget_person(fleet, "ada")
    assert gone == 1
    assert SumTables(after).is_stored
    for path in Path(out, SUMS).rglob("*.parquet"):
        assert "ada" not in str(parquet.read_table(path).to_pylist()), path
