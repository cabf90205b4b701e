"""Open WebUI: stored answers as chat messages, results after their calls, and the system message.

Pure functions over messages as plain mappings, written from what is documented of `convert_output_to_messages`,
`process_messages_with_output`, `sanitize_tool_pairs`, `reconcile_tool_pairs`, `merge_system_messages`,
`add_or_update_system_message` and `strip_empty_content_blocks` (open-webui 0.12.4, open_webui/utils/misc.py and
middleware.py). Its notices are in our wording, at the originals' lengths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ChatMessage = Mapping[str, Any]
"""A message: `role`, `content`, and what else is stored or sent with it."""

TOOL = "open-webui"  # the key of this tool's data in `Session.about["stored"]`
FINISHED = ("completed", "failed", "rejected")  # states of a call whose result is sent
IMAGES = "The pictures that the tools gave in their results stand here. See it."
VOICE = "[This answer was spoken. What follows is a transcript of voice:]\n"
FIELDS = frozenset(("output", "files", "contextSummary", "usage", "info", "model", "meta"))  # stored with a message
REPLAYED = ("id", "role", "content", *sorted(FIELDS - {"info"}))
UNSENT = ("id", "output", "model", "contextSummary", "context_summary", "usage", "meta", "files")


def load_messages(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Return stored messages as a request begins with them: without empty answers, with the text of a skill that was called."""
    fields = ({key: message[key] for key in REPLAYED if key in message} for message in messages)
    return [_expand_skill(m) for m in fields if m.get("role") != "assistant" or m.get("content") or m.get("output")]


def _expand_skill(message: ChatMessage) -> ChatMessage:
    skill = (message.get("meta") or {}).get("skills_create")
    if message.get("role") != "user" or not skill or skill.get("original_text") != get_content(message):
        return message  # not called, or edited since
    content, text = message.get("content"), skill["expanded_text"]
    if not isinstance(content, list):
        return {**message, "content": text}
    first = next((i for i, part in enumerate(content) if part.get("type") == "text"), -1)
    return {**message, "content": [{**part, "text": text} if i == first else part for i, part in enumerate(content)]}


def insert_images(message: ChatMessage) -> ChatMessage:
    """Return a user's message with its image files as parts of its content."""
    files = [file for file in message.get("files") or () if _is_image(file)]
    content = message.get("content", "")
    if message.get("role") != "user" or not files or not isinstance(content, str):
        return message
    shown = [{"type": "image_url", "image_url": {"url": file["url"]}} for file in files if file.get("url")]
    return {**message, "content": [{"type": "text", "text": content}, *shown]}


def _is_image(file: ChatMessage) -> bool:
    kind = str(file.get("content_type") or "").split(";")[0].strip().lower()
    return file.get("type") == "image" or (kind.startswith("image/") and kind != "image/svg+xml")


def drop_foreign_details(message: ChatMessage, model: str) -> ChatMessage:
    """Return an answer without the details of reasoning that another model signed.

    Args:
        message: The message.
        model: The id of the model that the request goes to.
    """
    output = message.get("output")
    if message.get("role") != "assistant" or message.get("model") == model or not isinstance(output, list):
        return message
    return {**message, "output": [{k: v for k, v in item.items() if k != "reasoning_details"} for item in output]}


def convert_items(
    output: Any, raw: bool = False, reasoning: str | None = None, flatten_images: bool = False
) -> list[dict[str, Any]]:
    """Return the items of a stored answer as chat messages.

    Args:
        output: The items. What is no list of items has none.
        raw: Keep the details that a provider signed.
        reasoning: The field for reasoning (`thinking`, `reasoning_content`), or `think_tags` for text in the content; None =
            drop it.
        flatten_images: Put images of results into a user message after them.
    """
    made = _Output(reasoning, raw, flatten_images)
    output = output if isinstance(output, list) else ()
    done = {i.get("call_id") for i in output if i.get("type") == "function_call" and i.get("status") in FINISHED}
    known = done & {i.get("call_id") for i in output if i.get("type") == "function_call_output"} - {None, ""}
    for item in output:
        kind = item.get("type", "")
        if kind != "function_call_output":
            made.flush_results()
        if kind in ("function_call", "function_call_output"):
            if item.get("call_id") in known:
                (made.add_call if kind == "function_call" else made.results.append)(item)
        elif kind == "message":
            made.add_text("".join(p.get("text", "") for p in item.get("content") or () if p.get("type") == "output_text"))
        elif kind == "reasoning":
            made.add_thought(item)
        elif kind == "open_webui:code_interpreter":
            made.add_code(item)
    made.flush_results()
    made.flush_message()
    return drop_unpaired_stored(made.messages)


class _Output:
    """Chat messages while they are built from the items of an answer."""

    def __init__(self, reasoning: str | None, raw: bool, flatten: bool) -> None:
        self.reasoning, self.raw, self.flatten = reasoning, raw, flatten
        self.messages: list[dict[str, Any]] = []
        self.results: list[ChatMessage] = []
        self._reset()

    def _reset(self) -> None:
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.thoughts: list[str] = []
        self.details: list[Any] = []

    def add_text(self, text: str) -> None:
        if text:
            self.texts.append(text)

    def add_call(self, item: ChatMessage) -> None:
        chosen = item.get("provider_function")  # what the model called, if the app showed and ran something else
        called = chosen if isinstance(chosen, Mapping) else item
        arguments = called.get("arguments", "{}")
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": called.get("name", ""), "arguments": arguments}
        self.calls.append({"id": item.get("call_id", ""), "type": "function", "function": function})

    def add_thought(self, item: ChatMessage) -> None:
        details = (item.get("reasoning_details") or []) if self.raw else []
        for detail in details if isinstance(details, list) else [details]:
            if isinstance(detail, Mapping) and (detail.get("format") != "anthropic-claude-v1" or detail.get("signature")):
                self.details.append(detail)
        text = "".join(part.get("text") or "" for part in item.get("summary") or item.get("content") or ())
        if not text:
            return
        if self.reasoning == "think_tags":
            self.texts.append(f"{item.get('start_tag', '<think>')}{text}{item.get('end_tag', '</think>')}")
        elif self.reasoning in ("thinking", "reasoning_content"):
            self.thoughts.append(text)

    def add_code(self, item: ChatMessage) -> None:
        if item.get("code"):
            self.texts.append(f"<code_interpreter>\n{item['code']}\n</code_interpreter>")
        gave = item.get("output") or ""
        text = (gave.get("stdout") or gave.get("result") or "") if isinstance(gave, Mapping) else str(gave)
        if text:
            self.texts.append(f"<code_interpreter_output>\n{text}\n</code_interpreter_output>")

    def flush_message(self) -> None:
        if self.texts or self.calls or self.thoughts or self.details:
            message: dict[str, Any] = {"role": "assistant", "content": "\n".join(self.texts)}
            message |= {"tool_calls": self.calls} if self.calls else {}
            message |= {str(self.reasoning): "\n".join(self.thoughts)} if self.thoughts else {}
            message |= {"reasoning_details": self.details} if self.details else {}
            self.messages.append(message)
        self._reset()

    def flush_results(self) -> None:
        """Append waiting results after the calls, and their images after all of them, if images are flattened."""
        if not self.results:
            return
        self.flush_message()
        pictures: list[Any] = []
        for item in self.results:
            parts = item.get("output") or ()
            text = "".join(str(p.get("text", "")) for p in parts if p.get("type") == "input_text")
            urls = [p["image_url"] for p in parts if p.get("type") == "input_image" and p.get("image_url")]
            content: Any = text
            if self.flatten:
                pictures += [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            elif urls:
                content = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": u} for u in urls)]
            self.messages.append({"role": "tool", "tool_call_id": item.get("call_id", ""), "content": content})
        if pictures:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": IMAGES}, *pictures]})
        self.results = []


def convert_messages(
    messages: Iterable[ChatMessage], reasoning: str | None = None, flatten_images: bool = True
) -> list[dict[str, Any]]:
    """Return stored messages as chat messages. An answer becomes its items, if it has any that are sent.

    Args:
        messages: The stored messages.
        reasoning: See `convert_items`.
        flatten_images: See `convert_items`.
    """
    return [made for message in messages for made in convert_message(message, reasoning, flatten_images)]


def convert_message(message: ChatMessage, reasoning: str | None = None, flatten_images: bool = True) -> list[dict[str, Any]]:
    """Return the chat messages of one stored message.

    Args:
        message: The stored message.
        reasoning: See `convert_items`.
        flatten_images: See `convert_items`.
    """
    answer, output = message.get("role") == "assistant", message.get("output")
    meta = message.get("meta")
    voice = meta.get("voice") if isinstance(meta, Mapping) else None
    voice = voice if answer and isinstance(voice, Mapping) else {}
    if voice and message.get("model") == voice.get("model") and not output:
        return _list_speech([{"transcript": message.get("content", "")}])
    made: list[dict[str, Any]] = []
    if answer and output:
        made = convert_items(output, True, reasoning, flatten_images)
        if not made and not message.get("content"):
            return []
    made = made or [{key: value for key, value in message.items() if key not in UNSENT}]
    return [*made, *_list_speech(voice.get("speech") or ())]


def _list_speech(entries: Iterable[Any]) -> list[dict[str, Any]]:
    transcripts = [entry.get("transcript") for entry in entries if isinstance(entry, Mapping)]
    return [{"role": "assistant", "content": f"{VOICE}{text}"} for text in transcripts if isinstance(text, str) and text]


def drop_unpaired(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Drop calls without a result directly after them, results without a call, and answers that are left without content."""
    return _pair(messages, lambda message: bool(message.get("content")), ("tool_calls", "reasoning_items"))


def drop_unpaired_stored(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Do the same for a stored answer. Blank text does not count as text; reasoning alone keeps an answer."""

    def stays(message: ChatMessage) -> bool:
        content = get_content(message) or ""
        return bool((content.strip() if isinstance(content, str) else content) or message.get("reasoning_content"))

    return _pair(messages, stays, ("tool_calls",))


def get_content(message: ChatMessage) -> Any:
    """Return the text of a message: the first text of a list, else the content, else the texts of its items."""
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, Mapping) and part.get("type") == "text":
                return part.get("text")
    elif content:
        return content
    return _get_output_text(message.get("output")) or (content if isinstance(content, str) else None)


def _get_output_text(output: Any) -> str:
    found: list[str] = []
    for item in output if isinstance(output, list) else ():
        parts = item.get("content") if isinstance(item, Mapping) and item.get("type") == "message" else None
        if isinstance(parts, list):
            texts = (part.get("text") for part in parts if isinstance(part, Mapping))
            text = "".join(str(text) for text in texts if text is not None)
            found += [text] if text.strip() else []
    return "\n".join(found)


def _pair(
    messages: Sequence[ChatMessage], stays: Callable[[ChatMessage], bool], removed: Sequence[str]
) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    valid: set[Any] = set()
    for i, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") in valid:
                kept.append(dict(message))
            continue
        valid = set()
        calls = message.get("tool_calls") if message.get("role") == "assistant" else None
        if not calls:
            kept.append(dict(message))
            continue
        results = set()
        for other in messages[i + 1 :]:
            if other.get("role") != "tool":
                break
            results.add(other.get("tool_call_id"))
        valid = ({call.get("id") for call in calls} & results) - {None, ""}
        left = [call for call in calls if call.get("id") in valid]
        if left:
            kept.append({**message, "tool_calls": left})
        elif stays(message):
            kept.append({k: v for k, v in message.items() if k not in removed})
    return kept


def merge_system(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Join all system messages to one at the start, with line breaks between them."""
    texts = [text for message in messages if message.get("role") == "system" and (text := get_content(message))]
    rest = [dict(message) for message in messages if message.get("role") != "system"]
    return [{"role": "system", "content": "\n".join(texts)}, *rest] if texts else rest


def add_to_system(messages: Sequence[ChatMessage], text: str, append: bool = False) -> list[dict[str, Any]]:
    """Add a text to the system message at the start, or make it one.

    Args:
        messages: The messages.
        text: The text.
        append: Add it at the end; else at the start.
    """
    if not messages or messages[0].get("role") != "system":
        return [{"role": "system", "content": text}, *map(dict, messages)]
    content = messages[0].get("content")
    if isinstance(content, list):  # every text of the list gets it
        joined: Any = [{**p, "text": _join(p["text"], text, append)} if p.get("type") == "text" else p for p in content]
    else:
        joined = _join(content, text, append)
    return [{**messages[0], "content": joined}, *map(dict, messages[1:])]


def _join(old: Any, text: str, append: bool) -> str:
    return f"{old}\n{text}" if append else f"{text}\n{old}"


def drop_blanks(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Drop blank text parts from lists of parts, unless nothing else is in them."""
    kept = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            left = [p for p in content if not _is_blank(p)]
            kept.append({**message, "content": left or content})
        else:
            kept.append(dict(message))
    return kept


def _is_blank(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and not str(part.get("text") or "").strip()
