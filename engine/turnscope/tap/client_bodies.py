"""A client's request body as a conversation in Anthropic's shape, in which each block knows its place in the body.

Bodies of Anthropic's Messages, OpenAI's Chat Completions and Responses, and Google's `generateContent`. What is not understood
is a `Doubt`: such a body is never changed. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnscope.reading import chat_completions
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_google_part, convert_item, make_call, make_result
from turnscope.reading.messages import convert_system_prompt, convert_tool
from turnscope.reading.recorded_body import RecordedMessage, parse_body
from turnscope.session.model import JSON
from turnscope.tap.json_places import Found, find_members, write_list, write_value

CONVERSATIONS = {
    "anthropic-messages": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
"""The key under which each API has its conversation."""
_KEPT_BY_PROVIDER = ("previous_response_id", "conversation", "prompt")  # of Responses: a part of the prompt is not in the body
_GOOGLE_ROLES = {"user": "user", "function": "user", "model": "assistant"}


class Doubt(Exception):
    """Why a body passes as it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: the number of its item of the conversation, and its own number in the item."""

    item: int
    block: int


@dataclass(frozen=True, slots=True)
class ClientBody:
    """A body as its client sent it.

    Attributes:
        api: Its API.
        text: Its text.
        members: The object that holds the conversation, with the places of its values.
        items: The conversation as the body has it: messages, items or contents.
        head: How many of the first items are the system prompt.
        messages: The conversation in Anthropic's shape, without cache marks.
        places: The place of each block of each message.
        static: Tools and system prompt in Anthropic's shape; None = there are none.
        model: The model that it names.
    """

    api: str
    text: str
    members: Mapping[str, Found]
    items: Sequence[Found]
    head: int
    messages: Sequence[RecordedMessage]
    places: Sequence[Sequence[Place]]
    static: tuple[RecordedMessage | None, RecordedMessage | None]
    model: str

    @property
    def static_key(self) -> Hashable:
        """What equal tools and system prompts share."""
        return tuple(one.key if one else None for one in self.static)

    def get(self, key: str) -> Any:
        """Give a value of the object that holds the conversation; None where it has none of that name."""
        found = self.members.get(key)
        return found.value if found else None

    def get_item_text(self, number: int) -> str:
        """Give an item of the conversation as the body writes it."""
        return self.text[self.items[number].start : self.items[number].stop]

    def write_conversation(self, elements: Sequence[int | JSON]) -> str:
        """Write a conversation as JSON text: numbers stand for the body's own items, to the letter."""
        return write_list([self.get_item_text(one) if isinstance(one, int) else write_value(one) for one in elements])


Row = tuple[str, Any]  # role and blocks of one item; of Anthropic's API the content as it is


def parse_client_body(api: str, text: str, model: str = "") -> ClientBody:
    """Parse a body.

    Args:
        api: Its API.
        text: Its text.
        model: The model that its address names, where the body names none.

    Raises:
        Doubt: It is not understood.
    """
    try:
        key = CONVERSATIONS[api]
        members = find_members(text, listed=key)
        if key not in members and "request" in members:  # Code Assist wraps the body of Google's API
            model = model or str(members["model"].value if "model" in members else "")
            members = find_members(text, members["request"].start, key)
        if key not in members or not isinstance(members[key].value, list):
            raise Doubt(f"the body has no list {key!r}")
        items: list[Found] = members[key].value
    except (ValueError, RecursionError) as error:
        raise Doubt(f"the body cannot be read: {error}") from error
    named = members["model"].value if "model" in members else ""
    for name in _KEPT_BY_PROVIDER if api == "openai-responses" else ():
        if name in members and members[name].value:
            raise Doubt(f"a part of the conversation is kept by the provider ({name})")
    values = {name: found.value for name, found in members.items()}
    rows = list(_READERS[api]([item.value for item in items]))
    head = next((n for n, (role, _) in enumerate(rows) if role != "system"), len(rows)) if api.startswith("openai") else 0
    messages, places = _join_rows(rows, head, alone=api == "anthropic-messages")
    whole = _build_static(api, values, rows[:head]) | {"messages": messages}
    parsed = parse_body(whole)
    if parsed.verbatim:
        raise Doubt("a message has an unknown form")
    return ClientBody(
        api=api,
        text=text,
        members=members,
        items=items,
        head=head,
        messages=parsed.messages,
        places=places,
        static=(parsed.tools, parsed.system),
        model=str(named or model),
    )


def _join_rows(rows: Sequence[Row], head: int, *, alone: bool) -> tuple[list[JSON], list[list[Place]]]:
    """Join items to messages: the results of one round of calls, and what one answer consists of.

    Args:
        rows: Role and blocks of each item.
        head: How many of the first items are the system prompt.
        alone: Each item is a message of its own.
    """
    messages: list[Any] = []
    places: list[list[Place]] = []
    for number, (role, content) in enumerate(rows[head:], head):
        blocks = content if isinstance(content, list) else [content]
        here = [Place(number, at) for at in range(len(blocks))]
        last = messages[-1] if messages else {}
        joins = not alone and last.get("role") == role and (role == "assistant" or (_are_results(blocks) and last["results"]))
        if joins:
            last["content"] = [*last["content"], *blocks]
            places[-1] += here
        else:
            messages.append({"role": role, "content": content, "results": _are_results(blocks)})
            places.append(here)
    return [{"role": one["role"], "content": one["content"]} for one in messages], places


def _are_results(blocks: Sequence[Any]) -> bool:
    return bool(blocks) and all(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks)


def _build_static(api: str, values: Mapping[str, Any], head: Sequence[Row]) -> dict[str, JSON]:
    """Tools and system prompt in Anthropic's shape."""
    found: dict[str, JSON] = {}
    tools = values.get("tools")
    if api == "anthropic-messages":
        return {key: values[key] for key in ("tools", "system") if values.get(key)}
    if api == "openai-chat":
        found = {"tools": chat_completions.convert_body({"messages": [], "tools": tools})["tools"]} if tools else {}
    elif api == "openai-responses":
        found = {"tools": [convert_tool(tool) for tool in as_rows(tools)]} if tools else {}
    else:
        inner = [one for tool in as_rows(tools) for one in as_rows(tool.get("functionDeclarations")) or [tool]]
        found = {"tools": [convert_tool(tool) for tool in inner]} if inner else {}
    lead = values.get("instructions") or values.get("systemInstruction") or values.get("system_instruction")
    system: list[Any] = [
        block for row in convert_system_prompt(as_mapping(lead).get("parts", lead)) for block in row["content"]
    ]
    for _, blocks in head:
        system += blocks
    return found | ({"system": system} if system else {})


def _read_anthropic(items: Sequence[Any]) -> Iterator[Row]:
    for item in items:
        role, content = as_mapping(item).get("role"), as_mapping(item).get("content")
        listed = isinstance(content, list) and bool(content) and all(isinstance(block, dict) for block in content)
        if role not in ("user", "assistant", "system") or not (listed or isinstance(content, str)):
            raise Doubt("a message has an unknown form")
        yield str(role), content


def _read_chat(items: Sequence[Any]) -> Iterator[Row]:
    for item in items:
        role = as_mapping(item).get("role")
        if role not in ("system", "developer", "user", "assistant", "tool", "function"):
            raise Doubt("a message has an unknown form")
        blocks = chat_completions.convert_content(item)
        known = "system" if role in chat_completions.SYSTEM else "assistant" if role == "assistant" else "user"
        yield known, blocks or [{"type": "unknown"}]


def _read_responses(items: Sequence[Any]) -> Iterator[Row]:
    for item in items:
        role, blocks = convert_item(as_mapping(item))
        if role not in ("system", "developer", "user", "assistant"):
            raise Doubt(f"an item of the type {as_mapping(item).get('type')!r} is not known")
        yield "system" if role == "developer" else role, blocks or [{"type": "unknown"}]


def _read_google(items: Sequence[Any]) -> Iterator[Row]:
    """Contents as rows. Calls without ids get some, because two of one tool at once could not be told apart."""
    open_: dict[str, list[str]] = {}
    count = 0
    for item in items:
        role, parts = _GOOGLE_ROLES.get(str(as_mapping(item).get("role") or "user")), as_mapping(item).get("parts")
        if role is None or not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
            raise Doubt("a content has an unknown form")
        blocks: list[Any] = []
        for part in parts:
            found: list[Any] = convert_google_part(part) or [{"type": "unknown"}]
            call, result = as_mapping(part.get("functionCall")), as_mapping(part.get("functionResponse"))
            name = str(call.get("name") or result.get("name") or "")
            if call and not call.get("id"):
                count += 1
                open_.setdefault(name, []).append(f"call_{count}")
                found = [make_call(f"call_{count}", name, call.get("args"))]
            elif result and not result.get("id") and open_.get(name):
                found = [make_result(open_[name].pop(0), found[0]["content"])]
            blocks += found
        yield role, blocks or [{"type": "unknown"}]


_READERS: Mapping[str, Callable[[Sequence[Any]], Iterator[Row]]] = {
    "anthropic-messages": _read_anthropic,
    "openai-chat": _read_chat,
    "openai-responses": _read_responses,
    "gemini": _read_google,
}
