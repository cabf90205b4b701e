"""Codex CLI rollouts: the envelope of today, the flat files of before, usage ahead of or behind its answer, compactions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.codex import IMPORTER, find_main_path, find_places
from turnscope.planning.render import build_body
from turnscope.settings import Machine
from turnscope.views.exact_body import build_exact_body
from turnscope.views.overview import CELLS, build_overview
from turnscope.views.request_summary import summarize_request

from tests.wire.leaves import leaves


def line(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{second:02}Z", "type": kind, "payload": payload}


def make_message(role: str, text: str, second: int = 0) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return line("response_item", second, type="message", role=role, content=[{"type": kind, "text": text}])


def make_call(id: str, name: str = "shell", second: int = 0) -> dict[str, Any]:
    return line("response_item", second, type="function_call", name=name, arguments='{"command": ["ls"]}', call_id=id)


def gave(id: str, output: Any, second: int = 0) -> dict[str, Any]:
    return line("response_item", second, type="function_call_output", call_id=id, output=output)


def make_count(total: int, prompt: int, cached: int = 0, out: int = 5, second: int = 0) -> dict[str, Any]:
    last = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": out, "total_tokens": prompt + out}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last, "model_context_window": 258_400}
    return line("event_msg", second, type="token_count", info=info)


META = line("session_meta", id="x", cwd="/w", cli_version="0.125.0", base_instructions={"text": "You are careful."})
TURN = line("turn_context", model="gpt-x")
OPENING = [META, TURN, make_message("user", "<environment_context>here</environment_context>"), make_message("user", "list", 1)]
BEHIND = [
    *OPENING,
    line("event_msg", type="user_message", message="list"),
    line("event_msg", type="token_count", info=None),
    line("response_item", type="reasoning", summary=[], encrypted_content="abc"),
    make_call("c1", second=2),
    make_call("c2", second=3),
    make_count(105, 100, 40, second=4),
    gave("c1", "a", 5),
    gave("c2", [{"type": "input_text", "text": "b"}], 5),
    make_count(105, 100, 40),
    make_message("assistant", "Two files.", 6),
    make_count(225, 115, 90, second=7),
]


def test_an_answer_ends_where_its_usage_stands() -> None:
    session = open_value(BEHIND, lines=True)
    assert [(m.role, m.origin) for m in session.messages] == [
        ("system", "system"),
        ("user", "meta"),
        ("user", "prompt"),
        ("assistant", "answer"),
        ("user", "tool"),
        ("assistant", "answer"),
    ]
    assert [b.kind for b in session.blocks[3:]] == [
        "redacted_thinking",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "text",
    ]
    assert pairs(session) == 2
    first, second = session.requests
    assert first.usage
    assert (first.usage.input_tokens, first.usage.cache_read_input_tokens, first.usage.output_tokens) == (60, 40, 5)
    assert (first.model, first.answered_at and first.sent_at and first.answered_at - first.sent_at) == ("gpt-x", 3.0)
    assert second.usage
    assert second.usage.prompt_tokens == 115
    assert (session.window, session.title, session.about["cwd"]) == (258_400, "list", "/w")
    assert session.notes == ()


def test_a_total_that_is_no_count_is_noted() -> None:
    wrong = make_count(-5, 100, 40, second=4)
    session = open_value([*BEHIND[:8], wrong, *BEHIND[9:]], lines=True)
    (note,) = session.notes
    assert (note.line, note.what.partition(":")[0]) == (9, "total_tokens is -5")


def test_usage_may_stand_ahead_and_one_answer_may_hold_calls_with_results_between() -> None:
    ahead = [make_count(105, 100), make_call("c1"), gave("c1", "a"), make_call("c2"), gave("c2", "b")]
    session = open_value([*OPENING, *ahead, TURN, make_count(225, 115), make_message("assistant", "Done.")], lines=True)
    assert [request.usage and request.usage.prompt_tokens for request in session.requests] == [100, 115]
    assert [b.kind for b in session.blocks[3:]] == ["tool_use", "tool_use", "tool_result", "tool_result", "text"]


def test_a_flat_file_is_read_without_usage() -> None:
    rows = [
        {"id": "x", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go\r\nnow"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
        {"type": "function_call", "name": "shell", "arguments": "{not json", "call_id": "c"},
        {"record_type": "state"},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"a","metadata":{}}'},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "d"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    session = open_value(rows, lines=True)
    assert [b.kind for b in session.blocks] == [
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "tool_use",
        "tool_result",
        "text",
    ]
    assert (len(session.requests), pairs(session)) == (3, 2)
    assert [request.usage for request in session.requests] == [None] * 3
    assert "2 records of kind 'state'" in session.notes[0].what


def test_a_compaction_replaces_the_history_by_its_list() -> None:
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"type": "compaction", "encrypted_content": "e"},
    ]
    rows = [
        *BEHIND,
        line("compacted", message="", replacement_history=history),
        make_message("user", "more"),
        make_message("assistant", "Yes."),
    ]
    session = open_value(rows, lines=True)
    assert [(o.request, o.edit.action, o.edit.span) for o in session.observed] == [
        (2, "condense", (1, 2)),
        (2, "condense", (3, 9)),
    ]
    body = session.observed[1].edit.body
    assert body
    assert [(part.role, part.kind) for part in body] == [("system", "system"), ("user", "compaction")]
    assert turnscope.replay(session).plans[2].after.find_piece(2).body is None


def test_a_compaction_with_a_summary_alone_keeps_prompts_and_context() -> None:
    rows = [
        *BEHIND,
        line("compacted", message="So far: two files."),
        make_message("user", "more"),
        make_message("assistant", "Yes."),
    ]
    session = open_value(rows, lines=True)
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.body) == (2, (3, 9), ())
    assert session.blocks[seen.edit.facts["summary"]].kind == "summary"


def test_a_result_may_follow_a_compaction_without_a_summary(tmp_path: Path) -> None:
    """As the tool writes it where it compacts while a call runs: no message stands where the history was replaced."""
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]}]
    rows = [*OPENING, make_call("c1"), line("compacted", message="", replacement_history=history), gave("c1", "a")]
    rows += [make_message("assistant", "Yes.")]
    session = open_value(rows, lines=True)
    assert texts(session)[-3:] == ['shell {"command":["ls"]}', "a", "Yes."]
    assert session.messages[-2].origin == "tool"


def test_usage_of_a_request_that_left_no_answer_is_that_requests() -> None:
    rows = [
        *BEHIND,
        make_count(400, 170),
        line("compacted", message="So far."),
        make_message("assistant", "Yes."),
        make_count(430, 25),
    ]
    session = open_value(rows, lines=True)
    assert [request.usage and request.usage.prompt_tokens for request in session.requests] == [100, 115, 170, 25]
    assert session.requests[2].cut == session.requests[2].stop


def make_usage(id: str, total: int, prompt: int, second: int = 0) -> dict[str, Any]:
    """The usage of one response, which the event behind it repeats."""
    usage = {"input_tokens": prompt, "cached_input_tokens": 20, "cache_write_input_tokens": 7, "output_tokens": 5}
    return line("token_usage_record", second, response_id=id, usage=usage, thread_token_usage={"total_tokens": total})


def test_usage_of_a_response_is_read_once_with_its_id() -> None:
    rows = [
        *OPENING,
        make_call("c1", second=2),
        make_usage("resp_1", 105, 100, 3),
        gave("c1", "a", 4),
        make_count(105, 100, 20, second=5),
    ]
    rows += [make_usage("resp_s", 305, 200, 6), line("compacted", message="So far."), make_message("assistant", "Yes.", 7)]
    rows += [make_usage("resp_2", 360, 55, 8), make_count(380, 55, second=9)]  # the total may count other tokens, too
    session = open_value(rows, lines=True)
    assert [(request.id, request.usage and request.usage.prompt_tokens) for request in session.requests] == [
        ("resp_1", 100),
        ("resp_s", 200),
        ("resp_2", 55),
    ]
    used = session.requests[0].usage
    assert used
    assert (used.input_tokens, used.cache_creation_input_tokens, used.cache_read_input_tokens) == (73, 7, 20)
    assert session.window == 258_400
    assert session.requests[1].cut == session.requests[1].stop, "a compaction's answer is no item"


def test_a_compaction_that_lists_the_history_leaves_out_what_it_does_not_list() -> None:
    """Also what the tool said at the beginning, and says again after it; the base instructions stay in any case."""
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]}]
    opening = [
        META,
        TURN,
        make_message("developer", "rules"),
        make_message("user", "list", 1),
        make_message("assistant", "Two.", 2),
    ]
    rows = [*opening, line("compacted", message="", replacement_history=history), make_message("developer", "rules again")]
    session = open_value([*rows, make_message("user", "more"), make_message("assistant", "Yes.")], lines=True)
    body = build_body(turnscope.replay(session).plans[1], session, as_recorded=True)
    assert leaves(body) == {"system": ["You are careful.", "rules again"], "tools": [], "messages": ["list", "more"]}


def test_tools_that_the_log_lacks_are_inferred_as_tools() -> None:
    """What is billed beyond the instructions and the conversation, which the log holds; its size is marked as inferred."""
    rows = [*OPENING]
    for n in range(6):
        prompt = 3_000 + 25 * n
        rows += [
            make_call(f"c{n}", second=10 + n),
            make_count(10_000 * (n + 1), prompt, 0, second=10 + n),
            gave(f"c{n}", "a", 20 + n),
        ]
    session = open_value([*rows, make_message("assistant", "Done.", 40), make_count(90_000, 3_160, second=41)], lines=True)
    trace = turnscope.replay(session)
    view = build_overview(trace)
    tools = view.cells[:, CELLS.index("tools")]
    assert view.inferred_tools
    assert (tools > 0.9 * view.recorded).all()
    assert not view.cells[:, CELLS.index("prefix")].any()
    assert (view.cells.sum(axis=1) == view.recorded).all()
    assert (view.billed.sum(axis=2) == view.cells).all()
    marks = {segment.name: segment.mark for segment in summarize_request(view, trace, 0).segments}
    assert (marks["tools"], marks["system"]) == ("inferred", "estimated")
    assert "tools are about" in str(build_exact_body(trace, 0)["tools"])
    without = open_value(
        [row for row in rows if row["payload"].get("type") not in ("function_call", "function_call_output")], lines=True
    )
    assert not build_overview(turnscope.replay(without)).inferred_tools, "no tool was called: nothing says that there were any"


def test_a_rollback_leaves_a_branch() -> None:
    rows = [
        *BEHIND,
        line("event_msg", type="thread_rolled_back", num_turns=1),
        make_message("user", "other"),
        make_message("assistant", "Hm."),
    ]
    session = open_value(rows, lines=True)
    assert texts(session)[2:] == ["other", "Hm."]
    assert [texts(branch)[2] for branch in session.branches] == ["list"]
    assert session.branches[0].requests[0].usage


def test_unknown_records_are_told_and_nothing_breaks() -> None:
    rows = [
        *OPENING,
        line("event_msg", type="heartbeat"),
        line("response_item", type="novelty"),
        line("world_state"),
        make_message("assistant", "a"),
    ]
    session = open_value(rows, lines=True)
    assert [note.what.split(" (")[0] for note in session.notes[:2]] == [
        f"1 record of kind '{kind}'" for kind in ("heartbeat", "novelty")
    ]
    assert survives(
        [*BEHIND, line("compacted", message="m", replacement_history=[{"type": "message", "role": "user"}])], lines=True
    )


def test_rollouts_are_found_where_the_tool_keeps_them(tmp_path: Path) -> None:
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {"CODEX_HOME": str(tmp_path / "c")})
    file = tmp_path / "c" / "sessions" / "2026" / "01" / "02" / "rollout-x.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert [path for place in find_places(here) for path in place.paths()] == [file]


@pytest.mark.parametrize(
    ("name", "requests", "messages", "called", "prompt", "output"),
    [
        ("entire-skills-d5c5-compacted.jsonl", 295, 597, 543, 38_143_388, 102_082),
        ("rollout-2025-09-25T09-49-46-01998190.jsonl", 85, 171, 84, 3_165_637, 12_340),
    ],
)
def test_real_rollouts_are_what_their_last_total_says(
    name: str, requests: int, messages: int, called: int, prompt: int, output: int, shared: Callable[..., Path]
) -> None:
    path = shared("data", "open", "codex", name)
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert (len(session.requests), len(session.messages), pairs(session)) == (requests, messages, called)
    assert (prompt_tokens(session), output_tokens(session)) == (prompt, output)
    assert all(request.usage for request in session.requests)
    assert {block for _, block, _ in list_blocks(session)} <= {
        "text",
        "system",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
    }


def test_the_real_compaction_keeps_the_prompts_that_it_lists(shared: Callable[..., Path]) -> None:
    session = turnscope.load(shared("data", "open", "codex", "entire-skills-d5c5-compacted.jsonl"))
    assert {seen.request for seen in session.observed} == {254}
    stood_in = [part for seen in session.observed for part in seen.edit.body or ()]
    assert [part.kind for part in stood_in].count("compaction") == 1
    kept = sum(piece.body is None for piece in turnscope.replay(session).plans[254].after.pieces)
    assert kept > 40


def test_rollouts_of_subagents_hang_under_the_session_that_started_them(tmp_path: Path) -> None:
    main, agent, inner = (f"00000000-0000-7000-8000-00000000000{n}" for n in range(3))
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": agent, "depth": 2}}}
    metas = {main: {}, agent: {"parent_thread_id": main}, inner: {"source": spawned}, "0" * 8 + inner[8:-1] + "9": {}}
    for n, (id, about) in enumerate(metas.items()):
        answer = f'{{"agent_id": "{agent}"}}' if id == main else "nothing"
        said = [make_message("user", f"go {n}"), make_call("c1", "spawn_agent"), make_count(100, 90), gave("c1", answer)]
        rows = [line("session_meta", id=id, **about), TURN, *said, make_message("assistant", "Done."), make_count(220, 110)]
        name = f"rollout-2026-01-01T00-00-0{n}-{id}.jsonl"
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    paths = sorted(tmp_path.iterdir())
    session = turnscope.load(paths[0])
    (first,) = session.subagents
    (second,) = first.subagents
    assert (first.id[-36:], second.id[-36:], second.parent) == (agent, inner, first.id)
    assert session.blocks[first.at].name == "spawn_agent"
    assert [find_main_path(path) for path in paths] == [paths[0], paths[0], paths[0], paths[3]]
    assert not turnscope.load(paths[3]).subagents


PARENT, CHILD = "019dc0d3-6b22-7052-b168-4487a38e0f4d", "019dc150-11b9-7632-89c8-0d73a5fc44e6"
COPIED = [
    line("turn_context", turn_id="019dc0d6-37f4-7682-8630-4085b6c5606a", model="gpt-x"),
    *(make_message("user", "list"), make_call("c1"), make_count(105, 100), gave("c1", "a")),
    *(make_message("assistant", "One file."), make_count(235, 120)),
]


@pytest.mark.parametrize("begins", ["turn", "meta"])
def test_a_fork_has_the_history_that_it_copied_and_none_of_its_requests(begins: str) -> None:
    meta = line("session_meta", id=CHILD, forked_from_id=PARENT)
    own = line("turn_context", turn_id="019dc150-1200-7000-8000-000000000000", model="gpt-y")
    begun = [own, make_count(235, 120)] if begins == "turn" else [meta, TURN]
    said = [make_message("user", "and now?"), make_message("assistant", "Still one."), make_count(376, 136)]
    session = open_value([meta, line("session_meta", id=PARENT), *COPIED, *begun, *said])
    assert texts(session)[-4:] == ["a", "One file.", "and now?", "Still one."]
    (request,) = session.requests
    assert (request.cut, request.usage and request.usage.prompt_tokens) == (len(session.blocks) - 1, 136)
    assert any("which sent their 2 requests" in note.what for note in session.notes)
    assert session.about["id"] == CHILD


def test_a_subagent_that_got_the_history_hangs_at_the_call_that_names_its_path(tmp_path: Path) -> None:
    spawn = {"parent_thread_id": PARENT, "depth": 1, "agent_path": "/root/count", "agent_nickname": None, "agent_role": None}
    spawned = [make_call("c2", "spawn_agent"), make_count(376, 136), gave("c2", '{"task_name":"/root/count","nickname":"B"}')]
    end = [make_message("assistant", "Done."), make_count(540, 160)]
    meta = line("session_meta", id=CHILD, source={"subagent": {"thread_spawn": spawn}})
    turn = line("turn_context", turn_id="019dc150-1200-7000-8000-000000000000", model="gpt-x")
    inside = [meta, *COPIED, turn, make_message("user", "Count."), make_message("assistant", "One."), make_count(375, 135)]
    for id, rows in {PARENT: [line("session_meta", id=PARENT), *COPIED, *spawned, *end], CHILD: inside}.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"rollout-2026-04-24T00-00-00-{id}.jsonl").write_text(text, encoding="utf-8")
    session = turnscope.load(tmp_path / f"rollout-2026-04-24T00-00-00-{PARENT}.jsonl")
    (agent,) = session.subagents
    assert session.blocks[agent.at].name == "spawn_agent"
    assert [request.usage and request.usage.prompt_tokens for request in session.requests] == [100, 120, 136, 160]
    assert [request.usage and request.usage.prompt_tokens for request in agent.requests] == [135]


def test_a_compaction_in_a_turn_of_its_own_was_requested() -> None:
    """A turn with nothing but a compaction was begun by a person; one that compacts before or after its prompt was not."""
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "first"}]}]

    def read_triggers(*before: dict[str, Any], after: tuple[dict[str, Any], ...] = ()) -> set[Any]:
        begun, ended = (line("event_msg", type=kind, turn_id="t2") for kind in ("task_started", "task_complete"))
        compacted = line("compacted", message="So far: two files.", replacement_history=history)
        rows = [
            *BEHIND,
            begun,
            *before,
            compacted,
            *after,
            ended,
            make_message("user", "next"),
            make_message("assistant", "Yes."),
        ]
        return {seen.edit.facts.get("trigger") for seen in open_value(rows, lines=True).observed}

    assert read_triggers() == {"manual"}
    assert read_triggers(make_message("user", "go on")) == {None}
    assert read_triggers(after=(make_message("user", "go on"),)) == {None}


def test_a_summary_is_known_where_something_stands_in_for_all_that_left() -> None:
    """Of a prompt with a picture its text stays, so that no stretch left without a trace."""
    prompt, texts = make_message("user", "look"), ("look", "So far")
    marks = [{"type": "input_text", "text": text} for text in ("<image 1>", "</image>")]
    prompt["payload"]["content"][:0] = [marks[0], {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}, marks[1]]
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]
    compacted = line("compacted", message="So far", replacement_history=history)
    rows = [META, TURN, prompt, make_message("assistant", "A cat."), make_count(105, 100), compacted]
    session = open_value([*rows, make_message("user", "next"), make_message("assistant", "Yes.")], lines=True)
    (seen,) = session.observed
    assert [part.text for part in seen.edit.body or ()] == ["look"]
    assert session.blocks[seen.edit.facts["summary"]].text == "So far"
