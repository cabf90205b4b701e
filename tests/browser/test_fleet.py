"""The Fleet page in a browser: from typing a folder to each of its views, as axe-core judges them, and in a narrow window."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import idle, look, measure, wait_for_theme

from tests.browser.screenshots import WAITING
from tests.browser.test_accessibility import NARROW, find_faults
from tests.fleet.conftest import make_fleet

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_tables_that_are_typed_are_shown_in_every_view(page: Page, tmp_path: Path) -> None:
    make_fleet(str(tmp_path / "tables"), source=str(tmp_path / "gone.jsonl"))
    look(page, 1280, "light")
    page.goto("/fleet")
    box = page.get_by_role("textbox", name="Folder or URL of other tables")
    box.fill(str(tmp_path / "tables"))
    box.press("Enter")
    page.locator(".fleet-totals").wait_for()
    idle(page)
    assert "fleet=" in page.url
    narrow = NARROW.read_text(encoding="utf-8")
    for name, mark in {
        "Costs": "[data-testid=stDataFrame] canvas",
        "Distributions": ".st-key-fleet-charts .js-plotly-plot",
        "Anomalies": ".fleet-hint",
        "Sessions": "[data-testid=stDataFrame] canvas",
        "Policies": ".fleet-table",
        "SQL": "textarea",
    }.items():
        page.get_by_role("radio", name=name, exact=True).click()
        page.locator(mark).first.wait_for()
        idle(page)
        wait_for_theme(page, "light")
        page.wait_for_function(f"!document.querySelector({WAITING!r})")
        found = find_faults(page)
        assert found == [], "\n".join([name, *map(str, found)])
        look(page, 420, "light")
        wait_for_theme(page, "light")
        page.wait_for_function(f"!document.querySelector({WAITING!r})")
        assert measure(page, partial(page.evaluate, narrow)) == [], f"{name}, 420 wide"
        look(page, 1280, "light")
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("[data-testid=stDataFrame] canvas").first.wait_for()
    assert " rows in " in page.locator("p[role=status]").inner_text()
