"""The demo: seven stops on the real pages, by keyboard; left, resumed, and played until somebody does something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import turnscope
from conftest import ROOT, idle
from turnscope.views.expensive_requests import find_expensive_requests
from turnscope.views.overview import build_overview

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
FIRST = "tool-results-eat-the-window"
PAGES = ("/?", "/heatmap?", "/lost?", "/debugger?", "/compare?", "/chat?", "/audit?")


def wait_for_stop(page: Page, number: int) -> str:
    """Wait for a stop and its page; gives its sentence."""
    page.locator(".demo .title b").filter(has_text=f"stop {number} of 7").wait_for()
    page.wait_for_url(re.compile(rf"{re.escape(PAGES[number - 1])}(.*&)?demo={number}(&|$)"))
    return page.locator(".demo .sentence").inner_text()


def test_seven_stops_by_keyboard_say_what_their_pages_say(page: Page) -> None:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{FIRST}.jsonl"))
    view = build_overview(trace)
    page.goto("/")
    idle(page)
    page.get_by_role("link", name="Two-minute demo").press("Enter")
    assert f"{view.prompts.max():,}" in wait_for_stop(page, 1)
    page.locator(".ts-barbox.ts-demo-here").wait_for()
    page.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("Enter")
    dearest = find_expensive_requests(trace, view, most=1)[0]
    sentence = wait_for_stop(page, 2)
    assert f"request is {dearest.request + 1}: " in sentence
    assert dearest.cause in sentence
    page.locator(".ts-cursor").wait_for()
    page.keyboard.press("Enter")
    removed = re.findall(r"took ([\d,]+) tokens", wait_for_stop(page, 3))[0]
    assert page.locator(".lost-facts b").first.inner_text() == removed
    page.keyboard.press("Enter")
    sent = re.findall(r"have sent ([\d,]+) tokens", wait_for_stop(page, 4))[0]
    page.locator(".now, .bars").get_by_text(f"{int(sent.replace(',', '')) // 1000}k").first.wait_for()
    page.keyboard.press("Enter")
    saved = wait_for_stop(page, 5)
    page.locator(".cmp-verdict h2").wait_for()
    assert saved.startswith(page.locator(".cmp-verdict h2").inner_text())
    page.keyboard.press("Enter")
    wait_for_stop(page, 6)
    page.locator(".demo .sentence").filter(has_text="The chat hit its limit").wait_for(timeout=90_000)
    page.keyboard.press("Enter")
    wait_for_stop(page, 7)
    page.get_by_role("button", name="Prepare the report", exact=True).wait_for()
    page.get_by_role("button", name="Finish", exact=True).press("Enter")
    page.locator(".demo").wait_for(state="detached")


def test_a_stop_is_an_address_and_what_was_left_is_gone_on_with(page: Page) -> None:
    page.goto("/?demo=3")
    wait_for_stop(page, 3)
    page.get_by_role("button", name="Leave", exact=True).click()
    page.locator(".demo").wait_for(state="detached")
    page.get_by_role("link", name="Envelope").first.click()
    page.get_by_role("link", name="Go on with the demo, stop 3 of 7").click()
    wait_for_stop(page, 3)


def test_it_plays_by_itself_until_somebody_does_something(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.clock.install()
    page.goto("/?demo=1&play=1")
    wait_for_stop(page, 1)
    page.get_by_role("button", name="Pause", exact=True).wait_for()
    page.clock.run_for(17_000)
    wait_for_stop(page, 2)
    page.get_by_role("button", name="Pause", exact=True).wait_for()
    page.locator(".ts-title").click()
    page.get_by_role("button", name="Play", exact=True).wait_for()
    page.clock.run_for(40_000)
    wait_for_stop(page, 2)


def test_reduced_motion_waits_for_a_click(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto("/?demo=1&play=1")
    wait_for_stop(page, 1)
    page.get_by_role("button", name="Play", exact=True).wait_for()
