"""LobeChat: what is shared of a chat (JSON, simple or full), a database export, or a legacy backup.

Messages hang on session and topic. Older versions keep them as a list; where prompts name parents they are a tree, in which
`activeBranchIndex` says where the main path goes. A placeholder `...` with an error is a request without an answer.
Longer than a mapping for the four containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    join_blocks,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.leaves import follow_choices
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count, parse_usd

NAME = "lobechat"
TABLES = {"messages", "sessions", "topics", "agents", "messagePlugins", "userSettings", "threads"}
FLAGS = ("isMultimodal", "agentCouncil", "compare", "compressionSummary")  # of a message's metadata, that requests hang on
CALL = ("id", "identifier", "apiName", "arguments", "type", "thoughtSignature")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if isinstance(document, dict):
        backup = "exportType" in document and isinstance(document.get("state"), dict)
        shared = {"version", "exportedAt"} <= document.keys() and isinstance(document.get("messages"), list)
        data = document.get("data")
        return 95 if backup or (isinstance(data, dict) and TABLES & data.keys()) else 90 if shared else 0
    simple = as_rows(document[:200]) if isinstance(document, list) else []
    spoken = bool(simple) and all({"role", "content"} <= row.keys() for row in simple)
    return 85 if spoken and any("apiName" in tool for row in simple for tool in as_rows(row.get("tools"))) else 0


def _read_tables(source: Source) -> dict[str, Any]:
    """Messages by conversation, and what is stored about those: by the ids of session and topic."""
    if "tables" not in source.cache:
        document = source.document
        state = as_mapping(document.get("state") or document.get("data")) if isinstance(document, dict) else {}
        stored = as_rows(document if isinstance(document, list) else state.get("messages") or document.get("messages"))
        plugins = {str(row.get("id")): row for row in as_rows(state.get("messagePlugins"))}
        talks: dict[str, list[Value]] = {}
        for row in stored:
            key = "/".join(str(row.get(name) or "") for name in ("sessionId", "topicId") if state)
            talks.setdefault(key, []).append({**row, "_plugin": plugins.get(str(row.get("id")), row.get("plugin"))})
        about = {
            name: {str(row.get("id")): row for row in as_rows(state.get(name))}
            for name in ("sessions", "topics", "agents", "threads")
        }
        links = {str(row.get("sessionId")): str(row.get("agentId")) for row in as_rows(state.get("agentsToSessions"))}
        source.cache["tables"] = {"talks": talks, "links": links, **about}
    tables: dict[str, Any] = source.cache["tables"]
    return tables


def list_entries(source: Source) -> Iterator[Entry]:
    tables = _read_tables(source)
    for key, talk in tables["talks"].items():
        session, _, topic = key.partition("/")
        named = as_text(as_mapping(tables["topics"].get(topic)).get("title"))
        whose = as_mapping(tables["sessions"].get(session))
        title = named or as_text(whose.get("title")) or as_text(as_mapping(whose.get("meta")).get("title"))
        document = source.document
        title = title or (as_text(document.get("title")) if isinstance(document, dict) else "")
        yield Entry(
            key if len(tables["talks"]) > 1 else "",
            title,
            max(filter(None, (parse_time(m.get("createdAt")) for m in talk)), default=None),
        )


def read(source: Source, entry: Entry) -> Thread:
    tables = _read_tables(source)
    key = entry.id or next(iter(tables["talks"]))
    session, _, topic = key.partition("/")
    whose = as_mapping(tables["sessions"].get(session))
    agent = as_mapping(tables["agents"].get(tables["links"].get(session, ""))) or as_mapping(whose.get("config"))
    builder = Builder(entry.id or source.path.stem, NAME, entry.title)
    reported = {
        "chatConfig": agent.get("chatConfig"),
        "historySummary": as_mapping(tables["topics"].get(topic)).get("historySummary"),
    }
    passed = SkippedRecords()
    talk = [
        m
        for _, m in sorted(enumerate(tables["talks"][key]), key=lambda row: (parse_time(row[1].get("createdAt")) or 0, row[0]))
    ]
    newest = next((as_text(m.get("id")) for m in reversed(talk) if m.get("role") in ("user", "assistant")), "")
    reported["historySummaryBehind"] = newest if reported["historySummary"] else ""
    builder.about |= {key: value for key, value in reported.items() if value}
    linked = any(m.get("role") == "user" and m.get("parentId") for m in talk)
    nodes = list(_make_nodes(talk, linked, tables["threads"], as_text(agent.get("model")), builder, passed))
    facts = {node.id: _select_stored(message) for node, message in zip(nodes, talk, strict=True) if node.messages}
    builder.about |= {"stored": {NAME: facts}} if facts else {}
    role = as_text(agent.get("systemRole"))
    passed.add_notes(builder)
    if linked:
        main = [
            node for node, m in zip(nodes, talk, strict=True) if not m.get("threadId")
        ]  # a thread hangs from what it is about
        current = _find_active(main or nodes, {as_text(m.get("id")): as_mapping(m.get("metadata")) for m in talk})
    else:
        current = next((node.id for node, m in zip(nodes[::-1], talk[::-1], strict=True) if not m.get("threadId")), "")
    return build_thread(builder, nodes, current, [NodeMessage("system", role, "system")] if role else [])


def _make_nodes(
    talk: list[Value], linked: bool, threads: Mapping[str, Value], model: str, builder: Builder, passed: SkippedRecords
) -> Iterator[Node]:
    """A node for each message. What belongs to a thread branches off from the message that the thread was opened at."""
    before, last = None, dict[str, str]()
    for number, message in enumerate(talk):
        up = as_text(message.get("parentId")) if linked else ""
        aside = as_text(message.get("threadId"))
        thread = as_mapping(threads.get(aside))
        title = "" if aside in last else as_text(thread.get("title"))
        up = up or last.get(aside, as_text(thread.get("sourceMessageId")) or ("" if thread else last.get("", "")))
        node = Node(as_text(message.get("id")) or f"#{number}", up, [], parse_time(message.get("createdAt")), title=title)
        last[aside] = node.id
        node.messages = _make_messages(message, model, before, passed)
        error = as_mapping(message.get("error"))
        if error:
            builder.add_note(
                "warning", 0, f"a request failed: {as_text(error.get('type') or error.get('message')) or 'for no known reason'}"
            )
        before = node.at
        yield node


def _make_messages(message: Value, model: str, before: float | None, passed: SkippedRecords) -> list[NodeMessage]:
    role, reported = message.get("role"), as_text(message.get("content"))
    if role == "user":
        return [
            NodeMessage(
                "user",
                join_blocks(
                    [*make_text(reported), *(make_image(as_text(i.get("url"))) for i in as_rows(message.get("imageList")))]
                ),
                "prompt",
            )
        ]
    if role == "system":
        return [NodeMessage("system", reported, "system", fence=True)]
    if role == "tool":
        plugin = as_mapping(message.get("_plugin"))
        id = as_text(message.get("tool_call_id")) or as_text(plugin.get("toolCallId"))
        return [
            NodeMessage("user", [make_result(id, reported, bool(message.get("pluginError") or plugin.get("error")))], "tool")
        ]
    if role == "compressedGroup":
        return [NodeMessage("user", reported, "summary", "summary")]
    if role not in ("assistant", "supervisor", "assistantGroup"):
        passed.add(f"message of role {role}", message)
        return []
    blocks = [block for part in (message, *as_rows(message.get("children"))) for block in _convert_content(part)]
    extra, metadata = as_mapping(message.get("extra")), as_mapping(message.get("metadata"))
    used = as_mapping(message.get("usage")) or as_mapping(metadata.get("usage")) or metadata
    request = {
        "model": as_text(message.get("model")) or as_text(extra.get("fromModel")) or model,
        "usage": _convert_usage(used),
        "logged_usd": parse_usd(used.get("cost")),
        "sent_at": before,
        "stop_reason": "error" if message.get("error") else as_text(metadata.get("finishType")) or None,
    }
    return split_rounds(blocks, request, parallel=True) or [NodeMessage("", request=request)]


@measured
def _convert_usage(used: Value) -> Usage | None:
    """Older versions have no total of the prompt: `inputTokens` holds what was cached, or excludes it."""
    names = "totalInputTokens inputTokens inputCacheMissTokens inputWriteCacheTokens totalOutputTokens outputTokens".split()
    total, prompt, missed, written, output, answer = (parse_count(used.get(name), name) for name in names)
    cached = parse_count(used.get("inputCachedTokens", used.get("cachedTokens")), "cached tokens")
    apart = cached + written if not prompt or prompt == missed or cached + written > prompt else 0
    return make_usage(total or (prompt or missed) + apart, output or answer, cached, written)


def _select_stored(message: Value) -> dict[str, JSON]:
    """A message as it is stored, as far as the app's requests hang on it."""
    plugin, metadata = as_mapping(message.get("_plugin")), as_mapping(message.get("metadata"))
    error = as_mapping(message.get("pluginError")) or as_mapping(plugin.get("error"))
    reasoning = as_mapping(message.get("reasoning"))
    used = as_mapping(message.get("usage")) or as_mapping(metadata.get("usage")) or metadata
    facts: dict[str, JSON] = {
        "tools": [_select_stored_call(tool) for tool in as_rows(message.get("tools"))],
        "tool_call_id": as_text(message.get("tool_call_id")) or as_text(plugin.get("toolCallId")),
        "plugin": {key: as_text(plugin.get(key)) for key in ("identifier", "apiName", "type") if plugin.get(key)},
        "pluginError": {"message": as_text(error.get("message"))} if error else None,
        "reasoning": {key: as_text(reasoning.get(key)) for key in ("content", "signature") if reasoning.get(key)},
        "imageList": [{key: as_text(one.get(key)) for key in ("url", "alt")} for one in as_rows(message.get("imageList"))],
        "fileList": [{key: as_text(one.get(key)) for key in ("url", "name")} for one in as_rows(message.get("fileList"))],
        "usage": {"totalOutputTokens": used["totalOutputTokens"]} if isinstance(used.get("totalOutputTokens"), int) else None,
        "metadata": {key: metadata[key] for key in FLAGS if metadata.get(key) is True}
        | ({"reactions": _get_emojis(metadata)} if _get_emojis(metadata) else {}),
        "children": [_select_stored(child) for child in as_rows(message.get("children"))],
        **{key: as_text(message.get(key)) for key in ("id", "parentId", "agentId")},
    }
    spoken = {"role": as_text(message.get("role")), "content": as_text(message.get("content"))}
    return spoken | {key: value for key, value in facts.items() if value}


def _select_stored_call(tool: Value) -> JSON:
    facts: dict[str, JSON] = {key: as_text(tool[key]) for key in CALL if tool.get(key)}
    gave = tool.get("result")
    if isinstance(gave, Mapping):
        error = as_mapping(gave.get("error"))
        facts["result"] = {"id": as_text(gave.get("id")), "content": as_text(gave.get("content"))}
        facts["result"] |= {"error": {"message": as_text(error.get("message"))}} if error else {}
    return facts


def _get_emojis(metadata: Value) -> list[JSON]:
    found = (as_text(one.get("emoji")) for one in as_rows(metadata.get("reactions")))
    return [{"emoji": emoji} for emoji in found if emoji]


def _convert_content(message: Value) -> list[JSON]:
    reasoning, reported = as_mapping(message.get("reasoning")), as_text(message.get("content"))
    reported = "" if reported == "..." else reported
    blocks = make_thinking(as_text(reasoning.get("content")), as_text(reasoning.get("signature")))
    blocks += make_text(reported) if blocks else split_thinking(reported)
    answers: list[JSON] = []
    for tool in as_rows(message.get("tools")):
        id = as_text(tool.get("id"))
        name = "____".join(filter(None, (as_text(tool.get("identifier")), as_text(tool.get("apiName")))))
        blocks.append(make_call(id, name, tool.get("arguments")))
        if isinstance(tool.get("result"), Mapping):
            answers.append(make_result(id, tool["result"].get("content"), bool(tool["result"].get("error"))))
    return [*blocks, *answers]


def _find_active(nodes: list[Node], metadata: Mapping[str, Value]) -> str:
    """The leaf that is shown: the child that its parent names, else the first that goes on, else the first."""
    parents = {node.parent for node in nodes}

    def choose(at: str, below: Sequence[Node]) -> str:
        index = metadata.get(at, {}).get("activeBranchIndex")
        if isinstance(index, int) and 0 <= index < len(below):
            return below[index].id
        return next((node.id for node in below if node.id in parents), below[0].id)

    return follow_choices(nodes, choose)


IMPORTER = Importer(
    NAME,
    "LobeChat export (shared chat, database or backup)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="shared chat (`version`, `exportedAt`), database export or backup (`exportType`)",
    right="each topic a conversation; trees where prompts name parents; failed answers",
    version=5,
)
