"""Plans each request that passes the tap, as a chat's requests are planned, and says what leaves in its place.

A request is refused where a budget is used up or the policy leaves it no room; it is edited where the policy cuts; else it
passes. So it does wherever there is any doubt: an unknown form, a policy that fails, an edit that does not read as planned.
Called from threads; each conversation is planned by one of them at a time.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, ProviderError, TurnscopeError
from turnscope.live import request_checks
from turnscope.live.betas import list_betas
from turnscope.live.provider_errors import explain_refusal
from turnscope.planning.lint import Problem, lint
from turnscope.planning.policy import Policy
from turnscope.planning.refusals import select_refused
from turnscope.pricing.prices import PRICES, Prices
from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.session_names import find_session_name
from turnscope.session.model import JSON, Usage
from turnscope.tap import upstream_answers
from turnscope.tap.answer_usage import count_prompt, measure_answer
from turnscope.tap.body_edits import Outline, check_body, write_body
from turnscope.tap.client_bodies import CONVERSATIONS, ClientBody, Doubt, parse_client_body
from turnscope.tap.decoding import decode_all
from turnscope.tap.expected_costs import ExpectedCost, expect_cost
from turnscope.tap.planned_conversation import (
    DESTINATIONS,
    PlannedConversation,
    Sent,
    TapChat,
    begin_conversation,
    make_chat,
)
from turnscope.tap.refusal_forms import Refusal, refuse_size
from turnscope.tap.spending import RUN, Budgets, Hold, Spending
from turnscope.tap.spending_ledger import SpendingLedger
from turnscope.tap.upstream_answers import Ask, UpstreamProvider

MOST_CONVERSATIONS = 32  # that are remembered; the one that was silent longest is forgotten first
MOST_STEPS = 128  # requests of one conversation from which a copy of it can go on
MIN_THINKING = 1_024  # tokens; the Messages API accepts no smaller budget
USAGE_SECONDS = 1.0  # how long a request waits until the answer before it, which has ended, is read
HOLD_SECONDS = 0.25  # how often a request that waits for others looks at what other taps do
_LIMITS = {
    "anthropic-messages": ("max_tokens",),
    "openai-chat": ("max_completion_tokens", "max_tokens"),
    "openai-responses": ("max_output_tokens",),
}
Action = Literal["passed", "edited", "refused"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What passing requests are held to.

    Attributes:
        policy: The policy; None = there are budgets alone.
        window: The window in tokens; 0 = the model's.
        dry_run: Nothing is changed or refused; the log says what would have been.
        budgets: The most USD.
        prices: Facts and prices of models.
    """

    policy: Policy | None = None
    window: int = 0
    dry_run: bool = False
    budgets: Budgets = field(default_factory=Budgets)
    prices: Prices = PRICES


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as its client sent it. `headers`: by names in lower case; `model`: what its address names."""

    api: str
    headers: Mapping[str, str]
    body: bytes
    model: str = ""


@dataclass(slots=True)
class Ruling:
    """What becomes of a request.

    Attributes:
        action: What was decided. Of a dry run, what would be done.
        why: Why it passes unchanged, or is refused.
        text: The body that leaves, or would leave; "" = as it came.
        model: The model that the address is to name instead; "" = the same.
        betas: Features of Anthropic's API that the new body needs.
        refusal: The answer in the provider's place.
        dry_run: It passes as it came, whatever was decided.
        facts: More for the log.
        sent: Where its answer is noted; None = it was not planned.
        session: The session that it belongs to.
        api: Its API.
        body: Its body as text.
        hold: What a budget holds back for it; None = nothing.
    """

    action: Action = "passed"
    why: str = ""
    text: str = ""
    model: str = ""
    betas: tuple[str, ...] = ()
    refusal: Refusal | None = None
    dry_run: bool = False
    facts: dict[str, JSON] = field(default_factory=dict)
    sent: Sent | None = None
    session: str = RUN
    api: str = ""
    body: str = ""
    hold: Hold | None = None
    ended: bool = False  # its answer has ended
    answered: threading.Event = field(default_factory=threading.Event)  # and was read

    @property
    def is_changed(self) -> bool:
        """Whether something else leaves than came."""
        return self.action == "edited" and not self.dry_run

    @property
    def is_refused(self) -> bool:
        """Whether nothing leaves."""
        return self.action == "refused" and not self.dry_run


@dataclass(slots=True)
class _Known:
    """A conversation, who plans it, and whether the answer to its newest request was read."""

    conversation: PlannedConversation
    lock: threading.Lock = field(default_factory=threading.Lock)
    pending: Ruling | None = None


class Enforcer:
    """Rules on the requests of one tap.

    Args:
        rules: What they are held to.
        report: Is told once of each reason for which a request passes unchanged.
        clock: Gives the time in seconds since the Unix epoch.
        ledger: What other taps spend; None = nothing is known of others.
    """

    def __init__(
        self,
        rules: Rules,
        report: Callable[[str], None] = print,
        clock: Callable[[], float] = time.time,
        ledger: SpendingLedger | None = None,
    ) -> None:
        self.rules, self.clock = rules, clock
        self.spending = Spending(rules.budgets, rules.prices, report, clock, ledger)
        self._report, self._reported = report, set[str]()
        self._known: list[_Known] = []
        self._templates: dict[str, TapChat] = {}
        self._lock = threading.Lock()

    def rule(self, request: Outgoing, ask: Ask | None = None, is_given_up: Callable[[], bool] = lambda: False) -> Ruling:
        """Rule on a request. Never raises.

        Args:
            request: The request.
            ask: Asks the request's provider; None = no model can be asked.
            is_given_up: Whether nobody waits for the ruling any more: then the request has passed as it came.
        """
        began = time.perf_counter()
        ruling = Ruling(api=request.api, dry_run=self.rules.dry_run)
        try:
            self._rule(ruling, request, ask, is_given_up)
        except Doubt as doubt:
            self._pass(ruling, str(doubt))
        except TurnscopeError as error:
            self._pass(ruling, f"the policy failed: {error.what}")
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the request passes
            self._pass(ruling, f"an error of Turnscope's own: {type(error).__name__}: {error}")
        ruling.facts["ms"] = round((time.perf_counter() - began) * 1_000, 1)
        return ruling

    def hold(self, ruling: Ruling, request: Outgoing, is_given_up: Callable[[], bool]) -> None:
        """Hold back what a request may cost, before it leaves; refuse it where no budget pays for it. Never raises.

        Where running requests hold back what it needs, this takes until one of them ends.

        Args:
            ruling: What was ruled on it.
            request: The request.
            is_given_up: Whether nobody waits for it any more.
        """
        if not self.rules.budgets.are_set or ruling.is_refused:
            return
        try:
            self._hold(ruling, request, is_given_up)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the request passes
            self.say_once(f"an error of Turnscope's own: {type(error).__name__}: {error}", "a budget does not count a request")

    def _hold(self, ruling: Ruling, request: Outgoing, is_given_up: Callable[[], bool]) -> None:
        plan = ruling.sent.plan if ruling.sent and ruling.is_changed else None
        if not ruling.body:  # it was given up before it was read
            ruling.body = decode_all(request.body, request.headers.get("content-encoding", ""))[0].decode("utf-8", "replace")
            ruling.session = _find_session(request, ruling.body)
        body, model = ruling.text if ruling.is_changed else ruling.body, ruling.model or request.model
        cost = expect_cost(body, model, self.rules.prices, self.clock(), plan.expected_tokens if plan else 0)
        if cost is None:
            self.spending.say_unpriced(model)
            return
        found = self._wait_for_hold(request.api, ruling.session, cost, lambda: is_given_up() or self.rules.dry_run)
        if isinstance(found, Refusal):
            self._refuse_spending(ruling, found)
        else:
            ruling.hold = found

    def _wait_for_hold(
        self, api: str, session: str, cost: ExpectedCost, is_given_up: Callable[[], bool]
    ) -> Hold | Refusal | None:
        """Hold back what a request may cost, once those that run leave so much. None where nobody waits for it any more."""
        while (found := self.spending.hold(api, session, cost)) is None and not is_given_up():
            self.spending.wait(HOLD_SECONDS)
        return found

    def _refuse_spending(self, ruling: Ruling, refusal: Refusal) -> None:
        ruling.action, ruling.refusal, ruling.why, ruling.text = "refused", refusal, refusal.what, ""

    def release(self, ruling: Ruling) -> None:
        """Hold nothing back any more for a request that has no answer. Again it does nothing."""
        self.spending.release(ruling.hold)

    def warm_up(self) -> None:
        """Load what the first ruling needs, so that the first request does not wait for it."""
        body = '{"model": "", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}'
        with suppress(Exception):
            silent = Enforcer(self.rules, lambda _: None, self.clock)
            silent.rule(Outgoing("anthropic-messages", {}, body.encode()))

    def _pass(self, ruling: Ruling, why: str) -> None:
        ruling.action, ruling.why, ruling.text, ruling.refusal = "passed", why, "", None
        ruling.model, ruling.betas = "", ()
        if ruling.sent:
            ruling.sent.whole = True
        self.say_once(why)

    def say_once(self, why: str, what: str = "a request passes unchanged") -> None:
        """Report why a request passes unchanged, or a warning of the policy, unless that was reported.

        Args:
            why: The reason.
            what: What happens.
        """
        kind = re.sub(r"\d+", "", why)
        if kind not in self._reported:
            self._reported.add(kind)
            self._report(f"{what}: {why} (such are reported once)")

    def _rule(self, ruling: Ruling, request: Outgoing, ask: Ask | None, is_given_up: Callable[[], bool]) -> None:
        data, trouble = decode_all(request.body, request.headers.get("content-encoding", ""))
        try:
            ruling.body = data.decode()
        except UnicodeDecodeError as error:
            raise Doubt("the body is no UTF-8 text") from error
        if trouble:
            raise Doubt(trouble)
        ruling.session = _find_session(request, ruling.body)
        if refusal := self.spending.refuse(request.api, ruling.session):
            self._refuse_spending(ruling, refusal)
            return
        if self.rules.policy is None or request.api not in CONVERSATIONS:
            return
        body = parse_client_body(request.api, ruling.body, request.model)
        if not body.messages:
            raise Doubt("the conversation is empty")
        provider = self._make_provider(request, ruling, body, ask, is_given_up)
        with self._open_conversation(body) as known:
            self._plan(known, ruling, body, provider)
            if is_given_up():
                known.conversation.steps.clear()  # what it planned never left: the next request begins anew
                known.conversation.keys.clear()

    def _plan(self, known: _Known, ruling: Ruling, body: ClientBody, provider: UpstreamProvider) -> None:
        if known.pending and known.pending.ended:
            known.pending.answered.wait(USAGE_SECONDS)
        known.conversation = conversation = known.conversation.follow(body)
        conversation.prepare(body.model, _read_fields(body), provider)
        conversation.extend(body)
        sent, refused = conversation.plan()
        del conversation.steps[:-MOST_STEPS]
        ruling.sent, known.pending = sent, ruling
        ruling.facts |= _describe_plan(sent.plan, conversation)
        ruling.facts |= {"held_to": self.rules.window} if self.rules.window else {}
        sent.whole = ruling.dry_run
        for decision in sent.plan.decisions:
            if decision.action == "warn":
                self.say_once(decision.edit.because, "the policy warns")
        if refused:
            self._refuse(ruling, refused)
            return
        ruling.text = self._write(ruling, conversation, body, sent)
        if ruling.text:
            ruling.action = "edited"

    def _refuse(self, ruling: Ruling, error: ContextWindowExceededError) -> None:
        error.conversation_id = ruling.session
        ruling.action, ruling.refusal, ruling.why = "refused", refuse_size(ruling.api, error), error.what

    def _write(self, ruling: Ruling, conversation: PlannedConversation, body: ClientBody, sent: Sent) -> str:
        """Write the body of a plan; "" where it is the client's own."""
        plan, session, chat = sent.plan, conversation.session, conversation.chat
        outline = Outline(body, session, conversation.start)
        outline.read(plan.after)
        changes = _list_changes(body, plan, self.rules.policy)
        if plan.model != body.model:
            if "model" in body.members:
                changes["model"] = plan.model
            else:
                ruling.model = plan.model
        if outline.is_whole and not changes and not ruling.model:
            return ""
        made = chat.bodies.build(plan, session)
        if not outline.is_whole:
            wrong = request_checks.check_body(made, plan.model, self.rules.prices, chat.bodies, chat.destination)
            if wrong:
                raise Doubt(f"the provider would reject the edited body: {wrong.path}: {wrong.wrong}")
        text = write_body(outline, changes)
        check_body(text, body, made["messages"])
        if "context_management" in changes:
            ruling.betas = list_betas(as_mapping(parse_if_json(text)))
        _check_edited(text, body, plan.model, self.rules.prices)
        return text

    @contextmanager
    def _open_conversation(self, body: ClientBody) -> Iterator[_Known]:
        """Open the conversation that a body goes on with, or a new one. It is forgotten where planning it fails."""
        found = self._find_conversation(body)
        with found.lock:
            try:
                yield found
            except BaseException:
                with self._lock:
                    self._known = [one for one in self._known if one is not found]
                raise

    def _find_conversation(self, body: ClientBody) -> _Known:
        """Find the conversation that shares the most with a body. One that goes on in another way stays as it is."""
        with self._lock:
            shared = [(one.conversation.count_shared(body), one) for one in self._known]
            most = max((count for count, _ in shared), default=0)
            like = next((one for count, one in reversed(shared) if count == most), None) if most else None
            template = self._get_template(body.api)
        found = like
        if like is None:
            found = _Known(begin_conversation(template, body))
        elif not like.conversation.is_continued_by(body, most):
            with like.lock:
                found = _Known(like.conversation.follow(body))
        assert found is not None
        with self._lock:
            self._known = [*(one for one in self._known if one is not found), found][-MOST_CONVERSATIONS:]
        return found

    def _get_template(self, api: str) -> TapChat:
        """The state that conversations of an API begin with. Called by one thread at a time."""
        if api not in self._templates:
            assert self.rules.policy is not None
            nobody = UpstreamProvider(api, DESTINATIONS[api])
            chat = make_chat(nobody, self.rules.policy, self.rules.prices, api, self.rules.window)
            self._templates[api] = replace(chat, clock=self.clock)
        return self._templates[api]

    def _make_provider(
        self, request: Outgoing, ruling: Ruling, body: ClientBody, ask: Ask | None, is_given_up: Callable[[], bool]
    ) -> UpstreamProvider:
        """What answers the questions of rules. What that costs is counted."""

        def bill(model: str, usage: Usage) -> None:
            self.spending.add(ruling.session, model or body.model, usage, self.clock())

        def ask_within_budget(data: bytes, betas: Sequence[str]) -> tuple[int, str]:
            assert ask is not None
            cost = expect_cost(data.decode(), body.model, self.rules.prices, self.clock())
            found = self._wait_for_hold(request.api, ruling.session, cost, is_given_up) if cost else None
            if isinstance(found, Refusal) and not self.rules.dry_run:
                raise ProviderError(found.what, hint="")
            try:
                return ask(data, betas)
            finally:
                self.spending.release(found if isinstance(found, Hold) else None)

        asks = ask_within_budget if ask and self.rules.budgets.are_set else ask
        marks = body.get("max_tokens") is None
        return UpstreamProvider(request.api, DESTINATIONS[request.api], asks, bill, limits_completion=marks)

    def learn(self, ruling: Ruling, status: int, encoding: str, data: bytes) -> None:
        """Learn from the answer to a request what was billed. Never raises.

        Args:
            ruling: What was ruled on the request.
            status: The HTTP status of the answer.
            encoding: Its header `content-encoding`.
            data: Its body, as it came.
        """
        try:
            self._learn(ruling, status, decode_all(data, encoding)[0].decode("utf-8", "replace"))
        except Exception as error:  # noqa: BLE001 - the answer has passed already
            self.say_once(f"an answer could not be read: {type(error).__name__}: {error}")
        finally:
            self.release(ruling)
            ruling.answered.set()

    def _learn(self, ruling: Ruling, status: int, text: str) -> None:
        sent, now = ruling.sent, self.clock()
        if status == 200:
            body = ruling.text if ruling.is_changed else ruling.body
            named = sent.plan.model if sent else ""
            named = named or str(as_mapping(parse_if_json(body)).get("model") or "")
            model, usage = measure_answer(ruling.api, lambda: count_prompt(body), text, named)
            self.spending.add(ruling.session, model, usage, now, ruling.hold)
            call = upstream_answers.read_answer(ruling.api, {}, text, named)
            if sent and call:
                believed = call.about.get("usage")
                sent.usage = believed if believed and request_checks.is_plausible_usage(sent.plan, believed) else None
                sent.stop_reason, sent.answered_at = call.about.get("stop_reason") or "", now
        elif sent and not sent.whole:
            sent.count = request_checks.read_prompt_size(sent.plan, explain_refusal(status, text))


def _find_session(request: Outgoing, body: str) -> str:
    return find_session_name(request.headers, as_mapping(parse_if_json(body))) or RUN


def _read_fields(body: ClientBody) -> dict[str, JSON]:
    """The settings of a body that the assembler knows."""
    if body.api == "anthropic-messages":
        return {key: found.value for key, found in body.members.items() if key not in ("messages", "system", "tools", "model")}
    name = _find_limit(body)
    most = as_mapping(body.get("generationConfig")).get("maxOutputTokens") if body.api == "gemini" else body.get(name)
    return {"max_tokens": most} if isinstance(most, int) else {}


def _find_limit(body: ClientBody) -> str:
    """The key under which a body limits its answer; "" where it does not, or not at its top."""
    return next((key for key in _LIMITS.get(body.api, ()) if isinstance(body.get(key), int)), "")


def _list_changes(body: ClientBody, plan: Plan, policy: Policy | None) -> dict[str, JSON]:
    """The settings with which a plan leaves, where they are not the client's."""
    changes: dict[str, JSON] = {}
    wanted, most = _read_fields(body).get("max_tokens"), plan.request.settings.get("max_tokens")
    if isinstance(wanted, int) and isinstance(most, int) and most < wanted:
        if body.api == "gemini":
            changes["generationConfig"] = {**body.get("generationConfig"), "maxOutputTokens": most}
        else:
            changes[_find_limit(body)] = most
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and isinstance(thinking.get("budget_tokens"), int) and thinking["budget_tokens"] >= most:
            if most // 2 < MIN_THINKING:
                raise Doubt(f"the window leaves {most} tokens for the answer, too few for thinking")
            changes["thinking"] = {**thinking, "budget_tokens": most // 2}
    if policy and any(step.rule.sends for step in policy.rules):
        if body.api != "anthropic-messages":
            raise Doubt("the policy wants edits by the provider, which Anthropic's API alone makes")
        edits = plan.request.settings.get("context_management")
        if edits is not None and edits != body.get("context_management"):
            changes["context_management"] = edits
    return changes


def _check_edited(text: str, body: ClientBody, model: str, prices: Prices) -> None:
    """Doubt where a body has mistakes that the client's own has not: pairs, order, cache marks."""
    found = _find_mistakes(text, body.api, model, prices)
    known = {problem.what for problem in _find_mistakes(body.text, body.api, model, prices)} if found else ()
    for problem in found:
        if problem.what not in known:
            raise Doubt(f"the provider would reject the edited body: {problem.path}: {problem.what}")


def _find_mistakes(text: str, api: str, model: str, prices: Prices) -> tuple[Problem, ...]:
    """What a provider rejects; of others than Anthropic only what is known of their pairs."""
    if api == "anthropic-messages":
        return lint(as_mapping(parse_if_json(text)), model, prices=prices)
    read = parse_client_body(api, text, model)
    messages = [{"role": one.role, "content": one.parts[0] if one.bare else one.parts} for one in read.messages]
    return select_refused(lint({"messages": messages}, model, prices=prices), request_checks.PAIRS_ONLY)


def _describe_plan(plan: Plan, conversation: PlannedConversation) -> dict[str, JSON]:
    """What the log says of a plan."""
    size = conversation.chat.live_session.ledger.total[plan.request.cut]
    made: list[JSON] = [
        {"rule": d.rule, "action": d.action, "because": d.edit.because, "before": d.before, "after": d.after}
        for d in plan.decisions
        if d.splice or d.action in ("warn", "fallback", "refuse")
    ]
    sizes = {"uncut": plan.calibration.predict(size), "expected": plan.expected_tokens}
    limits = {"window": plan.budget.window, "limit": plan.budget.limit}
    return {"request": plan.request.n, **sizes, **limits, "decisions": made}


def describe_ruling(ruling: Ruling, policy: str) -> dict[str, Any]:
    """Describe a ruling for the log.

    Args:
        ruling: The ruling.
        policy: Name of the policy.
    """
    about = {"policy": policy, "action": ruling.action, "why": ruling.why, "dry_run": ruling.dry_run, **ruling.facts}
    about |= {"refusal": ruling.refusal.kind} if ruling.refusal else {}
    return {key: value for key, value in about.items() if value not in ("", None, False)}
