"""Memory across sessions: what is found, how it is worded, whose it is, and that forgetting forgets."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import examples, let_go
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.memories import FORMS, Memory, decode_fact, find_facts, make_fact_id
from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded
from turnscope.envelope.wishes import make_rating
from turnscope.errors import TurnscopeError
from turnscope.live.chat import Chat, Settings
from turnscope.live.live_session import LiveSession
from turnscope.live.memory_sink import MemorySink
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import connect
from turnscope.live.sinks import Sinks
from turnscope.planning.answers import make_answerer
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load, make_sendable, parse
from turnscope.session.builder import Builder
from turnscope.session.facts import add_facts
from turnscope.session.model import AnswerFact, Ask, Session
from turnscope.storage.memories import Memories
from turnscope.storage.threads import Threads
from turnscope.storage.values import encode_value

POLICY = """
[budget]
formula = "fixed"
tokens = 2000
slots = { memory = 0.03 }
[[rules]]
rule = "insert_memories"
form = "user-context"
"""


def session(*prompts: str) -> Session:
    builder = Builder("chat", "test")
    for prompt in prompts:
        builder.add_message("user", prompt, sent_at=1_767_348_000.0)
        builder.set_request(builder.add_message("assistant", "I found that the build needs Node 22."))
    return builder.build()


def plans(said: Session, store: Memories | None = None) -> list[Plan]:
    answers = make_answerer(said.recorded.answers.get, {"recall": store.answer} if store else {})
    return [*replay(said, parse("t", POLICY), build_ledger(said, CHARS), answers=answers)]


def get_inserted(plan: Plan, slot: str = "memory") -> str:
    return "".join(part.text for piece in plan.after.pieces if piece.slot == slot for part in piece.body or ())


def test_facts_are_found_by_patterns_and_questions_state_nothing() -> None:
    text = "Hi! My name is Ada. Do I always use tabs? I prefer short answers.\nThe weather is fine."
    assert [fact.text for fact in find_facts("user", text)] == ["My name is Ada.", "I prefer short answers."]
    assert [fact.owner for fact in find_facts("assistant", "The project uses pnpm.")] == ["agent"]
    assert not [*find_facts("assistant", "I prefer short answers.")], "what an answer prefers is nobody's fact"


def test_each_policy_words_facts_in_its_own_way() -> None:
    facts = [Memory("1", "user", "b", "2026-01-02"), Memory("2", "user", "A"), Memory("3", "agent", "c")]
    assert FORMS["user-context"](facts, "") == "User Context:\n1. [2026-01-02]. b\n2. A\n3. c"
    assert FORMS["memory-context"](facts, "") == (
        "<memory_context>\n[User Memory]\n- A\n- b\n[Relevant Context]\n- c\n</memory_context>"
    )
    assert FORMS["section"](facts[:1], "Known:") == "Known:\n- b"


def test_each_fact_is_a_decision_that_can_be_refused() -> None:
    said = session("I prefer short answers.", "Go on.")
    made = [d.edit for d in plans(said)[0].decisions if "memory" in d.edit.facts]
    assert [edit.facts["owner"] for edit in made] == ["user"]
    assert "I prefer short answers." in get_inserted(plans(said)[-1])
    refused = structs.replace(said, recorded=add_facts(said.recorded, make_rating("I prefer short answers.", "down")))
    assert not get_inserted(plans(refused)[-1])
    assert [d.edit.facts["refused"] for d in plans(refused)[0].decisions if "memory" in d.edit.facts] == [True]


def test_facts_of_one_project_or_user_never_reach_another(tmp_path: Path) -> None:
    path = tmp_path / "db"
    mine = Memories(path, "ada", "compiler")
    mine.add("I prefer short answers.")
    assert "short answers" in get_inserted(plans(session("How short?"), mine)[0])
    for other in (Memories(path, "ada", "website"), Memories(path, "bob", "compiler")):
        assert other.list_all() == other.recall("short answers") == ()
        assert not get_inserted(plans(session("How short?"), other)[0])
        with pytest.raises(TurnscopeError):
            other.forget(mine.list_all()[0].id)
    assert mine.list_all()[0].text == "I prefer short answers."


FACTS = [f"I like {what} tea" for what in ("green", "black", "white")]
OWNERS = st.tuples(st.sampled_from(["ada", "bob"]), st.sampled_from(["compiler", "website", ""]))
DONE = st.tuples(st.sampled_from(["add", "forget", "withdraw", "edit", "learn", "unlearn"]), OWNERS, st.sampled_from(FACTS))


@settings(max_examples=examples(12))
@given(st.lists(DONE, min_size=4, max_size=14))
def test_whatever_is_done_in_one_project_no_other_hears_of_it(done: list[tuple[str, tuple[str, str], str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "db"
        known: dict[tuple[str, str], set[str]] = {}
        gone: dict[tuple[str, str], set[str]] = {}
        names: dict[tuple[str, str], set[str]] = {}
        for what, whose, text in done:
            store, id = Memories(path, *whose), make_fact_id("user", text)
            mine, dead = known.setdefault(whose, set()), gone.setdefault(whose, set())
            if what == "add" and text not in dead:
                store.add(text)
                mine.add(text)
            elif what == "forget" and text in mine:
                store.forget(id)
                mine.remove(text)
                dead.add(text)
            elif what == "withdraw":
                store.withdraw(id)
                mine.discard(text)
            elif what == "edit" and text in mine and FACTS[0] not in dead | {text}:
                store.edit(id, FACTS[0])
                mine.remove(text)
                mine.add(FACTS[0])
                dead.add(text)
            elif what == "learn":
                store.learn([text])
                names.setdefault(whose, set()).add(text)
            elif what == "unlearn":
                store.unlearn()
                names.pop(whose, None)
        for whose in {whose for _, whose, _ in done} | {("ada", "other")}:
            store = Memories(path, *whose)
            told = store.answer(Ask("recall", "k", "", "What tea do I like?", 16))
            assert {fact.text for item in told.items if (fact := decode_fact(item)) and not fact.forgotten} == known.get(
                whose, set()
            )
            assert {fact.text for fact in store.list_all() if not fact.forgotten} == known.get(whose, set())
            assert {name for name, _ in store.list_learned()} == names.get(whose, set())


def test_what_has_to_do_with_the_question_comes_first_and_inserts_shrink_to_their_share(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db", clock=lambda: 1_767_348_000.0)
    for n in range(30):
        store.add(f"I always use the tool number {n} for the {'release' if n == 3 else 'rest'}.")
    assert store.recall("How do we release?", 2)[0].text.endswith("3 for the release.")
    plan = plans(session("How do we release?"), store)[0]
    assert "1. [2026-01-02]. I always use the tool number 3 for the release." in get_inserted(plan)
    piece = next(piece for piece in plan.after.pieces if piece.slot == "memory")
    assert 0 < sum(piece.counts) <= 60


def test_forgetting_removes_from_store_index_and_future_requests_and_leaves_a_tombstone(tmp_path: Path) -> None:
    path, secret = tmp_path / "db", 'My name is "Zoë" Quux.'
    store = Memories(path)
    fact = store.add(secret)
    said = session(secret, "What is my name?")
    asked: list[Ask] = [ask for plan in plans(said, store) for ask, _ in plan.asks]
    with sqlite3.connect(path) as db:
        db.execute("insert into threads values ('chat', '', '', 0, 0, '', -1, '{}', null)")
        db.executemany(
            "insert into facts (thread, fact) values ('chat', ?)",
            ((encode_value(AnswerFact(ask.key, store.answer(ask))),) for ask in asked),
        )
        edit = next(d.edit for d in plans(said, store)[0].decisions if d.splice)
        db.execute("insert into decisions values ('chat', 0, 0, 'insert_memories', ?, 1)", [encode_value(edit)])
    assert "Quux" in get_inserted(plans(said, store)[-1])
    store.forget(fact.id)
    assert [known.forgotten for known in store.list_all()] == [True]
    assert store.recall("Quux name") == ()
    assert not get_inserted(plans(said, store)[-1]), "what the session itself said of it is not put in again"
    with sqlite3.connect(path) as db:
        held = "\n".join(line for line in db.iterdump() if "Quux" in line or "quux" in line)
        rows = [row[0] for row in db.execute("select fact from facts")]
    assert held == ""
    assert all("(forgotten)" in row for row in rows)
    with pytest.raises(TurnscopeError, match="forgotten"):
        store.add(secret)


def test_editing_keeps_where_a_fact_came_from_and_forgets_what_it_said(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    fact = store.add("I use vim.", source="chat block 3")
    new = store.edit(fact.id, "I use emacs.")
    assert (new.text, new.source) == ("I use emacs.", "chat block 3")
    assert [known.text for known in store.list_all()] == ["", "I use emacs."]
    with pytest.raises(TurnscopeError):
        store.get(fact.id)


def test_a_chat_remembers_for_the_next_one_and_replays_to_the_same_plans(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db", "ada", "compiler")
    threads = Threads(tmp_path / "db", user="ada")
    with let_go(OfflineServer()) as server:
        provider = connect(server.url, "secret-key-123", retries=0)
        for prompts in (("I prefer short answers.", "Go on."), ("How long are answers to be?",)):
            thread = threads.create(title="test")
            sink = Sinks(threads.open_writer(thread), MemorySink(store))
            made = Settings("offline-16k", parse("t", POLICY))
            chat = Chat(
                LiveSession(Session(thread, source="turnscope-chat"), COUNTER),
                provider,
                sink,
                made,
                recall_answers=store.answer,
            )
            for prompt in prompts:
                assert [*chat.send(prompt)]
    assert [fact.text for fact in store.list_all() if fact.owner == "user"] == ["I prefer short answers."]
    assert chat.plan
    assert "I prefer short answers." in get_inserted(chat.plan)
    loaded = threads.load(thread)
    again = [*replay(loaded, make_sendable(parse("t", POLICY)), build_ledger(loaded, COUNTER))][-1]
    assert get_inserted(again) == get_inserted(chat.plan)


def test_what_a_user_names_again_is_looked_up_first_in_the_next_chat_of_the_project(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db", project="falcon")
    said = session(
        "Look at cache.py.", "Look at mailer.py.", *(f"Widget number {n}." for n in range(6)), "Look at mailer.py again."
    )
    last = [*replay(said, load("layered"), build_ledger(said, CHARS))][-1]
    for counts in (False, True):
        MemorySink(store, counts).record_request(RequestEnded(said.id, last.request, last, "complete"))
        assert dict(store.list_learned()) == ({"mailer.py": 1} if counts else {})
    both = session(
        "Look at cache.py.", "Look at mailer.py.", *(f"Widget {n}." for n in range(6)), "Are cache.py and mailer.py alike?"
    )
    answers = make_answerer(both.recorded.answers.get, {"rank": store.rank})
    plan = [*replay(both, load("layered"), build_ledger(both, CHARS), answers=answers)][-1]
    names = [line.partition(":")[0] for line in get_inserted(plan, "references").split("\n")[1:]]
    assert names.index("mailer.py") < names.index("cache.py")
