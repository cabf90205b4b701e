"""Tools with which the model of a live chat writes notes and reads them by their ids.

The notes are the calls of the conversation itself; nothing else is stored. After a restart they are read from the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.envelope.tool_outputs import make_address
from turnscope.live.tools import Tools
from turnscope.session.model import JSON, Session

WRITE_TOOL, READ_TOOL = "write_note", "read_note"
MAX_CHARS = 50_000  # of one note

DEFINITIONS: Sequence[dict[str, Any]] = (
    {
        "name": WRITE_TOOL,
        "description": "Write a note that outlives this window. A line of it stays in view.",
        "input_schema": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
            "required": ["title", "text"],
        },
    },
    {
        "name": READ_TOOL,
        "description": "Read a note back by its id.",
        "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
)


@dataclass(slots=True)
class NoteTools:
    """The notes of one chat, and the tools for them. Other tools run through it too.

    Args:
        other_tools: The further tools of the chat.
        texts: The text of each note, by id.
        titles: The title of each note, by id.
    """

    other_tools: Tools | None = None
    texts: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def from_session(session: Session, other_tools: Tools | None = None) -> NoteTools:
        """Read the notes from the tool calls of a session.

        Args:
            session: The session.
            other_tools: The further tools of the chat.
        """
        notes = NoteTools(other_tools)
        for block in session.blocks:
            if block.kind == "tool_use" and block.name == WRITE_TOOL and isinstance(block.raw, Mapping):
                arguments = block.raw.get("input")
                notes.run(WRITE_TOOL, arguments if isinstance(arguments, Mapping) else {})
        return notes

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """Id, title and text of each note, newest last."""
        return [(name, self.titles[name], text) for name, text in self.texts.items()]

    @property
    def definitions(self) -> Sequence[JSON]:
        """See `Tools`."""
        return [*(self.other_tools.definitions if self.other_tools else ()), *DEFINITIONS]

    def run(self, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        """See `Tools`."""
        if name == WRITE_TOOL:
            text = arguments.get("text")
            if not isinstance(text, str) or not text.strip():
                return "write_note needs 'text', a text", True
            if len(text) > MAX_CHARS:
                return f"the note is longer than {MAX_CHARS:,} characters and was not kept", True
            self.texts[make_address(text)] = text
            self.titles[make_address(text)] = " ".join(str(arguments.get("title") or text).split())[:80]
            return f"kept as note {make_address(text)}", False
        if name == READ_TOOL:
            found = self.texts.get(str(arguments.get("id", "")))
            known = ", ".join([*self.texts][-20:]) or "none"
            return (found, False) if found is not None else (f"there is no such note; known: {known}", True)
        return self.other_tools.run(name, arguments) if self.other_tools else (f"there is no tool {name!r}", True)
