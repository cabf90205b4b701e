"""Cline SDK sessions: `ID.messages.json` under `~/.cline/data/sessions/ID`, and `ID.compaction.json` beside it.

The sidecar is what stands for the first messages, which stay in the file; longer than a mapping
because of it. From the schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import convert_message, make_nodes
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder, parse_usd
from turnscope.session.model import Note, Part
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "cline-sdk"
END = ".messages.json"


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return 0
    return (
        90 if {"version", "sessionId"} <= document.keys() and {"agent", "updated_at", "system_prompt"} & document.keys() else 0
    )


def find_places(machine: Machine) -> Iterator[Place]:
    given = machine.variables.get("CLINE_SESSION_DATA_DIR")
    data = machine.variables.get("CLINE_DATA_DIR")
    home = Path(data) if data else machine.home / ".cline" / "data"
    yield Place(Path(given) if given else home / "sessions", f"*/*{END}", find_main_path)


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
    model = as_text(about.get("model"))
    stored = document["messages"]
    nodes = list(make_nodes(stored, lambda message: _make_request(message, model), passed, "ts"))
    sidecar = source.open_sibling(f"{stem}.compaction.json")
    nodes = _add_compaction(nodes, stored, as_mapping(sidecar.document if sidecar else None), builder.notes)
    prompt = as_text(document.get("system_prompt"))
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=[NodeMessage("system", prompt, "system")] if prompt else [])


def _add_compaction(nodes: list[Node], stored: list[Any], sidecar: Mapping[str, Any], notes: list[Note]) -> list[Node]:
    """The nodes with what the sidecar says; it stands for the first messages of the file."""
    count, held = sidecar.get("source_message_count"), as_rows(sidecar.get("messages"))
    if not held or not isinstance(count, int) or isinstance(count, bool):
        return nodes
    if not 0 < count <= len(stored):
        notes.append(
            Note("warning", 0, f"a compaction stands for {count} messages, and the file holds {len(stored)}: it was left out")
        )
        return nodes
    # A node is named by its message's place; results of one round that are several messages are the node of the first.
    at = next((n for n, node in enumerate(nodes) if int(node.id) >= count), len(nodes))
    keep: list[tuple[Part, ...]] = [
        make_message_parts(role, blocks) for role, blocks in map(convert_message, held) if role and blocks
    ]
    before = next((row["metadata"]["tokensBefore"] for row in held if "tokensBefore" in as_mapping(row.get("metadata"))), None)
    facts = {"preTokens": before} if isinstance(before, int) else {}
    cut = Node(f"{count}-compaction", None, [], None, Cut("compacted: other messages stand for these", keep, facts=facts))
    return [*nodes[:at], cut, *nodes[at:]]


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
    right="the compaction sidecar: what stands for the first messages",
    sample=False,
)
