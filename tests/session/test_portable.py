"""Turnscope's own JSON: a session that was written is read back equal, and a wrong file is named by its wrong field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import turnscope
from claude_log import Log, call
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, structs, to_builtins
from turnscope.errors import BrokenFile
from turnscope.reading.claims import claim
from turnscope.reading.contents import read_path, read_source
from turnscope.reading.source import Source, parse_json
from turnscope.session import portable
from turnscope.session.builder import Builder, observe_drop
from turnscope.session.model import Block, Bucket, Edit, Fork, ObservedEdit, Part, Request, Session, Span, Usage, Wish

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SURROGATES = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=12)
CONTENT = SURROGATES | st.lists(
    st.dictionaries(st.sampled_from(["type", "text", "content", "id"]), JSONS | SURROGATES), max_size=3
)
USAGES = st.builds(Usage, *[st.integers(0, 10**6)] * 5, iterations=st.lists(st.builds(Usage), max_size=1).map(tuple))


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    builder = Builder(draw(st.text(max_size=5)), "test", draw(SURROGATES), cwd=draw(JSONS))
    for content in draw(st.lists(CONTENT, max_size=5)):
        builder.add_message("user", content, sent_at=draw(st.none() | st.floats(0, 1e10)))
        answer = builder.add_message("assistant", draw(CONTENT), extra=draw(st.dictionaries(st.text(), JSONS, max_size=2)))
        builder.set_request(
            answer, usage=draw(st.none() | USAGES), model="m", settings=draw(st.dictionaries(st.text(), JSONS, max_size=2))
        )
    builder.add_note("warning", 3, "something")

    def look(session: Session) -> list[ObservedEdit]:
        if not session.requests:
            return []
        last = session.requests[-1]
        body = (Part("user", "text", "x", {"type": "text", "text": "x"}), Part(ref=0, place="before"))
        return [observe_drop(0, 0, 1, "left"), ObservedEdit(last.n, Edit("clear", "why", Span(0, 1), body, facts={"n": 1}))]

    session = builder.build([look])
    return structs.replace(session, subagents=(structs.replace(session, parent="p", at=0),)) if draw(st.booleans()) else session


def source(value: Any) -> Source:
    return Source(Path("session.json"), value if isinstance(value, bytes) else json.dumps(value).encode())


@given(sessions())
def test_any_session_is_read_back_equal(session: Session) -> None:
    assert portable.loads(parse_json(portable.dumps(session))) == session


def test_keys_of_renamed_fields_stay_as_files_hold_them() -> None:
    fork = Fork(Session("b", blocks=()), relinked=(Block(0, 0, 0, "user", Bucket.MESSAGES, "text", "d", content="hi"),))
    wish = Wish(Edit("drop", "by hand"), "chat", 1, "digest")
    assert {"asked": "m"}.items() <= to_builtins(Request(0, 0, 0, 0, requested_model="m")).items()
    assert to_builtins(fork)["mended"][0]["raw"] == "hi"
    assert to_builtins(wish)["told"] == "digest"
    assert convert({"n": 0, "turn": 0, "cut": 0, "stop": 0, "asked": "m"}, Request).requested_model == "m"
    assert convert(to_builtins(fork), Fork) == fork
    assert convert(to_builtins(wish), Wish) == wish


def test_lone_surrogates_survive() -> None:
    builder = Builder("s", "test")
    builder.add_message("user", "half a pair: \ud83d")
    session = builder.build()
    log = source(portable.dumps(session))
    assert claim(log).name == "turnscope-json"
    assert read_source(log) == (session,)


def test_every_shared_session_is_read_back_equal(shared: Callable[..., Path]) -> None:
    paths = [*shared("data", "open", "claude-code").glob("*.jsonl"), *shared("data", "open", "anthropic-api").glob("*.yaml")]
    assert paths
    for path in paths:
        for session in read_path(path):
            assert portable.loads(parse_json(portable.dumps(session))) == session, path.name


def test_a_hand_written_session_needs_only_what_has_no_default() -> None:
    for version in (1, 2):
        value = {"format": "turnscope-session", "version": version, "session": {"id": "mine"}}
        assert portable.loads(value) == Session("mine")


def first_version(session: Session) -> dict[str, Any]:
    """A session as version 1 wrote it: branches as whole sessions."""
    value: dict[str, Any] = msgspec.to_builtins(session)
    del value["forks"]
    value["branches"] = [first_version(branch) for branch in session.branches]
    value["subagents"] = [first_version(agent) for agent in session.subagents]
    return value


def make_branched(folder: Path) -> Session:
    """A session with a branch, a branch of that, and one that shares nothing; a call and a subagent in a branch."""
    log = Log()
    log.user("hello")
    start = log.answer("m1", "Hi.", call("t1", "Task", prompt="look"), usage=(10, 500, 0, 20))
    log.result("t1", "found", toolUseResult={"agentId": "a1"})
    turn = log.answer("m2", "Wrong.", usage=(10, 10, 500, 20))
    log.user("left", parent=turn)
    log.user("left again", parent=turn)
    log.result("t1", "found another way", parent=start)
    log.answer("m3", "Right.", usage=(10, 10, 500, 20))
    log.user("another root", parent="")
    log.user("the end", parent=log.lines[-2]["uuid"])
    side = Log("s1", "a1")
    side.user("look")
    side.answer("am1", "found", usage=(1, 2, 3, 4))
    side.save(folder / "s1" / "subagents" / "agent-a1.jsonl")
    return turnscope.load(log.save(folder / "s1.jsonl"))


def test_branches_of_version_1_share_again_what_they_repeat(tmp_path: Path) -> None:
    session = make_branched(tmp_path)
    assert len(session.branches) == 3
    old = {"format": "turnscope-session", "version": 1, "session": first_version(session)}
    again = portable.loads(parse_json(json.dumps(old).encode()))
    assert again.branches == session.branches
    assert again.subagents == session.subagents
    assert [fork.start > 0 for fork in again.forks] == [False, True, True]
    assert again.branches[1].blocks[0] is again.blocks[0]
    assert portable.loads(parse_json(portable.dumps(again))) == again
    assert portable.loads(parse_json(portable.dumps(session))) == session


def test_a_wrong_branch_of_version_1_is_named() -> None:
    value = {"format": "turnscope-session", "version": 1, "session": {"id": "s", "branches": [{"id": "b"}, {"id": 1}]}}
    with pytest.raises(BrokenFile, match=r"\$\.session\.branches\[1\]\.id"):
        portable.loads(value)


def make_small() -> dict[str, Any]:
    builder = Builder("s", "test")
    builder.add_message("user", "hi")
    builder.set_request(builder.add_message("assistant", "hello"), model="m")
    value: dict[str, Any] = json.loads(portable.dumps(builder.build([lambda _: [observe_drop(0, 0, 1, "left")]])))
    return value


def test_the_small_session_of_the_next_test_is_right() -> None:
    assert len(portable.loads(make_small()).observed) == 1


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["session", "blocks", 1, "role"], 5, "$.session.blocks[1].role"),
        (["session", "blocks", 1, "at"], 7, "$.session.blocks[1]"),
        (["session", "blocks", 0, "pair"], 99, "$.session.blocks[0]"),
        (["session", "messages", 1, "start"], 0, "$.session.messages[1]"),
        (["session", "messages"], [], "$.session.blocks"),
        (["session", "requests", 0, "cut"], 9, "$.session.requests[0]"),
        (["session", "requests", 0, "turn"], 10**30, "$.session.requests[0]"),
        (["session", "observed", 0, "request"], 3, "$.session.observed[0]"),
        (["session", "observed", 0, "edit", "action"], "vanish", "$.session.observed[0].edit.action"),
        (["session", "forks"], [{"own": {"id": 1}}], "$.session.forks[0].own.id"),
        (["session", "forks"], [{"own": {"id": "b"}, "start": 9}], "$.session.forks[0]"),
        (["session", "forks"], [{"own": {"id": "b"}, "of": 1}], "$.session.forks[0]"),
        (["session", "observed", 0, "edit", "action"], "\ud83d", "$.session"),
        (["session"], None, "$.session"),
        (["version"], 4, "$.version"),
    ],
)
def test_a_wrong_field_is_named_with_its_path_and_a_hint(path: list[Any], value: Any, named: str) -> None:
    whole = make_small()
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(BrokenFile) as raised:
        read_source(source(whole))
    assert named in raised.value.what
    assert raised.value.hint
