"""Metadata of a completed conversation, written by a model. It is called after the last answer of the conversation.

No model is called while a request is planned. Names, files and outcome are always extracted from the conversation itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from msgspec import structs

from turnscope.envelope.layers.metadata import Metadata
from turnscope.session.model import Ask, Block, Session

PROMPT = (
    "Read this conversation, which is over. Write one line `header:` with what came out of it, in at most twelve words. Then "
    "as many lines as it needs, each one short sentence: `decided:` for a decision, `noted:` for a fact that will be needed "
    "again, `changed:` for a change of code, `solved:` for a problem and its solution, `open:` for an open question, `said:` "
    "for what else matters. Keep names, numbers and paths as they are written."
)
FIELDS = {name: name for name in ("decided", "noted", "changed", "solved", "open")} | {"said": "further"}  # by their label
READ = 4_000  # characters of one block; a longer text is cut for the model
CAP = 300  # tokens of an answer
LINES = 24


def build_metadata_ask(blocks: Sequence[Block]) -> Ask | None:
    """Return the question about a conversation; None where it has no text."""
    lines = (f"{block.role}: {block.text[:READ]}" for block in blocks if block.kind != "thinking" and block.text.strip())
    content = "\n".join(lines)
    key = blake2b(f"{PROMPT}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Ask("extract", f"conversation:{key}", PROMPT, content, CAP) if content else None


def apply_model_answer(session: Session, blocks: Sequence[Block], known: Metadata) -> Metadata:
    """Return the metadata with the model's words, if it was called and answered; else `known`.

    Args:
        session: The session.
        blocks: Blocks of the conversation.
        known: Metadata extracted by patterns.
    """
    answers = session.recorded.answers
    ask = build_metadata_ask(blocks) if any(key.startswith("conversation:") for key in answers) else None
    answer = answers.get(ask.key) if ask else None
    if answer is None or answer.failed:
        return known
    found: dict[str, list[str]] = {}
    for line in answer.text.splitlines()[:LINES]:
        field, _, text = line.strip(" -*").partition(":")
        name = field.strip(" `*").lower()
        name, text = (name, text.strip()) if name in ("header", *FIELDS) else ("said", line.strip(" -*"))
        if text:
            found.setdefault(name, []).append(text[:240])
    fields = {field: tuple(found[label]) for label, field in FIELDS.items() if label in found}
    line = found.get("header", [known.line])[0]
    return structs.replace(known, line=line, **fields) if fields or "header" in found else known
