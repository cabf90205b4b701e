"""Measures the app in Chromium: from a click on the chart to a settled page, next to a click on an empty Streamlit page.

Both servers run at once and their clicks take turns, so that a busy machine slows both alike; what counts is the ratio of the
medians. Also: bytes over the websocket for the first load. The sessions are made by `make_claude_code`.

    python tests/bench/bench_browser.py [--clicks 12] [--requests 200 2000 10000]

Exits 1 where a click takes more than LIMIT times that of the empty page, or a first load more than PAYLOAD bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from make_claude_code import write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from conftest import FLAGS, ROOT, chromium, free_port, healthy, idle, isolated

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIMIT = 2.0
PAYLOAD = 500_000
BREATH = 400  # ms before each click, so that the click before it has no part in it
EMPTY = """
import streamlit as st
st.session_state.setdefault("n", 0)
@st.fragment
def one():
    if st.button("more"):
        st.session_state["n"] += 1
    st.html(f"<p id='n'>{st.session_state['n']}</p>")
one()
"""


@contextmanager
def serving(script: Path, folder: Path, *extra: str) -> Iterator[str]:
    """A Streamlit server of its own; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port), "--server.headless", "true"]
    given = os.environ | isolated(folder) | dict(pair.split("=", 1) for pair in extra)
    process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while not healthy(url):
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(15)


def milliseconds(page: Page, changes: str, click: tuple[float, float]) -> float:
    """From a click until what `changes` names has another text and the page is settled."""
    page.mouse.move(*click)
    page.wait_for_timeout(BREATH)
    before = page.locator(changes).inner_text()
    start = time.perf_counter()
    page.mouse.click(*click)
    page.wait_for_function("([at, old]) => document.querySelector(at)?.innerText !== old", arg=[changes, before])
    idle(page)
    return (time.perf_counter() - start) * 1000


def compare(browser: Browser, app: str, empty: str, path: str, clicks: int) -> tuple[float, float, int]:
    """Medians of the app's clicks and of the empty page's in milliseconds, and the bytes of the app's first load."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page, plain = context.new_page(), context.new_page()
    received = [0]

    def count(frame: str | bytes) -> None:
        received[0] += len(frame)

    page.on("websocket", lambda socket: socket.on("framereceived", count))
    page.goto(app + path)
    page.locator(".ts-cursor").wait_for(timeout=120_000)
    idle(page)
    payload = received[0]
    plain.goto(empty)
    plain.locator("#n").wait_for(timeout=60_000)
    box, button = page.locator(".js-plotly-plot").bounding_box(), plain.get_by_role("button", name="more").bounding_box()
    assert box
    assert button
    ours: list[float] = []
    theirs: list[float] = []
    for i in range(clicks + 2):
        place = (box["x"] + box["width"] * (0.15 + 0.75 * ((i * 7) % clicks) / clicks), box["y"] + box["height"] * 0.72)
        page.bring_to_front()
        ours.append(milliseconds(page, ".ts-headline", place))
        plain.bring_to_front()
        theirs.append(milliseconds(plain, "#n", (button["x"] + 10, button["y"] + 10)))
    context.close()
    return median(ours[2:]), median(theirs[2:]), payload  # the first two warm up


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table. Gives the exit code."""
    parser = argparse.ArgumentParser(description="Time clicks in the browser.")
    parser.add_argument("--clicks", type=int, default=12)
    parser.add_argument("--requests", type=int, nargs="+", default=[200, 2_000, 10_000])
    given = parser.parse_args(argv)
    from playwright.sync_api import sync_playwright

    missed = False
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name).resolve()
        sessions = folder / "sessions"
        sessions.mkdir()
        for n in given.requests:
            write(sessions / f"{n}.jsonl", megabytes=n / 200 + 2, requests=n, compactions=max(1, n // 50))
        (folder / "empty.py").write_text(EMPTY, encoding="utf-8")
        app = stack.enter_context(serving(ROOT / "app.py", folder, f"TURNSCOPE_OPEN={sessions}"))
        empty = stack.enter_context(serving(folder / "empty.py", folder))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=chromium(), args=list(FLAGS))
        print(f"{'page':10}{'requests':>10}{'click ms':>10}{'empty ms':>10}{'ratio':>8}{'first load KB':>15}")
        for page in ("heatmap", "envelope"):
            for n in given.requests:
                session = hashlib.sha256(str(sessions / f"{n}.jsonl").encode()).hexdigest()[:12]
                path = f"/{'' if page == 'envelope' else page}?session={session}&request=1"
                ours, theirs, payload = compare(browser, app, empty, path, given.clicks)
                missed |= ours > LIMIT * theirs or payload > PAYLOAD
                print(f"{page:10}{n:>10,}{ours:>10.0f}{theirs:>10.0f}{ours / theirs:>8.2f}{payload / 1000:>15.0f}")
        browser.close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
