"""What Claude Code stores in another form than it sent, and what it says of its own cost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import shared
from importers import exact_log
from turnscope.planning.render import build_body

SENT = {"command": "cd /work && ls"}
PREVIEW = (
    "<persisted-output>\nOutput too large (43.1KB). Full output saved to: /x/projects/-work/s1/tool-results/b1.txt"
    "\n\nPreview (first 2KB):\nline one\n...\n</persisted-output>"
)


def log() -> Log:
    made = Log()
    made.user("Look.")
    made.answer("m1", call("c1", command="ls"), usage=(10, 20, 0, 5), wireToolInputs={"c1": SENT})
    made.result("c1", PREVIEW)
    made.answer("m2", "Done.", usage=(10, 20, 30, 5))
    return made


def test_a_block_has_the_form_that_was_sent_and_the_stored_one_stands_beside_it(tmp_path: Path) -> None:
    session = turnscope.load(log().save(tmp_path / "s1.jsonl"))
    (made,) = [block for block in session.blocks if block.kind == "tool_use"]
    assert made.raw["input"] == SENT
    assert session.about["stored_inputs"] == {"c1": {"command": "ls"}}
    (result,) = [block for block in session.blocks if block.kind == "tool_result"]
    assert result.text == PREVIEW
    assert session.about["stored_results"] == {"c1": {"file": "s1/tool-results/b1.txt"}}


@pytest.mark.parametrize("path", ["/a/../tool-results/b1.txt", "/x/s1/tool-results/..", "/x/s1/elsewhere/b1.txt"])
def test_no_file_is_named_but_one_of_a_sessions_results(path: str, tmp_path: Path) -> None:
    made = log()
    made.lines[2]["message"]["content"][0]["content"] = f"<persisted-output>\nFull output saved to: {path}\n</persisted-output>"
    assert "stored_results" not in turnscope.load(made.save(tmp_path / "s1.jsonl")).about


def test_a_result_that_was_sent_shorter_than_it_is_stored(tmp_path: Path) -> None:
    made = log()
    made.lines[2]["message"]["content"][0]["content"] = "all of it " * 9_000
    made.add_bare(
        type="content-replacement",
        sessionId="s1",
        replacements=[{"kind": "tool-result", "toolUseId": "c1", "replacement": PREVIEW}, {"kind": "other"}, 7],
    )
    session = turnscope.load(made.save(tmp_path / "s1.jsonl"))
    (result,) = [block for block in session.blocks if block.kind == "tool_result"]
    assert result.text == PREVIEW
    assert session.about["stored_results"] == {"c1": {"text": "all of it " * 9_000}}
    assert len(json.dumps(build_body(turnscope.replay(session).plans[1], session, as_recorded=True))) < 5_000


def test_a_recorded_preview_names_its_file() -> None:
    from tests.wire import open_run

    with open_run(shared("data", "wire", "claude", "B2-acwindow100k")) as run:
        (path,) = run.transcripts.glob(".claude/projects/*/*.jsonl")
        session = turnscope.load(path)
        stored = session.about["stored_results"]
        assert len(stored) == 14
        assert all((path.parent / row["file"]).is_file() for row in stored.values())


def test_answers_with_other_inputs_are_found_by_the_hash_of_what_was_sent(tmp_path: Path) -> None:
    made = exact_log.Log()
    made.prompt("Look.")
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Look."}]}]
    ref = made.send(said)
    text, used = {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "Read", "input": SENT}
    sent = made.answer(ref, [text, used])
    made.lines[-1]["message"]["content"] = [{**used, "input": {"command": "ls"}}]
    made.lines[-1]["wireToolInputs"] = {"c1": SENT}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}
    made.prompt([result])
    made.answer(made.send([*said, sent, {"role": "user", "content": [result]}]), [{"type": "text", "text": "Done."}])
    session = turnscope.load(made.write(tmp_path))
    assert session.about["exact_requests"] == {"requests": 2, "proven": 2}
    trace = turnscope.replay(session)
    assert [build_body(plan, session, as_recorded=True) for plan in trace.plans] == made.sent
    assert session.about["stored_inputs"] == {"c1": {"command": "ls"}}


def cost(usd: Any, **more: Any) -> dict[str, Any]:
    return {"type": "cost-state", "sessionId": "s1", "totalCostUSD": usd, "hasUnknownModelCost": False} | more


@pytest.mark.parametrize(
    ("record", "usd"), [(cost(0.25), Decimal("0.25")), (cost(0.25, hasUnknownModelCost=True), None), (cost("a lot"), None)]
)
def test_the_tools_own_sum_is_held_against_ours(record: dict[str, Any], usd: Decimal | None, tmp_path: Path) -> None:
    made = log()
    made.add_bare(**cost(0.01))
    made.add_bare(**record)
    session = turnscope.load(made.save(tmp_path / "s1.jsonl"))
    assert turnscope.overview(session).bill.run_usd == usd
    assert not any("cost-state" in note.what for note in session.notes)


def test_a_sum_that_an_answer_came_after_is_none_of_the_whole(tmp_path: Path) -> None:
    made = log()
    made.add_bare(**cost(0.25))
    made.user("Go on.")
    made.answer("m3", "Done.", usage=(10, 20, 30, 5))
    assert turnscope.overview(turnscope.load(made.save(tmp_path / "s1.jsonl"))).bill.run_usd is None


def test_the_recorded_sum_is_ours_to_the_cent_where_the_log_has_every_request() -> None:
    from tests.wire import open_run

    for name in ("A", "E-raw"):
        with open_run(shared("data", "wire", "claude", name)) as run:
            (path,) = run.transcripts.glob(".claude/projects/*/*.jsonl")
            bill = turnscope.overview(turnscope.load(path)).bill
        assert bill.run_usd is not None
        assert bill.whole.usd == round(bill.run_usd, 8)
        assert bill.run_difference is None
