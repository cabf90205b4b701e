"""Our own chats in the index of the library: found, paid once, gone when they are deleted, and nobody else's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import turnscope
from conftest import ROOT, let_go
from turnscope import library
from turnscope.library import index_queries, indexing
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import RequestDone
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import AnthropicProvider, connect
from turnscope.planning.policy import load
from turnscope.storage.threads import Threads

PRICED = "claude-haiku-4-5"


@pytest.fixture
def client() -> Iterator[AnthropicProvider]:
    with let_go(OfflineServer()) as server:
        yield connect(server.url, "a-key", retries=0, timeout=10)


def resume(threads: Threads, thread: str, client: AnthropicProvider) -> Chat:
    settings = Settings("offline-16k", load("keep-everything"))
    return branches.resume_chat(threads.load(thread), client, threads.open_writer(thread), settings)[0]


def hold_chat(threads: Threads, thread: str, client: AnthropicProvider, *texts: str) -> str:
    """A thread in which these were said and answered, as by a model that has a price."""
    talk = resume(threads, thread, client)
    for text in texts:
        assert isinstance([*talk.send(text)][-1], RequestDone)
    with sqlite3.connect(threads.path) as db:
        db.execute("update requests set model = ?", [PRICED])
    return thread


def test_chats_are_found_added_up_and_leave_when_they_are_deleted(tmp_path: Path, client: AnthropicProvider) -> None:
    threads, path = Threads(tmp_path / "chats.db"), tmp_path / "library.db"
    assert library.index_chats(path, threads) == 0
    thread = hold_chat(threads, threads.create(title="Herons"), client, "count the herons", "and the albatross")
    threads.create(title="nothing said")
    assert library.index_chats(path, threads) == 2
    [line] = index_queries.list_sessions(path)
    assert (line.path, line.title, line.tool, line.requests) == (library.get_chat_source(thread), "Herons", "Live chat", 2)
    assert library.get_chat_thread(line.path) == thread
    view = turnscope.overview(threads.load(thread))
    assert line.usd == pytest.approx(float(view.total or 0))
    assert line.usd
    count, hits, _ = index_queries.search(path, "albatross")
    assert count >= 1
    assert "albatross" in threads.load(thread).blocks[hits[-1].at].text
    rows = index_queries.list_spending(path)
    assert index_queries.sum_spending(rows) == pytest.approx(line.usd)
    assert {(row.model, row.project) for row in rows} == {(PRICED, "live chat")}
    assert all(row.day for row in rows)
    assert library.index_chats(path, threads) == 0, "what did not change is not read again"
    threads.rename(thread, "Nine herons")
    hold_chat(threads, thread, client, "and the cormorant")
    assert library.index_chats(path, threads) == 1
    assert [(line.title, line.requests) for line in index_queries.list_sessions(path)] == [("Nine herons", 3)]
    assert index_queries.search(path, "cormorant")[0]
    threads.delete(thread)
    library.index_chats(path, threads)
    assert index_queries.list_sessions(path) == ()
    assert index_queries.list_spending(path) == ()
    assert index_queries.search(path, "herons")[0] == 0
    library.forget_chat(tmp_path / "none.db", thread)
    assert not (tmp_path / "none.db").exists()


def test_what_a_branch_shares_is_paid_once(tmp_path: Path, client: AnthropicProvider) -> None:
    threads, path = Threads(tmp_path / "chats.db"), tmp_path / "library.db"
    thread = hold_chat(threads, threads.create(), client, "one", "two")
    shared = threads.load(thread).requests[0].stop
    branch = hold_chat(threads, threads.create(parent=thread, at=shared), client, "three")
    library.index_chats(path, threads)
    lines = {line.path: line for line in index_queries.list_sessions(path)}
    assert [lines[library.get_chat_source(id)].requests for id in (thread, branch)] == [2, 2]
    assert sum(row.requests for row in index_queries.list_spending(path)) == 3
    once = sum(float(turnscope.overview(threads.load(id)).total or 0) for id in (thread, branch))
    once -= float(turnscope.overview(threads.load(thread)).totals[0] or 0)
    assert index_queries.sum_spending(index_queries.list_spending(path)) == pytest.approx(once)


def test_a_chat_that_goes_on_from_a_log_does_not_pay_the_log_again(tmp_path: Path, client: AnthropicProvider) -> None:
    file, path = ROOT / "sample_sessions" / "thinking-grows.jsonl", tmp_path / "library.db"
    threads = Threads(tmp_path / "chats.db")
    [*indexing.index(path, [file])]
    before = index_queries.sum_spending(index_queries.list_spending(path)) or 0.0
    many = sum(row.requests for row in index_queries.list_spending(path))
    thread = branches.continue_thread(threads, turnscope.replay(turnscope.load(file)), 3, {})
    talk = branches.resume_chat(
        threads.load(thread), client, threads.open_writer(thread), Settings("offline-200k", load("keep-everything"))
    )[0]
    assert isinstance([*talk.send("and now?")][-1], RequestDone)
    library.index_chats(path, threads)
    assert sum(row.requests for row in index_queries.list_spending(path)) == many + 1
    assert index_queries.sum_spending(index_queries.list_spending(path)) == pytest.approx(before), (
        "the built-in model bills nothing"
    )


def test_only_the_users_own_chats_are_in_it(tmp_path: Path, client: AnthropicProvider) -> None:
    path = tmp_path / "library.db"
    mine, hers = Threads(tmp_path / "chats.db"), Threads(tmp_path / "chats.db", user="mira")
    hold_chat(mine, mine.create(), client, "my heron")
    hold_chat(hers, hers.create(), client, "her albatross")
    library.index_chats(path, mine)
    assert index_queries.search(path, "heron")[0]
    assert index_queries.search(path, "albatross")[0] == 0
    library.index_chats(path, hers)
    assert index_queries.search(path, "heron")[0] == 0, "an index holds one user's chats"
    assert [line.title for line in index_queries.list_sessions(path)] != []
