"""A paste larger than the window refuses no later turn: a way out is named, and whichever is taken, the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import let_go
from covering import covering
from matrix import offered

from engine.errors import ContextWindowExceededError
from engine.live import branches
from engine.live.chat import Chat, Settings
from engine.live.events import Done, Event, Refused
from engine.live.offline import Offline
from engine.live.provider import connected
from engine.planning.policy import load
from engine.storage.threads import Threads

WORDS = "Whoever carries the message further remembers everything important about weather."
PASTE = "Look at this: " + " ".join([WORDS] * (200_000 // len(WORDS)))
MODEL = "offline-16k"


@pytest.fixture(scope="module")
def server() -> Iterator[Offline]:
    with let_go(Offline()) as server:
        yield server


def last(talk: Chat, text: str) -> Event:
    return list(talk.send(text))[-1]


def chat(server: Offline, path: Path, policy: str) -> tuple[Chat, Threads]:
    threads = Threads(path / "chats.db")
    provider = connected(server.url, "none", retries=0, timeout=60)
    thread = threads.create()
    talk = branches.begun(thread, provider, threads.sink(thread), Settings(MODEL, load(policy)), "You are brief.", ())
    for n in range(2):
        assert isinstance(last(talk, f"prompt {n}"), Done)
    return talk, threads


def newest(talk: Chat) -> int:
    return max(n for n, message in enumerate(talk.growing.session.messages) if message.role == "user")


@pytest.mark.parametrize("policy", offered())
def test_a_paste_over_the_window_can_be_left_out_once_others_were_refused(policy: str, server: Offline, tmp_path: Path) -> None:
    talk, threads = chat(server, tmp_path, policy)
    first = last(talk, PASTE)
    paste = newest(talk)
    if isinstance(first, Refused):
        error = first.error
        assert isinstance(error, ContextWindowExceededError)
        assert error.message == paste
        for way in ("edit and resend it shorter", "leave it out", "choose a larger window"):
            assert way in error.hint
        if isinstance(ended := last(talk, "and now?"), Refused):
            assert ended.error.message == paste, "it is named wherever it stands"
    else:
        assert isinstance(first, Done), "the policy shortens it, or goes to a larger model"
    talk.leave_out(paste)
    for n in range(2):
        assert isinstance(last(talk, f"without it {n}"), Done)
    carried = talk.bodies.body(talk.plan, talk.growing.session)["messages"]
    assert "remembers everything" not in str([message for message in carried if message["role"] == "user"])
    kept = threads.load(talk.growing.session.id)
    again, _ = branches.resumed(kept, talk.provider, talk.sink, talk.settings)
    assert isinstance(last(again, "after a restart"), Done)


@pytest.mark.parametrize("policy", covering(offered()))
def test_a_paste_over_the_window_can_be_resent_shorter(policy: str, server: Offline, tmp_path: Path) -> None:
    talk, threads = chat(server, tmp_path, policy)
    prompts = talk.growing.session.messages
    last(talk, PASTE)
    at = talk.growing.session.messages[len(prompts)].start
    branch = threads.create(parent=talk.growing.session.id, at=at)
    again, _ = branches.resumed(threads.load(branch), talk.provider, threads.sink(branch), talk.settings)
    assert isinstance(last(again, PASTE[:2_000]), Done)
    assert isinstance(last(again, "and then?"), Done)
