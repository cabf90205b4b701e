"""LM Studio's conversations: `<time>.conversation.json` under `conversations` of its folder.

A message has versions, of which one is selected; an answer is one step, or several with calls and what they gave. What the
model's server measured of a step is its usage. A prompt that a plugin rewrote is read as it was sent. From the schema; no
real sample was at hand. Longer than a mapping for two kinds of ids of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "lm-studio"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = as_mapping(source.document if source.kind == "file" else None)
    rows = as_rows(document.get("messages"))
    return 90 if rows and all(isinstance(row.get("versions"), list) and "currentlySelected" in row for row in rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for folder in (machine.home / ".lmstudio", machine.home / ".cache" / "lm-studio"):
        yield Place(folder / "conversations", "**/*.conversation.json")


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(source.path.name.partition(".")[0], NAME), SkippedRecords()
    builder.title = as_text(document.get("name"))
    named = as_mapping(document.get("lastUsedModel"))
    model = as_text(named.get("indexedModelIdentifier")) or as_text(named.get("identifier"))
    about = {"tokenCount": document.get("tokenCount"), "model": model}
    builder.about |= {key: value for key, value in about.items() if value}
    at = parse_time(document.get("createdAt"))
    nodes: list[Node] = []
    up: str = ""
    for number, row in enumerate(as_rows(document.get("messages"))):
        versions, chosen = as_rows(row.get("versions")), row.get("currentlySelected")
        chosen = chosen if isinstance(chosen, int) and 0 <= chosen < len(versions) else 0
        for place, version in enumerate(versions):
            node = Node(f"{number}.{place}", up, list(_convert_version(version, model, passed)), None if number else at)
            nodes.append(node)
        up = f"{number}.{chosen}" if versions else up
    system = as_text(document.get("systemPrompt"))
    passed.add_notes(builder)
    return build_thread(builder, nodes, up, lead=[NodeMessage("system", system, "system")] if system else [])


def _convert_version(version: Value, model: str, passed: SkippedRecords) -> Iterator[NodeMessage]:
    """The messages of one version: a prompt, or an answer with a request for each round of calls."""
    role = as_text(version.get("role"))
    ids: dict[str, str] = {}  # a call's number -> the id of its request
    if role != "assistant":
        sent = as_mapping(version.get("preprocessed")).get("content")
        content = _convert_parts(sent or version.get("content"), ids, passed)
        if content and role in ("user", "system"):
            yield NodeMessage(role, content, "system" if role == "system" else "", fence=role == "system")
        elif content:
            passed.add(f"message of role {role}", version)
        return
    steps = as_rows(version.get("steps")) or [{"type": "contentBlock", **version}]
    blocks: list[JSON] = []
    request: dict[str, Any] = {"model": model}
    for step in steps:
        made = list(_convert_step(step, ids, passed))
        results = [block for block in made if block["type"] == "tool_result"]
        if results:
            yield NodeMessage("assistant" if blocks else "", blocks, request=request)
            yield NodeMessage("user", results, "tool")
            blocks, request = [], {"model": model}
        blocks += [block for block in made if block["type"] != "tool_result"]
        request |= _describe_request(step)
    if blocks or version.get("type") == "singleStep":
        yield NodeMessage("assistant" if blocks else "", blocks, request=request)


def _describe_request(step: Value) -> dict[str, Any]:
    """What the server measured of a step; nothing where it measured nothing."""
    made = as_mapping(step.get("genInfo"))
    stats = as_mapping(made.get("stats"))
    usage = make_usage(stats.get("promptTokensCount"), stats.get("predictedTokensCount"))
    facts = {
        "usage": usage,
        "stop_reason": as_text(stats.get("stopReason")),
        "model": as_text(made.get("indexedModelIdentifier")),
    }
    speed = {key: stats[key] for key in ("tokensPerSecond", "timeToFirstTokenSec") if stats.get(key) is not None}
    return {key: value for key, value in (*facts.items(), ("settings", speed)) if value}


def _convert_step(step: Value, ids: dict[str, str], passed: SkippedRecords) -> Iterator[JSON]:
    kind = as_text(step.get("type"))
    if kind == "contentBlock":
        thought = as_mapping(step.get("style")).get("type") == "thinking"
        for block in _convert_parts(step.get("content"), ids, passed):
            if thought and block["type"] == "text":
                yield from make_thinking(block["text"])
            elif block["type"] == "text":
                yield from split_thinking(block["text"])
            else:
                yield block
    elif kind == "toolStatus":  # how a call went: its result stands in a step of its own
        status = as_mapping(as_mapping(step.get("statusState")).get("status"))
        if as_text(status.get("error")):
            yield make_result(_find_id(step, ids), status["error"], failed=True)
    else:
        passed.add(f"step {kind}", step)


def _find_id(part: Value, ids: Mapping[str, str]) -> str:
    named = [str(part[key]) for key in ("toolCallRequestId", "toolCallId", "callId") if part.get(key) not in (None, "")]
    return next((ids[one] for one in named if one in ids), named[0] if named else "")


def _convert_parts(content: Any, ids: dict[str, str], passed: SkippedRecords) -> list[JSON]:
    blocks: list[JSON] = make_text(content) if isinstance(content, str) else []
    for part in as_rows(content):
        match part.get("type"):
            case "text":
                blocks += make_text(as_text(part.get("text")))
            case "toolCallRequest":
                id = _find_id(part, {})
                ids |= {str(part[key]): id for key in ("toolCallRequestId", "callId") if part.get(key) not in (None, "")}
                blocks.append(make_call(id, as_text(part.get("name")), part.get("parameters", part.get("arguments"))))
            case "toolCallResult":
                given = part.get("content")
                blocks.append(make_result(_find_id(part, ids), extract_text(given) if isinstance(given, list) else given))
            case "file":
                address = as_text(part.get("fileIdentifier")) or as_text(part.get("name"))
                document: JSON = {"type": "document", "source": {"type": "file", "file_id": address}}
                blocks.append(make_image(address) if part.get("fileType") == "image" else document)
            case kind:
                passed.add(f"part {kind}", part)
    return blocks


IMPORTER = Importer(
    NAME,
    "LM Studio conversation (JSON)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".json",),
    wants="`messages` with `versions` and `currentlySelected`",
    right="versions as branches; steps with calls and what they gave; what the server measured",
    sample=False,
)
