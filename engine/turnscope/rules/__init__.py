"""Rules: ways to change an envelope. Each file defines one `RULE`; ports of one original are in a folder named after it."""

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.model import Answer, Ask, Edit, Part, Span

__all__ = ["Answer", "Ask", "Ctx", "Edit", "Edits", "Envelope", "NoParams", "Part", "Rule", "Span"]
