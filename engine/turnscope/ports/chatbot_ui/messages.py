"""Chatbot UI: the text that retrieved passages become, and the tokens of each message with it.

Pure functions, ported from `buildFinalMessages` and `buildRetrievalText` (mckaywrigley/chatbot-ui 81328b61,
lib/build-prompt.ts). Passages are no part of the conversation. `Session.about` holds them by message id: under `file_items`
those stored with a message, under `retrieved` those found for a prompt. The rule `keep_newest_texts` sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Block, Part, Session

# Our wording, at the length of the original (126 UTF-16 units with the blank line), because its tokens are counted.
LEAD_IN = (
    "These passages of the user's own files may help with the question. "
    "Where they do not answer it, say that you do not know it.\n\n"
)
OPEN, CLOSE = "<BEGIN SOURCE>\n", "\n</END SOURCE>"
OBJECT = "[object Object]"  # JavaScript's text for a part of a content list


def build_retrieval_text(passages: Iterable[str]) -> str:
    """Return retrieved passages as the text that is added to a message, with the blank line before them."""
    return "\n\n" + LEAD_IN + "\n\n".join(OPEN + passage + CLOSE for passage in passages)


def get_passages(session: Session, kind: str, message: int) -> Sequence[str] | None:
    """Return the passages of a message; None if it has none.

    Args:
        session: The session.
        kind: `file_items` or `retrieved`.
        message: The id of the message.
    """
    passages = session.about.get(kind)
    found = passages.get(session.messages[message].id) if isinstance(passages, dict) else None
    return [str(text) for text in found] if isinstance(found, list) else None


class Weights(NamedTuple):
    """Token counts by number of message.

    Of the texts; running sums with the passages that the next message brings; and the block of each text.
    """

    plain: list[int]
    sums: list[int]
    passages_by_message: dict[int, tuple[Block, str]]


@memoize_by_ledger
def count_weights(session: Session, index: Index, own: Ledger) -> Weights:
    """Count the text of each message. Images count nothing, and messages have no frame."""
    plain, sums, brought = [], [0], {}
    ordinals = [session.blocks[at].message for at in index.messages]
    for number, ordinal in enumerate(ordinals):
        message = session.messages[ordinal]
        blocks = [b for b in session.blocks[message.start : message.stop] if b.kind not in ("image", "document")]
        plain.append(own.count_content(blocks))
        tokens = plain[-1]
        found = get_passages(session, "file_items", ordinals[number + 1]) if number + 1 < len(ordinals) else None
        if found is not None and (last := find_text_block(blocks)):
            text = last.text + build_retrieval_text(found)
            tokens += own.count_parts((Part(last.role, "text", text),)) - own.count_content((last,))
            brought[number] = (last, text)
        sums.append(sums[-1] + tokens)
    return Weights(plain, sums, brought)


def find_text_block(blocks: Sequence[Block]) -> Block | None:
    """Return the last block that holds text, or nothing yet."""
    return next((b for b in reversed(blocks) if b.kind in ("text", "empty")), None)
