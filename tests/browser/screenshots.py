"""Pictures of the app from the samples: `python tests/browser/screenshots.py [FOLDER]`.

Writes the picture that moves in README, `tour.webp`, into a folder (default: `.readme`). With `--all`: every page instead, in
both themes, wide and narrow, for looking at.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import FLAGS, chromium, idle, serve  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

SAMPLE = "session=tool-results-eat-the-window"
CLEARING = f"/debugger?{SAMPLE}&policy=clear-tool-results&request"
PAGES = {
    "envelope": f"/envelope?{SAMPLE}&request=112",
    "lost": f"/lost?{SAMPLE}&request=112",
    "heatmap": "/heatmap?session=cache-goes-cold&request=24",
    "debugger": f"{CLEARING}=100",
    "compare": f"/compare?{SAMPLE}&policies=as-recorded,balanced,clear-tool-results,last-5-pairs,cline-classic",
    "plan": f"/plan?{SAMPLE}",
    "audit": f"/audit?{SAMPLE}",
    "chat": "/chat",
    "library": "/library",
    "usage": "/usage",
    "fleet": "/fleet",
    "search": f"/search?{SAMPLE}&q=public+API&block=0",
    "help": "/help",
    "glossary": "/help?page=glossary",
    "commands": "/help?page=command-line",
    "policies": "/policies",
    "policy": "/policies?policy=clear-tool-results",
}
DOCS = ROOT / "engine" / "turnscope" / "docs"
PASTED = ("glossary", "command-line", "adding", "formats", "architecture", "numbers")  # pages that the chat is about
WAITING = (
    "[data-testid=stDataFrame]:not(:has(canvas)), [data-testid=stPlotlyChart]:not(:has(.main-svg)), "
    "[class*=st-key-replay-bar-], .replay-line, [data-stale=true]"  # replays under way, and what is about to be drawn anew
)
SETTLE = 1_500  # milliseconds for charts to draw after the script has run
SIZE = (1440, 1000)  # pixels of the tour's window
QUALITY = 85  # of its WebP
LARGEST = 1_500_000  # bytes of it


def do_nothing(_page: Page) -> None:
    """What has to be done on most pages before their picture is taken."""


def write_prompts() -> Iterator[str]:
    """What is said in the chat: pages of the documentation, until they outgrow the window, and a tool call."""
    for name in PASTED:
        text = (DOCS / f"{name}.md").read_text("utf-8").partition("\n\n")[2]
        yield f"What would a newcomer miss on this page?\n\n{text[:8_000]}"
    yield "Please calculate 42000 * 0.03"


def talk(page: Page) -> None:
    """Chat with the built-in model until its window was cut."""
    box = page.locator("[data-testid=stChatInputTextArea]:not([disabled])")
    for n, text in enumerate(write_prompts()):
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


def press(key: str) -> Callable[[Page], None]:
    """Press a key of the debugger: `n` for the next decision, Shift and an arrow for the next request."""
    return lambda page: page.keyboard.press(key)


# Each stop of the tour: its address ("" = the page stays), what is done there, milliseconds for which it is shown.
TOUR: tuple[tuple[str, Callable[[Page], None], int], ...] = (
    (f"/envelope?{SAMPLE}&request=40", do_nothing, 1_600),
    (f"/envelope?{SAMPLE}&request=111", do_nothing, 1_600),
    (f"/envelope?{SAMPLE}&request=112", do_nothing, 2_600),
    (f"/heatmap?{SAMPLE}&request=112", do_nothing, 2_600),
    (f"{CLEARING}=29", do_nothing, 1_600),
    *[("", press("n"), 700)] * 3,
    ("", press("Shift+ArrowRight"), 2_000),
    (PAGES["compare"], do_nothing, 3_000),
    (PAGES["chat"], talk, 3_000),
)


def open_page(page: Page, address: str, prepare: Callable[[Page], None]) -> None:
    """Go to an address, if one is given, and wait until its page is drawn."""
    if address:
        page.goto(address)
        page.locator(".ts-title, .help-text, .chat-msg, [data-testid=stChatInputTextArea]").first.wait_for()
        idle(page)
    prepare(page)
    page.wait_for_timeout(SETTLE)
    page.wait_for_function("waiting => !document.querySelector(waiting)", arg=WAITING)


def take_tour(page: Page, target: Path) -> None:
    """One picture that moves, of all stops. SystemExit: it is larger than it may be."""
    page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    frames = []
    for address, prepare, _ in TOUR:
        open_page(page, address, prepare)
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    shown = [milliseconds for _, _, milliseconds in TOUR]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=shown, loop=0, quality=QUALITY, method=6)
    if target.stat().st_size > LARGEST:
        raise SystemExit(f"{target} has {target.stat().st_size:,} bytes, {LARGEST:,} are the most")


def stretch(page: Page) -> None:
    """Make the window as high as the page, which scrolls inside it: a picture of the whole page would end at the window."""
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": page.viewport_size["width"] if page.viewport_size else SIZE[0], "height": height + 60})
    page.wait_for_timeout(SETTLE)


def list_looks() -> Iterator[tuple[str, str, int]]:
    """Name, colour scheme and width of each picture of a page."""
    for name in PAGES:
        for scheme in ("dark", "light"):
            for width in (1440, 800, 420):
                yield name, scheme, width


def main() -> int:
    arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
    folder = Path(arguments[0]) if arguments else ROOT / ".readme"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, serve(Path(data)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        if "--all" not in sys.argv:
            take_tour(browser.new_page(base_url=url, color_scheme="dark"), folder / "tour.webp")
        else:
            for name, scheme, width in list_looks():
                page = browser.new_page(base_url=url, viewport={"width": width, "height": 900}, color_scheme=scheme)
                open_page(page, PAGES[name], talk if name == "chat" else do_nothing)
                stretch(page)
                page.screenshot(path=folder / f"{name}_{scheme}_{width}.png")
                page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
