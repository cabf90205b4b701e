"""Tables of a small fleet, in which some requests are held by two sessions, and some people and days are not known."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.tables import TABLES, make_schema

from tests.bench import make_fleet_tables


def make_fleet(url: str, requests: int = 4_000, sessions: int = 80, days: int = 30, source: str = "") -> Fleet:
    """Made-up tables at a URL: each seventh request does not count, each ninth session has no day and no person.

    Args:
        url: the URL.
        requests, sessions, days: how many.
        source: what all sessions were read from; "" = made up.
    """
    made = make_fleet_tables.write(f"{url}-even", requests, sessions, days)
    fleet = open_fleet(url)
    files = []
    for name in TABLES:
        rows = made.read(name).to_pylist()
        for n, row in enumerate(rows):
            if name == "requests" and n % 7 == 0:
                row["counted"] = False
            if name == "sessions" and source:
                row["source"] = source
            if name != "sources" and int(row["session"], 16) % 9 == 0:
                rows[n] = row | {"day": None} | ({"person": ""} if "person" in row else {})
        files += fleet.write_rows(name, pa.Table.from_pylist(rows, schema=make_schema(name)), [1])
    return fleet.commit("read", files)


@pytest.fixture(scope="session")
def small_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return make_fleet(str(tmp_path_factory.mktemp("fleets") / "small"))


@pytest.fixture(scope="session")
def fleet_folder(small_fleet: Fleet) -> Path:
    return Path(small_fleet.storage.root)
