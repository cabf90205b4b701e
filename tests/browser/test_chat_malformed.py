"""Ten things that a provider does wrong, on the chat page in a real Chromium: what came stands there, a sentence says what
happened, and the next message is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from chat_page import go_to, send
from conftest import let_go
from malformed.rogue import SAID, Rogue, events, stream
from malformed.test_malformed import CASES, PYTHON
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

MARKDOWN = """[run](javascript:window.pwned=1) ![cat](https://evil.example/x.png) ![](data:image/png;base64,AA)
<script>window.pwned=1</script> $a^2$ :material/home: <img src=x onerror=window.pwned=1>

| a | b |
|---|---|
| 1 | 2 |

```python
print('<b>')
```"""

GOOD = "as it should be"
# name -> what is said about it beside the messages, "" = nothing is due: the answer is whole. What breaks a turn stands before
# what does not: that is the next turn, which works.
SENTENCES = {
    "cut inside a character": "Interrupted: no answer: {} sent something that cannot be read",
    "no usage": "",
    "3 then reset": "Interrupted: no answer: the connection to {} broke off",
    "text null": "",
    "an error amid": "overloaded",
    "event null": "",
    "JSON with null content": "The answer is empty.",
    "a call without a block": "announced a tool call but sent none",
    "a web page with 502": "a web page instead of an answer",
    GOOD: "",
    "a redirect": "redirects are not followed",
}


@pytest.fixture(scope="module")
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


def test_whatever_a_provider_does_wrong_the_page_says_it_and_the_next_message_is_answered(page: Page, rogue: Rogue) -> None:
    page.goto("/chat")
    go_to(page, rogue.url)
    told = ".st-key-chat-box [role=alert], .st-key-chat-box [role=status]"
    for number, (case, sentence) in enumerate(SENTENCES.items()):
        wrong, kept = CASES.get(case, (stream(events()), SAID))
        rogue.wrongs += [wrong] * (3 if "502" in case else 1)  # the SDK asks again by itself
        send(page, f"hello {number}")
        assert not rogue.wrongs, case
        newest = page.locator(".chat-msg").last.inner_text()
        assert ("Model" if kept else f"hello {number}") in newest, (case, newest)
        assert (kept or "").strip() in newest, (case, newest)
        said = " ".join(text for text in page.locator(told).all_inner_texts() if "is unknown:" not in text)
        assert sentence.format(rogue.url) in said, (case, said)
        assert bool(said) == bool(sentence), (case, said)
        assert not any(word in page.locator(".st-key-chat-box").inner_text() for word in PYTHON), case
        if not sentence:
            expect(page.locator("[role=alert]"), case).to_have_count(0)
    expect(page.locator(".chat-msg.user")).to_have_count(len(SENTENCES))
    rogue.wrongs.append(stream(events(({"type": "text", "text": MARKDOWN},))))
    send(page, "And what else?")
    answer = page.locator(".chat-msg").last
    assert answer.locator("table td").all_inner_texts() == ["1", "2"]
    expect(page.locator(".chat-msg :is(img, a, script, iframe, svg, .katex)")).to_have_count(0)
    expect(answer).to_contain_text("(javascript:window.pwned=1)", use_inner_text=True)
    expect(answer).to_contain_text("<script>window.pwned=1</script> $a^2$ :material/home:", use_inner_text=True)
    assert page.evaluate("window.pwned") is None
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer.get_by_role("button", name="Copy", exact=True).click()
    answer.get_by_role("button", name="Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "print('<b>')\n"
