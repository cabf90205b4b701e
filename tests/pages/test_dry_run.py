"""The debugger beside a dry run of the tap: what went out, what would have, and the texts of both."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from turnscope.tap.apis import Upstreams
from turnscope.tap.server import run_tap

from tests.claude_log import Log
from tests.tap.strict_upstream import serve_strictly
from tests.tap.test_enforcement import Agent, enforced, make_rules

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def read_bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def check_both_sides(app: AppTest) -> None:
    sent, planned = re.findall(r"<b>(?:went out|would have gone out)</b> <span>([\d.]+)k tokens · \$[\d.]+", read_bodies(app))
    assert float(planned) < float(sent)
    (table,) = [each.value for each in app.dataframe if "would have" in each.value]
    assert {*table["how"]} == {"kept", "summarised"}
    changed = table[table["how"] == "summarised"].iloc[0]
    assert changed["would have"] < changed["went out"]
    for side, head in (("went out", sent), ("would have", planned)):
        assert abs(table[side].sum() - 1_000 * float(head)) < 60, "the pieces add up to the prompt, which is rounded"
    kept = table[table["how"] == "kept"]
    assert [*kept["went out"]] == [*kept["would have"]]
    before, after = (code.value for code in app.code)
    assert "[Extract of the earlier work" in after
    assert "[Extract of the earlier work" not in before


def test_both_sides_of_a_request_stand_beside_each_other(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with enforced(tmp_path, make_rules("extracts", dry_run=True), window=90_000) as (tap, _):
        Agent("openai-chat", tap.address).play(20)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(tmp_path / "log.jsonl"))
    app.switch_page("pages/debugger.py")
    app.query_params["request"], app.query_params["pane"] = "19", "dry"
    app.run()
    assert not app.exception
    check_both_sides(app)
    assert "Step 1." in app.code[0].value


def test_a_subagent_has_both_sides_of_its_own_requests(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = make_rules("extracts", dry_run=True)
    with serve_strictly(90_000) as upstream:
        gateway = run_tap(tmp_path / "log.jsonl", Upstreams(upstream.url, {}), command=["agent"], rules=rules)
        with gateway as tap:
            Agent("openai-chat", tap.address).play(22)
            below = Agent("openai-chat", tap.address)
            below.history.clear()
            below.begin("You are a subagent with a task of your own.")
            below.play(20)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(tmp_path / "log.jsonl"))
    app.switch_page("pages/debugger.py")
    app.query_params["request"], app.query_params["pane"], app.query_params["part"] = "19", "dry", "1"
    app.run()
    assert not app.exception
    check_both_sides(app)
    assert app.code[0].value.startswith("Step 23."), "its own texts, not those of the session above"


def test_a_log_that_is_joined_with_its_recording_has_both_sides(
    app: AppTest, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with enforced(data_folder / "tap", make_rules("extracts", dry_run=True), window=90_000) as (tap, _):
        Agent("anthropic-messages", tap.address).play(20)
    log = Log()
    for request in turnscope.load(data_folder / "tap" / "log.jsonl").requests:
        at = datetime.fromtimestamp(request.sent_at or 0, UTC).isoformat()
        log.user("go on", timestamp=at)
        log.answer(request.id, "I go on.", usage=(30, 0, 0, 7), timestamp=at)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(log.save(tmp_path / "own.jsonl")))
    app.switch_page("pages/debugger.py")
    app.query_params["request"], app.query_params["pane"] = "19", "dry"
    app.run()
    assert not app.exception
    assert "from the wire" in str(turnscope.load(tmp_path / "own.jsonl").notes)
    check_both_sides(app)


def test_a_recording_without_a_dry_run_has_no_such_pane(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with enforced(tmp_path, make_rules("extracts")) as (tap, _):
        Agent("anthropic-messages", tap.address).play(3)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(tmp_path / "log.jsonl"))
    app.switch_page("pages/debugger.py")
    app.query_params["pane"] = "dry"
    app.run()
    assert not app.exception
    assert all("Dry run" not in each.options for each in app.get("button_group"))
