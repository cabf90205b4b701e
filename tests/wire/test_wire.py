"""What Turnscope rebuilds of recorded runs, held against what went over the wire."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import shared
from turnscope.planning.policy import load
from turnscope.views.parameters import apply_changes

from tests.wire import folders, open_run, policies, side
from tests.wire.compare import Compared, compare, sessions
from tests.wire.leaves import leaves

CLAUDE = ("A", "B2-acwindow100k", "C", "D-tui")


@pytest.mark.parametrize("name", CLAUDE)
def test_every_main_request_of_claude_code_is_rebuilt_to_the_letter(name: str) -> None:
    with open_run(shared("data", "wire", "claude", name)) as run:
        made = compare(run)
    assert all(one.rebuilt and one.rebuilt.exact for one in made)
    assert [one.arrival for one in made if one.equal["tools"] < 1 or one.equal["messages"] < 1 or one.more] == []
    assert {one.missing.split(":")[1] for one in made} == {" 'x-anthropic-billing-header"}, "the tool does not record it"


def find_missing(made: list[Compared]) -> set[int]:
    """The requests, by their order of arrival, whose messages are not those that were sent, to the letter."""
    return {one.arrival for one in made if one.equal["messages"] < 1 or one.more}


@pytest.mark.parametrize("name", ["A", "B2-thr0.1"])
def test_every_message_of_gemini_cli_is_rebuilt(name: str) -> None:
    """System prompt and tools are not in its log."""
    with open_run(shared("data", "wire", "gemini", name)) as run:
        made = compare(run)
    assert all(one.rebuilt for one in made)
    assert find_missing(made) == set()


def test_a_history_that_gemini_cli_writes_anew_adds_no_requests() -> None:
    """After each mask, its log tells all that was said once more."""
    with open_run(shared("data", "wire", "gemini", "B2-thr0.1")) as run:
        (session,) = sessions(run.transcripts)
    assert len(session.requests) == len(run.main)
    masked = {seen.request for seen in session.observed if seen.edit.action == "truncate"}
    assert len(masked) == 15
    assert not any(seen.edit.action == "condense" for seen in session.observed)


def test_messages_of_resumed_sessions_of_gemini_cli_are_rebuilt() -> None:
    """But for what the tool says in the model's name after an abort. The aborted request has no usage in the log."""
    with open_run(shared("data", "wire", "gemini", "C")) as run:
        made = compare(run)
    assert [one.arrival for one in made if one.rebuilt is None] == [16]
    found = [one for one in made if one.rebuilt]
    assert min(one.equal["messages"] for one in found) > 0.999
    assert find_missing(found) == {18, 19, 20}


@pytest.mark.parametrize(("name", "aborted"), [("A2-gpt55", []), ("B2-limit60k", []), ("C", [15])])
def test_every_item_of_codex_is_rebuilt(name: str, aborted: list[int]) -> None:
    """But for tools, which its log does not hold, and the base instructions, of which it holds another version."""
    with open_run(shared("data", "wire", "codex", name)) as run:
        made = compare(run)
    assert [one.arrival for one in made if one.rebuilt is None] == aborted, "a request without usage in the log"
    found = [one for one in made if one.rebuilt]
    assert min(one.equal["messages"] for one in found) == 1
    assert min(one.equal["system"] for one in found) > 0.999
    assert len({one.more for one in found}) == 1, "nothing beside the base instructions"


@pytest.mark.parametrize("name", ["A", "B1-100k"])
def test_every_message_of_qwen_code_is_rebuilt(name: str) -> None:
    """But for the first two, about date and folder, which are in its log no more than system prompt and tools."""
    with open_run(shared("data", "wire", "qwen", name)) as run:
        made, bodies = compare(run), {row["n"]: row["body"] for row in run.main}
    assert all(one.rebuilt and not one.more for one in made)
    for one in made:
        context = sum(len(text) for text in leaves({"messages": bodies[one.arrival]["messages"][1:3]})["messages"])
        whole = sum(map(len, leaves(bodies[one.arrival])["messages"]))
        compacted = made[0].arrival + 13 < one.arrival
        assert one.equal["messages"] == (1 if compacted else pytest.approx(1 - context / whole))


@pytest.mark.parametrize(("name", "aborted"), [("A", []), ("B3-parts100k", []), ("C", [11])])
def test_every_message_of_pi_is_rebuilt(name: str, aborted: list[int]) -> None:
    """But for the sentence around a summary. System prompt and tools are not in its log."""
    with open_run(shared("data", "wire", "pi", name)) as run:
        made = compare(run)
    assert [one.arrival for one in made if one.rebuilt is None] == aborted, "a request without usage in the log"
    assert not any(one.more for one in made), "nothing that was not sent"
    assert min(one.equal["messages"] for one in made if one.rebuilt) > 0.99


@pytest.mark.parametrize(("name", "aborted"), [("A", []), ("B1-128k", []), ("C", [16])])
def test_every_message_of_opencode_is_rebuilt(name: str, aborted: list[int]) -> None:
    """From its database, but for the line before a picture. System prompt and tools are not in it."""
    with open_run(shared("data", "wire", "opencode", name)) as run:
        made = compare(run)
    assert [one.arrival for one in made if one.rebuilt is None] == aborted, "a request without usage in the log"
    assert not any(one.more for one in made), "nothing that was not sent"
    assert min(one.equal["messages"] for one in made if one.rebuilt) > (0.996 if name == "C" else 0.9999)


@pytest.mark.parametrize("name", ["A", "B2-basic"])
def test_messages_of_cline_are_rebuilt_as_they_were_sent(name: str) -> None:
    """Results cut as they were, and compactions.

    Tools are not in its log, nor the project's rules, which end its system prompt, nor which reads it left out as outdated.
    """
    with open_run(shared("data", "wire", "cline", name)) as run:
        made = compare(run)
    assert all(one.rebuilt and one.equal["system"] > 0.97 for one in made)
    assert len(find_missing(made)) <= 0.1 * len(made)
    assert min(one.equal["messages"] for one in made) > 0.995


@pytest.mark.parametrize(
    ("tool", "name"), [("gemini", "B2-thr0.1"), ("opencode", "B1-128k"), ("pi", "B3-parts100k"), ("qwen", "B1-100k")]
)
def test_what_a_log_lacks_of_a_prompt_is_as_long_as_it_went_over_the_wire(tool: str, name: str) -> None:
    """The server counted characters / 4. The log holds neither system prompt nor tools: their size follows from the bills."""
    with open_run(shared("data", "wire", tool, name)) as run:
        sent = count_static(run.main[0]["body"])
        session = max(sessions(run.transcripts), key=lambda session: len(session.requests))
        prefix = turnscope.replay(session).fits[0].prefix
    assert abs(prefix / sent - 1) <= 0.12


def count_static(body: dict[str, Any]) -> float:
    """Tokens of system prompt and tools of a request, as the server counted them."""
    system = body.get("system") or body.get("systemInstruction") or body["messages"][0]["content"]
    return sum(len(json.dumps(part, ensure_ascii=False, separators=(",", ":"))) for part in (system, body["tools"])) / 4


def test_runs_are_found_packed_and_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "wire.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "b" / "wire.json.xz").write_bytes(b"")
    assert [path.name for path in folders(tmp_path)] == ["a", "b"]


HELD = {  # a run -> requests at which the agent made room, and the least share of the characters of messages that is equal
    "claude/B2-acwindow100k": ((11, 24, 33, 43, 53, 63, 69, 78, 89, 99, 109), 0.999),
    "claude/C": ((14,), 0.999),
    "cline/B2-basic": ((37, 43, 49, 55, 61, 67, 71, 77, 82, 88, 93, 98, 103, 108), 0.99),
    "codex/C": ((14,), 0.999),
    "codex/B2-limit60k": ((12, 24, 36, 48, 62, 74, 85, 97, 110, 119), 0.999),
    "gemini/B2-thr0.1": ((18, 24, 32, 39, 44, 52, 58, 63, 70, 75, 83, 89, 95, 104, 110), 0.999),
    "gemini/C": ((), 0.999),
    "opencode/C": ((14,), 0.99),
    "opencode/B1-128k": ((24, 45, 69, 90, 111, 134, 154), 0.999),
    "pi/C": ((10,), 0.99),
    "pi/B3-parts100k": ((26, 52, 78, 104), 0.99),
    "qwen/B1-100k": ((14, 29, 42, 58, 72, 84, 99, 110), 0.09),  # what comes before the first prompt is in no log
}


@cache
def hold(name: str) -> policies.Held | None:
    """The policy of its agent on a run, for all tests of it."""
    folder = shared("data", "wire", *name.split("/"))
    with open_run(folder) as run:
        return policies.hold(folder, run)


@pytest.mark.thorough(every=4)
@pytest.mark.parametrize("name", HELD)
def test_the_policy_of_an_agent_makes_room_where_the_agent_did_and_sends_what_it_sent(name: str) -> None:
    held, (requests, least) = hold(name), HELD[name]
    assert held
    assert held.recorded == held.made == requests
    assert held.requested == (requests if name.endswith("/C") else ()), "the others are met by their size alone"
    assert all(held.stays.values()), "where it cuts by itself, the same is left"
    assert min(held.equal["messages"]) >= least
    assert sorted(held.equal["messages"])[len(held.equal["messages"]) // 20] >= 0.99, "but for a twentieth, all is equal"
    if name.startswith("qwen"):
        assert min(held.logged) == 1, "what its log holds is equal in every request"
        assert [size > 0 for size in held.context] == [n < requests[0] for n in range(len(held.context))]
        assert "of the texts that the log holds: 100.0% (100.0%); before them, in no log: 721" in policies.format_held(
            name, held
        )


def test_files_come_back_after_a_compaction_of_claude_code_by_when_they_were_written() -> None:
    """A file that was only read comes by its own time, which is in no log: the first compactions have too few written ones."""
    name = "claude/B2-acwindow100k"
    held = hold(name)
    assert held
    written = [(sent, ours) for sent, ours in held.files if all("notes" in path for path in sent)]
    assert len(held.files) == 11
    assert len(written) == 7
    assert all(sent == ours for sent, ours in written)
    for sent, ours in held.files:
        assert [path for path in sent if "notes" in path] == [path for path in ours if "notes" in path]
    assert "the same after 7 of 11 compactions, in the same order after 7" in policies.format_held(name, held)


def test_another_threshold_makes_room_elsewhere() -> None:
    folder = shared("data", "wire", "claude", "B2-acwindow100k")
    with open_run(folder) as run:
        session = max(sessions(run.transcripts), key=lambda one: len(one.requests))
        other = apply_changes(load("claude-code-2.1.330"), {"1.window": 120_000})
        held = policies.hold_session(run, session, other, ("condense",))
    assert held.made != held.recorded
    assert min(held.equal["messages"]) < 0.9


SIDE = {  # a run -> kind of request: how many there are, how many the log has, and their prompt tokens
    "claude/B2-acwindow100k": {"conversation": (111, 111, 5_058_042), "count": (25, 0, 0), "summary": (11, 0, 708_859)},
    "codex/B2-limit60k": {"conversation": (111, 111, 3_559_268), "summary": (10, 10, 620_027)},
    "gemini/B2-thr0.1": {"conversation": (111, 111, 9_450_455), "loop check": (6, 0, 274_208)},
    "opencode/B1-128k": {"conversation": (161, 161, 9_692_607), "summary": (7, 7, 93_897), "title": (1, 0, 564)},
}


@pytest.mark.parametrize("name", SIDE)
def test_requests_beside_the_conversation_are_counted_and_priced(name: str) -> None:
    with open_run(shared("data", "wire", *name.split("/"))) as run:
        found = side.measure(run)
    assert {one.kind: (one.requests, one.logged, one.prompt) for one in found} == SIDE[name]
    assert found[0].kind == "conversation"
    assert all((one.usd > 0) == (one.prompt > 0) for one in found)


def test_a_model_without_a_price_is_priced_as_the_stand_in() -> None:
    assert side.find_priced("wire-model") == side.STAND_IN
    assert side.find_priced("gpt-5.5") == "gpt-5.5"


def test_a_compaction_below_the_threshold_was_requested() -> None:
    """Qwen Code's log does not say who did it: below the threshold it was no program."""
    with open_run(shared("data", "wire", "qwen", "B1-100k")) as run:
        session = max(sessions(run.transcripts), key=lambda one: len(one.requests))
        held = policies.hold_session(run, session, apply_changes(load("qwen-code"), {"1.threshold": 0.9}), ("condense",))
    assert held.requested == held.recorded == held.made
