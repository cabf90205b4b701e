"""Hermes Agent sessions: `~/.hermes/sessions/*.json`, one object with the prompt, tools and messages of Chat Completions.

No usage is stored. `session_meta` is a mark, no message.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import convert_tool, make_nodes
from turnscope.reading.nodes import NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "hermes"
ABOUT = ("platform", "session_start", "last_updated", "model_config", "base_url")


def sniff(source: Source) -> int:
    document = as_mapping(source.document if source.kind == "file" else None)
    marked = {"session_id", "session_start"} <= document.keys() and document.keys() & {"system_prompt", "platform"}
    return 90 if marked and isinstance(document.get("messages"), list) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".hermes" / "sessions", "*.json")


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(as_text(document.get("session_id")) or source.path.stem, NAME), SkippedRecords()
    builder.about |= {key: document[key] for key in ABOUT if document.get(key)}
    tools = [
        convert_tool({**tool, **as_mapping(tool.get("function")), "function": None}) for tool in as_rows(document.get("tools"))
    ]
    tools, system = [{k: v for k, v in tool.items() if v is not None} for tool in tools], as_text(document.get("system_prompt"))
    lead = [NodeMessage("tools", tools, "system")] if tools else []
    lead += [NodeMessage("system", system, "system")] if system else []
    messages = [message for message in as_rows(document.get("messages")) if message.get("role") != "session_meta"]
    model = as_text(document.get("model"))
    nodes = list(
        make_nodes(messages, lambda m: {"model": model, "stop_reason": as_text(m.get("finish_reason")) or None}, passed)
    )
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


IMPORTER = Importer(
    NAME,
    "Hermes session (JSON)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".json",),
    wants="`session_id` and `session_start` next to `messages`",
    right="prompt and tools as stored; reasoning, calls and results",
)
