"""Gemini CLI sessions: one object, or lines with patches; a replaced history, a rewind, parts of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.gemini_cli import IMPORTER, find_places
from turnscope.planning.policy import load
from turnscope.planning.render import build_body
from turnscope.session.model import Session
from turnscope.settings import Machine

from tests.wire.leaves import leaves

META = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "lastUpdated": "2026-01-01T00:00:00Z"}
PARTS = [{"functionResponse": {"id": "c", "name": "read", "response": {"output": "a = 1"}}}]


def user(id: str, content: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": content}


def gemini(id: str, content: Any, prompt: int = 0, **more: Any) -> dict[str, Any]:
    tokens = {"input": prompt, "output": 5, "cached": 4, "thoughts": 3, "tool": 2, "total": prompt + 10}
    record = {"id": id, "timestamp": "2026-01-01T00:00:05Z", "type": "gemini", "content": content, "model": "gemini-x", **more}
    return {**record, "tokens": tokens} if prompt else record


CALL = {
    "id": "c",
    "name": "read",
    "args": {"path": "a"},
    "status": "success",
    "timestamp": "2026-01-01T00:00:06Z",
    "result": PARTS,
}
ANSWER = gemini("g1", "Looking.", 20, toolCalls=[CALL], thoughts=[{"subject": "Plan", "description": "Read it."}])
CHAT = [user("u1", "hi"), ANSWER, {"id": "i", "type": "info", "content": "update"}, gemini("g2", "It is 1.", 40)]
LINES = [META, user("u1", [{"text": "hi"}]), gemini("g1", "Look"), ANSWER, gemini("g2", "It is 1.", 40)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_chat_save_keeps_is_read_as_it_is_sent(wrapped: bool) -> None:
    use = {"functionCall": {"id": "c", "name": "read", "args": {"path": "a"}}}
    contents = [
        {"role": "user", "parts": [{"text": "This is the folder."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "Plan", "thought": True}, {"text": "Looking."}, use]},
        {"role": "user", "parts": PARTS},
        {"role": "model", "parts": [{"text": "It is 1."}]},
    ]
    value: Any = {"history": contents, "authType": "oauth"} if wrapped else contents
    session = open_value(value, name="checkpoint-try.json")
    kinds = ["text", "text", "text", "thinking", "text", "tool_use", "tool_result", "text"]
    assert [block.kind for block in session.blocks] == kinds
    assert (session.source, len(session.requests), pairs(session)) == ("gemini-cli", 3, 1)
    assert not session.notes
    assert survives(value, count=40)


def test_an_object_is_read_with_thoughts_calls_and_usage() -> None:
    session = open_value({**META, "messages": CHAT})
    assert [(b.role, b.kind) for b in session.blocks] == [
        ("user", "text"),
        ("assistant", "thinking"),
        ("assistant", "text"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
        ("assistant", "text"),
    ]
    assert (texts(session)[1], texts(session)[4]) == ("Plan\nRead it.", "a = 1")
    assert pairs(session) == 1
    used = session.requests[0].usage
    assert used
    assert (used.prompt_tokens, used.cache_read_input_tokens, used.output_tokens) == (22, 4, 8)
    second = session.requests[1]
    assert second.sent_at
    assert session.requests[0].answered_at == second.sent_at - 1
    assert "1 record of kind 'info'" in session.notes[0].what


def test_lines_with_an_id_seen_before_replace_it_where_it_stands() -> None:
    assert open_value(LINES, lines=True).blocks == open_value({**META, "messages": CHAT}).blocks


def test_a_history_that_was_set_stands_from_there_on() -> None:
    masked = gemini("g1", "Looking.", 20, toolCalls=[{**CALL, "result": [{"text": "masked"}]}], thoughts=ANSWER["thoughts"])
    shorter = {"$set": {"messages": [user("u1", [{"text": "hi"}]), masked, gemini("g2", "It is 1.", 40)], "lastUpdated": "x"}}
    session = open_value([*LINES, shorter, user("u2", "on"), gemini("g3", "Yes.", 30)], lines=True)
    _thought, seen = session.observed
    assert (seen.request, seen.edit.span, seen.edit.action) == (2, (4, 5), "truncate")
    assert [part.text for part in seen.edit.body or ()] == ["masked"]
    summary = {"$set": {"messages": [user("s1", "so far"), gemini("s2", "Got it."), gemini("g2", "It is 1.", 40)]}}
    session = open_value([*LINES, summary, user("u2", "on"), gemini("g3", "Yes.", 30)], lines=True)
    _thought, seen = session.observed
    assert [part.text for part in seen.edit.body or ()] == ["so far", "Got it."]
    whole = {"$set": {"messages": LINES[1:2]}}
    assert open_value([META, *LINES[1:2], whole, ANSWER], lines=True).observed == ()
    assert texts(open_value([META, {"$set": {"messages": CHAT}}], lines=True)) == texts(open_value({**META, "messages": CHAT}))


def test_a_compression_is_told_from_a_replaced_history_and_a_resumption_by_its_first_prompt() -> None:
    """A process that resumes sets the whole history first. A summary replaces another one in a history of the same length."""
    whole = {"$set": {"messages": LINES[1:]}}
    summed = {"$set": {"messages": [user("s1", "<state_snapshot>so far"), gemini("s2", "Got it.")]}}
    called = gemini("g3", "", 30, toolCalls=[CALL])
    again = {"$set": {"messages": [user("s3", "<state_snapshot>anew"), gemini("s4", "Got it."), user("u2", "on"), called]}}
    rest = [user("u2", "on"), called, again, gemini("g4", "Yes.", 30)]
    session = open_value([*LINES, whole, summed, *rest], lines=True)
    assert session.about["resumed_at"] == ["u2"]
    condensed = [seen.edit.body or () for seen in session.observed if seen.edit.action == "condense"]
    kinds = [[(part.kind, part.text) for part in body] for body in condensed]
    assert kinds == [[("summary", f"<state_snapshot>{text}"), ("text", "Got it.")] for text in ("so far", "anew")]
    facts = [seen.edit.facts for seen in open_value([*LINES, user("u3", "/compress"), summed, *rest], lines=True).observed]
    assert {"trigger": "manual"} in facts
    assert "resumed_at" not in open_value([*LINES, summed, *rest], lines=True).about, "nothing was set but what was compressed"


def list_sent(session: Session) -> list[list[str]]:
    """The texts of every request's messages."""
    plans = turnscope.replay(session).plans
    bodies = [build_body(plan, session, as_recorded=True) for plan in plans]
    return [leaves(body)["messages"] for body in bodies]


def test_results_that_are_messages_of_their_own_are_sent_once() -> None:
    result = {"functionResponse": {"id": "c", "name": "read", "response": {"output": "a = 1"}}}
    session = open_value([META, user("u1", "hi"), ANSWER, user("r1", [result]), gemini("g2", "It is 1.", 40)], lines=True)
    assert list_sent(session)[1] == ["hi", "Looking.", 'read {"path":"a"}', "a = 1"]
    assert pairs(session) == 1


def test_thoughts_are_in_the_log_and_in_no_later_request() -> None:
    session = open_value(LINES, lines=True)
    assert [block.text for block in session.blocks if block.kind == "thinking"] == ["Plan\nRead it."]
    assert all("Plan" not in text for texts in list_sent(session) for text in texts)


def test_a_history_that_was_written_again_under_other_ids_is_the_same_history() -> None:
    """As after a resume: the newest of several histories counts, its copies are no requests, and no thought comes back."""
    use = {"functionCall": {"name": "read", "args": {"path": "a"}}}
    copies = [user("n1", [{"text": "hi"}]), {"id": "n2", "type": "gemini", "content": [{"text": "Looking."}, use]}]
    copies += [user("n3", PARTS), {"id": "n4", "type": "gemini", "content": [{"text": "It is 1."}]}]
    sets = [{"$set": {"messages": [user("n0", "context")]}}, {"$set": {"messages": copies}}]
    session = open_value([*LINES, META, *sets, user("u2", "on"), gemini("g3", "Yes.", 50)], lines=True)
    assert [request.usage.prompt_tokens for request in session.requests if request.usage] == [22, 42, 52]
    assert len(session.requests) == 3
    assert list_sent(session)[2] == ["hi", "Looking.", 'read {"path":"a"}', "a = 1", "It is 1.", "on"]
    assert {seen.edit.action for seen in session.observed} == {"drop"}, "only the thought left"
    twice = [*copies[:3], user("n5", PARTS), copies[3]]
    session = open_value([*LINES, META, {"$set": {"messages": twice}}, user("u2", "on"), gemini("g3", "Yes.", 50)], lines=True)
    assert list_sent(session)[2].count("a = 1") == 2, "a resumed history may hold a result twice, and is sent so"
    assert "Plan" not in "".join(list_sent(session)[2])


def test_a_history_that_lines_tell_anew_is_no_new_conversation() -> None:
    """As after a mask: every message again, under another id, and what comes next behind them."""
    context, output = "<session_context>\nToday is Friday.\n</session_context>", "a = 1 " * 50

    def tell(output: str) -> list[Any]:
        result = {"functionResponse": {"id": "c", "name": "read", "response": {"output": output}}}
        return [user(f"r{len(output)}", [result]), *([gemini("g2", "Next.", 40)] if output == whole else [])]

    whole = output
    use = {"functionCall": {"name": "read", "args": {"path": "a"}}}
    again = [
        user("n1", [{"text": context}, {"text": "hi"}]),
        {"id": "n2", "type": "gemini", "content": [{"text": "Looking."}, use]},
        *tell("masked"),
        {"id": "n4", "type": "gemini", "content": [{"text": "Next."}]},
    ]
    set_context = {"$set": {"messages": [user("c0", [{"text": context}])]}}
    lines = [META, set_context, user("u1", "hi"), ANSWER, *tell(whole), *again, user("u2", "go on"), gemini("g3", "Yes.", 30)]
    session = open_value(lines, lines=True)
    assert [request.usage is None for request in session.requests] == [False] * 3
    assert list_sent(session)[2] == [context, "hi", "Looking.", 'read {"path":"a"}', "masked", "Next.", "go on"]
    assert [seen.edit.action for seen in session.observed if seen.request == 2] == ["truncate"]


def test_what_the_tool_says_before_the_first_prompt_is_no_prompt() -> None:
    context = user("n0", [{"text": "<session_context>\nToday is Monday."}])
    session = open_value([META, {"$set": {"messages": [context]}}, user("u1", "hi"), gemini("g1", "Yes.", 20)], lines=True)
    assert (session.title, [message.origin for message in session.messages]) == ("hi", ["meta", "prompt", "answer"])


def test_a_rewind_leaves_a_branch() -> None:
    session = open_value([*LINES, {"$rewindTo": "g2"}, user("u2", "no"), gemini("g3", "Sorry.")], lines=True)
    assert texts(session)[5:] == ["no", "Sorry."]
    assert [texts(branch)[5:] for branch in session.branches] == [["It is 1."]]
    cleared = open_value([*LINES, {"$rewindTo": "nobody"}, user("u2", "new")], lines=True)
    assert texts(cleared) == ["new"]


def test_parts_of_every_kind_are_read_and_nothing_breaks() -> None:
    parts = [
        {"text": "hm", "thought": True},
        {"text": "see"},
        {"functionCall": {"name": "read", "args": {}}},
        {"fileData": {"fileUri": "u"}},
    ]
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    answer = {"functionResponse": {"name": "read", "response": {"error": "no"}}}
    session = open_value([META, user("u", ["look", image]), gemini("g", parts), user("v", [answer])], lines=True)
    assert [b.kind for b in session.blocks] == ["text", "image", "thinking", "text", "tool_use", "unknown", "tool_result"]
    assert pairs(session) == 1
    assert survives({**META, "messages": CHAT})
    assert survives([*LINES, {"$set": {"messages": LINES[1:2]}}, user("u2", "on"), gemini("g3", "Yes.", 30)], lines=True)


def test_sessions_are_found_with_those_of_subagents(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "p" / "chats"
    (chats / "parent").mkdir(parents=True)
    files = [chats / "session-1.json", chats / "parent" / "child.jsonl"]
    for file in files:
        file.write_text("{}")
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {})
    assert sorted(path for place in find_places(here) for path in place.paths()) == sorted(files)


def test_the_real_session_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "gemini-cli", "entire-ab2b-session.json")
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert (len(session.requests), len(session.messages), pairs(session)) == (11, 21, 9)
    assert [b.kind for b in session.blocks].count("thinking") == 15
    assert (prompt_tokens(session), output_tokens(session)) == (131_375, 1_812)


def test_the_policy_of_gemini_cli_sends_what_a_resumed_session_sends() -> None:
    """The results of the first process twice after each resumption, those of the second twice, then three times."""

    def tell(n: int, *copies: dict[str, Any]) -> list[Any]:
        use = {"functionCall": {"id": f"c{n}", "name": "read", "args": {"path": f"{n}"}}}
        asked, called = user(f"u{n}", [{"text": f"ask {n}"}]), gemini(f"g{n}", [{"text": f"look {n}"}, use], 20 + n)
        return [asked, called, *(copies or (result(n),)), gemini(f"e{n}", f"end {n}", 40 + n)]

    def result(n: int, copy: str = "") -> dict[str, Any]:
        output = {"id": f"c{n}", "name": "read", "response": {"output": f"result {n}"}}
        return user(f"r{n}{copy}", [{"functionResponse": output}])

    once = [*tell(0, result(0), result(0, "_response"))]
    twice = [*once, *tell(1, result(1), result(1, "_response"))]
    last = [*once, *tell(1, result(1), result(1, "_a"), result(1, "_b")), *tell(2, result(2), result(2, "_response"))]
    sets = [{"$set": {"messages": messages}} for messages in (once, twice, last)]
    session = open_value([META, *tell(0), sets[0], *tell(1), sets[1], *tell(2), sets[2], *tell(3)], lines=True)
    plans = turnscope.replay(session, load("gemini-cli-0.61")).plans
    sent = [leaves(build_body(plan, session))["messages"] for plan in plans]
    assert [[texts.count(f"result {n}") for n in range(4)] for texts in sent[1::2]] == [
        [1, 0, 0, 0],
        [2, 1, 0, 0],
        [2, 2, 1, 0],
        [2, 3, 2, 1],
    ]
    assert [sorted(texts) for texts in sent] == [sorted(texts) for texts in list_sent(session)]
