"""Chatting through the same assembler: append the prompt, plan, send, stream, reconcile, append the answer, tell the sink.

Provider, tools and sink are passed in; this module knows no network and no page. What a chat holds is in `talk`, one request of
it in `request`; here are its turns, its tools, its limits, and what a person does to it by hand.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from turnscope.envelope import wishes
from turnscope.envelope.pieces import Decision, Piece
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx
from turnscope.errors import TurnscopeError
from turnscope.live import archive_tools, request_checks, stop_reasons
from turnscope.live.chat_state import ChatState, Settings
from turnscope.live.events import (
    Event,
    LimitReached,
    QueryAnswered,
    RequestDone,
    SummaryStarted,
    ToolCalled,
    ToolResult,
    TurnFailed,
    TurnStopped,
)
from turnscope.live.request import send_request
from turnscope.live.stream_assembler import repair_text
from turnscope.planning.assemble import plan_step
from turnscope.planning.policy import keep_wishes_only
from turnscope.session.model import JSON, Edit, Request, Span, Usage, WishFact

__all__ = ["Chat", "Settings"]

MAX_REQUESTS = 50  # requests of one turn; an agent loop longer than this is a loop


@dataclass(slots=True)
class Chat(ChatState):
    """One conversation under way. Not safe for two threads at once."""

    def send(self, content: str | Sequence[JSON]) -> Generator[Event]:
        """Say something (text, or blocks where something is attached), and stream what follows until the model ends its turn.

        Closing the iterator stops the answer.
        """
        self.writes.flush()
        self._close_calls()
        self.append_message("user", repair_text(content), "prompt")
        yield from self.continue_turn()

    def continue_turn(self, *, over_limit: bool = False) -> Generator[Event]:
        """Send the next request, and those that tool results cause. `asked`: the person agreed to go over a limit."""
        self._close_calls()
        if opening := request_checks.build_opening(self.live_session.session):
            self._record_wish((opening,))
        try:
            yield from self._run_turn(over_limit)
        except GeneratorExit:
            self.stopped_by_user = True
            raise
        yield from self.writes.retry(*((self.cancellation.is_cancelled,) if self.cancellation else ()))

    def _run_turn(self, over_limit: bool) -> Iterator[Event]:
        start = self.plan.projected if self.plan else self.preview().projected
        made: list[str] = []
        for _ in range(MAX_REQUESTS):
            if held := None if over_limit else self._check_limits(start):
                yield held
                return
            done: Request | None = None
            for event in send_request(self):
                done = event.request if isinstance(event, RequestDone) else done
                yield event
            if done is None:
                return
            blocks = self.live_session.session.blocks[done.cut : done.stop]
            if stop := stop_reasons.explain_stop(done, blocks, self.settings.max_tokens):
                yield stop
            if done.stop_reason in ("pause_turn", "compaction") and done.stop > done.cut:
                continue  # the provider wants to go on, and is sent what it said
            if done.stop_reason != "tool_use" or not stop_reasons.find_tool_calls(blocks):
                return
            if self.tools is None and not archive_tools.handles_all(blocks):
                yield stop_reasons.NO_TOOLS_STOP
                return
            yield from self._call_tools(done)
            if stop_reasons.is_loop(made, blocks):
                yield stop_reasons.LOOP_STOP
                return
        yield TurnStopped("loop", stop_reasons.TOO_MANY_REQUESTS.format(MAX_REQUESTS))

    def _close_calls(self) -> None:
        """Answer tool calls whose tool never ran: a provider refuses a call without a result for ever."""
        session = self.live_session.session
        last = next((message for message in reversed(session.messages) if message.role in ("user", "assistant")), None)
        calls = stop_reasons.find_tool_calls(session.blocks[last.start : last.stop]) if last else []
        if calls:
            words = stop_reasons.STOPPED_BY_USER if self.stopped_by_user else stop_reasons.TOOL_NOT_RUN
            what = {"type": "tool_result", "content": words, "is_error": True}
            self.append_message("user", [{**what, "tool_use_id": call.raw.get("id")} for call in calls], "tool")
        self.stopped_by_user = False

    def _call_tools(self, done: Request) -> Iterator[Event]:
        results: list[JSON] = []
        for block in stop_reasons.find_tool_calls(self.live_session.session.blocks[done.cut : done.stop]):
            yield ToolCalled(block.raw)
            try:
                text, failed = self._run_tool(block.name, block.raw.get("input") or {})
            except Exception as error:  # noqa: BLE001 - whatever a tool does, the model is told, and the turn goes on
                text, failed = f"the tool failed: {type(error).__name__}", True
            result = {"type": "tool_result", "tool_use_id": block.raw.get("id"), "content": repair_text(text)}
            results.append(result | ({"is_error": True} if failed else {}))
            yield ToolResult(text, failed)
        self.append_message("user", results, "tool")

    def _run_tool(self, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        if name in archive_tools.TOOL_NAMES:
            return archive_tools.run_tool(self, name, arguments)
        assert self.tools is not None
        run = partial(self.tools.run, name, arguments)
        return self.cancellation.call(run) if self.cancellation else run()

    def _check_limits(self, start: int) -> LimitReached | None:
        limit, growth = self.settings.spend_limit, self.settings.growth_limit
        if limit is not None and self.spent_usd >= limit:
            usd = self._estimate_cost()
            would = f"; sending this would cost ${usd[0]:.4f}, up to ${usd[1]:.4f} with the longest answer" if usd else ""
            return LimitReached(f"this chat has spent ${self.spent_usd:.4f} of ${limit}{would}", usd)
        if growth and self.plan:
            new = self.live_session.ledger.count_tokens(self.plan.request.cut, len(self.live_session.ledger))
            grown = self.plan.calibration.predict(self.plan.seen.tokens + new) - start
            if grown > growth:
                return LimitReached(f"this turn has grown by {grown:,} tokens, more than {growth:,}", self._estimate_cost())
        return None

    def _estimate_cost(self) -> tuple[Decimal, Decimal] | None:
        plan = self.preview()
        first = (Usage(plan.largest),) if plan.largest > plan.projected else ()  # what a server reads to sum up is billed too
        told = (Usage(plan.projected, output_tokens=n, iterations=first) for n in (0, self.settings.max_tokens))
        least, most = (self.compute_cost(usage, plan.model) for usage in told)
        return None if least is None or most is None else (least, most)

    def exclude_message(self, message: int) -> None:
        """Leave one of the messages (by its number) out of every further request; it stays in the chat."""
        said = self.live_session.session.messages[message]
        self._record_wish((Edit("drop", "left out by hand", Span(said.start, said.stop)),))

    def condense(self, keep_turns: int = 2) -> Generator[Event]:
        """Ask for a summary of all before the newest turns; it stands for them from the next request on."""
        yield SummaryStarted()
        if wrong := request_checks.check_destination(self.destination, self.provider, self.settings.model):
            yield TurnFailed(wrong)
            return
        plan, basis = self._plan_by_hand(), self.live_session.basis
        ctx = Ctx(self.live_session.session, plan.request, basis.index, basis.ledger, basis.own, self.plan, plan.calibration,
                  plan.budget, plan.budget.limit, 0, prices=basis.prices)  # fmt: skip
        asking, answers = wishes.condense_by_hand(plan.after, ctx, keep_turns), self.build_answers(force_summaries=True)
        try:
            ask = next(asking)
            tried = wishes.preview_summary(plan.after, ctx, keep_turns)
            wishes.check_summary_stays(
                plan_step(self.plan, tried, plan.request, self.policy, self.live_session.get_policy_basis(self.policy)).after
            )
            while True:
                answer = answers(ask)
                yield QueryAnswered(ask, answer)
                ask = asking.send(answer)
        except StopIteration as made:
            yield self._record_wish(made.value)
        except TurnscopeError as error:
            yield TurnFailed(error)

    def list_summaries(self) -> tuple[Piece, ...]:
        """The summaries that the next request starts from, in order; `by` names each."""
        return wishes.find_summaries(self._plan_by_hand().after)

    def edit_summary(self, by: int, text: str) -> None:
        """Give the summary that decision `by` put there another text from the next request on. TurnscopeError: it is gone."""
        self._record_wish(
            (wishes.edit_summary(wishes.find_summary_of_decision(self._plan_by_hand().after, by), repair_text(text)),)
        )

    def undo_summary(self, by: int, decisions: Sequence[Decision] = ()) -> None:
        """Put back what stood before decision `by`, from the next request on; without that decision, the messages themselves.

        `decisions`: those of earlier requests that are at hand, in order. TurnscopeError: the summary is gone.
        """
        plan = self._plan_by_hand()
        piece = wishes.find_summary_of_decision(plan.after, by)
        self._record_wish(wishes.undo_summary(plan.after, piece, (*decisions, *plan.decisions)))

    def rate_summary(self, by: int, rating: str) -> None:
        """Keep what somebody thinks of a summary: up, down, or "" for nothing. TurnscopeError: the summary is gone."""
        self.record_fact(
            wishes.make_rating(
                wishes.get_editable_text(wishes.find_summary_of_decision(self._plan_by_hand().after, by)), rating
            )
        )

    def _plan_by_hand(self) -> Plan:
        """What the next request starts from, with all that was wished, before the policy."""
        growing = self.live_session
        policy = keep_wishes_only(self.settings.policy)
        return plan_step(self.plan, growing.session, self.build_request(growing), policy, growing.get_policy_basis(policy))

    def _record_wish(self, edits: Sequence[Edit]) -> WishFact:
        session = self.live_session.session
        fact = wishes.add_wishes(session, len(session.requests), edits)
        self.record_fact(fact)
        return fact
