"""What Cline's SDK changes in the messages of a request: long texts, outdated file reads, and calls without a result.

Pure, apart from `Builder`, which remembers the reads that were found outdated. Ported from
`sdk/packages/core/src/session/services/message-builder.ts` (cline/cline 21cb8d2525). The budget of media is not ported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from turnscope.ports.cline_sdk.messages import Message, count_units, holds_only_results, unwrap_input, write_json

RESULT_MOST, FILE_MOST, ANSWER_MOST = 8_000, 50_000, 200_000
MARKUP_MOST, MARKUP_COUNT = 12_000, 8  # characters of an answer that repeats calls as text; how many calls make that
TEXT_MOST = 6_000_000  # bytes of all texts of a request
TEXT_LEAST, ANSWER_LEAST = 2_000, 40_000  # bytes that stay of a text, and of an answer
OUTDATED_LEAST = 65_536  # bytes that outdated reads must save before they are removed
READING = ("read", "read_files")
OUTDATED = "[outdated - see the latest file content]"
# Our wording, at the length of the original (60 characters).
NO_RESULT = "The tool was interrupted, and nothing came back in response."
_MARKUP = re.compile(
    r"<\s*(?:[|\uff5c]\s*)?DSML\s*(?:[|\uff5c]\s*)?(?:tool_calls|invoke)\b[^>]*>"
    r"|<\s*/?\s*(?:tool_calls?|function_calls?|invoke)\b[^>]*>",
    re.IGNORECASE | re.ASCII,
)
FITTED = " to fit provider request budget"
_QUERY = re.compile(r"^(.*):(\d+)-(EOF|\d+)$", re.DOTALL)


@dataclass(slots=True)
class Builder:
    """Builds the messages of one session's requests. A read that was found outdated stays outdated."""

    result_most: int = RESULT_MOST
    file_most: int = FILE_MOST
    outdated_least: int = OUTDATED_LEAST
    text_most: int = TEXT_MOST
    answer_most: int = ANSWER_MOST
    markup_most: int = MARKUP_MOST
    gone: dict[str, set[str]] = field(default_factory=dict)  # keys of outdated reads, by call

    def build(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages as they are sent. Unchanged ones are the same objects."""
        readings = _Readings(messages)
        self._commit(messages, readings)
        built = [self._build_message(message, readings) for message in add_missing_results(messages)]
        return fit_texts(built, self.text_most)

    def _build_message(self, message: Message, readings: _Readings) -> Message:
        content = message["content"]
        if isinstance(content, str):
            return _replace_content(message, unwrap_input(content) if message["role"] == "user" else self._cut_answer(content))
        return _replace_content(message, [self._build_block(block, message["role"], readings) for block in content])

    def _build_block(self, block: Any, role: str, readings: _Readings) -> Any:
        if block["type"] == "text":
            return {**block, "text": unwrap_input(block["text"]) if role == "user" else self._cut_answer(block["text"])}
        if block["type"] == "file":
            return {**block, "content": cut(block["content"], self.file_most)}
        if block["type"] != "tool_result":
            return block
        content = block["content"]
        keys = self.gone.get(block["tool_use_id"], set()) if readings.is_reading(block) else set()
        if keys := {key for key in keys if readings.is_outdated(key, block["tool_use_id"])}:
            content = _replace_outdated(content, keys)
        if isinstance(content, str):
            return {**block, "content": cut(content, self.result_most)}
        name = {"text": "text", "file": "content"}
        cuts = [{**p, name[p["type"]]: cut(p[name[p["type"]]], self.result_most)} if p["type"] in name else p for p in content]
        return {**block, "content": cuts}

    def _cut_answer(self, text: str) -> str:
        long = count_units(text) > self.markup_most
        if long and sum(1 for _ in islice(_MARKUP.finditer(text), MARKUP_COUNT)) == MARKUP_COUNT:
            return cut(text, self.markup_most, "assistant text ", " due to repeated tool-call markup")
        return cut(text, self.answer_most, "assistant text ")

    def _commit(self, messages: Sequence[Message], readings: _Readings) -> None:
        """Note outdated reads, once the new ones save enough bytes together."""
        new: dict[str, set[str]] = {}
        won, seen = 0, set[str]()
        for block in _iter_results(messages):
            if not readings.is_reading(block):
                continue
            call = block["tool_use_id"]
            seen.add(call)
            old = {key for key in readings.get_keys(block) if readings.is_outdated(key, call)}
            known = self.gone.get(call, set()) & old
            self.gone[call] = known
            if fresh := old - known:
                new.setdefault(call, set()).update(fresh)
                won += self._count_saved(block["content"], fresh)
        self.gone = {call: keys for call, keys in self.gone.items() if keys and call in seen}
        if new and won >= self.outdated_least:
            for call, keys in new.items():
                self.gone.setdefault(call, set()).update(keys)

    def _count_saved(self, content: Any, keys: set[str]) -> int:
        texts = [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
        files = [] if isinstance(content, str) else [p for p in content if p["type"] == "file" and p["path"] in keys]
        own_keys = list(_iter_keys(content))
        total = sum(_count_bytes(cut(file["content"], self.result_most)) for file in files)
        for text in texts:
            entries = _parse_entries(text)
            if entries is None:
                total += _count_bytes(cut(text, self.result_most)) if not own_keys or set(own_keys) <= keys else 0
            else:
                total += sum(_count_bytes(write_json(e)) for e in entries if _find_key(e) in keys)
        return total


class _Readings:
    """Which call read what, and which read of a file is the newest."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.names: dict[str, str] = {}
        self.requested: dict[str, list[str]] = {}
        self.newest: dict[str, str] = {}
        self.whole: dict[str, str] = {}
        for number, message in enumerate(messages):
            for at, block in enumerate(() if isinstance(message["content"], str) else message["content"]):
                if block["type"] == "file":
                    self.whole[block["path"]] = f"file:{number}:{at}"
                elif block["type"] == "tool_use":
                    self.names[block["id"]] = block["name"].lower()
                    if self.names[block["id"]] in READING:
                        self.requested[block["id"]] = list(dict.fromkeys(_iter_requested(block.get("input"))))
                elif block["type"] == "tool_result" and self.is_reading(block):
                    for key in self.get_keys(block):
                        self.newest[key] = block["tool_use_id"]
                        if not _has_range(key):
                            self.whole[key] = block["tool_use_id"]

    def is_reading(self, block: Mapping[str, Any]) -> bool:
        """Return whether a result is a successful read."""
        name = self.names.get(block["tool_use_id"]) or str(block.get("name") or "").lower()
        return name in READING and block.get("is_error") is not True

    def get_keys(self, block: Mapping[str, Any]) -> list[str]:
        """Return what a result says that it holds, or else what its call requested."""
        return list(dict.fromkeys(_iter_keys(block["content"]))) or self.requested.get(block["tool_use_id"], [])

    def is_outdated(self, key: str, call: str) -> bool:
        """Return whether the same part, or the whole file, was read again later."""
        owner = self.whole.get(_strip_range(key))
        return (owner is not None and owner != call) or self.newest.get(key) != call


def add_missing_results(messages: Sequence[Message]) -> list[Message]:
    """Add a result for every call that has none. Results are messages of their own, and a user's text joins them."""
    there = {block["tool_use_id"] for block in _iter_results(messages)}
    done: list[Message] = []
    open_calls: dict[str, str] = {}

    def add(message: Message) -> None:
        content = message["content"]
        more = ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else list(content)
        if done and message["role"] == "user" and holds_only_results(done[-1]) and more:
            done[-1] = {**done[-1], "content": [*done[-1]["content"], *more]}
        else:
            done.append(message)

    def build_missing() -> list[Any]:
        made = [_build_missing_result(call, name) for call, name in open_calls.items()]
        open_calls.clear()
        return made

    for message in messages:
        blocks = [] if isinstance(message["content"], str) else list(message["content"])
        results = [block for block in blocks if block["type"] == "tool_result"]
        rest = [block for block in blocks if block["type"] != "tool_result"]
        if results:
            alone = not rest and message["role"] == "user" and not open_calls
            add(message if alone else {**message, "role": "user", "content": [*results, *build_missing()]})
            if not rest:
                continue
        elif open_calls:
            add({"role": "user", "content": build_missing()})
        add({**message, "content": rest} if results else message)
        if message["role"] == "assistant":
            open_calls.update({b["id"]: b["name"] for b in rest if b["type"] == "tool_use" and b["id"] not in there})
    if open_calls:
        add({"role": "user", "content": build_missing()})
    return done


def _build_missing_result(call: str, name: str) -> dict[str, Any]:
    text = f"{NO_RESULT} Tool: {name}." if name else NO_RESULT
    return {
        "type": "tool_result",
        "tool_use_id": call,
        "name": name,
        "content": [{"type": "text", "text": text}],
        "is_error": True,
    }


def cut(text: str, most: int, what: str = "", why: str = "") -> str:
    """Cut the middle out of a text that is longer than `most` characters, including the mark for the cut.

    Args:
        text: The text.
        most: UTF-16 units that may stay, the mark included.
        what: What the text is, with a space after it, for the mark; "" = it is not named.
        why: Why it is cut, with a space before it, for the mark.
    """
    size = count_units(text)
    if size <= most:
        return text
    half, shown = 0, ""
    left = size - most
    for _ in range(2):  # the mark says how much is missing, and needs room itself
        mark = f"\n\n...[{what}truncated{': omitted' if what else ''} {left} chars{why}]...\n\n"
        half = max(0, (most - len(mark)) // 2)
        left, shown = max(0, size - 2 * half), mark
    return f"{text[:half]}{shown}{text[size - half :] if half else ''}"


class _Place(NamedTuple):
    """A text inside of messages that may be cut: what holds it, its key there, and whether an answer says it."""

    holder: Any
    key: Any
    answer: bool = False

    @property
    def text(self) -> str:
        return str(self.holder[self.key])

    @property
    def size(self) -> int:
        return _count_bytes(self.text)


def fit_texts(messages: list[Message], most: int) -> list[Message]:
    """Cut the longest texts until all have at most so many bytes: results and answers first, arguments of calls last.

    Args:
        messages: The messages.
        most: Bytes that their texts may have together.
    """
    total = sum(_count_text(message) for message in messages)
    if total <= most:
        return messages
    copied = deepcopy(messages)
    texts: list[_Place] = []
    arguments: list[_Place] = []
    for message in copied:
        _collect_texts(message, texts, arguments)
    for place in [*sorted(texts, key=_get_rank), *sorted(arguments, key=_get_rank)]:
        least, size = ANSWER_LEAST if place.answer else TEXT_LEAST, place.size
        if total <= most:
            break
        if size > least:
            what = "assistant text " if place.answer else ""
            place.holder[place.key] = _cut_to_bytes(place.text, max(least, size - (total - most)), what)
            total -= size - place.size
    return copied


def _get_rank(place: _Place) -> int:
    return -place.size


def _cut_to_bytes(text: str, most: int, what: str) -> str:
    low, high, best = 0, count_units(text), cut(text, 0, what, FITTED)
    while low <= high:
        middle = (low + high) // 2
        made = cut(text, middle, what, FITTED)
        if _count_bytes(made) <= most:
            best, low = made, middle + 1
        else:
            high = middle - 1
    return best


def _count_text(message: Message) -> int:
    content = message["content"]
    return _count_bytes(content) if isinstance(content, str) else sum(map(_count_block, content))


def _count_block(block: Any) -> int:
    field = {"text": "text", "thinking": "thinking", "file": "content"}.get(block.get("type"))
    if field:
        return _count_bytes(block[field])
    if block.get("type") == "tool_use":
        return _count_values(block.get("input"))
    if block.get("type") != "tool_result":
        return 0
    content = block["content"]
    return _count_bytes(content) if isinstance(content, str) else sum(map(_count_result_part, content))


def _count_result_part(part: Any) -> int:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("text", "file"):
        return _count_bytes(part["text" if kind == "text" else "content"])
    return 0 if kind == "image" or not isinstance(part, Mapping) else _count_values(part)


def _count_values(value: Any) -> int:
    if isinstance(value, str):
        return _count_bytes(value)
    if isinstance(value, Mapping):
        return 0 if value.get("type") == "image" else sum(map(_count_values, value.values()))
    return sum(map(_count_values, value)) if isinstance(value, list) else 0


def _collect_texts(message: Any, texts: list[_Place], arguments: list[_Place]) -> None:
    answer = message["role"] == "assistant"
    if isinstance(message["content"], str):
        texts += [_Place(message, "content", answer)] if answer else []
        return
    for block in message["content"]:
        kind = block.get("type")
        if kind == "tool_use":
            _collect_values(block.get("input"), arguments)
        elif kind == "text" and answer:
            texts.append(_Place(block, "text", answer))
        elif kind == "tool_result" and isinstance(block["content"], str):
            texts.append(_Place(block, "content"))
        elif kind == "tool_result":
            for part in block["content"]:
                field = {"text": "text", "file": "content", "image": ""}.get(part.get("type"))
                if field:
                    texts.append(_Place(part, field))
                elif field is None:
                    _collect_values(part, texts)


def _collect_values(value: Any, into: list[_Place]) -> None:
    if isinstance(value, Mapping) and value.get("type") == "image":
        return
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        if isinstance(part, str):
            into.append(_Place(value, key))
        else:
            _collect_values(part, into)


def _replace_content(message: Message, content: Any) -> Message:
    return message if content == message["content"] else {**message, "content": content}


def _iter_results(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        yield from (
            b for b in (() if isinstance(message["content"], str) else message["content"]) if b["type"] == "tool_result"
        )


def _iter_requested(value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    files = value.get("files")
    for request in (value, *(files if isinstance(files, list) else ())):
        if isinstance(request, Mapping) and _get_path(request):
            yield _make_key(request)
    paths = value.get("file_paths")
    yield from (path for path in (paths if isinstance(paths, list) else ()) if isinstance(path, str) and path)


def _get_path(entry: Mapping[str, Any]) -> str:
    found = (entry.get(name) for name in ("path", "file_path", "filePath"))
    return next((path for path in found if isinstance(path, str) and path), "")


def _make_key(entry: Mapping[str, Any]) -> str:
    first, last = (entry.get(name) if type(entry.get(name)) is int else None for name in ("start_line", "end_line"))
    return _format_range(_get_path(entry), first, last)


def _format_range(path: str, first: int | None, last: int | None) -> str:
    if first is None and last is None:
        return path
    return f"{path}:{1 if first is None else first}-{'EOF' if last is None else last}"


def _has_range(key: str) -> bool:
    return _QUERY.match(key) is not None


def _strip_range(key: str) -> str:
    match = _QUERY.match(key)
    return match[1] if match else key


def _parse_entries(text: str) -> list[Any] | None:
    try:
        entries = json.loads(text)
    except ValueError:
        return None
    return entries if isinstance(entries, list) else [entries]


def _find_key(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return ""
    if _get_path(entry):
        return _make_key(entry)
    query = entry.get("query")
    if not isinstance(query, str):
        return ""
    match = _QUERY.match(query)
    return _format_range(match[1], int(match[2]), None if match[3] == "EOF" else int(match[3])) if match else query


def _iter_keys(content: Any) -> Iterator[str]:
    """Yield what a result says that it holds."""
    texts = [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
    yield from (key for text in texts for entry in _parse_entries(text) or () if (key := _find_key(entry)))


def _replace_outdated(content: Any, keys: set[str]) -> Any:
    if isinstance(content, str):
        return _replace_outdated_text(content, keys)
    paths = {_strip_range(key) for key in keys}
    done: list[Any] = []
    for part in content:
        if part["type"] == "file" and part["path"] in paths:
            done.append({**part, "content": OUTDATED})
        else:
            done.append({**part, "text": _replace_outdated_text(part["text"], keys)} if part["type"] == "text" else part)
    return done


def _replace_outdated_text(text: str, keys: set[str]) -> str:
    try:
        entries = json.loads(text)
    except ValueError:
        return OUTDATED
    return write_json(
        [_replace_entry(e, keys) for e in entries] if isinstance(entries, list) else _replace_entry(entries, keys)
    )


def _replace_entry(entry: Any, keys: set[str]) -> Any:
    if not isinstance(entry, Mapping) or _find_key(entry) not in keys:
        return entry
    name = "content" if not isinstance(entry.get("result"), str) and isinstance(entry.get("content"), str) else "result"
    return {**entry, name: OUTDATED}


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
