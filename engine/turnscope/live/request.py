"""One request of a chat: planned, looked over, kept, sent, and kept again with what came of it.

Functions of a `Talk`. A provider that calls a request too long is sent another one, once. What is asked before a request may go
is in `gateway`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded, Status, build_partial_answer
from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import gateway
from turnscope.live.events import (
    Asked,
    Assumed,
    Done,
    Event,
    Failed,
    Interrupted,
    Planned,
    Refused,
    Text,
)
from turnscope.live.keeping import Begins, Draft
from turnscope.live.provider import Begun, Said, sent
from turnscope.live.talk import Talk
from turnscope.planning.assemble import answered, settle
from turnscope.session.model import JSON, Request, Usage
from turnscope.storage.database import StorageError


def requested(talk: Talk) -> Iterator[Event]:
    """Send the next request, and tell what happens until its answer stands, or it has failed."""
    if wrong := gateway.elsewhere(talk.place, talk.provider, talk.settings.model):
        yield Failed(wrong)
        return
    asked = talk.asked(talk.growing)
    plan = _plan(talk, asked)
    yield from (Asked(ask, answer) for ask, answer in plan.asks if ask.kind != "expect")
    if not plan.budget.known and plan.model not in talk.unsure:
        talk.unsure.add(plan.model)
        yield Assumed(plan.model, plan.budget.window)
    for attempt in (1, 2):
        yield Planned(plan)
        if refused := gateway.refusal(plan, talk.growing.session, talk.growing.ledger):
            _end(talk, plan, "refused", Said(stop_reason="refused"), attempts=attempt - 1, error=refused)
            yield Refused(refused)
            return
        sending = talk.bodies.body(plan, talk.growing.session)
        if rejected := gateway.unsendable(sending, plan.model, talk.growing.prices, talk.bodies, talk.place):
            _end(talk, plan, "refused", Said(stop_reason="refused"), attempts=attempt - 1)
            yield Failed(rejected)
            return
        try:
            _begin(talk, plan)
            yield from _stream(talk, plan, sending, attempt)
        except StorageError as error:  # it was not sent
            yield Failed(error)
            return
        except ProviderError as error:
            again = _learned(talk, plan, error) if attempt == 1 else None
            if again is None:
                _end(talk, plan, "failed", Said(stop_reason="error"), attempts=attempt, error=error)
                yield Failed(error)
                return
            plan = again
        else:
            return


def _begin(talk: Talk, plan: Plan) -> None:
    """Keep a request before it is sent. StorageError: it cannot be, and must not be sent."""
    talk.keeping.flush()
    if isinstance(talk.sink, Begins):
        talk.sink.began(plan.request, plan)


def _plan(talk: Talk, asked: Request) -> Plan:
    plan = _step(talk, asked)
    fact = gateway.counted(plan, talk.growing.session, talk.reached, talk.settings.count_from, talk.bodies)
    if fact is None:
        return plan
    talk.note(fact)
    return _step(talk, asked)


def _learned(talk: Talk, plan: Plan, error: ProviderError) -> Plan | None:
    """A new plan after the provider called this one too long; None where that is not what it said, or nothing changes."""
    fact = gateway.learned(plan, error)
    if fact is None:
        return None
    talk.note(fact)
    asked = plan.request
    if error.window and not plan.budget.known:  # what it says of itself is better than what was assumed
        asked = structs.replace(asked, window=error.window)
    again = _step(talk, asked)
    return again if gateway.smaller(again, plan) else None


def _step(talk: Talk, asked: Request) -> Plan:
    return gateway.stepped(talk.plan, talk.growing, asked, talk.policy, talk.answers())


def _stream(talk: Talk, plan: Plan, sending: Mapping[str, JSON], attempt: int) -> Iterator[Event]:
    """Send a request's body. ProviderError where it was not accepted; what breaks later is told and kept."""
    began, said, start = talk.clock(), Said(), Begun()
    keep = talk.sink.draft if isinstance(talk.sink, Begins) else None
    draft, broke = Draft(keep, talk.growing.session.id), None
    try:
        with sent(talk.reached, sending) as pieces:
            try:
                for piece in pieces:
                    match piece:
                        case Said():
                            said = piece
                        case Begun():
                            start = piece
                        case _:
                            if isinstance(piece, Text):
                                draft.add(piece.block, piece.text)
                            yield piece
            except ProviderError as error:
                if error.too_long and not draft.texts:
                    raise
                broke = error
    except ProviderError:
        raise
    except BaseException:  # the person pressed stop, or whatever else ends the turn here
        _broken(talk, plan, draft.texts, start, talk.clock() - began, attempt)
        raise
    finally:
        draft.close()
    if broke:
        _broken(talk, plan, draft.texts, start, talk.clock() - began, attempt, broke)
        yield Interrupted(broke)
        return
    if said.stop_reason == "model_context_window_exceeded" and not said.content:
        raise ProviderError("the model's window was full before it could answer", hint="Make room.", too_long=True)
    done = _end(talk, plan, "complete", said, talk.clock() - began, attempt)
    yield Done(done, talk.plan)


def _broken(
    talk: Talk,
    plan: Plan,
    texts: Sequence[str],
    start: Begun,
    seconds: float,
    attempt: int,
    error: TurnscopeError | None = None,
) -> None:
    """Keep what was delivered of a broken or stopped stream, once, and let the next request say so."""
    said = Said(build_partial_answer(texts), "interrupted", start.usage, start.id)
    _end(talk, plan, "interrupted", said, seconds, attempt, error)


def _end(
    talk: Talk,
    plan: Plan,
    status: Status,
    said: Said,
    seconds: float = 0.0,
    attempts: int = 1,
    error: TurnscopeError | None = None,
) -> Request:
    """Append a request with what came of it, and keep both in one write."""
    now, complete = talk.clock(), status == "complete"
    used = said.usage if said.usage and gateway.billable(plan, said.usage) else None
    usage = used if complete else None
    told = {"answered_at": now, "stop_reason": said.stop_reason, "id": said.id, "applied": said.applied}
    request = structs.replace(plan.request, usage=usage, **told)
    answer = None
    if said.content:
        answer = talk.growing.message("assistant", said.content, origin="answer", id=said.id, sent_at=now)
    if usage is None and (complete or said.content or said.usage or (status == "interrupted" and error is None)):
        request = structs.replace(request, estimate=_estimate(talk, plan, used))
    request = talk.growing.answered(request)
    if complete:
        plan = answered(structs.replace(plan, request=request), talk.growing.session, talk.growing.basis)
    talk.sizes.append(plan.seen.tokens)
    gone = gateway.gone(talk.plan, plan, talk.growing)
    for edit in (*gone, *(decision.edit for decision in plan.decisions if decision.splice)):
        talk.growing.observe(request.n, edit)
    usd = talk.cost(usage, plan.model)
    id, sink = talk.growing.session.id, talk.sink
    ended = RequestEnded(id, request, plan, status, answer, said.content, gone, seconds, usd, attempts, error)
    talk.plan = settle(structs.replace(plan, request=request))
    talk.spent += usd or talk.cost(request.estimate, plan.model) or 0
    if complete and request.window and not talk.settings.window:
        talk.settings = replace(talk.settings, window=request.window)  # a claim in a refusal that held
    talk.keeping.do(lambda: sink.ended(ended))
    return request


def _estimate(talk: Talk, plan: Plan, told: Usage | None) -> Usage:
    """What a request may have been billed: what was told of it as it began, else what it was planned with."""
    said = round(plan.calibration.scale * talk.growing.ledger.count_tokens(plan.request.cut, len(talk.growing.ledger)))
    return structs.replace(told or Usage(plan.projected), output_tokens=max(said, told.output_tokens if told else 0))
