"""Insert what is known before the conversation, such as a review's findings, into the system prompt."""

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
    """Where the findings come from, and their heading."""

    key: Annotated[
        str, "name of the findings in the log: a text, a list of texts, or a list of tables with a title or text"
    ] = "findings"
    text: Annotated[str, "findings to insert if the log has none"] = ""
    heading: Annotated[str, "line in front of the findings"] = "Findings of this review so far:"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    rows = ctx.session.about.get(params.key)
    found = "\n".join(line if isinstance(rows, str) else f"- {line}" for line in list_findings(rows)) or params.text.strip()
    inserts = takewhile(lambda piece: piece.stop == 0, envelope.pieces)
    standing = next((piece for piece in inserts if piece.slot == SLOT), None)
    body = (Part("system", "text", f"{params.heading}\n{found}", place="system"),) if found else ()
    if body != ((standing.body or ()) if standing else ()):
        because = "findings belong to the system prompt, not to a user's message"
        yield Edit("insert" if body else "drop", because, Span(0, 0), body, slot=SLOT)


RULE = Rule(
    "insert_findings",
    "Insert the findings of a review into the system prompt. They are known before the chat begins.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, section 3.4: a findings summary is part of the system prompt, not a user message",
)
