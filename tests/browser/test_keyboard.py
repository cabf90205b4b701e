"""Every page with the keyboard alone, and where somebody wants less motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import idle, look, travel, wait_for_theme

from tests.browser.screenshots import PAGES, WAITING

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
STOPS = 32  # presses of Tab: more than what stands in the first window of a page
FOCUSED = Path(__file__).with_name("focus.js")
MOVING = "document.getAnimations().filter((one) => one.playState === 'running').map((one) => String(one.animationName))"


def describe_focus(page: Page) -> Any:
    """What has the focus, as `focus.js` says it."""
    return page.evaluate(FOCUSED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_the_tab_key_goes_through_a_page_and_shows_where_it_is(kept: Page, name: str) -> None:
    look(kept, 1280, "dark")
    travel(kept, PAGES[name])
    wait_for_theme(kept, "dark")
    kept.wait_for_function(f"!document.querySelector({WAITING!r})")
    kept.emulate_media(reduced_motion="reduce")
    idle(kept)  # a page that is drawn anew takes the focus away
    stops = []
    for _ in range(STOPS):
        kept.keyboard.press("Tab")
        stop = describe_focus(kept)
        for _ in range(10):
            if not stop or (stop["shows"] and stop["seen"]):
                break
            kept.wait_for_timeout(100)  # the page was drawn anew just then, or is scrolled to it
            stop = describe_focus(kept)
        if stop and not stop["name"].startswith("CANVAS"):  # a table of Streamlit's paints its own focus
            stops.append(stop)
    assert len({stop["name"] for stop in stops}) > 8, "there is more to reach on every page"
    unseen = {stop["name"] for stop in stops if not (stop["shows"] and stop["seen"])}
    assert not unseen, sorted(unseen)


@pytest.mark.parametrize("name", ["envelope", "debugger", "library", "chat"])
def test_nothing_moves_by_itself_where_less_motion_is_wanted(kept: Page, name: str) -> None:
    look(kept, 1280, "dark")
    kept.emulate_media(reduced_motion="reduce")
    travel(kept, PAGES[name])
    wait_for_theme(kept, "dark")
    kept.wait_for_timeout(300)
    assert kept.evaluate(MOVING) == []
