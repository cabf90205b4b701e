"""What Cline's classic context manager sends of each message: with edits applied, orphans dropped, calls and results paired.

Ported from `getAndAlterTruncatedMessages`, `applyContextHistoryUpdates` and `ensureToolResultsFollowToolUse`
(ContextManager.ts, cline/cline v3.89.2). Each message depends only on itself and on the message sent before it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from turnscope.envelope.envelope import Envelope
from turnscope.ports.cline.ranges import MISSING, Entry, History, State, replace_text
from turnscope.session.builder import make_part
from turnscope.session.model import JSON, Edit, Part, Placeholder, Span

EditSteps = Generator[Edit, Envelope, Envelope]


class Item(NamedTuple):
    """A block that is sent, of address `at` (None = made up). `new`: `raw` differs from the block at that address."""

    at: int | None
    raw: JSON
    new: bool = False


class Place(NamedTuple):
    """Where a message is in the request: its number, the one before it (-1 = none), and where it is sent again."""

    message: int
    before: int
    again: bool = False


def find_places(history: History, state: State, touched: Iterable[int]) -> list[Place]:
    """Return where the `touched` messages are in the request; nowhere if they are hidden.

    A range that ends before it begins (truncating one message is enough) sends the first pair, or its answer, twice.

    Args:
        history: The conversation.
        state: What the task carries.
        touched: Numbers of the messages; others than the conversation's are left out.
    """
    start, there, found = state.start, len(history), []
    for message in sorted(set(touched)):
        if 0 <= message < min(2, there):
            found.append(Place(message, message - 1))
        if max(start, 0) <= message < there and there > 1:
            found.append(Place(message, message - 1 if message > start else 1, message < 2))
    return found


def find_lost(history: History, state: State, found: Sequence[Place]) -> frozenset[int]:
    """Return the messages whose bare text gives way to missing results, in the stored history too, unless it was edited.

    Args:
        history: The conversation.
        state: What the task carries.
        found: The places of the messages that may have changed.
    """
    gone = [
        place.message
        for place in found
        if history.get_role(place.message) == "user"
        and isinstance(history.get_content(place.message), str)
        and place.message not in state.entries
        and list_calls(history, place.before)
    ]
    return history.lost.union(gone) if gone else history.lost


def build_content(history: History, state: State, place: Place) -> str | list[Item]:
    """Return the content of a message as it is sent. A bare text stays one.

    Args:
        history: The conversation.
        state: What the task carries.
        place: Where the message is in the request.
    """
    content = history.get_content(place.message)
    alone, user = len(history) <= 1, history.get_role(place.message) == "user"
    pending = list_calls(history, place.before) if user and not alone else []
    if isinstance(content, str):
        return _pair_results([], pending) if pending else content
    items = [Item(at, raw) for at, raw in content]
    if user and state.start > 2 and place.message == state.start:
        items = [item for item in items if _get_type(item) != "tool_result"]
    if not alone and (entry := state.entries.get(place.message)):
        items = _apply_entry(items, entry)
    return _pair_results(items, pending) if pending else items


def yield_edits(envelope: Envelope, history: History, message: int, content: str | list[Item]) -> EditSteps:
    """Yield the edits that make the blocks of a message what is sent; none if they are. Return the envelope after them.

    Blocks that keep their order are replaced one by one. A message with new or moved blocks is replaced as a whole.

    Args:
        envelope: The envelope.
        history: The conversation.
        message: The number of the message.
        content: What is sent of it, as `build_content` returns it.
    """
    addresses = history.list_addresses(message)
    plain = isinstance(content, str) or (not content and all(history.session.blocks[at].raw is None for at in addresses))
    items = [Item(at, None) for at in addresses] if plain or isinstance(content, str) else content
    order = [item.at for item in items if item.at is not None]
    bodies: dict[Span, Placeholder]
    if items and len(order) == len(items) and all(a < b for a, b in pairwise(order)):
        new = {item.at: (_build_part(history, message, item),) if item.new else None for item in items}
        bodies = {Span(at, at + 1): new.get(at, ()) for at in addresses}
    else:
        bodies = dict.fromkeys(_group_runs(addresses), ())
        bodies[next(iter(bodies))] = build_inserted(history, message, items)
    for span, body in bodies.items():
        piece = envelope.find_piece(span.start)
        if piece.body and Span(piece.start, piece.stop) != span:
            whole = Span(piece.start, piece.stop)
            envelope = yield Edit("restore", f"message {message} is put together anew", whole, restore=True)
            piece = envelope.find_piece(span.start)
        if piece.body != body:
            action, because = _explain(message, body)
            envelope = yield Edit(action, because, span, body, restore=body is None)
    return envelope


def _explain(message: int, body: Placeholder) -> tuple[Any, str]:
    if body is None:
        return "restore", f"message {message} is sent verbatim"
    if body == ():
        return "repair", f"message {message}: this result's call is hidden, or unknown"
    if len(body) == 1 and body[0].kind != "empty" and body[0].ref is None:
        return "clear", f"message {message}: a stored edit takes the place of this text"
    return "repair", f"message {message}: the results of the calls before it are put in order"


def build_inserted(history: History, message: int, content: str | list[Item]) -> tuple[Part, ...]:
    """Return a whole message as the parts of a placeholder.

    Args:
        history: The conversation.
        message: The number of the message.
        content: What is sent of it, as `build_content` returns it.
    """
    items = [Item(at, None) for at in history.list_addresses(message)] if isinstance(content, str) else content
    parts = tuple(_build_part(history, message, item) for item in items)
    return parts or (Part(history.get_role(message), "empty"),)


def _build_part(history: History, message: int, item: Item) -> Part:
    if item.new or item.at is None:
        return make_part(history.get_role(message), item.raw)
    block = history.session.blocks[item.at]
    return Part(block.role, block.kind, ref=item.at)


def _group_runs(addresses: Sequence[int]) -> list[Span]:
    """Return addresses as spans of neighbours."""
    stops = [i for i in range(1, len(addresses)) if addresses[i] != addresses[i - 1] + 1]
    return [Span(addresses[a], addresses[b - 1] + 1) for a, b in pairwise([0, *stops, len(addresses)])]


def list_calls(history: History, message: int) -> list[str]:
    """Return the ids of an answer's tool calls; [] for any other message.

    Args:
        history: The conversation.
        message: The number of the message; -1 = no message.
    """
    shown = history.get_role(message) == "assistant" and message not in history.summed
    content = history.get_content(message) if shown else ""
    items = [] if isinstance(content, str) else [Item(at, raw) for at, raw in content]
    return [item.raw["id"] for item in items if _get_type(item) == "tool_use" and item.raw.get("id")]


def _apply_entry(items: list[Item], entry: Entry) -> list[Item]:
    """Put stored texts into their blocks. Block numbers count after orphans were dropped."""
    for block, text in entry.blocks.items():
        if block < len(items) and isinstance(items[block].raw, dict):
            raw = replace_text(items[block].raw, text.text)
            items[block] = Item(items[block].at, raw, raw is not items[block].raw)
    return items


def _pair_results(items: list[Item], pending: list[str]) -> list[Item]:
    """Put one result per call first, in the order of the calls, then the other blocks. Drop results of unknown calls."""
    results: dict[str, Item] = {}
    others: list[Item] = []
    for item in items:
        if name := _get_answered_id(item):
            results[name] = item
        else:
            others.append(item)
    ordered = 0
    for item, name in zip(items, pending, strict=False):
        if _get_answered_id(item) != name:
            break
        ordered += 1
    wrong = bool(results) and ordered < max(min(len(pending), len(items)), len(results))
    if not wrong and all(name in results for name in pending):
        return items
    made = {name: Item(None, {"type": "tool_result", "tool_use_id": name, "content": MISSING}, True) for name in pending}
    return [*((made | results)[name] for name in pending), *others]


def _get_answered_id(item: Item) -> str:
    name = item.raw.get("tool_use_id") if _get_type(item) == "tool_result" else None
    return name if isinstance(name, str) else ""


def _get_type(item: Item) -> str:
    return str(item.raw.get("type", "")) if isinstance(item.raw, dict) else ""
