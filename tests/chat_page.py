"""The chat page in a browser: a chat that goes to a server which somebody typed, and a message said in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import idle

if TYPE_CHECKING:
    from playwright.sync_api import Page

ONE_KEY = "() => document.querySelectorAll('.st-key-chat-form input[aria-label=\"API key\"]').length === 1"
BOX = "[data-testid=stChatInputTextArea]:not([disabled])"


def go_to(page: Page, url: str, key: str = "") -> None:
    """Where a new chat is shown: its messages go to another server, with a key of one's own."""
    page.locator(".chat-fill").wait_for()
    page.locator(".st-key-chat-settings button").first.click()
    form = page.locator(".st-key-chat-form")
    form.get_by_role("combobox", name="Provider").fill("Messages API")
    page.get_by_role("option", name="Server: Messages API").click()
    for label, text in (("Address", url), *([("API key", key)] if key else [])):
        form.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)  # an address has a box for its key of its own: for a moment there are two
        idle(page, 45_000)
        page.wait_for_function(ONE_KEY)
    model = form.get_by_role("combobox", name="Model", exact=True)
    model.fill("local-7b")
    model.press("Enter")
    idle(page)
    page.keyboard.press("Escape")
    page.locator(".ts-chip", has_text="local-7b").first.wait_for()


# All at once, and between two runs: the message stands there, and nothing is under way any more or still to be drawn.
ANSWERED = """said => {
    const app = document.querySelector('[data-testid=stApp]');
    const box = document.querySelector('[data-testid=stChatInputTextArea]');
    const open = '.chat-msg.now, .st-key-chat-stop button, [data-stale=true], [data-testid=stSkeleton]';
    return app.dataset.testScriptState === 'notRunning' && box && !box.disabled && !document.querySelector(open)
        && [...document.querySelectorAll('.chat-msg.user')].some(one => one.innerText.includes(said)); }"""


def send(page: Page, text: str, timeout: float = 60_000) -> None:
    """Say something that nobody said before in this chat, once, and wait for the end of its turn (milliseconds)."""
    page.locator(BOX).fill(text)
    page.locator(BOX).press("Enter")
    page.wait_for_function(ANSWERED, arg=text, timeout=timeout)
