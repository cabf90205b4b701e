"""A live chat: append the prompt, plan the request, send it, stream the answer, append it, pass it to the sinks.

Provider, tools and sink are passed in; this module knows no network and no page. `chat_state` holds the state, `request`
sends one request. This module has the turns, the tool calls, the limits, and what the user changes by hand.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from turnscope.envelope import wishes
from turnscope.envelope.pieces import Decision, Piece
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
from turnscope.session.model import JSON, Edit, Request, Span, Usage, WishFact

__all__ = ["Chat", "Settings"]

MAX_REQUESTS = 50  # of one turn; a longer tool loop is taken for an endless one


@dataclass(slots=True)
class Chat(ChatState):
    """A live chat. Not safe for two threads at once. See `ChatState` for its fields."""

    def send(self, content: str | Sequence[JSON]) -> Generator[Event]:
        """Send a message, and stream what happens until the model ends its turn. Closing the iterator stops the answer.

        Args:
            content: A text, or content blocks if something is attached.

        Raises:
            StorageError: The message could not be stored. Nothing was sent.
        """
        self.writes.flush()
        self._close_calls()
        self.append_message("user", repair_text(content), "prompt")
        yield from self.continue_turn()

    def continue_turn(self, *, over_limit: bool = False) -> Generator[Event]:
        """Send the next request, and those that tool results cause.

        Args:
            over_limit: The user agreed to exceed the spend limit or the growth limit.
        """
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
        start = self.plan.expected_tokens if self.plan else self.preview().expected_tokens
        earlier_calls: list[str] = []
        spent = self.spent_usd
        for _ in range(MAX_REQUESTS):
            if reached := None if over_limit else self._check_limits(start, spent):
                yield reached
                return
            done: Request | None = None
            for event in send_request(self):
                done = event.request if isinstance(event, RequestDone) else done
                yield event
            if done is None:
                return
            blocks = self.live_session.session.blocks[done.cut : done.stop]
            if stop := stop_reasons.explain_stop(done, blocks, self.answer_limit):
                yield stop
            if done.stop_reason in ("pause_turn", "compaction") and done.stop > done.cut:
                continue  # the provider paused: it goes on when it is sent its own answer
            if done.stop_reason != "tool_use" or not stop_reasons.find_tool_calls(blocks):
                return
            if self.tools is None and not archive_tools.handles_all(blocks):
                yield stop_reasons.NO_TOOLS_STOP
                return
            yield from self._call_tools(done)
            if stop_reasons.is_loop(earlier_calls, blocks):
                yield stop_reasons.LOOP_STOP
                return
        yield TurnStopped("loop", stop_reasons.TOO_MANY_REQUESTS.format(MAX_REQUESTS))

    def _close_calls(self) -> None:
        """Append results for tool calls whose tool never ran: a provider rejects a call without a result."""
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
            except Exception as error:  # noqa: BLE001 - the model gets the error of a tool as a result, and the turn goes on
                text, failed = f"the tool failed: {type(error).__name__}", True
            text = repair_text(text)
            result = {"type": "tool_result", "tool_use_id": block.raw.get("id"), "content": text}
            results.append(result | ({"is_error": True} if failed else {}))
            yield ToolResult(text, failed)
        self.append_message("user", results, "tool")

    def _run_tool(self, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        if name in archive_tools.TOOL_NAMES:
            return archive_tools.run_tool(self, name, arguments)
        assert self.tools is not None
        run = partial(self.tools.run, name, arguments)
        return self.cancellation.call(run) if self.cancellation else run()

    def _check_limits(self, start: int, spent: Decimal) -> LimitReached | None:
        """Why the next request waits for the user. `start`, `spent`: the prompt and the USD with which the turn began."""
        limit, growth, most = self.settings.spend_limit, self.settings.growth_limit, self.settings.turn_limit
        if most is not None and self.spent_usd - spent >= most:
            why = f"this turn has cost ${self.spent_usd - spent:.2f}; beyond ${most} the chat asks before it goes on"
            return LimitReached(why, self._estimate_cost())
        if limit is not None and self.spent_usd >= limit:
            usd = self._estimate_cost()
            would = f"; sending this would cost ${usd[0]:.4f}, up to ${usd[1]:.4f} with the longest answer" if usd else ""
            return LimitReached(f"this chat has spent ${self.spent_usd:.4f} of its limit of ${limit}{would}", usd)
        if growth and self.plan:
            new = self.live_session.ledger.count_tokens(self.plan.request.cut, len(self.live_session.ledger))
            grown = self.plan.calibration.predict(self.plan.seen.tokens + new) - start
            if grown > growth:
                why = f"this turn has grown by {grown:,} tokens; its limit is {growth:,}"
                return LimitReached(why, self._estimate_cost())
        return None

    def _estimate_cost(self) -> tuple[Decimal, Decimal] | None:
        plan = self.preview()
        first = (
            (Usage(plan.largest_prompt),) if plan.largest_prompt > plan.expected_tokens else ()
        )  # a server-side summary bills its input too
        usages = (Usage(plan.expected_tokens, output_tokens=n, iterations=first) for n in (0, self.answer_limit))
        least, most = (self.compute_cost(usage, plan.model) for usage in usages)
        return None if least is None or most is None else (least, most)

    def exclude_message(self, message: int) -> None:
        """Exclude a message from all further requests. It stays in the chat.

        Args:
            message: The number of the message in the session.
        """
        excluded = self.live_session.session.messages[message]
        self._record_wish((Edit("drop", "left out by hand", Span(excluded.start, excluded.stop)),))

    def condense(self, keep_turns: int = 2) -> Generator[Event]:
        """Ask for a summary of everything before the newest turns. It replaces them from the next request on.

        Args:
            keep_turns: How many of the newest turns stay verbatim.
        """
        yield SummaryStarted()
        if wrong := request_checks.check_destination(self.destination, self.provider, self.settings.model):
            yield TurnFailed(wrong)
            return
        plan = self.plan_by_hand()
        ctx = self.build_context(plan)
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
        """Return the summaries that the next request begins with, in order. The field `by` of each names it."""
        return wishes.find_summaries(self.plan_by_hand().after)

    def edit_summary(self, by: int, text: str) -> None:
        """Replace the text of a summary from the next request on.

        Args:
            by: The number of the decision that made the summary.
            text: The new text.

        Raises:
            TurnscopeError: The summary is no longer in the window.
        """
        self._record_wish(
            (wishes.edit_summary(wishes.find_summary_of_decision(self.plan_by_hand().after, by), repair_text(text)),)
        )

    def undo_summary(self, by: int, decisions: Sequence[Decision] = ()) -> None:
        """Restore from the next request on what a summary replaced.

        Args:
            by: The number of the decision that made the summary.
            decisions: The decisions of earlier requests, in order. Without the one that made the summary, the messages are
                restored.

        Raises:
            TurnscopeError: The summary is no longer in the window.
        """
        plan = self.plan_by_hand()
        piece = wishes.find_summary_of_decision(plan.after, by)
        self._record_wish(wishes.undo_summary(plan.after, piece, (*decisions, *plan.decisions)))

    def rate_summary(self, by: int, rating: str) -> None:
        """Record what the user thinks of a summary.

        Args:
            by: The number of the decision that made the summary.
            rating: up, down, or "" for none.

        Raises:
            TurnscopeError: The summary is no longer in the window.
        """
        self.record_fact(
            wishes.make_rating(wishes.get_editable_text(wishes.find_summary_of_decision(self.plan_by_hand().after, by)), rating)
        )

    def _record_wish(self, edits: Sequence[Edit]) -> WishFact:
        session = self.live_session.session
        fact = wishes.add_wishes(session, len(session.requests), edits)
        self.record_fact(fact)
        return fact
