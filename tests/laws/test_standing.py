"""Why a block is part of a request or is not: one answer, the same as a look into every request gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from msgspec import structs
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Memory, NoParams, Rule
from turnscope.errors import RuleError
from turnscope.planning.policy import Policy, Step
from turnscope.planning.trace import Trace, trace
from turnscope.session.model import Edit, Part, Session, Span


def _drop(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    """Every third request: the oldest block that stands goes, so that under a fresh rule it comes back at once."""
    at = next((p.start for p in envelope.pieces if p.body is None and p.start < p.stop), None)
    if at is not None and ctx.request.n % 3 == 2:
        yield Edit("drop", "old", Span(at, at + 1))


def _clear(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    """The newest result but one, again at each request."""
    results = [at for at in ctx.index.results if at < ctx.request.cut]
    if len(results) > 1 and envelope.find_piece(results[-2]).body is None:
        yield Edit("clear", "an old result", Span(results[-2], results[-2] + 1), (Part("user", "tool_result", "gone"),))


def _restore(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    """At every fourth request what was dropped first comes back."""
    gone = next((p for p in envelope.pieces if p.body == ()), None)
    if gone and ctx.request.n % 4 == 3:
        yield Edit("restore", "needed", Span(gone.start, gone.stop), None, restore=True)


def _note(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    yield Edit("insert", "a note", Span(0, 0), (Part(text=f"request {ctx.request.n}"),), slot="notes")


RULES = (_drop, _clear, _restore, _note)
MEMORIES: tuple[Memory, ...] = ("remembers", "monotone", "fresh")
chosen = st.lists(
    st.tuples(st.sampled_from(RULES), st.sampled_from(MEMORIES)), min_size=1, max_size=4, unique_by=lambda one: one[0]
)


def try_trace(session: Session, picked: list[tuple[object, Memory]]) -> Trace | None:
    steps = tuple(Step(Rule(f"r{i}", "", edits, NoParams, memory), NoParams()) for i, (edits, memory) in enumerate(picked))  # type: ignore[arg-type]
    try:
        return trace(session, Policy("test", "t", "d", "s", "f", rules=steps), ledger_of(session))
    except RuleError:
        return None


def find_state(found: Trace, at: int, request: int) -> str:
    """The state of a block, read off one plan alone."""
    plan = found.plans[request]
    if at >= plan.request.cut:
        return "later"
    body = plan.after.find_piece(at).body
    if body is None:
        return "here" if plan.seen.find_piece(at).body is None else "unseen"
    return "replaced" if body else "absent"


def forgetful(session: Session) -> Session:
    """The session with a model whose provider leaves out the thinking of past turns."""
    return structs.replace(session, requests=tuple(structs.replace(r, model="claude-sonnet-4-5") for r in session.requests))


@given(st.one_of(sessions, sessions.map(forgetful)), chosen)
def test_why_agrees_with_a_look_into_every_request(session: Session, picked: list[tuple[object, Memory]]) -> None:
    found = try_trace(session, picked)
    if found is None:
        return
    for at, spans in zip(range(len(session.blocks)), found.iter_shown_spans(range(len(session.blocks))), strict=True):
        states = [find_state(found, at, n) for n in range(len(found.plans))]
        assert [n for n, state in enumerate(states) if state == "here"] == [n for span in spans for n in range(*span)]
        for n, state in enumerate(states):
            told = found.explain(at, n)
            assert (told.at, told.request, told.state) == (at, n, state)
            if state == "later":
                first = next((m for m, other in enumerate(states) if other != "later"), -1)
                assert (told.since, told.decision, told.by) == (first, None, "")
                continue
            since = n
            while since and states[since - 1] == state:
                since -= 1
            assert told.since == since
            by = found.plans[n].after.find_piece(at).by
            if state != "unseen":
                assert (told.decision.seq if told.decision else -1) == by
                assert told.by == ("policy" if by >= 0 else "")
                assert told.because in told.sentence
            else:
                assert told.by == "server"
                assert told.decision is None or told.decision in [d for plan in found.plans[: n + 1] for d in plan.server]


def test_a_rule_that_decides_anew_has_stood_so_since_its_first_time() -> None:
    session = make([[("tool", 80), ("tool", 60)], [("say", 20)], [("say", 20)], [("say", 20)]])
    found = try_trace(session, [(_clear, "fresh")])
    assert found is not None
    at, last = 2, len(found.plans) - 1
    told = found.explain(at, last)
    assert told.state == "replaced"
    assert told.decision is not None
    assert told.decision.request == told.since < last, "the same again is no decision"
    assert f"clear by r0 at request {told.since + 1}: an old result." == told.sentence


def test_what_the_provider_leaves_out_is_told_apart_from_what_the_policy_does() -> None:
    session = forgetful(make([[("think", 200), ("say", 20)], [("say", 20)]]))
    thinking = next(block.at for block in session.blocks if block.bucket == "thinking")
    found = try_trace(session, [(_note, "remembers")])
    assert found is not None
    last = found.explain(thinking, len(found.plans) - 1)
    assert (last.state, last.by) == ("unseen", "server")
    assert "thinking" in last.because


def test_a_place_outside_session_or_trace_is_an_error() -> None:
    found = try_trace(make([[("say", 20)]]), [(_note, "fresh")])
    assert found is not None
    for at, request in ((10_000, 0), (0, 10_000)):
        with pytest.raises(IndexError):
            found.explain(at, request)
