"""The debugger beside a dry run of the tap: what went out, what would have, and the texts of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tap.test_enforcement import Agent, enforced, make_rules

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def read_bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def test_both_sides_of_a_request_stand_beside_each_other(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with enforced(tmp_path, make_rules("extracts", dry_run=True), window=90_000) as (tap, _):
        Agent("openai-chat", tap.address).play(20)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(tmp_path / "log.jsonl"))
    app.switch_page("pages/debugger.py")
    app.query_params["request"], app.query_params["pane"] = "19", "dry"
    app.run()
    assert not app.exception
    sent, planned = re.findall(r"<b>(?:went out|would have gone out)</b> <span>([\d.]+)k tokens · \$[\d.]+", read_bodies(app))
    assert float(planned) < float(sent)
    (table,) = [each.value for each in app.dataframe if "would have" in each.value]
    assert {*table["how"]} == {"kept", "summarised"}
    changed = table[table["how"] == "summarised"].iloc[0]
    assert changed["would have"] < changed["went out"]
    before, after = (code.value for code in app.code)
    assert "[Extract of the earlier work" in after
    assert "[Extract of the earlier work" not in before
    assert "Step 1." in before


def test_a_recording_without_a_dry_run_has_no_such_pane(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with enforced(tmp_path, make_rules("extracts")) as (tap, _):
        Agent("anthropic-messages", tap.address).play(3)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(tmp_path / "log.jsonl"))
    app.switch_page("pages/debugger.py")
    app.query_params["pane"] = "dry"
    app.run()
    assert not app.exception
    assert all("Dry run" not in each.options for each in app.get("button_group"))
