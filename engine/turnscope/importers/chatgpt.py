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
from turnscope.reading.calls import as_text, when
from turnscope.reading.leaves import newest
from turnscope.reading.listing import conversation, first, listed
from turnscope.reading.nodes import Node, Passed, Said, thread
from turnscope.reading.parts import call, joined, mapping, result, rows, text, thinking
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "chatgpt"
NEAR = 50  # nodes above an answer that are looked at for its thoughts and for when it was asked
THOUGHTS = ("thoughts", "reasoning_recap")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    found = first(source)
    mapped = isinstance(found.get("mapping"), dict)
    return 95 if mapped and ({"title", "create_time", "current_node", "conversation_id"} & found.keys()) else 0


def entries(source: Source) -> Iterator[Entry]:
    return listed(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    id = as_text(value.get("conversation_id")) or as_text(value.get("id"))
    at = when(value.get("update_time")) or when(value.get("create_time"))
    return Entry(id, as_text(value.get("title")), at, requests=0)


def read(source: Source, entry: Entry) -> Thread:
    value = conversation(source, entry)
    builder = Builder(entry.id or source.path.stem, NAME, entry.title)
    builder.about |= {key: value[key] for key in ("gizmo_id", "conversation_origin", "is_archived") if value.get(key)}
    builder.window = 0
    passed = Passed()
    tree = {str(id): mapping(node) for id, node in mapping(value.get("mapping")).items()}
    nodes = [_make_node(id, tree, as_text(value.get("default_model_slug")), passed) for id in tree]
    current = value.get("current_node")
    passed.tell(builder)
    return thread(builder, nodes, current if isinstance(current, str) and current in tree else newest(nodes))


def _make_node(id: str, tree: Mapping[str, Value], model: str, passed: Passed) -> Node:
    message = mapping(tree[id].get("message"))
    node = Node(id, as_text(tree[id].get("parent")), [], when(message.get("create_time")))
    role, content, about = (
        as_text(mapping(message.get("author")).get("role")),
        mapping(message.get("content")),
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
        blocks = text(dumps(about.get("user_context_message_data"))) if user and not blocks else blocks
        node.said = [Said("system", joined(blocks), "system", fence=True)] if blocks else []
    elif role == "user":
        node.said = [Said("user", joined(blocks), "meta" if about.get("is_visually_hidden_from_conversation") is True else "")]
    elif role == "tool":
        node.said = [Said("user", [result(_find_call(id, tree), blocks if len(blocks) > 1 else extract_text(blocks))], "tool")]
    elif role == "assistant":
        to = as_text(message.get("recipient")) or "all"
        if to != "all":
            blocks = [call(id, to, {"input": extract_text(blocks)} if not _is_object(blocks) else extract_text(blocks))]
        above = [tree[up] for up in islice(_iter_ancestors(id, tree), NEAR)]
        node.said = [Said("assistant", [*_convert_thoughts(above, passed), *blocks], request={})]
        node.said[0].request = {
            "model": as_text(about.get("model_slug")) or model,
            "sent_at": next((at for up in above if (at := when(mapping(up.get("message")).get("create_time")))), None),
            "stop_reason": as_text(mapping(about.get("finish_details")).get("type")) or None,
        }
    else:
        passed.add(f"message of role {role}", message)
    return node


def _is_object(blocks: list[JSON]) -> bool:
    return extract_text(blocks).lstrip().startswith("{")


def _get_metadata(message: Value) -> Value:
    return mapping(message.get("metadata"))


def _get_children(node: Value) -> list[Any]:
    children = node.get("children")
    return children if isinstance(children, list) else []


def _get_role(tree: Mapping[str, Value], id: str) -> str:
    return as_text(mapping(mapping(tree.get(id, {}).get("message")).get("author")).get("role"))


def _iter_ancestors(id: str, tree: Mapping[str, Value]) -> Iterator[str]:
    """The nodes above one, the nearest first."""
    seen = {id}
    at = as_text(tree[id].get("parent"))
    while at in tree and at not in seen:
        seen.add(at)
        yield at
        at = as_text(tree[at].get("parent"))


def _convert_thoughts(above: list[Value], passed: Passed) -> list[JSON]:
    """What was thought directly above an answer."""
    found: list[JSON] = []
    for up in above:
        content = mapping(mapping(up.get("message")).get("content"))
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


def _convert_content(content: Value, passed: Passed) -> list[JSON]:
    kind = as_text(content.get("content_type"))
    if kind in ("text", "multimodal_text"):
        parts = content.get("parts")
        return [block for part in (parts if isinstance(parts, list) else []) for block in _convert_part(part, passed)]
    if kind == "thoughts":
        told = [[as_text(t.get("summary")), as_text(t.get("content"))] for t in rows(content.get("thoughts"))]
        return [block for texts in told for block in thinking("\n".join(filter(None, texts)))]
    if kind == "reasoning_recap":
        return []
    if kind == "user_editable_context":
        return text("\n\n".join(filter(None, (as_text(content.get(key)) for key in ("user_profile", "user_instructions")))))
    if kind == "tether_quote":
        return text("\n".join(filter(None, (as_text(content.get(key)) for key in ("title", "url", "text")))))
    for key in ("text", "result"):
        if isinstance(content.get(key), str):
            return text(content[key])
    passed.add(f"content {kind}", content)
    return []


def _convert_part(part: Any, passed: Passed) -> list[JSON]:
    if isinstance(part, str):
        return text(part)
    held = mapping(part)
    if isinstance(held.get("text"), str):  # a transcript of speech
        return text(held["text"])
    if held.get("content_type") == "image_asset_pointer":
        return [{"type": "image", "source": {"type": "file", "file_id": as_text(held.get("asset_pointer"))}}]
    passed.add(f"part {held.get('content_type')}", part)
    return []


IMPORTER = Importer(
    NAME,
    "ChatGPT export (conversations.json or its zip)",
    sniff,
    read,
    entries,
    suffixes=(".json",),
    wants="conversation with a `mapping` of messages",
    right="the tree with its branches; thousands of conversations listed without being read",
    version=2,
)
