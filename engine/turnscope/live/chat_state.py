"""The state of a live chat: its settings, its session, and what the next request would be. It sends nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Literal

from turnscope.counting.tokens import count_texts
from turnscope.envelope.budget import compute_budget
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx
from turnscope.errors import RuleError
from turnscope.live import request_checks, request_headers
from turnscope.live.cancellation import CancellableProvider, Cancellation
from turnscope.live.live_session import LiveSession
from turnscope.live.offered_models import limit_to_place
from turnscope.live.provider import Provider, SupportsConversations, SupportsHeaders
from turnscope.live.rule_queries import build_answers, request_in_parts
from turnscope.live.sinks import Sink
from turnscope.live.stream_assembler import repair_text
from turnscope.live.tools import Tools
from turnscope.live.write_retry import WriteQueue
from turnscope.planning.answers import OFFLINE, Answers, add_answers, make_answerer
from turnscope.planning.assemble import plan_step
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, apply_model_table, keep_repairs_only, keep_wishes_only, make_sendable
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Answer, AnswerFact, Ask, AskKind, Fact, Request, Usage

DEFAULT_ANSWER = 1_024  # tokens of an answer, where neither settings nor policy say more
SUMMARY_SHARE = 0.8  # of a model's window that a request for a summary may fill; its tokens are estimated


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the next request.

    Args:
        model: The name of the model.
        policy: What the request carries.
        max_tokens: The most tokens of an answer; 0 = the policy's part of the window, or 1,024 if it names none.
        thinking: Whether the model thinks before it answers.
        summary_model: The model that writes summaries; "" = the one that the policy names, or `model`.
        condense: Whether rules may ask a model for summaries.
        count_from_share: Share of the budget from which the provider counts a prompt before it is sent; 0 = never.
        spend_limit: USD of the whole chat. From there on the chat asks before it sends. None = no limit.
        turn_limit: USD of one turn. From there on the chat asks before it sends another request. None = no limit.
        growth_limit: Tokens by which one turn may grow before the chat asks; 0 = no limit.
        window: The model's window in tokens, if its server or the user gave it; 0 = look it up.
        temperature: None = the model's default. The API allows no other value while the model thinks.
        cache: Time to live of the cached prefix; "" = no caching.
    """

    model: str
    policy: Policy
    max_tokens: int = 1_024
    thinking: bool = False
    summary_model: str = ""
    condense: bool = True
    count_from_share: float = 0.7
    spend_limit: Decimal | None = None
    turn_limit: Decimal | None = Decimal(5)
    growth_limit: int = 0
    window: int = 0
    temperature: float | None = None
    cache: Literal["", "5m", "1h"] = "5m"


@dataclass(slots=True)
class ChatState:
    """The state of one live chat. Not safe for two threads at once.

    Args:
        live_session: The session as it grows.
        provider: Where requests go.
        sink: The store of the chat, and further sinks.
        settings: The settings of the next request.
        tools: The tools that the model may call; None = none.
        clock: Gives the time in seconds since the epoch.
        plan: The plan of the last request.
        spent_usd: What the chat has cost so far.
        prompt_tokens: The counted prompt of each request so far, as the model saw it.
        destination: Where the chat goes. It is sent nowhere else. None = a chat that is not stored; nothing is checked.
        writes: Writes that wait for the store.
        bodies: Request bodies, each made from the one before.
        cancellation: Cancels the turn that runs now.
        stopped_by_user: Whether the user stopped the last turn before it ended.
        recall_answers: Answers queries for facts of other chats; None = there are none.
        injected_answers: Answers queries for other context that is injected, by kind.
        preview_answers: The same for a preview, which uses no network.
        assumed_window_models: Models for which a `WindowAssumed` event was sent already.
        served_models: The models that the chat's server lists; None = it was not queried.
    """

    live_session: LiveSession
    provider: Provider
    sink: Sink
    settings: Settings
    tools: Tools | None = None
    clock: Callable[[], float] = time.time
    plan: Plan | None = None
    spent_usd: Decimal = field(default=Decimal(0))
    prompt_tokens: list[int] = field(default_factory=list)
    destination: Destination | None = None
    writes: WriteQueue = field(default_factory=WriteQueue)
    bodies: Bodies = field(default_factory=Bodies)
    cancellation: Cancellation | None = None
    stopped_by_user: bool = False
    recall_answers: Answers | None = None
    injected_answers: Mapping[AskKind, Answers] = field(default_factory=dict)
    preview_answers: Mapping[AskKind, Answers] = field(default_factory=dict)
    assumed_window_models: set[str] = field(default_factory=set)
    served_models: frozenset[str] | None = None

    def append_message(self, role: str, content: str | Sequence[JSON], origin: str) -> None:
        """Append a message to the session and store it.

        Tool results may wait for the store; every other message is stored on return.

        Args:
            role: system, tools, user or assistant.
            content: A text, or blocks in Anthropic's shape.
            origin: Where the message comes from, such as prompt, tool or answer; see `Message.origin`.

        Raises:
            StorageError: The message could not be stored.
        """
        message = self.live_session.append_message(role, content, origin=origin, sent_at=self.clock())
        blocks = [content] if isinstance(content, str) else list(content)
        if origin == "tool":  # the answer with its calls is stored already, or waits too
            sink = self.sink
            self.writes.run(lambda: sink.record_message(message, blocks, "complete"))
        else:
            self.sink.record_message(message, blocks, "complete")

    def preview(self, text: str = "") -> Plan:
        """Plan the next request, as if `text` were sent first. Changes nothing."""
        return self.preview_after([("user", text)] if text else ())[0]

    def preview_after(self, messages: Sequence[tuple[str, str | Sequence[JSON]]]) -> tuple[Plan, LiveSession]:
        """Plan the request that would follow these messages. Changes nothing.

        Args:
            messages: Role and content of each message.

        Returns:
            The plan, and the session with the messages.
        """
        live_session = self.live_session
        if messages:
            live_session = LiveSession(live_session.session, live_session.ledger.counter, live_session.prices)
            for role, content in messages:
                live_session.append_message(role, repair_text(content), origin="prompt" if role == "user" else "answer")
        answers = make_answerer(live_session.session.recorded.answers.get, add_answers(OFFLINE, self.preview_answers))
        request = self.build_request(live_session)
        try:
            plan = request_checks.plan_request(self.plan, live_session, request, self.policy, answers)
        except RuleError:  # the request itself falls back to this as well, with less
            plan = request_checks.plan_request(self.plan, live_session, request, keep_repairs_only(self.policy), answers)
        return plan, live_session

    def plan_by_hand(self) -> Plan:
        """Return the plan that the next request starts from: with all wishes of the user, before the policy."""
        live_session = self.live_session
        policy = keep_wishes_only(self.settings.policy)
        return plan_step(
            self.plan, live_session.session, self.build_request(live_session), policy, live_session.get_policy_basis(policy)
        )

    def build_context(self, plan: Plan) -> Ctx:
        """Return what is known of the next request, for what a person changes by hand.

        Args:
            plan: Its plan before the policy (`plan_by_hand`).
        """
        basis = self.live_session.basis
        return Ctx(
            session=self.live_session.session,
            request=plan.request,
            index=basis.index,
            ledger=basis.ledger,
            own=basis.own,
            previous=self.plan,
            calibration=plan.calibration,
            budget=plan.budget,
            limit=plan.budget.limit,
            previous_usage=0,
            prices=basis.prices,
        )

    @property
    def policy(self) -> Policy:
        """The policy in force: wishes of the user come before its rules, and repairs after them.

        It falls back to no model that the chat's place does not offer.
        """
        return make_sendable(limit_to_place(self.settings.policy, self.destination, self.served_models or ()))

    @property
    def active_provider(self) -> Provider:
        """The provider with the headers of this chat. While a turn runs its calls can be cancelled."""
        provider = self.provider
        if isinstance(provider, SupportsHeaders):
            provider = provider.with_headers(request_headers.build_headers(self.live_session.session))
        if isinstance(provider, SupportsConversations):
            provider = provider.with_conversation(request_headers.build_cache_key(self.live_session.session))
        return CancellableProvider(provider, self.cancellation) if self.cancellation else provider

    @property
    def answer_limit(self) -> int:
        """The most tokens of the next answer. Where none is set, a policy that splits the window says it: 40 % of it, say."""
        if self.settings.max_tokens:
            return self.settings.max_tokens
        facts = self.live_session.prices.find_facts(self.settings.model)
        policy, _ = apply_model_table(self.policy, self.settings.model, facts.name)
        part = compute_budget(policy.budget, self.settings.window or facts.window).max_output
        return min(part or DEFAULT_ANSWER, facts.max_output or part or DEFAULT_ANSWER)

    def build_request(self, live_session: LiveSession) -> Request:
        """Build the next request of a session with the settings in force."""
        settings: dict[str, JSON] = {"max_tokens": self.answer_limit}
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
        """Return the function that answers the queries of rules: recorded answers first, then a model, the provider or a store.

        Args:
            force_summaries: Whether a model may write summaries even if the settings switch them off.
        """

        def find_recorded(key: str) -> Answer | None:
            found = self.live_session.facts.answers.get(key)
            return None if found is None or found.failed else found  # a failed query may work now

        settings = self.settings
        summaries = settings.summary_model or settings.model if settings.condense or force_summaries else ""
        shared = {"thinking": {"type": "adaptive"}} if settings.thinking else None
        chosen = bool(settings.summary_model)
        answers = dict(
            build_answers(
                self.active_provider,
                settings.model,
                summaries,
                shared,
                chosen_by_user=chosen,
                in_parts=partial(self._ask_in_parts, summaries),
            )
        )
        answers = add_answers(answers, self.injected_answers)
        answers |= {"recall": self.recall_answers} if self.recall_answers else {}
        return make_answerer(find_recorded, answers, self.record_answer)

    def _ask_in_parts(self, model: str, ask_one: Answers, ask: Ask) -> Answer:
        """Ask a model for a summary in as many requests as its window needs."""
        own = self.settings.window if model == self.settings.model else 0
        window = own or self.live_session.prices.find_facts(model).window
        if not window:
            return ask_one(ask)
        room = round(SUMMARY_SHARE * window) - (ask.max_tokens or 1_000)
        return request_in_parts(ask_one, room, lambda text: count_texts([text], self.live_session.ledger.counter)[0], ask)

    def record_answer(self, ask: Ask, answer: Answer) -> None:
        """Record the answer to a rule query, and add its cost.

        Args:
            ask: The query.
            answer: Its answer. A failed lookup is not recorded.
        """
        if ask.kind == "expect" or (ask.kind in ("recall", "rank", "provide") and answer.failed):  # nobody answered
            return
        self.spent_usd += self.compute_cost(answer.usage, answer.model) or 0
        self.record_fact(AnswerFact(ask.key, answer))

    def compute_cost(self, usage: Usage | None, model: str) -> Decimal | None:
        """Return the cost of a usage in USD at the price of now.

        Args:
            usage: The billed tokens; None = unknown.
            model: The model that was billed.

        Returns:
            The cost; None if the usage or the price is unknown.
        """
        priced = self.live_session.prices.compute_cost(usage, model, self.clock()) if usage else None
        return priced.total if priced else None

    def record_fact(self, fact: Fact) -> None:
        """Record a fact in the session and store it. The write may wait for the store."""
        sink = self.sink
        self.live_session.record_fact(fact)
        self.writes.run(lambda: sink.record_fact(fact))
