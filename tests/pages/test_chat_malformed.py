"""What a provider does wrong, on the chat page without a browser: what came stands there, and a sentence says what happened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conftest import let_go
from malformed.rogue import SAID, Rogue, events, stream
from malformed.sentences import SENTENCES
from malformed.test_malformed import CASES, PYTHON

from pages.parts import chatting

if TYPE_CHECKING:
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

MESSAGE = 'class="chat-msg'
TOLD = re.compile(r'role="(?:alert|status)".*', re.DOTALL)


def test_each_wrong_is_said_in_a_sentence_and_the_next_message_is_answered(app: AppTest, data_folder: Path) -> None:
    app.switch_page("pages/chat.py")
    app.run()
    with let_go(Rogue()) as rogue:
        for name, value in (("provider", "server"), ("url", rogue.url)):
            app.session_state[f"chat.{name}"] = value
        for number, (case, sentence) in enumerate(SENTENCES.items()):
            wrong, kept = CASES.get(case, (stream(events()), SAID))
            rogue.wrongs += [wrong] * (3 if "502" in case else 1)  # the SDK asks again by itself
            app.chat_input[0].set_value(f"hello {number}").run()
            for room in chatting._rooms().values():
                assert room.running is None or room.running.wait(30)
            app.run()
            assert not rogue.wrongs, case
            bodies = [element.proto.body for element in app.get("html")]
            newest = next(body for body in reversed(bodies) if MESSAGE in body).rpartition(MESSAGE)[2]
            assert ("Model" if kept else f"hello {number}") in newest, (case, newest)
            assert (kept or "").strip() in newest, (case, newest)
            said = " ".join(
                found[0] for body in bodies if (found := TOLD.search(body)) and "Nobody knows the window" not in body
            )
            assert sentence.format(rogue.url) in said, (case, said)
            assert bool(said) == bool(sentence), (case, said)
            assert not any(word in said for word in PYTHON), case
