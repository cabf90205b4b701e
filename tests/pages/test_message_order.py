"""The layer that keeps the messages of browser and server in order, message by message."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from pages.parts import message_order
from pages.parts.message_order import LARGEST, MessageOrder

APP, OLD, NEW = "app", "old", "new"


def ask(
    page: str,
    part: str = "",
    widget: str = "",
    *,
    goes_back: bool = False,
    timer: bool = False,
    value: str = "",
    click: str = "",
) -> bytes:
    message = BackMsg()
    message.rerun_script.is_auto_rerun = timer
    message.rerun_script.page_script_hash = page
    message.rerun_script.fragment_id = part
    message.rerun_script.is_history_navigation = goes_back
    if widget:
        message.rerun_script.widget_states.widgets.add(id=widget, **({"json_value": value} if value else {}))
    if click:
        message.rerun_script.widget_states.widgets.add(id=click, trigger_value=True)
    return message.SerializeToString()


def begin(page: str, *parts: str, run: str = "run") -> bytes:
    message = ForwardMsg()
    message.new_session.page_script_hash, message.new_session.main_script_hash = page, APP
    message.metadata.run.script_run_id = run
    message.metadata.run.fragment_ids.extend(parts)
    return message.SerializeToString()


def go_to(page: str) -> bytes:
    message = ForwardMsg()
    message.navigation.page_script_hash = page
    return message.SerializeToString()


def draw(text: str = "") -> bytes:
    message = ForwardMsg()
    message.delta.new_element.text.body = text
    return message.SerializeToString()


def end(run: str = "run") -> bytes:
    message = ForwardMsg()
    message.metadata.run.script_run_id = run
    message.script_finished = ForwardMsg.FINISHED_SUCCESSFULLY
    return message.SerializeToString()


def exchange(*messages: tuple[str, bytes]) -> list[bytes]:
    """Pass messages, ">" to the app and "<" to the browser; gives those that arrive."""
    arrived: list[bytes] = []
    asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        for way, content in messages:
            if way == "<":
                await send({"type": "websocket.send", "bytes": content})
                continue
            await asked.put(content)
            with suppress(TimeoutError):
                arrived.append((await asyncio.wait_for(receive(), 0.02))["bytes"])

    async def receive() -> Any:
        return {"type": "websocket.receive", "bytes": await asked.get()}

    async def send(message: Any) -> None:
        arrived.append(message["bytes"])

    with ThreadPoolExecutor(1) as pool:  # in this thread, tests in a browser may have left a loop that runs
        pool.submit(asyncio.run, MessageOrder(app)({"type": "websocket"}, receive, send)).result()
    return arrived


SHOWN = (("<", begin(APP)), ("<", go_to(OLD)), ("<", end()))


def test_parts_of_the_page_that_is_shown_are_answered() -> None:
    passed = ((">", ask("")), *SHOWN, (">", ask(OLD, "part")), ("<", begin(OLD, "part")), ("<", draw()), ("<", end()))
    assert exchange(*passed) == [content for _, content in passed]


def test_parts_are_answered_where_a_connection_is_taken_up_again() -> None:
    passed = ((">", ask(OLD, "part")), ("<", begin(OLD, "part")), ("<", draw()), ("<", end()))
    assert exchange(*passed) == [content for _, content in passed]


def test_a_part_of_the_page_before_is_left_out_once_another_one_is_asked_for() -> None:
    passed = (*SHOWN, (">", ask(NEW)))
    assert exchange(*passed, (">", ask(OLD, "part"))) == [content for _, content in passed]
    assert exchange(*passed, ("<", begin(OLD)), (">", ask(OLD, "part")))[-1] == begin(OLD), "a run that had begun before"
    assert exchange(*passed, (">", ask(OLD)), (">", ask(OLD, "part")))[-1] == ask(OLD, "part"), "somebody went back"


def test_a_widget_of_the_page_before_is_left_out_once_another_one_is_asked_for() -> None:
    passed = (*SHOWN, (">", ask(NEW)))
    assert exchange(*passed, (">", ask(OLD, widget="key"))) == [content for _, content in passed]
    back = ask(OLD, widget="key", goes_back=True)
    assert exchange(*passed, (">", back))[-1] == back
    begun = (*passed, ("<", begin(NEW)))
    drawn = (*begun, ("<", go_to(NEW)), (">", ask(NEW, widget="key")))
    for sent in (begun, drawn):  # the browser may not have received it yet
        assert exchange(*sent, (">", ask(OLD, widget="key"))) == [content for _, content in sent]
    again = (*drawn, (">", ask(OLD)), (">", ask(OLD, widget="key")))
    assert exchange(*again) == [content for _, content in again], "of a page that is requested again"


def test_a_page_that_is_not_there_leaves_everything_as_it_is() -> None:
    passed = (
        *SHOWN,
        (">", ask("gone")),
        ("<", begin(APP)),
        ("<", go_to(OLD)),
        (">", ask(OLD, "part")),
        (">", ask(OLD, "", "key")),
    )
    assert exchange(*passed) == [content for _, content in passed]


def test_a_run_of_a_part_of_the_page_before_is_not_drawn() -> None:
    late = (("<", begin(OLD, "part")), ("<", draw()), ("<", draw("x" * LARGEST)), ("<", end()))
    passed = (*SHOWN, (">", ask(NEW)), ("<", begin(NEW)), ("<", go_to(NEW)), ("<", end()))
    after = (("<", begin(NEW, "part")), ("<", draw()), ("<", end()))
    assert exchange(*passed, *late, *after) == [content for _, content in (*passed, *after)]


def test_the_app_may_go_to_another_page_by_itself() -> None:
    passed = (*SHOWN, ("<", begin(NEW)), ("<", go_to(NEW)), (">", ask(NEW, "part")), ("<", begin(NEW, "part")))
    assert exchange(*passed, (">", ask(OLD, "part"))) == [content for _, content in passed]


def test_a_timer_is_left_out_while_the_whole_page_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    timer, widget = ask(OLD, "part", timer=True), ask(OLD, "part", "toggle")
    shown = [content for _, content in SHOWN]
    drawn = (*SHOWN, (">", ask(OLD)), ("<", begin(OLD, run="second")), ("<", draw()), ("<", end("second")))
    for many in range(len(SHOWN) + 1, len(drawn)):
        passed = [content for _, content in drawn[:many]]
        assert exchange(*drawn[:many], (">", timer)) == passed
        assert exchange(*drawn[:many], (">", widget)) == [*passed, widget], "what somebody does is not left out"
    assert exchange(*drawn, (">", timer))[-1] == timer
    assert exchange(*SHOWN, ("<", begin(OLD, run="own")), (">", timer)) == [*shown, begin(OLD, run="own")], "by the app itself"
    monkeypatch.setattr(message_order, "PATIENCE", 0.0)
    assert exchange(*drawn[:-1], (">", timer))[-1] == timer, "a run whose end was lost"


def test_a_timer_waits_for_what_somebody_did_in_a_part() -> None:
    timer, widget = ask(OLD, "part", timer=True), ask(OLD, "part", "toggle", value="true")
    run = (*SHOWN, (">", widget), ("<", begin(OLD, "part", run="second")), ("<", draw()), ("<", end("second")))
    for many in range(len(SHOWN) + 1, len(run)):
        assert exchange(*run[:many], (">", timer)) == [content for _, content in run[:many]]
    assert exchange(*run, (">", timer))[-1] == timer
    both = (*SHOWN, (">", ask(OLD)), (">", widget), ("<", begin(OLD, "other", run="third")), ("<", end("third")))
    assert exchange(*both, (">", timer))[-1] == end("third"), "the page was requested, too"


def test_a_timer_does_not_report_widgets() -> None:
    """The app may have set them anew since, and a widget that somebody used reports that itself."""
    run = (("<", begin(OLD)), ("<", end()))
    before = ask(OLD, widget="table", value="1", click="button")
    arrived = exchange(*SHOWN, (">", before), *run, (">", ask(OLD, "part", "table", value="2", timer=True)))
    assert arrived[3:] == [before, begin(OLD), end(), ask(OLD, "part", timer=True)]


def test_what_cannot_be_read_is_for_streamlit_to_refuse() -> None:
    assert exchange((">", b"\xff\xff"), ("<", b"\xff\xff"), (">", b"")) == [b"\xff\xff", b"\xff\xff", b""]
