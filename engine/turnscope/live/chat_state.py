"""A chat as it stands: what is in force for its next request, what was said, and what would be sent. It sends nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from turnscope.envelope.plan import Plan
from turnscope.live import request_checks, request_headers
from turnscope.live.cancellation import CancellableProvider, Cancellation
from turnscope.live.live_session import LiveSession
from turnscope.live.provider import Provider, SupportsHeaders
from turnscope.live.rule_queries import build_answers
from turnscope.live.sinks import Sink
from turnscope.live.stream_assembler import repair_text
from turnscope.live.tools import Tools
from turnscope.live.write_retry import WriteQueue
from turnscope.planning.answers import OFFLINE, Answers, make_answerer
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, make_sendable
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Answer, AnswerFact, Ask, AskKind, Fact, Request, Usage


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force for the next request. `spend` in USD, `growth` in tokens per turn: beyond them the chat asks first."""

    model: str
    policy: Policy
    max_tokens: int = 1_024
    thinking: bool = False
    summary_model: str = ""  # "" = the chat's own
    condense: bool = True
    count_from_share: float = 0.7  # share of the budget from which the provider is asked to count before sending; 0 = never
    spend_limit: Decimal | None = None
    growth_limit: int = 0
    window: int = 0  # tokens of the model's, where its server or the person told it
    temperature: float | None = None  # None = the model's own; with thinking on, the API takes no other
    cache: Literal["", "5m", "1h"] = "5m"  # how long the prefix is cached; "" = nothing asks for it


@dataclass(slots=True)
class ChatState:
    """What a chat holds. Not safe for two threads at once."""

    live_session: LiveSession
    provider: Provider
    sink: Sink
    settings: Settings
    tools: Tools | None = None
    clock: Callable[[], float] = time.time
    plan: Plan | None = None
    spent_usd: Decimal = field(default=Decimal(0))
    prompt_tokens: list[int] = field(default_factory=list)  # counted tokens of each request so far, as the model saw it
    place: Destination | None = None  # where it goes: nothing is sent elsewhere. None: nobody says so, and nothing is checked
    writes: WriteQueue = field(default_factory=WriteQueue)
    bodies: Bodies = field(default_factory=Bodies)
    cancellation: Cancellation | None = None  # how the turn that goes on is left while it waits
    stopped_by_user: bool = False  # by the person, amid a turn
    recall_answers: Answers | None = None  # who is asked for what is remembered across sessions; None = nobody
    injected_answers: Mapping[AskKind, Answers] = field(default_factory=dict)  # who is asked for what else stands beside a chat
    preview_answers: Mapping[AskKind, Answers] = field(
        default_factory=dict
    )  # who is asked where a request is only weighed: no network
    assumed_window_models: set[str] = field(default_factory=set)  # models whose window was said to be assumed

    def append_message(self, role: str, content: str | Sequence[JSON], origin: str) -> None:
        """Append a message and keep it, before anything else happens."""
        message = self.live_session.append_message(role, content, origin=origin, sent_at=self.clock())
        blocks = [content] if isinstance(content, str) else list(content)
        if origin == "tool":  # its calls are kept, or wait to be
            sink = self.sink
            self.writes.run(lambda: sink.record_message(message, blocks, "complete"))
        else:
            self.sink.record_message(message, blocks, "complete")

    def preview(self, text: str = "") -> Plan:
        """What would be sent now, were `text` said first. Changes nothing."""
        return self.preview_after([("user", text)] if text else ())[0]

    def preview_after(self, messages: Sequence[tuple[str, str | Sequence[JSON]]]) -> tuple[Plan, LiveSession]:
        """What would be sent, were these messages (role, content) said first; with the conversation that would then stand."""
        live_session = self.live_session
        if messages:
            live_session = LiveSession(live_session.session, live_session.ledger.counter, live_session.prices)
            for role, content in messages:
                live_session.append_message(role, repair_text(content), origin="prompt" if role == "user" else "answer")
        answers = make_answerer(live_session.session.recorded.answers.get, {**OFFLINE, **self.preview_answers})
        return request_checks.plan_request(
            self.plan, live_session, self.build_request(live_session), self.policy, answers
        ), live_session

    @property
    def policy(self) -> Policy:
        """The policy in force, with what was wished by hand before it, and what is mended behind it."""
        return make_sendable(self.settings.policy)

    @property
    def active_provider(self) -> Provider:
        """The provider, told which conversation it is; under a turn that can be left, each of its calls can."""
        provider = self.provider
        if isinstance(provider, SupportsHeaders):
            provider = provider.with_headers(request_headers.build_headers(self.live_session.session))
        return CancellableProvider(provider, self.cancellation) if self.cancellation else provider

    def build_request(self, live_session: LiveSession) -> Request:
        """The request that would be sent now of a conversation, with what is in force."""
        settings: dict[str, JSON] = {"max_tokens": self.settings.max_tokens}
        if self.settings.cache:
            longer = {"ttl": self.settings.cache} if self.settings.cache != "5m" else {}
            settings["cache_control"] = {"type": "ephemeral", **longer}
        if self.settings.thinking:
            settings["thinking"] = {"type": "adaptive"}
        elif self.settings.temperature is not None:
            settings["temperature"] = self.settings.temperature
        return live_session.build_request(
            model=self.settings.model, sent_at=self.clock(), settings=settings, window=self.settings.window
        )

    def build_answers(self, force_summaries: bool = False) -> Answers:
        """Who answers an ask of the next plan; `wished`: a summary is wanted whether or not the chat condenses by itself."""

        def known(key: str) -> Answer | None:
            found = self.live_session.facts.answers.get(key)
            return None if found is None or found.failed else found  # what failed once may work now

        settings = self.settings
        summaries = settings.summary_model or settings.model if settings.condense or force_summaries else ""
        shared = {"thinking": {"type": "adaptive"}} if settings.thinking else None
        chosen = bool(settings.summary_model)
        asked = dict(build_answers(self.active_provider, settings.model, summaries, shared, chosen_by_user=chosen))
        asked |= self.injected_answers
        return make_answerer(
            known, asked | ({"recall": self.recall_answers} if self.recall_answers else {}), self.record_answer
        )

    def record_answer(self, ask: Ask, answer: Answer) -> None:
        """Record what was answered, and what that cost."""
        if ask.kind == "expect" or (ask.kind in ("recall", "rank", "provide") and answer.failed):  # nobody was asked
            return
        self.spent_usd += self.compute_cost(answer.usage, answer.model) or 0
        self.record_fact(AnswerFact(ask.key, answer))

    def compute_cost(self, usage: Usage | None, model: str) -> Decimal | None:
        """USD of a usage at today's price; None where there is none."""
        priced = self.live_session.prices.compute_cost(usage, model, self.clock()) if usage else None
        return priced.total if priced else None

    def record_fact(self, fact: Fact) -> None:
        """Record a fact, and keep it."""
        sink = self.sink
        self.live_session.record_fact(fact)
        self.writes.run(lambda: sink.record_fact(fact))
