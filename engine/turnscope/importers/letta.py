"""Letta agent files (`.af`): agents with all their messages, and the ids of those that are in the context.

Memory blocks that the stored system message lacks stand behind it: the next request has them. A file may be a JSON string that
holds the object, as the API gives it. When the others left is not reported, so the newest answer counts as the first
without them. Longer than a mapping for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_result, make_text
from turnscope.reading.messages import convert_content, make_nodes
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source, parse_json
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.thread import Thread

NAME = "letta"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    agents = as_rows(_get_document(source).get("agents")) if source.kind == "file" else []
    return 90 if agents and "in_context_message_ids" in agents[0] else 0


def _get_document(source: Source) -> Value:
    """The file's object, which may stand in a JSON string."""
    if source.document is None and source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b'"{', b'"\\n{')):
        if "document" not in source.cache:
            text = parse_json(source.data)
            source.cache["document"] = as_mapping(parse_if_json(text) if isinstance(text, str) else None)
        found: Value = source.cache["document"]
        return found
    return as_mapping(source.document)


def list_entries(source: Source) -> Iterator[Entry]:
    for number, agent in enumerate(as_rows(_get_document(source).get("agents"))):
        yield Entry(str(number), as_text(agent.get("name")) or as_text(agent.get("id")), parse_time(agent.get("created_at")))


def read(source: Source, entry: Entry) -> Thread:
    document = _get_document(source)
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
    memory = _make_memory(
        document, agent, [*lead, *(m for node in nodes for m in node.messages if m.role == "system")], builder
    )
    stands = nodes[0].messages if nodes and nodes[0].messages and nodes[0].messages[0].role == "system" else lead
    stands += memory
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


def _make_memory(document: Value, agent: Value, prompts: list[NodeMessage], builder: Builder) -> list[NodeMessage]:
    """The agent's memory blocks and open files that no stored prompt holds, one message."""
    ids, known = agent.get("block_ids"), "\n".join(extract_text(message.content) for message in prompts)
    listed = ids if isinstance(ids, list) else []
    blocks = [one for one in as_rows(document.get("blocks")) if one.get("id") in listed]
    files = [one for one in as_rows(agent.get("files_agents")) if one.get("is_open") is True]
    opened = [{"label": one.get("file_name"), "value": one.get("visible_content")} for one in files]
    held = [*blocks, *opened]
    missing = [one for one in held if (value := as_text(one.get("value")).strip()) and value not in known]
    if not missing:
        return []
    shown = sum(one in opened for one in missing)
    for count, name in ((len(missing) - shown, "memory blocks"), (shown, "open files")):
        if count:
            builder.add_note("info", 0, f"{count} {name} are not in the stored system message: they stand behind it")
    texts = [f"<{as_text(one.get('label'))}>\n{one['value']}\n</{as_text(one.get('label'))}>" for one in missing]
    return [NodeMessage("system", [block for text in texts for block in make_text(text)], "system", "memory")]


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
    """The prompt of the newest answer, where the context no longer holds the whole conversation."""
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
    right="what is in the context, and what has left it; memory blocks",
    version=3,
)
