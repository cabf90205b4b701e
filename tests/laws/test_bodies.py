"""A body that is made of the one before is the body that is made from nothing, and is found wrong in the same places."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from msgspec import structs
from turnscope.envelope.envelope import Envelope
from turnscope.errors import RuleError
from turnscope.planning.assemble import replay
from turnscope.planning.bodies import Bodies
from turnscope.planning.lint import lint, lint_continued
from turnscope.planning.policy import list_policies, load, make_sendable
from turnscope.planning.render import build_body, render_envelope
from turnscope.pricing.prices import PRICES
from turnscope.session.model import Edit, Part, Session, Span

MODEL = "claude-opus-4-5"
parts = st.builds(
    Part,
    role=st.sampled_from(["user", "assistant"]),
    kind=st.sampled_from(["text", "text", "empty"]),
    text=st.sampled_from(["one", "two"]),
    place=st.sampled_from(["own", "before", "after", "system"]),
    fence=st.booleans(),
    ref=st.sampled_from([None, None, 0]),
)
moves = st.lists(
    st.tuples(
        st.sampled_from(["grow", "grow", "replace", "insert"]),
        st.integers(0, 60),
        st.integers(0, 4),
        st.lists(parts, max_size=3),
    ),
    max_size=14,
)


def first(session: Session, stop: int) -> Session:
    """The session when it held so many blocks."""
    messages = tuple(structs.replace(m, stop=min(m.stop, stop)) for m in session.messages if m.start < stop)
    return structs.replace(session, blocks=session.blocks[:stop], messages=messages, requests=())


@pytest.mark.thorough
@settings(max_examples=examples(400))
@given(sessions, moves)
def test_a_rendering_goes_on_from_any_other_of_its_conversation(session: Session, moves: list[Any]) -> None:
    ledger, before, now = ledger_of(session), None, first(session, 1)
    envelope = Envelope().grow(1, ledger)
    for n, (move, at, width, some) in enumerate(moves):
        if move == "grow":
            now = first(session, min(len(session.blocks), envelope.stop + 1 + at % 3))
            envelope = envelope.grow(len(now.blocks), ledger)
        else:
            start = max(0, envelope.stop - at % 8)
            stop = start if move == "insert" else min(start + width, envelope.stop)
            edit = Edit(move, "", Span(start, stop), tuple(some), slot=str(width) if start == stop else "")
            try:
                envelope, _ = envelope.replace(edit, n, ledger)
            except RuleError:  # a placeholder cannot be cut, an insert needs something
                continue
        made, anew = render_envelope(envelope, now, before), render_envelope(envelope, now)
        assert (made.tools, made.system, made.messages, made.points) == (anew.tools, anew.system, anew.messages, anew.points)
        assert all(a is b for a, b in zip(made.messages[: made.shared], before.messages if before else (), strict=False))
        before = made


@pytest.mark.thorough(every=10)
@settings(max_examples=examples(10))
@pytest.mark.parametrize("name", [name for name in list_policies() if name != "as-recorded"])
@given(sessions)
def test_bodies_of_every_policy_are_the_same_one_after_the_other(name: str, session: Session) -> None:
    bodies = Bodies()
    for plan in replay(session, make_sendable(load(name)), ledger_of(session)):
        made = bodies.build(plan, first(session, plan.request.cut))
        assert made == build_body(plan, session)
        assert bodies.lint(made, MODEL, PRICES) == lint(made, MODEL)


def make_message(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": [*blocks]}


def call(name: str) -> Any:
    return {"type": "tool_use", "id": name, "name": "x", "input": {}}


def result(name: str) -> Any:
    return {"type": "tool_result", "tool_use_id": name, "content": "r"}


TEXT: Any = {"type": "text", "text": "said"}
MARKED: Any = TEXT | {"cache_control": {"type": "ephemeral"}}
GOOD = [
    *([make_message("assistant", call(name)), make_message("user", result(name))] for name in "abcd"),
    *([make_message("assistant", TEXT), make_message("user", block)] for block in (TEXT, MARKED, MARKED)),
]
WRONG = [
    [make_message("assistant", call("a")), make_message("user", TEXT)],
    [make_message("user", result("a"))],
    [make_message("assistant", {"type": "thinking", "thinking": "t", "signature": ""}), make_message("user", TEXT)],
    [{"role": "assistant", "content": "ends "}],
    [{"role": "x", "content": "said"}],
    [make_message("user")],
    [make_message("user", "no block", {"type": "text", "text": ""})],
    [None],
]
exchanges = st.one_of(st.sampled_from(GOOD), st.sampled_from(GOOD), st.sampled_from(WRONG))


@settings(max_examples=examples(400))
@given(st.lists(st.tuples(exchanges, st.sampled_from([0, 0, 0, 1, 3])), max_size=8))
def test_what_was_read_once_is_not_read_again_and_every_mistake_is_found(new: list[Any]) -> None:
    messages: list[Any] = [make_message("user", TEXT)]
    passed = None
    for some, lost in new:
        before = messages
        messages = [*messages[: max(1, len(messages) - lost)], *some]
        found, passed = lint_continued({"messages": messages}, MODEL, PRICES, passed)
        assert found == lint({"messages": messages}, MODEL)
        messages = before if found else messages  # a person goes on with what is right
