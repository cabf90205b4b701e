"""Cline SDK sessions: `ID.messages.json` under `~/.cline/data/sessions/ID`, and `ID.compaction.json` in the same folder.

The file holds the conversation. A request is shorter: without the tags around a prompt, and at most 8,000 characters of
each text of a tool's result (`session/services/message-builder.ts` of Cline, version 3.0.65). The sidecar is what the newest
compaction left of the first messages, which stay in the file; earlier ones are told by prompts that fell. Longer than a mapping
for these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts
from turnscope.reading.recorded_body import find_common
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder, make_part
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Edit, Note, ObservedEdit, Part, Session, Span
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd
from turnscope.settings import Machine

NAME = "cline-sdk"
END = ".messages.json"
LIMIT = 8_000  # characters of each text of a result that are sent
MARK = "\n\n...[truncated {} chars]...\n\n"
BECAUSE = f"Cline sends at most {LIMIT:,} characters of each text of a result"
FALL = 0.9  # a prompt that is smaller than this share of the one before it was compacted
MARGIN = 0.95  # of the size that a round is taken to have: no prompt tells how large the one before a compaction was
INFERRED = "compacted: the prompt fell, and the log holds what the newest compaction left"
SUMMARIZED = "compacted into a summary that the log does not hold: the prompt fell; its size tells which rounds stayed"
RECENT, SUMMARY_MOST = 20_000, 4_096  # tokens, as Cline counts: of the newest messages that stay, of a summary at most
PER_TOKEN = 3  # characters of the JSON of a stored message (`estimateTokens` of @cline/shared)
SUMMARY = "compaction_summary"  # what the sidecar calls a message that a model wrote
_TAGGED = re.compile(r"\s*<(user_input|user_command)\b[^>]*>(.*)</\1>\s*", re.DOTALL)


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return 0
    return (
        90 if {"version", "sessionId"} <= document.keys() and {"agent", "updated_at", "system_prompt"} & document.keys() else 0
    )


def find_places(machine: Machine) -> Iterator[Place]:
    data = machine.find_folder("CLINE_DATA_DIR", machine.home / ".cline" / "data")
    yield Place(machine.find_folder("CLINE_SESSION_DATA_DIR", data / "sessions"), f"*/*{END}", find_main_path)


def find_main_path(path: Path) -> Path:
    """A session's sidecar and manifest open as its messages."""
    stem = (
        path.name.removesuffix(".compaction.json")
        if path.name.endswith(".compaction.json")
        else path.name.removesuffix(".json")
    )
    whole = path.with_name(stem + END)
    return whole if not path.name.endswith(END) and path.suffix == ".json" and whole.is_file() else path


def find_related(source: Source) -> list[Source]:
    if not source.path.name.endswith(END) or not sniff(source):
        return []
    stem = source.path.name.removesuffix(END)
    return [found for name in (f"{stem}.compaction.json", f"{stem}.json") if (found := source.open_sibling(name))]


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    stem = source.path.name.removesuffix(END).removesuffix(".json")
    manifest = source.open_sibling(f"{stem}.json") if source.path.name.endswith(END) else None
    about = as_mapping(manifest.document if manifest else None)
    builder, passed = Builder(as_text(document.get("sessionId")) or stem, NAME), SkippedRecords()
    builder.about |= {key: about[key] for key in ("cwd", "provider", "status", "source", "metadata") if about.get(key)}
    if as_text(document.get("agent")):
        builder.about["agent"] = document["agent"]
    if version := as_text(as_mapping(document.get("origin")).get("version")):
        builder.about["version"] = version
    model = as_text(about.get("model"))
    stored = [_convert_forms(message) for message in document["messages"]]
    nodes = list(make_nodes(stored, lambda message: _make_request(message, model), passed, "ts"))
    sidecar = source.open_sibling(f"{stem}.compaction.json")
    nodes = _add_compactions(nodes, document["messages"], as_mapping(sidecar.document if sidecar else None), builder.notes)
    prompt = as_text(document.get("system_prompt"))
    passed.add_notes(builder)
    lead = [NodeMessage("system", prompt, "system")] if prompt else []
    return build_thread(builder, nodes, lead=lead, observers=[_observe_cut_results])


def _convert_forms(message: Any) -> Any:
    """A stored message in the form in which it is sent, but whole: prompts without their tags, results as JSON text."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str) and message.get("role") == "user":
        return {**message, "content": _strip_tags(content)}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_convert_form(block, message.get("role")) for block in content]}


def _convert_form(block: Any, role: Any) -> Any:
    kind, content = (block.get("type"), block.get("content")) if isinstance(block, Mapping) else ("", None)
    if kind == "text" and role == "user" and isinstance(block.get("text"), str):
        return {**block, "text": _strip_tags(block["text"])}
    if kind == "tool_result" and isinstance(content, list) and not all(as_mapping(one).get("type") for one in content):
        return {**block, "content": _write_json(content)}
    return block


def _strip_tags(text: str) -> str:
    found = _TAGGED.fullmatch(text)
    return found[2].strip() if found else text


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cut_middle(text: str) -> str:
    """What Cline sends of a text: its ends, where it is longer than `LIMIT` characters (UTF-16 units, as JavaScript counts).

    Source: `truncateMiddleByChars` of `message-builder.ts`; the number in the mark is made before the mark's length is known.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    size = len(units) // 2
    if size <= LIMIT:
        return text
    removed = size - 2 * ((LIMIT - len(MARK.format(size - LIMIT))) // 2)
    keep = 2 * ((LIMIT - len(MARK.format(removed))) // 2)
    head, tail = (part.decode("utf-16-le", "replace") for part in (units[:keep], units[-keep:]))
    return f"{head}{MARK.format(removed)}{tail}"


def _cut_result(content: Any) -> Any:
    """What is sent of a result: each text in it is cut, also those inside JSON text."""
    value = parse_if_json(content) if isinstance(content, str) and len(content) > LIMIT else content
    if value is not content and isinstance(value, (list, dict)):
        return _write_json(_cut_texts(value))
    return _cut_texts(content)


def _cut_texts(value: Any) -> Any:
    if isinstance(value, str):
        return cut_middle(value)
    if isinstance(value, list):
        return [_cut_texts(one) for one in value]
    if not isinstance(value, Mapping) or value.get("type") in ("image", "media"):
        return value
    return {key: _cut_texts(one) for key, one in value.items()}


def _observe_cut_results(session: Session) -> Iterator[ObservedEdit]:
    """Results of which not all was sent, from the first request on that carried them."""
    for block in session.blocks:
        raw = as_mapping(block.raw) if block.kind == "tool_result" else {}
        sent = _cut_result(raw["content"]) if raw.get("content") else None
        if sent is not None and sent != raw["content"]:
            first = next((request.n for request in session.requests if request.cut > block.at), None)
            if first is not None:
                body = (make_part("user", {**raw, "content": sent}),)
                yield ObservedEdit(first, Edit("truncate", BECAUSE, Span(block.at, block.at + 1), body))


def _add_compactions(nodes: list[Node], stored: list[Any], sidecar: Mapping[str, Any], notes: list[Note]) -> list[Node]:
    """The nodes with what the sidecar says; it stands for the first messages of the file."""
    count, rows = sidecar.get("source_message_count"), as_rows(sidecar.get("messages"))
    if not rows or not isinstance(count, int) or isinstance(count, bool):
        return nodes
    if not 0 < count <= len(stored):
        notes.append(
            Note("warning", 0, f"a compaction stands for {count} messages, and the file holds {len(stored)}: it was left out")
        )
        return nodes
    # A node is named by its message's place; results of one round that are several messages are the node of the first.
    at = next((n for n, node in enumerate(nodes) if int(node.id) >= count), len(nodes))
    keep = _find_kept(nodes[:at], rows)
    about = [as_mapping(row.get("metadata")) for row in rows]
    before = next((row["tokensBefore"] for row in about if "tokensBefore" in row), None)
    facts = {"preTokens": before} if isinstance(before, int) else {}
    cut = Node(f"{count}-compaction", None, [], None, Cut("compacted: other messages stand for these", keep, facts=facts))
    if about[0].get("kind") == "compaction":
        _infer_compactions(nodes[:at], keep)
    elif about[0].get("kind") == SUMMARY:
        _infer_summaries(nodes[:at], stored)
    return [*nodes[:at], cut, *nodes[at:]]


def _find_kept(nodes: list[Node], rows: list[Mapping[str, Any]]) -> list[str | tuple[Part, ...]]:
    """What a compaction left: messages that are in the file, by their nodes, and others."""
    left = list(make_nodes([_convert_forms(row) for row in rows], lambda _: None, SkippedRecords()))
    messages = [node.messages[0] for node in left]
    mine = [(node.messages[0].role, dumps(node.messages[0].content)) for node in nodes]
    same = {y: x for x, y in find_common(mine, [(one.role, dumps(one.content)) for one in messages])}
    summed = as_mapping(rows[0].get("metadata")).get("kind") == SUMMARY
    return [
        nodes[same[n]].id if n in same else _make_kept(one, "summary" if summed and not n else "")
        for n, one in enumerate(messages)
    ]


def _make_kept(message: NodeMessage, kind: str) -> tuple[Part, ...]:
    return make_message_parts(message.role, [_cut_block(block) for block in message.content], kind)


def _cut_block(block: JSON) -> JSON:
    is_result = isinstance(block, Mapping) and block.get("type") == "tool_result"
    return {**block, "content": _cut_result(block.get("content"))} if is_result else block


def _infer_compactions(nodes: list[Node], kept: list[str | tuple[Part, ...]]) -> None:
    """Earlier compactions without a model show in a prompt that became smaller: what one of them kept, all later ones kept."""
    before = 0
    for number, node in enumerate(nodes):
        usage = _get_usage(node)
        if usage and usage.prompt_tokens < FALL * before:
            early = {one.id for one in nodes[:number]}
            node.cut = Cut(INFERRED, [one for one in kept if not isinstance(one, str) or one in early])
        before = usage.prompt_tokens if usage else before


def _infer_summaries(nodes: list[Node], stored: list[Any]) -> None:
    """Earlier compactions that asked a model left its summary, which the log does not hold, and the newest rounds.

    How many tells the prompt: a round is as large as the prompt grew by it, and what every prompt has is known from the first.
    It does not tell small rounds from a longer summary, so Cline's own rule decides where its outcome is about as large.
    """
    billed = [(n, used.prompt_tokens) for n, node in enumerate(nodes) if (used := _get_usage(node)) and used.prompt_tokens]
    rounds: list[tuple[int, float]] = []  # of the window: where each begins, and its tokens
    grown = characters = 0  # tokens and characters of rounds that a prompt grew by
    for (last, before), (at, prompt) in pairwise(billed):
        size = _count_characters(nodes[last:at])
        if prompt >= FALL * before or not characters:
            grown, characters = grown + max(0, prompt - before), characters + size
            rounds.append((last, prompt - before))
            continue
        scale = grown / max(1, characters)
        left = prompt - (billed[0][1] - scale * _count_characters(nodes[: billed[0][0]]))  # without system prompt and tools
        rounds.append((last, MARGIN * scale * size))
        first = _find_cut(nodes[:at], stored)
        stayed = scale * _count_characters(nodes[first:at])
        if first >= rounds[0][0] and MARGIN * stayed <= left <= stayed / MARGIN + SUMMARY_MOST:
            rounds = [one for one in rounds if one[0] >= first]
        else:
            sizes = accumulate(tokens for _, tokens in reversed(rounds))
            rounds = rounds[-max(1, sum(tokens <= left for tokens in sizes)) :]
            first = rounds[0][0]
        nodes[at].cut = Cut(SUMMARIZED, [node.id for node in nodes[first:at]])


def _find_cut(nodes: list[Node], stored: list[Any]) -> int:
    """The first node that stays by Cline's rule: an answer or a prompt, and none behind the newest prompt.

    Source: `findCutIndex` of `extensions/context/compaction-shared.ts` (cline/cline 21cb8d2525), on the stored messages.
    """
    counted, stop = 0, int(nodes[-1].id) + 1
    kinds = [node.messages[0].role == "assistant" or node.messages[0].origin != "tool" for node in nodes]
    prompts = [n for n, node in enumerate(nodes) if kinds[n] and node.messages[0].role == "user"]
    for n in range(len(nodes) - 1, -1, -1):
        first = int(nodes[n].id)
        counted += sum(-(-len(_write_json(message)) // PER_TOKEN) for message in stored[first:stop])
        stop = first
        if counted >= RECENT:
            at = min(n, prompts[-1]) if prompts and prompts[-1] > 0 else n
            return next((place for place in range(at, -1, -1) if kinds[place]), 0)
    return 0


def _get_usage(node: Node) -> Any:
    return (node.messages[0].request or {}).get("usage")


def _count_characters(nodes: Iterable[Node]) -> int:
    """Characters of messages as they are sent."""
    contents = (message.content for node in nodes for message in node.messages)
    return sum(len(c if isinstance(c, str) else dumps([_cut_block(block) for block in c])) for c in contents)


def _make_request(message: Mapping[str, Any], model: str) -> dict[str, Any]:
    reported, metrics = as_mapping(message.get("modelInfo")), as_mapping(message.get("metrics"))
    tokens = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    used = dict(
        zip(("inputTokens", "outputTokens", "cache_read_tokens", "cache_write_tokens"), map(metrics.get, tokens), strict=True)
    )
    return {
        "model": as_text(reported.get("id")) or model,
        "usage": convert_usage(used),
        "logged_usd": parse_usd(metrics.get("cost")),
    }


IMPORTER = Importer(
    NAME,
    "Cline session (ID.messages.json)",
    sniff,
    read,
    finds=find_places,
    related=find_related,
    part_of=find_main_path,
    suffixes=(".json",),
    wants="`messages` of a Cline SDK session",
    version=5,
    right="what was sent of each result; the compaction sidecar: what stands for the first messages",
)
