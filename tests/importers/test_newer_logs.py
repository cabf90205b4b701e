"""Logs of coding tools: VS Code's Copilot Chat, the Copilot CLI, Aider, and what `codex exec --json` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads
from turnscope.importers.aider import IMPORTER as AIDER
from turnscope.importers.copilot_cli import find_places as find_copilot
from turnscope.importers.vscode_chat import find_places as find_vscode
from turnscope.settings import Machine

ROUNDS = [
    {
        "response": "Looking.",
        "toolCalls": [{"id": "c", "name": "look", "arguments": '{"at": "a"}'}],
        "thinking": {"text": "hm"},
    },
    {"response": "done", "toolCalls": []},
]
GAVE = {"c": {"content": [{"value": "seen"}]}}
TURN = {
    "requestId": "r1",
    "message": {"text": "go"},
    "timestamp": 1_757_360_000_000,
    "modelId": "copilot/m-x",
    "response": [
        {"value": "Looking."},
        {"kind": "toolInvocationSerialized", "toolCallId": "c", "toolId": "look"},
        {"value": "done"},
    ],
    "result": {
        "metadata": {"toolCallRounds": ROUNDS, "toolCallResults": GAVE},
        "usage": {"promptTokens": 90, "completionTokens": 7},
    },
}
SHOWN = {
    "requestId": "r2",
    "message": {"text": "more"},
    "response": [
        {"value": "See "},
        {"kind": "inlineReference", "inlineReference": {"path": "/w/a.py"}},
        {"value": "."},
        {"kind": "textEditGroup", "edits": [[{"text": "x"}]]},
        {"kind": "undoStop", "id": "u"},
    ],
}
CHAT = {"sessionId": "v", "responderUsername": "GitHub Copilot", "customTitle": "A chat", "requests": [TURN, SHOWN]}
PATCHES = [
    {"kind": 0, "v": {**CHAT, "customTitle": "", "requests": []}},
    {"kind": 2, "k": ["requests"], "v": [{**TURN, "response": []}, {"requestId": "gone"}]},
    {"kind": 1, "k": ["customTitle"], "v": "A chat"},
    {"kind": 1, "k": ["requests", 0, "response"], "v": TURN["response"]},
    {"kind": 2, "k": ["requests"], "i": 1, "v": [SHOWN]},
    {"kind": 1, "k": ["nowhere", "at", "all"], "v": 1},
]
TREE = {"node": {"type": 1, "children": [{"type": 2, "text": "seen"}, {"type": 2, "text": "again", "lineBreakBefore": True}]}}
SUMMED = {
    "requestId": "r",
    "message": {"text": "go"},
    "response": [],
    "result": {
        "metadata": {
            "renderedGlobalContext": [{"type": 1, "text": "of the workspace"}],
            "renderedUserMessage": "go",
            "toolCallRounds": [
                {"id": "one", "response": "", "toolCalls": [{"id": "c", "name": "look", "arguments": "{}"}]},
                {"id": "two", "response": "done", "toolCalls": []},
            ],
            "toolCallResults": {"c": {"content": [{"value": TREE}]}},
            "summaries": [{"toolCallRoundId": "one", "text": "what was said"}],
            "promptTokens": 90,
            "outputTokens": 7,
            "edits": {"request": "odd"},
        }
    },
}
SEEN = [
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "text", "Looking."),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]


def event(n: int, type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data, "id": f"e{n}", "timestamp": f"2026-01-01T00:00:{n:02}Z", "parentId": f"e{n - 1}"}


ASK = {"toolCallId": "c", "name": "look", "arguments": '{"at": "a"}'}
EVENTS = [
    event(1, "session.start", sessionId="s", selectedModel="m-x", copilotVersion="1.0"),
    event(2, "user.message", content="go", transformedContent="go"),
    event(3, "assistant.message", content="Looking.", toolRequests=[ASK], apiCallId="a1", reasoningText="hm", outputTokens=12),
    event(4, "tool.execution_start", toolCallId="c"),
    event(5, "assistant.message", parentToolCallId="c", content="An agent.", toolRequests=[], apiCallId="x1"),
    event(6, "tool.execution_complete", toolCallId="c", success=True, result={"content": "seen"}),
    event(7, "assistant.message", content="done", toolRequests=[], apiCallId="a2", model="m-y"),
    event(8, "session.odd", a=1),
    event(9, "session.shutdown", tokenDetails={"input": {"tokenCount": 100}, "cache_read": {"tokenCount": 5}}),
]
HISTORY = """
# aider chat started at 2026-01-01 00:00:00

> Aider v0.86.1

# aider chat started at 2026-01-02 00:00:00

> Model: openrouter/m-x with diff edit format

#### go
#### on

Here it is:

> a quotation, as answers have them
```py
> no notice
```

> Tokens: 2.4k sent, 1.1k cache write, 300 cache hit, 104 received. Cost: $0.0042 message, $0.0042 session.
> Applied edit to a.py

#### more

Yes.

> Tokens: 1,200 sent, 7 received.
"""
EXEC = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "hm"}},
    {
        "type": "item.completed",
        "item": {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "a", "exit_code": 1},
    },
    {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "done"}},
    {"type": "item.completed", "item": {"id": "i3", "type": "odd"}},
    {"type": "turn.completed", "usage": {"input_tokens": 60, "cached_input_tokens": 40, "output_tokens": 9}},
]


def protocol(kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": "0", "msg": {"type": kind, **fields}}


def count(total: int, read: int, cached: int, written: int) -> dict[str, Any]:
    last = {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written}
    return protocol("token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": last})


OLDER_EXEC = [
    {"model": "m-x", "workdir": "/w", "sandbox": "read-only"},
    {"prompt": "go"},
    protocol("task_started", model_context_window=272_000),
    protocol("agent_reasoning_delta", delta="h"),
    protocol("agent_reasoning", text="hm"),
    protocol("exec_command_begin", call_id="c", command=["ls"], cwd="/w"),
    count(60, 50, 40, 10),
    protocol("exec_command_end", call_id="c", stdout="a", stderr="", exit_code=1, aggregated_output="a"),
    count(60, 50, 40, 10),
    protocol("mcp_tool_call_begin", call_id="d", invocation={"server": "s", "tool": "look", "arguments": {"at": "a"}}),
    protocol("mcp_tool_call_end", call_id="d", result={"Ok": {"content": [{"type": "text", "text": "seen"}]}}),
    count(130, 65, 60, 5),
    protocol("agent_message", message="done"),
    count(215, 80, 70, 5),
    protocol("odd", a=1),
    protocol("task_complete", last_agent_message="done"),
]


def test_what_codex_exec_printed_before() -> None:
    session = open_value(OLDER_EXEC, lines=True)
    shell = 'shell {"command":["ls"],"cwd":"/w"}'
    assert texts(session) == ["go", "hm", shell, "a", 'look {"at":"a"}', "seen", "done"]
    used = [request.usage and (request.usage.prompt_tokens, request.usage.output_tokens) for request in session.requests]
    assert (used, pairs(session)) == ([(50, 10), (65, 5), (80, 5)], 2)
    assert (session.window, session.requests[0].model, session.about["workdir"]) == (272_000, "m-x", "/w")
    assert [note.what[:25] for note in session.notes] == ["1 record of kind 'odd' (2"]
    broken = [{**row, "msg": {**row["msg"], "info": {}}} if row.get("msg", {}).get("info") else row for row in OLDER_EXEC]
    assert prompt_tokens(open_value(broken, lines=True)) == 0
    huge = open_value([*OLDER_EXEC[:6], count(10**30, 50, 40, 10), *OLDER_EXEC[7:]], lines=True)
    assert prompt_tokens(huge) == 50 + 65 + 80
    early = open_value([*OLDER_EXEC[:3], count(9, 5, 0, 4), *OLDER_EXEC[3:]], lines=True)
    assert any("token_count without its answer" in note.what for note in early.notes)


@pytest.mark.parametrize(("value", "lines"), [(CHAT, False), (PATCHES, True)])
def test_a_chat_of_vs_code(value: Any, lines: bool) -> None:
    session = open_value(value, lines=lines)
    assert list_blocks(session) == [*SEEN, ("user", "text", "more"), ("assistant", "text", "See a.py.")]
    assert (session.id, session.title, len(session.requests), pairs(session)) == ("v", "A chat", 3, 1)
    assert [request.usage and request.usage.prompt_tokens for request in session.requests] == [None, 90, None]
    assert {request.model for request in session.requests[:2]} == {"copilot/m-x"}
    whats = [note.what for note in session.notes]
    assert any("'part textEditGroup'" in what for what in whats)
    assert any(what.startswith("1 patches of the log") for what in whats) == lines


def test_an_older_chat_shows_its_calls() -> None:
    turn = {**TURN, "result": {}}
    session = open_value({**CHAT, "requests": [turn]})
    assert [block.kind for block in session.blocks] == ["text", "text", "tool_use", "text"]


def test_the_copilot_cli() -> None:
    session = open_value(EVENTS, lines=True)
    assert list_blocks(session) == SEEN
    assert (session.title, pairs(session), [r.model for r in session.requests]) == ("go", 1, ["m-x", "m-y"])
    (agent,) = session.subagents
    assert (texts(agent), session.blocks[agent.at].kind) == (["An agent."], "tool_use")
    whats = [note.what for note in session.notes]
    assert "tokens of the whole session: 100 input, 5 cache read" in whats
    assert any("'session.odd'" in what for what in whats)


def test_compactions_and_usage_of_the_copilot_cli() -> None:
    used = {"model": "m-z", "inputTokens": 100, "outputTokens": 9, "cacheReadTokens": 60}
    more = [
        event(1, "assistant.usage", **used),
        event(2, "session.compaction_start"),
        event(3, "session.compaction_complete", success=True, summaryContent="What was done."),
        event(4, "user.message", content="more"),
        event(5, "assistant.message", content="ok", toolRequests=[], apiCallId="a3"),
        event(6, "assistant.usage", **used),
        event(7, "assistant.usage", **used),
    ]
    session = open_value([*EVENTS[:7], *more], lines=True)
    assert [(request.model, request.usage and request.usage.prompt_tokens) for request in session.requests] == [
        ("m-x", None),
        ("m-z", 100),
        ("m-z", 100),
    ]
    assert [observed.edit.action for observed in session.observed] == ["condense"]
    assert texts(session)[-3:] == ["What was done.", "more", "ok"]
    assert any("assistant.usage without its answer" in note.what for note in session.notes)


def test_items_of_codex_exec_that_have_not_ended() -> None:
    plan = {"id": "i9", "type": "todo_list", "items": [{"text": "look", "completed": False}]}
    run = {"id": "i8", "type": "command_execution", "command": "sleep 9", "aggregated_output": "", "status": "in_progress"}
    begun = [{"type": "item.started", "item": run}, {"type": "item.updated", "item": plan}]
    session = open_value([*EXEC[:5], *begun], lines=True)
    assert [name for name in texts(session) if "sleep 9" in name or "todo_list" in name]
    assert pairs(session) == 1
    assert "2 items had not ended" in session.notes[-1].what


def test_a_summarised_chat_of_vscode() -> None:
    """The context that stands first is told in each turn; a tree's words are what a call gave; a summary cuts."""
    session = open_value({**CHAT, "requests": [SUMMED, {**SUMMED, "requestId": "r3"}]})
    first = ["of the workspace", "go", "look {}", "seen\nagain", "what was said", "done"]
    assert texts(session) == [*first, *first[1:]]
    cut = session.observed[0]
    assert (cut.edit.action, cut.request, len(session.observed)) == ("condense", 1, 2)
    assert (prompt_tokens(session), output_tokens(session)) == (180, 14)
    assert any("'metadata edits'" in note.what for note in session.notes)


def test_aider(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(HISTORY)
    assert list_claims(path) == [AIDER.name]
    (session,) = turnscope.load_all(path)
    answer = "Here it is:\n\n> a quotation, as answers have them\n```py\n> no notice\n```"
    assert texts(session)[:1] == ["go\non"]
    assert texts(session)[-2:] == ["more", "Yes."]
    assert texts(session)[1] == answer
    assert (prompt_tokens(session), output_tokens(session)) == (2_400 + 1_200, 104 + 7)
    usage = next(request.usage for request in session.requests if request.usage)
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (1_100, 300)
    assert sum(request.logged_usd or 0 for request in session.requests) == 0.0042
    assert {request.model for request in session.requests} == {"openrouter/m-x"}


def test_what_codex_exec_prints() -> None:
    session = open_value(EXEC, lines=True)
    assert [row[2] for row in list_blocks(session)] == ["hm", 'shell {"command":"ls"}', "a", "done"]
    assert (session.id, pairs(session), len(session.requests)) == ("t", 1, 2)
    assert session.blocks[2].raw["is_error"] is True
    assert any("60 tokens of prompts (40 of them cached) and 9 of answers" in note.what for note in session.notes)
    one = open_value([*EXEC[:3], EXEC[-1]], lines=True)
    assert (prompt_tokens(one), output_tokens(one)) == (60, 9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("vscode-chat", CHAT), ("vscode-chat", PATCHES), ("copilot-cli", EVENTS), ("printed", EXEC), ("codex-events", OLDER_EXEC)],
)
def test_each_is_claimed_by_its_importer_alone_and_nothing_breaks(name: str, value: Any, tmp_path: Path) -> None:
    lines = isinstance(value, list)
    path = tmp_path / "made.json"
    path.write_bytes(data_of(value, lines))
    assert list_claims(path) == [name]
    assert survives(value, lines=lines, count=40)


def test_a_damaged_history_opens() -> None:
    for at in range(HISTORY.index("#### go") + 8, len(HISTORY), 13):
        assert all(thread.session.blocks for thread in threads(HISTORY[:at].encode(), "a.md"))


@pytest.mark.parametrize("system", ["linux", "macos", "windows"])
def test_where_they_lie(system: Any, tmp_path: Path) -> None:
    machine = Machine(system, tmp_path / "home", tmp_path / "config", tmp_path / "data", {})
    chat = tmp_path / "config" / "Code" / "User" / "workspaceStorage" / "w" / "chatSessions" / "c.json"
    events = tmp_path / "home" / ".copilot" / "session-state" / "s" / "events.jsonl"
    for path in (chat, events):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    assert [path for place in (*find_vscode(machine), *find_copilot(machine)) for path in place.paths()] == [chat, events]


# The real files --------------------------------------------------------------------------------------------------------------


def test_the_real_exported_chat(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "copilot", "vscode-chat-vd89.json")
    raw = json.loads(path.read_text())["requests"]
    session = turnscope.load(path)
    assert list_claims(path) == ["vscode-chat"]
    assert len(session.requests) == len(raw) == 5
    assert [turn["message"]["text"] for turn in raw] == [
        text for text, m in zip(texts(session), session.messages, strict=True) if m.role == "user"
    ]
    for turn, answer in zip(raw, texts(session)[1::2], strict=True):
        assert "".join(part["value"] for part in turn["response"] if "kind" not in part) == answer


def test_the_real_events_of_the_copilot_cli(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "copilot-cli", "copilot-small.jsonl")
    session = turnscope.load(path)
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    answers = [row["data"] for row in rows if row["type"] == "assistant.message"]
    ours = [each for each in answers if not each.get("parentToolCallId")]
    assert list_claims(path) == ["copilot-cli"]
    assert len({each.get("apiCallId") or n for n, each in enumerate(ours)}) >= len(session.requests) >= 4
    held = {block.text for path in (session, *session.subagents) for block in path.blocks}
    assert {each["content"] for each in answers if each["content"]} <= held


def test_the_real_history_of_aider(shared: Callable[..., Path]) -> None:
    """Tokens and cost as its lines print them; each prompt's text."""
    path = shared("data", "new", "aider", "metadata-aider.md")
    raw = path.read_text()
    (session,) = turnscope.load_all(path)
    lines = re.findall(r"^> Tokens: ([\d.]+)(k?) sent, ([\d.]+)(k?) received\. Cost: \$([\d.]+) message", raw, re.MULTILINE)
    assert len(session.requests) == len(lines)
    assert prompt_tokens(session) == sum(round(float(sent) * (1_000 if k else 1)) for sent, k, _, _, _ in lines)
    assert output_tokens(session) == sum(round(float(got) * (1_000 if k else 1)) for _, _, got, k, _ in lines)
    assert sum(request.logged_usd or 0 for request in session.requests) == pytest.approx(sum(float(row[-1]) for row in lines))
    asked = [line[5:].strip() for line in raw.splitlines() if line.startswith("#### ")]
    prompts = "\n".join(text for text, m in zip(texts(session), session.messages, strict=True) if m.role == "user")
    assert [line.strip() for line in prompts.splitlines() if line.strip()] == [line for line in asked if line]


def test_the_real_output_of_codex_exec(shared: Callable[..., Path]) -> None:
    path = shared("data", "new", "codex-exec", "stream-output-2.jsonl")
    items = [row["item"] for row in map(json.loads, path.read_text().splitlines()) if row["type"] == "item.completed"]
    session = turnscope.load(path)
    assert {item["text"] for item in items if "text" in item} <= set(texts(session))
    assert (pairs(session), list_claims(path)) == (1, ["printed"])


def test_what_a_chat_of_vscode_shows_of_results() -> None:
    served = {"input": '{"at": "a"}', "output": [{"type": "embed", "isText": True, "value": "seen"}], "isError": False}
    terminal = {"kind": "terminal", "commandLine": {"original": "ls"}, "terminalCommandOutput": {"text": "a b"}}
    calls = [
        {"kind": "toolInvocationSerialized", "toolCallId": "c", "toolId": "look", "resultDetails": served},
        {"kind": "toolInvocationSerialized", "toolCallId": "d", "toolId": "run", "toolSpecificData": terminal},
    ]
    turn = {"requestId": "q", "message": {"text": "go"}, "usage": {"promptTokens": 9}, "response": [*calls, {"value": "done"}]}
    session = open_value({**CHAT, "requests": [turn]})
    assert [text for _, _, text in list_blocks(session)][1:] == [
        'look {"at":"a"}',
        'run {"kind":"terminal","commandLine":{"original":"ls"}}',
        "seen",
        "a b",
        "done",
    ]
    assert (pairs(session), [request.usage is None for request in session.requests]) == (2, [True, False])


def test_a_patch_may_set_what_comes_after_a_list() -> None:
    grown = [*PATCHES[:2], {"kind": 1, "k": ["requests", 2], "v": {**SHOWN, "requestId": "r3"}}]
    session = open_value(grown, lines=True)
    assert not any("patches" in note.what for note in session.notes)
    assert texts(session)[-1] == "See a.py."
