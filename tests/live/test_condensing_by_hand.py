"""Condensing a live chat by hand: what is wished holds from the next request on, is kept, and replays to the same plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import let_go
from turnscope.counting.ledger import build_ledger
from turnscope.envelope.plan import Plan
from turnscope.envelope.wishes import get_editable_text, get_rating
from turnscope.errors import TurnscopeError
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    AnswerInterrupted,
    LimitReached,
    QueryAnswered,
    RequestDone,
    RequestPlanned,
    RequestRefused,
    SummaryStarted,
    TurnFailed,
)
from turnscope.live.live_session import LiveSession
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect
from turnscope.planning.assemble import replay
from turnscope.planning.policy import add_wishes_rule, load
from turnscope.planning.render import render
from turnscope.session.model import Session, WishFact
from turnscope.storage.threads import Threads


@pytest.fixture
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as offline:
        yield offline


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path / "turnscope.db")


class Talk:
    """A chat with the built-in server, and the newest plan of each request it sent."""

    def __init__(self, server: OfflineServer, threads: Threads, policy: str = "balanced", condense: bool = True) -> None:
        self.threads = threads
        self.thread = threads.create(title="test")
        self.provider = connect(server.url, "none", retries=0, timeout=10)
        settings = Settings("offline-16k", load(policy), condense=condense)
        start = Session(self.thread, source="turnscope-chat")
        self.chat = Chat(LiveSession(start, COUNTER), self.provider, threads.open_writer(self.thread), settings)
        self.chat.append_message("system", "You are brief.", "system")
        self.plans: dict[int, Plan] = {}

    def send(self, text: str) -> str:
        """Say something; gives the request's body as text."""
        for event in self.chat.send(text):
            if isinstance(event, RequestPlanned):
                self.plans[event.plan.request.n] = event.plan
            assert not isinstance(event, RequestRefused | TurnFailed | LimitReached | AnswerInterrupted), event
        plan = self.plans[max(self.plans)]
        return str(render(plan.after, self.chat.live_session.session))

    def begin(self, turns: int = 5) -> None:
        for n in range(turns):
            self.send(f"Point {n}: the bridge number {n} is closed. " + "It matters for the road. " * 20)

    def by(self) -> int:
        return self.chat.list_summaries()[-1].by

    def decisions(self) -> list:
        return [decision for n in sorted(self.plans) for decision in self.plans[n].decisions]

    def assert_replays(self) -> None:
        """The stored thread, read again, gives the plans that were sent: under its policy, and as recorded."""
        stored = self.threads.load(self.thread)
        assert stored.blocks == self.chat.live_session.session.blocks
        ledger = build_ledger(stored, COUNTER)
        again = list(replay(stored, add_wishes_rule(self.chat.settings.policy), ledger))
        sent = [self.plans[plan.request.n] for plan in again]
        assert [plan.decisions for plan in again] == [plan.decisions for plan in sent]
        assert [[*plan.after.pieces] for plan in again] == [[*plan.after.pieces] for plan in sent]
        recorded = list(replay(stored, load("as-recorded"), ledger))
        assert [render(plan.after, stored) for plan in recorded] == [render(plan.after, stored) for plan in sent]
        resumed, _ = branches.resume_chat(stored, self.provider, self.threads.open_writer(self.thread), self.chat.settings)
        assert resumed.plan
        assert self.chat.plan
        assert [*resumed.plan.after.pieces] == [*self.chat.plan.after.pieces]


@pytest.mark.parametrize("policy", ["balanced", "keep-everything"])
@pytest.mark.parametrize("condense", [True, False])
def test_what_was_condensed_by_hand_is_replaced_from_the_next_request_on(
    server: OfflineServer, threads: Threads, policy: str, condense: bool
) -> None:
    """Asking for it by hand is consent, whether or not the chat condenses by itself."""
    talk = Talk(server, threads, policy, condense)
    talk.begin()
    before = talk.plans[4].after.tokens
    assert [type(event) for event in talk.chat.condense()] == [SummaryStarted, QueryAnswered, WishFact]
    assert talk.chat.preview("and now?").after.tokens < before
    body = talk.send("and now?")
    assert "Summary of the earlier conversation" in body
    assert "Point 2:" not in body.split("Summary of the earlier")[1].split("\\n\\n")[-1]
    (decision,) = talk.plans[5].decisions
    assert (decision.rule, decision.action) == ("follow_wishes", "condense")
    assert decision.edit.facts["messages"] == 6
    assert decision.edit.facts["source"] == "model"
    span = decision.edit.span
    assert span
    session = talk.chat.live_session.session
    assert session.blocks[span.stop].text.startswith("Point 3:")
    assert "Summary of the earlier conversation" in talk.send("and further?")
    assert not talk.plans[6].decisions
    talk.assert_replays()


def test_a_summary_is_edited_undone_and_undone_again(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads)
    talk.begin()
    list(talk.chat.condense())
    talk.send("one")
    first = get_editable_text(talk.chat.list_summaries()[0])
    line = first.strip().splitlines()[0][:60]
    assert line in talk.send("two")
    talk.chat.edit_summary(talk.by(), "All bridges but the third are closed.")
    body = talk.send("three")
    assert "All bridges but the third are closed." in body
    assert "it stands for 6 messages" in body
    assert line not in body
    kept = threads.load(talk.thread).recorded.wishes.values()
    assert any(line in str(wish.edit.body) for wishes in kept for wish in wishes), "the old text is kept"
    talk.chat.undo_summary(talk.by(), talk.decisions())
    talk.send("four")
    assert get_editable_text(talk.chat.list_summaries()[0]) == first
    talk.chat.undo_summary(talk.by(), talk.decisions())
    body = talk.send("five")
    assert talk.chat.list_summaries() == ()
    assert all(f"Point {n}:" in body for n in range(5))
    talk.assert_replays()


def test_condensing_again_reads_the_old_summary_and_undoing_brings_it_back(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads)
    talk.begin()
    list(talk.chat.condense())
    talk.chat.edit_summary(talk.by(), "The heron stands in the reeds.")
    talk.begin(3)
    asks = [event.ask for event in talk.chat.condense(keep_turns=1) if isinstance(event, QueryAnswered)]
    assert "summary: The heron stands in the reeds." in asks[0].content
    assert "Point 0: the bridge number 0 is closed" in asks[0].content
    talk.send("one")
    assert len(talk.chat.list_summaries()) == 1
    talk.chat.undo_summary(talk.by(), talk.decisions())
    assert "The heron stands in the reeds." in talk.send("two")
    talk.assert_replays()


def test_a_summary_that_the_policy_made_is_edited_and_undone(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads, "condense-oldest")
    n = 0
    while not talk.chat.list_summaries():
        talk.send(f"Point {n}. " + "Some words that fill the window. " * 200)
        n += 1
        assert n < 20
    talk.chat.edit_summary(talk.by(), "A text of my own.")
    assert "A text of my own." in talk.send("and now?")
    talk.chat.undo_summary(talk.by())  # nothing is known of who put it there: the messages come back
    assert all(piece.body is None for piece in talk.chat.plan_by_hand().after.pieces)
    talk.assert_replays()


def test_nothing_is_condensed_where_nothing_is_old_and_a_failure_changes_nothing(
    server: OfflineServer, threads: Threads
) -> None:
    talk = Talk(server, threads)
    talk.begin(2)
    assert [type(event) for event in talk.chat.condense()] == [SummaryStarted, TurnFailed]
    talk.begin(2)
    server.faults.append("overloaded")
    events = list(talk.chat.condense())
    assert isinstance(events[-1], TurnFailed)
    assert "no summary was made" in events[-1].error.what
    assert not talk.chat.list_summaries()
    assert isinstance([*talk.chat.condense()][-1], WishFact), "what failed once is asked for again"
    events = list(talk.chat.condense())
    assert isinstance(events[-1], TurnFailed), "it is condensed already"
    talk.send("and now?")
    talk.assert_replays()


def test_an_unknown_summary_and_an_empty_text_are_refused(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads)
    talk.begin()
    with pytest.raises(TurnscopeError, match="no longer in the request"):
        talk.chat.edit_summary(3, "text")
    list(talk.chat.condense())
    with pytest.raises(TurnscopeError, match="the summary is empty"):
        talk.chat.edit_summary(talk.by(), "  ")


def test_a_rating_is_kept_with_the_text_that_was_rated(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads)
    talk.begin()
    list(talk.chat.condense())
    text = get_editable_text(talk.chat.list_summaries()[0])
    talk.chat.rate_summary(talk.by(), "down")
    talk.chat.edit_summary(talk.by(), "Better.")
    talk.chat.rate_summary(talk.by(), "up")
    stored = threads.load(talk.thread)
    assert (get_rating(stored, text), get_rating(stored, "Better."), get_rating(stored, "Worse.")) == ("down", "up", "")
    talk.send("and now?")
    talk.assert_replays()


def test_a_branch_follows_what_was_wished_before_it_begins_and_nothing_after(server: OfflineServer, threads: Threads) -> None:
    talk = Talk(server, threads)
    talk.begin()
    shared = len(talk.chat.live_session.session.blocks)
    list(talk.chat.condense())
    talk.send("one")
    early = threads.create(parent=talk.thread, at=shared - 2)
    late = threads.create(parent=talk.thread, at=shared)
    for thread, condensed in ((early, False), (late, True)):
        branch, _ = branches.resume_chat(threads.load(thread), talk.provider, threads.open_writer(thread), talk.chat.settings)
        assert isinstance([*branch.send("otherwise")][-1], RequestDone)
        assert isinstance([*branch.send("and on")][-1], RequestDone)
        assert bool(branch.list_summaries()) == condensed


def test_a_history_that_no_summary_would_shorten_is_refused_before_anybody_is_asked(
    server: OfflineServer, threads: Threads
) -> None:
    talk = Talk(server, threads)
    builder = talk.chat.live_session
    for text in ("a", "b", "c"):
        builder.append_message("user", text, origin="prompt")
        builder.append_message("assistant", "Yes.", origin="answer")
    said = [*talk.chat.condense(keep_turns=1)]
    assert [type(event) for event in said] == [SummaryStarted, TurnFailed]
    assert "a summary would save nothing" in said[1].error.what  # type: ignore[union-attr]
    assert server.memory.billed == []
