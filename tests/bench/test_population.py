"""Sums over a folder beside a published population: by hand for a made-up session."""

from __future__ import annotations

from pathlib import Path

import population
import pytest
import turnscope
from claude_log import Log, call
from turnscope.session.model import JSON
from turnscope.views.cache_breaks import find_breaks

TEXT = "The build of the parser fails on line seven. " * 200


def write_session(folder: Path, *, prompt: bool) -> Path:
    """A prompt, a tool result, and ten minutes later, when the cache was cold, another prompt or the result of a slow tool."""
    log = Log()
    log.user("Mend the build.", timestamp="2026-01-02T03:00:00.000Z")
    log.answer("m1", call("t1"), usage=(10, 20_000, 0, 50), timestamp="2026-01-02T03:00:05.000Z")
    log.user([make_result("t1", TEXT)], timestamp="2026-01-02T03:00:09.000Z")
    answer = "The parser is at fault." if prompt else call("t2")
    log.answer("m2", answer, usage=(10, 2_000, 20_000, 40), timestamp="2026-01-02T03:00:15.000Z")
    log.user("Then change it." if prompt else [make_result("t2", "Built.")], timestamp="2026-01-02T03:10:15.000Z")
    log.answer("m3", "Done.", usage=(10, 22_100, 0, 30), timestamp="2026-01-02T03:10:20.000Z")
    return log.save(folder / "s1.jsonl")


def make_result(id: str, text: str) -> dict[str, JSON]:
    return {"type": "tool_result", "tool_use_id": id, "content": text}


def test_the_sums_are_those_by_hand(tmp_path: Path) -> None:
    record = turnscope.replay(turnscope.load(write_session(tmp_path, prompt=True)))
    made = population.measure_record(record)
    assert (made.sessions, made.requests) == (1, 3)
    assert made.prompt == 20_010 + 22_010 + 22_110
    assert made.appended == 20_010 + 2_010 + 22_110
    result = next(block for block in record.session.blocks if block.kind == "tool_result")
    size = record.ledger.count_tokens(result.at, result.at + 1)
    assert size * record.get_terms(1).scale < made.fresh < size * record.get_terms(1).scale + 60, "and two short prompts"
    wasted = 22_010 * (3.75 - 0.30) / 1e6  # of Sonnet 4.5: written again instead of read, but for what is new
    assert made.idle_usd == pytest.approx(wasted, rel=0.02)
    written = (20_000 + 2_000 + 22_100) * 3.75 + 30 * 3 + 20_000 * 0.30 + 120 * 15
    assert made.usd == pytest.approx(written / 1e6)


def test_a_wait_for_a_tool_is_no_wait_of_a_person(tmp_path: Path) -> None:
    record = turnscope.replay(turnscope.load(write_session(tmp_path, prompt=False)))
    assert [miss.cause for miss in find_breaks(record)] == ["idle"]
    assert not population.measure_record(record).idle_usd


def test_each_tool_has_a_row_and_the_published_ones_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert population.main([str(tmp_path)]) == 1
    assert "holds no session" in capsys.readouterr().err
    write_session(tmp_path, prompt=True)
    assert population.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split()[:3] == ["claude-code", "1", "3"]
    assert printed[2].split()[1:] == printed[1].split()[1:], "one session: the sums are its own"
    assert len(printed) == 3 + len(population.PUBLISHED)
