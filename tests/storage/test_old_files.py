"""Chats and sessions that older versions kept: what is in them is read by this one, and replays to the plans that were sent.

`old/chats_1.sql` is a whole `chats.db` as the first version wrote it, `old/session_1.json` its first chat as that version
exported it: counts, wishes and ratings were answers under keys of their own, with JSON inside. The expectations were taken
from that version's own replay: what calibrated each plan, the tokens it expected, and a digest of the body.
"""

from __future__ import annotations

import json
import sqlite3
from hashlib import blake2b
from pathlib import Path

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.envelope.wishes import find_wishes, get_rating
from turnscope.errors import BrokenFile
from turnscope.live.offline.model import COUNTER
from turnscope.planning.assemble import replay
from turnscope.planning.policy import add_wishes_rule, load
from turnscope.planning.render import render
from turnscope.session import portable
from turnscope.session.content import dumps
from turnscope.session.model import Answer, CountFact, Session
from turnscope.storage.threads import Threads

OLD = Path(__file__).parent / "old"
CHAT, BRANCH = f"{1:032x}", f"{9:032x}"
SHARED = [
    (0, 31, "d94306012674a713"),
    (31, 142, "e97b6389ad5701d7"),
    (253, 253, "b5d9f4baa03a5ccc"),
    (364, 364, "89e80fc581f2f4c3"),
]
SENT = {
    CHAT: [*SHARED, (364, 150, "b4698f7bddd24a59"), (218, 218, "6f5b9984e1770570"), (589, 589, "f88bfa40617107bb")],
    BRANCH: [*SHARED, (364, 150, "13500cec49e879e9")],
}
BETTER = 'All bridges but one are closed: é "so".'


@pytest.fixture
def old(tmp_path: Path) -> Threads:
    """The old file, as a store of this version finds it."""
    path = tmp_path / "chats.db"
    with sqlite3.connect(path) as db:
        db.executescript((OLD / "chats_1.sql").read_text(encoding="utf-8"))
    return Threads(path)


def plans(session: Session) -> list[tuple[int, int, str]]:
    replayed = replay(session, add_wishes_rule(load("keep-everything")), build_ledger(session, COUNTER))
    bodies = ((plan, dumps(render(plan.after, session, plan.request.settings))) for plan in replayed)
    return [
        (p.calibration.recorded, p.expected_tokens, blake2b(body.encode(), digest_size=8).hexdigest()) for p, body in bodies
    ]


def check_unchanged(session: Session) -> None:
    recorded = session.recorded
    assert [(c.request, c.seen, c.tokens) for counts in recorded.counts.values() for c in counts] == [
        (2, 253, 253),
        (3, 364, 364),
        (5, 218, 218),
        (6, 589, 589),
    ]
    assert {count.model for counts in recorded.counts.values() for count in counts} == {"offline-16k"}
    assert {n: [wish.edit.action for wish in wishes] for n, wishes in recorded.wishes.items()} == {
        4: ["condense", "condense"],
        6: ["restore"],
    }
    (answer,) = recorded.answers.values()
    assert (answer.source, answer.model, answer.usage and answer.usage.prompt_tokens) == ("model", "offline-16k", 486)
    assert sorted(recorded.ratings.values()) == ["down", "up"]
    assert get_rating(session, BETTER) == "up"


@pytest.mark.parametrize("thread", [CHAT, BRANCH])
def test_an_old_chat_loads_with_all_that_was_recorded_and_replays_to_what_was_sent(old: Threads, thread: str) -> None:
    session = old.load(thread)
    check_unchanged(session)
    assert plans(session) == SENT[thread]
    assert [edit.body[0].text.endswith(BETTER) for edit in find_wishes(session, 4) if edit.body] == [False, True]


def test_the_rest_of_an_old_file_is_there_and_can_be_added_to(old: Threads) -> None:
    assert [(row.id, row.title) for row in old.list()] == [(BRANCH, "old branch"), (CHAT, "old")]
    assert old.list_answers() == {"k1": Answer("A kept summary.", model="offline-200k", source="model")}
    assert {hit.thread for hit in old.search("north")} == {CHAT}
    old.keep_answer("k1", Answer("Another one.", source="model"))
    assert old.list_answers()["k1"].text == "Another one."
    old.open_writer(CHAT).record_fact(CountFact(6, 589, 600, "offline-16k"))
    assert old.load(CHAT).recorded.counts[6] == (CountFact(6, 589, 600, "offline-16k"),)
    with sqlite3.connect(old.path) as db:
        tables = {row[0] for row in db.execute("select name from sqlite_master where type = 'table'")}
    assert "answers" not in tables


def test_an_old_answer_under_any_other_key_stays_an_answer(old: Threads) -> None:
    odd = {"count:x:1": Answer("7"), "count:1:2": Answer("many"), "by-hand:": Answer(items=("{}",)), "rating:é": Answer("up")}
    with sqlite3.connect(old.path) as db:
        for key, answer in odd.items():
            row = json.dumps({"text": answer.text, "items": answer.items})
            db.execute("insert into answers values (?, ?, ?)", [CHAT, key, row])
    answers = old.load(CHAT).recorded.answers
    assert {key: answers[key] for key in odd} == odd


def test_an_old_export_is_read_with_all_that_was_recorded_and_written_as_a_new_one() -> None:
    value = json.loads((OLD / "session_1.json").read_text(encoding="utf-8"))
    assert value["version"] == 1
    session = portable.loads(value)
    check_unchanged(session)
    assert plans(session) == SENT[CHAT]
    again = json.loads(portable.dumps(session))
    assert again["version"] == portable.VERSION == 3
    assert portable.loads(again) == session


def test_the_sessions_inside_an_old_export_keep_what_was_recorded_too() -> None:
    kept = {"k": {"text": "A summary."}, "count:1:20": {"text": "30"}}
    inner = {"id": "inner", "answers": kept}
    value = {"format": "turnscope-session", "version": 1, "session": {"id": "outer", "branches": [inner]}}
    (branch,) = portable.loads(value).branches
    assert (dict(branch.recorded.answers), branch.recorded.counts[1][0].tokens) == ({"k": Answer("A summary.")}, 30)


@pytest.mark.parametrize("answers", [[], {"k": 5}, {"by-hand:1": {"items": ["no JSON"]}}, {"by-hand:1": {"items": ["{}"]}}])
def test_old_facts_that_cannot_be_read_are_named(answers: object) -> None:
    value = {"format": "turnscope-session", "version": 1, "session": {"id": "s", "answers": answers}}
    with pytest.raises(BrokenFile) as raised:
        portable.loads(value)
    assert raised.value.hint
