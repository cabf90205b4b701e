"""What the chat page says beside the messages about some things that a provider does wrong. Holds the sentences alone."""

from __future__ import annotations

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
    "a call without a block": "it calls a tool, and named none",
    "a web page with 502": "a web page instead of an answer",
    GOOD: "",
    "a redirect": "redirects are not followed",
}
