"""Chatting through the same assembler: append the prompt, `step`, render, stream, `settle`, append the answer, tell the sink.

The gateway is here too: a request is counted and held against its budget before it is sent, a provider that still calls it too
long teaches the next plan once, and what the policy cannot fit is refused with a typed error. Client and sink are passed in;
this module knows neither a database nor a page. SDK facts: anthropic 2.12 (`messages.stream`, error classes).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Protocol

import anthropic
from msgspec import structs

from engine.envelope import wishes
from engine.envelope.difference import lapsed
from engine.envelope.pieces import Decision, Piece
from engine.envelope.plan import Plan
from engine.envelope.rule import Ctx
from engine.errors import ContextWindowExceededError, RuleError, TurnscopeError
from engine.live.growing import Growing
from engine.planning.assemble import count_key, settle, step
from engine.planning.policy import Policy, following, wishes_alone
from engine.planning.render import render
from engine.pricing.prices import cost
from engine.session.builder import usage as read_usage
from engine.session.model import JSON, Answer, Ask, Edit, Message, Request

TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens|context limit: (\d+) \+|request \((\d+) tokens\) exceeds")
MAX_LOOPS = 50  # requests of one turn; an agent loop longer than this is a loop

Status = Literal["complete", "interrupted", "refused", "failed"]


class Event(NamedTuple):
    """What happens in a turn: plan | asked | text | thinking | call | result | done | refused | failed | hold | interrupted.

    When somebody condenses by hand: condensing, then asked and wished, or failed.
    """

    kind: str
    data: Any = None


class Sink(Protocol):
    """Where a chat is kept. Each call is one write that is done when it returns."""

    def message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """A message was said (prompt, tool results, system, tools)."""

    def request(
        self,
        request: Request,
        plan: Plan,
        answer: tuple[Message, Sequence[JSON]] | None,
        status: Status,
        seconds: float,
        gone: Sequence[Edit] = (),
    ) -> None:
        """A request ended; with its answer's message, if there is one, in the same write.

        `gone`: edits that put back what earlier plans had changed and this one does not.
        """

    def answer(self, key: str, answer: Answer) -> None:
        """An ask was answered."""


class Tools(Protocol):
    """Tools that the model may call. They only read."""

    @property
    def definitions(self) -> Sequence[JSON]:
        """What the model is told of them."""

    def run(self, name: str, given: Mapping[str, JSON]) -> tuple[str, bool]:
        """The result's text, and whether it is an error."""


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


@dataclass(slots=True)
class Chat:
    """One conversation under way. Not safe for two threads at once."""

    growing: Growing
    client: anthropic.Anthropic
    sink: Sink
    settings: Settings
    tools: Tools | None = None
    clock: Callable[[], float] = time.time
    plan: Plan | None = None
    spent: Decimal = field(default=Decimal(0))

    def send(self, text: str) -> Generator[Event]:
        """Say something, and stream what follows until the model ends its turn. Closing the iterator stops the answer."""
        self._close_calls()
        self.say("user", text, "prompt")
        yield from self.go_on()

    def say(self, role: str, content: str | Sequence[JSON], origin: str) -> None:
        """Append a message and keep it, before anything else happens."""
        message = self.growing.message(role, content, origin=origin, sent_at=self.clock())
        self.sink.message(message, [content] if isinstance(content, str) else list(content), "complete")

    def go_on(self, *, asked: bool = False) -> Generator[Event]:
        """Send the next request, and those that tool results cause. `asked`: the person agreed to go over a limit."""
        self._close_calls()
        start = self.plan.projected if self.plan else self.planned().projected
        for _ in range(MAX_LOOPS):
            if why := "" if asked else self._over(start):
                yield Event("hold", why)
                return
            done: Request | None = None
            for event in self._request():
                done = event.data if event.kind == "done" else done
                yield event
            if done is None or done.stop_reason != "tool_use" or self.tools is None:
                return
            yield from self._call_tools(done)

    def _close_calls(self) -> None:
        """Answer tool calls that were stopped before their tool ran: a provider refuses a call without a result for ever."""
        session = self.growing.session
        last = next((message for message in reversed(session.messages) if message.role in ("user", "assistant")), None)
        calls = [b for b in session.blocks[last.start : last.stop] if b.kind == "tool_use"] if last else []
        if calls:
            what = {"type": "tool_result", "content": "The person stopped the turn before this tool ran.", "is_error": True}
            self.say("user", [{**what, "tool_use_id": call.raw["id"]} for call in calls], "tool")

    def planned(self, text: str = "") -> Plan:
        """What would be sent now, were `text` said first. Changes nothing."""
        growing = self.growing
        if text:
            growing = Growing(growing.session, growing.ledger.counter)
            growing.message("user", text, origin="prompt")
        return step(self.plan, growing.session, self._asked(growing), self.policy, growing.basis)

    @property
    def policy(self) -> Policy:
        """The policy in force, with what was wished by hand before it."""
        return following(self.settings.policy)

    def condense(self, keep_turns: int = 2) -> Generator[Event]:
        """Ask for a summary of all before the newest turns; it stands for them from the next request on."""
        yield Event("condensing")
        plan, basis = self._by_hand(), self.growing.basis
        ctx = Ctx(self.growing.session, plan.request, basis.index, basis.ledger, basis.own, self.plan, plan.calibration,
                  plan.budget, plan.budget.limit, 0)  # fmt: skip
        asking = wishes.condensed(plan.after, ctx, keep_turns)
        try:
            ask = next(asking)
            while True:
                answer = self._answer(ask, wished=True)
                yield Event("asked", (ask, answer))
                ask = asking.send(answer)
        except StopIteration as made:
            self._wish(made.value)
            yield Event("wished", made.value)
        except TurnscopeError as error:
            yield Event("failed", error)

    def summaries(self) -> tuple[Piece, ...]:
        """The summaries that the next request starts from, in order; `by` names each."""
        return wishes.summaries(self._by_hand().after)

    def edit_summary(self, by: int, text: str) -> None:
        """Give the summary that decision `by` put there another text from the next request on. TurnscopeError: it is gone."""
        self._wish((wishes.edited(wishes.found(self._by_hand().after, by), text),))

    def undo_summary(self, by: int, decisions: Sequence[Decision] = ()) -> None:
        """Put back what stood before decision `by`, from the next request on; without that decision, the messages themselves.

        `decisions`: those of earlier requests that are at hand, in order. TurnscopeError: the summary is gone.
        """
        plan = self._by_hand()
        piece = wishes.found(plan.after, by)
        self._wish(wishes.undone(plan.after, piece, (*decisions, *plan.decisions)))

    def rate_summary(self, by: int, rating: str) -> None:
        """Keep what somebody thinks of a summary: up, down, or "" for nothing. TurnscopeError: the summary is gone."""
        text = wishes.words(wishes.found(self._by_hand().after, by))
        self._record(wishes.rating_key(text), Answer(rating, source="recorded"))

    def _by_hand(self) -> Plan:
        """What the next request starts from, with all that was wished, before the policy."""
        growing = self.growing
        return step(self.plan, growing.session, self._asked(growing), wishes_alone(self.settings.policy), growing.basis)

    def _wish(self, edits: Sequence[Edit]) -> None:
        session = self.growing.session
        key = wishes.key(len(session.requests))
        self._record(key, wishes.added(session.answers.get(key), edits, session))

    def _over(self, start: int) -> str:
        limit, growth = self.settings.spend, self.settings.growth
        if limit is not None and self.spent >= limit:
            return f"this chat has spent ${self.spent:.4f} of ${limit}"
        if growth and self.plan:
            new = self.growing.ledger.tokens(self.plan.request.cut, len(self.growing.ledger))
            grown = self.plan.calibration.predict(self.plan.seen.tokens + new) - start
            if grown > growth:
                return f"this turn has grown by {grown:,} tokens, more than {growth:,}"
        return ""

    def _asked(self, growing: Growing) -> Request:
        settings: dict[str, JSON] = {"max_tokens": self.settings.max_tokens, "cache_control": {"type": "ephemeral"}}
        if self.settings.thinking:
            settings["thinking"] = {"type": "adaptive"}
        return growing.request(model=self.settings.model, sent_at=self.clock(), settings=settings)

    def _request(self) -> Iterator[Event]:
        asked = self._asked(self.growing)
        plan = self._plan(asked)
        for ask, answer in plan.asks:
            yield Event("asked", (ask, answer))
        for attempt in range(2):
            yield Event("plan", plan)
            refused = self._refusal(plan, asked)
            if refused:
                self._end(plan, None, "refused", 0.0, stop_reason="refused")
                yield Event("refused", refused)
                return
            try:
                yield from self._stream(plan)
            except anthropic.APIStatusError as error:
                again = self._learned(plan, error) if attempt == 0 else None
                if again is None:
                    self._end(plan, None, "failed", 0.0, stop_reason="error")
                    yield Event("failed", explained(error))
                    return
                plan = again
            except (anthropic.APIError, ValueError) as error:  # ValueError: an event that is not JSON
                self._end(plan, None, "failed", 0.0, stop_reason="error")
                yield Event("failed", explained(error))
                return
            else:
                return

    def _plan(self, asked: Request) -> Plan:
        plan = step(self.plan, self.growing.session, asked, self.policy, self.growing.basis, self._answer)
        share = self.settings.count_from
        if share and plan.projected > share * plan.budget.limit and count_key(plan) not in self.growing.answers:
            body = self._body(plan)
            counted = {key: body[key] for key in ("messages", "system", "tools", "thinking", "model") if key in body}
            try:
                tokens = self.client.messages.count_tokens(**counted).input_tokens
            except anthropic.APIError:  # a server without that endpoint: planning goes on with the estimate
                return plan
            self._record(count_key(plan), Answer(str(tokens), model=plan.model, source="model"))
            plan = step(self.plan, self.growing.session, asked, self.policy, self.growing.basis, self._answer)
        return plan

    def _body(self, plan: Plan) -> dict[str, JSON]:
        body = render(plan.after, self.growing.session, plan.request.settings)
        if plan.budget.max_output:
            body["max_tokens"] = min(body["max_tokens"], plan.budget.max_output)
        return body | {"model": plan.model}

    def _refusal(self, plan: Plan, asked: Request) -> ContextWindowExceededError | None:
        """No request over its window is sent, whatever the policy says."""
        window = plan.budget.window
        needed = plan.projected + (self.settings.max_tokens if plan.budget.known else 0)
        if plan.verdict != "refuse" and needed <= window:
            return None
        used = sum(r.usage.prompt_tokens + r.usage.output_tokens for r in self.growing.session.requests if r.usage)
        return ContextWindowExceededError(
            conversation_id=self.growing.session.id,
            turn=asked.turn,
            request=asked.n,
            projected=needed,
            window=window,
            usage_so_far=used,
        )

    def _stream(self, plan: Plan) -> Iterator[Event]:
        began = self.clock()
        with self.client.messages.stream(**self._body(plan)) as stream:
            try:
                for event in stream:
                    if event.type == "text":
                        yield Event("text", event.text)
                    elif event.type == "thinking":
                        yield Event("thinking", event.thinking)
                final = _whole(stream)
            except GeneratorExit:  # the person pressed stop
                self._broken(plan, stream, self.clock() - began)
                raise
            except (anthropic.APIError, ValueError) as error:
                self._broken(plan, stream, self.clock() - began)
                yield Event("interrupted", explained(error))
                return
        raw = final.model_dump(exclude_none=True, mode="json")
        billed = read_usage(raw["usage"])
        request = self._end(plan, raw["content"], "complete", self.clock() - began, raw["stop_reason"], billed, raw["id"])
        self.plan = settle(structs.replace(plan, request=request))
        if priced := cost(billed, plan.model, request.sent_at) if billed else None:
            self.spent += priced.total
        yield Event("done", request)

    def _broken(self, plan: Plan, stream: Any, seconds: float) -> None:
        """Keep what was delivered of a broken or stopped stream, once, and let the next request say so."""
        message = _snapshot(stream)
        said = [block for block in message.content if block.type == "text" and block.text] if message else []
        blocks: list[JSON] = [{"type": "text", "text": block.text} for block in said]
        if blocks:
            blocks.append({"type": "text", "text": "[The answer was interrupted here; only this much was delivered.]"})
        self._end(plan, blocks or None, "interrupted", seconds, stop_reason="interrupted")

    def _end(
        self,
        plan: Plan,
        content: list[JSON] | None,
        status: Status,
        seconds: float,
        stop_reason: str = "",
        billed: Any = None,
        id: str = "",
    ) -> Request:
        """Append a request with what came of it, and keep both in one write."""
        now = self.clock()
        request = structs.replace(plan.request, usage=billed, answered_at=now, stop_reason=stop_reason, id=id)
        answer = None
        if content:
            message = self.growing.message("assistant", content, origin="answer", id=id, sent_at=now)
            answer = (message, content)
        request = self.growing.answered(request)
        gone = self._gone(plan)
        for edit in (*gone, *(decision.edit for decision in plan.decisions if decision.splice)):
            self.growing.observe(request.n, edit)
        self.sink.request(request, plan, answer, status, seconds, gone)
        if billed is None:
            self.plan = structs.replace(plan, request=request)
        return request

    def _gone(self, plan: Plan) -> tuple[Edit, ...]:
        """Edits that put back what the plan before had changed and this one does not, for those who follow the record."""
        if self.plan is None:
            return ()
        ledger, stands = self.growing.ledger, self.plan.after.grow(plan.request.cut, self.growing.ledger)
        with suppress(RuleError):  # an edit of this plan that cuts a stand-in of the one before: put that back first
            for decision in plan.decisions:
                stands = stands.replace(decision.edit, decision.seq, ledger)[0] if decision.splice else stands
            if not any(lapsed(stands, plan.after)):
                return ()
        return tuple(lapsed(self.plan.after, plan.before))

    def _learned(self, plan: Plan, error: anthropic.APIStatusError) -> Plan | None:
        """A new plan after the provider called this one too long; None where that is not what it said, or nothing changes."""
        found = TOO_LONG.search(str(error))
        if not found and error.status_code != 413:
            return None
        said = next((int(group) for group in found.groups() if group), 0) if found else 0
        tokens = max(said, plan.budget.limit + 1, plan.projected)
        self._record(count_key(plan), Answer(str(tokens), model=plan.model, source="model"))
        again = step(self.plan, self.growing.session, plan.request, self.policy, self.growing.basis, self._answer)
        return (
            again if again.after.tokens < plan.after.tokens or again.model != plan.model or again.verdict == "refuse" else None
        )

    def _answer(self, ask: Ask, wished: bool = False) -> Answer:
        known = self.growing.answers.get(ask.key)
        if known is not None and not known.failed:  # what failed once may work now
            return known
        if ask.kind != "summary":
            answer = Answer(failed=f"a live chat has no {ask.kind}")
        elif self.settings.condense or wished:
            answer = summarised(self.client, self.settings.summary_model or self.settings.model, ask)
        else:
            answer = Answer(failed="condensing is switched off for this chat")
        self._record(ask.key, answer)
        return answer

    def _record(self, key: str, answer: Answer) -> None:
        self.growing.answer(key, answer)
        self.sink.answer(key, answer)

    def _call_tools(self, done: Request) -> Iterator[Event]:
        results: list[JSON] = []
        for block in self.growing.session.blocks[done.cut : done.stop]:
            if block.kind == "tool_use":
                yield Event("call", block.raw)
                assert self.tools is not None
                text, failed = self.tools.run(block.name, block.raw.get("input") or {})
                results.append(
                    {"type": "tool_result", "tool_use_id": block.raw["id"], "content": text}
                    | ({"is_error": True} if failed else {})
                )
                yield Event("result", text)
        self.say("user", results, "tool")


def summarised(client: anthropic.Anthropic, model: str, ask: Ask) -> Answer:
    """The summary that a model gives; a failed answer where it gives none."""
    text = f"{ask.prompt}\n\n<transcript>\n{ask.content}\n</transcript>"
    try:
        said = client.messages.create(
            model=model, max_tokens=ask.max_tokens or 1_000, messages=[{"role": "user", "content": text}]
        )
    except anthropic.APIError as error:
        return Answer(failed=explained(error).what, model=model)
    raw = said.model_dump(exclude_none=True, mode="json")
    told = "\n".join(b.text for b in said.content if b.type == "text")
    return Answer(told, model=model, usage=read_usage(raw["usage"]), source="model")


def _snapshot(stream: Any) -> Any:
    """What has arrived of a streamed message; None before its first event (the SDK asserts that there is one)."""
    try:
        return stream.current_message_snapshot
    except AssertionError:
        return None


def _whole(stream: Any) -> Any:
    """The finished message. APIConnectionError where the stream ended early."""
    message = _snapshot(stream)
    if message is None or message.stop_reason is None:
        raise anthropic.APIConnectionError(message="the stream ended before the answer did", request=stream.response.request)
    return message


def explained(error: Exception) -> TurnscopeError:
    """A provider's or network's error as one of ours, with what to do. Never holds a key."""
    if isinstance(error, TurnscopeError):
        return error
    status = getattr(error, "status_code", None)
    hints = {
        401: "Check the API key; it is kept in memory only.",
        413: "The request is larger than the provider takes; let the policy cut more.",
        429: "Wait a little, or choose another model.",
        529: "The provider is overloaded; send again in a moment.",
    }
    what = getattr(error, "api_message", "") or str(error) or type(error).__name__
    hint = hints.get(status or 0, "Nothing was lost; send again." if status is None else "Change the request, or send again.")
    return TurnscopeError(f"the provider answered {status}: {what}" if status else f"no answer: {what}", hint=hint)
