"""Chatting through the same assembler: append the prompt, `step`, send, stream, `settle`, append the answer, tell the sink.

Provider, tools and sink are passed in; this module knows no network and no page, and of a store that it may be busy. What is
asked before a request may go is in `gateway`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Literal

from msgspec import structs

from engine.envelope import wishes
from engine.envelope.ended import RequestEnded, Status, delivered
from engine.envelope.pieces import Decision, Piece
from engine.envelope.plan import Plan
from engine.envelope.rule import Ctx
from engine.errors import ProviderError, TurnscopeError
from engine.live import gateway, stops
from engine.live.answering import answering
from engine.live.events import (
    Asked,
    Assumed,
    Called,
    Condensing,
    Done,
    Event,
    Failed,
    Held,
    Interrupted,
    Planned,
    Refused,
    Result,
    Stopped,
    Text,
)
from engine.live.growing import Growing
from engine.live.keeping import Begins, Draft, Keeping
from engine.live.leaving import Leavable, Leaving
from engine.live.provider import Begun, Provider, Said, sent
from engine.live.sinks import Sink
from engine.live.tools import Tools
from engine.live.wire import whole
from engine.planning.answers import Answers, answerer
from engine.planning.assemble import settle, step
from engine.planning.bodies import Bodies
from engine.planning.policy import Policy, sendable, wishes_alone
from engine.session.model import JSON, Answer, Answered, Ask, Edit, Fact, Request, Span, Usage, Wished
from engine.session.place import Place
from engine.storage.database import StorageError

MAX_LOOPS = 50  # requests of one turn; an agent loop longer than this is a loop


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force for the next request. `spend` in USD, `growth` in tokens per turn: beyond them the chat asks first."""

    model: str
    policy: Policy
    max_tokens: int = 1_024
    thinking: bool = False
    summary_model: str = ""  # "" = the chat's own
    condense: bool = True
    count_from: float = 0.7  # share of the budget from which the provider is asked to count before sending; 0 = never
    spend: Decimal | None = None
    growth: int = 0
    window: int = 0  # tokens of the model's, where its server or the person told it
    temperature: float | None = None  # None = the model's own; with thinking on, the API takes no other
    cache: Literal["", "5m", "1h"] = "5m"  # how long the prefix is cached; "" = nothing asks for it


@dataclass(slots=True)
class Chat:
    """One conversation under way. Not safe for two threads at once."""

    growing: Growing
    provider: Provider
    sink: Sink
    settings: Settings
    tools: Tools | None = None
    clock: Callable[[], float] = time.time
    plan: Plan | None = None
    spent: Decimal = field(default=Decimal(0))
    sizes: list[int] = field(default_factory=list)  # counted tokens of each request so far, as the model saw it
    place: Place | None = None  # where it goes: nothing is sent elsewhere. None: nobody says so, and nothing is checked
    keeping: Keeping = field(default_factory=Keeping)
    bodies: Bodies = field(default_factory=Bodies)
    leaving: Leaving | None = None  # how the turn that goes on is left while it waits
    stopped: bool = False  # by the person, amid a turn
    unsure: set[str] = field(default_factory=set)  # models whose window was said to be assumed

    def send(self, text: str) -> Generator[Event]:
        """Say something, and stream what follows until the model ends its turn. Closing the iterator stops the answer."""
        self.keeping.flush()
        self._close_calls()
        self.say("user", whole(text), "prompt")
        yield from self.go_on()

    def say(self, role: str, content: str | Sequence[JSON], origin: str) -> None:
        """Append a message and keep it, before anything else happens."""
        message = self.growing.message(role, content, origin=origin, sent_at=self.clock())
        blocks = [content] if isinstance(content, str) else list(content)
        if origin == "tool":  # its calls are kept, or wait to be
            sink = self.sink
            self.keeping.do(lambda: sink.message(message, blocks, "complete"))
        else:
            self.sink.message(message, blocks, "complete")

    def go_on(self, *, asked: bool = False) -> Generator[Event]:
        """Send the next request, and those that tool results cause. `asked`: the person agreed to go over a limit."""
        self._close_calls()
        if opening := gateway.opening(self.growing.session):
            self._wish((opening,))
        try:
            yield from self._turn(asked)
        except GeneratorExit:
            self.stopped = True
            raise
        yield from self.keeping.settle()

    def _turn(self, asked: bool) -> Iterator[Event]:
        start = self.plan.projected if self.plan else self.planned().projected
        made: list[str] = []
        for _ in range(MAX_LOOPS):
            if held := None if asked else self._over(start):
                yield held
                return
            done: Request | None = None
            for event in self._request():
                done = event.request if isinstance(event, Done) else done
                yield event
            if done is None:
                return
            blocks = self.growing.session.blocks[done.cut : done.stop]
            if stop := stops.why(done, blocks):
                yield stop
            if done.stop_reason == "pause_turn" and done.stop > done.cut:
                continue  # the provider wants to go on, and is sent what it said
            if done.stop_reason != "tool_use" or not any(block.kind == "tool_use" for block in blocks):
                return
            if self.tools is None:
                yield stops.NO_TOOLS
                return
            yield from self._call_tools(done)
            if stops.repeated(made, blocks):
                yield stops.LOOP
                return
        yield Stopped("loop", stops.ON_AND_ON.format(MAX_LOOPS))

    def leave_out(self, message: int) -> None:
        """Leave one of the messages (by its number) out of every further request; it stays in the chat."""
        said = self.growing.session.messages[message]
        self._wish((Edit("drop", "left out by hand", Span(said.start, said.stop)),))

    def _close_calls(self) -> None:
        """Answer tool calls whose tool never ran: a provider refuses a call without a result for ever."""
        session = self.growing.session
        last = next((message for message in reversed(session.messages) if message.role in ("user", "assistant")), None)
        calls = [b for b in session.blocks[last.start : last.stop] if b.kind == "tool_use"] if last else []
        if calls:
            words = stops.PERSON if self.stopped else stops.NOT_RUN
            what = {"type": "tool_result", "content": words, "is_error": True}
            self.say("user", [{**what, "tool_use_id": call.raw.get("id")} for call in calls], "tool")
        self.stopped = False

    def planned(self, text: str = "") -> Plan:
        """What would be sent now, were `text` said first. Changes nothing."""
        return self.weighed([("user", text)] if text else ())[0]

    def weighed(self, said: Sequence[tuple[str, str]]) -> tuple[Plan, Growing]:
        """What would be sent, were these messages (role and text) said first; with the conversation that would then stand."""
        growing = self.growing
        if said:
            growing = Growing(growing.session, growing.ledger.counter, growing.prices)
            for role, text in said:
                growing.message(role, whole(text), origin="prompt" if role == "user" else "answer")
        return step(self.plan, growing.session, self._asked(growing), self.policy, growing.basis_of(self.policy)), growing

    @property
    def policy(self) -> Policy:
        """The policy in force, with what was wished by hand before it, and what is mended behind it."""
        return sendable(self.settings.policy)

    @property
    def _reached(self) -> Provider:
        return Leavable(self.provider, self.leaving) if self.leaving else self.provider

    def condense(self, keep_turns: int = 2) -> Generator[Event]:
        """Ask for a summary of all before the newest turns; it stands for them from the next request on."""
        yield Condensing()
        if wrong := gateway.elsewhere(self.place, self.provider, self.settings.model):
            yield Failed(wrong)
            return
        plan, basis = self._by_hand(), self.growing.basis
        ctx = Ctx(self.growing.session, plan.request, basis.index, basis.ledger, basis.own, self.plan, plan.calibration,
                  plan.budget, plan.budget.limit, 0, prices=basis.prices)  # fmt: skip
        asking, answers = wishes.condensed(plan.after, ctx, keep_turns), self._answers(wished=True)
        try:
            ask = next(asking)
            tried = wishes.tried(plan.after, ctx, keep_turns)
            wishes.stays(step(self.plan, tried, plan.request, self.policy, self.growing.basis_of(self.policy)).after)
            while True:
                answer = answers(ask)
                yield Asked(ask, answer)
                ask = asking.send(answer)
        except StopIteration as made:
            yield self._wish(made.value)
        except TurnscopeError as error:
            yield Failed(error)

    def summaries(self) -> tuple[Piece, ...]:
        """The summaries that the next request starts from, in order; `by` names each."""
        return wishes.summaries(self._by_hand().after)

    def edit_summary(self, by: int, text: str) -> None:
        """Give the summary that decision `by` put there another text from the next request on. TurnscopeError: it is gone."""
        self._wish((wishes.edited(wishes.found(self._by_hand().after, by), whole(text)),))

    def undo_summary(self, by: int, decisions: Sequence[Decision] = ()) -> None:
        """Put back what stood before decision `by`, from the next request on; without that decision, the messages themselves.

        `decisions`: those of earlier requests that are at hand, in order. TurnscopeError: the summary is gone.
        """
        plan = self._by_hand()
        piece = wishes.found(plan.after, by)
        self._wish(wishes.undone(plan.after, piece, (*decisions, *plan.decisions)))

    def rate_summary(self, by: int, rating: str) -> None:
        """Keep what somebody thinks of a summary: up, down, or "" for nothing. TurnscopeError: the summary is gone."""
        self._note(wishes.rated(wishes.words(wishes.found(self._by_hand().after, by)), rating))

    def _by_hand(self) -> Plan:
        """What the next request starts from, with all that was wished, before the policy."""
        growing = self.growing
        policy = wishes_alone(self.settings.policy)
        return step(self.plan, growing.session, self._asked(growing), policy, growing.basis_of(policy))

    def _wish(self, edits: Sequence[Edit]) -> Wished:
        session = self.growing.session
        fact = wishes.added(session, len(session.requests), edits)
        self._note(fact)
        return fact

    def _over(self, start: int) -> Held | None:
        limit, growth = self.settings.spend, self.settings.growth
        if limit is not None and self.spent >= limit:
            usd = self._would_cost()
            would = f"; sending this would cost ${usd[0]:.4f}, up to ${usd[1]:.4f} with the longest answer" if usd else ""
            return Held(f"this chat has spent ${self.spent:.4f} of ${limit}{would}", usd)
        if growth and self.plan:
            new = self.growing.ledger.tokens(self.plan.request.cut, len(self.growing.ledger))
            grown = self.plan.calibration.predict(self.plan.seen.tokens + new) - start
            if grown > growth:
                return Held(f"this turn has grown by {grown:,} tokens, more than {growth:,}", self._would_cost())
        return None

    def _would_cost(self) -> tuple[Decimal, Decimal] | None:
        plan = self.planned()
        least, most = (self._cost(Usage(plan.projected, output_tokens=n), plan.model) for n in (0, self.settings.max_tokens))
        return None if least is None or most is None else (least, most)

    def _cost(self, usage: Usage | None, model: str) -> Decimal | None:
        priced = self.growing.prices.cost(usage, model, self.clock()) if usage else None
        return priced.total if priced else None

    def _asked(self, growing: Growing) -> Request:
        settings: dict[str, JSON] = {"max_tokens": self.settings.max_tokens}
        if self.settings.cache:
            longer = {"ttl": self.settings.cache} if self.settings.cache != "5m" else {}
            settings["cache_control"] = {"type": "ephemeral", **longer}
        if self.settings.thinking:
            settings["thinking"] = {"type": "adaptive"}
        elif self.settings.temperature is not None:
            settings["temperature"] = self.settings.temperature
        return growing.request(model=self.settings.model, sent_at=self.clock(), settings=settings, window=self.settings.window)

    def _request(self) -> Iterator[Event]:
        if wrong := gateway.elsewhere(self.place, self.provider, self.settings.model):
            yield Failed(wrong)
            return
        asked = self._asked(self.growing)
        plan = self._plan(asked)
        yield from (Asked(ask, answer) for ask, answer in plan.asks)
        if not plan.budget.known and plan.model not in self.unsure:
            self.unsure.add(plan.model)
            yield Assumed(plan.model, plan.budget.window)
        for attempt in (1, 2):
            yield Planned(plan)
            if refused := gateway.refusal(plan, self.growing.session, self.settings.max_tokens, self.growing.ledger):
                self._end(plan, "refused", Said(stop_reason="refused"), attempts=attempt - 1, error=refused)
                yield Refused(refused)
                return
            sending = self.bodies.body(plan, self.growing.session)
            if rejected := gateway.unsendable(sending, plan.model, self.growing.prices, self.bodies):
                self._end(plan, "refused", Said(stop_reason="refused"), attempts=attempt - 1)
                yield Failed(rejected)
                return
            try:
                self._begin(plan)
                yield from self._stream(plan, sending, attempt)
            except StorageError as error:  # it was not sent
                yield Failed(error)
                return
            except ProviderError as error:
                again = self._learned(plan, error) if attempt == 1 else None
                if again is None:
                    self._end(plan, "failed", Said(stop_reason="error"), attempts=attempt, error=error)
                    yield Failed(error)
                    return
                plan = again
            else:
                return

    def _begin(self, plan: Plan) -> None:
        """Keep a request before it is sent. StorageError: it cannot be, and must not be sent."""
        self.keeping.flush()
        if isinstance(self.sink, Begins):
            self.sink.began(plan.request, plan)

    def _plan(self, asked: Request) -> Plan:
        plan = self._step(asked)
        fact = gateway.counted(plan, self.growing.session, self._reached, self.settings.count_from, self.bodies)
        if fact is None:
            return plan
        self._note(fact)
        return self._step(asked)

    def _learned(self, plan: Plan, error: ProviderError) -> Plan | None:
        """A new plan after the provider called this one too long; None where that is not what it said, or nothing changes."""
        fact = gateway.learned(plan, error)
        if fact is None:
            return None
        self._note(fact)
        asked = plan.request
        if error.window and not plan.budget.known:  # what it says of itself is better than what was assumed
            asked = structs.replace(asked, window=error.window)
        again = self._step(asked)
        return again if gateway.smaller(again, plan) else None

    def _step(self, asked: Request) -> Plan:
        basis = self.growing.basis_of(self.policy)
        return step(self.plan, self.growing.session, asked, self.policy, basis, self._answers())

    def _stream(self, plan: Plan, sending: Mapping[str, JSON], attempt: int) -> Iterator[Event]:
        """Send a request's body. ProviderError where it was not accepted; what breaks later is told and kept."""
        began, said, start = self.clock(), Said(), Begun()
        draft, broke = Draft(self.sink.draft if isinstance(self.sink, Begins) else None), None
        try:
            with sent(self._reached, sending) as pieces:
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
            self._broken(plan, draft.texts, start, self.clock() - began, attempt)
            raise
        finally:
            draft.close()
        if broke:
            self._broken(plan, draft.texts, start, self.clock() - began, attempt, broke)
            yield Interrupted(broke)
            return
        if said.stop_reason == "model_context_window_exceeded" and not said.content:
            raise ProviderError("the model's window was full before it could answer", hint="Make room.", too_long=True)
        yield Done(self._end(plan, "complete", said, self.clock() - began, attempt))

    def _broken(
        self,
        plan: Plan,
        texts: Sequence[str],
        start: Begun,
        seconds: float,
        attempt: int,
        error: TurnscopeError | None = None,
    ) -> None:
        """Keep what was delivered of a broken or stopped stream, once, and let the next request say so."""
        said = Said(delivered(texts), "interrupted", start.usage, start.id)
        self._end(plan, "interrupted", said, seconds, attempt, error)

    def _end(
        self,
        plan: Plan,
        status: Status,
        said: Said,
        seconds: float = 0.0,
        attempts: int = 1,
        error: TurnscopeError | None = None,
    ) -> Request:
        """Append a request with what came of it, and keep both in one write."""
        now, complete = self.clock(), status == "complete"
        usage = said.usage if complete else None
        request = structs.replace(plan.request, usage=usage, answered_at=now, stop_reason=said.stop_reason, id=said.id)
        answer = None
        if said.content:
            answer = self.growing.message("assistant", said.content, origin="answer", id=said.id, sent_at=now)
        if usage is None and (complete or said.content or said.usage or (status == "interrupted" and error is None)):
            request = structs.replace(request, estimate=self._estimate(plan, said.usage))
        request = self.growing.answered(request)
        self.sizes.append(plan.seen.tokens)
        gone = gateway.gone(self.plan, plan, self.growing)
        for edit in (*gone, *(decision.edit for decision in plan.decisions if decision.splice)):
            self.growing.observe(request.n, edit)
        usd = self._cost(usage, plan.model)
        id, sink = self.growing.session.id, self.sink
        ended = RequestEnded(id, request, plan, status, answer, said.content, gone, seconds, usd, attempts, error)
        self.plan = settle(structs.replace(plan, request=request))
        self.spent += usd or self._cost(request.estimate, plan.model) or 0
        if complete and request.window and not self.settings.window:
            self.settings = replace(self.settings, window=request.window)  # a claim in a refusal that held
        self.keeping.do(lambda: sink.ended(ended))
        return request

    def _estimate(self, plan: Plan, told: Usage | None) -> Usage:
        """What a request may have been billed: what was told of it as it began, else what it was planned with."""
        said = round(plan.calibration.scale * self.growing.ledger.tokens(plan.request.cut, len(self.growing.ledger)))
        return structs.replace(told or Usage(plan.projected), output_tokens=max(said, told.output_tokens if told else 0))

    def _answers(self, wished: bool = False) -> Answers:
        """Who answers an ask of the next plan; `wished`: a summary is wanted whether or not the chat condenses by itself."""

        def known(key: str) -> Answer | None:
            found = self.growing.recorded.answers.get(key)
            return None if found is None or found.failed else found  # what failed once may work now

        settings = self.settings
        summaries = settings.summary_model or settings.model if settings.condense or wished else ""
        return answerer(known, answering(self._reached, settings.model, summaries), self._answered)

    def _answered(self, ask: Ask, answer: Answer) -> None:
        self.spent += self._cost(answer.usage, answer.model) or 0
        self._note(Answered(ask.key, answer))

    def _note(self, fact: Fact) -> None:
        sink = self.sink
        self.growing.note(fact)
        self.keeping.do(lambda: sink.fact(fact))

    def _call_tools(self, done: Request) -> Iterator[Event]:
        results: list[JSON] = []
        for block in self.growing.session.blocks[done.cut : done.stop]:
            if block.kind == "tool_use":
                yield Called(block.raw)
                try:
                    text, failed = self._run(block.name, block.raw.get("input") or {})
                except Exception as error:  # noqa: BLE001 - whatever a tool does, the model is told, and the turn goes on
                    text, failed = f"the tool failed: {type(error).__name__}", True
                result = {"type": "tool_result", "tool_use_id": block.raw.get("id"), "content": whole(text)}
                results.append(result | ({"is_error": True} if failed else {}))
                yield Result(text, failed)
        self.say("user", results, "tool")

    def _run(self, name: str, given: Mapping[str, JSON]) -> tuple[str, bool]:
        assert self.tools is not None
        run = partial(self.tools.run, name, given)
        return self.leaving.call(run) if self.leaving else run()
