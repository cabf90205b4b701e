"""SWE-agent's history processors over a list of messages, whatever form its messages have.

The rules do the same to sessions, with the functions of `texts`. Messages are those of SWE-agent: `role`, `content` (text or a
list of blocks), `message_type`, and optionally `is_demo`, `tags`, `tool_calls`, `cache_control`. The input is not changed.
Errors are those of the original: ValueError for a wrong option, else AssertionError, KeyError and TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from turnscope.ports.swe_agent import texts

Message = dict[str, Any]
Processor = Callable[[list[Message], Mapping[str, Any]], list[Message]]
EPHEMERAL = {"type": "ephemeral"}
INTEGERS = frozenset(("n", "polling", "keep_last", "last_n_messages", "last_n_messages_offset"))


def process(messages: Sequence[Message], processors: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages as they are sent.

    Args:
        messages: The messages.
        processors: The `type` of each processor, with its options.
    """
    history = [deepcopy(message) for message in messages]
    for run, options in [_read_options(processor) for processor in processors]:  # all of them before the first one runs
        history = run(history, options)
    return history


def _read_options(processor: Mapping[str, Any]) -> tuple[Processor, dict[str, Any]]:
    run, known = PROCESSORS[processor["type"]]
    given = {name: value for name, value in processor.items() if name != "type"}
    if not given.keys() <= known.keys():
        raise ValueError("unknown option")
    options = {**known, **given}
    options |= {name: _read_integer(options[name]) for name in INTEGERS & options.keys()}
    if options.get("n", 1) <= 0:
        raise ValueError("n must be a positive integer")
    return run, options


def _read_integer(value: Any) -> int:
    """Read an option as the original does: a whole number, also as a text."""
    if isinstance(value, (int, str)) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise ValueError("a whole number was expected")


def _elide_observations(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    seen = [i for i, m in enumerate(history) if m.get("message_type") == "observation" and not m.get("is_demo", False)]
    old = {*seen[1 : texts.find_elided_stop(len(seen), options["n"], options["polling"])]}  # the first one is the task
    for i, message in enumerate(history):
        tags = set(message.get("tags", ()))
        kept = i not in old or not tags.isdisjoint(options["always_keep_output_for_tags"])
        if kept and tags.isdisjoint(options["always_remove_output_for_tags"]):
            continue
        if message.get("message_type") != "observation":
            raise AssertionError("only observations are left out")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found = [block["text"] for block in blocks if block.get("type") == "text"]
        message["content"] = texts.build_placeholder(found, sum(block.get("type") == "image_url" for block in blocks))
    return history


def _close_windows(history: list[Message], _options: Mapping[str, Any]) -> list[Message]:
    kept: list[Message] = []
    shown: set[str] = set()
    for message in reversed(history):
        if message["role"] == "user" and not message.get("is_demo", False):
            file = texts.find_window(message["content"])
            if file == "" and not texts.HEADER.search(message["content"]):
                continue
            if file in shown:
                message["content"] = texts.close_windows(message["content"])
            shown |= set() if file is None else {file}
        kept.append(message)
    return kept[::-1]


def _remove_matches(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history[: max(0, len(history) - max(0, options["keep_last"]))]:
        content = message["content"]
        if isinstance(content, list):
            for block in content:
                if block["type"] == "text":
                    block["text"] = texts.remove_matches(block["text"], options["remove"])
        elif isinstance(content, str):
            message["content"] = texts.remove_matches(content, options["remove"])
        else:
            raise AssertionError("a text or a list was expected")  # noqa: TRY004 - as in the original
    return history


def _tag_messages(history: list[Message], options: Mapping[str, Any]) -> list[Message]:
    for message in history:
        if message.get("message_type") != "action":
            continue
        if {call["function"]["name"] for call in message.get("tool_calls") or ()} & set(options["function_names"]):
            message["tags"] = sorted({*message.get("tags", ()), *options["tags"]})
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
                if not isinstance(message["content"], str):
                    raise TypeError("a text or a list was expected")
                message["content"] = [{"type": "text", "text": message["content"]}]
            first: Any = message["content"][0]
            (message if message["role"] == "tool" else first)["cache_control"] = EPHEMERAL
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


PROCESSORS: Mapping[str, tuple[Processor, Mapping[str, Any]]] = {
    "default": (lambda history, _options: history, {}),
    "last_n_observations": (
        _elide_observations,
        {
            "n": None,
            "polling": 1,
            "always_remove_output_for_tags": (texts.REMOVE,),
            "always_keep_output_for_tags": (texts.KEEP,),
        },
    ),
    "closed_window": (_close_windows, {}),
    "remove_regex": (_remove_matches, {"remove": (texts.DIFF,), "keep_last": 0}),
    "tag_tool_call_observations": (_tag_messages, {"tags": (texts.KEEP,), "function_names": ()}),
    "cache_control": (
        _mark_cache,
        {"last_n_messages": 2, "last_n_messages_offset": 0, "tagged_roles": ("user", "tool")},
    ),
    "image_parsing": (_parse_images, {"allowed_mime_types": texts.IMAGE_TYPES}),
}
