"""The Memory panel of the chat and its section on the library page: facts are seen, refused, added, edited and forgotten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from json_server import serve
from turnscope.storage.memories import Memories

from pages.chat import open_chats
from pages.parts import chat_form

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture(autouse=True)
def _quick() -> None:
    """The built-in model answers without pauses."""
    chat_form.get_offline_server().delay = 0.0


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def say(app: AppTest, text: str) -> None:
    app.chat_input[0].set_value(text).run()
    for room in open_chats._get_chats().values():
        assert room.turn is None or room.turn.wait(30)
    app.run()
    assert not app.exception


def get_inserted(thread: str, slot: str = "memory") -> str:
    plan = open_chats._get_chats()[thread].chat.plan
    pieces = plan.after.pieces if plan else ()
    return "\n".join(part.text for piece in pieces if piece.slot == slot for part in piece.body or ())


def test_a_search_that_is_set_up_in_the_panel_brings_web_results_into_the_middleware(app: AppTest) -> None:
    found = (200, {}, {"results": [{"title": "Harbour", "url": "https://example.org", "content": "Ships leave at noon."}]})
    with serve([found, found]) as (url, came):
        app.session_state["chat.policy"] = "openwebui-middleware"
        app.switch_page("pages/chat.py").run()
        app.text_input(key="chat.search.url").set_value(f"{url}/?q={{query}}").run()
        app.text_input(key="chat.search.words").set_value("ships").run()
        app.button(key="chat.search.try").click().run()
        assert "Results with a text: 1" in bodies(app)
        say(app, "When do ships leave?")
    assert [path for path, _, _ in came] == ["/?q=ships", "/?q=When%20do%20ships%20leave%3F"], "one search for the question"
    plan = open_chats._get_chats()[str(app.session_state["chat.thread"])].chat.plan
    assert plan is not None
    stages = {d.edit.facts["stage"]: d.edit.facts["tokens"] for d in plan.decisions if d.rule == "tell_stages"}
    assert stages["web search"] > 0


def test_a_page_that_a_question_names_is_read_once_it_is_allowed_in_the_panel(app: AppTest) -> None:
    with serve([(200, {"content-type": "text/html"}, b"<p>Ships leave at noon.")]) as (url, came):
        app.session_state["chat.policy"] = "context-providers"
        app.switch_page("pages/chat.py").run()
        say(app, f"When do ships leave? @url {url}/a")
        assert came == []
        app.toggle(key="chat.read_pages").set_value(True).run()
        say(app, f"And now? @url {url}/a")
    assert [path for path, _, _ in came] == ["/a"], "once for the question"
    assert "Ships leave at noon." in get_inserted(str(app.session_state["chat.thread"]), "pages")


@pytest.mark.thorough
def test_facts_are_found_refused_forgotten_and_reach_the_next_chat(app: AppTest, data_folder: Path) -> None:
    store = Memories(data_folder / "chats.db")
    app.session_state["chat.policy"] = "openwebui-middleware"
    app.switch_page("pages/chat.py").run()
    say(app, "My name is Ada. I prefer short answers.")
    assert [fact.text for fact in store.list_all()] == ["My name is Ada.", "I prefer short answers."]
    assert "<b>2 facts</b>" in bodies(app)
    (name, short) = store.list_all()
    thread = str(app.session_state["chat.thread"])
    app.button(key=f"chat.refuse.{thread}.{short.id}").click().run()
    assert "<s>I prefer short answers.</s>" in bodies(app)
    assert [fact.text for fact in store.list_all()] == ["My name is Ada."]
    app.button(key="chat.new").click().run()
    say(app, "What is my name?")
    thread = str(app.session_state["chat.thread"])
    assert "My name is Ada." in get_inserted(thread)
    app.button(key=f"chat.fact.{name.id}.forget").click().run()
    assert "1 forgotten" in bodies(app)
    say(app, "And now?")
    assert get_inserted(thread) == ""
    app.selectbox(key="chat.memory").set_value("off").run()
    say(app, "My name is Bob.")
    assert [fact.text for fact in store.list_all()] == [""], "switched off, nothing is remembered beyond the chat"
    app.switch_page("pages/heatmap.py")
    app.query_params.clear()
    app.query_params["session"] = f"thread-{thread}"
    app.query_params["request"] = "0"
    app.query_params["inserts"] = "apart"
    app.run()
    assert not app.exception
    assert "› is what was inserted" in bodies(app)
    app.switch_page("pages/envelope.py").run()
    assert re.search("inserts<em>memory \\d+</em>", bodies(app))


def test_the_library_lists_what_is_remembered_by_project(app: AppTest, data_folder: Path) -> None:
    store, other = Memories(data_folder / "chats.db"), Memories(data_folder / "chats.db", project="/work/heron")
    fact = store.add("We deploy on Fridays.")
    other.add("The heron is grey.", "agent")
    app.switch_page("pages/library.py").run()
    assert "We deploy on Fridays." in bodies(app)
    assert "The heron is grey." not in bodies(app)
    app.text_area(key=f"memory..{fact.id}.text").set_value("We deploy on Mondays.").run()
    app.button(key=f"memory..{fact.id}.save").click().run()
    assert [fact.text for fact in store.list_all()] == ["", "We deploy on Mondays."]
    app.selectbox(key="memory.project").set_value("/work/heron").run()
    assert "The heron is grey." in bodies(app)
    assert "Mondays" not in bodies(app)
