"""Put what is known beside the conversation, such as a review's findings, into the system prompt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.memories import list_findings
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit, Part, Span

SLOT = "findings"


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters."""

    key: Annotated[str, "what the log calls them: a text, a list of texts, or of tables with a title or text"] = "findings"
    text: Annotated[str, "findings to insert where the log holds none"] = ""
    heading: Annotated[str, "line before them"] = "Findings of this review so far:"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    rows = ctx.session.about.get(params.key)
    found = "\n".join(line if isinstance(rows, str) else f"- {line}" for line in list_findings(rows)) or params.text.strip()
    inserts = takewhile(lambda piece: piece.stop == 0, envelope.pieces)
    standing = next((piece for piece in inserts if piece.slot == SLOT), None)
    body = (Part("system", "text", f"{params.heading}\n{found}", place="system"),) if found else ()
    if body != ((standing.body or ()) if standing else ()):
        because = "findings belong to the system prompt, not to what the user says"
        yield Edit("insert" if body else "drop", because, Span(0, 0), body, slot=SLOT)


RULE = Rule(
    "insert_findings",
    "Put the findings of a review, which are known before its chat begins, into the system prompt.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, section 3.4: a findings summary is part of the system prompt, not a user message",
)
