"""A conversation that passes the tap, as its client believes it: it grows with each body, and is planned as a chat is.

What a request was planned to be is carried on, so that the next one begins with the same prompt and the provider's cache holds.
Not safe for two threads at once. Knows no network and no log.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from msgspec import structs

from turnscope.counting.tokens import make_estimator
from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError
from turnscope.live import fall_back, request_checks
from turnscope.live.chat_state import DEFAULT_ANSWER, ChatState, Settings
from turnscope.live.live_session import LiveSession
from turnscope.live.offered_models import limit_to_place
from turnscope.live.provider import Provider
from turnscope.live.sinks import NullSink
from turnscope.planning.assemble import apply_response, reconcile_plan
from turnscope.planning.policy import REPAIRS, Policy, add_repairs, add_wishes_rule
from turnscope.pricing.prices import Prices
from turnscope.session.builder import infer_origin
from turnscope.session.destination import Destination
from turnscope.session.fork import truncate_session
from turnscope.session.model import JSON, CountFact, Request, Session, Usage
from turnscope.tap.client_bodies import ClientBody, Doubt

CLIENTS_OWN = ("drop_blank_texts", "end_with_question")
"""Repairs of what no rule that cuts can break: where a client sends so, it means it."""
SIGNED = "strip_stale_thinking"  # the repair of signed thinking, which one API has
DESTINATIONS = {
    "anthropic-messages": Destination("anthropic"),
    "openai-chat": Destination("openai-chat"),
    "openai-responses": Destination("openai"),
    "gemini": Destination("gemini"),
}


@dataclass(slots=True)
class TapChat(ChatState):
    """The state of a chat whose messages and settings come from a client. `fields`: settings of the request at hand."""

    fields: Mapping[str, JSON] = field(default_factory=dict)
    model: str = ""

    @property
    def policy(self) -> Policy:
        """The policy as it was fitted to the API (`fit_policy`)."""
        return self.settings.policy

    @property
    def answer_limit(self) -> int:
        """The most tokens of the next answer: what the client asks for."""
        most = self.fields.get("max_tokens")
        return most if isinstance(most, int) and most > 0 else DEFAULT_ANSWER

    def build_request(self, live_session: LiveSession) -> Request:
        """Build the next request with the client's settings."""
        window = self.settings.window
        return live_session.build_request(model=self.model, sent_at=self.clock(), settings=dict(self.fields), window=window)


@dataclass(slots=True)
class Sent:
    """A request that was planned, and what is known of its answer.

    Attributes:
        messages: How many messages of the client it had.
        plan: Its plan.
        before: The plan that it was planned on.
        whole: It left as its client sent it, whatever the plan says.
        usage: What was billed; None = unknown.
        answered_at: When its answer ended; None = it failed, or still runs.
    """

    messages: int
    plan: Plan
    before: Plan | None
    whole: bool = False
    usage: Usage | None = None
    answered_at: float | None = None
    stop_reason: str = ""
    count: CountFact | None = None  # what the provider's refusal says of its size


class PlannedConversation:
    """A conversation.

    Args:
        chat: Its state. Its session holds tools and system prompt, and what of the conversation is known already.
        body: The body that it begins with.
        keys: Keys of the client's messages that the session holds.
        steps: The requests that were planned, in order. The last one is not yet part of the session.
    """

    def __init__(self, chat: TapChat, body: ClientBody, keys: Sequence[Hashable] = (), steps: Sequence[Sent] = ()) -> None:
        self.chat, self.api, self.static_key = chat, body.api, body.static_key
        self.keys, self.steps = list(keys), list(steps)
        self.start = sum(len(one.parts) for one in body.static if one)  # address of the conversation's first block

    @property
    def session(self) -> Session:
        """The session as it is now."""
        return self.chat.live_session.session

    def count_shared(self, body: ClientBody) -> int:
        """Count the messages with which this conversation and a body both begin; 0 where tools or system prompt differ."""
        if (body.api, body.static_key) != (self.api, self.static_key):
            return 0
        pairs = zip(self.keys, body.messages, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].key, pairs))

    def follow(self, body: ClientBody) -> PlannedConversation:
        """Give the conversation that a body goes on with: this one, or a copy of what both have, after which they differ.

        A body that is sent again begins behind the request before it.
        """
        shared = self.count_shared(body)
        most = min(shared, len(body.messages) - 1)
        if shared == len(self.keys) and self.steps and self.steps[-1].messages <= most:
            return self
        kept = [step for step in self.steps if step.messages <= most]
        if kept:
            last = kept[-1]
            start = truncate_session(self.session, last.plan.request.cut, last.plan.request.n)
            copy = PlannedConversation(_make_chat(self.chat, start, last.before), body, self.keys[: last.messages], kept)
        else:
            copy = begin_conversation(self.chat, body)
        again = next((step for step in reversed(self.steps) if step.messages == shared == len(body.messages)), None)
        if again and again.count:
            copy.chat.record_fact(again.count)
        return copy

    def is_continued_by(self, body: ClientBody, shared: int) -> bool:
        """Whether a body goes on with all that is known, or is the newest request once more.

        Args:
            body: The body.
            shared: How many messages both begin with.
        """
        return shared == len(self.keys) or (bool(self.steps) and shared == len(body.messages) == self.steps[-1].messages)

    def prepare(self, model: str, fields: Mapping[str, JSON], provider: Provider) -> None:
        """Prepare for the next request.

        Args:
            model: Its model.
            fields: Its settings, `max_tokens` among them.
            provider: Answers what rules ask.
        """
        chat = self.chat
        chat.model, chat.fields, chat.provider = model, fields, provider
        if chat.settings.model != model:
            chat.settings = replace(chat.settings, model=model)

    def extend(self, body: ClientBody) -> None:
        """Append what a body has beyond what is known. What comes first is the answer to the newest request."""
        new = body.messages[len(self.keys) :]
        if self.steps and not self._is_closed():
            answered = bool(new) and new[0].role == "assistant"
            if answered:
                self._append(body, new[0].role, new[0].parts)
                new = new[1:]
            self._close(self.steps[-1], answered=answered)
        for message in new:
            self._append(body, message.role, message.parts)

    def _is_closed(self) -> bool:
        return self.steps[-1].plan.request.n < len(self.session.requests)

    def _append(self, body: ClientBody, role: str, parts: Sequence[JSON]) -> None:
        bare = len(parts) == 1 and isinstance(parts[0], str)
        origin = infer_origin(role, [(part, "") for part in parts])
        content = parts[0] if bare else parts
        self.chat.live_session.append_message(role, content, origin=origin, sent_at=self.chat.clock(), fence=role == "system")
        self.keys.append(body.messages[len(self.keys)].key)

    def _close(self, sent: Sent, *, answered: bool) -> None:
        """Append a request to the session, with its answer and what was billed, and fit the calibration to that."""
        live, plan = self.chat.live_session, sent.plan
        about = {"usage": sent.usage, "answered_at": sent.answered_at, "stop_reason": sent.stop_reason or None}
        request = live.append_request(structs.replace(plan.request, **about), None if answered else plan.request.cut)
        if sent.whole and sent.usage and sent.usage.answered_prompt_tokens:  # billed was what the policy did not touch
            use, size = sent.usage, live.ledger.total[request.cut]
            learned = plan.calibration.learn(
                size, use.answered_prompt_tokens, request.model, use.cache_read_input_tokens, use.cache_creation_input_tokens
            )
            self.chat.plan = structs.replace(plan, request=request, calibration=learned, onward=None)
            return
        if sent.usage:
            plan = apply_response(structs.replace(plan, request=request), live.session, live.basis)
        self.chat.plan = reconcile_plan(structs.replace(plan, request=request))

    def plan(self) -> tuple[Sent, ContextWindowExceededError | None]:
        """Plan the next request: under the policy, and where that makes too little room without it.

        Returns:
            The request, and why it must not be sent.

        Raises:
            TurnscopeError: A rule made a mistake.
            Doubt: The window is not known.
        """
        chat, live = self.chat, self.chat.live_session
        request = chat.build_request(live)
        before, answers = chat.plan, chat.build_answers()
        plan = request_checks.plan_request(before, live, request, chat.policy, answers)
        if not plan.budget.known:
            raise Doubt(f"the window of {plan.model or 'the model'} is not known; --window names it")
        least = _forgo_answer(plan) if plan.verdict == "refuse" else plan  # its answer's limit could be lowered
        refused = request_checks.check_window(least, live.session, live.ledger)
        if refused and plan.verdict != "refuse":
            again, _ = fall_back.plan_without_policy(chat, plan, refused)
            plan, refused = (again, None) if again else (plan, refused)
        sent = Sent(len(self.keys), plan, before)
        self.steps.append(sent)
        return sent, refused


def _forgo_answer(plan: Plan) -> Plan:
    """The plan of the same prompt without room for an answer."""
    return structs.replace(plan, request=structs.replace(plan.request, settings={**plan.request.settings, "max_tokens": 0}))


def begin_conversation(like: TapChat, body: ClientBody) -> PlannedConversation:
    """Begin a conversation anew with a body.

    Args:
        like: A chat with the same provider and settings.
        body: The body.
    """
    chat = _make_chat(like, Session(like.live_session.session.id, source="tap"), None, body.model)
    for role, one in zip(("tools", "system"), body.static, strict=True):
        if one:
            parts = one.parts[0] if one.bare else one.parts
            chat.live_session.append_message(role, parts, origin="system")
    return PlannedConversation(chat, body)


def make_chat(provider: Provider, policy: Policy, prices: Prices, api: str, window: int = 0) -> TapChat:
    """Make the state that the conversations of an API begin with.

    Args:
        provider: Answers what rules ask.
        policy: The policy.
        prices: Facts of models.
        api: The API.
        window: The window in tokens; 0 = the model's.
    """
    destination = DESTINATIONS[api]
    fitted = fit_policy(limit_to_place(policy, destination, ()), api)
    live = LiveSession(Session("tap", source="tap"), make_estimator(""), prices)
    settings = Settings("", fitted, window=window)
    return TapChat(live, provider, NullSink(), settings, destination=destination)


def _make_chat(like: TapChat, session: Session, plan: Plan | None, model: str = "") -> TapChat:
    prices = like.live_session.prices
    counter = make_estimator(prices.find_facts(model).family) if model else like.live_session.ledger.counter
    live = LiveSession(session, counter, prices)
    settings = replace(like.settings, model=model or like.settings.model)
    return TapChat(live, like.provider, NullSink(), settings, plan=plan, destination=like.destination, clock=like.clock)


def fit_policy(policy: Policy, api: str) -> Policy:
    """Return the policy with those repairs alone that its own cuts may need.

    Args:
        policy: The policy.
        api: The API.
    """
    own = {step.rule.name for step in policy.rules}
    left = {*CLIENTS_OWN} if api == "anthropic-messages" else {*CLIENTS_OWN, SIGNED}
    whole = add_repairs(add_wishes_rule(policy))
    rules = tuple(step for step in whole.rules if step.rule.name in own or step.rule.name not in left & {*REPAIRS})
    return replace(whole, rules=rules)
