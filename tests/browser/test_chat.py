"""Live chat in a real Chromium, with the built-in model: past the limit, stopped, reloaded, gone on with, debugged."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from chat_page import go_to
from conftest import idle, let_go, look, measure, wait_for_theme
from malformed.rogue import SAID, Rogue, hold
from playwright.sync_api import expect

from tests.live.test_attachments import png

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

GEOMETRY = Path(__file__).with_name("geometry.js")
LONG = "Some words that fill the window. " * 730  # three of these are more than the window
ANSWER = ".chat-msg.assistant:not(.now)"
WATCHED = """words => {
    window.most = 0;
    const shown = each => each.textContent.includes(words) && each.checkVisibility();
    const look = () => {
        window.most = Math.max(window.most, [...document.querySelectorAll('.chat-msg.assistant')].filter(shown).length);
    };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
    look();
}"""
ASKED = "How long is the road, and where does it lead? " * 60  # with thinking on, the answer takes some seconds


def visit(page: Page, address: str = "/chat") -> None:
    page.goto(address)
    page.locator(".chat-fill").wait_for()


def box(page: Page) -> Locator:
    return page.locator("[data-testid=stChatInputTextArea]")


def send(page: Page, text: str) -> int:
    """Send a message, and wait until it is on the page; gives how many whole answers stood there."""
    before, answers = page.locator(".chat-msg.user").count(), page.locator(ANSWER).count()
    box(page).fill(text)
    box(page).press("Enter")
    page.wait_for_function("n => document.querySelectorAll('.chat-msg.user').length > n", arg=before)
    return answers


def wait_for_answer(page: Page, answers: int = 0) -> None:
    """Wait until there are more than `answers` whole answers, and the next message may be written.

    The page comes in pieces: right after a send the box of the run before may still stand there, and no answer yet.
    """
    page.wait_for_function("([what, n]) => document.querySelectorAll(what).length > n", arg=[ANSWER, answers])
    page.locator("[data-testid=stChatInputTextArea]:not([disabled])").wait_for()
    idle(page)


def tokens(page: Page) -> int:
    return int(page.locator(".chat-fill").get_attribute("data-tokens") or 0)


def think(page: Page) -> None:
    page.locator(".st-key-chat-settings button").first.click()
    page.locator(".st-key-chat-form label", has_text="Thinking").click()
    page.keyboard.press("Escape")
    idle(page)


def test_a_chat_past_the_limit_is_cut_stopped_reloaded_and_opened_in_the_debugger(page: Page) -> None:
    visit(page)
    for n in range(3):
        wait_for_answer(page, send(page, f"Point {n}. {LONG}"))
        assert tokens(page) < 16_000 - 1_024
    page.locator(".chat-log b", has_text="condense").first.wait_for()
    think(page)
    send(page, ASKED)
    page.locator(".chat-msg.now .thought").wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("The answer was interrupted here").wait_for()
    page.reload()
    page.locator(".chat-msg.user", has_text="How long is the road").wait_for()
    expect(page.locator(".chat-msg.user")).to_have_count(4)
    page.get_by_text("The answer was interrupted here").wait_for()
    answers = send(page, "And where does it end?")
    wait_for_answer(page, answers)
    expect(page.locator(ANSWER)).to_have_count(answers + 1)
    expect(page.get_by_text("The answer was interrupted here")).to_have_count(0)
    find_message(page, "Point 0")
    page.locator(".st-key-chat-requests summary").click()
    page.locator("[data-testid=stPageLink] a", has_text="Request 4").click()
    page.wait_for_url(re.compile(r"/debugger\?session=thread-[0-9a-f]{32}&request=3&policy=balanced"))
    page.locator(".ts-title", has_text="turnscope-chat").wait_for()
    page.locator(".policy-line", has_text="changes in").wait_for()


def find_message(page: Page, words: str) -> None:
    """Search for a message, go to it, and see it stay in view."""
    page.locator(".st-key-chat-list button").first.click()
    page.get_by_label("Search all chats").fill(words)
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Go to a message").click()
    page.get_by_role("option", name=f"You: {words}").first.click()
    page.locator(".chat-msg.sought", has_text=words).wait_for()
    page.keyboard.press("Escape")
    idle(page)
    page.wait_for_timeout(1_000)  # for as long as the box might have gone back to its end
    place, box = page.locator(".chat-msg.sought").bounding_box(), page.locator(".st-key-chat-box").bounding_box()
    assert place
    assert box
    assert place["y"] < box["y"] + box["height"] - 30
    assert place["y"] + place["height"] > box["y"] + 30


def test_what_is_attached_is_weighed_before_it_is_sent_and_shown_small(page: Page) -> None:
    visit(page)
    before = tokens(page)
    files = page.locator("[data-testid=stChatInput] input[type=file]")
    image = {"name": "cat.png", "mimeType": "image/png", "buffer": png(1_200, 800)}
    notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The heron stands in the reeds. " * 40}
    wrong = {"name": "report.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7\n\x00\xff"}
    files.set_input_files([image, notes, wrong])
    told = page.locator(".chat-note", has_text="Attached:")
    told.get_by_text("notes.txt").wait_for()
    expect(told).to_contain_text("cat.png", use_inner_text=True)
    page.locator(".chat-note.bad", has_text="report.pdf is neither an image that models accept nor text").wait_for()
    page.wait_for_function("n => Number(document.querySelector('.chat-fill').dataset.tokens) > n", arg=before + 765 + 250)
    weighed = tokens(page)
    for name in ("report.pdf", "notes.txt"):
        page.get_by_role("button", name=f"Remove {name}").click()
    page.wait_for_function("n => Number(document.querySelector('.chat-fill').dataset.tokens) < n", arg=weighed - 200)
    expect(page.locator(".chat-note.bad")).to_have_count(0)
    page.locator("[data-testid=stChatInputSubmitButton]").click()
    page.locator(".chat-msg.user img").wait_for()
    wait_for_answer(page)
    assert page.locator(".chat-msg.user img").evaluate("image => image.complete && image.naturalWidth") == 360
    page.locator(".chat-msg.assistant", has_text="You attached an image (PNG, 1,200 × 800").wait_for()
    expect(told).to_have_count(0)


@pytest.fixture(scope="module")
def provider() -> Iterator[Rogue]:
    """A server of the Messages API, whose answers a test may hold: a turn is under way for as long as it takes to look."""
    with let_go(Rogue()) as server:
        yield server


def test_a_turn_goes_on_while_another_page_is_open_and_a_second_tab_shows_it(page: Page, provider: Rogue) -> None:
    visit(page)
    go_to(page, provider.url)
    provider.wrongs.append(hold(going_on := threading.Event()))
    send(page, ASKED)
    page.locator(".chat-msg.now .thought").wait_for()
    address = page.url
    other = page.context.new_page()
    visit(other, address)
    other.locator(".chat-msg.now").wait_for()
    other.evaluate(WATCHED, SAID)
    page.get_by_role("link", name="Library").click()
    page.get_by_text("Open a session").first.wait_for()
    page.get_by_role("link", name="Live chat").click()
    page.locator(".chat-msg.now").wait_for()
    page.evaluate(WATCHED, SAID)
    going_on.set()
    wait_for_answer(page)
    page.locator(".chat-msg.assistant", has_text=SAID).first.wait_for()
    other.locator(".chat-msg.assistant", has_text=SAID).first.wait_for()
    assert page.locator(".chat-msg.user").count() == other.locator(".chat-msg.user").count() == 1
    idle(other)
    assert [tab.evaluate("window.most") for tab in (page, other)] == [1, 1], "in no moment it stood there twice"
    other.close()


def test_a_message_sent_while_another_tab_has_a_turn_under_way_stays_in_the_box(page: Page, provider: Rogue) -> None:
    visit(page)
    go_to(page, provider.url)
    wait_for_answer(page, send(page, "Please calculate 12*(3+4)"))
    other = page.context.new_page()
    visit(other, page.url)
    box(other).fill("Said in the other tab")
    provider.wrongs.append(hold(going_on := threading.Event()))
    send(page, ASKED)
    page.locator(".chat-msg.now").wait_for()
    box(other).press("Enter")
    other.get_by_text("a turn of this chat is under way").wait_for()
    assert box(other).input_value() == "Said in the other tab"
    other.locator(".chat-msg.user", has_text="How long is the road").wait_for()
    answers = other.locator(ANSWER).count()
    going_on.set()
    wait_for_answer(other, answers)
    assert box(other).input_value() == "Said in the other tab"
    box(other).press("Enter")
    other.locator(".chat-msg.user", has_text="Said in the other tab").wait_for()
    wait_for_answer(other, answers + 1)
    expect(other.locator(".chat-msg.user")).to_have_count(3)
    other.close()


def test_what_is_being_typed_is_weighed_before_it_is_sent(page: Page) -> None:
    visit(page)
    before = tokens(page)
    box(page).press_sequentially("some words that nobody has sent yet, and that weigh something", delay=5)
    page.get_by_text("with what you are typing").wait_for()
    page.wait_for_function("n => Number(document.querySelector('.chat-fill').dataset.tokens) > n", arg=before + 5)
    expect(page.locator(".chat-msg")).to_have_count(0)


def hostile_text_is_text(page: Page) -> None:
    """A new chat, named after its first message, which attacks."""
    page.get_by_role("button", name="New", exact=True).click()
    page.wait_for_function("() => !document.querySelector('.chat-msg')")
    idle(page)
    hostile = "<img src=https://evil.example/x.png><script>window.pwned=1</script> ![x](https://evil.example/y.png) $a^2$"
    wait_for_answer(page, send(page, hostile))
    expect(page.get_by_text("<script>window.pwned=1</script>").first).to_be_visible()
    for name in ("chat-list", "chat-branch"):
        page.locator(f".st-key-{name} button").first.click()
        page.locator("[data-testid=stPopoverBody] [data-testid=stSelectbox]").first.wait_for()
        page.keyboard.press("Escape")
    assert page.evaluate("window.pwned") is None
    expect(page.locator("img[src*=evil], .katex")).to_have_count(0)


def test_nothing_of_a_chat_is_cut_off_or_out_of_bounds(page: Page) -> None:
    """One message that is said, and one that attacks; then in each width and theme."""
    visit(page)
    wait_for_answer(page, send(page, "Please calculate 12*(3+4)"))
    hostile_text_is_text(page)
    looked: list[tuple[int, Literal["dark", "light"]]] = [(1440, "dark"), (800, "dark"), (800, "light"), (1440, "light")]
    for width, scheme in looked:
        look(page, width, scheme)
        wait_for_theme(page, scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
        assert measure(page, partial(page.evaluate, GEOMETRY.read_text(encoding="utf-8"))) == []


def test_stop_stays_at_the_message_box_and_works_at_every_moment(page: Page) -> None:
    """Clicks by position: the button must be where it was, however long the answer has grown."""
    visit(page)
    think(page)
    places = set()
    for moment in (0, 400, 1_300):  # milliseconds after the button is there
        send(page, f"{moment}. {ASKED}")
        stop = page.locator(".st-key-chat-stop button")
        stop.wait_for()
        place = stop.bounding_box()
        assert place
        assert place["y"] + place["height"] < 900
        places.add((round(place["x"]), round(place["y"])))
        page.wait_for_timeout(moment)
        page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        page.get_by_text("The answer was interrupted here").wait_for(timeout=10_000)
        page.locator("[data-testid=stChatInputTextArea]:not([disabled])").wait_for()
        idle(page)
        expect(page.locator(".chat-msg.now")).to_have_count(0)
        expect(page.get_by_text("The answer was interrupted here")).to_have_count(1)
        said = [text for text in page.locator(".chat-msg.assistant .chat-text").all_inner_texts() if text.strip()]
        assert len(said) == len(set(said)), "half an answer is told once"
    assert len(places) == 1


def test_a_paste_that_no_window_holds_is_weighed_whole_refused_and_left_out(page: Page) -> None:
    visit(page)
    wait_for_answer(page, send(page, "hello"))
    box(page).fill("Some words that fill. " * 45_000)
    page.locator(".chat-note.bad", has_text="does not fit by itself").wait_for()
    assert tokens(page) > 200_000
    box(page).press("Enter")
    page.get_by_role("button", name="Leave it out", exact=True).click()
    page.locator(".chat-msg.user em.left").wait_for()
    answers = send(page, "Please go on")
    wait_for_answer(page, answers)
    expect(page.locator("[role=alert]")).to_have_count(0)
