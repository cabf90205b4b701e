"""The policies on one's own sessions, in Streamlit's own test runner."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import turnscope
from conftest import ROOT
from turnscope.library import indexing
from turnscope.library.policy_table import build_table, measure_session
from turnscope.settings import find_database
from turnscope.storage.library_index import FILE

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
NAMES = ("keep-everything", "last-20-messages")


def read_html(app: AppTest) -> str:
    return "\n".join(each.proto.body for each in app.get("html"))


def test_policies_are_measured_on_the_sessions_that_are_chosen(app: AppTest, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_bytes(SAMPLE.read_bytes())
    assert [each.sessions for each in indexing.index(find_database().with_name(FILE), [own])] == [1]
    app.query_params["view"] = "sessions"
    app.switch_page("pages/policies.py").run()
    assert not app.exception
    sessions = app.multiselect(key="table.sessions")
    assert sessions.value == [(str(own), "")], "samples are listed only where nothing is indexed"
    app.multiselect(key="table.policies").set_value([*NAMES]).run()
    assert 'class="policy-table"' not in read_html(app)
    app.button(key="table.go").click().run()
    deadline = time.monotonic() + 90
    while 'class="policy-table"' not in read_html(app) and time.monotonic() < deadline:
        time.sleep(0.2)
        app.run()
    assert not app.exception
    table = build_table(measure_session(turnscope.load(own), ("as-recorded", *NAMES)))
    shown = read_html(app)
    for row in table:
        assert f"×{row.cost:.2f}</td><td>{row.low:.2f} to {row.high:.2f}</td>" in shown
        assert f"/policies?policy={row.policy}" in shown
    assert "1 session." in shown


def test_samples_are_there_where_nothing_is_indexed(app: AppTest) -> None:
    app.query_params["view"] = "sessions"
    app.switch_page("pages/policies.py").run()
    assert next(Path(path).name for path, _ in app.multiselect(key="table.sessions").value) == SAMPLE.name
    app.multiselect(key="table.sessions").set_value([]).run()
    assert app.button(key="table.go").disabled
    assert not app.exception


def test_the_address_names_the_view(app: AppTest) -> None:
    app.switch_page("pages/policies.py").run()
    assert not app.multiselect
    assert "view" not in app.query_params
    app.segmented_control(key="policies.view").set_value("sessions").run()
    assert app.query_params["view"] == "sessions"
    assert app.multiselect(key="table.sessions").value
