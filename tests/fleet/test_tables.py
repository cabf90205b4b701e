"""The tables of a fleet: schemas, what identifies a row, made-up tables for benches."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from turnscope.counting.reconciliation import CELLS
from turnscope.fleet.tables import TABLES, USD_SCALE, make_schema

from tests.bench import make_fleet_tables


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_has_every_column_with_its_meaning_and_unit(name: str) -> None:
    table, schema = TABLES[name], make_schema(name)
    assert tuple(schema.names) == table.names
    assert len(set(schema.names)) == len(schema.names)
    for column, field in zip(table.columns, schema, strict=True):
        assert field.metadata[b"meaning"].decode() == column.meaning
        assert column.meaning.endswith(".")
        assert field.nullable == column.nullable
        if column.kind == "usd":
            assert field.type.scale == USD_SCALE
    assert all(not column.nullable for column in table.columns if column.name in table.key)


def test_no_column_has_to_be_quoted_in_sql() -> None:
    words = duckdb.sql("select keyword_name from duckdb_keywords() where keyword_category <> 'unreserved'").fetchall()
    reserved = {word for (word,) in words}
    found = {name for table in TABLES.values() for name in table.names} & reserved
    assert found == set()


def test_every_part_of_a_prompt_has_a_column() -> None:
    assert {*CELLS} <= {*TABLES["requests"].names}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> make_fleet_tables.Fleet:
    return make_fleet_tables.write(str(tmp_path_factory.mktemp("fleet")), requests=5_000, sessions=80, days=12)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_made_up_tables_are_identified_by_their_key(made: make_fleet_tables.Fleet, name: str) -> None:
    rows = made.read(name)
    rows.validate(full=True)
    key = [*TABLES[name].key]
    assert rows.num_rows > 0
    assert rows.group_by(key).aggregate([]).num_rows == rows.num_rows
    for field in rows.schema:
        assert field.nullable or not rows.column(field.name).null_count, field.name


def test_made_up_sums_agree_between_tables(made: make_fleet_tables.Fleet) -> None:
    sessions, requests = made.read("sessions", ["usd", "requests"]), made.read("requests", ["usd"])
    assert pa.compute.sum(sessions["usd"]) == pa.compute.sum(requests["usd"])
    assert pa.compute.sum(sessions["requests"]).as_py() == requests.num_rows


def test_made_up_tables_are_the_same_each_time(made: make_fleet_tables.Fleet, tmp_path: Path) -> None:
    again = make_fleet_tables.write(str(tmp_path), requests=5_000, sessions=80, days=12)
    assert again.read("requests").sort_by("id").equals(made.read("requests").sort_by("id"))
