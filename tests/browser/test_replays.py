"""A replay that takes long, in a real Chromium: its progress, its first requests, stopping it, and other pages meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import pytest
from conftest import Wire, idle, open_tab, travel
from make_claude_code import write
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

SLOW = "librechat-agents"
SECONDS = 0.4  # of the server's time for a click beside another worker's tests; `bench_browser.py --only replays` wants 0.2
CLICKS = 3
ROOM = 2.5  # times as long as before, on a machine that does something else as well
TELLING = 400  # ms: the stepper waits before it tells the app where it stands; told amid a change of pages, it breaks it


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A session of 20 MB, 2,000 requests and 21 compactions: its `file`; and its `session`, once it has been opened."""
    file = tmp_path_factory.mktemp("big") / "big.jsonl"
    write(file, megabytes=20, requests=2_000, compactions=21)
    return {"file": str(file)}


@pytest.fixture
def here(kept: Page, big: dict[str, str]) -> Iterator[Page]:
    """A tab that knows the session; afterwards no replay of it is under way."""
    if "session" not in big:
        travel(kept, "/library")
        field = kept.get_by_label("Or type the path of a file or a folder")
        field.fill(big["file"])
        field.press("Enter")
        kept.wait_for_url(lambda url: "/library" not in url and "session=" in url)
        idle(kept)
        big["session"] = re.search(r"session=([^&]+)", kept.url)[1]  # type: ignore[index]
    yield kept
    cancel(kept)


def cancel(page: Page) -> None:
    """Cancel a replay that is under way, unless it ends by itself meanwhile."""
    button = page.get_by_role("button", name="Cancel", exact=True)
    clicked = False
    while button.count() and not clicked:
        with suppress(PlaywrightError):  # under load it may not stand still for long enough to be clicked
            button.click(timeout=5_000)
            clicked = True
    button.wait_for(state="detached")


def measure_slowdown() -> float:
    """How many times as long as its CPU time a piece of work takes now, since other processes have the cores."""
    began, used = perf_counter(), process_time()
    while process_time() - used < 0.02:
        pass
    return max(1.0, (perf_counter() - began) / (process_time() - used))


def clicks(page: Page, wire: Wire) -> float:
    """Seconds from a click on the heatmap until the server has said all it says to it, as a median, without the time that
    processes of others take.
    """
    found = []
    box = page.locator(".js-plotly-plot").bounding_box()
    assert box
    for n in range(CLICKS):
        page.mouse.move(box["x"] + box["width"] * (0.2 + 0.6 * (n * 2 % CLICKS) / CLICKS), box["y"] + box["height"] * 0.7)
        page.wait_for_function("document.querySelector('.hoverlayer')?.textContent.includes('request')")
        before = page.locator(".ts-headline").inner_text()
        page.mouse.down()
        page.mouse.up()
        page.wait_for_function("old => document.querySelector('.ts-headline')?.innerText !== old", arg=before)
        idle(page)
        page.wait_for_timeout(100)
        found.append((wire.heard - wire.sent) / measure_slowdown())
        page.mouse.move(0, 0)
        page.wait_for_function("!document.querySelector('.hoverlayer')?.textContent.includes('request')")
    return median(found)


def test_a_long_replay_shows_its_progress_can_be_cancelled_and_slows_nobody(
    here: Page, profile: BrowserContext, server: str, big: dict[str, str]
) -> None:
    with open_tab(profile, server) as there:
        _watch_and_cancel(here, there, big["session"])


def _watch_and_cancel(here: Page, there: Page, session: str) -> None:
    wire = Wire(there)
    there.goto(f"/heatmap?session={session}&request=1")
    there.locator(".ts-cursor").wait_for()
    idle(there)
    clicks(there, wire)  # the first ones warm up
    before = clicks(there, wire)

    travel(here, f"/debugger?session={session}&policy={SLOW}&request=1999&step=0", settles=False)
    here.locator(".replay-line", has_text=re.compile(r"Replaying [\d,]+ of 2,000 requests")).wait_for()
    here.locator(".replay-line", has_text=re.compile(r"the first [\d,]+ requests")).wait_for()
    here.locator(".where[data-request]").wait_for()
    here.get_by_role("button", name="Cancel", exact=True).click()
    here.locator(".replay-line", has_text=re.compile(r"Stopped after [\d,]+ of 2,000 requests")).wait_for()
    stopped = here.locator(".replay-line b").inner_text()
    many = int(stopped.split()[2].replace(",", ""))
    here.locator(".replay-line", has_text=f"the first {many:,} requests").wait_for()
    here.locator(f'.where[data-request="{many - 1}"]').wait_for()
    assert "request=1999&step=0" in here.url, "the link still says what was asked for"
    here.wait_for_timeout(1_500)
    expect(here.locator(".replay-line b")).to_have_text(stopped, use_inner_text=True)

    here.get_by_role("button", name="Go on", exact=True).click()
    here.locator(".replay-line", has_text="Replaying").wait_for()
    during = clicks(there, wire)
    assert during <= max(SECONDS, ROOM * before), f"{during:.2f} s for a click, {before:.2f} s without a replay"
    cancel(here)
    after = clicks(there, wire)
    assert after <= max(SECONDS, ROOM * before), f"{after:.2f} s for a click afterwards, {before:.2f} s before"


def test_going_back_while_a_replay_is_under_way_shows_what_was_there(here: Page, big: dict[str, str]) -> None:
    page = here
    travel(page, "/library")
    changed = "set=%7B%22budget.output%22%3A9000%7D"
    travel(page, f"/debugger?session={big['session']}&policy={SLOW}&{changed}&request=5&step=0", settles=False)
    page.locator('.where[data-request="5"]').wait_for()
    idle(page)
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_url(re.compile("request=6"))
    idle(page)
    page.go_back()
    page.locator('.where[data-request="5"]').wait_for()
    page.wait_for_url(re.compile("request=5"))
    idle(page)
    page.wait_for_timeout(TELLING)


def test_keys_count_while_more_of_a_replay_arrives(here: Page, big: dict[str, str]) -> None:
    page = here
    travel(page, "/library")
    changed = "set=%7B%22budget.output%22%3A9100%7D"
    travel(page, f"/debugger?session={big['session']}&policy={SLOW}&{changed}&request=0&step=0", settles=False)
    page.locator('.where[data-request="0"]').wait_for()
    page.wait_for_function(  # where there are no more requests yet, a key leads nowhere
        """() => { const said = document.querySelector('.replay-line')?.innerText ?? 'the first 99 requests';
            return Number((said.match(/the first ([\\d,]+) requests/)?.[1] ?? '0').replace(',', '')) > 40 }"""
    )
    page.wait_for_timeout(TELLING)
    for _ in range(30):
        page.keyboard.press("Shift+ArrowRight")
        page.wait_for_timeout(70)
        print(*page.locator(".where").evaluate_all("found => found.map(where => where.dataset.request)"))  # tells a lost key
    page.locator('.where[data-request="30"]').wait_for()
    page.wait_for_url(re.compile("request=30"))
