"""Ways to change an envelope, one file each: general ones here, those that port one original in a folder named after it.

A module here defines `RULE`, which `turnscope.planning.rule_registry` finds by its name. What a rule is made of:
"""

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.model import Answer, Ask, Edit, Part, Span

__all__ = ["Answer", "Ask", "Ctx", "Edit", "Edits", "Envelope", "NoParams", "Part", "Rule", "Span"]
