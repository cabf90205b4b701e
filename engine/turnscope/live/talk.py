"""A chat as it stands: what is in force for its next request, what was said, and what would be sent. It sends nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from turnscope.envelope.plan import Plan
from turnscope.live import carried, gateway
from turnscope.live.answering import answering
from turnscope.live.growing import Growing
from turnscope.live.keeping import Keeping
from turnscope.live.leaving import Leavable, Leaving
from turnscope.live.provider import Carries, Provider
from turnscope.live.sinks import Sink
from turnscope.live.tools import Tools
from turnscope.live.wire import whole
from turnscope.planning.answers import OFFLINE, Answers, answerer
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, sendable
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
    count_from: float = 0.7  # share of the budget from which the provider is asked to count before sending; 0 = never
    spend: Decimal | None = None
    growth: int = 0
    window: int = 0  # tokens of the model's, where its server or the person told it
    temperature: float | None = None  # None = the model's own; with thinking on, the API takes no other
    cache: Literal["", "5m", "1h"] = "5m"  # how long the prefix is cached; "" = nothing asks for it


@dataclass(slots=True)
class Talk:
    """What a chat holds. Not safe for two threads at once."""

    growing: Growing
    provider: Provider
    sink: Sink
    settings: Settings
    tools: Tools | None = None
    clock: Callable[[], float] = time.time
    plan: Plan | None = None
    spent: Decimal = field(default=Decimal(0))
    sizes: list[int] = field(default_factory=list)  # counted tokens of each request so far, as the model saw it
    place: Destination | None = None  # where it goes: nothing is sent elsewhere. None: nobody says so, and nothing is checked
    keeping: Keeping = field(default_factory=Keeping)
    bodies: Bodies = field(default_factory=Bodies)
    leaving: Leaving | None = None  # how the turn that goes on is left while it waits
    stopped: bool = False  # by the person, amid a turn
    recall: Answers | None = None  # who is asked for what is remembered across sessions; None = nobody
    beside: Mapping[AskKind, Answers] = field(default_factory=dict)  # who is asked for what else stands beside a chat
    looks: Mapping[AskKind, Answers] = field(default_factory=dict)  # who is asked where a request is only weighed: no network
    unsure: set[str] = field(default_factory=set)  # models whose window was said to be assumed

    def say(self, role: str, content: str | Sequence[JSON], origin: str) -> None:
        """Append a message and keep it, before anything else happens."""
        message = self.growing.message(role, content, origin=origin, sent_at=self.clock())
        blocks = [content] if isinstance(content, str) else list(content)
        if origin == "tool":  # its calls are kept, or wait to be
            sink = self.sink
            self.keeping.do(lambda: sink.message(message, blocks, "complete"))
        else:
            self.sink.message(message, blocks, "complete")

    def planned(self, text: str = "") -> Plan:
        """What would be sent now, were `text` said first. Changes nothing."""
        return self.weighed([("user", text)] if text else ())[0]

    def weighed(self, said: Sequence[tuple[str, str | Sequence[JSON]]]) -> tuple[Plan, Growing]:
        """What would be sent, were these messages (role, content) said first; with the conversation that would then stand."""
        growing = self.growing
        if said:
            growing = Growing(growing.session, growing.ledger.counter, growing.prices)
            for role, content in said:
                growing.message(role, whole(content), origin="prompt" if role == "user" else "answer")
        answers = answerer(growing.session.recorded.answers.get, {**OFFLINE, **self.looks})
        return gateway.stepped(self.plan, growing, self.asked(growing), self.policy, answers), growing

    @property
    def policy(self) -> Policy:
        """The policy in force, with what was wished by hand before it, and what is mended behind it."""
        return sendable(self.settings.policy)

    @property
    def reached(self) -> Provider:
        """The provider, told which conversation it is; under a turn that can be left, each of its calls can."""
        provider = self.provider
        if isinstance(provider, Carries):
            provider = provider.under(carried.headers(self.growing.session))
        return Leavable(provider, self.leaving) if self.leaving else provider

    def asked(self, growing: Growing) -> Request:
        """The request that would be sent now of a conversation, with what is in force."""
        settings: dict[str, JSON] = {"max_tokens": self.settings.max_tokens}
        if self.settings.cache:
            longer = {"ttl": self.settings.cache} if self.settings.cache != "5m" else {}
            settings["cache_control"] = {"type": "ephemeral", **longer}
        if self.settings.thinking:
            settings["thinking"] = {"type": "adaptive"}
        elif self.settings.temperature is not None:
            settings["temperature"] = self.settings.temperature
        return growing.request(model=self.settings.model, sent_at=self.clock(), settings=settings, window=self.settings.window)

    def answers(self, wished: bool = False) -> Answers:
        """Who answers an ask of the next plan; `wished`: a summary is wanted whether or not the chat condenses by itself."""

        def known(key: str) -> Answer | None:
            found = self.growing.recorded.answers.get(key)
            return None if found is None or found.failed else found  # what failed once may work now

        settings = self.settings
        summaries = settings.summary_model or settings.model if settings.condense or wished else ""
        shared = {"thinking": {"type": "adaptive"}} if settings.thinking else None
        chosen = bool(settings.summary_model)
        asked = dict(answering(self.reached, settings.model, summaries, shared, chosen=chosen))
        asked |= self.beside
        return answerer(known, asked | ({"recall": self.recall} if self.recall else {}), self.answered)

    def answered(self, ask: Ask, answer: Answer) -> None:
        """Record what was answered, and what that cost."""
        if ask.kind == "expect" or (ask.kind in ("recall", "rank", "provide") and answer.failed):  # nobody was asked
            return
        self.spent += self.cost(answer.usage, answer.model) or 0
        self.note(AnswerFact(ask.key, answer))

    def cost(self, usage: Usage | None, model: str) -> Decimal | None:
        """USD of a usage at today's price; None where there is none."""
        priced = self.growing.prices.compute_cost(usage, model, self.clock()) if usage else None
        return priced.total if priced else None

    def note(self, fact: Fact) -> None:
        """Record a fact, and keep it."""
        sink = self.sink
        self.growing.note(fact)
        self.keeping.do(lambda: sink.fact(fact))
