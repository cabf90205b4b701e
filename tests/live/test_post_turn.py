"""What is asked once a turn was answered: recorded then, found by the next request and by every replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import let_go
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.fact_extraction import build_facts_ask
from turnscope.envelope.layers import model_metadata
from turnscope.envelope.wishes import make_rating
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import QueryAnswered, RequestDone
from turnscope.live.memory_sink import MemorySink
from turnscope.live.offline import OfflineServer
from turnscope.live.post_turn import run_post_turn_queries
from turnscope.live.provider import connect
from turnscope.live.sinks import Sinks
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load, make_sendable, parse
from turnscope.session.builder import Builder
from turnscope.session.facts import add_facts
from turnscope.session.model import Answer, AnswerFact, Session
from turnscope.storage.memories import Memories
from turnscope.storage.threads import Threads


def begun(server: OfflineServer, path: Path, policy: str, store: Memories) -> Chat:
    threads, settings = Threads(path), Settings("offline-64k", load(policy))
    thread = threads.create(title="test")
    provider = connect(server.url, "secret-key-123", retries=0, timeout=10)
    chat = branches.start_chat(
        thread, provider, Sinks(threads.open_writer(thread), MemorySink(store)), settings, "Be brief.", []
    )
    chat.recall_answers, chat.injected_answers = store.answer, {"rank": store.rank}
    return chat


def test_a_model_tells_the_facts_of_a_turn_after_its_answer_and_the_next_request_decides_on_them(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    with let_go(OfflineServer()) as server:
        chat = begun(server, tmp_path / "db", "openwebui-middleware", store)
        said = [*run_post_turn_queries(chat, chat.send("My name is Ada. It rains."))]
        asked = next(n for n, event in enumerate(said) if isinstance(event, QueryAnswered) and event.ask.kind == "extract")
        assert asked > next(n for n, event in enumerate(said) if isinstance(event, RequestDone)), "after the answer"
        assert said[asked].answer.text.startswith("user: My name is Ada.")  # type: ignore[union-attr]
        again = [*run_post_turn_queries(chat, chat.send("Go on."), facts=False)]
        before = [event for event in again if isinstance(event, QueryAnswered) and event.ask.kind == "extract"]
        assert [event.answer.source for event in before] == ["model"], "the recorded answer, read by the next request"
    session = chat.live_session.session
    plans = [*replay(session, make_sendable(load("openwebui-middleware")), chat.live_session.ledger)]
    assert chat.plan
    assert [*plans[-1].after.pieces] == [*chat.plan.after.pieces]
    assert [fact.text for fact in store.list_all()] == ["My name is Ada."], "said in other words it is known already"


def test_what_patterns_missed_is_a_decision_of_the_next_turn_and_can_be_refused() -> None:
    builder = Builder("chat", "test")
    for prompt in ("I prefer short answers. Ada is how people know me.", "Go on."):
        builder.add_message("user", prompt)
        builder.set_request(builder.add_message("assistant", "Yes."))
    session = builder.build()
    ask = build_facts_ask(session, 0, 2)
    assert ask
    told = "user: Prefers short answers.\nuser: Is known as Ada.\nagent: x\nnonsense\n- agent: The wiki is stale today."
    recorded = add_facts(session.recorded, AnswerFact(ask.key, Answer(told, source="model")))

    def list_found(session: Session) -> list[list[tuple[str, bool]]]:
        policy = parse("t", '[budget]\nformula = "fixed"\ntokens = 900\n[[rules]]\nrule = "insert_memories"\n')
        plans = [*replay(session, policy, build_ledger(session, CHARS))]
        looks = [[d.edit.facts for d in plan.decisions if "memory" in d.edit.facts] for plan in plans]
        return [[(facts["tier"], facts["refused"]) for facts in rows] for rows in looks]

    assert list_found(structs.replace(session, recorded=recorded)) == [
        [("medium", False)],
        [("medium", False), ("short", False)],
    ]
    refused = add_facts(recorded, make_rating("Is known as Ada.", "down"))
    assert list_found(structs.replace(session, recorded=refused))[1] == [("medium", True), ("short", False)]
    assert list_found(session) == [[("medium", False)], []]


def test_a_conversation_that_is_over_is_told_in_the_models_words_and_replays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with let_go(OfflineServer()) as server:
        chat = begun(server, path, "layered", Memories(path))
        for n in range(8):
            [*run_post_turn_queries(chat, chat.send(f"Question {n}: the key of project falcon is ZX-447{n}."))]
        keys = [key for key in chat.live_session.facts.answers if key.startswith("conversation:")]
        assert len(keys) == 8
    assert chat.plan
    told = next(piece for piece in chat.plan.after.pieces if piece.slot == "summaries")
    answer = chat.live_session.facts.answers[keys[1]].text
    assert any(line in (told.body or ())[0].text for line in answer.splitlines() if line)
    stored = Threads(path).load(chat.live_session.session.id)
    for session in (chat.live_session.session, stored):
        plans = [*replay(session, make_sendable(load("layered")), chat.live_session.ledger)]
        assert [*plans[-1].after.pieces] == [*chat.plan.after.pieces]
        assert plans[-1].states == chat.plan.states


SAID = {  # by what ends a conversation: minutes of silence before each prompt, and the prompts
    "turn": [
        (0, "Falcon one: the key is ZX-4471."),
        (0, "Falcon two: the key is ZX-4472."),
        (0, "Falcon three."),
        (0, "Four."),
    ],
    "idle gap": [(0, "The key is ZX-4471."), (2, "The key is ZX-4472."), (60, "Anything new?"), (90, "And now?")],
    "topic": [
        (0, "Falcon keys are ZX-4471."),
        (0, "Falcon keys change."),
        (0, "Bake bread slowly."),
        (0, "Mailer queues overflow."),
    ],
}


@pytest.mark.parametrize("split", [*SAID])
def test_whatever_ends_a_conversation_a_model_tells_of_it(split: str, tmp_path: Path) -> None:
    base = load("layered")
    own = {"split": split, "keep": 1}
    steps = tuple(
        replace(s, params=replace(s.params, **{k: v for k, v in own.items() if hasattr(s.params, k)})) for s in base.rules
    )
    policy, now = replace(base, rules=steps), 1_000_000.0
    with let_go(OfflineServer()) as server:
        chat = begun(server, tmp_path / "db", "layered", Memories(tmp_path / "db"))
        chat.settings = replace(chat.settings, policy=policy)
        chat.clock = lambda: now
        for minutes, prompt in SAID[split]:
            now += 60 * minutes
            [*run_post_turn_queries(chat, chat.send(prompt))]
    session, plan = chat.live_session.session, chat.plan
    assert plan
    first = 1 if split == "turn" else 2  # prompts of the first conversation
    turns = chat.live_session.basis.index.turns
    ask = model_metadata.build_metadata_ask(session.blocks[turns[0] : turns[first]])
    assert ask
    told = session.recorded.answers[ask.key].text.splitlines()[0]
    (summaries,) = [piece.body for piece in plan.after.pieces if piece.slot == "summaries"]
    assert told.startswith("Summary made")
    assert told in "\n".join(part.text for part in summaries or ()), "in the model's words"
    plans = [*replay(session, make_sendable(policy), chat.live_session.ledger)]
    assert [*plans[-1].after.pieces] == [*plan.after.pieces]
    assert plans[-1].states == plan.states


def test_what_a_project_looks_up_again_is_ready_in_its_next_chat_and_recorded_there(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store, other = Memories(path, project="falcon"), Memories(path, project="heron")
    with let_go(OfflineServer()) as server:
        for n in range(2):
            chat = begun(server, path, "layered", store)
            for prompt in ("Look at cache.py.", "Look at mailer.py.", *(f"Widget number {k}." for k in range(6))):
                [*chat.send(prompt)]
            [*chat.send("Please recall c2 as a summary.")]
            [*chat.send("Something else entirely.")]
            state = chat.plan.get_state("retrieve_conversations") if chat.plan else None
            assert state is not None
            assert 1 in state.ready
            assert bool(state.learned) == (n == 1)
    assert dict(store.list_learned())["mailer.py"] == 2
    assert other.list_learned() == ()
    plans = [*replay(chat.live_session.session, make_sendable(load("layered")), chat.live_session.ledger)]
    assert chat.plan
    assert plans[-1].states == chat.plan.states, "a replay asks nobody"
    store.unlearn()
    assert store.list_learned() == ()
    assert [*replay(chat.live_session.session, make_sendable(load("layered")), chat.live_session.ledger)][
        -1
    ].states == chat.plan.states


def test_forgetting_reaches_what_a_model_told_of_a_turn(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    with let_go(OfflineServer()) as server:
        chat = begun(server, tmp_path / "db", "openwebui-middleware", store)
        [*run_post_turn_queries(chat, chat.send("My name is Ada Quux."))]
    store.forget(store.list_all()[0].id)
    loaded = Threads(tmp_path / "db").load(chat.live_session.session.id)
    told = [answer.text for key, answer in loaded.recorded.answers.items() if key.startswith("extract:")]
    assert told == ["user: (forgotten)"]
    plans = [*replay(loaded, make_sendable(load("openwebui-middleware")), chat.live_session.ledger)]
    assert "(forgotten)" not in str([piece.body for piece in plans[-1].after.pieces if piece.slot == "memory"])
