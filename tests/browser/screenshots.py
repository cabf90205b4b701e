"""Screenshots of every page from the samples: `python tests/browser/screenshots.py [FOLDER]`.

Default folder: `.readme`, the pictures that README shows. With `--all`: both themes, wide and narrow, for looking at.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import FLAGS, chromium, idle, serve  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

PAGES = {
    "envelope": "/envelope?session=tool-results-eat-the-window&request=112",
    "heatmap": "/heatmap?session=cache-goes-cold&request=24",
    "debugger": "/debugger?session=tool-results-eat-the-window&policy=clear-tool-results&request=100",
    "library": "/library",
    "chat": "/chat",
}
ORDERS = "Orders come in twice when the payment service answers late, and each must be paid once. " * 90
SAID = (
    f"Here are the notes on the billing service. {ORDERS}",
    f"And these are the notes on the queue. Errors must be retried three times. {ORDERS}",
    f"What would you change first? These are last week's incidents. {ORDERS}",
    f"And this is what the queue's authors say. {ORDERS}",
    f"One more thing: the old tables have to stay readable. {ORDERS}",
    "Please calculate 42000 * 0.03",
)
SETTLE = 1_500  # milliseconds for charts to draw after the script has run


def shots(everything: bool) -> Iterator[tuple[str, str, int]]:
    """Name, colour scheme and width of each picture."""
    for name in PAGES:
        for scheme in ("dark", "light") if everything else ("dark",):
            for width in (1440, 800) if everything else (1440,):
                yield name, scheme, width


def talk(page: Page) -> None:
    """Chat with the built-in model until its window was cut."""
    box = page.locator("[data-testid=stChatInputTextArea]:not([disabled])")
    for n, text in enumerate(SAID):
        box.fill(text)
        box.press("Enter")
        page.wait_for_function(
            "n => document.querySelectorAll('.chat-msg.assistant:not(.now)').length > n && "
            "document.querySelectorAll('.chat-msg.now').length == 0",
            arg=n,
            timeout=60_000,
        )
        box.wait_for()
        idle(page)


def main() -> int:
    arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
    folder = Path(arguments[0]) if arguments else ROOT / ".readme"
    folder.mkdir(parents=True, exist_ok=True)
    everything = "--all" in sys.argv
    with tempfile.TemporaryDirectory() as data, serve(Path(data)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for name, scheme, width in shots(everything):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(url + PAGES[name])
            idle(page)
            if name == "chat":
                talk(page)
            page.wait_for_timeout(SETTLE)
            suffix = f"_{scheme}_{width}" if everything else ""
            page.screenshot(path=folder / f"{name}{suffix}.png", full_page=everything)
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
