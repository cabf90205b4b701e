"""Whether Stop stops: `python tests/bench/bench_stop.py [--clicks 200] [--tabs 1] [--minutes 30]`; exit 1 where it did not.

Chats with the built-in model in a real Chromium. At a random moment of each answer the mouse is clicked where the button stood
when the first answer began, without looking where it is now. Told: how long until the turn had ended in the store, and until
the page took the next message; medians, 95 of 100, and the worst. It says how far it is every ten clicks; ended early (by
Ctrl-C, by its minutes, by a page that hangs), it tells what was measured by then. About three seconds a click in one tab.
"""

from __future__ import annotations

import argparse
import random
import signal
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
from turnscope.storage.threads import Threads  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

ASKED = "How long is the road, and where does it lead? " * 60  # with thinking on, the answer takes five seconds and more
MOMENTS = 0.0, 4.5  # seconds after the button is there; an answer that has ended by then is not clicked at, and counted apart
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


def send_message(page: Page) -> tuple[float, float]:
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


def click_stop(pages: Sequence[Page], places: Sequence[tuple[float, float]], pick: random.Random) -> tuple[list[Click], int]:
    """Stop what is answered in each page at its moment; with how many answers had ended by themselves before it."""
    began = time.monotonic()
    order = sorted((pick.uniform(*MOMENTS), n) for n in range(len(pages)))
    found, ended = list[Click](), 0
    for moment, n in order:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if not pages[n].locator(STOP).is_visible():
            ended += 1
            continue
        at, start = time.time(), time.perf_counter()
        pages[n].mouse.click(*places[n])
        pages[n].locator(STOP).wait_for(state="hidden")
        pages[n].locator(FREE).wait_for()
        thread = parse_qs(urlsplit(pages[n].url).query)["thread"][0]
        found.append(Click(at, thread, time.perf_counter() - start))
    return found, ended


def rounds(pages: Sequence[Page], wanted: int, until: float, pick: random.Random, clicks: list[Click]) -> int:
    """Ask and click until there are so many clicks, or it is so late; gives how many answers ended before their click."""
    places: list[tuple[float, float]] = []
    turn = ended = 0
    began = time.monotonic()
    while len(clicks) < wanted and time.monotonic() < until:
        if turn % TURNS == 0:
            for page in pages:
                begun(page)
        there = [send_message(page) for page in pages]
        places = places or there
        turn += 1
        more, over = click_stop(pages, places, pick)
        if len(clicks) // 10 < (len(clicks) + len(more)) // 10:
            seconds = [click.free for click in (*clicks, *more)]
            print(f"{len(seconds)} clicks after {time.monotonic() - began:.0f} s, worst {max(seconds):.1f} s", flush=True)
        clicks += more
        ended += over
    return ended


def print_figures(name: str, seconds: Sequence[float]) -> float:
    """Print the figures of some times; gives the one that 95 of 100 do not exceed."""
    ordered = sorted(seconds) or [0.0]
    high = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    print(f"{name}: median {1e3 * median(ordered):.0f} ms, p95 {1e3 * high:.0f}, worst {1e3 * ordered[-1]:.0f}")
    return high


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--tabs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="after so many, what was measured by then is told")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    pick, clicks, ended, hung = random.Random(given.seed), list[Click](), 0, ""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from playwright.sync_api import Error, sync_playwright

    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=url)
        pages = [context.new_page() for _ in range(given.tabs)]
        for page in pages:
            page.set_default_timeout(45_000)
        try:
            ended = rounds(pages, given.clicks, time.monotonic() + 60 * given.minutes, pick, clicks)
        except KeyboardInterrupt:
            print("ended early", flush=True)
        except Error as error:
            hung = error.message.splitlines()[0]
        threads = Threads(Path(folder, "data", "chats.db"))
        requests = {row.id: threads.load(row.id).requests for row in threads.list()}
        if not hung:
            browser.close()
    stopped, late, missed = list[float](), 0, 0
    for click in clicks:
        request = max((r for r in requests[click.thread] if (r.sent_at or 0) <= click.at), key=lambda r: r.n)
        over = request.answered_at or 0.0
        if request.stop_reason == "interrupted":
            stopped.append(over - click.at)
        elif over <= click.at:  # by itself, and the page had not been told yet
            late += 1
        else:
            missed += 1
    print(f"{len(clicks)} clicks of {given.clicks} wanted: {len(stopped)} stopped, {missed} missed, {late} too late;", end=" ")
    print(f"{ended} answers ended before their click" + (f"; a page hung: {hung}" if hung else ""))
    high = print_figures("until the turn has ended", stopped)
    print_figures("until the next message may be written", [click.free for click in clicks])
    return int(bool(missed or hung) or not stopped or high > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
