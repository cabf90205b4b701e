"""Compare and Policies in a real Chromium: the answer after one click, one cost on all pages, policies chosen from the list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conftest import idle, travel
from playwright.sync_api import expect
from turnscope.library import COMPARED_POLICIES

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
SAMPLE = "session=cache-goes-cold"


def test_the_answer_is_one_click_away_and_every_page_has_the_same_cost(page: Page) -> None:
    travel(page, f"/?{SAMPLE}")  # a new tab: another one may have policies of a link
    page.get_by_role("link", name="Compare").first.click()
    expect(page.locator(".cmp-verdict h2")).to_contain_text("Extracts of older work would have cost")
    idle(page)
    cards = page.locator(".cmp-card")
    expect(cards).to_have_count(len(COMPARED_POLICIES))
    expect(page.locator(".ts-title")).to_contain_text("$5.73")
    expect(cards.first.locator(".cost")).to_contain_text("$5.73×1.00billed", use_inner_text=False)
    expect(page.locator(".st-key-compare-pareto .js-plotly-plot")).to_have_count(1)
    cost = cards.filter(has_text="Clear old tool results").locator(".cost")
    usd, factor = cost.locator("b").inner_text(), cost.locator("small").inner_text()
    travel(page, f"/debugger?{SAMPLE}&policy=clear-tool-results")
    expect(page.locator(".policy-line").first).to_contain_text(f"simulated {usd}, {factor} of what it cost ($5.73)")


def test_policies_are_filtered_opened_and_compared_on_the_session(kept: Page) -> None:
    travel(kept, f"/policies?{SAMPLE}")
    rows = kept.locator(".row")
    rows.first.wait_for()
    count = rows.count()
    kept.get_by_text(re.compile("^partly verified")).click()
    expect(rows).not_to_have_count(count)
    expect(kept).to_have_url(re.compile("proof=partly"))
    kept.get_by_role("button", name="Gemini CLI").click()
    expect(kept.locator(".st-key-policy-detail h2")).to_have_text("Gemini CLI")
    kept.get_by_role("checkbox", name="Compare Gemini CLI").check()
    kept.get_by_role("checkbox", name="Compare Inspect (summaries)", exact=True).check()
    expect(kept.locator(".policy-title").filter(has_text="2 chosen")).to_be_visible()  # before that the link names one
    kept.locator(".policy-compare").click()
    expect(kept.locator(".cmp-card h2")).to_have_text(["As recorded", "Gemini CLI", "Inspect (summaries)"])
    expect(kept).to_have_url(re.compile(f"{SAMPLE}.*policies=as-recorded%2Cgemini-cli%2Cinspect-summary"))
