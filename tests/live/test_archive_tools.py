"""A layered chat with the built-in model: it asks for conversations and reports, and a replay gives the same plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import let_go
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import ToolCalled, ToolResult
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load, make_sendable
from turnscope.storage.threads import Threads

NAMES = ["retrieve_conversations", "report_housekeeping"]


@pytest.fixture
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as offline:
        yield offline


def begun(server: OfflineServer, threads: Threads, policy: str) -> Chat:
    settings, thread = Settings("offline-64k", load(policy)), threads.create(title="test")
    provider = connect(server.url, "secret-key-123", retries=0, timeout=10)
    return branches.start_chat(thread, provider, threads.open_writer(thread), settings, "You are brief.", [])


def test_a_chat_retrieves_by_id_reports_and_replays_to_the_same_plans(server: OfflineServer, tmp_path: Path) -> None:
    threads = Threads(tmp_path / "turnscope.db")
    chat = begun(server, threads, "layered")
    assert [block.name for block in chat.live_session.session.blocks if block.bucket == "tools"] == NAMES
    for n in range(8):
        key = "The key of project falcon is ZX-4471." if n == 1 else f"Question number {n} about widgets."
        assert not [event for event in chat.send(key) if isinstance(event, ToolCalled)]
    said = [*chat.send("Please recall c2 in full, I need that key.")]
    assert [event.call["input"] for event in said if isinstance(event, ToolCalled)] == [{"ids": ["c2"], "format": "full"}]
    assert [event.text for event in said if isinstance(event, ToolResult)] == ["c2: its full is added to the next request"]
    assert chat.plan is not None
    assert [d.action for d in chat.plan.decisions if d.rule == "retrieve_conversations"][:2] == ["retrieve", "retrieve"]
    at = next(block.at for block in chat.live_session.session.blocks if "ZX-4471" in block.text)
    assert chat.plan.after.find_piece(at).body is None
    odd = [event.text for event in chat.send("Now recall c99.") if isinstance(event, ToolResult)]
    assert odd == ["c99: there is no such conversation"]
    assert chat.plan.after.find_piece(at).body == (), "it left with the conversation that asked for it"
    [*chat.send("Please report that falcon is released on Friday.")]
    [*chat.send("What now?")]
    (context,) = [piece for piece in chat.plan.after.pieces if piece.slot == "context"]
    assert "falcon is released on Friday" in (context.body or ())[0].text
    made = next(d for d in chat.plan.decisions if d.rule == "write_context")
    assert "the model's own report is in it" in made.edit.because
    session = chat.live_session.session
    again = [*replay(session, make_sendable(load("layered")), chat.live_session.ledger)]
    assert [*again[-1].after.pieces] == [*chat.plan.after.pieces]
    assert again[-1].states == chat.plan.states
    _, plans = branches.resume_chat(
        threads.load(session.id), chat.provider, threads.open_writer(session.id), chat.settings, policies=()
    )
    assert [*plans[-1].after.pieces] == [*chat.plan.after.pieces]
    assert plans[-1].states == chat.plan.states


def test_a_chat_of_another_policy_offers_none_of_it(server: OfflineServer, tmp_path: Path) -> None:
    chat = begun(server, Threads(tmp_path / "turnscope.db"), "balanced")
    assert not [block for block in chat.live_session.session.blocks if block.bucket == "tools"]
