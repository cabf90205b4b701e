"""One request of a chat: plan it, check it, record it, send it, and record what came of it.

Functions of a `ChatState`. If the provider calls a request too long, a smaller one is sent, once. `request_checks` says whether
a request may be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded, Status, build_partial_answer
from turnscope.errors import ProviderError, RuleError, TurnscopeError
from turnscope.live import fall_back, request_checks
from turnscope.live.chat_state import ChatState
from turnscope.live.events import (
    AnswerInterrupted,
    Event,
    QueryAnswered,
    RequestDone,
    RequestPlanned,
    RequestRefused,
    TextDelta,
    TurnFailed,
    UsageIgnored,
    WindowAssumed,
)
from turnscope.live.offered_models import fetch_models, is_list_needed
from turnscope.live.provider import AnswerStart, ProviderAnswer, stream_answer
from turnscope.live.write_retry import Draft, DraftSink
from turnscope.planning.assemble import apply_response, reconcile_plan
from turnscope.session.model import JSON, Request, Usage
from turnscope.storage.database import StorageError


def send_request(chat: ChatState) -> Iterator[Event]:
    """Plan and send the next request, and yield what happens until its answer is stored or it failed."""
    if wrong := request_checks.check_destination(chat.destination, chat.provider, chat.settings.model):
        yield TurnFailed(wrong)
        return
    _list_served_models(chat)
    request = chat.build_request(chat.live_session)
    try:
        plan, fell_back = fall_back.plan_sendable(chat, lambda: _plan(chat, request))
    except TurnscopeError as error:  # of a rule, and nothing can be sent without the policy either
        yield TurnFailed(error)
        return
    if fell_back:
        yield fell_back
    yield from (QueryAnswered(ask, answer) for ask, answer in plan.asks if ask.kind != "expect")
    yield from _report_assumed_window(chat, plan)
    for attempt in (1, 2, 3):
        yield RequestPlanned(plan)
        if refused := request_checks.check_window(plan, chat.live_session.session, chat.live_session.ledger):
            _end(chat, plan, "refused", ProviderAnswer(stop_reason="refused"), attempts=attempt - 1, error=refused)
            yield RequestRefused(refused)
            return
        body = chat.bodies.build(plan, chat.live_session.session)
        if rejected := request_checks.check_body(body, plan.model, chat.live_session.prices, chat.bodies, chat.destination):
            _end(chat, plan, "refused", ProviderAnswer(stop_reason="refused"), attempts=attempt - 1)
            yield TurnFailed(rejected)
            return
        try:
            _record_start(chat, plan)
            yield from _stream(chat, plan, body, attempt)
        except StorageError as error:  # raised before the request is sent
            yield TurnFailed(error)
            return
        except ProviderError as error:
            again = _plan_smaller(chat, plan, error) if attempt == 1 else None
            if again is None and attempt < 3 and error.too_long:
                again, fell_back = fall_back.plan_without_policy(chat, plan, error)
                yield from [fell_back] if fell_back else []
            if again is None:
                _end(chat, plan, "failed", ProviderAnswer(stop_reason="error"), attempts=attempt, error=error)
                yield TurnFailed(error)
                return
            plan = again
        else:
            return


def _list_served_models(chat: ChatState) -> None:
    """Ask the server for its models, once, where the policy may fall back to one of them."""
    if chat.served_models is None and is_list_needed(chat.settings.policy, chat.destination):
        chat.served_models = fetch_models(chat.active_provider)


def _report_assumed_window(chat: ChatState, plan: Plan) -> Iterator[WindowAssumed]:
    """Report once for each model that its window is not known."""
    if not plan.budget.known and plan.model not in chat.assumed_window_models:
        chat.assumed_window_models.add(plan.model)
        yield WindowAssumed(plan.model, plan.budget.window)


def _record_start(chat: ChatState, plan: Plan) -> None:
    """Store a request before it is sent.

    Raises:
        StorageError: The request could not be stored, so it must not be sent.
    """
    chat.writes.flush()
    if isinstance(chat.sink, DraftSink):
        chat.sink.record_start(plan.request, plan)


def _plan(chat: ChatState, request: Request) -> Plan:
    plan = _step(chat, request)
    fact = request_checks.count_prompt(
        plan, chat.live_session.session, chat.active_provider, chat.settings.count_from_share, chat.bodies
    )
    if fact is None:
        return plan
    chat.record_fact(fact)
    return _step(chat, request)


def _plan_smaller(chat: ChatState, plan: Plan, error: ProviderError) -> Plan | None:
    """Return another plan after the provider called this one too long.

    None if the error has another reason, or if the new plan would not be smaller.
    """
    fact = request_checks.read_prompt_size(plan, error)
    if fact is None:
        return None
    chat.record_fact(fact)
    request = plan.request
    if error.window and not plan.budget.known:  # the window that the server names replaces the assumed one
        request = structs.replace(request, window=error.window)
    try:
        again = _step(chat, request)
    except RuleError:
        return None
    return again if request_checks.is_worth_retry(again, plan) else None


def _step(chat: ChatState, request: Request) -> Plan:
    return request_checks.plan_request(chat.plan, chat.live_session, request, chat.policy, chat.build_answers())


def _stream(chat: ChatState, plan: Plan, body: Mapping[str, JSON], attempt: int) -> Iterator[Event]:
    """Send the body of a request and stream its answer. An answer that breaks off is stored as far as it came.

    Raises:
        ProviderError: The provider did not accept the request.
    """
    began, answer, start = chat.clock(), ProviderAnswer(), AnswerStart()
    record = chat.sink.record_draft if isinstance(chat.sink, DraftSink) else None
    draft, broke = Draft(record, chat.live_session.session.id), None
    try:
        with stream_answer(chat.active_provider, body) as chunks:
            try:
                for chunk in chunks:
                    match chunk:
                        case ProviderAnswer():
                            answer = chunk
                        case AnswerStart():
                            start = chunk
                        case _:
                            if isinstance(chunk, TextDelta):
                                draft.add(chunk.block, chunk.text)
                            yield chunk
            except ProviderError as error:
                if error.too_long and not draft.texts:
                    raise
                broke = error
    except ProviderError:
        raise
    except BaseException:  # the user stopped the turn, or something else ended it
        _end_interrupted(chat, plan, draft.texts, start, chat.clock() - began, attempt)
        raise
    finally:
        draft.close()
    if broke:
        _end_interrupted(chat, plan, draft.texts, start, chat.clock() - began, attempt, broke)
        yield AnswerInterrupted(broke)
        return
    if answer.stop_reason == "model_context_window_exceeded" and not answer.content:
        raise ProviderError("the model's window was full before it could answer", hint="Make room.", too_long=True)
    done = _end(chat, plan, "complete", answer, chat.clock() - began, attempt)
    if wrong := answer.wrong_usage or (answer.usage and not done.usage and "it counts more than the window holds"):
        yield UsageIgnored(f"The usage that the provider reported cannot be right ({wrong}). The tokens are estimated.")
    yield RequestDone(done, chat.plan)


def _end_interrupted(
    chat: ChatState,
    plan: Plan,
    texts: Sequence[str],
    start: AnswerStart,
    seconds: float,
    attempt: int,
    error: TurnscopeError | None = None,
) -> None:
    """Store what had arrived of an answer that broke off or was stopped. The next request says that it is not complete."""
    answer = ProviderAnswer(build_partial_answer(texts), "interrupted", start.usage, start.id)
    _end(chat, plan, "interrupted", answer, seconds, attempt, error)


def _end(
    chat: ChatState,
    plan: Plan,
    status: Status,
    answer: ProviderAnswer,
    seconds: float = 0.0,
    attempts: int = 1,
    error: TurnscopeError | None = None,
) -> Request:
    """Append a request with its answer, and store both in one write."""
    now, complete = chat.clock(), status == "complete"
    used = answer.usage if answer.usage and request_checks.is_plausible_usage(plan, answer.usage) else None
    usage = used if complete else None
    fields = {"answered_at": now, "stop_reason": answer.stop_reason, "id": answer.id, "applied": answer.applied}
    request = structs.replace(plan.request, usage=usage, **fields)
    message = None
    if answer.content:
        message = chat.live_session.append_message("assistant", answer.content, origin="answer", id=answer.id, sent_at=now)
    if usage is None and (complete or answer.content or answer.usage or (status == "interrupted" and error is None)):
        request = structs.replace(request, estimate=_estimate_usage(chat, plan, used))
    request = chat.live_session.append_request(request)
    if complete:
        plan = apply_response(structs.replace(plan, request=request), chat.live_session.session, chat.live_session.basis)
    chat.prompt_tokens.append(plan.seen.tokens)
    reverted = request_checks.find_reverted_edits(chat.plan, plan, chat.live_session)
    for edit in (*reverted, *(decision.edit for decision in plan.decisions if decision.splice)):
        chat.live_session.record_edit(request.n, edit)
    usd = chat.compute_cost(usage, plan.model)
    id, sink = chat.live_session.session.id, chat.sink
    ended = RequestEnded(id, request, plan, status, message, answer.content, reverted, seconds, usd, attempts, error)
    chat.plan = reconcile_plan(structs.replace(plan, request=request))
    chat.spent_usd += usd or chat.compute_cost(request.estimate, plan.model) or 0
    if complete and request.window and not chat.settings.window:
        chat.settings = replace(chat.settings, window=request.window)  # a claim in a refusal that held
    chat.writes.run(lambda: sink.record_request(ended))
    return request


def _estimate_usage(chat: ChatState, plan: Plan, reported: Usage | None) -> Usage:
    """Estimate what a request was billed: the usage reported at its start, or the planned prompt, and the counted answer."""
    output = round(
        plan.calibration.scale * chat.live_session.ledger.count_tokens(plan.request.cut, len(chat.live_session.ledger))
    )
    return structs.replace(
        reported or Usage(plan.expected_tokens), output_tokens=max(output, reported.output_tokens if reported else 0)
    )
