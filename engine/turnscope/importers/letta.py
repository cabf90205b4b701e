"""Letta agent files (`.af`): agents with all their messages, and the ids of those that are in the context. From the schema.

When the others left is not reported, so the newest answer is taken to have been the first without them.
Longer than a mapping for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_result
from turnscope.reading.messages import convert_content, make_nodes
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.thread import Thread

NAME = "letta"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    agents = as_rows(document.get("agents")) if isinstance(document, dict) else []
    return 90 if agents and "in_context_message_ids" in agents[0] else 0


def list_entries(source: Source) -> Iterator[Entry]:
    for number, agent in enumerate(as_rows(as_mapping(source.document).get("agents"))):
        yield Entry(str(number), as_text(agent.get("name")) or as_text(agent.get("id")), parse_time(agent.get("created_at")))


def read(source: Source, entry: Entry) -> Thread:
    document = as_mapping(source.document)
    agent = as_rows(document.get("agents"))[int(entry.id)]
    config = as_mapping(agent.get("llm_config"))
    window = config.get("context_window")
    builder, passed = Builder(f"{source.path.stem}/{agent.get('id')}", NAME, entry.title), SkippedRecords()
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    model = as_text(config.get("model"))
    stored = as_rows(agent.get("messages"))
    nodes = list(_make_nodes(stored, model, passed))
    prompts = any(node.messages and node.messages[0].role == "system" for node in nodes)
    lead = [NodeMessage("system", agent["system"], "system")] if as_text(agent.get("system")) and not prompts else []
    named = {as_text(tool.get("id")): tool for tool in as_rows(document.get("tools"))}
    ids = agent.get("tool_ids")
    tools = [as_mapping(named.get(as_text(id))).get("json_schema") for id in (ids if isinstance(ids, list) else ())]
    if as_rows(tools):
        lead.insert(
            0, NodeMessage("tools", [{**tool, "input_schema": tool.get("parameters")} for tool in as_rows(tools)], "system")
        )
    _add_cut(nodes, agent.get("in_context_message_ids"))
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


def _make_nodes(stored: list[Value], model: str, passed: SkippedRecords) -> Iterator[Node]:
    """A node for each message, by its id in the file."""
    for number, message in enumerate(stored):
        id = as_text(message.get("id")) or f"#{number}"
        returned = as_rows(message.get("tool_returns"))
        if message.get("role") == "tool" and returned:
            content = [
                make_result(
                    as_text(one.get("tool_call_id")), one.get("func_response") or dumps(one), one.get("status") == "error"
                )
                for one in returned
            ]
            yield Node(id, None, [NodeMessage("user", content, "tool")], parse_time(message.get("created_at")))
        elif message.get("role") == "summary":
            yield Node(
                id,
                None,
                [NodeMessage("user", convert_content(message.get("content")), "summary", "summary")],
                parse_time(message.get("created_at")),
            )
        else:
            named = as_text(message.get("model")) or model
            for node in make_nodes([message], lambda _, named=named: {"model": named}, passed, "created_at"):  # type: ignore[misc]
                node.id = id
                node.messages[0].fence = node.messages[0].role == "system" and number > 0
                yield node


def _add_cut(nodes: list[Node], ids: Any) -> None:
    """What the newest answer was asked with, where not all that was said is in the context any more."""
    context = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
    last = next((n for n in range(len(nodes) - 1, -1, -1) if nodes[n].messages and nodes[n].messages[0].role == "assistant"), 0)
    before = [node.id for node in nodes[:last] if node.messages and node.messages[0].role != "system"]
    keep = [id for id in context if id in before]
    if last and nodes[last].id in context and keep != before:
        nodes[last].cut = Cut("not in the agent's context any more", keep)


IMPORTER = Importer(
    NAME,
    "Letta agent file (.af)",
    sniff,
    read,
    list_entries,
    suffixes=(".af", ".json"),
    wants="agent file with `agents` and `messages`",
    right="what is in the context, and what has left it",
    sample=False,
)
