"""What a provider removes from a request before the model sees it. Part of every plan, under every policy.

Under the record it is what responses report; under a policy that requests context edits, what the server would do. The
functions yield edits as rules do. These apply to `Plan.seen` only; what is sent does not change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turnscope.envelope.clearing import clear_results
from turnscope.envelope.conversation import find_signed_thinking
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan, StepState
from turnscope.envelope.rule import Ctx, Edits
from turnscope.planning.answers import Answers
from turnscope.planning.policy import Step
from turnscope.ports.messages_api import edits as api
from turnscope.session.index import find_at_or_before, group_runs
from turnscope.session.model import JSON, Answer, AppliedEdit, Ask, Edit, Request, Session

CONTEXT_MANAGEMENT = "context_management"  # key of a request's settings: the context edits it requests
_REMEMBERED = 4_096  # requests
_CLEARED: dict[int, tuple[Request, Request]] = {}  # by id, as policies send them that request no edit; the object is held
COMPACTION = "compaction"  # key of a request that only asks for a summary


def compaction_replaces_what_precedes(seen: Envelope, ctx: Ctx, carried: Plan | None) -> Edits:
    """Anthropic's server ignores every message before the newest `compaction` block (Messages API, compact_20260112).

    Args:
        seen: What is sent.
        ctx: What a rule may read.
        carried: The previous plan, if what it left out is carried over.
    """
    newest = api.find_begin(seen, ctx)
    if carried and newest < carried.request.cut:
        return
    for span in ctx.index.find_conversation_spans(0, newest):
        yield Edit("condense", "the server continues from its own summary and ignores what precedes it", span)


def provider_strips_old_thinking(seen: Envelope, ctx: Ctx, carried: Plan | None) -> Edits:
    """Models that drop the thinking of past turns (`Prices.find_facts`) do so unless the request says otherwise.

    They are Claude before Opus 4.5 and OpenAI's reasoning models.

    Args:
        seen: What is sent.
        ctx: What a rule may read.
        carried: The previous plan, if what it left out is carried over.
    """
    requested = api.THINKING in api.get_edits(ctx.request.settings)
    if (
        requested
        or ctx.prices.find_facts(ctx.request.model).keeps_thinking
        or (carried and carried.request.turn == ctx.request.turn)
    ):
        return
    turns, thinking, cut = ctx.index.turns, find_signed_thinking(ctx), ctx.request.cut
    start = (find_at_or_before(turns, carried.request.cut - 1) if carried else 0) or 0
    stop = find_at_or_before(turns, cut - 1) or 0
    old = thinking[bisect_left(thinking, start) : bisect_left(thinking, stop)]
    for span in group_runs(at for at in old if seen.find_piece(at).body is None):
        yield Edit("strip", "the model's server drops the thinking of past turns", span)


def server_edited(seen: Envelope, ctx: Ctx, carried: Plan | None) -> Edits:
    """What the provider reports about a request that was sent: its `applied_edits`, and a compaction block in the answer.

    It reports counts only. Which blocks they are is inferred, and marked so.

    Args:
        seen: What is sent.
        ctx: What a rule may read.
        carried: The previous plan, if what it left out is carried over.
    """
    requested = api.get_edits(ctx.request.settings)
    for made in ctx.request.applied:
        done = _find_applied(carried.request.applied, made.edit).cleared if carried else 0
        facts = {"inferred": True, "cleared": made.cleared, "cleared_input_tokens": made.tokens}
        report = f"the provider reports that it cleared {{}} ({made.tokens:,} tokens); which ones is inferred: the oldest"
        if made.edit == api.TOOL_USES:
            edit, uses = requested.get(api.TOOL_USES, {}), api.list_tool_uses(seen, ctx)
            start = uses[done] if done < len(uses) else ctx.request.cut
            found = api.iter_clearable(seen, ctx, start if done else 0, ctx.request.cut, edit.get("exclude_tools") or ())
            inputs, because = edit.get("clear_tool_inputs") or False, report.format(f"{made.cleared:,} tool uses")
            yield from clear_results(
                seen, ctx, api.take_oldest(found, made.cleared - done), api.CLEARED, because, facts, inputs
            )
        elif made.edit == api.THINKING:
            because = report.format(f"the thinking of {made.cleared:,} turns")
            yield from api.clear_thinking(seen, ctx, 0, api.find_cleared_end(seen, ctx, made.cleared), because, facts)
    if summary := _find_summary(ctx.session, ctx.request):
        because = "the server summarised the whole request and answered from its summary"
        yield from api.build_summary_edits(
            ctx, api.find_begin(seen, ctx), ctx.request.cut, summary, because, _count_pass_tokens(ctx.request)
        )


GOES_ON = compaction_replaces_what_precedes.__name__  # every later request shows it again
UNASKED = (provider_strips_old_thinking.__name__,)  # what a server does to every request


@dataclass(slots=True)
class Seen:
    """What the model sees of a request, the provider's decisions, and the states of the rules that run on the server."""

    envelope: Envelope
    decisions: list[Decision] = field(default_factory=list)
    states: list[StepState] = field(default_factory=list)
    asks: list[tuple[Ask, Answer]] = field(default_factory=list)

    def carry_over(self, previous: Plan, ctx: Ctx, decisions: Sequence[Decision]) -> None:
        """Leave out again what the server left out of the previous request.

        Args:
            previous: The plan of that request.
            ctx: What a rule may read.
            decisions: Decisions of this request.
        """
        sent = self.envelope.tokens
        self.envelope = previous.seen.grow(self.envelope.stop, ctx.ledger)
        for made in decisions:
            self.envelope = self.envelope.replace(made.edit, made.seq, ctx.ledger)[0]
        if any(d.splice for d in decisions) and self.envelope.tokens != sent:
            edit = Edit("keep", "the server drops again what it dropped from the previous request")
            name = GOES_ON if ctx.index.compactions else UNASKED[0]
            self.decisions.append(Decision(0, ctx.request.n, name, edit, splice=None, before=sent, after=self.envelope.tokens))

    def follow(self, name: str, edits: Edits, ctx: Ctx, answers: Answers) -> Any:
        """Apply the edits that a generator yields; return its result.

        Args:
            name: Name of the decisions.
            edits: The generator.
            ctx: What the rule may read.
            answers: Answers what it asks.
        """
        reply: Any = None
        try:
            while True:
                wish = edits.send(reply)
                if isinstance(wish, Ask):
                    reply = answers(wish)
                    self.asks.append((wish, reply))
                    continue
                for edit in wish if isinstance(wish, tuple) else (wish,):
                    seq, old = len(self.decisions), self.envelope
                    self.envelope, splice = old.replace(edit, seq, ctx.ledger)
                    tokens = self.envelope.tokens
                    made = Decision(seq, ctx.request.n, name, edit, splice=splice, before=old.tokens, after=tokens)
                    self.decisions.append(made)
                reply = self.envelope
        except StopIteration as end:
            return end.value


def apply_provider_edits(
    previous: Plan | None,
    after: Envelope,
    ctx: Ctx,
    parts: Sequence[Step],
    answers: Answers,
    decisions: Sequence[Decision],
    *,
    recorded: bool,
) -> Seen:
    """Return what the model sees of `after`.

    What an earlier request left out is carried over if nothing changed but new blocks. A server that edits on request is also
    carried over if only the end changed; it remembers by reading the conversation.

    Args:
        previous: The plan whose envelope grew and was changed by `decisions` only; None where there is none, or the model
            changed.
        after: What is sent.
        ctx: What the rule may read.
        parts: Rules of the policy that run on the server.
        answers: Answers what rules ask.
        decisions: Decisions of this request.
        recorded: The request was really sent, so its response says what was done.
    """
    known = [_find_state(ctx.previous, part) for part in parts]
    carried, found = None, Seen(after)
    if previous and _hold(previous, decisions, reads=bool(parts)) and not (recorded and any(d.splice for d in decisions)):
        same = _covers_applied(previous.request, ctx.request) if recorded else _same_edits(previous, ctx) and all(known)
        carried = previous if same else None
    unaffected = carried is not None and not parts and _is_unaffected(ctx, carried, recorded=recorded)
    if carried and carried.seen is not carried.after:  # else `after` is what was seen, with what came and was decided
        found.carry_over(carried, ctx, decisions)
    if unaffected:
        return found
    for rule in (compaction_replaces_what_precedes, provider_strips_old_thinking):
        found.follow(rule.__name__, rule(found.envelope, ctx, carried), ctx, answers)
    if recorded:
        found.follow(server_edited.__name__, server_edited(found.envelope, ctx, carried), ctx, answers)
    for part, state in zip(parts, known, strict=True):
        inside = structs.replace(ctx, continues_previous=carried is not None, state=state.state if state else None)
        left = found.follow(part.rule.name, part.rule.edits(found.envelope, inside, part.params), inside, answers)
        found.states.append(StepState(part.rule.name, part.params, left))
    return found


def _same_edits(previous: Plan, ctx: Ctx) -> bool:
    """Whether a request orders the same edits from the provider as the one before."""
    return bool(previous.request.settings.get(CONTEXT_MANAGEMENT) == ctx.request.settings.get(CONTEXT_MANAGEMENT))


def _is_unaffected(ctx: Ctx, carried: Plan, *, recorded: bool) -> bool:
    """Whether no provider edit can concern a request that only grew, as for most requests."""
    now, blocks = ctx.request, ctx.session.blocks
    if ctx.index.compactions or (recorded and now.applied):
        return False
    if recorded and any(block.kind == COMPACTION for block in blocks[now.cut : now.stop]):
        return False
    return carried.request.turn == now.turn or ctx.prices.find_facts(now.model).keeps_thinking


def _hold(previous: Plan, decisions: Sequence[Decision], *, reads: bool) -> bool:
    """Whether what the provider left out of the previous request is left out of this one, too.

    What it drops unasked is a fact of each block: that ends only where a decision restores blocks. A server that edits on
    request, and what a response reports, depend on the conversation, so there only its end may have changed.

    Args:
        previous: The plan of the previous request.
        decisions: Decisions of this request.
        reads: The edits depend on the conversation.
    """
    made, cut = [d.edit for d in decisions if d.splice], previous.request.cut
    if not reads:
        return not any(edit.restore for edit in made)
    return all(edit.span is not None and cut <= edit.span.start < edit.span.stop for edit in made)


def request_context_edits(parts: Sequence[Step], request: Request) -> Request:
    """Return the request as a policy sends it: with the context edits that its rules request, and no other.

    Where no rule concerns thinking, a recorded wish to keep all of it stays: it is a setting like others, and clears nothing.
    Clearing of thinking comes first, as the API demands. Edits applied to the recorded request are removed.

    Args:
        parts: The policy's rules.
        request: The request.
    """
    rules = [part for part in parts if part.rule.sends]
    if not (rules or request.applied or CONTEXT_MANAGEMENT in request.settings or COMPACTION in request.settings):
        return request  # it asks for none
    if not rules and (known := _CLEARED.get(id(request))) and known[0] is request:
        return known[1]
    made = (part.rule.sends(part.params, request.settings) for part in rules if part.rule.sends)
    wanted = [edit for edit in made if edit]
    kept = api.get_edits(request.settings).get(api.THINKING, {})
    if kept.get("keep") == "all" and all(edit["type"] != api.THINKING for edit in wanted):
        wanted.append(dict(kept))
    edits = sorted(wanted, key=lambda edit: edit["type"] != api.THINKING)
    rest = {key: value for key, value in request.settings.items() if key not in (CONTEXT_MANAGEMENT, COMPACTION)}
    settings: Mapping[str, JSON] = rest | ({CONTEXT_MANAGEMENT: {"edits": edits}} if edits else {})
    same = settings == request.settings and not request.applied
    sent = request if same else structs.replace(request, settings=settings, applied=())
    if not rules:
        if len(_CLEARED) >= _REMEMBERED:
            _CLEARED.clear()
        _CLEARED[id(request)] = request, sent
    return sent


def select_server_rules(rules: Sequence[Step]) -> tuple[Step, ...]:
    """Return the rules of a policy that run on the server."""
    return tuple(part for part in rules if part.rule.sends)


def _find_state(previous: Plan | None, part: Step) -> StepState | None:
    states = previous.states if previous else ()
    return next((known for known in states if known.rule == part.rule.name and known.params == part.params), None)


def _covers_applied(before: Request, now: Request) -> bool:
    """Whether the provider did at least as much to this request as to the previous one."""
    return all(_find_applied(now.applied, made.edit).cleared >= made.cleared for made in before.applied)


def _find_applied(applied: Sequence[AppliedEdit], edit: str) -> AppliedEdit:
    return next((made for made in applied if made.edit == edit), AppliedEdit(edit))


def _find_summary(session: Session, request: Request) -> str:
    """The newest summary in an answer that continues from it; "" where there is none, or the answer contains nothing else."""
    answer = session.blocks[request.cut : request.stop]
    last = next((n for n in reversed(range(len(answer))) if answer[n].kind == "compaction" and answer[n].text), -1)
    return answer[last].text if last >= 0 and request.stop_reason != "compaction" else ""


def _count_pass_tokens(request: Request) -> dict[str, JSON]:
    """Billed tokens of the passes that compacted: the largest prompt, and all output."""
    made = [u for u in request.usage.iterations if u.kind == "compaction"] if request.usage else []
    return {"read": max(u.prompt_tokens for u in made), "written": sum(u.output_tokens for u in made)} if made else {}
