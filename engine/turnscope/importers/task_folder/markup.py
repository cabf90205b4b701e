"""Tools written as XML inside texts: calls in an answer, results behind a header in the user's next message.

`unfold` gives the same messages with calls and results as blocks of their own. A call becomes one only where its result is
found, and the reverse; everything else stays the text it is, to the letter. Thinking in tags, too: each in a block of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from turnscope.session.content import split_thoughts
from turnscope.session.model import JSON

# Tools of Cline (to 3.89) and Roo Code (to 3.52) that models call in XML.
TOOLS = (
    "read_file write_to_file replace_in_file apply_diff apply_patch insert_content search_and_replace edit_file search_files "
    "list_files list_code_definition_names codebase_search execute_command browser_action use_mcp_tool access_mcp_resource "
    "ask_followup_question attempt_completion plan_mode_respond plan_mode_response act_mode_respond switch_mode new_task "
    "update_todo_list fetch_instructions load_mcp_documentation new_rule report_bug condense summarize_task web_fetch "
    "web_search run_slash_command generate_image generate_explanation use_skill use_subagents"
).split()
_CALL = re.compile(rf"<({'|'.join(TOOLS)})>(.*?)</\1>", re.DOTALL)
_OPEN = re.compile(r"<(\w+)>")
_RESULT = re.compile(r"\[([a-z]\w*)(?=[\s\]])(?:[^\]]|\](?! Result:))*\] Result:")
_LONG = frozenset({"content", "diff", "result", "message", "command", "question", "response", "arguments", "todos"})
_ASIDE = ("<environment_details>", "Tool [", "[ERROR]", "\n\nNew instructions for task continuation", "# TODO LIST")


class ContentPart(NamedTuple):
    """A block as it is imported, the stored block (by number) that it was or was part of, and how many of them it took."""

    raw: JSON
    block: int
    took: int = 1


class _Written(NamedTuple):
    """A call inside a text."""

    name: str
    arguments: dict[str, Any]
    start: int
    stop: int


class _Answer(NamedTuple):
    """A result: its tool's name, and the stored blocks that it takes."""

    name: str
    start: int
    stop: int


def unfold(contents: Sequence[tuple[str, JSON]]) -> list[str | list[ContentPart]]:
    """Contents of messages (role, content) with calls and results as blocks."""
    done: list[str | list[ContentPart]] = []
    for number, (role, content) in enumerate(contents):
        listed = content if isinstance(content, list) else []
        done.append(content if isinstance(content, str) else [ContentPart(raw, block) for block, raw in enumerate(listed)])
        if role == "user" and number and contents[number - 1][0] == "assistant":
            _pair(done, number)
    return [_split(content) if role == "assistant" else content for (role, _), content in zip(contents, done, strict=True)]


def _split(content: str | list[ContentPart]) -> str | list[ContentPart]:
    """An answer whose written thoughts are pieces of their own."""
    parts = [ContentPart({"type": "text", "text": content}, 0)] if isinstance(content, str) else content
    made = [one for piece in parts for one in _split_thoughts(piece)]
    return made if len(made) > len(parts) else content


def _split_thoughts(piece: ContentPart) -> Iterator[ContentPart]:
    text = piece.raw.get("text") if isinstance(piece.raw, Mapping) and piece.raw.get("type") == "text" else None
    if not isinstance(text, str) or len(texts := split_thoughts(text)) < 2:
        yield piece
        return
    yield from (ContentPart({**piece.raw, "text": one}, piece.block) for one in texts)


def _pair(done: list[str | list[ContentPart]], number: int) -> None:
    """Turn the written calls of the answer before message `number` and their results in it into blocks."""
    answer, message = done[number - 1], done[number]
    if isinstance(message, str):
        return
    parts = [ContentPart({"type": "text", "text": answer}, 0)] if isinstance(answer, str) else answer
    answered = [p.raw.get("tool_use_id") for p in message if isinstance(p.raw, Mapping) and p.raw.get("type") == "tool_result"]
    open_ = [(place, piece.raw) for place, piece in enumerate(parts) if isinstance(piece.raw, Mapping)]
    calls = [(place, call) for place, raw in open_ if raw.get("id") not in answered for call in _find_calls(raw)]
    results = list(_find_results([piece.raw for piece in message]))
    if not calls or not results:
        return
    ids: dict[tuple[int, int], str] = {}  # place of the call (piece, offset) -> id
    named: dict[_Answer, str] = {}
    for result in results:
        found = next(((p, c) for p, c in calls if c.name == result.name and (p, c.start) not in ids), None)
        if found:
            place, call = found
            raw = parts[place].raw
            name = raw["id"] if raw.get("type") == "tool_use" else f"call-{number - 1}-{len(ids)}"
            ids[place, call.start] = name
            named[result] = name
    if named:
        done[number - 1] = list(_insert_calls(parts, calls, ids))
        done[number] = list(_insert_results(message, named))


def _find_calls(raw: Mapping[str, Any]) -> Iterator[_Written]:
    """Calls in a block: those written in a text, or the one that it is."""
    if raw.get("type") == "tool_use" and isinstance(raw.get("name"), str) and isinstance(raw.get("id"), str):
        yield _Written(raw["name"], {}, 0, 0)
    text = raw.get("text") if raw.get("type") == "text" else None
    for found in _CALL.finditer(text) if isinstance(text, str) else ():
        yield _Written(found[1], _parse_parameters(found[2]), found.start(), found.end())


def _parse_parameters(inner: str) -> dict[str, Any]:
    """The parameters of a written call."""
    arguments: dict[str, Any] = {}
    at = 0
    while opened := _OPEN.search(inner, at):
        name, start = opened[1], opened.end()
        close = f"</{name}>"
        stop = inner.rfind(close, start) if name in _LONG else inner.find(close, start)
        if stop < 0:
            at = start
            continue
        value: Any = inner[start:stop].strip("\n")
        if name in ("args", "file") and _OPEN.search(value):
            value = _parse_parameters(value)
        elif name == "arguments":
            value = _parse_json(value)
        if name in arguments:
            value = [*(arguments[name] if isinstance(arguments[name], list) else [arguments[name]]), value]
        arguments[name] = value
        at = stop + len(close)
    return arguments if arguments or not inner.strip() else {"text": inner.strip()}


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _find_results(raws: Sequence[JSON]) -> Iterator[_Answer]:
    """Results in a message: a header, then its text in the same block or the blocks behind it."""
    header_before: tuple[str, int] | None = None
    for block, raw in enumerate(raws):
        text = raw.get("text") if isinstance(raw, Mapping) and raw.get("type") == "text" else None
        image = isinstance(raw, Mapping) and raw.get("type") == "image"
        header = _RESULT.match(text) if isinstance(text, str) else None
        ends = header or not (image or isinstance(text, str)) or (isinstance(text, str) and text.startswith(_ASIDE))
        if header_before and ends:
            yield _Answer(header_before[0], header_before[1], block)
            header_before = None
        if header:
            header_before = (header[1], block)
    if header_before:
        yield _Answer(header_before[0], header_before[1], len(raws))


def _insert_calls(
    parts: list[ContentPart], calls: list[tuple[int, _Written]], ids: Mapping[tuple[int, int], str]
) -> Iterator[ContentPart]:
    for place, piece in enumerate(parts):
        chosen = [call for p, call in calls if p == place and (p, call.start) in ids and call.stop]
        if not chosen:
            yield piece
            continue
        text, at = piece.raw["text"], 0
        for call in chosen:
            if text[at : call.start].strip():
                yield ContentPart({**piece.raw, "text": text[at : call.start]}, piece.block)
            yield ContentPart(
                {"type": "tool_use", "id": ids[place, call.start], "name": call.name, "input": call.arguments}, piece.block
            )
            at = call.stop
        if text[at:].strip():
            yield ContentPart({**piece.raw, "text": text[at:]}, piece.block)


def _insert_results(message: list[ContentPart], named: Mapping[_Answer, str]) -> Iterator[ContentPart]:
    """Results come first, as providers want them; their stored blocks are their content."""
    taken: set[int] = set()
    for result, name in named.items():
        parts = message[result.start : result.stop]
        taken |= {*range(result.start, result.stop)}
        raw = {"type": "tool_result", "tool_use_id": name, "content": join_texts([p.raw for p in parts])}
        yield ContentPart(raw, parts[0].block, len(parts))
    yield from (piece for place, piece in enumerate(message) if place not in taken)


def find_result_tool(text: str) -> str:
    """The tool whose result a text begins with; "" where it begins with none."""
    found = _RESULT.match(text)
    return found[1] if found else ""


def join_texts(raws: Sequence[Mapping[str, Any]]) -> list[JSON]:
    """A header and its text as one text, as newer versions write them; images stay blocks of their own."""
    texts = [raw["text"] for raw in raws if raw.get("type") == "text"]
    return [{"type": "text", "text": "\n".join(texts)}, *(raw for raw in raws if raw.get("type") != "text")]
