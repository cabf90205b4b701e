"""Bodies that repeat what was sent before: only what changed costs work, and the session is that of reading all of it anew."""

from __future__ import annotations

from copy import deepcopy
from cProfile import Profile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import turnscope
from turnscope.reading.alignment import Alignment, Reason
from turnscope.reading.conversations import Call, group_calls
from turnscope.reading.recorded_body import parse_body
from turnscope.session.builder import Builder
from turnscope.telemetry.export import write_spans
from turnscope.telemetry.replays import iter_spans

from tests.long_session import make_long_session

GROWTH = 2.5  # calls of functions for twice the requests


def say(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], **more}


def change(chance: Random, body: list[Any], past: list[Any]) -> list[Any]:
    """A body as tools change it: messages leave, come back, change, are put between, get a mark or another form."""
    at = chance.randrange(len(body))
    old = body[at]
    match chance.randrange(8):
        case 0:
            del body[at : at + chance.randint(1, 3)]
        case 1:
            body[at:at] = [say("user", f"between {chance.randrange(5)}")]
        case 2:
            body[at] = {**old, "content": [{"type": "text", "text": f"shorter {chance.randrange(9)}"}]}
        case 3:
            body[at : at + 3] = [say("user", f"summary {chance.randrange(9)}")]
        case 4:
            body = [*past]
        case 5 if isinstance(old["content"], list):
            block = {**old["content"][0], "cache_control": {"type": "ephemeral"}}
            body[at] = {**old, "content": [block, *old["content"][1:]]}
        case 6:
            texts = [part["text"] for part in old["content"]] if isinstance(old["content"], list) else [old["content"]]
            body[at] = {**old, "content": texts[0] if isinstance(old["content"], list) and len(texts) == 1 else old["content"]}
        case 7:
            body[at] = {**old, "name": f"n{chance.randrange(3)}"}
    return body or [*past]


def make_calls(seed: int) -> list[Call]:
    chance, calls = Random(seed), list[Call]()
    past: list[Any] = [say("user", "the task, which is the same in all requests of the conversation")]
    body = [*past]
    for n in range(30):
        for _ in range(chance.choice((0, 0, 1, 2))):
            body = change(chance, body, past)
        reasons = [Reason("drop", "the policy's rule")] if chance.random() < 0.3 else []
        answer = say("assistant", f"answer {n}")
        sent = {"system": f"version {n // 10}", "messages": [*body]}
        calls.append(Call(sent, {"content": answer["content"]}, {"model": "m", "id": f"a{n}"}, reasons=reasons))
        new = [say(chance.choice(("user", "user", "system", "tools")), f"result {n} {k}") for k in range(chance.randint(0, 2))]
        body += [answer, *new]
        past += [answer, *new]
    return calls


@pytest.mark.parametrize("seed", range(60))
def test_what_is_not_read_again_changes_nothing(seed: int) -> None:
    calls = make_calls(seed)
    found = group_calls(calls, "log", one_conversation=True)
    whole = Alignment(Builder("log", "test", found.all[0].title))
    for call in make_calls(seed):
        whole.learn([], call.reasons)
        answer = parse_body({"messages": [{"role": "assistant", **(call.answer or {})}]}).messages[0]
        whole.add_request(deepcopy(parse_body(call.body)), answer, **call.about)
    assert found.build_session("", "test") == whole.build()


def count_calls(path: Path) -> int:
    """Count the calls of functions, of Python and C, that opening a file takes."""
    profile = Profile()
    profile.runcall(partial(turnscope.load, path))
    return sum(row.callcount for row in profile.getstats())


@pytest.mark.parametrize("policy", ["as-recorded", "last-20-messages", "clear-tool-results"])
def test_opening_a_trace_without_content_takes_work_in_proportion_to_its_requests(tmp_path: Path, policy: str) -> None:
    counts = []
    for conversations in (10, 60, 120):  # the first reads what is read once in a process
        path = tmp_path / f"{conversations}.jsonl"
        write_spans(path, iter_spans(turnscope.replay(make_long_session(conversations, lines=200), policy)))
        counts.append(count_calls(path))
    assert counts[2] <= GROWTH * counts[1], counts
