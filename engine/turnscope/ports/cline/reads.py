"""Repeated file reads: how Cline's classic context manager finds and rewrites them before it cuts anything.

Ported from `getPossibleDuplicateFileReads`, `applyFileReadContextHistoryUpdates` and `calculateContextOptimizationMetrics`
(ContextManager.ts, cline/cline v3.89.2). Paths are compared as they are written. The last read of a file stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from turnscope.ports.cline.ranges import (
    MENTION,
    READ,
    READ_AGAIN,
    WRITE,
    Entry,
    History,
    State,
    Text,
    count_units,
    get_block_text,
)

_JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # what \s matches in JavaScript
_HEADER = re.compile(rf"\[([^{_JS_SPACE}]+) for '([^']+)'\] Result:")
_WRITTEN = re.compile(r'(<final_file_content path="[^"]*">).*?(</final_file_content>)', re.DOTALL)
_MENTIONED = re.compile(r'<file_content path="([^"]*)">.*?</file_content>', re.DOTALL)
_PATTERN = re.compile(r"\$([$&`'])")


class Reading(NamedTuple):
    """One read of a file: where it is, its kind, and the text that replaces it (or replaces `search`, inside a mention)."""

    message: int
    type: int
    block: int
    instead: str
    search: str = ""


def rewrite_reads(history: History, state: State) -> tuple[dict[int, Entry], set[int]]:
    """Rewrite all reads of each file but the last. Return the stored edits, and the messages that changed.

    Args:
        history: The conversation.
        state: What the task carries so far.
    """
    entries = dict(state.entries)
    changed: set[int] = set()
    mentions: dict[int, tuple[str, tuple[str, ...], int]] = {}
    readings, files = _find_readings(history, state)
    for path, found in readings.items():
        for reading in found[:-1]:
            changed.add(reading.message)
            if reading.type == MENTION:
                text, replaced, block = mentions.get(reading.message) or _find_base(history, entries, reading)
                mentions[reading.message] = (
                    replace_as_javascript(text, reading.search, reading.instead),
                    (*replaced, path),
                    block,
                )
            else:
                _store(entries, reading.message, reading.type, reading.block, Text(reading.instead))
    for message, (text, replaced, block) in mentions.items():
        _store(entries, message, MENTION, block, Text(text, replaced=replaced, files=tuple(files[message])))
    return entries, changed


def compute_saved_share(history: History, state: State, entries: Mapping[int, Entry], changed: set[int]) -> float:
    """Return the share of the window's characters (UTF-16 units) that the edits save; 0 if there are no characters.

    Args:
        history: The conversation.
        state: The state before the edits.
        entries: The stored edits.
        changed: The messages that they changed now.
    """
    total = gone = 0
    for message in (*range(min(2, len(history))), *range(max(state.start, 0), len(history))):
        content = history.get_content(message)
        if isinstance(content, str):
            continue
        entry = entries.get(message)
        for block, (_, raw) in enumerate(content):
            text = get_block_text(raw)
            if not text:
                total += _measure_image(raw)
                continue
            newest = entry.blocks.get(block) if entry else None
            before = text if newest is None or newest.before is None else newest.before
            if newest and message not in changed:
                total += count_units(newest.text)
            else:
                total += count_units(before)
                gone += count_units(before) - count_units(newest.text) if newest else 0
    return gone / total if total else 0.0


def replace_as_javascript(text: str, search: str, instead: str) -> str:
    """Replace a text as JavaScript's `text.replace(search, instead)` does: once, with `$` patterns in `instead`.

    Args:
        text: The text.
        search: The text that is looked for; no pattern.
        instead: What replaces it. `$&`, `$$` and the like mean what they mean in JavaScript.
    """
    at = text.find(search)
    if at < 0:
        return text
    before, behind = text[:at], text[at + len(search) :]
    means = {"$": "$", "&": search, "`": before, "'": behind}
    return before + _PATTERN.sub(lambda found: means[found[1]], instead) + behind


def _find_readings(history: History, state: State) -> tuple[dict[str, list[Reading]], dict[int, list[str]]]:
    """Return the reads by path, in the order of the conversation, and the files that each mention names."""
    readings: dict[str, list[Reading]] = {}
    files: dict[int, list[str]] = {}
    for message in range(max(state.start, 0), len(history)):
        done: tuple[str, ...] = ()
        if entry := state.entries.get(message):
            newest = next(iter(entry.blocks.values()), None)
            if entry.type != MENTION or (newest and len(newest.replaced) == len(newest.files)):
                continue
            done = newest.replaced if newest else ()
        content = history.get_content(message)
        if history.get_role(message) != "user" or isinstance(content, str) or not content:
            continue
        texts = [get_block_text(raw) for _, raw in content[:3]]
        if not texts[0]:
            continue
        tool = _read_tool_result(message, texts, [raw.get("type") for _, raw in content[:2]])
        if tool is not None:
            for path, reading in tool:
                readings.setdefault(path, []).append(reading)
            continue
        for block, text in enumerate(texts):
            named = list(_MENTIONED.finditer(text)) if "<file_content" in text else []
            for mention in named:
                if mention[1] not in done:
                    instead = f'<file_content path="{mention[1]}">{READ_AGAIN}</file_content>'
                    readings.setdefault(mention[1], []).append(
                        Reading(message, MENTION, block=block, instead=instead, search=mention[0])
                    )
            if named:
                files[message] = [mention[1] for mention in named]
                break
    return readings, files


def _read_tool_result(message: int, texts: list[str], types: list[str]) -> list[tuple[str, Reading]] | None:
    """Return the read that a tool result holds; [] if a write shows no file, None if the text may hold mentions.

    `texts` and `types` are those of the message's first blocks.
    """
    header = _HEADER.match(texts[0])
    if header is None:
        return None
    block = 0 if len(texts[0]) > header.end() else 1  # older versions put the file into the block after the header
    if header[1] == "read_file":
        instead = READ_AGAIN if block else f"{header[0]}\n{READ_AGAIN}"
        return [(header[2], Reading(message, READ, block, instead))]
    if header[1] not in ("replace_in_file", "write_to_file"):
        return None
    text = texts[0] if types[0] == "tool_result" or not block else texts[1] if types[1:] == ["text"] else ""
    if not text:
        return None
    if not _WRITTEN.search(text):
        return []
    instead = _WRITTEN.sub(lambda found: f"{found[1]} {READ_AGAIN} {found[2]}", text, count=1)
    return [(header[2], Reading(message, WRITE, block, instead))]


def _find_base(history: History, entries: Mapping[int, Entry], reading: Reading) -> tuple[str, tuple[str, ...], int]:
    """Return the text of a mention so far, and the files that were removed from it."""
    entry = entries.get(reading.message)
    newest = entry.blocks.get(reading.block) if entry else None
    content = history.get_content(reading.message)
    written = get_block_text(content[reading.block][1]) if not isinstance(content, str) else ""
    return (newest.text if newest else "") or written, newest.replaced if newest else (), reading.block


def _store(entries: dict[int, Entry], message: int, type_: int, block: int, text: Text) -> None:
    entry = entries.get(message)
    blocks = dict(entry.blocks) if entry else {}
    if newest := blocks.get(block):
        text = Text(text.text, updates=newest.updates + 1, before=newest.text, replaced=text.replaced, files=text.files)
    blocks[block] = text
    entries[message] = Entry(entry.type if entry else type_, blocks)


def _measure_image(raw: object) -> int:
    source = raw.get("source") if isinstance(raw, Mapping) and raw.get("type") == "image" else None
    data = source.get("data") if isinstance(source, Mapping) and source.get("type") == "base64" else ""
    return count_units(data) if isinstance(data, str) else 0
