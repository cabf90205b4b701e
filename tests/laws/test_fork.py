"""A session forked at any request can be gone on from: it is whole, plans as the original did, and no call in it is open."""

from __future__ import annotations

import orjson
import pytest
import turnscope
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of
from law_sessions import sessions as plain
from turnscope.counting.ledger import Ledger
from turnscope.library import opening
from turnscope.planning.assemble import Basis, plan_step, replay
from turnscope.planning.lint import Problem, lint
from turnscope.planning.policy import load
from turnscope.planning.render import render
from turnscope.planning.trace import trace
from turnscope.session import portable
from turnscope.session.builder import Builder
from turnscope.session.fork import NO_RESULT, fork_session, truncate_session
from turnscope.session.model import Request, Session

MODEL = "claude-opus-4-5"
SAMPLES = sorted((ROOT / "sample_sessions").glob("*.jsonl"))
KEEP = load("keep-everything")


def loop(turns: list[list[list[bool]]], late: bool) -> Session:
    """A session of tool loops. Each turn is a list of answers, each answer a list of calls, whose results come one by one.

    True: a request that nobody answered is sent before this call's result. `late`: the newest call has no result at all.
    """
    builder, made = Builder("fork", "test"), 0
    waiting: list[str] = []
    for n, answers in enumerate(turns):
        if not waiting:
            builder.add_message("user", f"prompt {n}", origin="prompt")
        for calls in answers:
            names = [f"c{made + i}" for i in range(len(calls))]
            made += len(calls)
            content = [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in names]
            builder.set_request(builder.add_message("assistant", [{"type": "text", "text": f"a{made}"}, *content]), model=MODEL)
            for name, interrupted in zip(names, calls, strict=True):
                if interrupted:
                    builder.add_unanswered(model=MODEL)
                builder.add_message("user", [{"type": "tool_result", "tool_use_id": name, "content": f"r-{name}"}])
    if late:
        call = {"type": "tool_use", "id": "late", "name": "read", "input": {}}
        builder.set_request(builder.add_message("assistant", [call]), model=MODEL)
        builder.add_message("user", "never mind", origin="prompt")
    builder.add_unanswered(model=MODEL)
    return builder.build()


loops = st.builds(
    loop, st.lists(st.lists(st.lists(st.booleans(), max_size=3), max_size=3), min_size=1, max_size=3), st.booleans()
)


def find_refusals(session: Session, ledger: Ledger) -> tuple[Problem, ...]:
    """What a provider would reject in the next request of a session, with everything kept."""
    end = len(session.blocks)
    request = Request(n=len(session.requests), turn=0, cut=end, stop=end, model=MODEL)
    plan = plan_step(None, session, request, KEEP, Basis.of(session, ledger))
    return lint(render(plan.after, session), MODEL)


@given(st.one_of(loops, plain))
def test_a_fork_at_any_request_is_whole_and_has_no_open_call(session: Session) -> None:
    whole = [*replay(session, load("balanced"), ledger_of(session))]
    for n, request in enumerate(session.requests):
        fork = fork_session(session, n)
        assert portable.loads(orjson.loads(portable.dumps(fork))) == fork
        assert fork.requests == session.requests[:n]
        assert [*replay(fork, load("balanced"), ledger_of(fork))] == whole[:n]
        assert all(block.pair < 0 or fork.blocks[block.pair].pair == block.at for block in fork.blocks)
        said = [block.raw for block in fork.blocks if NO_RESULT not in block.text]
        assert said == [block.raw for block in session.blocks[: request.cut]], "nothing that was said is lost"
        assert not [p for p in find_refusals(fork, ledger_of(fork)) if "call" in p.what or "result" in p.what]


@given(loops, st.integers(0, 40))
def test_what_is_shared_up_to_any_block_points_nowhere_past_its_end(session: Session, at: int) -> None:
    shared = truncate_session(session, at)
    assert portable.loads(orjson.loads(portable.dumps(shared))) == shared
    assert shared.blocks == session.blocks[:at] or any(block.pair >= at for block in session.blocks[:at])
    assert all(request.stop <= at for request in shared.requests)


@pytest.mark.thorough
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_fork_of_every_sample_plans_as_the_original_and_would_be_taken(path) -> None:
    session, memo = turnscope.load(path), dict[str, int]()
    recorded = trace(session, "as-recorded", opening.count_session(session, memo))
    for n in range(len(recorded.plans)):
        fork = recorded.fork(n)
        assert portable._check(fork, "fork") is fork
        ledger = opening.count_session(fork, memo)
        assert find_refusals(fork, ledger) == ()
        if n % 8 == 0 or n > len(recorded.plans) - 3:  # each of them holds all that the forks before it hold
            assert [*replay(fork, recorded.policy, ledger)] == [*recorded.plans[:n]]


def test_an_open_call_is_answered_right_behind_its_answer() -> None:
    session = loop([[[False, True]]], late=False)
    fork = fork_session(session, 1)  # two calls, one result, then a request that nobody answered
    assert [(m.role, m.origin) for m in fork.messages] == [
        ("user", "prompt"),
        ("assistant", "answer"),
        ("user", "tool"),
        ("user", "tool"),
    ]
    kept = [block.raw.get("tool_use_id") for block in fork.blocks if block.kind == "tool_result"]
    assert kept == ["c1", "c0"]
    assert fork.at == session.requests[0].stop


def test_a_place_that_is_no_request_is_an_error() -> None:
    with pytest.raises(IndexError):
        fork_session(loop([[[False]]], late=False), 99)
