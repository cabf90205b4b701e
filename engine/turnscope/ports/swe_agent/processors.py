"""SWE-agent's history processors that have no rule, over a list of messages: tags, cache marks, images in texts.

The rules handle old observations, windows and patterns, with the functions of `texts`. Messages are those of SWE-agent:
`role`, `content` (text or a list of blocks), `message_type`, and optionally `tags`, `tool_calls`, `cache_control`. The input
is not changed. Errors are those of the original: ValueError for a wrong option, else AssertionError, KeyError and TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from turnscope.ports.swe_agent import texts

Message = dict[str, Any]
EPHEMERAL = {"type": "ephemeral"}


def process(messages: Sequence[Message], processors: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages as they are sent.

    Args:
        messages: The messages.
        processors: The `type` of each processor, with its options.
    """
    history = [deepcopy(message) for message in messages]
    for processor in processors:
        run, known = PROCESSORS[processor["type"]]
        options = {name: value for name, value in processor.items() if name != "type"}
        if not options.keys() <= known.keys():
            raise ValueError("unknown option")
        history = run(history, {**known, **options})
    return history


def _tag_messages(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history:
        if message["message_type"] != "action":
            continue
        if {call["function"]["name"] for call in message.get("tool_calls") or ()} & set(options["function_names"]):
            message["tags"] = sorted({*(message.get("tags") or ()), *options["tags"]})
    return history


def _mark_cache(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    marked = 0
    for distance, message in enumerate(reversed(history)):
        for block in message["content"] if isinstance(message["content"], list) else ():
            block.pop("cache_control", None)
        message.pop("cache_control", None)
        far = distance >= options["last_n_messages_offset"]
        if far and marked < options["last_n_messages"] and message["role"] in options["tagged_roles"]:
            marked += 1
            if not isinstance(message["content"], list):
                message["content"] = [{"type": "text", "text": message["content"]}]
            (message if message["role"] == "tool" else message["content"][0])["cache_control"] = EPHEMERAL
    return history


def _parse_images(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history:
        if message.get("role") not in ("user", "tool"):
            continue
        content = message["content"]
        if not isinstance(content, str):
            if len(content) != 1:
                raise AssertionError("a list of exactly one block was expected")
            content = content[0]["text"]
        message["content"] = texts.split_images(content, options["allowed_mime_types"]) or message["content"]
    return history


Processor = Callable[[list[Message], Mapping[str, Any]], list[Message]]
PROCESSORS: Mapping[str, tuple[Processor, Mapping[str, Any]]] = {
    "tag_tool_call_observations": (_tag_messages, {"tags": (texts.KEEP,), "function_names": ()}),
    "cache_control": (
        _mark_cache,
        {"last_n_messages": 2, "last_n_messages_offset": 0, "tagged_roles": ("user", "tool")},
    ),
    "image_parsing": (_parse_images, {"allowed_mime_types": texts.IMAGE_TYPES}),
}
