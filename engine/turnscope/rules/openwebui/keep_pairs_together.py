"""Open WebUI's pair check: calls whose results do not follow directly are dropped, and so are results without their call."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_replaceable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.chats import get_chat, read_chat
from turnscope.ports.openwebui.messages import TOOL, drop_unpaired
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Edit, Session, Span


@memoize_by_ledger
def _find_unpaired(session: Session, _index: Index, _own: Ledger) -> tuple[int, ...]:
    """Return the addresses of the blocks that the check drops from the whole session."""
    messages = read_chat(session, TOOL).chat_messages
    gone: list[int] = []
    _find_removed(session, messages, gone)
    return tuple(sorted(gone))


def _find_removed(session: Session, chat: Any, gone: list[int]) -> None:
    kept = {
        message["_number"]: message for message in drop_unpaired([{**one.message, "_number": n} for n, one in enumerate(chat)])
    }
    for number, one in enumerate(chat):
        left = kept.get(number)
        if left is None:
            gone += range(one.start, one.stop)
        elif len(left.get("tool_calls", ())) < len(one.message.get("tool_calls", ())):
            ids = {call["id"] for call in left.get("tool_calls", ())}
            blocks = session.blocks[one.start : one.stop]
            gone += [b.at for b in blocks if b.kind == "tool_use" and (b.raw or {}).get("id") not in ids]


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request, for every unpaired block. Calls at the end of the request have no results yet, and stay."""
    found, talk = _find_unpaired(ctx), get_chat(ctx, TOOL)
    cut = ctx.request.cut
    late = [*found[: bisect_left(found, cut)]]
    last = bisect_left(talk.starts, cut) - 1
    while last > 0 and talk.chat_messages[last].message["role"] == "tool":
        last -= 1
    if last >= 0 and talk.chat_messages[last].message.get("tool_calls"):
        _find_removed(ctx.session, talk.chat_messages[last : bisect_left(talk.starts, cut)], late)
    for at in sorted(set(late)):
        if envelope.find_piece(at).body != () and find_replaceable(envelope, at):
            envelope = yield Edit("repair", "a call and its result must follow each other", Span(at, at + 1))


RULE = Rule(
    "keep_pairs_together",
    "Drop calls whose results do not follow directly, and results without such a call.",
    edits,
    NoParams,
    "fresh",
    "open-webui 0.12.4, open_webui/utils/misc.py: sanitize_tool_pairs",
)
