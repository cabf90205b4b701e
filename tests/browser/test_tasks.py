"""What people come for, and how many clicks it takes them from the page that the app opens with."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from conftest import ROOT, idle
from turnscope.views.overview import build_overview
from turnscope.views.request_summary import find_largest_cut

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
FIRST = "tool-results-eat-the-window"
SAMPLE = ROOT / "sample_sessions" / f"{FIRST}.jsonl"
MAX_SECONDS = 60  # of a task on a busy machine, typing included
RANGE = "document.querySelector('.js-plotly-plot')?._fullLayout?.xaxis.range"


COUNT = """window.addEventListener("click", (event) => {
    const at = event.target.textContent.slice(0, 40), before = JSON.parse(sessionStorage.clicks ?? "[]");
    if (event.isTrusted && event.detail) sessionStorage.clicks = JSON.stringify([...before, at]);
}, true)"""


class Task:
    """What somebody does from the first page on, in clicks of the mouse, as the browser counts them, and seconds."""

    def __init__(self, page: Page, address: str = "/") -> None:
        self.page = page
        page.add_init_script(COUNT)
        visit(page, address)
        self.began = time.monotonic()

    def finish(self, clicks: int) -> None:
        """End the task: it took no more than this many clicks, and some seconds. The figures stand in the test's output."""
        seconds, done = time.monotonic() - self.began, self.page.evaluate("JSON.parse(sessionStorage.clicks ?? '[]')")
        print(f"{len(done)} clicks, {seconds:.1f} s")
        assert 0 < len(done) <= clicks, done
        assert seconds < MAX_SECONDS


def visit(page: Page, address: str) -> None:
    page.goto(address)
    idle(page)


def test_the_dearest_request_and_its_cause_are_one_click_away(page: Page) -> None:
    view = build_overview(turnscope.replay(turnscope.load(SAMPLE)))
    dearest = max(range(len(view)), key=lambda n: view.totals[n] or 0)
    task = Task(page)
    row = page.locator(".ts-dear .ts-go").first
    assert "cache miss" in row.inner_text(), "the cause stands there before any click"
    row.click()
    page.wait_for_url(re.compile(rf"[?&]request={dearest}(&|$)"))
    task.finish(clicks=1)


def test_what_a_compaction_threw_away_is_one_click_away(page: Page) -> None:
    largest = find_largest_cut(build_overview(turnscope.replay(turnscope.load(SAMPLE))))
    assert largest
    task = Task(page)
    page.get_by_role("link", name="What was lost").click()
    page.wait_for_url(re.compile(rf"/lost\?.*request={largest.request}(&|$)"))
    page.get_by_text(f"What was lost at request {largest.request + 1}").wait_for()
    task.finish(clicks=1)
    page.get_by_role("link", name="Open this moment in the debugger").click()
    page.locator(f'.where[data-request="{largest.request}"]').wait_for()


def test_what_cline_would_have_sent_at_a_request_is_three_clicks_away(page: Page) -> None:
    task = Task(page, f"/?session={FIRST}&request=99")
    page.get_by_role("link", name="Debugger", exact=True).first.click()
    page.locator('.where[data-request="99"]').wait_for()
    page.locator("[class*=st-key-policy-pick-] button").first.click()
    page.get_by_role("option", name="Cline classic").first.click()
    page.wait_for_url(re.compile(r"/debugger\?.*policy=cline-classic"))
    page.locator('.where[data-request="99"]').wait_for()
    task.finish(clicks=3)


def test_five_policies_are_compared_and_one_is_recommended_three_clicks_away(page: Page) -> None:
    task = Task(page)
    page.get_by_role("link", name="Compare", exact=True).first.click()
    page.locator(".cmp-verdict h2").filter(has_text="would have cost").wait_for()
    assert page.locator(".cmp-card").count() >= 5
    task.finish(clicks=3)


def test_where_a_path_left_the_window_is_two_clicks_away(page: Page) -> None:
    task = Task(page)
    box = page.get_by_role("textbox", name="Search this session")
    box.click()
    box.press_sequentially("auth/sessions.py")
    box.press("Enter")
    page.wait_for_url(re.compile(r"/search\?"))
    page.get_by_text(re.compile(r"left at request \d+")).first.wait_for()
    task.finish(clicks=2)


def test_a_session_is_opened_by_its_path_two_clicks_away(page: Page, tmp_path: Path) -> None:
    copy = shutil.copy(SAMPLE, tmp_path / "mine.jsonl")
    task = Task(page)
    page.get_by_role("link", name="Library", exact=True).first.click()
    field = page.get_by_label("Or type the path of a file or a folder")
    field.click()
    field.press_sequentially(str(copy))
    field.press("Enter")
    page.wait_for_url(re.compile(r"/\?.*session=[0-9a-f]{12,}"))
    page.locator(".ts-cursor").wait_for()
    task.finish(clicks=2)


def test_a_redacted_report_is_three_clicks_away(page: Page) -> None:
    task = Task(page)
    page.get_by_role("link", name="Audit", exact=True).first.click()
    page.get_by_role("button", name="Prepare the report", exact=True).wait_for()
    idle(page)  # while what is above it is drawn, the button moves, and a click would be aimed at its old place
    page.get_by_role("button", name="Prepare the report", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Report as HTML", exact=True).click()
    assert saved.value.path().read_text("utf-8").startswith("<!doctype html>")
    task.finish(clicks=3)


def test_play_moves_the_cursor_and_tells_the_app_where_it_stopped(page: Page) -> None:
    visit(page, f"/?session={FIRST}&request=10")
    page.locator(".ts-cursor").wait_for()
    idle(page)
    page.get_by_label("Speed").select_option("30")
    page.get_by_role("button", name="Play or stop", exact=True).click()
    page.wait_for_function("Number(document.querySelector('.ts-cursor').textContent.match(/request (\\d+)/)[1]) > 25")
    page.get_by_role("button", name="Play or stop", exact=True).click()
    page.wait_for_function("Number(document.querySelector('.ts-headline').dataset.request) > 20")
    shown = page.locator(".ts-headline").get_attribute("data-request")
    page.wait_for_url(re.compile(rf"[?&]request={shown}(&|$)"))


def test_a_range_of_the_heatmap_is_zoomed_into_and_left_again(page: Page) -> None:
    visit(page, f"/heatmap?session={FIRST}&request=100")
    page.locator(".ts-cursor").wait_for()
    idle(page)
    chart = page.locator(".js-plotly-plot")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box
    y = box["y"] + box["height"] * 0.6
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=6)
    page.mouse.up()
    page.get_by_role("button", name="Zoom in", exact=True).click()
    page.get_by_text("Zoomed into requests").wait_for()
    begin, stop = (int(n) for n in re.findall(r"\d+", page.locator(".st-key-heatmap-zoom").inner_text())[:2])
    assert 0 < stop - begin < 120
    page.wait_for_function(f"range => String({RANGE}) === String(range)", arg=[begin - 1.5, stop - 0.5])
    page.get_by_role("button", name="Whole session", exact=True).click()
    page.get_by_text("Zoomed into requests").wait_for(state="detached")
