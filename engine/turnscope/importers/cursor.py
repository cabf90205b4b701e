"""Cursor's databases, `state.vscdb`: chats and composers of a workspace (`ItemTable`), or of all (`cursorDiskKV`, since 2025).

A composer holds its bubbles, or their ids alone; then each bubble is a row. A bubble with a tool's call holds what came back.
Newer bubbles have the tokens of their request. Longer than a mapping for the three places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text, make_thinking, make_usage
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "cursor"
COMPOSERS, CHATS = "composer.composerData", "workbench.panel.aichat.view.aichat.chatdata"
VALUES = {
    "ItemTable": "select value from ItemTable where key = ?",
    "cursorDiskKV": "select value from cursorDiskKV where key = ?",
}
ATTACHED = ("codeBlocks", "images", "attachedCodeChunks", "selectedImages", "fileSelections", "selections", "suggestedDiffs")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "sqlite":
        return 0
    tables = source.list_tables()
    if "cursorDiskKV" in tables and any(source.query("select 1 from cursorDiskKV where key like 'composerData:%' limit 1")):
        return 90
    has_chats = "ItemTable" in tables and any(
        source.query("select 1 from ItemTable where key in (?, ?) limit 1", (COMPOSERS, CHATS))
    )
    return 90 if has_chats else 0


def find_places(machine: Machine) -> Iterator[Place]:
    user = machine.config / "Cursor" / "User"
    yield Place(user / "globalStorage", "state.vscdb")
    yield Place(user / "workspaceStorage", "*/state.vscdb")


def _parse(source: Source, key: str, value: Any) -> Value:
    """A value as JSON; what is none is told."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)
    found = parse_if_json(text)
    if text and isinstance(found, str):
        what = f"the value of {key} is no JSON ({len(text):,} characters): what it holds is not shown"
        source.unread[0, what] = Note("warning", 0, what)
    return as_mapping(found)


def _get_item(source: Source, table: str, key: str) -> Value:
    if table not in source.list_tables():
        return {}
    return _parse(source, key, next((row.get("value") for row in source.query(VALUES[table], (key,))), None))


def _list_chats(source: Source) -> dict[str, Value]:
    """Every chat with messages, by its id. One that only names its bubbles is looked up when it is read."""
    if "chats" not in source.cache:
        found: dict[str, Value] = {}
        if "cursorDiskKV" in source.list_tables():
            for row in source.query("select key, value from cursorDiskKV where key like 'composerData:%'"):
                key = str(row.get("key"))
                found[key.partition(":")[2]] = _parse(source, key, row.get("value"))
        for composer in as_rows(_get_item(source, "ItemTable", COMPOSERS).get("allComposers")):
            found.setdefault(as_text(composer.get("composerId")), composer)
        for tab in as_rows(_get_item(source, "ItemTable", CHATS).get("tabs")):
            found.setdefault(as_text(tab.get("tabId")), tab)
        keys = ("conversation", "bubbles", "fullConversationHeadersOnly", "conversationMap")
        source.cache["chats"] = {id: chat for id, chat in found.items() if any(chat.get(key) for key in keys)}
    chats: dict[str, Value] = source.cache["chats"]
    return chats


def list_entries(source: Source) -> Iterator[Entry]:
    listed = [(id, chat, _find_time(chat)) for id, chat in _list_chats(source).items()]
    workspace = _find_workspace(source)
    for id, chat, at in sorted(listed, key=lambda row: -(row[2] or 0)):
        yield Entry(id, as_text(chat.get("name")) or as_text(chat.get("chatTitle")), at, project=workspace)


def _find_workspace(source: Source) -> str:
    """The folder that a workspace's database is for, as the file beside it names it; "" = it names none."""
    for near in source.find_siblings("workspace.json"):
        address = urlsplit(as_text(as_mapping(near.document).get("folder")))
        if address.scheme == "file":
            return unquote(address.path)
    return ""


def _find_time(chat: Value) -> float | None:
    return next((at for key in ("lastUpdatedAt", "lastSendTime", "createdAt") if (at := parse_time(chat.get(key)))), None)


def _iter_bubbles(source: Source, id: str, chat: Value, passed: SkippedRecords) -> Iterator[Value]:
    bubbles = as_rows(chat.get("conversation")) or as_rows(chat.get("bubbles"))
    if bubbles:
        yield from bubbles
        return
    inner = as_mapping(chat.get("conversationMap"))
    for head in as_rows(chat.get("fullConversationHeadersOnly")):
        key = as_text(head.get("bubbleId"))
        bubble = as_mapping(inner.get(key)) or _get_item(source, "cursorDiskKV", f"bubbleId:{id}:{key}")
        if bubble:
            yield bubble
        else:
            passed.add("bubble that the database does not hold", head)


def read(source: Source, entry: Entry) -> Thread:
    chat = _list_chats(source)[entry.id]
    builder, passed = Builder(entry.id or source.path.stem, NAME, entry.title), SkippedRecords()
    window = chat.get("contextTokenLimit")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    builder.about |= {key: chat[key] for key in ("contextTokensUsed", "unifiedMode", "status") if chat.get(key)}
    if workspace := _find_workspace(source):
        builder.about["workspace"] = workspace
    model = as_text(as_mapping(chat.get("modelConfig")).get("modelName"))
    _pass_summaries(chat, passed)
    nodes = list(_make_nodes(_iter_bubbles(source, entry.id, chat, passed), model, passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _make_nodes(bubbles: Iterable[Value], model: str, passed: SkippedRecords) -> Iterator[Node]:
    """A prompt for each bubble of the user. Bubbles of the model up to the next result are one answer."""
    open_: list[JSON] = []
    request: dict[str, Any] = {}
    before: float | None = None
    number = 0
    for number, bubble in enumerate(bubbles):
        at, text = parse_time(bubble.get("createdAt")), as_text(bubble.get("text")) or as_text(bubble.get("rawText"))
        for key in ATTACHED:
            if bubble.get(key):
                passed.add(key, bubble[key])
        _pass_summaries(bubble, passed)
        if bubble.get("type") in (1, "user"):
            if open_ or request:
                yield Node(f"{number} answer", None, [NodeMessage("assistant" if open_ else "", open_, request=request)])
            open_, request = [], {}
            if text:  # the newest bubble may be what is being typed
                yield Node(str(number), None, [NodeMessage("user", make_text(text))], at)
            before = at
            continue
        request = _describe_request(bubble, request, model, before, at)
        open_ += [*make_thinking(as_text(as_mapping(bubble.get("thinking")).get("text"))), *make_text(text)]
        tool = as_mapping(bubble.get("toolFormerData"))
        if tool.get("name"):
            id = as_text(tool.get("toolCallId")) or f"call {number}"
            call = make_call(id, as_text(tool.get("name")), tool.get("rawArgs") or tool.get("params"))
            yield Node(f"{number} answer", None, [NodeMessage("assistant", [*open_, call], request=request)], at)
            failed = tool.get("status") in ("error", "cancelled", "rejected")
            if tool.get("result") is not None or failed:
                result = make_result(id, tool.get("result") or as_text(tool.get("status")), failed)
                yield Node(f"{number} result", None, [NodeMessage("user", [result], "tool")], at)
            open_, request, before = [], {}, at
    if open_ or request:
        yield Node(f"{number} last", None, [NodeMessage("assistant" if open_ else "", open_, request=request)])


def _pass_summaries(record: Value, passed: SkippedRecords) -> None:
    """Count summaries that Cursor stored: where the prompt held one, and from when on, is in no record."""
    for key, value in record.items():
        if "summar" in key.lower() and value:
            passed.add(key, value)


def _describe_request(
    bubble: Value, known: Mapping[str, Any], model: str, before: float | None, at: float | None
) -> dict[str, Any]:
    """What the bubbles of an answer hold of its request: the first with tokens counts."""
    counts = as_mapping(bubble.get("tokenCount"))
    named = as_text(as_mapping(bubble.get("modelInfo")).get("modelName")) or as_text(bubble.get("modelType"))
    usage = known.get("usage") or make_usage(counts.get("inputTokens"), counts.get("outputTokens"))
    about = {"model": named or as_text(known.get("model")) or model, "usage": usage, "answered_at": at}
    return {"sent_at": before, **known, **about}


IMPORTER = Importer(
    NAME,
    "Cursor chats (state.vscdb)",
    sniff,
    read,
    list_entries,
    find_places,
    version=3,
    suffixes=(".vscdb",),
    wants="`composer.composerData`, chats of a panel, or `composerData:` rows",
    right="chats and composers of a workspace; bubbles in rows of their own, with calls, results and tokens",
)
