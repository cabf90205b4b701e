"""Planning requests: `plan_step` before a request is sent, `reconcile_plan` after its answer, `replay` for a session.

No I/O, no clock, no look ahead: the plan of request n depends only on `blocks[:cut]`, on recorded answers and on earlier plans.
A live chat calls the same `plan_step` and `reconcile_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from msgspec import structs

from turnscope.counting.calibration import Calibration
from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import Budget, compute_budget
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.fall_back import falls_back
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import FreshEdits, Plan, StepState, Verdict, count_read_tokens
from turnscope.envelope.recorded_compactions import is_sent_here
from turnscope.envelope.rule import Ctx
from turnscope.errors import RuleError, TurnscopeError
from turnscope.extensions import check_type, describe
from turnscope.numbering import format_request
from turnscope.planning.answers import Answers, make_answerer
from turnscope.planning.first_request import find_prior, get_prompt_prior
from turnscope.planning.foreign_summaries import DROP_DECISION, drop_foreign_summaries, drop_server_summaries
from turnscope.planning.policy import Policy, Step, apply_model_table, keep_repairs_only, load
from turnscope.planning.provider_edits import (
    CONTEXT_MANAGEMENT,
    Seen,
    apply_provider_edits,
    request_context_edits,
    select_server_rules,
)
from turnscope.planning.reinjected_files import estimate_reinjected_files
from turnscope.planning.render import render
from turnscope.planning.repeated_edits import Waiting, collect_fresh_edits, continue_previous
from turnscope.planning.rule_registry import find_rule, find_rule_package
from turnscope.planning.session_fit import RecordStep, RunningFit
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.facts import find_count
from turnscope.session.index import Index, get_index
from turnscope.session.model import (
    BEGINS_MID_CONVERSATION,
    Action,
    Answer,
    Ask,
    AskKind,
    CountFact,
    Edit,
    Request,
    Session,
    Span,
)
from turnscope.session.transcript import Transcript

AS_RECORDED = "as-recorded"
Own = Ledger | Callable[[Policy], Ledger | None] | None
TABLE_DECISION = "models"  # name of the decisions that say which table of a policy applies
_NOTHING_WAITS = Waiting()
COUNTS = 4  # exact counts that one request may use; each can change the plan, and so need another


@dataclass(frozen=True, slots=True)
class Basis:
    """What a session is planned with.

    Attributes:
        ledger: Token counts for display.
        own: Token counts for the policy's decisions.
        index: The session's index.
        prices: Facts of models: windows, limits, prices.
    """

    ledger: Ledger
    own: Ledger
    index: Index
    prices: Prices = PRICES

    @staticmethod
    def of(session: Session, ledger: Ledger, own: Ledger | None = None, prices: Prices = PRICES) -> Basis:
        """Index a session and pair it with its ledgers and prices.

        Args:
            session: The session.
            ledger: Tokens as the session's counter counts them.
            own: Tokens as the policy's own counter counts them; None = the same.
            prices: What is known of models.
        """
        return Basis(ledger, own or ledger, get_index(session), prices)


def plan_step(
    previous: Plan | None, session: Session, request: Request, policy: Policy, basis: Basis, answers: Answers | None = None
) -> Plan:
    """Plan one request: the previous plan's envelope, grown to `request.cut` and changed by the policy's rules in order.

    Where an exact count of the planned prompt is recorded, the request is planned again with it. The count holds for this
    request only: it may be a provider's claim in a refusal, and the next billed usage is more reliable.

    Args:
        previous: The plan of the previous request; None for the first.
        session: The session.
        request: The request.
        policy: The policy.
        basis: What the session is planned with.
        answers: Answers what rules ask; by default the record, else an offline summary.

    Raises:
        RuleError: A rule made a mistake.
    """
    calibration = previous.calibration if previous else _start_calibration(session, basis)
    if policy.name != AS_RECORDED:
        calibration = calibration.adapt_to_policy()
    onward = calibration
    if policy.name == AS_RECORDED:  # every count before the request was sent
        for count in session.recorded.counts.get(request.n, ()):
            calibration = calibration.learn(count.seen, count.tokens, count.model)
        plan = _Planner(previous, session, request, policy, basis, calibration=calibration, answers=answers).plan()
        return structs.replace(plan, onward=onward) if onward is not calibration else plan
    if falls_back(session, request.n, policy.name):
        policy = keep_repairs_only(policy)
    first = structs.replace(request, model=request.requested_model) if request.requested_model else request
    requested = request_context_edits(
        apply_model_table(policy, first.model, basis.prices.find_facts(first.model).name)[0].rules, first
    )
    plan = _Planner(previous, session, requested, policy, basis, calibration=calibration, answers=answers).plan()
    learned: CountFact | None = None
    for _ in range(COUNTS):
        recorded_count = find_count(session.recorded, request.n, plan.seen.tokens)
        if recorded_count is None or recorded_count is learned:
            break
        learned = recorded_count
        calibration = calibration.learn(plan.seen.tokens, recorded_count.tokens, plan.model)
        plan = _Planner(previous, session, requested, policy, basis, calibration=calibration, answers=answers).plan()
    return structs.replace(plan, onward=onward) if onward is not calibration else plan


def _start_calibration(session: Session, basis: Basis) -> Calibration:
    return Calibration.start(session.about.get(BEGINS_MID_CONVERSATION) is True, find_prior(session, basis.ledger))


def apply_response(plan: Plan, session: Session, basis: Basis) -> Plan:
    """Return the plan after its answer: what the provider reports that it did replaces what was expected.

    A replay of the record plans it so at once.

    Args:
        plan: The plan.
        session: The session with the answer.
        basis: What the session is planned with.
    """
    if not (plan.server or CONTEXT_MANAGEMENT in plan.request.settings):
        return plan
    ctx = _build_context(None, session, plan.request, basis, calibration=plan.calibration, room=plan.budget, done=None)
    seen = apply_provider_edits(None, plan.after, ctx, (), make_answerer(session.recorded.answers.get), (), recorded=True)
    states = tuple(state for state in plan.states if find_rule(state.rule).sends is None)
    return structs.replace(plan, seen=seen.envelope, server=tuple(seen.decisions), states=states)


def reconcile_plan(plan: Plan) -> Plan:
    """Return the plan after its answer, with the calibration fitted to the billed usage.

    An exact count (see `plan_step`) holds only until here.
    """
    usage, calibration = plan.request.usage, plan.onward or plan.calibration
    if (
        usage is not None and usage.answered_prompt_tokens and not usage.iterations
    ):  # the last of several passes had another prompt
        read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
        calibration = calibration.learn(plan.seen.tokens, usage.answered_prompt_tokens, plan.request.model, read, written)
    elif plan.onward is None:
        return plan
    return structs.replace(plan, calibration=calibration, onward=None)


def replay(
    session: Session,
    policy: Policy | Callable[[Request], Policy],
    ledger: Ledger,
    own: Own = None,
    answers: Answers | None = None,
    prices: Prices = PRICES,
) -> Iterator[Plan]:
    """Yield the plan of every request of a session in order. Each plan has the calibration it was made with.

    Args:
        session: The session.
        policy: The policy, or a function that gives the policy of a request: in a chat it may change.
        ledger: Token counts for display.
        own: Token counts for decisions, or a function that gives them for a policy.
        answers: Answers what rules ask; see `plan_step`.
        prices: Facts of models.
    """
    return (plan for plan, _ in replay_with_record(session, policy, ledger, own, answers, prices))


def replay_with_record(
    session: Session,
    policy: Policy | Callable[[Request], Policy],
    ledger: Ledger,
    own: Own = None,
    answers: Answers | None = None,
    prices: Prices = PRICES,
    record: Sequence[RecordStep] = (),
) -> Iterator[tuple[Plan, RecordStep]]:
    """Yield the plans of `replay`, each with what the record says of the same request.

    Recorded usage belongs to what was really sent. So under another policy the record is followed as well, and its calibration
    is the one the policy plans with.

    Args:
        session: The session.
        policy: See `replay`.
        ledger: See `replay`.
        own: See `replay`.
        answers: See `replay`.
        prices: See `replay`.
        record: What the record says of all requests and of other policies, if it is known already.
    """
    basis = Basis.of(session, ledger, None, prices)
    follows = policy == load(AS_RECORDED)  # as a value; a function may give another one for the next request
    known: Iterator[RecordStep] = iter(record)
    if not follows and len(record) < len(session.requests):
        sent = replay_with_record(session, load(AS_RECORDED), ledger, prices=prices)
        known = map(RunningFit(session).learn, (step for _, step in sent))
    previous: Plan | None = None
    for request in session.requests:
        chosen = policy(request) if callable(policy) else policy
        counts = (own(chosen) if callable(own) else own) or ledger
        plan = plan_step(previous, session, request, chosen, Basis(ledger, counts, basis.index, prices), answers)
        if follows:
            previous = reconcile_plan(plan)
            step = RecordStep(plan.seen.tokens, plan.static_tokens, previous.calibration)
        else:
            step = next(known)
            previous = structs.replace(plan, calibration=step.calibration)
        yield plan, step


def replay_from(
    plan: Plan, calibrations: Sequence[Calibration], session: Session, policy: Policy, basis: Basis
) -> Iterator[Plan]:
    """Yield the plans behind one plan of a replay again; they equal those that `replay` made.

    Args:
        plan: The plan.
        calibrations: What each of them is planned with: the calibration that the request before it left (`reconcile_plan`).
        session: The session.
        policy: The policy.
        basis: What the session is planned with.
    """
    for request, calibration in zip(session.requests[plan.request.n + 1 :], calibrations, strict=False):
        plan = plan_step(structs.replace(plan, calibration=calibration), session, request, policy, basis)
        yield plan


def _check_ask(ask: Ask) -> None:
    """TypeError or ValueError where nobody could answer it: whoever does relies on its types."""
    if ask.kind not in get_args(AskKind):
        raise ValueError(f"there is no question of the kind {ask.kind!r}")
    for text in (ask.key, ask.prompt, ask.model, *(() if isinstance(ask.source, Transcript) else (ask.source,))):
        check_type(text, str)


class _Planner:
    """Plans one request: the previous envelope grows, the policy's rules change it in order, the provider's edits follow.

    `after` is the request as it stands so far. `kept` and `base` are the same without what holds for this request alone, and
    without what holds only while budget and model stay. `applied` is `after` without the edits that wait: those that most
    probably repeat what the previous request was sent with, and need not be applied then.
    """

    def __init__(
        self,
        previous: Plan | None,
        session: Session,
        request: Request,
        policy: Policy,
        basis: Basis,
        calibration: Calibration,
        answers: Answers | None,
    ) -> None:
        self.previous, self.session, self.request, self.basis, self.calibration = previous, session, request, basis, calibration
        self.answers = answers or make_answerer(session.recorded.answers.get)
        self.recorded = policy.name == AS_RECORDED
        self.whole = policy  # with the tables of all models
        self.policy, self.table = self.find_terms(request.model)
        self.model = request.model
        self.budget = compute_budget(self.policy.budget, basis.prices.find_window(session, request))
        self.base = self.kept = (previous.base if previous else Envelope()).grow(request.cut, basis.ledger)
        if previous and previous.model == self.model and self.budget.limit <= previous.budget.limit:
            self.kept = self.base if previous.kept is previous.base else previous.kept.grow(request.cut, basis.ledger)
        self.grown = self.kept is not self.base or (previous is not None and previous.kept is previous.base)
        self.lasting = previous is None or (previous.base if self.kept is self.base else previous.kept) is previous.after
        same = self.lasting and previous is not None and previous.model == self.model and previous.after.stop < request.cut
        self.came = Span(previous.after.stop, request.cut) if previous and same else None  # behind what is sent as before
        self.before = self.applied = self.kept
        self.waiting = _NOTHING_WAITS
        self.first = previous.first + len(previous.decisions) if previous else 0
        self.decisions: list[Decision] = []
        self.fresh: list[Decision] = []  # of those, what changed something and holds for this request alone
        self.asks: list[tuple[Ask, Answer]] = []
        self.states: list[StepState] = []
        self.next_model = ""  # what a rule wants the request to be sent to instead
        self.ctx = self.make_context(request)

    @property
    def after(self) -> Envelope:
        """The request as it stands so far. Edits that wait are applied."""
        if self.waiting.edits:
            self.apply_waiting()
        return self.applied

    def apply_waiting(self) -> None:
        """Apply the edits that wait."""
        (name, edits), self.waiting = self.waiting, _NOTHING_WAITS
        if edits:
            self.apply_all(name, edits)

    def plan(self) -> Plan:
        """Go through the steps in their order. RuleError: a rule's mistake."""
        self.leave_out_foreign_summaries()
        self.note_table()
        self.apply_rules()
        if not self.lasting or any(d.splice for d in self.decisions):
            self.leave_out_foreign_summaries(again=True)  # a rule that knows what it wants sent may have restored one
        again = self.keep_repeated()
        if self.recorded and self.has_unseen_compaction():
            files = estimate_reinjected_files(self.session, self.request, self.basis.ledger)
            self.calibration = self.calibration.expect_compaction(files, get_prompt_prior(self.session)[0])
        seen = self.follow_provider()
        prompt = max(self.calibration.predict(seen.envelope.tokens), count_read_tokens(seen.decisions))
        moved = self.model != self.request.model
        return Plan(
            request=structs.replace(self.request, model=self.model, requested_model=self.request.model)
            if moved
            else self.request,
            before=self.before,
            decisions=tuple(self.decisions),
            after=self.after,
            seen=seen.envelope,
            server=tuple(seen.decisions),
            model=self.model,
            budget=self.budget,
            calibration=self.calibration,
            verdict=judge(self.policy, [d.action for d in self.decisions], self.budget, prompt),
            first=self.first,
            kept=self.kept,
            base=self.base,
            asks=(*self.asks, *seen.asks),
            states=(*self.states, *seen.states),
            fresh_edits=again,
        )

    def find_terms(self, model: str) -> tuple[Policy, str]:
        """The policy as it is for a model, and the name of the table that makes it so ("" = none)."""
        return apply_model_table(self.whole, model, self.basis.prices.find_facts(model).name)

    def make_context(self, request: Request) -> Ctx:
        """What rules may read of a request. They see the decisions so far where these alone lead here from the plan before."""
        done = self.decisions if self.lasting else None
        return _build_context(
            self.previous, self.session, request, self.basis, calibration=self.calibration, room=self.budget, done=done
        )

    def leave_out_foreign_summaries(self, *, again: bool = False) -> None:
        """Leave out the summaries that another tool, or a provider's server, wrote into the log."""
        left_out = [*drop_foreign_summaries(self.applied, self.ctx, self.policy, again=again)]
        if left_out and self.waiting.edits:
            left_out = [*drop_foreign_summaries(self.after, self.ctx, self.policy, again=again)]
        for edit in left_out if again else (*left_out, *drop_server_summaries(self.after, self.ctx, self.policy)):
            self.apply(DROP_DECISION, "remembers", edit)

    def apply_rules(self) -> None:
        """Run the policy's rules in order, each from its state at the previous request; a rule may change the model."""
        states = [*self.previous.states] if self.previous else []
        for place in range(len(self.whole.rules)):
            part = self.policy.rules[place]
            if part.rule.sends or self.is_idle(part):
                continue  # the server follows it, on what it is sent; or there is nothing to do
            if part.rule.state is None:
                self.run_rule(part, self.ctx)
            else:
                known = _take_state(states, part)
                carried = known is not None and known.state is not None
                state = self.run_rule(part, structs.replace(self.ctx, state=known.state) if known and carried else self.ctx)
                self.states.append(known if known and known.state is state else StepState(part.rule.name, part.params, state))
            if self.next_model and self.next_model != self.model:
                self.change_model(self.next_model)

    def is_idle(self, part: Step) -> bool:
        """Whether a rule does nothing: the request is the one before it with new blocks behind, all sent as they came."""
        idle_from, came = part.rule.idle_from, self.came
        if idle_from is None or came is None or self.applied is not self.before or self.waiting.edits:
            return False
        last = self.applied.chunks[-1].pieces[-1]
        return last.body is None and last.start <= idle_from(self.ctx, came, part.params)

    def run_rule(self, part: Step, ctx: Ctx) -> Any:
        """Run one rule to its end; gives what it returned. RuleError: it failed, or returned a state and declares none."""
        name, edits, reply = part.rule.name, None, None
        while True:
            try:
                edits = edits or part.rule.edits(self.after, ctx, part.params)
                wish = edits.send(reply)
                if isinstance(wish, Ask):
                    _check_ask(wish)
                elif isinstance(wish, tuple):
                    self.take_all(name, part.rule.memory, wish)
                else:
                    self.apply(name, part.rule.memory, wish)
            except StopIteration as end:
                if end.value is None or part.rule.state is not None:
                    return end.value
                hint = "Set `state` in its RULE."
                raise RuleError(f"the rule {name!r} returns a state and declares none", hint=hint) from end
            except TurnscopeError:
                raise
            except Exception as error:
                raise self.make_rule_error(name, error) from error
            reply = self.ask(wish) if isinstance(wish, Ask) else None if isinstance(wish, tuple) else self.after

    def ask(self, ask: Ask) -> Answer:
        """The answer to what a rule asks. It is recorded with the plan."""
        answer = self.answers(ask)
        self.asks.append((ask, answer))
        return answer

    def make_rule_error(self, name: str, error: Exception) -> RuleError:
        """The error of a rule that raised something."""
        package = find_rule_package(name)
        rule = f"the rule {name!r} of {package}" if package else f"the rule {name!r}"
        return RuleError(
            f"{rule} failed at request {format_request(self.request.n)} under the policy {self.whole.name!r}:"
            f" {describe(error)}",
            hint=f"Choose another policy, or report it to the authors of {package or 'Turnscope'}.",
        )

    def change_model(self, model: str) -> None:
        """Go on with another model: its table of the policy, its budget, its context."""
        self.model, self.next_model, self.came = model, "", None
        self.policy, self.table = self.find_terms(model)
        self.note_table()
        self.budget = compute_budget(self.policy.budget, self.basis.prices.find_facts(model).window)
        self.ctx = self.make_context(structs.replace(self.request, model=model))

    def note_table(self) -> None:
        """Record which of the policy's tables holds for the model; nothing where none does."""
        if self.table:
            rows = self.whole.models[self.table].items()
            what = "; ".join(f"{part}: {', '.join(f'{key} = {value}' for key, value in row.items())}" for part, row in rows)
            facts = {"table": self.table, "model": self.model}
            self.apply(
                TABLE_DECISION, "fresh", Edit("keep", f"for {self.model} the table {self.table!r} holds: {what}", facts=facts)
            )

    def apply(self, name: str, memory: str, edit: Edit) -> None:
        """Apply one edit to the request and, as its memory says, to what is carried on."""
        number, ledger = self.first + len(self.decisions), self.ctx.ledger
        before = self.after
        one = self.kept is before
        self.applied, splice = before.replace(edit, number, ledger)
        self.decisions.append(
            Decision(number, self.ctx.request.n, name, edit, splice=splice, before=before.tokens, after=self.applied.tokens)
        )
        self.next_model = edit.model or self.next_model
        if memory == "fresh" or splice is None:
            self.fresh += self.decisions[-1:] if splice else ()
            return
        same = self.base is self.kept
        self.kept = self.applied if one else _carry_edit(self.kept, edit, number, ledger)
        if memory == "remembers":
            self.base = self.kept if same else _carry_edit(self.base, edit, number, ledger)

    def take_all(self, name: str, memory: str, edits: Sequence[Edit]) -> None:
        """Take edits in address order. They wait where they hold for this request alone and nothing but blocks is replaced."""
        if memory != "fresh":
            for edit in edits:
                self.apply(name, memory, edit)
        elif self.previous and self.previous.fresh_edits and self.grown and self.after.are_verbatim(edits):
            self.waiting = Waiting(name, edits)
        else:
            self.apply_all(name, edits)

    def apply_all(self, name: str, edits: Sequence[Edit]) -> None:
        """Apply edits that hold for this request alone, in one pass."""
        tokens, n = self.after.tokens, self.ctx.request.n
        self.applied, changes = self.applied.replace_each(edits, self.first + len(self.decisions), self.ctx.ledger)
        for edit, (splice, after) in zip(edits, changes, strict=True):
            made = Decision(self.first + len(self.decisions), n, name, edit, splice=splice, before=tokens, after=after)
            self.decisions.append(made)
            if splice:
                self.fresh.append(made)
            self.next_model = edit.model or self.next_model
            tokens = after

    def keep_repeated(self) -> FreshEdits | None:
        """Let what fresh rules decide again stand as it was decided first; gives all that they want (see `repeated_edits`)."""
        previous, waiting, ledger = self.previous if self.grown else None, self.waiting, self.basis.ledger
        was = (previous and previous.fresh_edits) or ()
        again = collect_fresh_edits(self.decisions, self.fresh, waiting, was, ledger)
        found = again and previous and continue_previous(previous, self.decisions, waiting, again, self.request, ledger)
        tokens = self.before.tokens + sum(one.change for one in again or ())
        if not found or found[2].tokens != tokens:  # an insert inside what is left out moves
            self.apply_waiting()
            return again
        self.waiting = _NOTHING_WAITS
        self.before, self.decisions, self.applied = found
        self.lasting = True
        return again

    def has_unseen_compaction(self) -> bool:
        """Whether the recorded tool condensed here, and so may have re-injected what the log does not hold."""
        condensed = any(d.splice and d.action == "condense" for d in self.decisions)
        return condensed and not is_sent_here(self.session, self.request)

    def follow_provider(self) -> Seen:
        """What the model sees of the request once its provider has made its own edits."""
        lasts = self.lasting and self.previous is not None and self.previous.model == self.ctx.request.model
        previous, parts = self.previous if lasts else None, select_server_rules(self.policy.rules)
        return apply_provider_edits(previous, self.after, self.ctx, parts, self.answers, self.decisions, recorded=self.recorded)


def _take_state(left: list[StepState], part: Step) -> StepState | None:
    """Remove and return the state that this step left at the previous request: the same step may occur twice in a policy."""
    for number, known in enumerate(left):
        if known.rule == part.rule.name and (known.params is part.params or known.params == part.params):
            return left.pop(number)
    return None


def _carry_edit(envelope: Envelope, edit: Edit, number: int, ledger: Ledger) -> Envelope:
    try:
        return envelope.replace(edit, number, ledger)[0]
    except RuleError:  # it changed what another rule inserted for this request only: nothing to carry
        return envelope


def _build_context(
    previous: Plan | None,
    session: Session,
    request: Request,
    basis: Basis,
    calibration: Calibration,
    room: Budget,
    done: Sequence[Decision] | None,
) -> Ctx:
    own = basis.own
    scale = calibration.scale if own is basis.ledger else 1.0
    limit = int((room.limit - calibration.prefix) / scale)
    reported = _count_previous_usage(previous, calibration, basis.ledger) if previous else 0
    index, ledger, prices = basis.index, basis.ledger, basis.prices
    return Ctx(
        session=session,
        request=request,
        index=index,
        ledger=ledger,
        own=own,
        previous=previous,
        calibration=calibration,
        budget=room,
        limit=limit,
        previous_usage=reported,
        earlier_decisions=done,
        prices=prices,
        body=partial(render, session=session),
    )


def _count_previous_usage(previous: Plan, calibration: Calibration, ledger: Ledger) -> int:
    """Prompt and answer tokens of the previous request: as billed if that very envelope was sent, else counted."""
    request, usage = previous.request, previous.request.usage
    if usage and calibration.counted == previous.seen.tokens and calibration.recorded == usage.answered_prompt_tokens:
        return usage.answered_prompt_tokens + usage.output_tokens
    answer = usage.output_tokens if usage else round(calibration.scale * ledger.count_tokens(request.cut, request.stop))
    return calibration.predict(previous.seen.tokens) + answer


def judge(policy: Policy, actions: Collection[Action], room: Budget, projected: int) -> Verdict:
    """Judge a request by its size: refused, over its limit or window, warned of, or sent.

    Args:
        policy: The policy.
        actions: What the policy did with it.
        room: Its budget.
        projected: The largest prompt that the provider would read, in its tokens.
    """
    if "refuse" in actions:
        return "refuse"
    if room.known and projected > room.window:
        return "overflow"
    if room.limit < projected and any(not part.rule.name.startswith("follow_") for part in policy.rules):
        return "overflow"  # the policy has a limit of its own
    return "warn" if "warn" in actions else "send"
