"""The chat page in Streamlit's own test runner, against the built-in model over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.live import branches, providers
from engine.live.chat import Settings
from engine.live.events import Done
from engine.live.offline import FAULTS
from engine.live.threads import Place, Threads
from pages.parts import chatting
from pages.parts.chat_values import TOOLS

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _quick() -> None:
    """The built-in model answers without pauses."""
    chatting.offline().delay = 0.0


def opened(app: AppTest, **query: str) -> AppTest:
    app.run()
    app.switch_page("pages/chat.py")
    app.query_params.clear()
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def ended(app: AppTest) -> AppTest:
    """Wait for every turn to end, and draw the page again."""
    for room in chatting._rooms().values():
        assert room.running is None or room.running.wait(30)
    return app.run()


def say(app: AppTest, text: str) -> AppTest:
    app.chat_input[0].set_value(text).run()
    return ended(app)


def store(data_folder: Path) -> Threads:
    return Threads(data_folder / "chats.db")


def test_an_empty_chat_says_what_the_model_is_and_weighs_the_first_request(app: AppTest, data_folder: Path) -> None:
    opened(app)
    assert not app.exception
    assert "understands nothing and says so" in bodies(app)
    assert "of 16,000 tokens" in bodies(app)
    assert store(data_folder).list() == ()


def test_a_message_is_kept_answered_and_shown_as_text(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "What of <script>alert(1)</script> and **stars**?")
    assert not app.exception
    assert "<script>" not in bodies(app)
    assert "What of &lt;script&gt;alert(1)&lt;/script&gt; and **stars**?" in bodies(app)
    assert "I am the built-in offline model" in bodies(app)
    (row,) = store(data_folder).list()
    assert app.query_params["thread"] == row.id
    session = store(data_folder).load(row.id)
    assert [m.role for m in session.messages] == ["tools", "system", "user", "assistant"]
    assert session.requests[-1].stop_reason == "end_turn"


def test_a_chat_goes_on_after_a_reload(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "first words")
    thread = store(data_folder).list()[0].id
    chatting._rooms().clear()  # as after a restart of the app
    app.session_state["chat.thread"] = ""
    opened(app, thread=thread)
    assert "first words" in bodies(app)
    say(app, "second words")
    assert len(store(data_folder).load(thread).requests) == 2


@pytest.mark.parametrize("thread", ["nowhere", "../../etc/passwd", "<script>", "%00"])
def test_a_chat_that_is_not_known_is_a_new_one(app: AppTest, thread: str) -> None:
    opened(app, thread=thread)
    assert not app.exception
    assert "Say something." in bodies(app)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"slow"}))
def test_a_fault_is_explained_with_its_hint_and_the_next_message_works(app: AppTest, data_folder: Path, fault: str) -> None:
    opened(app)
    app.session_state["chat.fault"] = fault
    say(app, "hello")
    assert not app.exception
    assert 'role="alert"' in bodies(app)
    assert app.session_state["chat.fault"] == "none"
    say(app, "again")
    assert 'role="alert"' not in bodies(app)
    session = store(data_folder).load(store(data_folder).list()[0].id)
    assert [b.text for b in session.blocks if b.role == "user"] == ["hello", "again"]


def test_a_typed_key_stays_in_memory(app: AppTest, data_folder: Path) -> None:
    opened(app)
    app.session_state["chat.provider"] = "server"
    app.session_state["chat.url"] = chatting.offline().url
    app.session_state[f"chat.key.{chatting.offline().url}"] = KEY
    say(app, "hello")
    assert "I am the built-in offline model" in bodies(app)
    assert KEY not in str(dict(app.query_params)) + bodies(app)
    assert all(KEY.encode() not in path.read_bytes() for path in data_folder.parent.rglob("*") if path.is_file())


def test_without_a_key_nothing_is_sent_and_the_reason_is_shown(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    opened(app)
    app.selectbox(key="chat.provider").set_value("anthropic").run()
    assert app.session_state["chat.model"] == providers.MODELS[0]
    assert app.session_state["chat.condense"] is False
    app.chat_input[0].set_value("hello").run()
    assert not app.exception
    assert "there is no API key" in bodies(app)
    assert store(data_folder).list() == ()


def test_the_policy_cuts_before_the_window_is_full_and_says_why(app: AppTest, data_folder: Path) -> None:
    opened(app)
    for n in range(6):
        say(app, f"Point {n}. " + "Some words that fill the window. " * 330)
    assert "chat-log" in bodies(app)
    assert "<b>condense</b>" in bodies(app)
    session = store(data_folder).load(store(data_folder).list()[0].id)
    assert all(request.usage and request.usage.prompt_tokens <= 16_000 - 1_024 for request in session.requests)


def test_a_spend_or_growth_limit_asks_before_going_on(app: AppTest) -> None:
    opened(app)
    app.session_state["chat.growth"] = 500
    say(app, "hello")
    say(app, "Some words that fill the window. " * 200)
    assert "On hold" in bodies(app)
    app.button(key="chat.over").click().run()
    ended(app)
    assert "On hold" not in bodies(app)


def test_editing_a_prompt_makes_a_branch_and_leaves_the_chat(app: AppTest, data_folder: Path) -> None:
    say(say(opened(app), "the first prompt"), "the second prompt")
    thread = app.query_params["thread"]
    app.text_area(key=next(a.key for a in app.text_area if a.key.startswith("chat.instead"))).set_value("another one").run()
    app.button(key="chat.resend").click().run()
    ended(app)
    branch = app.query_params["thread"]
    assert branch != thread
    texts = {id: [b.text for b in store(data_folder).load(id).blocks if b.role == "user"] for id in (thread, branch)}
    assert texts == {thread: ["the first prompt", "the second prompt"], branch: ["the first prompt", "another one"]}


def test_a_new_chat_begins_with_the_summary_of_another(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "Remember that the bridge is closed.")
    thread = app.query_params["thread"]
    app.button(key="chat.begin").click().run()
    row = next(row for row in store(data_folder).list() if row.id != thread)
    assert row.about["from"] == thread
    say(app, "Go on")
    assert "the bridge is closed" in store(data_folder).load(row.id).blocks[len(TOOLS)].text


def test_another_system_prompt_is_a_branch(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "hello")
    thread = app.query_params["thread"]
    app.text_area(key="chat.system").set_value("Speak like a sailor.").run()
    app.button(key="chat.reword").click().run()
    branch = app.query_params["thread"]
    assert branch != thread
    say(app, "and now?")
    blocks = store(data_folder).load(branch).blocks
    assert [b.text for b in blocks if b.bucket == "system"] == ["Speak like a sailor."]
    assert [b.text for b in blocks if b.role == "user"] == ["hello", "and now?"]


def test_an_imported_session_goes_on_from_a_request(app: AppTest, data_folder: Path) -> None:
    app.run()
    app.switch_page("pages/envelope.py")
    app.query_params["session"] = "cache-goes-cold"
    app.run()
    app.switch_page("pages/chat.py")
    app.query_params.clear()
    app.run()
    app.session_state["chat.model"] = "offline-64k"
    app.run()
    app.number_input(key=next(n.key for n in app.number_input if n.key.startswith("chat.from"))).set_value(5).run()
    app.button(key="chat.continue").click().run()
    assert not app.exception
    thread = app.query_params["thread"]
    assert store(data_folder).load(thread).about["live_from"] == 5
    app.session_state["chat.model"] = "offline-64k"
    app.button(key="chat.answer").click().run()
    ended(app)
    assert not app.exception
    session = store(data_folder).load(thread)
    assert len(session.requests) == 6
    assert session.requests[-1].model == "offline-64k"
    assert session.requests[-1].stop_reason == "end_turn", bodies(app)


@pytest.mark.parametrize("page", ["envelope", "heatmap", "debugger"])
def test_a_chat_opens_on_every_other_page(app: AppTest, page: str) -> None:
    say(say(opened(app), "hello"), "again")
    thread = app.query_params["thread"]
    app.switch_page(f"pages/{page}.py")
    app.query_params.clear()
    app.query_params["session"] = f"thread-{thread}"
    app.query_params["request"] = "1"
    app.run()
    assert not app.exception
    assert "turnscope-chat" in bodies(app)
    assert "2 requests" in bodies(app)


def test_a_chat_that_went_on_elsewhere_is_read_again_and_no_word_is_lost(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "hello")
    thread = app.query_params["thread"]
    session = store(data_folder).load(thread)
    spare = providers.provider(providers.Endpoint(), chatting.offline())
    settings = Settings("offline-16k", chatting.policies()["balanced"])
    elsewhere, _ = branches.resumed(session, spare, store(data_folder).sink(thread), settings)
    assert isinstance([*elsewhere.send("from another process")][-1], Done)
    say(app, "from this page")
    assert "continued in another window" in bodies(app)
    assert "from another process" in bodies(app)
    assert any("from this page" in code.value for code in app.code)
    say(app, "from this page")
    texts = [b.text for b in store(data_folder).load(thread).blocks if b.role == "user"]
    assert texts == ["hello", "from another process", "from this page"]


def test_a_chat_is_renamed_and_found_by_its_words(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "the heron stands in the reeds")
    thread = app.query_params["thread"]
    app.text_input(key=f"chat.title.{thread}").set_value("Birds")
    next(button for button in app.button if button.label == "Rename").click().run()
    assert store(data_folder).list()[0].title == "Birds"
    app.text_input(key="chat.words").set_value("heron").run()
    assert "Found in 1 of your chats" in bodies(app)


@pytest.mark.parametrize("policy", ["balanced", "keep-everything"])
def test_a_turn_stopped_before_its_tool_ran_does_not_end_the_chat(app: AppTest, data_folder: Path, policy: str) -> None:
    opened(app)
    app.session_state["chat.policy"] = policy
    say(app, "hello")
    room = chatting._rooms()[app.query_params["thread"]]
    turn = room.chat.send("calculate 12*(3+4)")
    while not isinstance(next(turn), Done):
        pass
    turn.close()
    room.session = room.chat.growing.session
    assert room.session.blocks[-1].kind == "tool_use"
    say(app.run(), "and now?")
    assert 'role="alert"' not in bodies(app)
    session = store(data_folder).load(app.query_params["thread"])
    assert session.requests[-1].stop_reason == "end_turn"


def pressed(app: AppTest, start: str) -> AppTest:
    """Press the newest button whose key begins so."""
    next(button for button in app.button if (button.key or "").startswith(start)).click().run()
    return ended(app)


def test_a_chat_is_condensed_by_hand_and_its_summary_edited_rated_and_undone(app: AppTest, data_folder: Path) -> None:
    opened(app)
    for n in range(4):
        say(app, f"The bridge number {n} is closed. " + "It matters for the road. " * 20)
    thread = app.query_params["thread"]
    pressed(app, "chat.condense_now")
    assert not app.exception
    assert "<b>summary</b>" in bodies(app)
    say(app, "and now?")
    assert "follow wishes" in bodies(app)
    area = next(a for a in app.text_area if a.key.startswith("chat.reword."))
    area.set_value("Only <b>two</b> bridges are closed.").run()
    pressed(app, "chat.save.")
    assert not app.exception
    assert "Only &lt;b&gt;two&lt;/b&gt; bridges are closed." in bodies(app)
    say(app, "and further?")
    pressed(app, "chat.rate.up.")
    assert "· rated Good" in bodies(app)
    pressed(app, "chat.undo.")
    say(app, "and then?")
    assert "<b>restore</b> at request 6" in bodies(app)
    chatting._rooms().clear()  # as after a restart of the app
    app.run()
    assert "· rated Good" in bodies(app)
    assert "<b>restore</b> at request 6" in bodies(app)
    session = store(data_folder).load(thread)
    assert [request.stop_reason for request in session.requests] == ["end_turn"] * 7
    assert len(session.observed) == 4, "condensed, edited; restored, put back as it was"


def test_condensing_by_hand_where_nothing_is_old_says_so(app: AppTest) -> None:
    say(say(say(opened(app), "one"), "two"), "three")
    pressed(app, "chat.condense_now")
    pressed(app, "chat.condense_now")
    assert not app.exception
    assert "could be condensed" in bodies(app)


def test_a_chat_goes_where_it_says_whatever_the_form_held_and_a_change_is_recorded(app: AppTest, data_folder: Path) -> None:
    say(opened(app), "hello")
    kept, first = store(data_folder), app.query_params["thread"]
    there = Place("server", chatting.offline().url, "offline-64k")
    other = kept.create(title="elsewhere", about={"provider": "offline", "model": "offline-16k"}, place=there)
    app.query_params["thread"] = other
    app.run()
    assert [app.session_state[f"chat.{name}"] for name in ("provider", "url", "model")] == ["server", there.url, "offline-64k"]
    say(app, "and here?")
    assert kept.load(other).requests[-1].model == "offline-64k"
    assert kept.place(other) == there
    kept.sink(other).place(Place("server", there.url, "offline-16k"), 1)  # another tab decided so meanwhile
    say(app, "and now?")
    assert kept.load(other).requests[-1].model == "offline-16k"
    app.session_state["chat.url"] = f"{there.url}/"
    say(app, "by my own choice?")
    assert kept.load(other).requests[-1].model == "offline-64k"
    assert kept.place(other) == Place("server", f"{there.url}/", "offline-64k")
    assert kept.place(first) == Place("offline", "", "offline-16k")
