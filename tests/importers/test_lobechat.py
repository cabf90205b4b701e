"""LobeChat: shared chats, database exports and legacy backups; plugins' results, branches, placeholders of failed calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, pairs, survives, texts, threads
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.importers.lobechat import IMPORTER
from turnscope.live.live_session import LiveSession
from turnscope.planning.assemble import plan_step, replay
from turnscope.planning.policy import load
from turnscope.planning.render import render

TOOL = {"id": "t1", "identifier": "calc", "apiName": "eval", "arguments": '{"e":"2+2"}', "type": "default"}
T = 1_750_000_000_000


def row(id: str, role: str, content: str, n: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": id, "role": role, "content": content, "createdAt": T + n * 1000, "sessionId": "s", "topicId": "p", **more}


USED = {"usage": {"totalInputTokens": 50, "inputCachedTokens": 30, "totalOutputTokens": 4, "cost": 0.5}}
ROWS = [
    row("m1", "user", "2+2?"),
    row("m2", "assistant", "", 1, parentId="m1", model="m-x", tools=[TOOL], reasoning={"content": "easy", "signature": "sig"}),
    row("m3", "tool", "4", 2, parentId="m2"),
    row("m4", "assistant", "It is 4.", 3, parentId="m3", model="m-x", metadata=USED),
]
PLUGINS = [{"id": "m3", "toolCallId": "t1", "identifier": "calc", "apiName": "eval"}]
CHAT = [
    ("user", "text", "2+2?"),
    ("assistant", "thinking", "easy"),
    ("assistant", "tool_use", 'calc____eval {"e":"2+2"}'),
    ("user", "tool_result", "4"),
    ("assistant", "text", "It is 4."),
]


def export(*messages: Any, **tables: Any) -> dict[str, Any]:
    data = {
        "sessions": [{"id": "s", "title": "A session"}],
        "topics": [{"id": "p", "title": "A topic", "sessionId": "s", "historySummary": "so far"}],
        "agents": [{"id": "g", "systemRole": "Be brief.", "model": "m-d", "chatConfig": {"historyCount": 20}}],
        "agentsToSessions": [{"sessionId": "s", "agentId": "g"}],
        "messages": list(messages),
        "messagePlugins": PLUGINS,
        **tables,
    }
    return {"data": data, "mode": "pglite", "schemaHash": "x"}


def test_a_topics_summary_stands_in_the_requests_behind_its_export_alone() -> None:
    """It was made after the newest answer, of what the session holds: no request of the session can have had it."""
    session = open_value(export(*ROWS))
    growing, policy = LiveSession(session, CHARS), load("lobechat-classic")
    growing.append_message("user", "And 3+3?", origin="prompt")
    request = growing.build_request(model="m-x")
    last = plan_step(None, growing.session, request, policy, growing.get_policy_basis(policy))
    plans = [*replay(session, policy, build_ledger(session, CHARS)), last]
    stands = ["so far" in str(render(plan.after, growing.session).get("system")) for plan in plans]
    assert stands == [False] * len(session.requests) + [True]


def test_a_database_export_joins_its_tables() -> None:
    session = open_value(export(*ROWS, row("x", "user", "elsewhere", topicId=None)))
    assert list_blocks(session) == [("system", "system", "Be brief."), *CHAT]
    assert (session.title, pairs(session), session.about["historySummary"]) == ("A topic", 1, "so far")
    second = session.requests[1]
    assert second.usage
    assert (second.usage.prompt_tokens, second.usage.input_tokens, second.logged_usd, second.model) == (50, 20, 0.5, "m-x")
    assert len(threads(data_of(export(*ROWS, row("x", "user", "elsewhere", topicId=None))))) == 2


def test_the_active_branch_is_the_main_path_and_a_thread_hangs_from_its_source() -> None:
    tree = [
        *ROWS,
        row("u2", "user", "on", 5, parentId="m4"),
        row("a1", "assistant", "one", 6, parentId="u2"),
        row("a2", "assistant", "two", 7, parentId="u2"),
        row("t1", "user", "aside", 8, threadId="th"),
        row("t2", "assistant", "yes", 9, parentId="t1", threadId="th"),
    ]
    linked = export(*tree, threads=[{"id": "th", "sourceMessageId": "m4"}])
    first = open_value(linked)
    assert texts(first)[-2:] == ["on", "one"]
    assert sorted(texts(branch)[-1] for branch in first.branches) == ["two", "yes"]
    assert [texts(branch)[-3:] for branch in first.branches][-1] == ["It is 4.", "aside", "yes"]
    tree[4] = row("u2", "user", "on", 5, parentId="m4", metadata={"activeBranchIndex": 1})
    assert texts(open_value(export(*tree[:7])))[-1] == "two"


def test_a_thread_whose_messages_name_their_parents_is_a_branch() -> None:
    aside = [row("t1", "user", "aside", 8, parentId="m4", threadId="th"), row("t2", "assistant", "yes", 9, threadId="th")]
    session = open_value(export(*ROWS, *aside, threads=[{"id": "th", "title": "Aside", "sourceMessageId": "m4"}]))
    assert texts(session)[-1] == "It is 4."
    (branch,) = session.branches
    assert (texts(branch)[-2:], branch.title) == (["aside", "yes"], "Aside")


@pytest.mark.parametrize(
    ("used", "tokens"),
    [
        ({"inputTokens": 50, "cachedTokens": 30, "outputTokens": 4}, (50, 30, 4)),
        ({"inputTokens": 20, "inputCacheMissTokens": 20, "cachedTokens": 30, "outputTokens": 4}, (50, 30, 4)),
        ({"inputCacheMissTokens": 13, "inputWriteCacheTokens": 7, "inputCachedTokens": 30, "outputTokens": 4}, (50, 30, 4)),
    ],
)
def test_usage_of_older_versions(used: dict[str, int], tokens: tuple[int, int, int]) -> None:
    session = open_value(export(row("m1", "user", "hi"), row("m2", "assistant", "yes", 1, model="m", metadata={"usage": used})))
    usage = session.requests[0].usage
    assert usage
    assert (usage.prompt_tokens, usage.cache_read_input_tokens, usage.output_tokens) == tokens


def test_a_thread_is_a_branch_of_its_title_where_no_message_names_its_parent() -> None:
    talk = [
        row("m1", "user", "one"),
        row("m2", "assistant", "first", 1),
        row("t1", "user", "aside", 2, threadId="th"),
        row("m3", "user", "two", 3),
        row("t2", "assistant", "yes", 4, threadId="th"),
        row("m4", "assistant", "second", 5),
        row("t3", "user", "aside again", 6, threadId="th"),
    ]
    session = open_value(export(*talk, threads=[{"id": "th", "sourceMessageId": "m2", "title": "An aside"}]))
    assert texts(session)[1:] == ["one", "first", "two", "second"]
    (branch,) = session.branches
    assert (branch.title, texts(branch)[1:]) == ("An aside", ["one", "first", "aside", "yes", "aside again"])


def test_shared_chats_are_read_in_both_forms() -> None:
    plain = [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "", "tools": [TOOL]},
        {"role": "tool", "content": "4", "tool_call_id": "t1"},
        {"role": "assistant", "content": "It is 4."},
    ]
    assert list_blocks(open_value(plain)) == [CHAT[0], *CHAT[2:]]
    full = [{k: v for k, v in r.items() if k not in ("sessionId", "topicId")} for r in ROWS]
    full[2]["tool_call_id"] = "t1"
    shared = {
        "version": "2.0",
        "title": "A title",
        "exportedAt": "2025-06-15T10:00:00Z",
        "messages": [{"id": "system-role", "role": "system", "content": "Be brief."}, *full],
    }
    session = open_value(shared)
    assert list_blocks(session) == [("system", "system", "Be brief."), *CHAT]
    assert session.title == "A title"


def test_a_backup_tells_failed_requests_and_groups_are_read() -> None:
    failed = row("a", "assistant", "...", 1, parentId="m1", error={"type": "ProviderBizError"}, extra={"fromModel": "m-f"})
    child = {"content": "Let me.", "tools": [{**TOOL, "result": {"content": "4"}}]}
    group = row("g", "assistantGroup", "", 3, children=[child, {"content": "It is 4."}])
    state = {
        "messages": [ROWS[0], failed, row("m9", "user", "again", 2), group, row("z", "agentCouncil", "", 4)],
        "sessions": [{"id": "s", "config": {"systemRole": "Be brief.", "model": "m-d"}, "meta": {"title": "Tutor"}}],
        "topics": [],
    }
    session = open_value({"exportType": "sessions", "version": 7, "state": state})
    assert [b.kind for b in session.blocks] == ["system", "text", "text", "text", "tool_use", "tool_result", "text"]
    assert [(r.model, r.stop_reason) for r in session.requests] == [("m-f", "error"), ("m-d", None), ("m-d", None)]
    assert (session.title, len(session.notes)) == ("Tutor", 3)
    assert "of what the log holds" in session.notes[-1].what
    assert survives({"exportType": "sessions", "version": 7, "state": state})
    assert survives(export(*ROWS), count=50)


def test_the_real_backup_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "lobechat", "lobechat-messages.json")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert sum(len(session.requests) for session in sessions) == 16
    assert sum(m.origin == "prompt" for session in sessions for m in session.messages) == 16
    assert sum("failed" in note.what for session in sessions for note in session.notes) == 6
