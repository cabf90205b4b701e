"""A session or a branch as a file, in several formats. Pure functions from a session to bytes.

Turnscope's two formats hold all that is known and read back as the same session, branches and subagents included. Those of the
two APIs hold the messages of one path as a model is sent them. Markdown is for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from msgspec import structs

from turnscope.live import attachments
from turnscope.session import portable
from turnscope.session.content import drop_thoughts, dumps, extract_text
from turnscope.session.model import JSON, Block, Bucket, Session

ROLE_NAMES = {"user": "You", "assistant": "Model", "system": "System"}
MARKUP_LINE = re.compile(r"^\\*(?:## .* <!-- turnscope \w+ -->$|`{3,}\S+ turnscope\b|!\[[^]]*\]\(data:)", re.MULTILINE)
"""Lines of our Markdown that are no text."""
_STATIC = (Bucket.SYSTEM, Bucket.TOOLS)


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format: its name, its title, the suffix and media type of its files, and the function that writes them."""

    name: str
    title: str
    suffix: str
    mime: str
    encode: Callable[[Session], bytes]


def list_formats() -> dict[str, ExportFormat]:
    """Every format by its name on the command line."""
    listed = (
        ExportFormat(name="json", title="Turnscope JSON", suffix="json", mime="application/json", encode=portable.dumps),
        ExportFormat(
            name="jsonl", title="Turnscope JSON Lines", suffix="jsonl", mime="application/x-ndjson", encode=portable.dump_lines
        ),
        ExportFormat(
            name="anthropic",
            title="Anthropic messages",
            suffix="anthropic.json",
            mime="application/json",
            encode=lambda s: _encode_json(to_anthropic(s)),
        ),
        ExportFormat(
            name="openai",
            title="OpenAI messages",
            suffix="openai.json",
            mime="application/json",
            encode=lambda s: _encode_json(to_openai(s)),
        ),
        ExportFormat(
            name="chainreview",
            title="ChainReview session",
            suffix="chainreview.json",
            mime="application/json",
            encode=lambda s: _encode_json(to_chainreview(s)),
        ),
        ExportFormat(
            name="markdown",
            title="Markdown",
            suffix="md",
            mime="text/markdown",
            encode=lambda s: to_markdown(s).encode("utf-8", "replace"),
        ),
    )
    return {form.name: form for form in listed}


def _encode_json(value: JSON) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except (TypeError, ValueError):  # lone surrogates, huge numbers
        return dumps(value).encode("utf-8", "replace")


def to_anthropic(session: Session) -> dict[str, JSON]:
    """The messages as a body of Anthropic's Messages API, with the last model, system prompt and tools."""
    body: dict[str, JSON] = {}
    if model := next((request.model for request in reversed(session.requests) if request.model), ""):
        body["model"] = model
    messages: list[dict[str, JSON]] = []
    for message in session.messages:
        content = [block.raw for block in session.blocks[message.start : message.stop] if block.raw is not None]
        if content and session.blocks[message.start].bucket in _STATIC:
            body[session.blocks[message.start].bucket.value] = (
                [_to_block(raw) for raw in content] if message.role != "tools" else content
            )
            continue
        if messages and messages[-1]["role"] == message.role and not message.fence:
            messages[-1]["content"] = [_to_block(raw) for raw in (*messages[-1]["content"], *content)]
        elif content:
            messages.append({"role": message.role, "content": content})
    for each in messages:
        blocks = each["content"]
        each["content"] = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else [_to_block(raw) for raw in blocks]
    return body | {"messages": messages}


def _to_block(raw: JSON) -> JSON:
    return {"type": "text", "text": raw} if isinstance(raw, str) else raw


def to_openai(session: Session) -> dict[str, JSON]:
    """The messages as a body of OpenAI's Chat Completions. Results of tools hold text only, so an image in one is left out."""
    body = to_anthropic(session)
    messages: list[JSON] = []
    if system := "\n\n".join(filter(None, map(extract_text, body.get("system") or ()))):
        messages.append({"role": "system", "content": system})
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages += _convert_answer(blocks) if message["role"] == "assistant" else _convert_prompt(message["role"], blocks)
    made: dict[str, JSON] = {"model": body["model"]} if "model" in body else {}
    if tools := [_convert_tool(tool) for tool in body.get("tools") or () if isinstance(tool, Mapping)]:
        made["tools"] = tools
    return made | {"messages": messages}


def _convert_answer(blocks: list[Any]) -> Iterator[JSON]:
    """An answer: its texts, its reasoning, its calls. Results of the provider's own tools become text."""
    message: dict[str, JSON] = {"role": "assistant", "content": None}
    thought = "".join(block.get("thinking") or "" for block in blocks if block.get("type") == "thinking")
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    texts = [block for block in blocks if block.get("type") not in ("thinking", "redacted_thinking", "tool_use")]
    if texts:
        message["content"] = "\n\n".join(map(extract_text, texts)) if len(texts) > 1 else extract_text(texts[0])
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = list(map(_convert_call, calls))
    yield message


def _convert_call(call: Mapping[str, Any]) -> JSON:
    """A call; one of a custom tool has text as its input."""
    name, arguments = call.get("name"), call.get("input")
    if isinstance(arguments, str):
        return {"id": call.get("id"), "type": "custom", "custom": {"name": name, "input": arguments}}
    return {"id": call.get("id"), "type": "function", "function": {"name": name, "arguments": dumps(arguments)}}


def _convert_prompt(role: str, blocks: list[Any]) -> Iterator[JSON]:
    """A prompt: tool results first, as the API requires, then everything else."""
    rest: list[JSON] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": extract_text(block.get("content"))}
        else:
            rest.append(_convert_part(block))
    if rest:
        texts = [part["text"] for part in rest if part.get("type") == "text"]
        yield {"role": role, "content": texts[0] if len(rest) == len(texts) == 1 else rest}


def _convert_part(block: Mapping[str, Any]) -> dict[str, JSON]:
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, Mapping):
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if block.get("type") == "document" and isinstance(source, Mapping) and source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "file", "file": {"filename": str(block.get("title") or "document.pdf"), "file_data": url}}
    return {"type": "text", "text": extract_text(block)}


def _convert_tool(tool: Mapping[str, Any]) -> JSON:
    function = {key: value for key, value in tool.items() if key in ("name", "description")}
    return {"type": "function", "function": function | {"parameters": tool.get("input_schema") or {}}}


CHAINREVIEW = "chainreview"  # `Session.source` of its own files
CHAINREVIEW_OWN = ("createdAt", "updatedAt", "reviewRunId", "tokenCount", "findings", "uiMessages")


def to_chainreview(session: Session) -> dict[str, JSON]:
    """A session file of ChainReview: the API history without thinking, as that tool stores it. Nothing is condensed here.

    A session that came from such a file keeps its own dates, run, counts, summary and messages of the screen. Of any other
    `uiMessages` are the same messages as its screen shows them, with thinking. `tokenCount` is that of the newest request and
    its answer as recorded, 0 without a record.
    """
    own: dict[str, JSON] = {}
    if session.source == CHAINREVIEW:
        own = {key: session.about[key] for key in CHAINREVIEW_OWN if key in session.about}
        if session.blocks and session.blocks[0].kind == "summary":
            own["condensedSummary"] = session.blocks[0].text
            session = structs.replace(session, messages=session.messages[1:])
    shown = [{"role": message["role"], "content": message["content"]} for message in to_anthropic(session)["messages"]]
    times = [message.sent_at for message in session.messages if message.sent_at is not None]
    usage = next((request.usage for request in reversed(session.requests) if request.usage), None)
    return {
        "id": session.id,
        "createdAt": _format_time(times[0] if times else None),
        "updatedAt": _format_time(times[-1] if times else None),
        "repoPath": str(session.about.get("cwd") or session.about.get("repoPath") or ""),
        "apiHistory": drop_thoughts(shown),
        "uiMessages": shown,
        "tokenCount": usage.prompt_tokens + usage.output_tokens if usage else 0,
        **own,
    }


def _format_time(at: float | None) -> str:
    with suppress(OverflowError, ValueError, OSError):
        return "" if at is None else datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return ""


def to_markdown(session: Session) -> str:
    """The messages as Markdown: a heading for each message, tool calls and results in fences.

    Headings and fences are marked, so that the file opens again (`importers.markdown`). A line of text that looks like one of
    them gets a backslash. An image in a tool result is left out.
    """
    lines = [f"# {' '.join(session.title.split()) or 'Chat'}"]
    for message in session.messages:
        if message.role not in ROLE_NAMES:
            continue
        blocks = session.blocks[message.start : message.stop]
        tool = bool(blocks) and all(block.kind == "tool_result" for block in blocks)
        lines.append(f"## {'Tool' if tool else ROLE_NAMES[message.role]} <!-- turnscope {message.role} -->")
        lines += [_render_block(block) for block in blocks]
    return "\n\n".join(lines) + "\n"


def _render_block(block: Block) -> str:
    """A block as Markdown: an image with its bytes, a text file in a fence with its name."""
    raw = block.raw if isinstance(block.raw, Mapping) else {}
    if picture := attachments.read_image(raw):
        return f"![{picture}](data:{picture.type};base64,{raw['source']['data']})"
    if file := attachments.read_text_file(raw):
        return f"{file[0]}\n\n{_fence('file', file[1], file[0])}"
    if block.kind in ("text", "system"):
        return MARKUP_LINE.sub(r"\\\g<0>", block.text)
    source = raw.get("source") if block.kind in ("image", "document") else None
    if isinstance(source, Mapping) and source.get("type") in ("url", "base64", "text"):
        # another image or document: its address, or its type with its content
        return _fence(block.kind, str(source.get("data") or ""), str(source.get("url") or source.get("media_type") or ""))
    id = raw.get("id") if block.kind == "tool_use" else raw.get("tool_use_id")
    return _fence(block.kind, block.text, str(id or ""))


def _fence(kind: str, text: str, about: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind} turnscope {about}".rstrip() + f"\n{text}\n{fence}"
