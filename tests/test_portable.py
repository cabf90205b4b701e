"""Turnscope's own JSON: a session that was written is read back equal, and a wrong file is named by its wrong field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from engine import importers
from engine.errors import BrokenFile
from engine.reading.source import Source, parse
from engine.session import portable
from engine.session.builder import Builder, drop
from engine.session.model import Edit, Observed, Part, Session, Span, Usage

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
        builder.message("user", content, sent_at=draw(st.none() | st.floats(0, 1e10)))
        answer = builder.message("assistant", draw(CONTENT), extra=draw(st.dictionaries(st.text(), JSONS, max_size=2)))
        builder.request(
            answer, usage=draw(st.none() | USAGES), model="m", settings=draw(st.dictionaries(st.text(), JSONS, max_size=2))
        )
    builder.note("warning", 3, "something")

    def look(session: Session) -> list[Observed]:
        if not session.requests:
            return []
        last = session.requests[-1]
        body = (Part("user", "text", "x", {"type": "text", "text": "x"}), Part(ref=0, place="before"))
        return [drop(0, 0, 1, "left"), Observed(last.n, Edit("clear", "why", Span(0, 1), body, facts={"n": 1}))]

    session = builder.build([look])
    return structs.replace(session, subagents=(structs.replace(session, parent="p", at=0),)) if draw(st.booleans()) else session


def source(value: Any) -> Source:
    return Source(Path("session.json"), value if isinstance(value, bytes) else json.dumps(value).encode())


@given(sessions())
def test_any_session_is_read_back_equal(session: Session) -> None:
    assert portable.loads(parse(portable.dumps(session))) == session


def test_lone_surrogates_survive() -> None:
    builder = Builder("s", "test")
    builder.message("user", "half a pair: \ud83d")
    session = builder.build()
    log = source(portable.dumps(session))
    assert importers.claim(log).name == "turnscope-json"
    assert importers.read_source(log) == (session,)


def test_every_shared_session_is_read_back_equal(shared: Callable[..., Path]) -> None:
    paths = [*shared("data", "open", "claude-code").glob("*.jsonl"), *shared("data", "open", "anthropic-api").glob("*.yaml")]
    assert paths
    for path in paths:
        for session in importers.read(path):
            assert portable.loads(parse(portable.dumps(session))) == session, path.name


def test_a_hand_written_session_needs_only_what_has_no_default() -> None:
    value = {"format": "turnscope-session", "version": 1, "session": {"id": "mine"}}
    assert portable.loads(value) == Session("mine")


def small() -> dict[str, Any]:
    builder = Builder("s", "test")
    builder.message("user", "hi")
    builder.request(builder.message("assistant", "hello"), model="m")
    value: dict[str, Any] = json.loads(portable.dumps(builder.build([lambda _: [drop(0, 0, 1, "left")]])))
    return value


def test_the_small_session_of_the_next_test_is_right() -> None:
    assert len(portable.loads(small()).observed) == 1


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["session", "blocks", 1, "role"], 5, "$.session.blocks[1].role"),
        (["session", "blocks", 1, "at"], 7, "$.session.blocks[1]"),
        (["session", "blocks", 0, "pair"], 99, "$.session.blocks[0]"),
        (["session", "messages", 1, "start"], 0, "$.session.messages[1]"),
        (["session", "messages"], [], "$.session.blocks"),
        (["session", "requests", 0, "cut"], 9, "$.session.requests[0]"),
        (["session", "observed", 0, "request"], 3, "$.session.observed[0]"),
        (["session", "observed", 0, "edit", "action"], "vanish", "$.session.observed[0].edit.action"),
        (["session", "branches"], [{"id": 1}], "$.session.branches[0].id"),
        (["session"], None, "$.session"),
        (["version"], 3, "$.version"),
    ],
)
def test_a_wrong_field_is_named_with_its_path_and_a_hint(path: list[Any], value: Any, named: str) -> None:
    whole = small()
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(BrokenFile) as raised:
        importers.read_source(source(whole))
    assert named in raised.value.what
    assert raised.value.hint
