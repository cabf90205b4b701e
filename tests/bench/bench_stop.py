"""Whether Stop stops: `python tests/bench/bench_stop.py [--clicks 200] [--tabs 3] [--minutes 30]`; exit 1 where it did not.

Chats with the built-in model in a real Chromium. At a random moment of each answer the mouse is clicked where the button stood
when the first answer began, without looking where it is now. Told: how long until the turn had ended in the store, and until
the page took the next message; medians, 95 of 100, and the worst.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]
from conftest import FLAGS, chromium, serve  # noqa: E402

from engine.storage.threads import Threads  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

ASKED = "How long is the road, and where does it lead? " * 60  # with thinking on, the answer takes some seven seconds
MOMENTS = 0.0, 3.0  # seconds after the button is there
TURNS = 12  # of one chat; then a new one begins
LIMIT = 1.0  # seconds until the turn has ended, 95 of 100
STOP = ".st-key-chat-stop button"
FREE = "[data-testid=stChatInputTextArea]:not([disabled])"


def begun(page: Page) -> None:
    """A new chat, with thinking on."""
    page.goto("/chat")
    page.locator(".chat-fill").wait_for()
    page.locator(".st-key-chat-settings button").first.click()
    page.locator(".st-key-chat-form label", has_text="Thinking").click()
    page.keyboard.press("Escape")
    page.locator(".st-key-chat-form").wait_for(state="hidden")


def asked(page: Page) -> tuple[float, float]:
    """Send a message, and wait until it can be stopped; gives where the button is then."""
    box = page.locator(FREE)
    page.locator(STOP).wait_for(state="hidden")
    box.fill(ASKED)
    box.press("Enter")
    found: Any = None
    while found is None:  # drawn again just now
        found = page.locator(STOP).bounding_box()
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2


class Click(NamedTuple):
    """When the mouse was clicked (epoch), in which chat, and seconds until the next message could be written."""

    at: float
    thread: str
    free: float


def clicked(pages: Sequence[Page], places: Sequence[tuple[float, float]], pick: random.Random) -> list[Click]:
    """Stop what is answered in each page at its moment.

    An answer that has ended by then is not clicked at, and nothing is said of it.
    """
    began = time.monotonic()
    order = sorted((pick.uniform(*MOMENTS), n) for n in range(len(pages)))
    found: list[Click] = []
    for moment, n in order:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if not pages[n].locator(STOP).is_visible():
            continue
        at, start = time.time(), time.perf_counter()
        pages[n].mouse.click(*places[n])
        pages[n].locator(STOP).wait_for(state="hidden", timeout=60_000)
        pages[n].locator(FREE).wait_for(timeout=60_000)
        thread = parse_qs(urlsplit(pages[n].url).query)["thread"][0]
        found.append(Click(at, thread, time.perf_counter() - start))
    return found


def told(name: str, seconds: Sequence[float]) -> float:
    """Print the figures of some times; gives the one that 95 of 100 do not exceed."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    print(f"{name}: median {1e3 * median(ordered):.0f} ms, p95 {1e3 * high:.0f}, worst {1e3 * ordered[-1]:.0f}")
    return high


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--tabs", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30.0, help="after so many, what was measured by then is told")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    pick, clicks = random.Random(given.seed), list[Click]()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=url)
        pages = [context.new_page() for _ in range(given.tabs)]
        places: list[tuple[float, float]] = []
        for page in pages:
            page.set_default_timeout(45_000)
        turn, until = 0, time.monotonic() + 60 * given.minutes
        while len(clicks) < given.clicks and time.monotonic() < until:
            if turn % TURNS == 0:
                for page in pages:
                    begun(page)
            there = [asked(page) for page in pages]
            places = places or there
            turn += 1
            clicks += clicked(pages, places, pick)
        browser.close()
        threads = Threads(Path(folder, "data", "chats.db"))
        requests = {row.id: threads.load(row.id).requests for row in threads.list()}
    stopped, late, missed = list[float](), 0, 0
    for click in clicks:
        request = max((r for r in requests[click.thread] if (r.sent_at or 0) <= click.at), key=lambda r: r.n)
        ended = request.answered_at or 0.0
        if request.stop_reason == "interrupted":
            stopped.append(ended - click.at)
        elif ended <= click.at:  # by itself, and the page had not been told yet
            late += 1
        else:
            missed += 1
    print(f"{len(clicks)} clicks of {given.clicks} wanted: {len(stopped)} stopped, {missed} missed, {late} too late")
    high = told("until the turn has ended", stopped)
    told("until the next message may be written", [click.free for click in clicks])
    return int(bool(missed) or high > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
