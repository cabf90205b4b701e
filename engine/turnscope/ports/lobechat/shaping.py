"""LobeHub's preparation: what stored messages become, and the order in which they are sent.

Pure functions over stored messages as plain mappings, written from what is documented of the message engine (lobehub 2.2.10,
packages/context-engine). Its notices are in our wording, at the originals' lengths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import md5
from itertools import chain
from typing import Any, NamedTuple

from turnscope.ports.lobechat.messages import NAME, apply_template, fill_variables
from turnscope.ports.lobechat.tokens import GROUP
from turnscope.session.content import dumps

StoredMessage = Mapping[str, Any]
OPENED, CLOSED = "<earlier_history_in_summary>\n", "\n</earlier_history_in_summary>"  # the tags of a stored summary
FAILED = '{"error":"the tool gave no result","success":false,"by":"us"}'
UNSEEN = "[A picture was here; this model cannot see.]"
FINISH = (
    "The limit of steps is reached, and no tool can be called any more. Say now in words what was found and what is still to be"
    " done after."
)
ATTACHED = (  # around files and images, at the original's lengths
    "<!-- What follows was added by the app, not by the user. -->\n<about>These are the files and the pictures that came with"
    " the message above. Treat them so:\n\n1. What the user wrote in words comes first in each case.\n2. Look into a file or a"
    " picture only if the question needs what is in it, else leave it.\n</about>\n<files_info>"
)
ATTACHED_END = "</files_info>\n<!-- End of added texts -->"
IMAGES = "<images>\n<about>pictures that came with this message, one per line, by name, place</about>"
FILES = "<files>\n<about>files that came with the message, one a line, by name and place</about>"
RATED = "[User Feedback Emoji: "
CONTAINERS = ("assistantGroup", "supervisor")
_PLAIN = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the model can do, and what the app's settings add to messages."""

    template: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    calling: bool = True
    vision: bool = True
    files: bool = False
    disabled: tuple[str, ...] = ()


class Made(NamedTuple):
    """A message as it is sent, and the number of the stored message that it comes from."""

    of: int
    message: dict[str, Any]


def build_call_name(tool: StoredMessage) -> str:
    """Return the function name under which a stored call is sent.

    Parts with unusual characters, or that are too long, are hashed.
    """
    what = str(tool.get("apiName") or "")
    if not tool.get("identifier"):
        return what
    who, kind = str(tool["identifier"]), str(tool.get("type") or "")
    tail = f"____{_make_safe(kind)}" if kind not in ("", "builtin", "default") else ""
    name = f"{_make_safe(who)}____{_make_safe(what)}{tail}"
    if len(name) >= NAME:
        name = f"{_make_safe(who)}____{_hash(what)}{tail}"
    return name if len(name) < NAME else f"{_hash(who)}____{_hash(what)}{tail}"


def _make_safe(text: str) -> str:
    return text if not text or _PLAIN.fullmatch(text) else _hash(text)


def _hash(text: str) -> str:
    return "MD5HASH_" + md5(text.encode(), usedforsecurity=False).hexdigest()[:12]


def frame_summary(summary: str) -> str:
    """Return a stored summary as the text of a user message; an empty one stays empty."""
    return f"{OPENED}{summary}{CLOSED}" if summary else ""


def prepare_messages(messages: Sequence[StoredMessage], shape: Shape) -> list[Made]:
    """Return stored messages as they are sent, in that order.

    Args:
        messages: The stored messages, oldest first.
        shape: What the model and the chat's settings allow.
    """
    emojis: list[str] = []
    made = []
    for number, message in enumerate(messages):
        for part in flatten(message):
            sent = _build_message(part, shape)
            if part.get("role") == "assistant":
                rated = (part.get("metadata") or {}).get("reactions") or ()
                emojis += [one["emoji"] for one in rated if one.get("emoji")]
            elif sent["role"] == "user" and part.get("role") != "tool" and emojis:
                if isinstance(sent["content"], str):
                    sent["content"] = f"{RATED}{' '.join(emojis)}]\n\n{sent['content']}"
                emojis = []
            made.append((number, part, _add_media(part, sent, shape)))
    return list(_order_messages(made)) if shape.calling else [Made(number, sent) for number, _, sent in made]


def flatten(message: StoredMessage) -> Iterator[StoredMessage]:
    """Return the messages of a stored one: an answer that was grouped with its results becomes both again."""
    if message.get("role") not in CONTAINERS or message.get("children") is None:
        yield message
        return
    for child in message["children"]:
        yield {**child, "role": "assistant", "content": child.get("content") or ""}
        for tool in child.get("tools") or ():
            gave = tool.get("result")
            if gave:
                error_and_plugin = {"pluginError": gave.get("error"), "tool_call_id": tool.get("id"), "plugin": tool}
                yield {"id": gave.get("id"), "role": "tool", "content": gave.get("content"), **error_and_plugin}


def _build_message(message: StoredMessage, shape: Shape) -> dict[str, Any]:
    """Return role, content and calls of a message, with template and variables filled in."""
    role, content, variables = message.get("role"), message.get("content"), dict(shape.variables)
    if isinstance(content, str):
        text = apply_template(content, shape.template) if role == "user" else content
        content = frame_summary(text) if role == GROUP else text
        content = fill_variables(fill_variables(content, variables), variables)
    elif isinstance(content, list):
        content = [_fill_part(part, variables) for part in content]
    sent: dict[str, Any] = {"role": {GROUP: "user", "task": "assistant"}.get(str(role), role), "content": content}
    if role == "assistant" and shape.calling and (calls := _build_calls(message, shape)):
        sent["tool_calls"] = calls
    if role == "tool":
        sent |= {"tool_call_id": message.get("tool_call_id")} if shape.calling else {"role": "user"}
    return sent


def _fill_part(part: Any, variables: Mapping[str, str]) -> Any:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    return {**part, "text": fill_variables(fill_variables(text, variables), variables)} if isinstance(text, str) else part


def _build_calls(message: StoredMessage, shape: Shape) -> list[dict[str, Any]]:
    calls: dict[Any, dict[str, Any]] = {}
    for tool in message.get("tools") or ():
        if tool.get("id") and tool.get("identifier") not in shape.disabled:
            function = {"name": build_call_name(tool), "arguments": repair_json(tool.get("arguments"))}
            signed = {"thoughtSignature": tool["thoughtSignature"]} if tool.get("thoughtSignature") else {}
            calls.setdefault(tool["id"], {"id": tool["id"], "type": "function", "function": function, **signed})
    return [*calls.values()]


def repair_json(arguments: Any) -> str:
    """Return arguments as JSON: unchanged if they are JSON, with the open parts closed if that helps, else none."""
    text = arguments if isinstance(arguments, str) else ""
    if not text.strip():
        return "{}"
    for end in chain(("",), _iter_endings(text)):
        with suppress(ValueError):
            found = json.loads(text + end)
            return text if not end else dumps(found)
    return "{}"


def _iter_endings(text: str) -> Iterator[str]:
    """Yield texts that may close a JSON text that was cut off."""
    opened, quoted, escaped = "", False, False
    for sign in text:
        if quoted:
            quoted, escaped = escaped or sign != '"', sign == "\\" and not escaped
        elif sign == '"':
            quoted = True
        elif sign in "{[":
            opened = "}]"["{[".index(sign)] + opened
        elif sign in "}]":
            opened = opened[1:]
    yield from (f'"{opened}', f'":null{opened}') if quoted else (opened, f"null{opened}", f":null{opened}")


def _add_media(message: StoredMessage, sent: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Add images to a message, or a note on each for a model without vision, and its signed reasoning."""
    role, content = sent["role"], sent["content"]
    thought = message.get("reasoning") if role == "assistant" else None
    if isinstance(thought, Mapping) and thought.get("signature"):
        part = {"type": "thinking", "thinking": thought.get("content") or "", "signature": thought["signature"]}
        return {**sent, "content": [part, {"type": "text", "text": content}]}
    if role == "assistant" and (message.get("metadata") or {}).get("isMultimodal") and (parts := _parse_parts(content)):
        return {
            **sent,
            "content": [_convert_part(part, shape.vision) for part in parts if part.get("type") in ("text", "image")],
        }
    if role not in ("user", "assistant") or message.get("role") == "tool":
        return sent
    items = content if isinstance(content, list) else []
    inside = [p for p in items if p.get("type") == "image_url"]
    pictures = [{"type": "image_url", "image_url": {"url": p["url"], "detail": "auto"}} for p in message.get("imageList") or ()]
    files = list_files(message) if role == "user" and shape.files else ""
    if not pictures and not files and (shape.vision or not inside):
        return sent
    texts = [str(p.get("text") or "") for p in items if p.get("type") == "text"] if items else [content or ""]
    unseen = "" if shape.vision else "\n".join(UNSEEN for _ in (*pictures, *inside))
    text = "\n\n".join(filter(None, ("\n\n".join(texts), unseen, files)))
    if not shape.vision and not files:
        return {**sent, "content": text}
    seen = [*pictures, *inside] if shape.vision else []
    return {**sent, "content": [*([{"type": "text", "text": text}] if text else []), *seen]}


def list_files(message: StoredMessage) -> str:
    """Return the text that describes a user message's files and images, one each line; "" if there are none."""
    images, files = message.get("imageList") or (), message.get("fileList") or ()
    parts = []
    if images:
        lines = [_describe_image(image, number, message.get("id")) for number, image in enumerate(images, 1)]
        parts.append("\n".join((f"{IMAGES}", *lines, "</images>")))
    if files:
        parts.append("\n".join((f"{FILES}", *map(_describe_file, files), "</files>")))
    return "\n".join((ATTACHED, *parts, ATTACHED_END)) if parts else ""


def _describe_image(image: StoredMessage, number: int, message: Any) -> str:
    place = f"image_{number}"
    named = f'ref="msg_{_hash_id(message)}.{place}" local_ref="{place}"' if message else f'ref="{place}"'
    return f'<image {named} name="{_show(image, "alt")}" url="{_show(image, "url")}"></image>'


def _describe_file(file: StoredMessage) -> str:
    facts = (("id", "id"), ("name", "name"), ("type", "fileType"), ("size", "size"), ("url", "url"))
    described = " ".join(f'{name}="{_show(file, key)}"' for name, key in facts)
    return f"<file {described}>{file.get('content') or ''}</file>"


def _show(fields: StoredMessage, key: str) -> str:
    return str(fields[key]) if fields.get(key) is not None else "undefined"  # as JavaScript writes it


def _hash_id(id: str) -> str:
    """Return the short name of a message: FNV-1a of its characters in base 36."""
    value = 2166136261
    for sign in id:
        value = ((value ^ ord(sign)) * 16777619) & 0xFFFFFFFF
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return (digits or "0")[:6]


def read_reasoning(thought: Any) -> Any:
    """Return the reasoning of a stored answer, with its parts as one text; an image becomes its address."""
    content = thought.get("content") if isinstance(thought, Mapping) and not thought.get("signature") else None
    parts = _parse_parts(content) if content and thought.get("isMultimodal") else []
    if not parts:
        return thought
    texts = (p.get("text") if p["type"] == "text" else f"[Image: {p['image']}]" if p["type"] == "image" else "" for p in parts)
    return {**thought, "content": "\n".join(text or "" for text in texts), "isMultimodal": False}


def _parse_parts(content: Any) -> list[Any]:
    with suppress(TypeError, ValueError):
        found = json.loads(content)
        if isinstance(found, list) and found and isinstance(found[0], dict) and found[0].get("type"):
            return found
    return []


def _convert_part(part: StoredMessage, vision: bool) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part.get("text")}
    address = {"type": "image_url", "image_url": {"url": part.get("image"), "detail": "auto"}}
    return address if vision else {"type": "text", "text": UNSEEN}


def _order_messages(made: Sequence[tuple[int, StoredMessage, dict[str, Any]]]) -> Iterator[Made]:
    """Put each result after its call.

    The first of two is sent; results without a call are dropped; a missing result is a failure.
    """
    results: dict[Any, tuple[int, StoredMessage, dict[str, Any]]] = {}
    for number, message, sent in made:
        if sent["role"] == "tool" and sent.get("tool_call_id"):
            results.setdefault(sent["tool_call_id"], (number, message, sent))
    for number, _, sent in made:
        if sent["role"] == "tool":
            continue
        yield Made(number, sent)
        for call in sent.get("tool_calls") or ():
            found = results.pop(call["id"], None)
            if found is None:
                yield Made(-1, {"role": "tool", "tool_call_id": call["id"], "content": FAILED})
            else:
                yield Made(found[0], {**found[2], "content": _get_output(found[1], found[2]["content"])})


def _get_output(message: StoredMessage, content: Any) -> Any:
    error = message.get("pluginError")
    report = error.get("message") if isinstance(error, Mapping) else None
    report = report if isinstance(report, str) else ""
    return content if isinstance(content, str) and (content or not report) else report or FAILED
