"""Recorded compactions are met where the policy of the same tool has the trigger that the log shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from msgspec import structs
from turnscope.planning.policy import load
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, ObservedEdit, Part, Session, Span, Usage
from turnscope.views.parameters import apply_changes

from tests import original_tasks
from tests.bench import bench_compactions as bench
from tests.bench.make_claude_code import write
from tests.goldens import ROOT

OPEN = ROOT.parent / "shared" / "data" / "open"
needs_open = pytest.mark.skipif(not OPEN.is_dir(), reason="the open sessions are not beside the project")


@pytest.mark.thorough
@needs_open
def test_every_recorded_compaction_of_a_real_session_is_met_with_the_observed_trigger() -> None:
    told = [*bench.report([OPEN / name for name in ("claude-code", "codex", "roo-cline")], made=False)]
    assert all(good for _, good in told), told
    assert sum("0 missed, 0 elsewhere" in line for line, _ in told) >= 5 + 2  # and both of Claude Code's with its own trigger


@needs_open
@pytest.mark.parametrize(
    ("name", "requests"), [("b029-2compactions-apierrors", (9, 66)), ("cd95-3compactions", (50, 127, 220))]
)
def test_one_number_meets_all_of_claude_codes_compactions_and_comes_nowhere_else(name: str, requests: tuple[int, ...]) -> None:
    session = turnscope.load(OPEN / "claude-code" / f"entire-{name}.jsonl")
    found = bench.met(session, load("claude-code-32k"), "default")
    assert (found.hits, found.missed, found.extra) == (requests, (), ())
    told = {seen.request: seen.edit.facts["preTokens"] for seen in session.observed if "preTokens" in seen.edit.facts}
    assert all(abs(found.sizes[n][0] - told[n]) <= 0.005 * told[n] for n in requests), "its estimate is the tool's"


@needs_open
def test_a_real_microcompaction_is_met_at_its_request_with_the_very_results() -> None:
    session = turnscope.load(OPEN / "claude-code" / "entire-d599-microcompact.jsonl")
    plans = turnscope.replay(session, "claude-code-microcompact").plans
    cleared = [(p.request.n, d.edit.span) for p in plans for d in p.decisions if d.action == "clear"]
    assert cleared == [(seen.request, seen.edit.span) for seen in session.observed if seen.edit.action == "clear"] != []


def test_compactions_at_any_size_are_met_in_a_session_made_for_tests(tmp_path: Path) -> None:
    write(tmp_path / "made.jsonl", 1, 120, 4)
    session = turnscope.load(tmp_path / "made.jsonl")
    assert len(bench.find_recorded(session)) == 4
    found = bench.met(session, load("claude-code"), "observed")
    assert (found.hits, found.missed, found.extra) == (tuple(bench.find_recorded(session)), (), ())


def test_a_summary_that_the_log_holds_is_the_one_that_is_sent(tmp_path: Path) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    plans = turnscope.replay(session, bench.make_observing(load("claude-code"))).plans
    recorded = turnscope.replay(session).plans
    for n in bench.find_recorded(session):
        sent = [part.text for piece in plans[n].after.pieces for part in piece.body or () if part.kind == "summary"]
        at = next(seen.edit.facts["summary"] for seen in session.observed if seen.request == n and "summary" in seen.edit.facts)
        assert sent == [session.blocks[at].text]
        assert abs(plans[n].after.tokens - recorded[n].after.tokens) < 20


def test_what_codex_kept_of_a_real_session_is_what_its_policy_keeps() -> None:
    if not OPEN.is_dir():
        pytest.skip("the open sessions are not beside the project")
    session = turnscope.load(OPEN / "codex" / "entire-skills-d5c5-compacted.jsonl")
    (n,) = bench.find_recorded(session)
    both = [turnscope.replay(session, policy).plans[n].after for policy in (bench.make_observing(load("codex")), "as-recorded")]
    prompts = [m for m in session.messages if m.role == "user" and m.origin in ("", "prompt") and m.stop < 1_228]
    ours, theirs = ([m.start for m in prompts if e.find_piece(m.start).body is None] for e in both)
    assert len(prompts) > 40
    assert ours == theirs


def test_goose_and_letta_compact_where_their_logs_show_it(tmp_path: Path) -> None:
    for source, name in ((goose(), "goose"), (letta(), "letta")):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(source), encoding="utf-8")
        session = turnscope.load(path)
        found = bench.met(session, load(name), "observed")
        assert session.source == name
        assert (found.hits, found.missed, found.extra) == (tuple(bench.find_recorded(session)), (), ()) != ((), (), ())


def goose() -> dict[str, Any]:
    """A session of goose in which a summary came before the third question."""

    def row(role: str, text: str, user: bool = True, agent: bool = True) -> dict[str, Any]:
        seen = {"userVisible": user, "agentVisible": agent}
        return {"role": role, "created": 1_767_225_600, "content": [{"type": "text", "text": text}], "metadata": seen}

    old = [row(role, f"{role} {n} " * 50, agent=False) for n in range(2) for role in ("user", "assistant")]
    new = [
        row("user", "so far", user=False),
        row("assistant", "I go on.", user=False),
        row("user", "and?"),
        row("assistant", "so"),
    ]
    return {"id": "1", "name": "A title", "working_dir": "/w", "conversation": [*old, *new]}


def letta() -> dict[str, Any]:
    """An agent of Letta's whose oldest messages are no longer in its context."""
    roles = ["system", *["user", "assistant"] * 4]
    messages = [
        {"id": f"m{n}", "role": role, "content": [{"type": "text", "text": f"{role} {n} " * 20}]}
        for n, role in enumerate(roles)
    ]
    agent = {"id": "agent-0", "name": "A", "system": "Be brief.", "llm_config": {"model": "m", "context_window": 32_000}}
    return {"agents": [{**agent, "messages": messages, "in_context_message_ids": ["m0", *(f"m{n}" for n in range(4, 9))]}]}


@pytest.mark.parametrize("task", [name for name in original_tasks.cline_cases() if name != "seq-40-switch"])
def test_a_cline_task_is_replayed_to_the_recorded_ranges(tmp_path: Path, task: str) -> None:
    case = original_tasks.cline_cases()[task]
    session = turnscope.load(original_tasks.write(tmp_path, *original_tasks.cline(case)))
    there, ours = bench.ranges(session, case["input"]["steps"][0]["window"])
    assert there == ours != []


@pytest.mark.parametrize(("full", "hidden"), [(2, 2), (4, 4), (10, 10), (10, 0)])  # 5, 9 and 21 messages; a summary
def test_a_roo_task_is_replayed_to_the_recorded_ranges(tmp_path: Path, full: int, hidden: int) -> None:
    session = turnscope.load(original_tasks.write(tmp_path, *original_tasks.roo(full + 4, full, hidden)))
    there, ours = bench.ranges(session, 64_000)
    assert there == ours != []


def test_codexs_next_summary_is_made_of_the_one_before_and_of_what_came_since() -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    plans = turnscope.replay(session, "codex").plans
    first, second = ((ask, answer) for plan in plans for ask, answer in plan.asks)
    assert not first[0].content.startswith("summary: ")
    assert second[0].content.startswith(f"summary: {first[1].text}")


def make_refused(*, refused: bool, words: int = 300) -> Session:
    """A session of three rounds with results of so many words, the third of which the provider refused, or took."""
    builder = Builder("s", "claude-code", "a session")
    builder.add_message("user", "go " * 400)
    for number in range(3):
        if refused and number == 2:
            builder.add_unanswered(model="claude-x", stop_reason="error")
        uses = [{"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {"file_path": f"f{number}"}}]
        draft = builder.add_message("assistant", uses)
        builder.set_request(draft, model="claude-x", usage=Usage(900 if number < 2 or not refused else 300, output_tokens=5))
        text = [{"type": "tool_result", "tool_use_id": f"c{number}", "content": "word " * words}]
        builder.add_message("user", text, origin="tool")
    return builder.build()


@pytest.mark.parametrize("refused", [True, False])
def test_claude_code_compacts_behind_a_prompt_that_was_refused_and_not_before_one_that_was_taken(refused: bool) -> None:
    session = make_refused(refused=refused)
    body = (Part("user", "summary", "so far"),)
    edit = Edit("condense", "compacted", Span(0, 4), body, facts={"trigger": "auto"})
    observed = (ObservedEdit(3, edit),) if refused else ()
    session = structs.replace(session, observed=observed, window=1_000)
    plans = turnscope.replay(session, "claude-code-2.1.330").plans
    made = [plan.request.n for plan in plans if any(one.action == "condense" for one in plan.decisions)]
    assert [request.n for request in session.requests if not request.usage] == ([2] if refused else [])
    assert made == ([3] if refused else [])
    if refused:
        assert (
            plans[3].decisions[0].edit.because == "the provider refused the prompt before: what the log says came in its place"
        )


def test_a_result_that_stands_twice_is_kept_once_behind_a_compaction() -> None:
    session = make_refused(refused=False, words=5_000)
    twice = [{"type": "tool_result", "tool_use_id": "c2", "content": "word " * 5_000 + "and what came back"}]
    builder = Builder("s", "other", "a session")
    for message in session.messages:
        raws = [block.raw for block in session.blocks[message.start : message.stop]]
        builder.add_message(message.role, raws, origin=message.origin)
    builder.add_message("user", twice, origin="tool")
    builder.set_request(builder.add_message("assistant", "Done."), model="claude-x", usage=Usage(90, output_tokens=5))
    session = structs.replace(builder.build(), window=100)
    plan = turnscope.replay(session, "claude-code-2.1.330").plans[-1]
    stands = [block for piece in plan.after.pieces if piece.body is None for block in session.blocks[piece.start : piece.stop]]
    assert [block.text.endswith("came back") for block in stands if block.kind == "tool_result"] == [True]


def make_call(builder: Builder, number: int, name: str, result: str = "done", billed: int = 500, **given: str) -> None:
    """Add a round: a call with its result, of a request that was billed so much."""
    uses = [{"type": "tool_use", "id": f"c{number}", "name": name, "input": given}]
    draft = builder.add_message("assistant", uses)
    builder.set_request(draft, model="claude-x", usage=Usage(billed, output_tokens=5))
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"c{number}", "content": result}], origin="tool")


def test_behind_a_compaction_files_come_back_by_when_they_were_written_and_the_listings_follow() -> None:
    """Read ones behind written ones; not those read in the round that stays; of two sizes; the newest text."""
    builder = Builder("s", "other", "a session")
    reminders = ("skills", "listing of skills"), ("agents", "listing of agents"), ("memory", "be brief"), ("reminder", "where")
    told = [{"type": "text", "text": text} for _, text in reminders]
    builder.add_message("user", [*told, {"type": "text", "text": "go " * 300}])
    make_call(builder, 0, "Write", file_path="old.md", content="one\ntwo")
    make_call(builder, 1, "Read", "1\tlarge " + "x " * 400, file_path="large.py")
    make_call(builder, 2, "Edit", file_path="old.md", old_string="two", new_string="three")
    make_call(builder, 3, "Read", "1\tpart\n2\tof it", file_path="small.py")
    make_call(builder, 4, "Write", file_path="new.md", content="four")
    make_call(builder, 5, "Read", "1\tagain", billed=900, file_path="stays.py")
    make_call(builder, 6, "Read", "1\tnot yet read", billed=300, file_path="later.py")
    session = builder.build()
    kinds = dict(enumerate(kind for kind, _ in reminders))
    blocks = [structs.replace(block, kind=kinds.get(at, block.kind)) for at, block in enumerate(session.blocks)]
    session = structs.replace(session, blocks=blocks, window=1_000)
    small = {"1.window": 34_000, "1.percent": 6, "1.file_tokens": 100, "1.cap": 50}  # it compacts from 840 tokens on
    policy = apply_changes(load("claude-code-2.1.330"), small)
    plan = next(plan for plan in turnscope.replay(session, policy).plans if plan.decisions)
    assert plan.request.n == 6
    summary, files = (piece.body or () for piece in plan.after.pieces if piece.body)
    assert [part.kind for part in summary] == ["memory", "summary"]
    assert [(part.kind, part.text) for part in files] == [
        ("files", "new.md, as it is now:\n1\tfour"),
        ("files", "old.md, as it is now:\n1\tone\n2\tthree"),
        ("files", "small.py, as it is now:\n1\tpart\n2\tof it"),
        ("files", "large.py was read; it is too large to come back."),
        ("agents", "listing of agents"),
        ("skills", "listing of skills"),
        ("reminder", "where"),
    ]


@pytest.mark.parametrize(("billed", "compacts"), [(33_000, False), (34_000, True)])
def test_pi_keeps_its_whole_reserve_free_in_a_small_window(billed: int, compacts: bool) -> None:
    """A run may end at the window less 16,384 tokens: 33,616 of 50,000."""
    builder = Builder("s", "other", "a session")
    for number in range(8):
        builder.add_message("user", f"prompt {number} " + "word " * 6_000)
        used = Usage(billed if number == 6 else 20_000, output_tokens=5)
        builder.set_request(builder.add_message("assistant", "Done."), model="m", usage=used)
    session = structs.replace(builder.build(), window=50_000)
    plans = turnscope.replay(session, "pi").plans
    assert [plan.request.n for plan in plans if any(one.action == "condense" for one in plan.decisions)] == [7] * compacts


def make_qwen(*, prompt: bool = False) -> Session:
    """A session of calls to files, of which the last but one filled a window of 67,000 tokens to 34,500."""
    builder = Builder("s", "other", "a session")
    builder.add_message("user", "begin " * 4_200)
    make_call(builder, 0, "read_file", "large " * 4_000, file_path="large.py")
    make_call(builder, 1, "write_file", file_path="note.md", content="one\ntwo")
    make_call(builder, 2, "edit", file_path="note.md", old_string="two", new_string="three")
    make_call(builder, 3, "read_file", "small", billed=500 if prompt else 34_500, file_path="small.py")
    if prompt:
        builder.set_request(builder.add_message("assistant", "Done."), model="claude-x", usage=Usage(34_500, output_tokens=5))
        builder.add_message("user", "and now?")
    builder.set_request(builder.add_message("assistant", "So."), model="claude-x", usage=Usage(900, output_tokens=5))
    return structs.replace(builder.build(), window=67_000)


@pytest.mark.parametrize("prompt", [False, True])
def test_newer_qwen_code_sums_up_all_but_the_newest_call_and_files_come_back(prompt: bool) -> None:
    """85 % of 67,000 tokens are more than 33,000 below it: 34,000 is where it compacts."""
    session = make_qwen(prompt=prompt)
    made = [plan for plan in turnscope.replay(session, "qwen-code-0.24").plans if plan.decisions]
    (plan,) = made
    assert plan.request.n == len(session.requests) - 1
    assert "the threshold is 34,000" in plan.decisions[0].edit.because
    summary, files = (piece.body or () for piece in plan.after.pieces if piece.body)
    assert [part.role for part in summary] == ["user", "assistant"]
    assert [part.text for part in files] == [
        "Read last, too large to come back:\n- large.py",
        "small.py, as it is now:\nsmall",
        "note.md, as it is now:\none\nthree",
    ]
    stands = [b for piece in plan.after.pieces if piece.body is None for b in session.blocks[piece.start : piece.stop]]
    assert [b.text if b.kind == "text" else b.kind for b in stands] == (["and now?"] if prompt else ["tool_use", "tool_result"])
