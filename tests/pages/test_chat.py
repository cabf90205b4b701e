"""The chat page in Streamlit's own test runner, against the built-in model over real HTTP."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any

import pytest
import turnscope
from turnscope.counting.media import read_image_size
from turnscope.live import branches, endpoints, window_lookup
from turnscope.live.attachments import MAX_IMAGE
from turnscope.live.background_turn import BackgroundTurn
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import LimitReached, RequestDone, TurnStopped
from turnscope.live.offline import FAULTS
from turnscope.live.provider import connect
from turnscope.live.sinks import NullSink
from turnscope.live.threads import Destination, Threads
from turnscope.planning import policy
from turnscope.session import portable
from turnscope.session.model import Block
from turnscope.session.timeline import make_block
from turnscope.share import export_formats
from turnscope.storage.database import StorageError, open_database
from turnscope.views import next_request, user_rules

from pages.chat import attachments, choices, gauge, markup, open_chats, preview, summaries, typing_box
from pages.parts import chat_form
from pages.parts.chat_form import TOOLS
from pages.parts.formats import escape
from tests.live.test_attachments import png

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _quick() -> None:
    """The built-in model answers without pauses."""
    chat_form.get_offline_server().delay = 0.0


def open_chat(app: AppTest, **query: str) -> AppTest:
    app.switch_page("pages/chat.py")
    app.query_params.clear()
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def wait_for_turns(app: AppTest) -> AppTest:
    """Wait for every turn to end, and draw the page again."""
    for room in open_chats._get_chats().values():
        assert room.turn is None or room.turn.wait(30)
    return app.run()


def say(app: AppTest, text: str) -> AppTest:
    app.chat_input[0].set_value(text).run()
    return wait_for_turns(app)


def store(data_folder: Path) -> Threads:
    return Threads(data_folder / "chats.db")


def test_an_empty_chat_says_what_the_model_is_and_weighs_the_first_request(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    assert not app.exception
    assert "understands nothing and says so" in bodies(app)
    assert "of 16,000 tokens" in bodies(app)
    assert store(data_folder).list() == ()
    policy = app.selectbox(key="chat.policy")
    assert "Keep everything — ends when the window is full" in policy.options
    assert sum("—" in option for option in policy.options) < 25, "most are listed by their titles alone"
    assert "Not for this chat" not in bodies(app)
    policy.set_value("keep-everything").run()
    assert "it does not make room in time, and then nothing is sent" in bodies(app)
    assert "blocked above about 15,936" in bodies(app)


def test_a_message_is_kept_answered_and_shown_as_text(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "What of <script>alert(1)</script> and **stars**?")
    assert not app.exception
    assert "<script>" not in bodies(app)
    assert "What of &lt;script&gt;alert(1)&lt;/script&gt; and **stars**?" in bodies(app)
    assert "I am the built-in offline model" in bodies(app)
    (row,) = store(data_folder).list()
    assert app.query_params["thread"] == row.id
    session = store(data_folder).load(row.id)
    assert [m.role for m in session.messages] == ["tools", "system", "user", "assistant"]
    assert session.requests[-1].stop_reason == "end_turn"


@pytest.mark.thorough
def test_the_run_that_follows_a_click_on_stop_takes_the_next_message(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = BackgroundTurn.stop
    monkeypatch.setattr(
        BackgroundTurn, "stop", lambda self: Timer(0.3, now, (self,)).start()
    )  # a turn that takes its time to end
    chat_form.get_offline_server().delay = 0.2
    open_chat(app).chat_input[0].set_value("How long is the road?").run()
    assert app.chat_input[0].disabled
    app.button(key="chat.stop").click().run()
    assert not app.exception
    assert not app.chat_input[0].disabled
    assert not [button for button in app.button if button.key == "chat.stop"]
    chat_form.get_offline_server().delay = 0.0
    say(app, "And now?")
    assert [r.stop_reason for r in store(data_folder).load(app.query_params["thread"]).requests] == ["interrupted", "end_turn"]


def test_a_turn_that_ends_while_the_page_begins_to_be_drawn_is_drawn_with_its_end(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, met, drawn = open_chats.open_thread, [], Event()

    class Waiting(list[Any]):
        """The provider notes a request only when the page begins to be drawn."""

        def append(self, beta: Any) -> None:
            assert drawn.wait(30)
            super().append(beta)

    def room(thread: str) -> open_chats.OpenChat:
        """The turn ends when the page has its chat, and before it looks whether a turn is under way."""
        chat = now(thread)
        if chat.turn is not None:
            drawn.set()
            assert chat.turn.wait(30)
            met.append(thread)
        return chat

    monkeypatch.setattr(open_chats, "open_thread", room)
    monkeypatch.setattr(chat_form.get_offline_server(), "betas", Waiting())
    open_chat(app)
    app.session_state["chat.fault"] = "overloaded"
    app.chat_input[0].set_value("hello").run()
    assert met
    assert "Failed: " in bodies(app)
    assert not app.chat_input[0].disabled


def test_a_chat_goes_on_after_a_reload(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "first words")
    thread = store(data_folder).list()[0].id
    open_chats._get_chats().clear()  # as after a restart of the app
    app.session_state["chat.thread"] = ""
    open_chat(app, thread=thread)
    assert "first words" in bodies(app)
    say(app, "second words")
    assert len(store(data_folder).load(thread).requests) == 2


@pytest.mark.parametrize("thread", ["nowhere", "../../etc/passwd", "<script>", "%00"])
def test_a_chat_that_is_not_known_is_a_new_one(app: AppTest, thread: str) -> None:
    open_chat(app, thread=thread)
    assert not app.exception
    assert "Say something." in bodies(app)


@pytest.mark.thorough(every=7)
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"slow"}))
def test_a_fault_is_explained_with_its_hint_and_the_next_message_works(app: AppTest, data_folder: Path, fault: str) -> None:
    open_chat(app)
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
    open_chat(app)
    app.session_state["chat.provider"] = "server"
    app.session_state["chat.url"] = chat_form.get_offline_server().url
    app.session_state[f"chat.key.{chat_form.get_offline_server().url}"] = KEY
    say(app, "hello")
    assert "I am the built-in offline model" in bodies(app)
    assert KEY not in str(dict(app.query_params)) + bodies(app)
    assert all(KEY.encode() not in path.read_bytes() for path in data_folder.parent.rglob("*") if path.is_file())


@pytest.mark.thorough
def test_without_a_key_nothing_is_sent_and_the_reason_is_shown(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    open_chat(app)
    app.selectbox(key="chat.provider").set_value("anthropic").run()
    assert app.session_state["chat.model"] == endpoints.SERVICES["anthropic"].models[0]
    assert app.session_state["chat.condense"] is False
    app.chat_input[0].set_value("hello").run()
    assert not app.exception
    assert "there is no API key" in bodies(app)
    assert store(data_folder).list() == ()


@pytest.mark.thorough
def test_the_policy_cuts_before_the_window_is_full_and_says_why(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    for n in range(6):
        say(app, f"Point {n}. " + "Some words that fill the window. " * 330)
    assert "chat-log" in bodies(app)
    assert "<b>condense</b>" in bodies(app)
    session = store(data_folder).load(store(data_folder).list()[0].id)
    assert all(request.usage and request.usage.prompt_tokens <= 16_000 - 1_024 for request in session.requests)


@pytest.mark.thorough
def test_a_spend_or_growth_limit_asks_before_going_on(app: AppTest) -> None:
    open_chat(app)
    app.session_state["chat.growth"] = 500
    say(app, "hello")
    say(app, "Some words that fill the window. " * 200)
    assert "On hold" in bodies(app)
    app.button(key="chat.over").click().run()
    wait_for_turns(app)
    assert "On hold" not in bodies(app)


@pytest.mark.thorough
def test_editing_a_prompt_makes_a_branch_and_leaves_the_chat(app: AppTest, data_folder: Path) -> None:
    say(say(open_chat(app), "the first prompt"), "the second prompt")
    thread = app.query_params["thread"]
    app.text_area(key=next(a.key for a in app.text_area if a.key.startswith("chat.instead"))).set_value("another one").run()
    app.button(key="chat.resend").click().run()
    wait_for_turns(app)
    branch = app.query_params["thread"]
    assert branch != thread
    texts = {id: [b.text for b in store(data_folder).load(id).blocks if b.role == "user"] for id in (thread, branch)}
    assert texts == {thread: ["the first prompt", "the second prompt"], branch: ["the first prompt", "another one"]}


def test_a_new_chat_begins_with_the_summary_of_another(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "Remember that the bridge is closed.")
    thread = app.query_params["thread"]
    app.button(key="chat.begin").click().run()
    row = next(row for row in store(data_folder).list() if row.id != thread)
    assert row.about["from"] == thread
    say(app, "Go on")
    assert "the bridge is closed" in store(data_folder).load(row.id).blocks[len(TOOLS)].text


def test_another_system_prompt_is_a_branch(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    thread = app.query_params["thread"]
    app.text_area(key="chat.system").set_value("Speak like a sailor.").run()
    app.button(key="chat.reword").click().run()
    branch = app.query_params["thread"]
    assert branch != thread
    say(app, "and now?")
    blocks = store(data_folder).load(branch).blocks
    assert [b.text for b in blocks if b.bucket == "system"] == ["Speak like a sailor."]
    assert [b.text for b in blocks if b.role == "user"] == ["hello", "and now?"]


@pytest.mark.thorough
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
    app.number_input(key=next(n.key for n in app.number_input if n.key.startswith("chat.from"))).set_value(6).run()
    app.button(key="chat.continue").click().run()
    assert not app.exception
    thread = app.query_params["thread"]
    assert store(data_folder).load(thread).about["live_from"] == 5
    app.session_state["chat.model"] = "offline-64k"
    app.button(key="chat.answer").click().run()
    wait_for_turns(app)
    assert not app.exception
    session = store(data_folder).load(thread)
    assert len(session.requests) == 6
    assert session.requests[-1].model == "offline-64k"
    assert session.requests[-1].stop_reason == "end_turn", bodies(app)


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["envelope", "heatmap", "debugger"])
def test_a_chat_opens_on_every_other_page(app: AppTest, page: str) -> None:
    say(say(open_chat(app), "hello"), "again")
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
    say(open_chat(app), "hello")
    thread = app.query_params["thread"]
    session = store(data_folder).load(thread)
    spare = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    settings = Settings("offline-16k", choices.list_policies()["balanced"])
    elsewhere, _ = branches.resume_chat(session, spare, store(data_folder).open_writer(thread), settings)
    assert isinstance([*elsewhere.send("from another process")][-1], RequestDone)
    say(app, "from this page")
    assert "continued in another window" in bodies(app)
    assert "from another process" in bodies(app)
    assert any("from this page" in code.value for code in app.code)
    say(app, "from this page")
    texts = [b.text for b in store(data_folder).load(thread).blocks if b.role == "user"]
    assert texts == ["hello", "from another process", "from this page"]


def test_a_chat_is_renamed_and_found_by_its_words(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "the heron stands in the reeds")
    thread = app.query_params["thread"]
    app.text_input(key=f"chat.title.{thread}").set_value("Birds")
    next(button for button in app.button if button.label == "Rename").click().run()
    assert store(data_folder).list()[0].title == "Birds"
    app.text_input(key="chat.words").set_value("heron").run()
    assert "Found in 1 of your chats" in bodies(app)


@pytest.mark.parametrize("policy", ["balanced", "keep-everything"])
def test_a_turn_stopped_before_its_tool_ran_does_not_end_the_chat(app: AppTest, data_folder: Path, policy: str) -> None:
    open_chat(app)
    app.session_state["chat.policy"] = policy
    say(app, "hello")
    room = open_chats._get_chats()[app.query_params["thread"]]
    turn = room.chat.send("calculate 12*(3+4)")
    while not isinstance(next(turn), RequestDone):
        pass
    turn.close()
    room.session = room.chat.live_session.session
    assert room.session.blocks[-1].kind == "tool_use"
    say(app.run(), "and now?")
    assert 'role="alert"' not in bodies(app)
    session = store(data_folder).load(app.query_params["thread"])
    assert session.requests[-1].stop_reason == "end_turn"


def press_newest(app: AppTest, start: str) -> AppTest:
    """Press the newest button whose key begins so."""
    next(button for button in app.button if (button.key or "").startswith(start)).click().run()
    return wait_for_turns(app)


def test_a_chat_is_condensed_by_hand_and_its_summary_edited_rated_and_undone(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    for n in range(4):
        say(app, f"The bridge number {n} is closed. " + "It matters for the road. " * 20)
    thread = app.query_params["thread"]
    press_newest(app, "chat.condense_now")
    assert not app.exception
    assert "<b>summary</b>" in bodies(app)
    say(app, "and now?")
    assert "follow wishes" in bodies(app)
    area = next(a for a in app.text_area if (a.key or "").startswith("chat.reword."))
    area.set_value("Only <b>two</b> bridges are closed.").run()
    press_newest(app, "chat.save.")
    assert not app.exception
    assert "Only &lt;b&gt;two&lt;/b&gt; bridges are closed." in bodies(app)
    say(app, "and further?")
    press_newest(app, "chat.rate.up.")
    assert "· rated Good" in bodies(app)
    press_newest(app, "chat.undo.")
    say(app, "and then?")
    assert "<b>restore</b> at request 7" in bodies(app)
    open_chats._get_chats().clear()  # as after a restart of the app
    app.run()
    assert "· rated Good" in bodies(app)
    assert "<b>restore</b> at request 7" in bodies(app)
    session = store(data_folder).load(thread)
    assert [request.stop_reason for request in session.requests] == ["end_turn"] * 7
    assert len(session.observed) == 4, "condensed, edited; restored, put back as it was"


def test_condensing_by_hand_where_nothing_is_old_says_so(app: AppTest) -> None:
    say(say(say(open_chat(app), "one"), "two"), "three")
    press_newest(app, "chat.condense_now")
    press_newest(app, "chat.condense_now")
    assert not app.exception
    assert "nothing to condense before the newest" in bodies(app)


@pytest.mark.thorough
def test_a_chat_goes_where_it_says_whatever_the_form_held_and_a_change_is_recorded(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    kept, first = store(data_folder), app.query_params["thread"]
    there = Destination("server", chat_form.get_offline_server().url, "offline-64k")
    other = kept.create(title="elsewhere", about={"provider": "offline", "model": "offline-16k"}, place=there)
    app.query_params["thread"] = other
    app.run()
    assert [app.session_state[f"chat.{name}"] for name in ("provider", "url", "model")] == ["server", there.url, "offline-64k"]
    say(app, "and here?")
    assert kept.load(other).requests[-1].model == "offline-64k"
    assert kept.find_destination(other) == there
    kept.open_writer(other).write_destination(
        Destination("server", there.url, "offline-16k"), 1
    )  # another tab decided so meanwhile
    say(app, "and now?")
    assert kept.load(other).requests[-1].model == "offline-16k"
    chosen = there.url.replace("127.0.0.1", "localhost")
    app.session_state["chat.url"] = f"{chosen}/"
    say(app, "by my own choice?")
    assert kept.load(other).requests[-1].model == "offline-64k"
    assert kept.find_destination(other) == Destination("server", chosen, "offline-64k")
    assert kept.find_destination(first) == Destination("offline", "", "offline-16k")


@pytest.mark.thorough
def test_a_message_too_large_is_refused_with_its_numbers_and_left_out(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    say(app, "Some words that fill the window. " * 4_000)
    shown = bodies(app)
    assert "Not sent: request 2" in shown
    assert "does not fit by itself" in shown
    assert "gen_ai.usage.input_tokens" in shown
    open_chats._get_chats().clear()  # as after a restart of the app
    app.run()
    assert "Not sent: request 2" in bodies(app)
    press_newest(app, "chat.leave_out")
    assert not app.exception
    assert 'role="alert"' not in bodies(app)
    assert ">left out</em>" in bodies(app)
    say(app, "and now?")
    requests = store(data_folder).load(app.query_params["thread"]).requests
    assert [request.stop_reason for request in requests] == ["end_turn", "refused", "end_turn"]


@pytest.mark.thorough
def test_every_message_carries_its_state_and_a_line_says_where_the_context_begins(app: AppTest) -> None:
    open_chat(app)
    app.session_state["chat.policy"] = "last-5-pairs"
    for n in range(7):
        say(app, f"number {n}")
    shown = bodies(app)
    assert shown.count(">left out</em>") == 2
    assert shown.count(">in full</em>") == 12
    assert shown.index(">left out</em>") < shown.index("the context begins here") < shown.index("number 1")
    assert "the next cut comes with the next turn" in shown


@pytest.mark.thorough
def test_the_mark_of_the_gauge_is_where_the_policy_cuts(app: AppTest) -> None:
    open_chat(app)
    for n in range(3):
        say(app, f"Point {n}. " + "Some words that fill the window. " * 200)
    ahead = open_chats._get_chats()[app.query_params["thread"]].cut_forecast
    assert ahead is not None
    mark, turns = ahead[1].cut_at, ahead[1].turns
    assert mark is not None
    assert turns is not None
    assert f"compacts at about {mark:,}" in bodies(app)
    room = open_chats._get_chats()[app.query_params["thread"]]
    for n in range(turns):
        assert not any(d.splice for d in room.chat.plan.decisions), "cut too early"
        say(app, f"Next {n}. " + "Some words that fill the window. " * 200)
    plan = room.chat.plan
    assert plan.is_changed
    assert abs(plan.calibration.predict(plan.before.tokens) - mark) < ahead[1].growth * 1.1


@pytest.mark.thorough
def test_a_policys_marks_are_turned_in_the_chat_and_kept_with_it(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    app.number_input(key=next(n.key for n in app.number_input if n.key.endswith("5.share"))).set_value(0.2)
    next(button for button in app.button if button.label == "Apply").click().run()
    assert not app.exception
    for n in range(5):
        say(app, f"Point {n}. " + "Some words that fill the window. " * 200)
    assert "the threshold is 20%" in bodies(app)
    (_, kept), *_ = store(data_folder).list_policies(app.query_params["thread"])[-1:]
    assert kept.rules[4].params.share == 0.2
    open_chats._get_chats().clear()  # as after a restart of the app, in another tab
    del app.session_state["chat.turned"]
    app.session_state["chat.settled"] = ""
    app.run()
    assert choices.list_policies()["balanced"].rules[4].params.share == 0.7
    assert app.session_state["chat.turned"]["balanced"] == {"5.share": 0.2}


@pytest.mark.thorough
def test_values_for_a_model_are_saved_as_the_user_s_own_policy_and_hold_in_the_chat(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    app.selectbox(key="chat.policy").set_value("context-aware-chat").run()

    def press(label: str, text: str) -> None:
        next(i for i in app.text_input if i.label == "Models like").set_value("offline-*")
        next(i for i in app.selectbox if i.label == "Parameter").set_value("keep_last_pairs.pairs")
        next(i for i in app.text_input if i.label == "Value").set_value(text)
        next(b for b in app.button if b.label == label).click().run()
        assert not app.exception

    press("Apply", "one")
    assert "&#x27;one&#x27; is not a whole number" in bodies(app)
    press("Save to my policies", "1")
    assert app.selectbox(key="chat.policy").value == "my-context-aware-chat"
    own = policy.load("my-context-aware-chat", data_folder / "policies")
    assert own.models["offline-*"] == {"keep_last_pairs": {"pairs": 1}}
    for word in ("north", "south", "west"):
        say(app, f"Point {word}.")
    room = open_chats._get_chats()[app.query_params["thread"]]
    assert room.chat.policy.models == own.models
    assert "offline-*" in [decision.edit.facts.get("table") for decision in room.chat.plan.decisions]
    whole = [piece for piece in room.chat.plan.after.pieces if piece.body is None]
    sent = " ".join(room.session.blocks[n].text for piece in whole for n in range(piece.start, piece.stop))
    assert [word in sent for word in ("north", "south", "west")] == [False, True, True], "one pair and the question"


@pytest.mark.thorough
def test_another_answer_takes_the_place_of_the_first_in_what_is_sent(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "Please calculate 12*(3+4)")
    press_newest(app, "chat.again")
    assert not app.exception
    session = store(data_folder).load(app.query_params["thread"])
    assert session.requests[-1].stop_reason == "end_turn"
    assert bodies(app).count(">left out</em>") == 3, "the call, its result and the answer"
    press_newest(app, "chat.again")
    assert bodies(app).count(">left out</em>") == 6
    say(app, "and now?")
    assert store(data_folder).load(app.query_params["thread"]).requests[-1].stop_reason == "end_turn"


@pytest.mark.thorough
def test_how_an_answer_ended_is_said_and_a_typed_window_is_kept_with_the_chat(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    open_chats._get_chats()[app.query_params["thread"]].remarks = (TurnStopped("max_tokens", "The answer was cut <here>."),)
    assert "The answer was cut &lt;here&gt;." in bodies(app.run())
    there = Destination("server", chat_form.get_offline_server().url, "nobody-knows-7b")
    app.query_params["thread"] = thread = store(data_folder).create(place=there)
    app.run()
    assert f'<span class="ts-chip">{there.url}</span><span class="ts-chip">nobody-knows-7b</span>' in bodies(app)
    say(app, "and now?")
    assert "The window of nobody-knows-7b is unknown" in bodies(app)
    app.number_input(key="chat.typed.assumed").set_value(9_000).run()
    press_newest(app, "chat.use.assumed")
    assert "of 9,000 tokens" in bodies(app)
    assert f"from the next message on; so far: nobody-knows-7b at {there.url}" in bodies(app)
    say(app, "and further?")
    assert store(data_folder).find_destination(thread) == Destination("server", there.url, "nobody-knows-7b", 9_000)


def test_a_store_that_cannot_be_written_is_said_and_tried_again(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    room = open_chats._get_chats()[app.query_params["thread"]]
    locked = StorageError("the database is locked", hint="Close what holds it.")
    writes: list[int] = []

    def write() -> None:
        writes.append(1)
        if len(writes) < 2:
            raise locked

    room.chat.writes.run(write)
    app.run()
    assert "Not written yet: the database is locked" in bodies(app)
    press_newest(app, "chat.keep")
    assert "Not written yet" not in bodies(app)
    assert len(writes) == 2


@pytest.mark.thorough
def test_a_chat_is_deleted_when_asked_twice_and_no_word_of_it_stays(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "a word that nobody else says: xylophonist")
    gone = app.query_params["thread"]
    app.button(key="chat.new").click().run()
    say(app, "another chat")
    kept = app.query_params["thread"]
    app.query_params["thread"] = gone
    app.run()
    app.button(key="chat.delete").click().run()
    assert [row.id for row in store(data_folder).list()] == [kept, gone]
    assert "Delete <b>a word that nobody else says: xylophonist</b>? Its 2 messages" in bodies(app)
    app.button(key="chat.delete_now").click().run()
    assert not app.exception
    assert "Say something." in bodies(app)
    assert [row.id for row in store(data_folder).list()] == [kept]
    with open_database(data_folder / "chats.db") as db:
        texts = [str(row["content"]) for row in db.query("select content from blobs")]
    assert not any("xylophonist" in text for text in texts)
    assert any("another chat" in text for text in texts)
    assert store(data_folder).search("xylophonist") == ()
    assert [b.text for b in store(data_folder).load(kept).blocks if b.role == "user"] == ["another chat"]


def test_a_chat_with_a_branch_is_not_deleted(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "hello")
    parent = app.query_params["thread"]
    branch = store(data_folder).create(parent=parent, at=len(store(data_folder).load(parent).blocks))
    app.button(key="chat.delete").click().run()
    app.button(key="chat.delete_now").click().run()
    assert "this chat has 1 branch" in bodies(app)
    assert {row.id for row in store(data_folder).list()} == {parent, branch}
    store(data_folder).delete(branch)
    store(data_folder).delete(parent)
    assert store(data_folder).list() == ()


def test_a_chat_is_taken_away_and_read_again(app: AppTest, data_folder: Path) -> None:
    say(open_chat(app), "What is ``` here?")
    session = store(data_folder).load(app.query_params["thread"])
    again = portable.loads(json.loads(turnscope.dumps(session)))
    assert again == session
    text = export_formats.to_markdown(session)
    assert "## You <!-- turnscope user -->\n\nWhat is ``` here?" in text
    assert "## Model <!-- turnscope assistant -->\n\nI am the built-in offline model" in text


def test_a_hit_of_a_search_opens_its_chat_and_is_marked(app: AppTest) -> None:
    say(say(open_chat(app), "the heron stands in the reeds"), "again")
    thread = app.query_params["thread"]
    app.button(key="chat.new").click().run()
    app.text_input(key="chat.words").set_value("heron").run()
    app.selectbox(key="chat.hit").select_index(0).run()
    assert app.query_params["thread"] == thread
    assert bodies(app).count(' sought">') == 1
    say(app, "further")
    assert ' sought">' not in bodies(app)


def test_fenced_code_is_code_and_all_of_it_is_text() -> None:
    shown = markup._render_fences(escape("Look:\n```html\n<img src=x>\n```\nand ``` inline, then\n```\nan open one"))
    assert shown == (
        '<div class="chat-text">Look:</div><pre class="ts-text">&lt;img src=x&gt;\n</pre>'
        '<div class="chat-text">and ``` inline, then</div><pre class="ts-text">an open one</pre>'
    )


def test_a_fallback_to_a_larger_model_can_be_watched_offline(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    app.session_state["chat.policy"] = "ladder"
    app.session_state["chat.condense"] = False
    for n in range(2):
        say(app, f"Point {n}. " + "Some words that fill the window. " * 1_400)
    session = store(data_folder).load(app.query_params["thread"])
    assert [(r.model, r.stop_reason) for r in session.requests] == [("offline-16k", "end_turn"), ("offline-64k", "end_turn")]
    assert "<b>fallback</b> at request 2" in bodies(app)


def test_a_long_chat_is_drawn_in_pages_to_its_first_message(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    kept = store(data_folder)
    settings = Settings("offline-16k", choices.list_policies()["balanced"])
    thread = kept.create(place=Destination("offline", "", "offline-16k"))
    spare = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    chat = branches.start_chat(thread, spare, kept.open_writer(thread), settings, "", [])
    for n in range(80):
        chat.append_message("user", f"number {n}.", "prompt")
        chat.append_message("assistant", f"answer {n}.", "answer")
    app.query_params["thread"] = thread
    app.run()
    assert ">number 50.<" in bodies(app)
    assert ">number 49.<" not in bodies(app)
    for _ in range(2):
        app.button(key="chat.earlier").click().run()
    assert ">number 0.<" in bodies(app)


def test_an_image_and_a_text_file_are_sent_shown_small_and_folded_and_exported(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    picture, notes = png(1_600, 900), b"the heron stands <b>here</b>"
    app.chat_input[0].set_value("What is this?").upload("cat.png", picture, "image/png").upload("n.txt", notes, "text/plain")
    app.chat_input[0].run()
    wait_for_turns(app)
    assert not app.exception
    shown = bodies(app)
    assert "PNG, 1,600 × 900" in shown
    small = re.search(r'<img src="data:image/png;base64,([^"]+)" alt="attached image">', shown)
    assert small
    assert read_image_size(small[1]) in ((360, 202), (360, 203))
    assert b64encode(picture).decode() not in shown
    assert shown.count("<img") == 1
    assert 'n.txt <span class="ts-faint">· 28 characters</span>' in shown
    assert "the heron stands &lt;b&gt;here&lt;/b&gt;" in shown
    assert "You attached an image (PNG, 1,600 × 900" in shown
    thread = app.query_params["thread"]
    session = store(data_folder).load(thread)
    assert [b.kind for b in session.blocks if b.role == "user"] == ["image", "text", "text"]
    assert b64decode(session.blocks[-4].raw["source"]["data"]) == picture
    said = export_formats.to_markdown(session)
    assert f"](data:image/png;base64,{b64encode(picture).decode()})" in said
    assert f"n.txt\n\n```file turnscope n.txt\n{notes.decode()}\n```" in said
    (data_folder / "said.md").write_text(said)
    again = turnscope.load(data_folder / "said.md")
    assert [b.raw for b in again.blocks if b.role == "user"] == [b.raw for b in session.blocks if b.role == "user"]
    area = next(a for a in app.text_area if a.key.startswith("chat.instead"))
    assert area.value == "What is this?"
    area.set_value("And what is this?").run()
    app.button(key="chat.resend").click().run()
    wait_for_turns(app)
    branch = store(data_folder).load(app.query_params["thread"])
    assert [b.digest for b in branch.blocks if b.role == "user"][:2] == [b.digest for b in session.blocks if b.role == "user"][
        :2
    ]
    assert branch.blocks[-2].text == "And what is this?"


def test_a_file_that_cannot_be_sent_is_named_and_the_message_is_back_in_the_box(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    app.chat_input[0].set_value("Read this").upload("report.pdf", b"%PDF-1.7\n\x00\xff", "application/pdf").run()
    assert "report.pdf is neither an image that models accept nor text" in bodies(app)
    assert "What was attached has to be chosen again." in bodies(app)
    assert app.chat_input[0].proto.value == "Read this"
    assert store(data_folder).list() == ()
    app.chat_input[0].upload("cat.png", png(8, 8), "image/png").run()
    wait_for_turns(app)
    assert store(data_folder).list()[0].title == "cat.png"
    assert "You attached an image (PNG, 8 × 8, 1 kB)" in bodies(app)


def test_images_elsewhere_and_damaged_ones_are_words() -> None:
    def block(source: dict[str, str]) -> Block:
        return make_block(0, 0, 0, "user", "", {"type": "image", "source": source})

    away = attachments.render_attachment(block({"type": "url", "url": "https://evil.example/<x>.png"}))
    assert away == '<div class="chat-text ts-faint">image not loaded: https://evil.example/&lt;x&gt;.png</div>'
    damaged = block({"type": "base64", "media_type": "text/html", "data": b64encode(png(9, 9)[:40]).decode()})
    assert "<img" not in attachments.render_attachment(damaged)
    assert "cannot be shown: PNG, 9 × 9" in attachments.render_attachment(damaged)
    assert "<img" not in attachments.render_attachment(
        block({"type": "base64", "media_type": "image/png", "data": "javascript:x"})
    )


def draft() -> Chat:
    settings = Settings("offline-16k", choices.list_policies()["balanced"])
    spare = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    return branches.start_chat("draft", spare, NullSink(), settings, "", [])


def test_what_is_chosen_is_weighed_before_it_is_sent() -> None:
    chosen = [
        {"name": "cat.png", "size": 9_000, "width": 640, "height": 480},
        {"name": "n.txt", "size": 9, "text": "nine words"},
        {"name": "big.png", "size": MAX_IMAGE + 1, "width": 9, "height": 9},
        {"name": "a.zip", "size": 9, "text": None},
    ]
    typed = typing_box.parse_draft({"text": "hello", "length": 5, "files": chosen})
    assert (typed.text, typed.names) == ("hello", ("cat.png", "n.txt"))
    assert [error.what.split()[0] for error in typed.refused] == ["big.png", "a.zip"]
    chat = preview._preview(draft(), typed.text, typed.blocks)
    assert len(chat.attachment_tokens) == 2
    assert 425 <= chat.attachment_tokens[0] < 435, "with what the message itself costs"
    assert 5 < chat.attachment_tokens[1] < 30
    shown = gauge.render_attachments(chat, typed)
    assert f"<b>cat.png</b> {chat.attachment_tokens[0]} tokens, <b>n.txt</b>" in shown
    assert "a.zip is neither an image" in shown
    assert gauge.render_attachments(None, typing_box.Draft("hello")) == ""


def test_an_instruction_in_the_middle_of_a_long_prompt_is_said_before_it_is_sent() -> None:
    def render_gauge(system: int, task: int, rest: int) -> str:
        settings = Settings("claude-sonnet-4-5", choices.list_policies()["keep-everything"])
        spare = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
        chat = branches.start_chat("draft", spare, NullSink(), settings, "word " * system, [])
        said = [("user", "word " * task), ("assistant", "word " * rest), ("user", "and then?")]
        plan, growing = chat.preview_after(said)
        amid = next_request.find_mid_prompt(plan, growing.session, growing.ledger)
        return gauge._render_middle(preview.RequestPreview(plan, growing.session, middle=amid))

    assert re.search(r"the task sits 5\d % into this prompt \(7\d\.\dk tokens\)", render_gauge(32_000, 100, 30_000))
    assert render_gauge(16_000, 100, 15_000) == "", "a short prompt"
    assert render_gauge(2_000, 100, 60_000) == "", "the head"
    assert render_gauge(32_000, 30_000, 100) == "", "its end stands near the prompt's"


def test_a_rule_that_leaves_is_said_before_the_request_is_sent_and_can_be_repeated(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    app.session_state["chat.policy"] = "last-20-messages"
    app.session_state["chat.turned"] = {"last-20-messages": {"1.keep": 3}}
    say(app, "Never push to the main branch.")
    assert not app.exception
    assert "A rule of yours" not in bodies(app)
    say(app, "question 1")
    say(app, "question 2")
    assert "A rule of yours left the window: “Never push to the main branch”." in bodies(app)
    assert re.search(r"Repeating it takes \d\d tokens in each request", bodies(app))
    app.button(key="chat.repeat_rules").click().run()
    assert "A rule of yours" not in bodies(app)
    assert app.session_state["chat.repeat"]
    say(app, "question 3")
    session = store(data_folder).load(app.query_params["thread"])
    trace = turnscope.replay(session)
    assert not user_rules.find_lost_rules(trace.plans[-1], user_rules.RuleIndex(session))
    app.session_state["chat.settled"] = ""
    app.session_state["chat.repeat"] = False
    app.run()
    assert app.session_state["chat.repeat"], "a chat that is opened again goes on as it was"


@pytest.mark.thorough
def test_two_prompts_of_the_same_words_are_told_apart_when_one_is_edited(app: AppTest, data_folder: Path) -> None:
    say(say(say(open_chat(app), "go on"), "and then"), "go on")
    thread = app.query_params["thread"]
    box = next(s for s in app.selectbox if (s.key or "").startswith("chat.at."))
    assert box.options == ["go on (2)", "and then", "go on"], "the newest first"
    box.select_index(2).run()
    next(a for a in app.text_area if a.key.startswith("chat.instead")).set_value("stop").run()
    app.button(key="chat.resend").click().run()
    wait_for_turns(app)
    assert [b.text for b in store(data_folder).load(app.query_params["thread"]).blocks if b.role == "user"] == ["stop"]
    picks = next(s for s in app.selectbox if (s.key or "").startswith("chat.pick."))
    assert len(set(picks.options)) == 2
    store(data_folder).rename(thread, "go on (branch)")
    app.run()
    assert len(set(next(s for s in app.selectbox if (s.key or "").startswith("chat.pick.")).options)) == 2


@pytest.mark.thorough
def test_a_send_that_the_spend_limit_holds_says_what_it_would_cost(app: AppTest, data_folder: Path) -> None:
    open_chat(app)
    there = Destination("server", chat_form.get_offline_server().url, "claude-haiku-4-5")
    app.query_params["thread"] = store(data_folder).create(place=there)
    app.run()
    app.number_input(key="chat.spend").set_value(0.0001)
    say(app, "hello")
    assert "On hold" not in bodies(app)
    say(app, "and now?")
    room = open_chats._get_chats()[app.query_params["thread"]]
    held = room.ending
    assert isinstance(held, LimitReached)
    assert held.usd
    tokens = room.chat.preview().expected_tokens
    assert abs(float(held.usd[0]) - tokens * 1e-6) < 2e-6, "a dollar for a million tokens of a prompt"
    assert abs(float(held.usd[1] - held.usd[0]) - 1_024 * 5e-6) < 2e-6, "and five for the longest answer"
    assert f"sending this would cost ${held.usd[0]:.4f}, up to ${held.usd[1]:.4f} with the longest answer" in bodies(app)
    app.button(key="chat.over").click().run()
    wait_for_turns(app)
    assert "On hold" not in bodies(app)
    app.number_input(key="chat.spend").set_value(0.0)
    app.number_input(key="chat.growth").set_value(10)
    say(app, "word " * 60)
    assert "this turn has grown by" in bodies(app)
    assert "Sending this would cost $" in bodies(app)


def test_a_chat_that_would_go_elsewhere_is_not_sent_and_says_so(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(open_chat(app), "hello")
    billed, url = len(chat_form.get_offline_server().memory.billed), chat_form.get_offline_server().url
    with monkeypatch.context() as amiss:
        amiss.setattr(chat_form, "connect_provider", lambda _to=None: connect(url, "none"))
        say(app, "and now?")
    assert (
        "Not sent: this conversation goes to offline-16k at the built-in model, but the request would have gone to "
        in bodies(app)
    )
    assert f"offline-16k at {url}" in bodies(app)
    assert "Choose where it goes from here." in bodies(app)
    assert len(chat_form.get_offline_server().memory.billed) == billed
    press_newest(app, "chat.answer")
    assert "Not sent" not in bodies(app)
    session = store(data_folder).load(app.query_params["thread"])
    assert [b.text for b in session.blocks if b.role == "user"] == ["hello", "and now?"]
    assert session.requests[-1].stop_reason == "end_turn"


def test_a_server_is_asked_for_its_window_from_the_settings_with_its_own_key(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(url: str, key: str, _timeout: float, _body: object) -> object:
        asked.append((url, key))
        return {"default_generation_settings": {"n_ctx": 8_192}} if url == "http://127.0.0.1:9/props" else None

    monkeypatch.setattr(window_lookup, "_fetch_json", answer)
    open_chat(app)
    app.session_state["chat.key.http://127.0.0.1:9"] = KEY
    app.session_state["chat.key.http://127.0.0.1:8"] = "another key"
    app.selectbox(key="chat.provider").set_value("server").run()
    app.text_input(key="chat.url").set_value("http://127.0.0.1:9").run()
    app.selectbox(key="chat.model").set_value("local-7b").run()
    app.button(key="chat.ask").click().run()
    assert "The window is 8,192 tokens: loaded in llama.cpp (/props)." in bodies(app)
    assert app.number_input(key="chat.window").value == 8_192
    assert "of 8,192 tokens" in bodies(app)
    assert {key for _, key in asked} == {KEY}
    app.text_input(key="chat.url").set_value("http://127.0.0.1:8").run()
    assert app.number_input(key="chat.window").value == 0, "another server's"
    app.button(key="chat.ask").click().run()
    assert "The server did not name its window: the server does not say." in bodies(app)
    assert asked[-1] == ("http://127.0.0.1:8/v1/models", "another key")


def test_a_turn_that_begins_in_another_tab_keeps_the_chat_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page looked whether one is under way before that: the turn's thread changes the chat while it would be read."""
    client = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    settings = Settings("offline-16k", policy.load("balanced"))
    chat = branches.start_chat("t1", client, NullSink(), settings, "", [])
    room = open_chats.OpenChat("t1", chat, chat.live_session.session)
    monkeypatch.setattr(Chat, "list_summaries", lambda _: (read.append(room.turn), ())[1])
    read: list[BackgroundTurn | None] = []
    assert summaries._list_summaries(room) == ()
    room.turn = BackgroundTurn(iter(()), chat)
    assert summaries._list_summaries(room) == ()
    assert read == [None]
