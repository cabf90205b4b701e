"""Measures the app in Chromium: from a click on the chart to a settled page, next to a click on an empty Streamlit page.

Both servers run at once and their clicks take turns, so that a busy machine slows both alike; what counts is the ratio of the
medians. Also: bytes over the websocket for the first load. The sessions are made by `make_claude_code`.

Then replays, on four compacted sessions of 2,000 requests: the server's time for a click on the heatmap while SLOW is replayed
in another window (from the frame that tells it to the last frame that comes back); then POLICIES of the policies, evenly
picked, on each session in the debugger, one after the other, the server's memory after them, and a click next to one before.

Then long sessions, with one of 111 MB open in a window: 24 policies on 2,000 and on 6,000 requests of a model whose server
drops old thinking, each shown at request 1,901 by its address and replayed to its end; the server's time for clicks on the
first window meanwhile; the server's memory before, at its peak, and after the second window is closed.

    python tests/bench/bench_browser.py [--clicks 12] [--requests 200 2000 10000] [--only clicks | replays | long]
        [--long 2000 6000] [--policies NAME ...]  # sizes of the long sessions; the policies that they are replayed under

Exits 1 where a click takes more than LIMIT times that of the empty page, or a first load more than PAYLOAD bytes; where a click
beside a replay takes the server over SERVER seconds (over ELSEWHERE beside those of long sessions), one after all replays over
AFTERWARDS times one before, or its memory is over MEMORY.
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
from typing import TYPE_CHECKING, NamedTuple

from bench_memory import POLICIES as COMPARED
from bench_memory import SLOW as SLOW_POLICIES
from make_claude_code import VARIETIES, write

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]
from conftest import FLAGS, ROOT, Wire, chromium, free_port, healthy, idle, make_environment  # noqa: E402
from turnscope.cli.open import ALLOCATOR  # noqa: E402
from turnscope.planning import policy  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIMIT = 2.0
PAYLOAD = 500_000
SLOW = "librechat-agents"
SERVER = 0.2  # seconds
ELSEWHERE = 0.3
AFTERWARDS = 1.2
MEMORY = 600_000_000  # bytes
SESSIONS, POLICIES = 4, 25
LONG = {2_000: (24, 21), 6_000: (72, 63)}  # megabytes and compactions by number of requests
LONG_VARIETY = "sonnet-4-5"
LINKED = 1_900  # the request that addresses name
OPEN = 111  # megabytes of the session that is open all the time
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


class Server(NamedTuple):
    """A running Streamlit: its address, and its process."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def peak(self) -> int:
        """Resident bytes at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * 1_024 for line in status.splitlines() if line.startswith("VmHWM"))


@contextmanager
def serve_script(script: Path, folder: Path, *extra: str) -> Iterator[Server]:
    """A Streamlit server of its own."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port), "--server.headless", "true"]
    given = ALLOCATOR | os.environ | make_environment(folder) | dict(pair.split("=", 1) for pair in extra)
    process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while not healthy(url):
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        yield Server(url, process)
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


def time_clicks(page: Page, wire: Wire, clicks: Sequence[int]) -> list[float]:
    """Seconds of the server's for each click on the heatmap; their numbers say where, so that each shows something else."""
    found = []
    box = page.locator(".js-plotly-plot").bounding_box()
    assert box
    for n in clicks:
        place = (box["x"] + box["width"] * (0.15 + 0.7 * (n * 0.618 % 1)), box["y"] + box["height"] * 0.7)
        milliseconds(page, ".ts-headline", place)
        page.wait_for_timeout(150)
        found.append(wire.heard - wire.sent)
    return found


def replays(browser: Browser, server: Server, sessions: Sequence[str], clicks: int) -> bool:
    """Print what replays cost those who click elsewhere, and what is left of them; gives whether a limit was missed."""
    one, two = (browser.new_context(viewport={"width": 1440, "height": 900}).new_page() for _ in range(2))
    for page in (one, two):
        page.set_default_timeout(180_000)
    wire = Wire(one)
    one.goto(f"{server.url}/heatmap?session={sessions[0]}&request=1")
    one.locator(".ts-cursor").wait_for()
    idle(one, 60_000)
    time_clicks(one, wire, range(3))
    before = time_clicks(one, wire, range(3, clicks + 3))
    print(f"\nserver's time for a click: {_ms(before)}; memory {server.memory / 1e6:.0f} MB")
    two.goto(f"{server.url}/debugger?session={sessions[0]}&policy={SLOW}&request=1999&step=0")
    two.locator(".replay-line").wait_for()
    during: list[float] = []
    while two.locator(".replay-line", has_text="Replaying").count() and len(during) < clicks:
        during += time_clicks(one, wire, [len(during) + 1])
    print(f"while {SLOW} is replayed: {_ms(during)}")
    if two.get_by_role("button", name="Cancel").count():
        two.get_by_role("button", name="Cancel").click()
        two.locator(".replay-line", has_text="Stopped").wait_for()
    known = policy.list_policies()
    tried = known if len(known) <= POLICIES else sorted({*known[:: len(known) // (POLICIES - 1)][: POLICIES - 1], SLOW})
    for session in sessions:
        for name in tried:
            began = time.perf_counter()
            two.goto(f"{server.url}/debugger?session={session}&policy={name}")
            two.locator(".where[data-request]").wait_for()
            two.locator(".replay-line", has_text="Replaying").wait_for(state="detached")
            idle(two, 60_000)
            print(f"  {session} {name:28}{time.perf_counter() - began:6.1f} s {server.memory / 1e6:6.0f} MB", flush=True)
    after = time_clicks(one, wire, range(clicks))
    print(f"after {len(tried)} policies on {len(sessions)} sessions: {_ms(after)}; memory {server.memory / 1e6:.0f} MB")
    beside = bool(during) and median(during) > SERVER
    return beside or median(after) > AFTERWARDS * median(before) or server.memory > MEMORY


def long_replays(browser: Browser, server: Server, big: str, sessions: dict[int, str], policies: Sequence[str]) -> bool:
    """Print what replays of long sessions take, beside a large one that is open; gives whether a limit was missed."""
    one, two = (browser.new_context(viewport={"width": 1440, "height": 900}).new_page() for _ in range(2))
    for page in (one, two):
        page.set_default_timeout(600_000)
    wire = Wire(one)
    one.goto(f"{server.url}/heatmap?session={big}&request=1")
    one.locator(".ts-cursor").wait_for()
    idle(one, 60_000)
    time_clicks(one, wire, range(3))
    print(f"\nwith {OPEN} MB open: {server.memory / 1e6:.0f} MB, {server.peak / 1e6:.0f} MB at the peak", flush=True)
    during: list[float] = []
    for requests, session in sessions.items():
        for name in policies:
            began = time.perf_counter()
            two.goto(f"{server.url}/debugger?session={session}&policy={name}&request={LINKED}&step=0")
            two.locator(f".where[data-request='{LINKED}']").wait_for()
            shown, clicked = time.perf_counter() - began, len(during)
            while two.locator(".replay-line", has_text="Replaying").count():
                during += time_clicks(one, wire, [len(during) + 1])
            idle(two, 60_000)
            took = time.perf_counter() - began
            print(
                f"  {requests:,} {name:28} request {LINKED + 1:,} after {shown:5.1f} s, all after {took:5.1f} s, "
                f"clicks elsewhere {_ms(during[clicked:])}; {server.memory / 1e6:4.0f} MB",
                flush=True,
            )
    two.context.close()
    time.sleep(5)
    print(f"clicks elsewhere: {_ms(during)}; memory {server.peak / 1e6:.0f} MB at the peak, {server.memory / 1e6:.0f} MB after")
    return server.peak > MEMORY or (bool(during) and median(during) > ELSEWHERE)


def _ms(seconds: Sequence[float]) -> str:
    return (
        f"median {median(seconds) * 1000:.0f} ms, worst {max(seconds) * 1000:.0f} ms of {len(seconds)}"
        if seconds
        else "not one"
    )


def _id(file: Path) -> str:
    return hashlib.sha256(str(file).encode()).hexdigest()[:12]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table. Gives the exit code."""
    parser = argparse.ArgumentParser(description="Time clicks in the browser.")
    parser.add_argument("--clicks", type=int, default=12)
    parser.add_argument("--requests", type=int, nargs="+", default=[200, 2_000, 10_000])
    parser.add_argument("--only", choices=["clicks", "replays", "long"])
    parser.add_argument("--long", type=int, nargs="+", choices=LONG, default=[*LONG])
    parser.add_argument("--policies", nargs="+", default=[*COMPARED[1:], *SLOW_POLICIES])
    given = parser.parse_args(argv)
    from playwright.sync_api import sync_playwright

    missed = False
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name).resolve()
        sessions = folder / "sessions"
        sessions.mkdir()
        sizes = given.requests if given.only in (None, "clicks") else []
        for n in sizes:
            write(sessions / f"{n}.jsonl", megabytes=n / 200 + 2, requests=n, compactions=max(1, n // 50))
        compacted = [sessions / f"compacted-{k}.jsonl" for k in range(SESSIONS if given.only in (None, "replays") else 0)]
        long = {n: sessions / f"long-{n}.jsonl" for n in (given.long if given.only in (None, "long") else ())}
        for k, file in enumerate(compacted):
            write(file, megabytes=20 + k, requests=2_000, compactions=21)
        for n, file in long.items():
            write(file, LONG[n][0], n, LONG[n][1], variety=VARIETIES[LONG_VARIETY])
        if long:
            write(sessions / "open.jsonl", megabytes=OPEN)
        (folder / "empty.py").write_text(EMPTY, encoding="utf-8")
        app = stack.enter_context(serve_script(ROOT / "app.py", folder, f"TURNSCOPE_OPEN={sessions}"))
        empty = stack.enter_context(serve_script(folder / "empty.py", folder))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=chromium(), args=list(FLAGS))
        if sizes:
            print(f"{'page':10}{'requests':>10}{'click ms':>10}{'empty ms':>10}{'ratio':>8}{'first load KB':>15}")
        for page in ("heatmap", "envelope"):
            for n in sizes:
                path = f"/{'' if page == 'envelope' else page}?session={_id(sessions / f'{n}.jsonl')}&request=1"
                ours, theirs, payload = compare(browser, app.url, empty.url, path, given.clicks)
                missed |= ours > LIMIT * theirs or payload > PAYLOAD
                print(f"{page:10}{n:>10,}{ours:>10.0f}{theirs:>10.0f}{ours / theirs:>8.2f}{payload / 1000:>15.0f}")
        if compacted:
            missed |= replays(browser, app, [_id(file) for file in compacted], given.clicks)
        if long:
            lone = stack.enter_context(
                serve_script(ROOT / "app.py", folder, f"TURNSCOPE_OPEN={sessions}")
            )  # of its own: memory
            known = {n: _id(file) for n, file in long.items()}
            missed |= long_replays(browser, lone, _id(sessions / "open.jsonl"), known, given.policies)
        browser.close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
