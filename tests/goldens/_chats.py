"""Chat completion messages as a session, and a ledger that counts it with the counter that a case names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnscope.counting.ledger import Ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.envelope import Envelope
from turnscope.ports.rows import read_rows
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import BUCKETS, Block, Counts, Part, Placeholder, Session

ROLES = {"human": "user", "ai": "assistant"}
Message = Mapping[str, Any]


def add(builder: Builder, message: Message) -> None:
    """One message, fenced: neighbours of one role stay apart."""
    role, held = ROLES.get(message["role"], message["role"]), message.get("content")
    extra = {"name": message["name"]} if message.get("name") else {}
    if role == "tool":
        role, held = "user", [{"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": held}]
    elif (uses := list(_uses(message))) and not (isinstance(held, list) and message["role"] == "ai"):
        # LangChain's calls stand beside a list of parts, which is what is counted; a session has them in it or not at all
        held = [*([held] if isinstance(held, str) else held or []), *uses]
    builder.add_message(role, [] if held is None else held, id=message["id"], fence=True, extra=extra)


def _uses(message: Message) -> Iterator[dict[str, Any]]:
    for call in message.get("tool_calls") or ():
        given: Any = {"id": call} if isinstance(call, str) else call
        name = given.get("name") or given.get("function", {}).get("name", "f")
        yield {"type": "tool_use", "id": given.get("id"), "name": name, "input": given.get("args", {})}
    if "function_call" in message:  # a call without an id of its own, as importers write it
        name = message["function_call"]["name"]
        yield {"type": "tool_use", "id": name, "name": name, "input": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fake(Ledger):
    """A ledger that counts as a case says: `whole` a list of messages (number and the blocks of it that are meant), `bare` the
    content of one message without its frame, `trial` a placeholder for such content."""

    whole: Callable[[list[tuple[int, list[Block]]]], int]
    bare: Callable[[int, list[Block]], int]
    trial: Callable[[Sequence[Part]], int]
    row_of: Sequence[int]
    blocks: Sequence[Block]

    def count_tokens(self, start: int, stop: int) -> int:
        rows: dict[int, list[Block]] = {}
        for at in range(start, stop):
            rows.setdefault(self.row_of[at], []).append(self.blocks[at])
        return self.whole(list(rows.items()))

    def count_content(self, blocks: Iterable[Block]) -> int:
        held = list(blocks)
        return self.bare(self.row_of[held[0].at], held) if held else 0

    def count_parts(self, parts: Iterable[Part]) -> int:
        return self.trial(list(parts))

    def count_placeholder(self, parts: Placeholder) -> Counts:
        return (0, 0, self.trial(list(parts)) if parts else 0, 0, 0)


def fake(session: Session, whole: Any, bare: Any, trial: Any) -> Fake:
    """A ledger for a session; the sums are those of single blocks, which add up where the counter does."""
    found, blocks = read_rows(session).rows, session.blocks
    row_of = [0] * len(blocks)
    total, system = [0], [0]
    for number, row in enumerate(found):
        row_of[row.start : row.stop] = [number] * (row.stop - row.start)
        tokens = whole([(number, list(blocks[row.start : row.stop]))])
        for at in range(row.start, row.stop):
            total.append(total[-1] + (tokens if at == row.start else 0))
            system.append(system[-1] + (tokens if at == row.start and row.role == "system" else 0))
    talk = [a - b for a, b in zip(total, system, strict=True)]
    sums = tuple({0: system, 2: talk}.get(i, [0] * len(total)) for i in range(len(BUCKETS)))
    return Fake(CHARS, sums, total, {}, whole=whole, bare=bare, trial=trial, row_of=row_of, blocks=blocks)


def texts(blocks: Iterable[Block]) -> str:
    """All text of a message's content, run together."""
    return "".join(_simplify(block.raw) for block in blocks if block.kind != "tool_use")


def _simplify(raw: Any) -> str:
    if isinstance(raw, Mapping):
        if raw.get("type") == "tool_result":
            held = raw.get("content")
            return held if isinstance(held, str) else "".join(extract_text(part) for part in held or ())
        return str(raw.get("text", ""))
    return raw or ""


def list_sent(session: Session, envelope: Envelope) -> dict[str, Any]:
    """Ids of the messages that are sent, in order, each with its content where that differs from what was said, else None."""
    found: dict[str, list[Any]] = {}
    for piece in envelope.pieces:
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                found.setdefault(session.messages[block.message].id, []).append(block.raw)
        else:
            at = piece.start
            for part in piece.body:
                raw = part.raw if part.raw is not None else part.text
                found.setdefault(session.messages[session.blocks[at].message].id, []).append(raw)
    said = {message.id: [b.raw for b in session.blocks[message.start : message.stop]] for message in session.messages}
    return {id: None if raws == said[id] else _content(raws) for id, raws in found.items()}


def _content(raws: list[Any]) -> Any:
    kept = [raw for raw in raws if not (isinstance(raw, Mapping) and raw.get("type") == "tool_use")]
    if len(kept) == 1 and isinstance(kept[0], str):
        return kept[0]
    if len(kept) == 1 and kept[0].get("type") == "tool_result":
        return kept[0]["content"]
    return kept
