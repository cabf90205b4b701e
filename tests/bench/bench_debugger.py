"""Measures the debugger on a big session: 2,000 requests over 20,000 blocks, in a real Chromium.

Prints: bytes of the data that cross the wire once, CPU seconds to arrange them, how many of ten quick presses count, and the
time from a key to the changed pixel (the second animation frame after the key's own time stamp, so that the frame with the
change has been handed to the screen). Exits 1 above a limit.

    python tests/bench/bench_debugger.py [--requests 2000] [--policy clear-tool-results] [--headed]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import turnscope  # noqa: E402
from conftest import FLAGS, chromium, idle, serve  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402
from turnscope.planning.policy import load  # noqa: E402
from turnscope.planning.trace import Cursor, Trace  # noqa: E402
from turnscope.views.parameters import apply_changes, encode_changes  # noqa: E402
from turnscope.views.stepper import build_steps  # noqa: E402

PAYLOAD = 5_000_000  # bytes
LATENCY = 100.0  # ms, median
PRESSES = 10
POLICIES: dict[str, dict[str, Any]] = {
    "clear-tool-results": {},
    "balanced": {},
    "last-20-messages": {},
}
# Stamps every key with its own time, and the time at which the frame after the next is begun.
STAMP = """() => { window.stamps = []; window.addEventListener('keydown', e => requestAnimationFrame(() =>
    requestAnimationFrame(now => stamps.push(now - e.timeStamp))), true) }"""


def write(path: Path, requests: int) -> None:
    """A Claude Code session with ten blocks per request: thinking, text, four calls and their four results."""
    random = Random(7)
    words = (ROOT / "tests" / "bench" / "bench_debugger.py").read_text(encoding="utf-8").split()
    text = lambda many: " ".join(random.choices(words, k=many))  # noqa: E731
    parent = None
    with path.open("w", encoding="utf-8") as out:
        for n in range(requests + 1):
            for line in _request(n, text) if n else [{"type": "user", "message": {"role": "user", "content": "Begin."}}]:
                stamp = f"2026-03-{2 + n // 900:02}T{n // 60 % 15 + 8:02}:{n % 60:02}:00.000Z"
                uid = f"{n}-{line['type']}"
                about = {
                    "uuid": uid,
                    "parentUuid": parent,
                    "timestamp": stamp,
                    "sessionId": "big",
                    "version": "2.1.0",
                    "cwd": "/w",
                }
                out.write(json.dumps({**line, **about}) + "\n")
                parent = uid


def _request(n: int, text: Any) -> Iterator[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": f"c{n}_{i}", "name": "Read", "input": {"file_path": f"/w/f{n % 97}_{i}.py"}}
        for i in range(4)
    ]
    content = [{"type": "thinking", "thinking": text(20), "signature": "s"}, {"type": "text", "text": text(12)}, *calls]
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 18_000 + 130 * n,
        "output_tokens": 90,
    }
    answer = {"role": "assistant", "content": content, "id": f"m{n}", "type": "message", "model": "claude-opus-4-5-20251101"}
    yield {"type": "assistant", "message": answer | {"usage": usage}}
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": text(20 + 60 * (n % 5))} for call in calls]
    yield {"type": "user", "message": {"role": "user", "content": results}}


def presses(page: Page, trace: Trace, start: Cursor) -> tuple[int, list[float]]:
    """Ten quick presses from a place: how many counted, and the latency of each in ms."""
    page.evaluate("stamps.length = 0")
    for _ in range(PRESSES):
        page.keyboard.press("ArrowRight", delay=0)
    page.wait_for_function(f"stamps.length >= {PRESSES}")
    where = page.locator(".where")
    now = Cursor(int(where.get_attribute("data-request") or -1), int(where.get_attribute("data-step") or -1))
    counted = next((n for n in range(PRESSES + 1) if trace.move(start, n) == now), -1)
    return counted, page.evaluate("stamps")


def single(page: Page, key: str, many: int) -> list[float]:
    """Latency of single presses, each after the app has come to rest."""
    found: list[float] = []
    for _ in range(many):
        page.evaluate("stamps.length = 0")
        seen = page.locator(".card").inner_text() + str(page.locator(".where").inner_text())
        page.keyboard.press(key)
        page.wait_for_function("stamps.length >= 1")
        assert seen != page.locator(".card").inner_text() + str(page.locator(".where").inner_text()), (
            "the press changed nothing"
        )
        found += page.evaluate("stamps")
        page.wait_for_timeout(400)
        idle(page, 120_000)
    return found


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=2_000)
    options.add_argument("--policy", choices=list(POLICIES), action="append")
    options.add_argument("--headed", action="store_true")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="turnscope-bench-"))
    projects = folder / "home" / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    file = projects / "big.jsonl"
    write(file, given.requests)
    session = turnscope.load(file)
    print(f"{len(session.requests):,} requests, {len(session.blocks):,} blocks, {file.stat().st_size / 1e6:.1f} MB")
    failed = False
    with serve(folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), headless=not given.headed, args=list(FLAGS))
        for name in given.policy or POLICIES:
            failed |= measure(browser.new_page(base_url=url, viewport={"width": 1440, "height": 900}), session, file, name)
        browser.close()
    return int(failed)


def measure(page: Page, session: Any, file: Path, name: str) -> bool:
    """One policy: prints its figures and says whether one is above its limit."""
    changed = POLICIES[name]
    began = process_time()
    trace = turnscope.replay(session, apply_changes(load(name), changed))
    replayed = process_time() - began
    began = process_time()
    made = build_steps(trace)
    arranged = process_time() - began
    received: list[int] = []
    page.on("websocket", lambda opened: opened.on("framereceived", lambda frame: received.append(len(frame))))
    page.set_default_timeout(180_000)
    start = made.changes[len(made.changes) // 2] if made.changes else Cursor(len(trace.plans) // 2, 0)
    session_id = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    link = f"/debugger?session={session_id}&policy={name}&request={start.request}&step={start.step}"
    page.goto(link + (f"&set={encode_changes(changed)}" if changed else ""))
    page.locator(f".where[data-request='{start.request}'][data-step='{start.step}']").wait_for()  # once the replay is that far
    idle(page, 180_000)
    wire = sum(received)
    page.evaluate(STAMP)
    counted, quick = presses(page, trace, start)
    page.wait_for_timeout(600)
    idle(page, 120_000)
    alone = {key: single(page, key, 8) for key in ("ArrowRight", "n", "Shift+ArrowRight")}
    jumps = single(page, "End", 1) + single(page, "Home", 1) + single(page, "End", 1)
    every = [one for found in alone.values() for one in found]
    print(
        f"\n{name}: {made.decisions:,} decisions, {len(made.changes):,} changes;"
        f" replay {replayed:.2f} s CPU, arrange {arranged:.2f} s\n"
        f"  data {len(made.data) / 1e6:.2f} MB, over the wire with the page {wire / 1e6:.2f} MB\n"
        f"  quick presses that count: {counted} of {PRESSES}; key to pixel while pressing: median {median(quick):.0f} ms\n"
        f"  key to pixel: median {median(every):.0f} ms, worst {max(every):.0f} ms"
        f" ({', '.join(f'{key} {median(found):.0f}' for key, found in alone.items())}); End, Home, End: "
        + ", ".join(f"{one:.0f}" for one in jumps)
    )
    page.close()
    return len(made.data) > PAYLOAD or counted != PRESSES or median(every) > LATENCY


if __name__ == "__main__":
    sys.exit(main())
