"""Cache misses of branches and subagents: each path follows its own cache, and each request counts once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import ROOT, shared
from turnscope.cli import main
from turnscope.library.path_breaks import PathBreak, find_path_breaks
from turnscope.session.thread import iter_descendants
from turnscope.views.cache_breaks import find_breaks, may_break

HELD = 9_000  # tokens that a request leaves in the cache


def at(minute: int) -> dict[str, str]:
    return {"timestamp": f"2026-01-02T03:{minute:02}:00.000Z"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session whose subagent waited too long, and that was rewound after a pause: the branch that it left missed, too."""
    main = Log()
    main.user("ask a subagent", **at(0))
    main.answer("m1", call("t1", "Task", prompt="look"), usage=(10, HELD, 0, 40), **at(0))
    started = main.result("t1", "found", toolUseResult={"agentId": "a1", "totalTokens": 5}, **at(31))
    main.answer("m2", "too late", usage=(10, HELD + 500, 0, 40), **at(31))
    main.user("and again", **at(32))
    main.answer("m3", "soon after", usage=(10, 300, HELD + 500, 40), **at(32))
    main.user("another question", parent=started, **at(33))
    main.answer("m4", "in time", usage=(10, 400, HELD, 40), **at(33))
    agent = Log(agent="a1")
    agent.user("look", parent="", **at(1))
    agent.answer("a1m1", call("b1"), usage=(10, HELD - 1_000, 0, 40), **at(1))
    agent.result("b1", "seen", **at(30))
    agent.answer("a1m2", "found", usage=(10, HELD, 0, 40), **at(30))
    agent.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    return main.save(tmp_path / "s1.jsonl")


def find(path: Path) -> tuple[PathBreak, ...]:
    return find_path_breaks(turnscope.replay(turnscope.load(path)))


def test_each_path_follows_its_own_cache(log: Path) -> None:
    found = find(log)
    assert [(each.name.partition(":")[0], each.request.id, each.miss.cause) for each in found] == [
        ("Branch", "m2", "idle"),
        ("Subagent", "a1m2", "idle"),
    ], "the first request of the subagent has nothing to read, and what the session went on with was read"
    below = [*iter_descendants(turnscope.load(log))]
    assert all(below[each.part - 1].name == each.name for each in found)
    assert all(each.miss.rebilled_tokens > HELD * 0.8 for each in found)


def test_rows_name_the_path_and_sums_are_those_of_usage(
    log: Path, data_folder: Path, indexing_here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*arguments: str) -> dict[str, Any]:
        assert main([*arguments, "--json"]) == 0
        made: dict[str, Any] = json.loads(capsys.readouterr().out)
        return made

    found, made = find(log), read("cache", "misses", str(log))
    assert {(row["part"], row["request"]) for row in made["rows"]} == {(each.name, each.miss.request + 1) for each in found}
    assert made["total"]["usd"] == pytest.approx(float(sum(each.miss.usd or 0 for each in found)), abs=1e-6)
    assert made["spent_usd"] == read("usage", "daily", str(log))["total"]["usd"]
    assert made["spent_usd"] == pytest.approx(float(turnscope.overview(turnscope.load(log)).total or 0), abs=1e-6)
    copy = log.with_name("s2.jsonl")
    copy.write_bytes(log.read_bytes())
    again = read("cache", "misses", str(log), str(copy))
    assert again["total"] == made["total"], "a request that two files hold counts once"
    assert main(["cache", "misses", str(log), "--csv"]) == 0
    assert "Subagent: " in capsys.readouterr().out


def test_a_path_without_room_for_a_miss_is_not_assembled(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is left out: where usage leaves no room, there is no miss."""
    trace = turnscope.replay(turnscope.load(log))
    monkeypatch.setattr("turnscope.library.path_breaks.may_break", lambda *_: False)
    assert find_path_breaks(trace) == ()
    for name in ("cache-goes-cold", "tool-results-eat-the-window"):
        sample = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{name}.jsonl"))
        missed = find_breaks(sample)
        requests = sample.session.requests
        assert not missed or may_break(requests, missed[-1].request)
        assert not may_break(requests[:2])


def test_a_real_session_with_teammates() -> None:
    """What is found below a session is what each of its paths shows when it is opened alone."""
    (path,) = shared("data", "open", "claude-code", "worktrees").glob("*.jsonl")
    session = turnscope.load(path)
    alone = {
        (part, miss.request): miss.usd
        for part, below in enumerate(iter_descendants(session), 1)
        for miss in find_breaks(turnscope.replay(below.of.branches[below.fork] if below.fork >= 0 else below.own))
    }
    found = {(each.part, each.miss.request): each.miss.usd for each in find(path) if each.part}
    assert len(found) >= 6
    assert found == {key: alone[key] for key in found}
    assert all(key in found or session.forks for key in alone)
