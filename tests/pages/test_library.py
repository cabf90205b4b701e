"""The library page: what is listed, indexed, searched, filtered, added up and forgotten."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from claude_log import Log
from conftest import ROOT, list_sessions, read_component
from turnscope import settings
from turnscope.library import indexing

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLES = ROOT / "sample_sessions"


@pytest.fixture(autouse=True)
def _cold() -> None:
    """No session is open yet, and nothing is indexed."""
    import streamlit as st

    st.cache_resource.clear()


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def library_page(app: AppTest) -> AppTest:
    app.run()
    app.switch_page("pages/library.py")
    return app.run()


@pytest.fixture
def claude(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the app looks for Claude Code's sessions; one is a sample, one no session."""
    folder = data_folder.parent / "claude" / "projects" / "-home-mira-work"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder.parent.parent))
    shutil.copy(SAMPLES / "cache-goes-cold.jsonl", folder / "cold.jsonl")
    (folder / "broken.jsonl").write_bytes(b"\x00\x01 this is no session")
    return folder


def wait(app: AppTest) -> AppTest:
    """Until the job has ended."""
    from pages.library import indexing as page

    job = page._get_jobs().job or page._get_jobs().own
    assert job
    job.wait(120)
    assert job.state == "done", job.error
    return app.run()


def test_what_was_found_is_listed_unread_indexed_on_a_click_searched_and_leads_to_its_block(app: AppTest, claude: Path) -> None:
    library_page(app)
    assert not app.exception
    assert {"cold.jsonl", "broken.jsonl"} <= set(list_sessions(app))
    assert "2 not read yet" in bodies(app)
    assert "indexed session" not in bodies(app)
    app.button(key="library.index").click().run()
    wait(app)
    shown = bodies(app)
    assert "Indexed 2 files" in shown
    assert "is in no format that Turnscope knows" in shown
    assert "broken.jsonl" in shown
    assert "of 1 indexed session" in shown
    view = turnscope.overview(turnscope.load(claude / "cold.jsonl"))
    assert f"${view.total:,.2f}" in shown
    for word in ("Window filled", "40–70 %", "Messages per request", "Truncation events", "Cache misses", "7 days", "30 days"):
        assert word in shown
    row = list_sessions(app)["cold.jsonl"]
    assert row["requests"] == f"{len(view):,}"
    assert row["cost"] == f"${view.total:,.2f}"
    assert row["fill"] == f"{view.fill.max():.0%}"
    assert max(row["curve"]) == round(100 * view.fill.max())
    cards = read_component(app, "turnscope_notable")["rows"]
    assert [card["curve"] for card in cards] == [row["curve"]], "a card has the curve of its session"
    [cost] = read_component(app, "turnscope_costs")["rows"]
    assert (cost["cost"], cost["share"]) == (f"${view.total:,.2f}", 100.0)

    app.text_input(key="library.search").set_value("high water").run()
    assert "<mark>" in bodies(app)
    label = app.button(key="library.hit.0").label
    request, block = (int(found.replace(",", "")) for found in re.findall(r"(?:request|block) ([\d,]+)", label))
    app.button(key="library.hit.0").click().run()
    assert not app.exception
    assert app.query_params["block"] == str(block)
    assert app.query_params["pane"] == "transcript"
    session = turnscope.load(claude / "cold.jsonl")
    assert "water" in session.blocks[block].text.casefold()
    assert 0 <= request < len(session.requests)

    app.switch_page("pages/search.py")
    app.query_params.clear()
    app.query_params["q"], app.query_params["scope"] = "high water", "all"
    app.run()
    assert "<mark>" in bodies(app)
    app.button(key="search.hit.0").click().run()
    assert not app.exception
    found = {name: app.query_params[name] for name in app.query_params}
    assert (found["q"], found["block"], found["request"]) == ("high water", str(block), str(request - 1))
    assert "scope" not in found
    assert f"When did block #{block:,} leave the window?" in bodies(app)


def test_a_folder_that_is_looked_into_anyway_opens_when_it_is_given(
    app: AppTest, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`turnscope ~/.claude/projects` shows a session from there, not the sample."""
    monkeypatch.setenv(settings.OPEN_VARIABLE, str(claude))
    app.run()
    assert not app.exception
    assert "Auth sessions from Postgres to Redis" not in bodies(app)
    from pages.parts import cache

    given = [entry for entry in cache.list_entries().values() if entry.origin == "given"]
    assert [entry.tool for entry in given] == ["Claude Code session"] * 2


def test_filters_order_and_pages_over_many_sessions(app: AppTest, claude: Path) -> None:
    for n in range(120):
        (claude / f"more-{n:03}.jsonl").write_text("{}\n")
    library_page(app)
    assert len(list_sessions(app)) == 50, "no widget lists them all"
    assert "of 123 sessions" in bodies(app)
    first = set(list_sessions(app))
    app.button(key="library.start.later").click().run()
    assert not first & set(list_sessions(app))
    app.text_input(key="library.search").set_value("cold claude").run()
    assert list(list_sessions(app)) == ["cold.jsonl"]
    app.text_input(key="library.search").set_value("").run()
    app.toggle(key="library.cut").set_value(True).run()
    assert list(list_sessions(app)) == ["tool-results-eat-the-window.jsonl"], "opened before, and cut"
    app.number_input(key="library.least").set_value(10_000.0).run()
    assert "no sessions" in bodies(app)
    app.number_input(key="library.least").set_value(None).run()
    app.number_input(key="library.most").set_value(0.0).run()
    assert "no sessions" in bodies(app)
    app.number_input(key="library.most").set_value(10_000.0).run()
    assert list(list_sessions(app)) == ["tool-results-eat-the-window.jsonl"]
    app.number_input(key="library.most").set_value(None).run()
    app.toggle(key="library.cut").set_value(False).run()
    app.selectbox(key="library.order").set_value("title").run()
    titles = [row["title"].casefold() for row in list_sessions(app).values()]
    assert titles == sorted(titles)
    app.selectbox(key="library.tool").set_value("Claude Code session").run()
    assert not app.exception


@pytest.mark.thorough
def test_sessions_are_forgotten_only_after_it_was_asked_for_twice_and_files_stay(app: AppTest, claude: Path) -> None:
    library_page(app)
    app.button(key="library.index").click().run()
    wait(app)
    app.text_input(key="library.search").set_value("cold").run()
    app.button(key="library.forget-listed").click().run()
    assert not app.exception
    assert (claude / "cold.jsonl").exists()
    assert "indexed sessions" not in bodies(app)


def test_a_session_that_was_only_opened_shows_no_cost_of_other_prices(
    app: AppTest, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import streamlit as st
    from turnscope.library import session_summary

    from pages.parts import cache

    cache.open_store().open(claude / "cold.jsonl")
    library_page(app)
    before = list_sessions(app)["cold.jsonl"]
    assert before["cost"].startswith("$")
    monkeypatch.setattr(session_summary, "get_version", lambda *_: "other prices")
    st.cache_resource.clear()  # as in another process
    app.run()
    after = list_sessions(app)["cold.jsonl"]
    assert after["title"] == before["title"]
    assert after["cost"] == "not read"
    assert "not read yet" in bodies(app)


@pytest.mark.thorough
def test_a_folder_is_imported_and_its_sessions_open_afterwards(app: AppTest, data_folder: Path) -> None:
    folder = data_folder.parent / "logs"
    folder.mkdir()
    log = Log()
    log.user("count the herons")
    log.answer("m1", "there are nine herons", usage=(20, 0, 0, 9))
    (folder / "herons.jsonl").write_text(log.text())
    library_page(app)
    app.text_input(key="library.path").set_value(str(folder)).run()
    app.button(key="library.index-folder").click().run()
    wait(app)
    assert "herons.jsonl" in set(list_sessions(app))
    from pages.parts.registry import make_id

    app.switch_page("pages/envelope.py")
    app.query_params["session"] = make_id(folder / "herons.jsonl")
    app.run()
    assert not app.exception
    assert "herons" in bodies(app)


def test_five_thousand_sessions_are_a_page_in_less_than_half_a_second(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnscope.storage import library_index

    path = data_folder / "library.db"
    log = Log()
    log.user("a question")
    log.answer("m1", "an answer", usage=(20, 0, 0, 9))
    file = data_folder / "one.jsonl"
    file.write_text(log.text())
    from turnscope.reading.containers import open_source

    one = next(indexing.read_sessions(open_source(file), str(file)))
    from msgspec import structs

    with library_index._begin_write(path) as db:
        for n in range(5_000):
            line = structs.replace(one.row, path=f"/gone/{n}.jsonl", name=f"{n}.jsonl")
            library_index._insert_row(db, library_index.IndexedSession(line, one.costs, one.cuts, ()))
    library_page(app)
    assert "of 5,001 sessions" in bodies(app)
    began = time.process_time()
    app.run()
    took = time.process_time() - began
    assert not app.exception
    assert took < 1.5, f"{took:.2f} s of CPU, the test runner's own work included"


def test_our_own_chats_are_listed_searched_added_up_and_leave_when_they_are_deleted(app: AppTest, data_folder: Path) -> None:
    from turnscope.live import branches, endpoints
    from turnscope.live.chat import Settings
    from turnscope.live.threads import Threads
    from turnscope.planning.policy import load

    from pages.library import indexing as page
    from pages.parts import chat_form

    threads = Threads(data_folder / "chats.db")
    thread = threads.create(title="Herons")
    client = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    talk, _ = branches.resume_chat(
        threads.load(thread), client, threads.open_writer(thread), Settings("offline-16k", load("balanced"))
    )
    [*talk.send("count the albatrosses")]
    library_page(app)
    page._get_jobs().chats.join(30)  # type: ignore[union-attr]
    app.run()
    assert not app.exception
    [row] = [row for row in list_sessions(app).values() if row["title"] == "Herons"]
    assert "No price is known for the models of these sessions." in bodies(app), "and no chart without a bar"
    assert (row["tool"], row["project"], row["model"], row["requests"]) == ("Live chat", "live chat", "offline-16k", "1")
    assert "of 1 indexed session" in bodies(app)
    app.text_input(key="library.search").set_value("albatross").run()
    assert app.button(key="library.hit.0").label.startswith("Herons")
    assert app.button(key="library.forget-listed").label == "Forget the 0 listed", "no chat"
    app.button(key="library.hit.0").click().run()
    assert not app.exception
    assert app.session_state["state.session"] == f"thread-{thread}"
    threads.delete(thread)
    app.query_params.clear()
    app.switch_page("pages/library.py").run()
    page._get_jobs().chats.join(30)  # type: ignore[union-attr]
    app.text_input(key="library.search").set_value("albatross").run()
    assert not app.exception
    assert "Herons" not in {row["title"] for row in list_sessions(app).values()}
    assert "No text holds this" in bodies(app)


@pytest.mark.thorough
def test_what_is_found_and_what_was_opened_is_indexed_by_itself_until_somebody_stops_it(
    app: AppTest, claude: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pages.library import indexing as page
    from pages.parts import opening

    monkeypatch.setattr(page, "AUTOMATIC", True)
    log = Log()
    log.user("count the albatrosses")
    log.answer("m1", "there are nine", usage=(20, 0, 0, 9))
    file = data_folder.parent / "dropped.jsonl"
    file.write_text(log.text())
    opening.adopt_file("dropped.jsonl", file)
    file.unlink()
    library_page(app)
    wait(app)
    page._get_jobs().chats.join(30)  # type: ignore[union-attr]
    app.run()
    rows = list_sessions(app)
    assert rows["cold.jsonl"]["curve"]
    assert rows["dropped.jsonl"]["curve"]
    assert rows["tool-results-eat-the-window.jsonl"]["curve"], "the sample that was opened"
    assert "of 2 indexed sessions" in bodies(app), "a sample is nobody's cost"
    assert "library.index" not in {button.key for button in app.button}
    for words, name in (("albatrosses", "dropped.jsonl"), ("high water", "cold.jsonl")):
        app.text_input(key="library.search").set_value(words).run()
        assert list(list_sessions(app)) == [name]
        assert "<mark>" in bodies(app)
    app.text_input(key="library.search").set_value("albatrosses").run()
    app.button(key="library.hit.0").click().run()
    assert not app.exception
    assert "count the albatrosses" in bodies(app) + "".join(code.value for code in app.code)
    app.query_params.clear()
    app.switch_page("pages/library.py").run()
    app.button(key="library.forget-listed").click().run()
    assert not app.exception
    assert not app.exception
    assert "indexed session" not in bodies(app), "and nothing is read again by itself"
    assert app.button(key="library.index").label == "Index the 2 sessions found here"


def test_filters_stand_in_the_address_and_in_saved_views(app: AppTest, claude: Path) -> None:
    (claude / "more.jsonl").write_text("{}\n")
    app.run()
    app.query_params.clear()
    for name, value in {"q": "cold", "least": "x", "sort": "title", "from": "2020-01-01", "last": "no"}.items():
        app.query_params[name] = value
    app.switch_page("pages/library.py").run()
    assert not app.exception
    assert list(list_sessions(app)) == ["cold.jsonl"]
    assert app.selectbox(key="library.order").value == "title"
    app.run()  # a busy browser may show nothing but this run
    shown = app.selectbox(key="library.order").proto
    assert (app.text_input(key="library.search").proto.default, shown.options[shown.default]) == ("cold", "Title")
    assert "least" not in app.query_params, "what makes no sense is left out"
    app.text_input(key="library.search").set_value("more").run()
    assert app.query_params["q"] in ("more", ["more"])
    app.text_input(key="library.view.name").set_value("Only $more").run()
    app.button(key="library.view.save").click().run()
    app.button(key="library.view.0").click().run()
    assert "q" not in app.query_params
    assert len(list_sessions(app)) > 2
    [button] = [each for each in app.button if each.label == "Only more"]
    button.click().run()
    assert list(list_sessions(app)) == ["more.jsonl"]
    [button] = [each for each in app.button if each.label == "Delete Only more"]
    button.click().run()
    assert not [each for each in app.button if "Only more" in each.label]
    assert not app.exception


@pytest.mark.thorough
def test_costs_are_grouped_by_tag_too_and_filter_by_it(app: AppTest, claude: Path) -> None:
    from turnscope.library import tags

    library_page(app)
    app.button(key="library.index").click().run()
    wait(app)
    tags.set_tags([(str(claude / "cold.jsonl"), "")], ["slow"])
    app.run()
    assert list_sessions(app)["cold.jsonl"]["tags"] == ["slow"]
    for by, name in (("tag", "slow"), ("tool", "Claude Code session"), ("day", "2026-03-29")):
        app.session_state["library.by"] = by
        app.run()
        assert not app.exception
        rows = read_component(app, "turnscope_costs")["rows"]
        assert by == "day" or [row["name"] for row in rows] == [name]
        assert all(row["cost"].startswith("$") for row in rows)
    app.query_params["tag"] = "nobody's"
    app.run()
    assert not list_sessions(app)
    app.query_params["tag"] = "slow"
    app.run()
    assert list(list_sessions(app)) == ["cold.jsonl"]


def test_what_the_tool_s_own_log_does_not_tell_stands_below_an_opened_recording(
    app: AppTest, claude: Path, data_folder: Path
) -> None:
    from tests.importers.test_tap import FIRST, said, text, write

    id = "0a1b2c3d-1111-4222-8333-444455556666"
    wire = FIRST | {"metadata": {"user_id": f"user_x_session_{id}"}, "system": "You are an agent, and work on code."}
    answer = said(text("It is done."), model="claude-opus-4-5")
    path = write(data_folder / "tap" / "agent.jsonl", [("anthropic-messages", wire, answer)])
    log = Log()
    log.user("do what is to be done")
    log.answer(answer["id"], "It is done.", usage=(30, 0, 0, 7))
    log.save(claude / f"{id}.jsonl")
    app = library_page(app)
    app.text_input(key="library.path").set_value(str(path)).run()
    app.switch_page("pages/library.py")
    app.run()
    assert not app.exception
    assert "1 of 1 requests in it" in bodies(app)
    assert "it holds nothing of the system prompt, 35 characters" in bodies(app)


def test_a_session_and_its_recording_are_one_row_that_says_so(app: AppTest, claude: Path, data_folder: Path) -> None:
    from pages.parts import cache
    from tests.library.test_joining import CLAUDE, NAMED, make_claude, record

    path = make_claude(claude, "m1", "m2")
    recording = record(data_folder, CLAUDE, NAMED)
    assert [one.sessions for one in indexing.index(cache.open_store().index_path, [path, recording])] == [1, 1]
    app = library_page(app)
    rows = {name: row["recorded"] for name, row in list_sessions(app).items() if name in (path.name, recording.name)}
    assert rows == {path.name: "With what a tap recorded: tool.jsonl"}
    path.unlink()
    assert len([*indexing.index(cache.open_store().index_path, [path])]) == 1
    assert recording.name in list_sessions(app.run()), "alone it is listed"


@pytest.fixture
def other_day(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine at which it is another day than in UTC."""
    with monkeypatch.context() as moved:
        moved.setenv("TZ", "Etc/GMT+12" if time.gmtime().tm_hour < 12 else "Etc/GMT-14")
        time.tzset()
        yield
    time.tzset()


def test_days_are_those_of_this_machine_and_hold_sessions_whose_log_gives_times(
    app: AppTest, data_folder: Path, other_day: None
) -> None:
    from pages.parts import cache

    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    for name, hours in (("yesterday", -1), ("today", 0)):
        log = Log(name)
        log.user("a question")
        log.answer(name, "an answer", usage=(20, 0, 0, 9))
        hour = (midnight + timedelta(hours=hours)).astimezone(UTC)
        (data_folder / f"{name}.jsonl").write_text(log.text().replace("2026-01-02T03:", f"{hour:%Y-%m-%dT%H}:"))
    messages = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": "an answer"}]
    (data_folder / "undated.json").write_text(json.dumps(messages))
    files = [data_folder / name for name in ("yesterday.jsonl", "today.jsonl", "undated.json")]
    assert [one.sessions for one in indexing.index(cache.open_store().index_path, files)] == [1, 1, 1]
    library_page(app)
    cards = dict(re.findall(r"<h3>([^<]+)</h3>.*?<p>(.*?)</p>", bodies(app)))
    assert cards["Today"] == "1 session · 1 request"
    assert cards["7 days"] == "2 sessions · 2 requests"
    assert cards["All time"].startswith("3 sessions · ")
    rows = list_sessions(app)
    assert rows["today.jsonl"]["time"] == f"{midnight:%Y-%m-%d} 00:00"
    app.query_params["last"] = "1"
    app.run()
    assert "yesterday.jsonl" not in list_sessions(app)
    assert "today.jsonl" in list_sessions(app)


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in Tokyo."""
    with monkeypatch.context() as moved:
        moved.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def test_a_tap_is_started_shown_and_stopped_and_its_recording_opens(app: AppTest, data_folder: Path, local_time: None) -> None:
    import socket

    from turnscope.tap.service import get_service

    from tests.pages.test_replays import runs_until
    from tests.tap.test_gateway import ANSWER, send
    from tests.tap.upstream import serve, wait_for, whole

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serve(whole(ANSWER)) as upstream:
        try:
            app = library_page(app)
            app.text_input(key="library.tap.upstream").set_value("no address").run()
            app.button(key="library.tap.start").click().run()
            assert "no address is no address" in bodies(app)
            app.text_input(key="library.tap.upstream").set_value(upstream.url).run()
            app.number_input(key="library.tap.port").set_value(port).run()
            app.button(key="library.tap.start").click().run()
            running = get_service().running
            assert running
            assert app.code[0].value == f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port} claude"
            assert app.button(key="library.tap.open").disabled
            send(running.tap)
            wait_for(lambda: running.read_traffic().running == 0)
            app.run()
            assert not app.exception
            assert not app.button(key="library.tap.open").disabled
            assert "1 request" in bodies(app)
            (seen,) = next(table.value["Last request"] for table in app.dataframe if "Last request" in table.value)
            assert seen.utcoffset() == timedelta(hours=9), "times are those of this machine"
            app.button(key="library.tap.open").click().run()
            assert app.toggle(key="header-live").value, "what still passes appears by itself"
            app = library_page(app)
            app.button(key="library.tap.stop").click().run()
            assert get_service().running is None
            app.button(key="library.tap.last").click().run()
            assert not app.exception
            # The rest may have been written after the first look: what is new is read beside the page.
            runs_until(app, lambda: "h\u00e9llo" in bodies(app))
        finally:
            get_service().stop()
