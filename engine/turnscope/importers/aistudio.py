"""Google AI Studio prompts, as they lie in Google Drive: `{runSettings, systemInstruction, chunkedPrompt}`.

Each chunk may have its tokens (`tokenCount`); no request has its own. Chunks of the model in a row are one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_google_part, make_text, make_thinking
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "aistudio"
REFERENCES = ("driveDocument", "driveImage", "driveVideo", "driveAudio", "youtubeVideo")
KNOWN_KEYS = (
    "role",
    "tokenCount",
    "isThought",
    "thinkingBudget",
    "thoughtSignatures",
    "finishReason",
    "createTime",
    "parts",
    "text",
)
Chunk = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = as_mapping(source.document if source.kind == "file" else None)
    return 95 if isinstance(as_mapping(document.get("chunkedPrompt")).get("chunks"), list) else 0


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    settings = as_mapping(document.get("runSettings"))
    builder.about |= {"runSettings": dict(settings)} if settings else {}
    instruction = as_mapping(document.get("systemInstruction"))
    system = [block for part in as_rows(instruction.get("parts")) or [instruction] for block in _convert(part, passed)]
    nodes: list[Node] = []
    for number, chunk in enumerate(as_rows(as_mapping(document.get("chunkedPrompt")).get("chunks"))):
        blocks, at = _convert(chunk, passed), parse_time(chunk.get("createTime"))
        last = nodes[-1].messages[0] if nodes else None
        role = "assistant" if chunk.get("role") == "model" else "user"
        if last is not None and role == last.role == "assistant":
            last.content = [*last.content, *blocks]
            last.request = {**(last.request or {}), "stop_reason": as_text(chunk.get("finishReason")) or None}
            continue
        request = {"model": as_text(settings.get("model")), "stop_reason": as_text(chunk.get("finishReason")) or None}
        nodes.append(Node(str(number), None, [NodeMessage(role, blocks, request=request if role == "assistant" else None)], at))
    counted = [
        count for row in as_rows(as_mapping(document.get("chunkedPrompt")).get("chunks")) if (count := row.get("tokenCount"))
    ]
    if total := sum(count for count in counted if isinstance(count, int)):
        builder.add_note("info", 0, f"{len(counted)} chunks report their tokens: {total:,} in all")
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=[NodeMessage("system", system, "system")] if system else [])


def _convert(chunk: Chunk, passed: SkippedRecords) -> list[JSON]:
    """A chunk's blocks; a reference to a file in Drive has no content in the prompt."""
    if parts := as_rows(chunk.get("parts")):
        return [
            block
            for part in parts
            for block in convert_google_part({**part, "thought": part.get("thought") or chunk.get("isThought")})
        ]
    text = as_text(chunk.get("text"))
    blocks = make_thinking(text) if chunk.get("isThought") is True else make_text(text)
    for key in (key for key in chunk if key not in KNOWN_KEYS):
        if key in ("inlineFile", "inlineData", "inlineImage") and isinstance(chunk[key], Mapping):
            blocks += convert_google_part({"inlineData": chunk[key]})
        elif key in REFERENCES or key in ("inlineFile", "inlineData", "inlineImage", "executableCode", "codeExecutionResult"):
            blocks.append({"type": "unknown", key: chunk[key]})
        else:
            passed.add(key, chunk[key])
    return blocks


IMPORTER = Importer(
    NAME,
    "Google AI Studio prompt (JSON)",
    sniff,
    read,
    suffixes=(".json", ""),  # in Google Drive its prompts have none
    names=("*.json", "Google AI Studio/*"),
    wants="`chunkedPrompt` with `chunks`",
    right="thoughts and answers of a turn as one request; settings of the run",
)
