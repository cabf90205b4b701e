"""LobeChat classic: which stored messages are sent, which are summarised, and what each becomes.

Pure functions over stored messages as plain mappings, written from what is documented of npm @lobehub/chat 1.143.3
(packages/context-engine, contextEngineering.ts, chatConfig.ts, generateAIChatV2.ts). The frame of the summary is in our
wording, at the original's length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import md5
from typing import Any

StoredMessage = Mapping[str, Any]
TOOL = "lobechat"  # the key of this tool's data in `Session.about["stored"]`
COUNT, EXTRA = 20, 2  # messages by default; "include the user message" adds two
NAME = 64  # characters; a function name of that length or longer is hashed
HEAD = (
    "<chat_history_summary>\n<docstring>This summary stands for the previous messages of this chat with the user.</docstring>\n"
    "<summary>"
)
TAIL = "</summary>\n</chat_history_summary>\n"
_SLOT = re.compile(r"\{\{(.*?)\}\}")
_CODE = re.compile(r"<%([\s\S]+?)%>")
_THINKING = (
    "claude-haiku-4-5-20251001",
    "claude-sonnet-4-5-latest",
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-sonnet-4.5",
    "claude-opus-4-latest",
    "claude-opus-4-20250514",
    "claude-sonnet-4-latest",
    "claude-sonnet-4-20250514",
    "claude-3-7-sonnet-latest",
    "claude-3-7-sonnet-20250219",
)
_CACHING = (
    *_THINKING,
    "claude-3-5-sonnet-latest",
    "claude-3-5-sonnet-20241022",
    "claude-3-5-sonnet-20240620",
    "claude-3-5-haiku-latest",
    "claude-3-5-haiku-20241022",
)


def is_limited(model: str, switch: bool | None, uncached: bool = False, search: str | None = None) -> bool | None:
    """Return whether the window is on. It is off for models that cache context, or that think with tools while they search.

    Args:
        model: The id of the model.
        switch: Whether the user switched the window on.
        uncached: Whether the user switched context caching off.
        search: The search mode; off = no search.
    """
    if (not uncached and model in _CACHING) or (search != "off" and model in _THINKING):
        return False
    return switch


def find_window(count: int, switch: bool | None, keep: int | None) -> int:
    """Return the number of the first message that is sent.

    Args:
        count: How many messages there are.
        switch: Whether the window is on.
        keep: How many of the newest stay.
    """
    if not switch or keep is None:
        return 0
    return count if keep <= 0 else max(0, count - keep)


def count_handed_over(count: int, keep: int) -> int:
    """Return how many messages the summariser reads: JavaScript's slice(0, 1 - keep).

    Args:
        count: How many messages there are, with the newest prompt.
        keep: How many of the newest stay.
    """
    stop = 1 - keep
    return min(stop, count) if stop >= 0 else max(0, count + stop)


def frame_summary(summary: str) -> str:
    """Return a summary as it is written into the system message."""
    return f"{HEAD}{summary}{TAIL}"


def build_call_name(tool: StoredMessage) -> str:
    """Return the function name under which a stored call is sent."""
    who, what = str(tool.get("identifier", "")), str(tool.get("apiName", ""))
    kind = tool.get("type") or ""
    tail = f"____{kind}" if kind and kind != "default" else ""
    name = f"{who}____{what}{tail}"
    if len(name) >= NAME:
        name = f"{who}____{_hash(what)}{tail}"
    return name if len(name) < NAME else f"{_hash(who)}____{_hash(what)}{tail}"


def _hash(text: str) -> str:
    return "MD5HASH_" + md5(text.encode(), usedforsecurity=False).hexdigest()[:12]


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace `{{name}}` in a text, if the name is known; twice, because a value may hold another name.

    Args:
        text: The text.
        variables: Values by name.
    """
    for _ in range(2):
        known = {name: variables[name] for found in _SLOT.findall(text) if (name := found.strip()) in variables}
        for name, value in known.items():
            text = re.sub(r"\{\{\s*" + re.escape(name) + r"\s*\}\}", value.replace("\\", r"\\"), text)
    return text


def apply_template(text: str, template: str) -> str:
    """Put a user's text into the input template, at `{{text}}`.

    Code in a template, between `<%` and `%>`, is not run: the original runs it, and keeps the text where it fails.

    Args:
        text: The user's text.
        template: The template; "" = the text stays as it is.
    """
    if not template or any(code.strip() for code in _CODE.findall(template)):
        return text
    return re.sub(r"\{\{\s*text\s*\}\}", lambda _: text, _CODE.sub("", template))


def shape_message(
    message: StoredMessage, template: str, variables: Mapping[str, str], calling: bool = True, vision: bool = True
) -> dict[str, Any]:
    """Return a stored message as it is sent: with template, variables, images, signed reasoning, and full function names.

    Args:
        message: The stored message.
        template: The input template; "" = none.
        variables: Texts by name.
        calling: Whether the model can call tools.
        vision: Whether the model sees images.
    """
    role, content = message.get("role"), message.get("content")
    files = role == "user" and any(message.get(name) for name in ("imageList", "videoList", "fileList"))
    if content is None and role == "user" and (template or files):
        content = ""  # nothing was typed: the template is filled all the same
    if isinstance(content, str):
        content = fill_variables(apply_template(content, template) if role == "user" else content, variables)
    elif isinstance(content, list):
        content = [_fill_part(part, template if role == "user" else "", variables) for part in content]
    made: dict[str, Any] = {"role": role, "content": content}
    pictures = [{"type": "image_url", "image_url": {"url": p["url"], "detail": "auto"}} for p in message.get("imageList") or ()]
    if isinstance(content, str) and ((pictures and vision and role in ("user", "assistant")) or (files and not content)):
        made["content"] = [*([{"type": "text", "text": content}] if content else []), *(pictures if vision else ())]
    thought = message.get("reasoning")
    if role == "assistant" and isinstance(thought, Mapping) and thought.get("signature"):
        words = {"thinking": thought["content"]} if "content" in thought else {}
        made["content"] = [{"type": "thinking", **words, "signature": thought["signature"]}, {"type": "text", "text": content}]
    calls = [_build_call(tool) for tool in message.get("tools") or ()] or message.get("tool_calls")
    if calls and calling:
        made["tool_calls"] = calls
    if role == "tool":
        made |= {"tool_call_id": message.get("tool_call_id")} if calling else {"role": "user"}
    return made


def _build_call(tool: StoredMessage) -> dict[str, Any]:
    function = {"name": build_call_name(tool), "arguments": tool.get("arguments", "")}
    return {"id": tool.get("id"), "type": "function", "function": function}


def _fill_part(part: Any, template: str, variables: Mapping[str, str]) -> Any:
    text = part.get("text") if isinstance(part, Mapping) else None
    return {**part, "text": fill_variables(apply_template(text, template), variables)} if isinstance(text, str) else part


def order_messages(messages: Sequence[StoredMessage]) -> list[int]:
    """Return the numbers of the messages in the order in which they are sent: each result after its call.

    Of two results of one call the later is sent; results without a call are not. One that stands before its call stays there,
    and is sent once more behind it.
    """
    called = {c.get("id") for m in messages if m.get("role") == "assistant" for c in list_calls(m)} - {None, ""}
    result = {
        m["tool_call_id"]: n for n, m in enumerate(messages) if m.get("role") == "tool" and m.get("tool_call_id") in called
    }
    order: list[int] = []
    done: set[Any] = set()
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") in called - done:
                done.add(message["tool_call_id"])
                order.append(number)
            continue
        order.append(number)
        for call in list_calls(message) if message.get("role") == "assistant" else ():
            if call.get("id") in result:
                done.add(call["id"])
                order.append(result.pop(call["id"]))
    return order


def prepare_messages(
    messages: Sequence[StoredMessage], system: Sequence[str], shape: Callable[[StoredMessage], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the messages of a request: a window of stored messages behind the system message, which tools and summary join.

    Args:
        messages: The stored messages of the window.
        system: The system role, which a system message at their start replaces, and what is joined to either.
        shape: Shapes a message.
    """
    role, *joined = system
    history = [dict(message) for message in messages]
    if role.strip() and not (history and history[0]["role"] == "system"):
        history.insert(0, {"role": "system", "content": role})
    if joined:
        head = next((message for message in history if message["role"] == "system"), None)
        if head is None:
            history.insert(0, {"role": "system", "content": "\n\n".join(joined)})
        else:
            head["content"] = "\n\n".join(filter(None, [head["content"], *joined]))
    made = [shape(message) for message in history]
    return [made[number] for number in order_messages(made)]


def list_calls(message: StoredMessage) -> Iterable[StoredMessage]:
    """Return the calls of a message, stored or as sent."""
    return message.get("tools") or message.get("tool_calls") or ()
