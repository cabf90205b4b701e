"""Addresses in a real Chromium: they hold how a page is looked at, Back goes back one view, and tabs are apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conftest import idle, open_tab
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

COLD = "session=cache-goes-cold&request=40"
PAGES = ("Cost heatmap", "Debugger", "Compare", "Plan ahead", "Audit", "Library", "Envelope")


def visit(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".ts-title").wait_for()
    idle(page)


def wait_for_choice(page: Page, key: str, text: str) -> None:
    """Wait until a button of a row of choices is the one that is chosen."""
    page.locator(f".st-key-{key} button[aria-checked=true]", has_text=text).wait_for()


def test_every_page_that_one_goes_to_is_one_entry_and_a_plain_address_is_one(page: Page) -> None:
    before = page.evaluate("history.length")
    page.goto("/")
    page.wait_for_url("**/?session=*request=*")
    idle(page)
    page.keyboard.press("Escape")
    assert page.evaluate("history.length") == before + 1, "what the app fills in is no entry"
    for n, name in enumerate(PAGES, 2):
        page.get_by_role("link", name=name).first.click()
        page.locator("[data-testid^=stTopNavLink][aria-current=page]", has_text=name).wait_for()
        idle(page)
        page.wait_for_timeout(300)
        assert page.evaluate("history.length") == before + n, name


def test_back_takes_back_one_choice_of_the_heatmap_and_a_link_brings_all_of_them(page: Page) -> None:
    visit(page, f"/heatmap?{COLD}&by=turns&measure=tokens&rows=shared&zoom=10-60&range=20-30")
    wait_for_choice(page, "heatmap-by", "Turns")
    wait_for_choice(page, "heatmap-measure", "Tokens")
    wait_for_choice(page, "heatmap-rows", "One scale")
    expect(page.locator(".st-key-heatmap-zoom")).to_contain_text("11–60")
    page.locator('.ts-range[data-range="20-30"]').wait_for()
    for word in ("Share of window", "Cost"):
        page.locator(".st-key-heatmap-measure button", has_text=word).click()
        wait_for_choice(page, "heatmap-measure", word)
        idle(page)
    page.wait_for_url(lambda url: "measure=" not in url)  # the default stands in no address
    page.locator(".st-key-heatmap-zoom button").click()
    page.locator(".st-key-heatmap-zoom").wait_for(state="detached")
    idle(page)
    page.go_back()
    page.locator(".st-key-heatmap-zoom").wait_for()
    idle(page)
    page.go_back()
    wait_for_choice(page, "heatmap-measure", "Share of window")
    idle(page)
    page.go_back()
    wait_for_choice(page, "heatmap-measure", "Tokens")
    idle(page)
    page.get_by_role("link", name="Envelope").first.click()
    page.wait_for_url(lambda url: "/heatmap" not in url)  # both pages have the range
    idle(page)
    page.locator('.ts-range[data-range="20-30"]').wait_for()
    idle(page)
    assert "by=" not in page.url, "another page has choices of its own"
    page.get_by_role("link", name="Cost heatmap").first.click()
    wait_for_choice(page, "heatmap-by", "Turns")
    page.wait_for_url(re.compile("measure=tokens"))


def test_the_tab_of_a_page_stands_in_its_address(page: Page) -> None:
    visit(page, f"/?{COLD}&pane=transcript")
    wait_for_choice(page, "detail-pane", "Transcript")
    page.locator(".st-key-detail-pane button", has_text="Difference").click()
    page.wait_for_url(re.compile("pane=difference"))
    page.locator(".ts-table").first.wait_for()
    idle(page)
    page.go_back()
    wait_for_choice(page, "detail-pane", "Transcript")
    idle(page)
    page.reload()
    wait_for_choice(page, "detail-pane", "Transcript")


def test_breakpoints_and_a_range_of_the_debugger_stand_in_its_address(page: Page) -> None:
    visit(page, f"/debugger?{COLD}&policy=as-recorded&step=0&stops=tokens:100000;bad;tool:Read&range=5-20&pane=ladder")
    page.locator(".where[data-request]").wait_for()
    expect(page.locator(".stops summary")).to_contain_text("Breakpoints (")
    expect(page.locator(".about")).to_contain_text("requests 6–20")
    wait_for_choice(page, "debugger-pane", "Overflow handling")
    page.locator(".stops summary").click()
    expect(page.locator(".stops [name=tokens]")).to_have_value("100000")
    expect(page.locator(".stops [name=tool]")).to_have_value("Read")
    expect(page.locator(".stops [name=bad]")).to_be_checked()
    page.locator(".stops .none").click()
    page.wait_for_url(lambda url: "stops=" not in url)
    idle(page)
    page.locator(".about button", has_text="Clear").click()
    page.wait_for_url(lambda url: "range=" not in url)
    idle(page)
    page.go_back()
    page.wait_for_url(re.compile("range=5-20"))
    expect(page.locator(".about")).to_contain_text("requests 6–20")
    idle(page)
    page.go_back()
    expect(page.locator(".stops [name=tokens]")).to_have_value("100000")
    expect(page.locator(".stops summary")).to_contain_text("Breakpoints (")


def test_two_tabs_do_not_disturb_one_another(page: Page, profile: BrowserContext, server: str) -> None:
    visit(page, f"/heatmap?{COLD}&measure=tokens")
    with open_tab(profile, server) as other:
        visit(other, "/heatmap?session=tool-results-eat-the-window&request=3&by=turns")
        other.locator(".st-key-heatmap-measure button", has_text="Share of window").click()
        wait_for_choice(other, "heatmap-measure", "Share of window")
        idle(other)
        page.bring_to_front()
        page.keyboard.press("ArrowRight")
        page.wait_for_url(re.compile("session=cache-goes-cold&request=41&measure=tokens"))
        idle(page)
        wait_for_choice(page, "heatmap-measure", "Tokens")
        wait_for_choice(page, "heatmap-by", "Requests")
        page.get_by_role("link", name="Debugger").first.click()
        page.wait_for_url("**/debugger?session=cache-goes-cold&request=41*")
        idle(page)
        assert "session=tool-results-eat-the-window&request=3" in other.url
        wait_for_choice(other, "heatmap-measure", "Share of window")
        other.reload()
        wait_for_choice(other, "heatmap-measure", "Share of window")
        wait_for_choice(other, "heatmap-by", "Turns")


def test_back_takes_back_one_choice_of_the_comparison(page: Page) -> None:
    visit(page, f"/compare?{COLD}&policies=last-5-pairs")
    page.locator(".cmp-card").first.wait_for()
    choice = page.locator(".st-key-compare-window [role=combobox]")
    for size in ("128,000 tokens", "64,000 tokens"):
        choice.click()
        page.get_by_role("option", name=size).first.click()
        page.wait_for_url(re.compile(f"window={size.split(',')[0]}000"))
        idle(page)
    page.go_back()
    expect(choice).to_have_value("128,000 tokens")
    page.wait_for_url(re.compile("window=128000"))
    idle(page)
    page.go_back()
    expect(choice).to_have_value("as the model's")
    idle(page)
    assert "window=" not in page.url
    page.get_by_role("link", name="Audit").first.click()
    page.wait_for_url("**/audit?*")
    idle(page)
    page.get_by_role("link", name="Compare").first.click()
    page.wait_for_url(re.compile("/compare.*policies=last-5-pairs"))


@pytest.mark.parametrize(
    ("address", "flat"),
    [
        ("/debugger/?session=cache-goes-cold&request=5", r"/debugger\?session=cache-goes-cold&request=5&"),
        ("/session/cache-goes-cold/request/5", r"/\?session=cache-goes-cold&request=5"),
        ("/debugger/request/5?session=cache-goes-cold", r"/debugger\?.*request=5"),
    ],
)
def test_a_deep_link_finds_its_page_without_an_error_and_so_does_a_reload(page: Page, address: str, flat: str) -> None:
    missing: list[str] = []
    page.on("response", lambda answer: missing.append(answer.url) if answer.status >= 400 else None)
    page.on("console", lambda said: missing.append(said.text) if said.type == "error" else None)
    page.goto(address)
    page.locator(".ts-title").wait_for()
    idle(page)
    page.wait_for_url(re.compile(flat))
    page.reload()
    page.locator(".ts-title").wait_for()
    idle(page)
    page.wait_for_url(re.compile(flat))
    assert missing == []
