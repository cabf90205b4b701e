"""A paste larger than the window refuses no later turn: a way out is named, and whichever is taken, the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import turnscope
from conftest import let_go
from covering import select_covering
from matrix import list_offered
from msgspec import structs
from turnscope.errors import ContextWindowExceededError
from turnscope.live import branches, stop_reasons
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import Event, QueryAnswered, RequestDone, RequestRefused, TurnStopped
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.planning.policy import load
from turnscope.planning.render import build_body
from turnscope.storage.threads import Threads

WORDS = "Whoever carries the message further remembers everything important about weather."
PASTE = "Look at this: " + " ".join([WORDS] * (200_000 // len(WORDS)))
MODEL = "offline-16k"


@pytest.fixture(scope="module")
def server() -> Iterator[OfflineServer]:
    with let_go(OfflineServer()) as server:
        yield server


def last(talk: Chat, text: str) -> Event:
    return list(talk.send(text))[-1]


def chat(server: OfflineServer, path: Path, policy: str) -> tuple[Chat, Threads]:
    threads = Threads(path / "chats.db")
    provider = connect(server.url, "none", retries=0, timeout=60)
    thread = threads.create()
    talk = branches.start_chat(
        thread, provider, threads.open_writer(thread), Settings(MODEL, load(policy)), "You are brief.", ()
    )
    for n in range(2):
        assert isinstance(last(talk, f"prompt {n}"), RequestDone)
    return talk, threads


def newest(talk: Chat) -> int:
    return max(n for n, message in enumerate(talk.live_session.session.messages) if message.role == "user")


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("policy", select_covering(list_offered()))
def test_a_paste_over_the_window_can_be_left_out_once_others_were_refused(
    policy: str, server: OfflineServer, tmp_path: Path
) -> None:
    talk, threads = chat(server, tmp_path, policy)
    events = list(talk.send(PASTE))
    paste = newest(talk)
    if isinstance(first := events[-1], RequestRefused):
        error = first.error
        assert isinstance(error, ContextWindowExceededError)
        assert error.message == paste
        for way in ("shorten and resend it", "leave it out", "choose a larger window"):
            assert way in error.hint
        events += talk.send("and now?")
        if isinstance(ended := events[-1], RequestRefused):
            assert ended.error.message == paste, "it is named wherever it stands"
    else:
        assert isinstance(first, RequestDone), "the policy shortens it, or goes to a larger model"
    talk.exclude_message(paste)
    for n in range(2):
        assert isinstance(last(talk, f"without it {n}"), RequestDone)
    block = talk.live_session.session.messages[paste].start
    place = next(piece for piece in talk.plan.after.pieces if piece.start <= block < piece.stop)
    assert place.body is not None, "the paste is not sent"
    if not any(isinstance(event, QueryAnswered) for event in events):  # else a summary that was made before stands for it
        carried = talk.bodies.build(talk.plan, talk.live_session.session)["messages"]
        assert "remembers everything" not in str([message for message in carried if message["role"] == "user"])
    kept = threads.load(talk.live_session.session.id)
    again, _ = branches.resume_chat(kept, talk.provider, talk.sink, talk.settings)
    assert isinstance(last(again, "after a restart"), RequestDone)


def test_a_prompt_that_leaves_little_room_is_answered_as_far_as_there_is_room(server: OfflineServer, tmp_path: Path) -> None:
    talk, threads = chat(server, tmp_path, "keep-everything")
    room = 15_500 * 40_000 // talk.preview(PASTE[:40_000]).expected_tokens
    said = list(talk.send(PASTE[:room]))
    sent = talk.plan.request.settings["max_tokens"]
    assert isinstance(said[-1], TurnStopped | RequestDone)
    assert 64 <= sent < 1_024
    assert talk.plan.expected_tokens + sent <= 16_000
    stored = threads.load(talk.live_session.session.id)
    plan = turnscope.replay(stored, talk.settings.policy).plans[-1]
    assert build_body(plan, stored) == talk.bodies.build(talk.plan, talk.live_session.session)
    full = structs.replace(talk.plan.request, stop_reason="max_tokens")
    told = stop_reasons.explain_stop(full, stored.blocks[-1:], 1_024)
    assert told is not None
    assert f"cut at {sent} tokens: the window is full" in told.what


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("policy", select_covering(list_offered()))
def test_a_paste_over_the_window_can_be_resent_shorter(policy: str, server: OfflineServer, tmp_path: Path) -> None:
    talk, threads = chat(server, tmp_path, policy)
    prompts = talk.live_session.session.messages
    last(talk, PASTE)
    at = talk.live_session.session.messages[len(prompts)].start
    branch = threads.create(parent=talk.live_session.session.id, at=at)
    again, _ = branches.resume_chat(threads.load(branch), talk.provider, threads.open_writer(branch), talk.settings)
    assert isinstance(last(again, PASTE[:2_000]), RequestDone)
    assert isinstance(last(again, "and then?"), RequestDone)
