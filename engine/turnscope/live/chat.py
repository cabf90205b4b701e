"""Chatting through the same assembler: append the prompt, `step`, send, stream, `settle`, append the answer, tell the sink.

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
from turnscope.live import archive, gateway, stops
from turnscope.live.events import (
    Asked,
    Called,
    Condensing,
    Done,
    Event,
    Failed,
    Held,
    Result,
    Stopped,
)
from turnscope.live.request import requested
from turnscope.live.talk import Settings, Talk
from turnscope.live.wire import whole
from turnscope.planning.assemble import step
from turnscope.planning.policy import wishes_alone
from turnscope.session.model import JSON, Edit, Request, Span, Usage, WishFact

__all__ = ["Chat", "Settings"]

MAX_LOOPS = 50  # requests of one turn; an agent loop longer than this is a loop


@dataclass(slots=True)
class Chat(Talk):
    """One conversation under way. Not safe for two threads at once."""

    def send(self, content: str | Sequence[JSON]) -> Generator[Event]:
        """Say something (text, or blocks where something is attached), and stream what follows until the model ends its turn.

        Closing the iterator stops the answer.
        """
        self.keeping.flush()
        self._close_calls()
        self.say("user", whole(content), "prompt")
        yield from self.go_on()

    def go_on(self, *, asked: bool = False) -> Generator[Event]:
        """Send the next request, and those that tool results cause. `asked`: the person agreed to go over a limit."""
        self._close_calls()
        if opening := gateway.opening(self.growing.session):
            self._wish((opening,))
        try:
            yield from self._turn(asked)
        except GeneratorExit:
            self.stopped = True
            raise
        yield from self.keeping.settle(*((self.leaving.left,) if self.leaving else ()))

    def _turn(self, asked: bool) -> Iterator[Event]:
        start = self.plan.projected if self.plan else self.planned().projected
        made: list[str] = []
        for _ in range(MAX_LOOPS):
            if held := None if asked else self._over(start):
                yield held
                return
            done: Request | None = None
            for event in requested(self):
                done = event.request if isinstance(event, Done) else done
                yield event
            if done is None:
                return
            blocks = self.growing.session.blocks[done.cut : done.stop]
            if stop := stops.why(done, blocks, self.settings.max_tokens):
                yield stop
            if done.stop_reason in ("pause_turn", "compaction") and done.stop > done.cut:
                continue  # the provider wants to go on, and is sent what it said
            if done.stop_reason != "tool_use" or not stops.calls(blocks):
                return
            if self.tools is None and not archive.served(blocks):
                yield stops.NO_TOOLS
                return
            yield from self._call_tools(done)
            if stops.repeated(made, blocks):
                yield stops.LOOP
                return
        yield Stopped("loop", stops.ON_AND_ON.format(MAX_LOOPS))

    def _close_calls(self) -> None:
        """Answer tool calls whose tool never ran: a provider refuses a call without a result for ever."""
        session = self.growing.session
        last = next((message for message in reversed(session.messages) if message.role in ("user", "assistant")), None)
        calls = stops.calls(session.blocks[last.start : last.stop]) if last else []
        if calls:
            words = stops.PERSON if self.stopped else stops.NOT_RUN
            what = {"type": "tool_result", "content": words, "is_error": True}
            self.say("user", [{**what, "tool_use_id": call.raw.get("id")} for call in calls], "tool")
        self.stopped = False

    def _call_tools(self, done: Request) -> Iterator[Event]:
        results: list[JSON] = []
        for block in stops.calls(self.growing.session.blocks[done.cut : done.stop]):
            yield Called(block.raw)
            try:
                text, failed = self._run(block.name, block.raw.get("input") or {})
            except Exception as error:  # noqa: BLE001 - whatever a tool does, the model is told, and the turn goes on
                text, failed = f"the tool failed: {type(error).__name__}", True
            result = {"type": "tool_result", "tool_use_id": block.raw.get("id"), "content": whole(text)}
            results.append(result | ({"is_error": True} if failed else {}))
            yield Result(text, failed)
        self.say("user", results, "tool")

    def _run(self, name: str, given: Mapping[str, JSON]) -> tuple[str, bool]:
        if name in archive.NAMES:
            return archive.run(self, name, given)
        assert self.tools is not None
        run = partial(self.tools.run, name, given)
        return self.leaving.call(run) if self.leaving else run()

    def _over(self, start: int) -> Held | None:
        limit, growth = self.settings.spend, self.settings.growth
        if limit is not None and self.spent >= limit:
            usd = self._would_cost()
            would = f"; sending this would cost ${usd[0]:.4f}, up to ${usd[1]:.4f} with the longest answer" if usd else ""
            return Held(f"this chat has spent ${self.spent:.4f} of ${limit}{would}", usd)
        if growth and self.plan:
            new = self.growing.ledger.count_tokens(self.plan.request.cut, len(self.growing.ledger))
            grown = self.plan.calibration.predict(self.plan.seen.tokens + new) - start
            if grown > growth:
                return Held(f"this turn has grown by {grown:,} tokens, more than {growth:,}", self._would_cost())
        return None

    def _would_cost(self) -> tuple[Decimal, Decimal] | None:
        plan = self.planned()
        first = (Usage(plan.largest),) if plan.largest > plan.projected else ()  # what a server reads to sum up is billed too
        told = (Usage(plan.projected, output_tokens=n, iterations=first) for n in (0, self.settings.max_tokens))
        least, most = (self.cost(usage, plan.model) for usage in told)
        return None if least is None or most is None else (least, most)

    def leave_out(self, message: int) -> None:
        """Leave one of the messages (by its number) out of every further request; it stays in the chat."""
        said = self.growing.session.messages[message]
        self._wish((Edit("drop", "left out by hand", Span(said.start, said.stop)),))

    def condense(self, keep_turns: int = 2) -> Generator[Event]:
        """Ask for a summary of all before the newest turns; it stands for them from the next request on."""
        yield Condensing()
        if wrong := gateway.elsewhere(self.place, self.provider, self.settings.model):
            yield Failed(wrong)
            return
        plan, basis = self._by_hand(), self.growing.basis
        ctx = Ctx(self.growing.session, plan.request, basis.index, basis.ledger, basis.own, self.plan, plan.calibration,
                  plan.budget, plan.budget.limit, 0, prices=basis.prices)  # fmt: skip
        asking, answers = wishes.condense_by_hand(plan.after, ctx, keep_turns), self.answers(wished=True)
        try:
            ask = next(asking)
            tried = wishes.preview_summary(plan.after, ctx, keep_turns)
            wishes.check_summary_stays(
                step(self.plan, tried, plan.request, self.policy, self.growing.basis_of(self.policy)).after
            )
            while True:
                answer = answers(ask)
                yield Asked(ask, answer)
                ask = asking.send(answer)
        except StopIteration as made:
            yield self._wish(made.value)
        except TurnscopeError as error:
            yield Failed(error)

    def summaries(self) -> tuple[Piece, ...]:
        """The summaries that the next request starts from, in order; `by` names each."""
        return wishes.find_summaries(self._by_hand().after)

    def edit_summary(self, by: int, text: str) -> None:
        """Give the summary that decision `by` put there another text from the next request on. TurnscopeError: it is gone."""
        self._wish((wishes.edit_summary(wishes.find_summary_of_decision(self._by_hand().after, by), whole(text)),))

    def undo_summary(self, by: int, decisions: Sequence[Decision] = ()) -> None:
        """Put back what stood before decision `by`, from the next request on; without that decision, the messages themselves.

        `decisions`: those of earlier requests that are at hand, in order. TurnscopeError: the summary is gone.
        """
        plan = self._by_hand()
        piece = wishes.find_summary_of_decision(plan.after, by)
        self._wish(wishes.undo_summary(plan.after, piece, (*decisions, *plan.decisions)))

    def rate_summary(self, by: int, rating: str) -> None:
        """Keep what somebody thinks of a summary: up, down, or "" for nothing. TurnscopeError: the summary is gone."""
        self.note(
            wishes.make_rating(wishes.get_editable_text(wishes.find_summary_of_decision(self._by_hand().after, by)), rating)
        )

    def _by_hand(self) -> Plan:
        """What the next request starts from, with all that was wished, before the policy."""
        growing = self.growing
        policy = wishes_alone(self.settings.policy)
        return step(self.plan, growing.session, self.asked(growing), policy, growing.basis_of(policy))

    def _wish(self, edits: Sequence[Edit]) -> WishFact:
        session = self.growing.session
        fact = wishes.add_wishes(session, len(session.requests), edits)
        self.note(fact)
        return fact
