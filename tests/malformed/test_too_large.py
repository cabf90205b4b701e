"""A paste larger than the window refuses no later turn: a way out is named, and whichever is taken, the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import turnscope
from conftest import let_go
from covering import covering
from matrix import offered
from msgspec import structs
from turnscope.errors import ContextWindowExceededError
from turnscope.live import branches, stops
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import Done, Event, Refused, Stopped
from turnscope.live.offline import Offline
from turnscope.live.provider import connected
from turnscope.planning.policy import load
from turnscope.planning.render import body
from turnscope.storage.threads import Threads

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


def test_a_prompt_that_leaves_little_room_is_answered_as_far_as_there_is_room(server: Offline, tmp_path: Path) -> None:
    talk, threads = chat(server, tmp_path, "keep-everything")
    room = 15_500 * 40_000 // talk.planned(PASTE[:40_000]).projected
    said = list(talk.send(PASTE[:room]))
    sent = talk.plan.request.settings["max_tokens"]
    assert isinstance(said[-1], Stopped | Done)
    assert 64 <= sent < 1_024
    assert talk.plan.projected + sent <= 16_000
    stored = threads.load(talk.growing.session.id)
    plan = turnscope.replay(stored, talk.settings.policy).plans[-1]
    assert body(plan, stored) == talk.bodies.body(talk.plan, talk.growing.session)
    full = structs.replace(talk.plan.request, stop_reason="max_tokens")
    told = stops.why(full, stored.blocks[-1:], 1_024)
    assert told is not None
    assert f"cut at {sent} tokens: the window had no room for more" in told.what


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
