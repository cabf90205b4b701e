"""GitHub Copilot's chat on the web, as its export writes it: `{threadUrl, threadName, messages}`, a tree by `parentMessageID`.

Neither models nor tokens are in the log. What skills ran and which files were referred to is noted with its size.
"""

from __future__ import annotations

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "copilot-web"
ASIDE = ("references", "skillExecutions", "confirmations", "copilotAnnotations")


def sniff(source: Source) -> int:
    document = as_mapping(source.document if source.kind == "file" else None)
    return 90 if {"threadUrl", "threadName"} <= document.keys() and isinstance(document.get("messages"), list) else 0


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(source.path.stem, NAME, as_text(document.get("threadName"))), SkippedRecords()
    builder.about |= {key: document[key] for key in ("threadUrl",) if document.get(key)}
    nodes: list[Node] = []
    times: dict[str, float | None] = {}
    for number, message in enumerate(as_rows(document.get("messages"))):
        id, up = as_text(message.get("id")) or f"#{number}", as_text(message.get("parentMessageID"))
        role, content, at = message.get("role"), as_text(message.get("content")), parse_time(message.get("createdAt"))
        node = Node(id, up, [], at)
        times[id] = at
        if role == "assistant":
            request = {"sent_at": times.get(up), "answered_at": at}
            node.messages = [NodeMessage("assistant" if content else "", content, request=request)]
        elif role == "user" and content:
            node.messages = [NodeMessage("user", content)]
        elif content:
            passed.add(f"message of role {role}", message)
        for key in ASIDE:
            if message.get(key):
                passed.add(key, message[key])
        nodes.append(node)
    for file in as_rows(document.get("files")):
        passed.add("file", file)
    passed.add_notes(builder)
    return build_thread(builder, nodes, find_newest_leaf(nodes))


IMPORTER = Importer(
    NAME,
    "GitHub Copilot chat of the web (JSON export)",
    sniff,
    read,
    suffixes=(".json",),
    wants="`threadUrl` and `threadName` next to `messages`",
    right="the tree with its branches",
)
