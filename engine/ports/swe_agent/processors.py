"""SWE-agent's history processors over a whole list of messages, one after the other, as its agent runs them.

The rules do the same to an envelope, step by step, with the functions of `texts`. Messages are those of SWE-agent: `role`,
`content` (text or a list of blocks), `message_type`, and at will `is_demo`, `tags`, `tool_calls`, `cache_control`. Given ones
are not changed. Raises as the original does: ValueError for a refused option, else AssertionError, KeyError and TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from engine.ports.swe_agent import texts

Message = dict[str, Any]
EPHEMERAL = {"type": "ephemeral"}


def process(messages: Sequence[Message], processors: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages as sent: each processor is its `type` with its options."""
    history = [deepcopy(message) for message in messages]
    for given in processors:
        run, known = PROCESSORS[given["type"]]
        options = {name: value for name, value in given.items() if name != "type"}
        if not options.keys() <= known.keys():
            raise ValueError("unknown option")
        history = run(history, {**known, **options})
    return history


def _last_n(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    if options["n"] is None or options["n"] <= 0:
        raise ValueError("n must be positive")
    seen = [i for i, m in enumerate(history) if m.get("message_type") == "observation" and not m.get("is_demo")]
    old = {*seen[1 : texts.elided(len(seen), options["n"], options["polling"])]}
    keep, remove = set(options["always_keep_output_for_tags"]), set(options["always_remove_output_for_tags"])
    for i, message in enumerate(history):
        tags = set(message.get("tags") or ())
        if (i in old and not tags & keep) or tags & remove:
            if message.get("message_type") != "observation":
                raise AssertionError("only observations are left out")
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            said = [block["text"] for block in blocks if block.get("type") == "text"]
            message["content"] = texts.stand_in(said, sum(block.get("type") == "image_url" for block in blocks))
    return history


def _tag(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history:
        if message["message_type"] != "action":
            continue
        if {call["function"]["name"] for call in message.get("tool_calls") or ()} & set(options["function_names"]):
            message["tags"] = sorted({*(message.get("tags") or ()), *options["tags"]})
    return history


def _closed_window(history: list[Message], _options: Mapping[str, Any]) -> list[Message]:
    kept: list[Message] = []
    shown: set[str] = set()
    for message in reversed(history):
        file = texts.window(message["content"]) if message["role"] == "user" and not message.get("is_demo") else None
        if file == "":
            continue
        if file is not None and file in shown:
            message["content"] = texts.closed(message["content"])
        shown |= {file} if file else set()
        kept.append(message)
    return kept[::-1]


def _cache_control(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
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


def _remove_regex(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history[: max(0, len(history) - options["keep_last"])]:
        content = message["content"]
        if isinstance(content, list):
            for block in content:
                if block["type"] == "text":
                    block["text"] = texts.without(block["text"], options["remove"])
        elif isinstance(content, str):
            message["content"] = texts.without(content, options["remove"])
        else:
            raise AssertionError("content is neither a text nor a list")  # noqa: TRY004 - what the original raises
    return history


def _image_parsing(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history:
        if message.get("role") not in ("user", "tool"):
            continue
        content = message["content"]
        if not isinstance(content, str):
            if len(content) != 1:
                raise AssertionError("a list of exactly one block was expected")
            content = content[0]["text"]
        message["content"] = texts.with_images(content, options["allowed_mime_types"]) or message["content"]
    return history


Processor = Callable[[list[Message], Mapping[str, Any]], list[Message]]
PROCESSORS: Mapping[str, tuple[Processor, Mapping[str, Any]]] = {
    "last_n_observations": (
        _last_n,
        {
            "n": None,
            "polling": 1,
            "always_keep_output_for_tags": (texts.KEEP,),
            "always_remove_output_for_tags": (texts.REMOVE,),
        },
    ),
    "tag_tool_call_observations": (_tag, {"tags": (texts.KEEP,), "function_names": ()}),
    "closed_window": (_closed_window, {}),
    "cache_control": (
        _cache_control,
        {"last_n_messages": 2, "last_n_messages_offset": 0, "tagged_roles": ("user", "tool")},
    ),
    "remove_regex": (_remove_regex, {"remove": ("<diff>.*</diff>",), "keep_last": 0}),
    "image_parsing": (_image_parsing, {"allowed_mime_types": texts.IMAGE_TYPES}),
}
