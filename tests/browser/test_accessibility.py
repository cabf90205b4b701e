"""Every page in both themes, as axe-core judges it: contrast, headings, names, what the keyboard reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import look, travel, wait_for_theme

from tests.browser.screenshots import PAGES, WAITING

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
STREAMLITS_OWN = {"presentation-role-conflict": "stFileUploaderDropzone"}  # its box to drop a file on has a role and a label


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing_on_a_page(kept: Page, scheme: Literal["dark", "light"], name: str) -> None:
    look(kept, 1280, scheme)
    travel(kept, PAGES[name])
    wait_for_theme(kept, scheme)
    kept.wait_for_function(f"!document.querySelector({WAITING!r})")
    found = list(describe(Axe().run(kept).response["violations"]))
    assert found == [], "\n".join(map(str, found))


def describe(violations: list[dict[str, Any]]) -> Any:
    """Each element that axe-core finds fault with, but for those of Streamlit that nobody else can change."""
    for violation in violations:
        for node in violation["nodes"]:
            if STREAMLITS_OWN.get(violation["id"], "?") not in node["html"]:
                checks = [*node["any"], *node["all"], *node["none"]]
                yield violation["id"], node["html"][:200], checks[0]["message"] if checks else violation["help"]
