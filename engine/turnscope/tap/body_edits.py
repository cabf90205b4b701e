"""Writes a client's body as a plan wants it: what the plan keeps stays to the letter, the rest takes the API's own form.

The result is read again and held against the plan. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.live.forms import chat_completions, responses, shared
from turnscope.reading.chat_completions import CONVERTED_KEYS
from turnscope.reading.content_blocks import as_mapping
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Part, Session
from turnscope.tap.client_bodies import ClientBody, Doubt, Place, parse_client_body
from turnscope.tap.json_places import replace_members, write_value

_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class Atom:
    """One block that is sent: as it came (`place`), or in its place something else. `stands_for`: what it replaces alone."""

    raw: JSON
    place: Place | None = None
    stands_for: Place | None = None


@dataclass(slots=True)
class Group:
    """Blocks that are sent in one item. `item`: the client's item that they belong to; -1 = a new one."""

    role: str
    item: int = -1
    atoms: list[Atom] = field(default_factory=list)


class Outline:
    """Divides an envelope into items.

    Args:
        body: The client's body.
        session: The session; its conversation is that of the body.
        start: Address of the conversation's first block.
    """

    def __init__(self, body: ClientBody, session: Session, start: int) -> None:
        self.body, self.session, self.start = body, session, start
        self.places = [place for message in body.places for place in message]
        self.sizes: dict[int, int] = {}
        for place in self.places:
            self.sizes[place.item] = self.sizes.get(place.item, 0) + 1
        self.groups: list[Group] = []
        self.system: list[str] = []  # what is added to the system prompt
        self._ahead: list[JSON] = []  # what goes in front of the next verbatim block

    def read(self, envelope: Envelope) -> None:
        """Read an envelope. Doubt: it changes what has no place in the body."""
        for piece in envelope.pieces:
            if piece.body is None or self._is_renamed(piece):
                for at in range(max(piece.start, self.start), piece.stop):
                    self._add_block(at)
            elif piece.start < min(piece.stop, self.start):
                raise Doubt("the policy changes the system prompt or the tools")
            else:
                for part in piece.body:
                    self._add_part(part, piece)
        if self._ahead:
            raise Doubt("what the policy puts in front of a message has no message behind it")

    def _is_renamed(self, piece: Piece) -> bool:
        """Whether a repair gave a client's call or result another id or input alone: its provider takes what the client has."""
        if piece.stop - piece.start != 1 or piece.start < self.start or not piece.body or len(piece.body) != 1:
            return False
        was, now = self.session.blocks[piece.start].raw, piece.body[0].raw
        if not isinstance(was, Mapping) or not isinstance(now, Mapping) or was.get("type") not in ("tool_use", "tool_result"):
            return False
        loose = ("id", "tool_use_id", *(() if isinstance(was.get("input", {}), Mapping) else ("input",)))
        one, two = ({key: value for key, value in raw.items() if key not in loose} for raw in (was, now))
        return one == two

    def _add_block(self, at: int) -> None:
        block, place = self.session.blocks[at], self.places[at - self.start]
        group = self.groups[-1] if self.groups else None
        if group is None or group.item != place.item:
            group = Group(block.role, place.item)
            self.groups.append(group)
        group.atoms += [Atom(raw) for raw in self._ahead]
        self._ahead = []
        group.atoms.append(Atom(block.raw, place))

    def _add_part(self, part: Part, piece: Piece) -> None:
        raw = self.session.blocks[part.ref].raw if part.ref is not None else part.raw if part.raw is not None else part.text
        if part.place == "system":
            self.system.append(extract_text(raw))
        elif part.kind == "empty":
            raise Doubt("the policy leaves an empty message")
        elif part.place == "after":
            self._ahead.append(raw)
        else:
            self._find_group(part, piece).atoms.append(Atom(raw, None, self._find_replaced(piece)))

    def _find_group(self, part: Part, piece: Piece) -> Group:
        """The group of a part: that of the item in which it replaces blocks, else one of its own."""
        last = self.groups[-1] if self.groups else None
        if part.place == "before" and last is not None and not part.fence:
            return last
        items = {self.places[at - self.start].item for at in range(piece.start, piece.stop)}
        inside = len(items) == 1 and self.session.blocks[piece.start].role == part.role
        item = items.pop() if inside else -1
        if last is None or last.item != item or last.role != part.role or (item < 0 and part.fence):
            last = Group(part.role, item)
            self.groups.append(last)
        return last

    def _find_replaced(self, piece: Piece) -> Place | None:
        return self.places[piece.start - self.start] if piece.stop - piece.start == 1 else None

    @property
    def is_whole(self) -> bool:
        """Whether everything is sent as the client has it."""
        return not self.system and [*map(self._find_item, self.groups)] == [*range(self.body.head, len(self.body.items))]

    def _find_item(self, group: Group) -> int:
        """The client's item that a group is, to the letter; -1 = none."""
        whole = group.item >= 0 and len(group.atoms) == self.sizes[group.item] and all(atom.place for atom in group.atoms)
        return group.item if whole else -1

    def write_elements(self) -> Iterator[int | JSON]:
        """Yield the conversation: numbers of the client's own items, and new ones."""
        yield from range(self.body.head)
        if self.system and self.body.api == "openai-chat":
            yield {"role": "system", "content": "\n\n".join(self.system)}
        for group in self.groups:
            if self._find_item(group) >= 0:
                yield group.item
            else:
                original = as_mapping(self.body.items[group.item].value) if group.item >= 0 else {}
                yield from _WRITERS[self.body.api](group, original)


def write_body(outline: Outline, changes: Mapping[str, JSON]) -> str:
    """Write the body of an outline.

    Args:
        outline: The outline, which has read what is to be sent.
        changes: Other values of the object that holds the conversation.

    Raises:
        Doubt: The API has no place for something.
    """
    body = outline.body
    written = body.write_conversation([*outline.write_elements()])
    key = next(key for key, found in body.members.items() if found.start <= body.items[0].start < found.stop)
    more = {name: write_value(value) for name, value in (_add_to_system(outline) | dict(changes)).items()}
    return replace_members(body.text, body.members, {key: written, **more})


def _add_to_system(outline: Outline) -> dict[str, JSON]:
    """The system prompt with what the policy adds to it, where it is a value of its own."""
    text, body = "\n\n".join(outline.system), outline.body
    if not text or body.api == "openai-chat":
        return {}
    if body.api == "anthropic-messages":
        system = body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else [*system]
        return {"system": [*blocks, {"type": "text", "text": text}]}
    if body.api == "openai-responses" and isinstance(body.get("instructions"), str):
        return {"instructions": f"{body.get('instructions')}\n\n{text}"}
    raise Doubt("the policy adds to a system prompt that stands elsewhere")


def check_body(text: str, body: ClientBody, messages: Iterable[Any]) -> None:
    """Read a body that was written, and hold it against what the assembler sends.

    Args:
        text: The body.
        body: The client's.
        messages: The conversation in Anthropic's shape as it is to be.

    Raises:
        Doubt: They differ.
    """
    read = parse_client_body(body.api, text, body.model)
    found = [sign for message in read.messages for raw in message.parts for sign in _sign(message.role, raw)]
    wanted = [
        sign
        for message in messages
        for raw in (message["content"] if isinstance(message["content"], list) else [message["content"]])
        for sign in _sign(message["role"], raw)
    ]
    if found != wanted:
        raise Doubt("the edited body does not read as it was planned")


def _sign(role: str, raw: Any) -> Iterator[tuple[str, ...]]:
    """What of a block must be the same: its speaker, its kind and its text."""
    if isinstance(raw, str):
        raw = {"type": "text", "text": raw}
    kind, text = str(raw.get("type")), extract_text(raw)
    if kind == "tool_use":
        text = f"{raw.get('name')} {write_value(raw['input']) if isinstance(raw.get('input'), Mapping) else ''}"
    if kind == "tool_result":
        text = shared.read_result(raw)[0]
    if text.strip() and kind != "unknown":
        yield role, kind, text.strip()


Written = Iterator[JSON]


def _write_anthropic(group: Group, original: Mapping[str, Any]) -> Written:
    known = {key: value for key, value in original.items() if key not in ("role", "content")}
    yield {**known, "role": group.role, "content": [_write_block(atom, original) for atom in group.atoms]}


def _write_block(atom: Atom, original: Mapping[str, Any]) -> JSON:
    """A block as it came, or what stands for it, with its cache mark where it can have one."""
    if atom.place is not None:
        return _find_own(atom.place, original)
    raw = {"type": "text", "text": atom.raw} if isinstance(atom.raw, str) else atom.raw
    own = _find_own(atom.stands_for, original) if atom.stands_for and original else {}
    mark = as_mapping(own).get("cache_control")
    marked = mark is not None and raw.get("type") in ("text", "tool_result", "tool_use") and "cache_control" not in raw
    return {**raw, "cache_control": mark} if marked else raw


def _find_own(place: Place, original: Mapping[str, Any]) -> JSON:
    content = original["content"]
    return {"type": "text", "text": content} if isinstance(content, str) else content[place.block]


def _write_chat(group: Group, original: Mapping[str, Any]) -> Written:
    """Messages of Chat Completions. What of an answer stayed is taken from the answer itself."""
    body = {"model": "", "messages": [_make_message(group)]}
    made = chat_completions.build_arguments(body)["messages"]
    if not original or len(made) != 1:
        yield from made
        return
    kept = {key: value for key, value in original.items() if key not in CONVERTED_KEYS}
    message = {**kept, **made[0]}
    if any(atom.place and as_mapping(atom.raw).get("type") == "thinking" for atom in group.atoms):
        message |= {key: original[key] for key in _REASONING if key in original}
    own = {call.get("id"): call for call in original.get("tool_calls") or ()}
    whole = {as_mapping(atom.raw).get("id") for atom in group.atoms if atom.place}
    if message.get("tool_calls"):
        message["tool_calls"] = [own[c["id"]] if c["id"] in whole and c["id"] in own else c for c in message["tool_calls"]]
    yield message


def _write_responses(group: Group, original: Mapping[str, Any]) -> Written:
    body = {"model": "", "messages": [_make_message(group)]}
    made = responses.build_input(body)["input"]
    yield from ({**original, **made[0]},) if original and len(made) == 1 else made


def _make_message(group: Group) -> JSON:
    blocks = [{"type": "text", "text": atom.raw} if isinstance(atom.raw, str) else atom.raw for atom in group.atoms]
    return {"role": group.role, "content": blocks}


def _write_google(group: Group, original: Mapping[str, Any]) -> Written:
    parts = original.get("parts") or ()
    role = original.get("role") or ("model" if group.role == "assistant" else "user")
    known = {key: value for key, value in original.items() if key not in ("role", "parts")}
    yield {**known, "role": role, "parts": [_write_google_part(atom, parts) for atom in group.atoms]}


def _write_google_part(atom: Atom, parts: Sequence[Any]) -> JSON:
    if atom.place is not None:
        return parts[atom.place.block]
    raw: Any = {"type": "text", "text": atom.raw} if isinstance(atom.raw, str) else atom.raw
    own = parts[atom.stands_for.block] if atom.stands_for and parts else {}
    match raw.get("type"):
        case "text" | "summary":
            return {"text": extract_text(raw)}
        case "tool_result" if "functionResponse" in own:
            known = {key: value for key, value in own["functionResponse"].items() if key not in ("response", "parts")}
            return {"functionResponse": {**known, "response": {"output": extract_text(raw.get("content"))}}}
        case "tool_use" if "functionCall" in own:
            return {**own, "functionCall": {**own["functionCall"], "args": raw.get("input")}}
    raise Doubt(f"the policy makes a block of the type {raw.get('type')!r}, for which no form is known")


_WRITERS: Mapping[str, Callable[[Group, Mapping[str, Any]], Written]] = {
    "anthropic-messages": _write_anthropic,
    "openai-chat": _write_chat,
    "openai-responses": _write_responses,
    "gemini": _write_google,
}
