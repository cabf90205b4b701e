"""ChatGPT data exports: `conversations.json`, in its zip or alone, in shards, wrapped in an object, or one conversation.

A conversation is a `mapping` of nodes. A call is an assistant's message to somebody else than `all`, its result a tool's
message below it. Usage, and what was really sent, is not in an export; nor are the app's own windows, which differ by plan
from those that the same models have elsewhere.
Longer than a mapping because calls have no ids and thoughts stand in nodes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_call, make_result, make_text, make_thinking
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "chatgpt"
NEAR = 50  # nodes above an answer that are looked at for its thoughts and for the time of its prompt
THOUGHTS = ("thoughts", "reasoning_recap")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    found = peek_first(source)
    mapped = isinstance(found.get("mapping"), dict)
    return 95 if mapped and ({"title", "create_time", "current_node", "conversation_id"} & found.keys()) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    id = as_text(value.get("conversation_id")) or as_text(value.get("id"))
    at = parse_time(value.get("update_time")) or parse_time(value.get("create_time"))
    return Entry(id, as_text(value.get("title")), at, requests=0)


def read(source: Source, entry: Entry) -> Thread:
    value = get_conversation(source, entry)
    builder = Builder(entry.id or source.path.stem, NAME, entry.title)
    builder.about |= {key: value[key] for key in ("gizmo_id", "conversation_origin", "is_archived") if value.get(key)}
    builder.window = 0
    passed = SkippedRecords()
    tree = {str(id): as_mapping(node) for id, node in as_mapping(value.get("mapping")).items()}
    nodes = [_make_node(id, tree, as_text(value.get("default_model_slug")), passed) for id in tree]
    current = value.get("current_node")
    passed.add_notes(builder)
    return build_thread(builder, nodes, current if isinstance(current, str) and current in tree else find_newest_leaf(nodes))


def _make_node(id: str, tree: Mapping[str, Value], model: str, passed: SkippedRecords) -> Node:
    message = as_mapping(tree[id].get("message"))
    node = Node(id, as_text(tree[id].get("parent")), [], parse_time(message.get("create_time")))
    role, content, about = (
        as_text(as_mapping(message.get("author")).get("role")),
        as_mapping(message.get("content")),
        _get_metadata(message),
    )
    kind = as_text(content.get("content_type"))
    if not message or (
        kind in THOUGHTS and any(_get_role(tree, str(child)) == "assistant" for child in _get_children(tree[id]))
    ):
        return node  # thoughts stand in the answer below them
    blocks = _convert_content(content, passed)
    if kind == "user_editable_context" or role == "system":
        user = about.get("is_user_system_message") is True
        blocks = make_text(dumps(about.get("user_context_message_data"))) if user and not blocks else blocks
        node.messages = [NodeMessage("system", join_blocks(blocks), "system", fence=True)] if blocks else []
    elif role == "user":
        node.messages = [
            NodeMessage(
                "user", join_blocks(blocks), "meta" if about.get("is_visually_hidden_from_conversation") is True else ""
            )
        ]
    elif role == "tool":
        node.messages = [
            NodeMessage(
                "user", [make_result(_find_call(id, tree), blocks if len(blocks) > 1 else extract_text(blocks))], "tool"
            )
        ]
    elif role == "assistant":
        to = as_text(message.get("recipient")) or "all"
        if to != "all":
            blocks = [make_call(id, to, {"input": extract_text(blocks)} if not _is_object(blocks) else extract_text(blocks))]
        above = [tree[up] for up in islice(_iter_ancestors(id, tree), NEAR)]
        node.messages = [NodeMessage("assistant", [*_convert_thoughts(above, passed), *blocks], request={})]
        node.messages[0].request = {
            "model": as_text(about.get("model_slug")) or model,
            "sent_at": next((at for up in above if (at := parse_time(as_mapping(up.get("message")).get("create_time")))), None),
            "stop_reason": as_text(as_mapping(about.get("finish_details")).get("type")) or None,
        }
    else:
        passed.add(f"message of role {role}", message)
    return node


def _is_object(blocks: list[JSON]) -> bool:
    return extract_text(blocks).lstrip().startswith("{")


def _get_metadata(message: Value) -> Value:
    return as_mapping(message.get("metadata"))


def _get_children(node: Value) -> list[Any]:
    children = node.get("children")
    return children if isinstance(children, list) else []


def _get_role(tree: Mapping[str, Value], id: str) -> str:
    return as_text(as_mapping(as_mapping(tree.get(id, {}).get("message")).get("author")).get("role"))


def _iter_ancestors(id: str, tree: Mapping[str, Value]) -> Iterator[str]:
    """The nodes above one, the nearest first."""
    seen = {id}
    at = as_text(tree[id].get("parent"))
    while at in tree and at not in seen:
        seen.add(at)
        yield at
        at = as_text(tree[at].get("parent"))


def _convert_thoughts(above: list[Value], passed: SkippedRecords) -> list[JSON]:
    """What was thought directly above an answer."""
    found: list[JSON] = []
    for up in above:
        content = as_mapping(as_mapping(up.get("message")).get("content"))
        if content.get("content_type") not in THOUGHTS:
            break
        found = [*_convert_content(content, passed), *found]
    return found


def _find_call(id: str, tree: Mapping[str, Value]) -> str:
    """The call that a tool's message answers: the nearest one above it."""
    for up in _iter_ancestors(id, tree):
        if _get_role(tree, up) != "tool":
            return up if _get_role(tree, up) == "assistant" else id
    return id


def _convert_content(content: Value, passed: SkippedRecords) -> list[JSON]:
    kind = as_text(content.get("content_type"))
    if kind in ("text", "multimodal_text"):
        parts = content.get("parts")
        return [block for part in (parts if isinstance(parts, list) else []) for block in _convert_part(part, passed)]
    if kind == "thoughts":
        reported = [[as_text(t.get("summary")), as_text(t.get("content"))] for t in as_rows(content.get("thoughts"))]
        return [block for texts in reported for block in make_thinking("\n".join(filter(None, texts)))]
    if kind == "reasoning_recap":
        return []
    if kind == "user_editable_context":
        return make_text(
            "\n\n".join(filter(None, (as_text(content.get(key)) for key in ("user_profile", "user_instructions"))))
        )
    if kind == "tether_quote":
        return make_text("\n".join(filter(None, (as_text(content.get(key)) for key in ("title", "url", "text")))))
    for key in ("text", "result"):
        if isinstance(content.get(key), str):
            return make_text(content[key])
    passed.add(f"content {kind}", content)
    return []


def _convert_part(part: Any, passed: SkippedRecords) -> list[JSON]:
    if isinstance(part, str):
        return make_text(part)
    fields = as_mapping(part)
    if isinstance(fields.get("text"), str):  # a transcript of speech
        return make_text(fields["text"])
    if fields.get("content_type") == "image_asset_pointer":
        return [{"type": "image", "source": {"type": "file", "file_id": as_text(fields.get("asset_pointer"))}}]
    passed.add(f"part {fields.get('content_type')}", part)
    return []


IMPORTER = Importer(
    NAME,
    "ChatGPT export (conversations.json or its zip)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="conversation with a `mapping` of messages",
    right="the tree with its branches; thousands of conversations listed without being read",
    version=2,
)
