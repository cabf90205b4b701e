"""Every page in Streamlit's own test runner: what it shows, and that it survives whatever it is given."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hostile
import pytest
import turnscope
from claude_log import Log
from conftest import ROOT, list_sessions, read_component
from turnscope import settings
from turnscope.library import Store

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLES = ROOT / "sample_sessions"
FIRST = "tool-results-eat-the-window"
PAGES = ("envelope", "heatmap", "library")


def open_page(app: AppTest, page: str = "envelope", **query: str) -> AppTest:
    """The app, gone to a page with a query."""
    if page != "envelope":
        app.switch_page(f"pages/{page}.py")
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def bodies(app: AppTest) -> str:
    """All HTML that a page shows."""
    return "\n".join(element.proto.body for element in app.get("html"))


def headline(app: AppTest) -> str:
    found = re.search(r'ts-headline"[^>]*data-request="(\d+)"><span>(.*?)</span>', bodies(app))
    assert found, "no headline"
    return found[2]


@pytest.fixture
def cold() -> None:
    """No session is open yet: what an earlier test opened in this process is forgotten."""
    import streamlit as st

    st.cache_resource.clear()


@pytest.mark.usefixtures("cold")
def test_what_a_page_opened_is_kept_once_it_is_drawn(app: AppTest) -> None:
    log = SAMPLES / f"{FIRST}.jsonl"
    memory = Store(settings.find_database())
    open_page(app)
    key = memory.list_recent()[0].key
    until = time.monotonic() + 20
    while (kept := memory.reopen(key)) is None and time.monotonic() < until:
        time.sleep(0.05)
    assert kept is not None
    assert kept.session == turnscope.load(log)


def claude_folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the app looks for Claude Code's sessions."""
    folder = data_folder.parent / "claude" / "projects" / "work"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder.parent.parent))
    return folder


def entry_id(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("sample", sorted(path.stem for path in SAMPLES.glob("*.jsonl")))
def test_every_page_shows_every_sample(app: AppTest, page: str, sample: str) -> None:
    open_page(app, page, session=sample)
    assert not app.exception
    assert "ts-title" in bodies(app)


def test_the_app_opens_right_before_the_largest_cut_and_shows_the_way_to_it(app: AppTest) -> None:
    app.run()
    assert headline(app) == "At request 263 the model saw 164,845 of 200,000 tokens.", "of the request alone"
    assert '<button type="button" class="ts-go" data-request="263">What was compacted at request 264 →</button>' in bodies(app)
    assert app.query_params["session"] == FIRST
    assert app.query_params["request"] == "262"
    open_page(app, session=FIRST, request="263")
    assert "The previous request carried 164,845 tokens" in bodies(app)
    shown = bodies(app)
    for said in ("compacted into a summary", "the tool did it by itself", "The previous request carried"):
        assert len(re.findall(rf">[^<]*{said}", shown)) <= 1, "no sentence stands there twice"
    assert "truncat" not in shown.casefold()
    for word in ("2 compactions", ">compacted<", ">cache miss<", "% repeated input"):
        assert word in shown


@pytest.mark.parametrize(("wanted", "shown"), [("7", 7), ("-5", 0), ("99999", 324), ("x", 262), ("", 262), ("1e3", 262)])
def test_a_request_in_the_url_is_shown_or_brought_inside_the_session(app: AppTest, wanted: str, shown: int) -> None:
    open_page(app, session=FIRST, request=wanted)
    assert f'data-request="{shown}"' in bodies(app)


@pytest.mark.parametrize("wanted", ["nowhere", "../../etc/passwd", "/etc/passwd", "%00", "<script>"])
def test_a_session_that_is_not_known_is_said_to_be_so_and_the_app_goes_on(app: AppTest, wanted: str) -> None:
    open_page(app, session=wanted)
    assert not app.exception
    assert "not known here" in bodies(app)
    app.run()
    assert headline(app)


def test_the_picker_opens_another_session(app: AppTest) -> None:
    app.run()
    app.selectbox[0].set_value("cache-goes-cold").run()
    assert "High water" in bodies(app)
    assert app.query_params["session"] == "cache-goes-cold"


def test_a_subagent_is_a_session_of_its_own(app: AppTest) -> None:
    open_page(app, session=FIRST, part="1")
    assert "of 200,000 tokens" in headline(app)
    assert "Search /home/mira" in bodies(app)
    assert app.query_params["part"] == "1"
    open_page(app, session=FIRST, part="99")
    assert "part" not in app.query_params


def test_a_switch_of_pages_keeps_session_and_request(app: AppTest) -> None:
    open_page(app, session="cache-goes-cold", request="36")
    app.switch_page("pages/heatmap.py")
    app.query_params.clear()
    app.run()
    assert headline(app).startswith("At request 37 the model saw 104,437")


def test_search_says_when_a_text_left_the_window_and_why(app: AppTest) -> None:
    app.run()
    app.text_input(key="header-search").set_value("public API").run()
    assert not app.exception
    assert "blocks hold “public API”" in bodies(app)
    from turnscope import load, replay
    from turnscope.views.text_search import search

    hits = search(replay(load(SAMPLES / f"{FIRST}.jsonl")), "public API").hits
    assert hits[0].spans == ((0, 112),)
    assert hits[0].reason.startswith("left at request 113: compacted into a summary")


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("by", ["requests", "turns"])
@pytest.mark.parametrize("measure", ["cost", "tokens", "share"])
@pytest.mark.parametrize(("scale", "rows"), [("rank", "shared"), ("log", "each"), ("linear", "shared"), ("rank", "each")])
def test_the_heatmap_draws_every_choice_and_says_how_to_read_it(
    app: AppTest, by: str, measure: str, scale: str, rows: str
) -> None:
    app.run()
    app.switch_page("pages/heatmap.py").run()
    for key, value in (("by", by), ("measure", measure), ("scale", scale), ("rows", rows)):
        app.query_params[key] = value
    app.run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == 1
    shown = bodies(app)
    assert f"Each column is a {by[:-1]}, each row a part of it" in shown
    assert len(re.findall('class="ts-shades', shown)) == (4 if rows == "each" else 1)
    values = re.findall(r'<div class="ends"><span>(.*?)</span>', shown)
    assert all(re.match({"cost": r"[$<]", "tokens": r"\d", "share": r"[<\d].*%"}[measure], value) for value in values)


@pytest.mark.parametrize("more", [0, 1])
def test_what_an_address_chooses_is_the_default_of_its_widget_in_every_run(app: AppTest, more: int) -> None:
    open_page(app, "debugger", session="cache-goes-cold", request="40", pane="ladder")
    for _ in range(more):  # a busy browser may show nothing but this run
        app.run()
    shown = app.segmented_control(key="debugger.pane").proto
    assert [shown.options[n].content for n in shown.default] == ["Overflow handling"]
    open_page(app, "search", session="cache-goes-cold", q="tide", role="user", regex="1")
    for _ in range(more):
        app.run()
    assert app.text_input(key="header-search").proto.default == "tide"
    assert app.toggle(key="found.regex").proto.default
    assert app.selectbox(key="found.role").proto.default == 1


def test_the_exact_request_is_shown_on_demand_and_marks_what_the_log_does_not_hold(app: AppTest) -> None:
    open_page(app, session=FIRST, request="112")
    assert not app.code
    app.query_params["pane"] = "exact"
    app.run()
    body = json.loads(app.code[0].value)
    assert body["model"] == "claude-sonnet-4-5-20250929"
    assert "not in the log" in body["system"]
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_session_text_stays_text_on_every_page(app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hostile.write(claude_folder(data_folder, monkeypatch))
    for page in PAGES:
        open_page(app, page, session=entry_id(path), request="8")
        if page != "library":
            app.text_input(key="header-search").set_value(hostile.TEXT[:50]).run()
        assert not app.exception
        shown = bodies(app)
        assert "<script" not in shown
        assert "<img" not in shown
        assert "<form" not in shown
        assert "&lt;script&gt;" in shown or page == "library"
        rendered = [element.value for kind in ("markdown", "caption", "error", "warning", "info") for element in app.get(kind)]
        labels = [
            element.label for kind in ("button", "toggle", "text_input", "selectbox", "expander") for element in app.get(kind)
        ]
        assert not [text for text in (*rendered, *labels) if hostile.MARK in str(text)]
        app.text_input(key="header-search").set_value("").run()


def test_found_sessions_are_listed_by_metadata_and_read_only_when_chosen(
    cold: None, app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = claude_folder(data_folder, monkeypatch)
    (folder / "broken.jsonl").write_bytes(b"\x00\x01 this is no session")
    shutil.copy(SAMPLES / "cache-goes-cold.jsonl", folder / "good.jsonl")
    open_page(app, "library")
    found = list_sessions(app)
    assert sorted(found) == ["broken.jsonl", "good.jsonl", f"{FIRST}.jsonl"]
    assert [name for name, row in found.items() if row["requests"]] == [f"{FIRST}.jsonl"], "opened just now"
    open_page(app, session=entry_id(folder / "broken.jsonl"))
    assert not app.exception
    assert "no format that Turnscope knows" in bodies(app)
    open_page(app, session=entry_id(folder / "good.jsonl"))
    assert "High water" in bodies(app)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe\x00garbage", b"[]", b"{}\n" * 3, b"[" * 60 + b"]" * 60])
def test_a_dropped_file_that_is_no_session_is_refused_in_words_and_the_app_goes_on(app: AppTest, data: bytes) -> None:
    open_page(app, "library")
    app.file_uploader[0].upload("notes.jsonl", data, "application/json").run()
    assert not app.exception
    assert 'role="alert"' in bodies(app)
    assert "notes.jsonl" in bodies(app)
    app.switch_page("pages/envelope.py").run()
    assert headline(app)


def test_a_dropped_session_opens_and_can_be_opened_again_from_the_list(app: AppTest) -> None:
    data = (SAMPLES / "cache-goes-cold.jsonl").read_bytes().replace(b"tide", b"TIDE")
    open_page(app, "library")
    app.file_uploader[0].upload("mine.jsonl", data, "application/json").run()
    key = app.session_state["state.session"]
    app.switch_page("pages/envelope.py")
    app.query_params["session"] = key
    app.run()
    assert "High water" in bodies(app)
    open_page(app, "library")
    assert "mine.jsonl" in list_sessions(app)


def test_forgetting_deletes_what_was_remembered(cold: None, app: AppTest, data_folder: Path) -> None:
    open_page(app, "library")
    assert list(data_folder.rglob("*.db"))
    app.button(key="library.forget").click().run()
    assert not app.exception
    assert list(list_sessions(app)) in ([], [f"{FIRST}.jsonl"])


def talks(path: Path, count: int) -> Path:
    """A log of `count` conversations of one request each."""
    with path.open("w") as file:
        for n in range(count):
            messages = [{"role": "user", "content": f"The task of conversation {n} is to count up to {n} and no further."}]
            answer = {"type": "message", "content": [{"type": "text", "text": f"{n}"}], "usage": {"input_tokens": 9}}
            body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "s", "messages": messages}
            file.write(json.dumps({"request": body, "response": answer}) + "\n")
    return path


def test_every_conversation_of_a_log_is_listed_and_opens(
    cold: None, app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = talks(data_folder / "three.jsonl", 3)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    open_page(app, "library", session=entry_id(path))
    assert not app.exception
    listed = next(frame.value for frame in app.dataframe if "Requests" in frame.value and "Time" in frame.value)
    assert [title.split()[4] for title in listed["Title"]] == ["0", "1", "2"]
    assert next(box for box in app.selectbox if box.label == "Conversation, 3 listed").value == "1"
    for number in (1, 2, 3):
        open_page(app, session=f"{entry_id(path)}:{number}")
        assert f"conversation {number - 1} is to count" in bodies(app)
    picker = next(box for box in app.selectbox if box.label == "Conversation, 3 listed")
    picker.set_value("2").run()
    assert app.query_params["session"] == f"{entry_id(path)}:2"
    assert "conversation 1 is to count" in bodies(app)
    open_page(app, session=f"{entry_id(path)}:9")
    assert "holds no conversation" in bodies(app)


def test_of_many_conversations_the_first_are_listed_and_the_others_counted(
    cold: None, app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = talks(data_folder / "many.jsonl", 1000)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    open_page(app, "library", session=entry_id(path))
    assert "The first 300 are listed, and 700 more." in bodies(app)
    open_page(app, session=f"{entry_id(path)}:999")
    assert "conversation 998 is to count" in bodies(app)


def test_a_dropped_log_of_several_conversations_keeps_them_all(cold: None, app: AppTest, data_folder: Path) -> None:
    open_page(app, "library")
    app.file_uploader[0].upload("talks.jsonl", talks(data_folder / "x.jsonl", 3).read_bytes(), "application/json").run()
    key = app.session_state["state.session"]
    open_page(app, session=key)
    assert "conversation 0 is to count" in bodies(app)
    open_page(app, "library")
    rows = read_component(app, "turnscope_sessions")["rows"]
    assert [row["file"] for row in rows].count("talks.jsonl") == 3


def test_a_session_that_grows_is_read_on(cold: None, app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnscope.importers.claude_code import following, paths

    path = claude_folder(data_folder, monkeypatch) / "s1.jsonl"
    log = Log()
    for n in range(20):
        log.user(f"prompt {n}")
        log.answer(f"m{n}", f"answer {n}", usage=(1, 2, 3, 4))
    log.save(path)
    open_page(app, session=entry_id(path))
    app.toggle(key="header-live").set_value(True).run()
    laid: list[int] = []
    really = paths.lay_out
    monkeypatch.setattr(following, "lay_out", lambda *given: laid.append(1) or really(*given))
    log.user("one more")
    log.answer("m20", "the newest answer", usage=(1, 2, 3, 4))
    log.save(path)
    app.query_params["request"] = "1000000000"
    app.run()
    assert not app.exception
    assert app.query_params["request"] == "20"
    assert laid == []


def test_a_page_of_a_session_that_grows_all_the_time_is_drawn_to_its_end(
    cold: None, app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pages.parts import cache

    path = claude_folder(data_folder, monkeypatch) / "s1.jsonl"
    log = Log()
    log.user("look for the road")
    log.answer("m0", "It is here.", usage=(1, 2, 3, 4))
    log.save(path)
    open_page(app, session=entry_id(path))
    versions = itertools.count()
    monkeypatch.setattr(cache, "read_version", lambda _: str(next(versions)))
    app.toggle(key="header-live").set_value(True).run()
    app.run()
    assert not app.exception
    assert next(versions) < 20, "each run looks a few times, and begins no other one"
    assert "It is here." in bodies(app)


def test_what_passes_a_tap_is_shown_while_it_passes(cold: None, app: AppTest, data_folder: Path) -> None:
    from turnscope.tap.recorder import Recorder

    recorder, said = Recorder(data_folder / "tap" / "agent.jsonl", ["agent"]), []

    def ask(words: str) -> int:
        said.append({"role": "user", "content": words})
        body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": said}
        address = "http://localhost/v1/messages"
        number = recorder.begin("anthropic-messages", address, [], [json.dumps(body).encode()], [], time.time())
        wait_until_written(recorder.path, f'"call":{number},"api"')
        return number

    def answer(number: int, words: str) -> None:
        content = [{"type": "text", "text": words}]
        back = {"type": "message", "id": "m", "content": content, "usage": {"input_tokens": 40, "output_tokens": 5}}
        recorder.answer(number, 200, [])
        recorder.add(number, json.dumps(back).encode())
        recorder.end(number, "complete")
        said.append({"role": "assistant", "content": content})
        wait_until_written(recorder.path, f'"call":{number},"outcome"')

    answer(ask("look for the road"), "It is here.")
    open_page(app, session=entry_id(recorder.path))
    assert not app.exception
    assert "look for the road" in bodies(app)
    app.toggle(key="header-live").set_value(True).run()
    number = ask("where does it lead?")
    app.query_params["request"] = "1000000000"
    app.run()
    assert (not app.exception, app.query_params["request"]) == (True, "1")
    answer(number, "To the sea.")
    app.run()
    assert "To the sea." in bodies(app)
    recorder.close()


def wait_until_written(path: Path, words: str) -> None:
    end = time.monotonic() + 10
    while words not in path.read_text("utf-8"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_search_is_narrowed_by_role_tool_and_request_and_turned_page_by_page(app: AppTest) -> None:
    open_page(app, session=FIRST, request="112")
    app.text_input(key="header-search").set_value("session").run()
    whole = blocks_found(app)
    assert whole > 100
    assert f"1–50 of {whole:,} blocks" in bodies(app)
    next(button for button in app.button if button.label == "Last").click().run()
    assert f"–{whole:,} of {whole:,} blocks" in bodies(app)
    app.toggle(key="found.only").set_value(True).run()
    only = blocks_found(app)
    assert 0 < only < whole
    app.toggle(key="found.only").set_value(False).run()
    parts = []
    for role in ("user", "assistant", "tool", "system"):
        app.selectbox(key="found.role").set_value(role).run()
        parts.append(blocks_found(app))
    assert sum(parts) == whole
    app.selectbox(key="found.role").set_value("").run()
    app.selectbox(key="found.tool").set_value("Read").run()
    assert 0 < blocks_found(app) < whole
    app.toggle(key="found.regex").set_value(True).run()
    app.text_input(key="header-search").set_value("sess(ion").run()
    assert not app.exception
    assert "This is not a valid regular expression" in bodies(app)
    app.text_input(key="header-search").set_value("sess(ion)?s").run()
    assert blocks_found(app) > 0


def blocks_found(app: AppTest) -> int:
    found = re.search(r">([\d,]+) blocks? holds? “", bodies(app))
    return int(found[1].replace(",", "")) if found else -1


def test_the_transcript_holds_every_block_and_the_difference_agrees_with_the_envelope(app: AppTest) -> None:
    from turnscope import load, replay
    from turnscope.views.overview import build_overview

    trace = replay(load(SAMPLES / f"{FIRST}.jsonl"))
    view = build_overview(trace)
    open_page(app, session=FIRST, request="112")
    app.query_params["pane"] = "transcript"
    app.run()
    assert not app.exception
    count, cut = len(trace.session.blocks), trace.plans[112].request.cut
    begin = (cut - 1) // 100 * 100
    assert f"{begin + 1:,}–{begin + 100:,} of {count:,} blocks" in bodies(app), "the page on which the request ends"
    assert f'data-block="{cut - 1}"' in bodies(app)
    app.text_input(key="transcript.text").set_value("no such text at all").run()
    assert "no blocks" in bodies(app)
    app.query_params["pane"] = "difference"
    app.run()
    assert not app.exception
    assert "<td><b>Whole prompt</b></td><td>157,485</td><td>18,938</td><td>−138,547</td>" in bodies(app)
    app.number_input(key="difference.old").set_value(4).run()
    before, after = int(view.prompts[3]), int(view.prompts[112])
    assert f"<td>{before:,}</td><td>{after:,}</td>" in bodies(app)


def test_a_path_opens_a_file_lists_a_folder_and_says_what_to_do_otherwise(app: AppTest, data_folder: Path) -> None:
    folder = data_folder.parent / "logs"
    (folder / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    shutil.copy(SAMPLES / "cache-goes-cold.jsonl", folder / "deep" / "cold.jsonl")
    open_page(app, "library")
    app.text_input(key="library.path").set_value(str(folder / "empty")).run()
    assert "holds nothing to open" in bodies(app)
    assert ".jsonl" in bodies(app)
    app.text_input(key="library.path").set_value(str(folder / "nowhere.jsonl")).run()
    assert "cannot be read" in bodies(app)
    assert "Check the path" in bodies(app)
    app.text_input(key="library.path").set_value(str(folder)).run()
    assert "1 session found" in bodies(app)
    assert any(list(frame.value["File"]) == ["cold.jsonl"] for frame in app.dataframe if "Folder" in frame.value)
    app.text_input(key="library.path").set_value(f'"{folder}/deep/cold.jsonl"').run()
    assert not app.exception
    app.switch_page("pages/envelope.py")
    app.query_params["session"] = app.session_state["state.session"]
    app.run()
    assert "High water" in bodies(app)
    names = next(box for box in app.selectbox if box.label.startswith("Session")).options
    assert any("High water" in name and "cold.jsonl" in name for name in names)


def test_a_strip_under_the_bar_says_how_the_prompt_was_billed(app: AppTest) -> None:
    open_page(app, session="cache-goes-cold", request="60")
    session = turnscope.load(SAMPLES / "cache-goes-cold.jsonl")
    usage = session.requests[60].usage
    assert usage
    said = bodies(app)
    assert f"written to the cache {usage.cache_creation_input_tokens:,}" in said
    assert f"read from the cache {usage.cache_read_input_tokens:,}" in said
    assert f"not cached {usage.input_tokens:,}" in said
