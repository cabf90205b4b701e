"""Chats as Markdown, as Turnscope writes them (`share.export_formats`): a heading for each message, fences for all but texts.

What neither holds is lost there: usage, times, models, definitions of tools, signatures of thinking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from turnscope.importers import Importer
from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import make_image, make_result, make_text, make_thinking
from turnscope.reading.nodes import Node, NodeMessage, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "markdown"
_HEADING = re.compile(r"^## [^\n]* <!-- turnscope (user|assistant|system) -->$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,})(\S+) turnscope(?: ([^\n]*))?\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"^!\[[^]\n]*\]\((data:[^)\n]*)\)$", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(?=\\*(?:## .* <!-- turnscope \w+ -->$|`{3,}\S+ turnscope\b|!\[[^]]*\]\(data:))", re.MULTILINE)


def sniff(source: Source) -> int:
    head = source.head if source.kind == "file" else b""
    return 100 if head.startswith(b"# ") and _HEADING.search(head.decode("utf-8", "replace").replace("\r\n", "\n")) else 0


def read(source: Source, _entry: Entry) -> Thread:
    whole = source.data.decode("utf-8", "replace").replace("\r\n", "\n")
    builder = Builder(source.path.stem, NAME)
    builder.title = whole.partition("\n")[0].removeprefix("# ").strip()
    messages = [_make_message(role, body) for role, body in _split_messages(whole)]
    return build_thread(builder, [Node(str(n), messages=[each]) for n, each in enumerate(messages)])


def _split_messages(whole: str) -> Iterator[tuple[str, str]]:
    """Role and body of each message. A heading inside a fence is none."""
    fenced = [(found.start(), found.end()) for found in _FENCE.finditer(whole)]
    heads = [head for head in _HEADING.finditer(whole) if not any(start < head.start() < end for start, end in fenced)]
    for head, after in zip(heads, [*heads[1:], None], strict=False):  # no head: a None too many
        yield head[1], whole[head.end() : after.start() if after else len(whole)]


def _make_message(role: str, body: str) -> NodeMessage:
    blocks: list[JSON] = []
    kinds, at = set[str](), 0
    for fence in _FENCE.finditer(body):
        kind, about, inner = fence[2], fence[3] or "", fence[4]
        ahead = body[at : fence.start()]
        blocks += _split_texts(ahead.removesuffix(f"{about}\n\n") if kind == "file" else ahead)
        at = fence.end()
        match kind:
            case "tool_use":
                name, _, arguments = inner.partition(" ")
                blocks.append({"type": kind, "id": about, "name": name, "input": parse_if_json(arguments)})
            case "tool_result":
                blocks.append(make_result(about, inner))
            case "thinking" | "redacted_thinking":
                blocks += make_thinking(inner)
            case "file":
                blocks += make_text(f'<file name="{about}">\n{inner}\n</file>')
            case "image" | "document" if about:
                blocks.append({"type": kind, "source": _make_media_source(about, inner)})
            case _:
                blocks += make_text(inner)
                kinds.add(kind)
    blocks += _split_texts(body[at:])
    return NodeMessage(role, blocks, kind=kinds.pop() if len(kinds) == 1 else "", request={} if role == "assistant" else None)


def _make_media_source(about: str, inner: str) -> JSON:
    """What an image or a document holds: a type of media with its data, or an address."""
    if not inner:
        return {"type": "url", "url": about}
    return {"type": "text" if about == "text/plain" else "base64", "media_type": about, "data": inner}


def _split_texts(body: str) -> Iterator[JSON]:
    """Texts and images between fences."""
    at = 0
    for picture in _IMAGE.finditer(body):
        yield from make_text(_ESCAPED.sub("", body[at : picture.start()].strip("\n")))
        yield make_image(picture[1])
        at = picture.end()
    yield from make_text(_ESCAPED.sub("", body[at:].strip("\n")))


IMPORTER = Importer(
    NAME,
    "Turnscope Markdown",
    sniff,
    read,
    suffixes=(),  # any other Markdown in a folder is none
    wants="heading of a message as Turnscope writes it",
    right="messages, calls with their results, images and files; nothing else is in it",
)
