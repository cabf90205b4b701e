"""A report as whoever it was sent to sees it: opened from a file, in a Chromium without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from conftest import ROOT
from playwright.sync_api import expect
from turnscope.share.report import build_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
MAX_SCREENS = 4  # of 900 pixels, before anything is unfolded


def test_a_report_is_drawn_without_a_network(browser: Browser, tmp_path: Path) -> None:
    made = build_report(turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl"), "masked", ["clear-tool-results"])
    file = tmp_path / "report.html"
    file.write_text(made.html, encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 800, "height": 900})
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    try:
        tab = context.new_page()
        tab.goto(file.as_uri())
        expect(tab.locator("polygon").first).to_be_visible()
        shape, cells = tab.locator("polygon").nth(1).bounding_box(), tab.locator(".heat > div").count()
        assert shape
        assert shape["width"] > 500
        assert cells > 88 * 5
        assert tab.evaluate("document.documentElement.scrollWidth") <= 800
        assert tab.evaluate("document.documentElement.scrollHeight") <= MAX_SCREENS * 900
        expect(tab.get_by_text("Every request in numbers")).to_be_visible()
        expect(tab.locator(".heat")).to_be_hidden()
        tab.get_by_text("Every request in numbers").click()
        expect(tab.locator(".heat")).to_be_visible()
        assert asked == [file.as_uri()]
    finally:
        context.close()
