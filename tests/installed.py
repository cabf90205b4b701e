"""Whether an installed Turnscope works, away from its repository. Run it with the Python into which the wheel was installed.

Loads a sample through `import turnscope`, starts the command `turnscope` with an empty home, and has Chromium look at the
session that it opens with and at every other page. Prints one line; an AssertionError says what is not as it should be.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import turnscope
from playwright.sync_api import Page, expect, sync_playwright
from turnscope.cli.open import APP

SAMPLE = APP / "sample_sessions" / "tool-results-eat-the-window.jsonl"
GROUND = "rgb(15, 19, 25)"  # of the dark theme in .streamlit/config.toml
PAGES = {
    "heatmap": ".js-plotly-plot",
    "debugger": ".policy-line",
    "chat": ".chat-empty",
    "policies": ".policy-strategies",
    "compare": ".cmp-card",
    "plan": ".js-plotly-plot",
    "audit": ".audit section",
    "search": ".st-key-header-search input",
    "library": ".ts-section",  # the last: its samples are counted
}
SECONDS = 60


def main() -> None:
    """Look at all of it."""
    assert Path(turnscope.__file__).is_relative_to(sys.prefix), f"{turnscope.__file__} is not the installed engine"
    assert (Path(turnscope.__file__).parent / "py.typed").is_file(), "the wheel says nothing of its types"
    session = turnscope.load(SAMPLE)
    assert session.subagents, "the sample's subagent is not in the wheel"
    assert len(turnscope.replay(session, "balanced").plans) == len(session.requests) > 0
    with tempfile.TemporaryDirectory() as home, serve_app(Path(home)) as url, sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM_PATH") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_context(color_scheme="dark", viewport={"width": 1440, "height": 900}, base_url=url).new_page()
        page.set_default_timeout(SECONDS * 1_000)
        look(page, session)
        browser.close()
    print(f"the wheel works: a sample of {len(session.requests)} requests and {len(PAGES)} more pages shown from {APP}")


def look(page: Page, session: turnscope.Session) -> None:
    """The sample on the first page, in the app's own colours; then the other pages."""
    page.goto("/")
    headline = page.locator(".ts-headline[data-request]")
    headline.wait_for()
    usage = session.requests[int(headline.get_attribute("data-request") or -1)].usage
    expect(page.locator(".ts-title h1")).to_have_text(session.title, use_inner_text=True)
    label = page.locator(".ts-bar[role=img]").get_attribute("aria-label") or ""
    assert usage is not None, "the sample opens at a request without usage"
    assert label.startswith(f"{usage.prompt_tokens:,} of "), f"the bar says {label}, the log {usage.prompt_tokens:,}"
    ground = page.locator("[data-testid=stApp]").evaluate("element => getComputedStyle(element).backgroundColor")
    assert ground == GROUND, f"the app's configuration is not read: the ground is {ground}"
    for name, mark in PAGES.items():
        page.goto(f"/{name}")
        page.locator(mark).first.wait_for()
        expect(page.locator("[data-testid=stException]"), f"{name} shows an exception").to_have_count(0)
    samples = page.locator("[class*=st-key-library-sample-]")
    samples.first.wait_for()
    expect(samples).to_have_count(len(list(SAMPLE.parent.glob("*.jsonl"))))


@contextmanager
def serve_app(home: Path) -> Iterator[str]:
    """The command `turnscope`, started from the folder where this runs; gives the app's address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TEMP", "TMPDIR") if name in os.environ}
    command = [shutil.which("turnscope", path=Path(sys.executable).parent), "--no-browser", "--port", str(port)]
    with (home / "log").open("w+", encoding="utf-8") as log:
        env = kept | {"HOME": str(home), "USERPROFILE": str(home)}
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            until = time.monotonic() + SECONDS
            while not healthy(f"http://127.0.0.1:{port}"):
                if process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(f"it did not start:\n{(home / 'log').read_text()}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # the command and the Streamlit that it started
            process.wait(15)


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main()
