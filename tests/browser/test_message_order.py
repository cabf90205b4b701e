"""A page stays drawn although a timer or a widget of the page before speaks after somebody left that one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conftest import idle
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

if TYPE_CHECKING:
    from playwright.sync_api import Page, WebSocketRoute

pytestmark = pytest.mark.browser


def test_what_the_page_before_says_late_neither_clears_the_next_page_nor_goes_back(page: Page) -> None:
    ticks: list[bytes] = []  # what the timer sent last
    reports: list[bytes] = []  # what a widget did
    late: list[str] = []

    def follow(browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()
        left = ""  # the page that the timer belongs to, once the next one is on its way

        def ask(message: str | bytes) -> None:
            nonlocal left
            assert isinstance(message, bytes)
            server.send(message)
            if not BackMsg.FromString(message).HasField("rerun_script"):
                return
            asked = BackMsg.FromString(message).rerun_script
            if asked.is_auto_rerun:
                ticks[:] = [message]
            elif ticks and not asked.fragment_id and asked.page_script_hash != (mine := get_page(ticks[0])):
                left = mine
                server.send(reports[0])
                server.send(ticks[0])
            else:
                reports[:] = [message]

        def answer(message: str | bytes) -> None:
            assert isinstance(message, bytes)
            sent = ForwardMsg.FromString(message)
            if left and sent.HasField("new_session") and sent.new_session.page_script_hash != left and not late:
                late.append(left)
                server.send(ticks[0])
            browser.send(message)

        browser.on_message(ask)
        server.on_message(answer)

    page.route_web_socket(re.compile("/_stcore/stream"), follow)
    page.goto("/heatmap?session=cache-goes-cold&request=40")
    page.locator(".ts-cursor").wait_for()
    page.locator(".st-key-header label", has_text="Live").click()
    for _ in range(60):  # its timer needs two seconds, and a busy machine more
        page.wait_for_timeout(500)
        if ticks:
            break
    assert ticks
    assert reports
    idle(page)
    page.get_by_role("link", name="Audit").first.click()
    page.wait_for_url(re.compile("/audit"))
    page.get_by_role("button", name="Prepare the report", exact=True).wait_for()
    page.wait_for_timeout(1_000)
    idle(page)
    assert late
    assert page.get_by_role("button", name="Prepare the report", exact=True).is_visible()
    assert "/audit" in page.url


def get_page(message: bytes) -> str:
    return BackMsg.FromString(message).rerun_script.page_script_hash
