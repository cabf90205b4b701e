"""Every page in both themes, as axe-core judges it, and in narrow windows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import look, measure, travel, wait_for_theme

from tests.browser.screenshots import PAGES, WAITING

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
NARROW = Path(__file__).with_name("narrow.js")
STREAMLITS_OWN = {"presentation-role-conflict": "stFileUploaderDropzone"}  # its box to drop a file on has a role and a label


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_on_a_page_and_a_narrow_window_cuts_nothing_off(kept: Page, name: str) -> None:
    look(kept, 1280, "dark")
    travel(kept, PAGES[name])
    for scheme in ("dark", "light"):
        look(kept, 1280, scheme)
        wait_for_theme(kept, scheme)
        kept.wait_for_function(f"!document.querySelector({WAITING!r})")
        found = measure(kept, partial(find_faults, kept), seconds=30)  # a look takes ten on a busy machine
        assert found == [], "\n".join([scheme, *map(str, found)])
    for width in (800, 420):
        look(kept, width, "light")
        wait_for_theme(kept, "light")
        kept.wait_for_function(f"!document.querySelector({WAITING!r})")
        assert measure(kept, partial(kept.evaluate, NARROW.read_text(encoding="utf-8"))) == [], f"{width} wide"


def find_faults(page: Page) -> list[tuple[str, str, str]]:
    """Each element that axe-core finds fault with, but for those of Streamlit that nobody else can change.

    To describe what passes, too, would take axe-core three times as long.
    """
    return [
        (violation["id"], node["html"][:200], checks[0]["message"] if checks else violation["help"])
        for violation in Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        for node in violation["nodes"]
        for checks in [[*node["any"], *node["all"], *node["none"]]]
        if STREAMLITS_OWN.get(violation["id"], "?") not in node["html"]
    ]
