"""Cline SDK sessions: messages with their system prompt, and the sidecar of a compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts
from turnscope.importers.cline_sdk import IMPORTER, cut_middle, find_places
from turnscope.planning.render import build_body
from turnscope.reading.registry import find_session_path
from turnscope.settings import Machine

from tests.wire.leaves import leaves

INFO = {"modelInfo": {"id": "m-1", "provider": "p"}}
METRICS = {"inputTokens": 30, "outputTokens": 7, "cacheReadTokens": 20, "cacheWriteTokens": 0, "cost": 0.5}
SAID: list[Any] = [
    {"id": "0", "role": "user", "content": "go", "ts": 1_767_225_600_000},
    {
        "id": "1",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c", "name": "look", "input": {}},
        ],
        **INFO,
        "metrics": METRICS,
        "ts": 1_767_225_604_000,
    },
    {"id": "2", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "name": "look", "content": "seen"}]},
    {"id": "3", "role": "assistant", "content": "done", **INFO, "metrics": METRICS},
]
FILE = {"version": 1, "updated_at": "x", "agent": "lead", "sessionId": "s", "messages": SAID, "system_prompt": "Be brief."}


def test_messages_with_their_metrics() -> None:
    session = open_value(FILE)
    assert list_blocks(session) == [
        ("system", "system", "Be brief."),
        ("user", "text", "go"),
        ("assistant", "thinking", "hm"),
        ("assistant", "tool_use", "look {}"),
        ("user", "tool_result", "seen"),
        ("assistant", "text", "done"),
    ]
    first = session.requests[0]
    assert first.usage
    assert (first.usage.input_tokens, first.usage.prompt_tokens, first.logged_usd, first.model) == (10, 30, 0.5, "m-1")
    assert ((first.answered_at or 0) - (first.sent_at or 0), pairs(session)) == (4, 1)
    assert (prompt_tokens(session), output_tokens(session), session.id) == (60, 14, "s")


def test_a_compaction_stands_for_the_first_messages(tmp_path: Path) -> None:
    folder = tmp_path / ".cline" / "data" / "sessions" / "s"
    folder.mkdir(parents=True)
    path = folder / "s.messages.json"
    path.write_text(json.dumps(FILE))
    summary = {"role": "user", "content": "so far", "metadata": {"kind": "compaction_summary", "tokensBefore": 900}}
    sidecar = {"version": 1, "source_message_count": 3, "messages": [summary]}
    (folder / "s.compaction.json").write_text(json.dumps(sidecar))
    (folder / "s.json").write_text(json.dumps({"version": 1, "session_id": "s", "model": "m", "cwd": "/w"}))
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    (seen,) = session.observed
    assert (seen.request, seen.edit.span, seen.edit.facts) == (1, (1, 5), {"preTokens": 900})
    assert [part.text for part in seen.edit.body or ()] == ["so far"]
    assert session.about["cwd"] == "/w"
    assert find_session_path(folder / "s.compaction.json") == find_session_path(folder / "s.json") == path
    here = Machine("linux", tmp_path, tmp_path, tmp_path, {})
    assert [found for place in find_places(here) for found in place.paths()] == [path]
    assert len(turnscope.load_all(folder)) == 1
    (folder / "s.compaction.json").write_text(json.dumps({**sidecar, "source_message_count": 9}))
    assert turnscope.load(path).notes[0].what.startswith("a compaction stands for 9 messages")
    assert texts(turnscope.load(path))[0] == "Be brief."


@pytest.mark.parametrize(
    ("size", "head", "number"),
    [(8_000, 8_000, 0), (8_001, 3_985, 31), (14_252, 3_984, 6_284), (42_309, 3_983, 34_343), (10_966, 3_984, 2_998)],
)
def test_the_middle_of_a_long_text_is_cut(size: int, head: int, number: int) -> None:
    """Both ends stay; with the mark between them at most 8,000 characters, and the mark names how many are missing."""
    text = "a" * (size // 2) + "b" * (size - size // 2)
    cut = cut_middle(text)
    assert len(cut) in (size, 7_999, 8_000)
    mark = f"\n\n...[truncated {number} chars]...\n\n" if number else ""
    assert cut == (text[:head] + mark + text[-head:] if mark else text)


def test_characters_are_counted_as_javascript_counts_them() -> None:
    text = "\U0001f600" * 4_001  # two units each
    cut = cut_middle(text)
    assert "...[truncated" in cut
    assert len(cut.encode("utf-16-le")) // 2 <= 8_001, "half a pair is one unit, and becomes a mark of one"
    assert cut_middle("\U0001f600" * 4_000) == "\U0001f600" * 4_000


TAGGED = {"role": "user", "content": [{"type": "text", "text": '<user_input mode="act">\ngo on\n</user_input>'}]}
ENTRY = {"query": "cat a", "result": "é" * 9_000, "success": True}
LONG: list[Any] = [
    TAGGED,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "run", "input": {}}], **INFO, "metrics": METRICS},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "name": "run", "content": [ENTRY]}]},
    {"role": "assistant", "content": "done", **INFO, "metrics": METRICS},
]


def test_the_log_holds_a_result_whole_and_the_request_what_was_sent_of_it() -> None:
    session = open_value({**FILE, "messages": LONG})
    assert texts(session)[1] == "go on"
    whole = '[{"query":"cat a","result":"' + "é" * 9_000 + '","success":true}]'
    assert texts(session)[3] == whole
    (seen,) = session.observed
    assert (seen.request, seen.edit.action, seen.edit.span) == (1, "truncate", (3, 4))
    sent = turnscope.replay(session).plans[1].after
    assert sent.tokens < turnscope.replay(session, "keep-everything").plans[1].after.tokens
    (part,) = seen.edit.body or ()
    assert json.loads(part.text)[0] == {**ENTRY, "result": cut_middle(ENTRY["result"])}


def test_earlier_compactions_are_told_by_a_prompt_that_fell(tmp_path: Path) -> None:
    """The sidecar holds the newest alone. What one that asks no model kept is kept by all that follow."""

    def make_exchange(number: int, prompt: int) -> list[Any]:
        metrics = {**METRICS, "inputTokens": prompt, "cacheReadTokens": 0}
        answer = {"role": "assistant", "content": f"answer {number}", **INFO, "metrics": metrics}
        return [{"role": "user", "content": f"prompt {number}"}, answer]

    rounds = [make_exchange(n, prompt) for n, prompt in enumerate((1_000, 5_000, 9_000, 2_000, 6_000, 2_500))]
    messages = [message for one in rounds for message in one]
    first = {"role": "user", "content": "prompt 0, and what was done", "metadata": {"kind": "compaction"}}
    sidecar = {"version": 1, "source_message_count": 11, "messages": [first, *messages[5:7], *messages[9:11]]}
    (tmp_path / "s.messages.json").write_text(json.dumps({**FILE, "messages": messages}))
    (tmp_path / "s.compaction.json").write_text(json.dumps(sidecar))
    session = turnscope.load(tmp_path / "s.messages.json")
    bodies = [build_body(plan, session, as_recorded=True) for plan in turnscope.replay(session).plans]
    sent = [leaves(body)["messages"] for body in bodies]
    assert sent[2] == ["prompt 0", "answer 0", "prompt 1", "answer 1", "prompt 2"]
    assert sent[3] == ["prompt 0, and what was done", "answer 2", "prompt 3"]
    assert sent[4] == ["prompt 0, and what was done", "answer 2", "prompt 3", "answer 3", "prompt 4"]
    assert sent[5] == ["prompt 0, and what was done", "answer 2", "prompt 3", "answer 4", "prompt 5"]


def test_the_size_of_a_prompt_that_fell_tells_which_rounds_a_summary_left(tmp_path: Path) -> None:
    """The log holds the summary of the newest compaction alone."""

    def make_round(number: int, prompt: int) -> list[Any]:
        call = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {}}
        metrics = {**METRICS, "inputTokens": prompt, "cacheReadTokens": 0}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"result {number} " * 400}
        return [{"role": "assistant", "content": [call], **INFO, "metrics": metrics}, {"role": "user", "content": [result]}]

    size = len(json.dumps(make_round(0, 0)[0]["content"] + make_round(0, 0)[1]["content"], separators=(",", ":"))) // 4
    prompts = [1_000 + size * n for n in range(6)] + [1_100 + 2 * size, 1_100 + 3 * size, 1_050 + size]
    rounds = [make_round(n, prompt) for n, prompt in enumerate(prompts)]
    messages = [{"role": "user", "content": "go"}, *(message for one in rounds for message in one)]
    summary = {"role": "user", "content": "so far", "metadata": {"kind": "compaction_summary"}}
    sidecar = {"version": 1, "source_message_count": len(messages) - 1, "messages": [summary, *messages[-3:-1]]}
    (tmp_path / "s.messages.json").write_text(json.dumps({**FILE, "messages": messages}))
    (tmp_path / "s.compaction.json").write_text(json.dumps(sidecar))
    session = turnscope.load(tmp_path / "s.messages.json")
    bodies = [build_body(plan, session, as_recorded=True) for plan in turnscope.replay(session).plans]
    sent = [[text.split(" ")[1] for text in leaves(body)["messages"] if text.startswith("result")] for body in bodies]
    assert sent[5:] == [["0", "1", "2", "3", "4"], ["4", "5"], ["4", "5", "6"], ["7"]]


@pytest.mark.parametrize("stayed", [["7", "8"], ["3", "4", "5", "6", "7", "8"]])
def test_clines_own_rule_tells_small_rounds_from_a_longer_summary(stayed: list[str], tmp_path: Path) -> None:
    """Of rounds with 33,000 characters in the log two stay, though the one before is small; unless the size contradicts it."""

    def make_round(number: int, prompt: int) -> list[Any]:
        call = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {}}
        metrics = {**METRICS, "inputTokens": prompt, "cacheReadTokens": 0}
        content = f"result {number} " + "x" * (20 if number == 6 else 33_000)
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": content}
        return [{"role": "assistant", "content": [call], **INFO, "metrics": metrics}, {"role": "user", "content": [result]}]

    sizes = {str(n): 50 if n == 6 else 2_000 for n in range(9)}
    prompts = [1_000 + sum(list(sizes.values())[:n]) for n in range(9)]
    after = 1_000 + 200 + sum(sizes[number] for number in stayed)
    prompts += [after, after + 2_000, 3_500]
    messages = [{"role": "user", "content": "go"}, *(one for n, prompt in enumerate(prompts) for one in make_round(n, prompt))]
    summary = {"role": "user", "content": "so far", "metadata": {"kind": "compaction_summary"}}
    sidecar = {"version": 1, "source_message_count": len(messages) - 1, "messages": [summary, *messages[-3:-1]]}
    (tmp_path / "s.messages.json").write_text(json.dumps({**FILE, "messages": messages}))
    (tmp_path / "s.compaction.json").write_text(json.dumps(sidecar))
    session = turnscope.load(tmp_path / "s.messages.json")
    plan = turnscope.replay(session).plans[9]
    sent = leaves(build_body(plan, session, as_recorded=True))["messages"]
    assert [text.split(" ")[1] for text in sent if text.startswith("result")] == stayed


def test_nothing_breaks() -> None:
    assert survives(FILE, count=40)
    assert survives({**FILE, "messages": LONG}, count=40)
