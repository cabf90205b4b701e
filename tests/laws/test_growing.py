"""A session that grew message by message equals the same session built at once, in counts, index and plans."""

from __future__ import annotations

from hypothesis import given
from law_sessions import ledger_of, sessions
from msgspec import structs
from turnscope.counting.tokens import CHARS
from turnscope.live.live_session import LiveSession
from turnscope.planning.assemble import plan_step, reconcile_plan, replay
from turnscope.planning.policy import load
from turnscope.session.index import Index
from turnscope.session.model import CHAT, Session


def grown(session: Session) -> tuple[LiveSession, list]:
    growing, plans, previous = LiveSession(Session(session.id, source=session.source), CHARS), [], None
    requests = {request.cut: request for request in session.requests}
    policy = load("keep-everything")
    for message in session.messages:
        raws = [block.raw for block in session.blocks[message.start : message.stop]]
        if message.start in requests:
            old = requests[message.start]
            asked = growing.build_request(model=old.model, usage=old.usage)
            plan = plan_step(previous, growing.session, asked, policy, growing.basis)
            growing.append_message(message.role, raws, origin=message.origin)
            growing.append_request(asked)
            plans.append(plan)
            previous = reconcile_plan(plan)
        else:
            growing.append_message(message.role, raws[0] if isinstance(raws[0], str) else raws, origin=message.origin)
    return growing, plans


@given(sessions)
def test_growing_gives_the_session_that_building_gives(session: Session) -> None:
    session = structs.replace(session, source=CHAT)  # what grew elsewhere is planned with what its first bill tells
    growing, plans = grown(session)
    assert growing.session.blocks == session.blocks
    assert [(m.start, m.stop, m.role) for m in growing.session.messages] == [
        (m.start, m.stop, m.role) for m in session.messages
    ]
    assert [(r.n, r.turn, r.cut, r.stop) for r in growing.session.requests] == [
        (r.n, r.turn, r.cut, r.stop) for r in session.requests
    ]
    ledger = ledger_of(session)
    assert (growing.ledger.total, growing.ledger.sums) == (ledger.total, ledger.sums)
    assert growing.basis.index == Index.build(session)
    replayed = list(replay(session, load("keep-everything"), ledger))
    assert [p.after for p in plans] == [p.after for p in replayed]
    assert [p.calibration for p in plans] == [p.calibration for p in replayed]
