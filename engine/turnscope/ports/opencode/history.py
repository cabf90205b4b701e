"""What opencode sends of a stored history, how it writes it out for a summary, and what stays after one.

Pure functions over stored messages: `id`, `role`, `parts` (text, reasoning, file, step-start, compaction, tool), and
optionally `finish`, `error`, `summary`, `parent`. From the released program (npm opencode-ai 1.18.33), sources
`packages/opencode/src/session/{message-v2,compaction}.ts`. The program's own texts are in our wording.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from turnscope.ports.opencode.limits import CLEARED, PROTECTED_TOOLS, count_fitting, count_old, estimate_tokens
from turnscope.session.model import Block

Message = Mapping[str, Any]
# Our wording, at the lengths of the original (22, 100, 429 and 32 characters), because they decide what stays.
QUESTION = "What did we do before?"
CONTINUE = "Go on where you stopped, and if nothing is left to be done or you have to know more then say so now."
CONTINUE_AFTER_MEDIA = (
    "The question before was too long to be sent to the model, which most likely comes from what was attached to it: "
    "images, documents or large files. What was said until then has been summed up above, and the attached files "
    "themselves were left out. Tell the user that the files were too large for this conversation, and that smaller "
    "ones, or fewer at one time, may be sent again. Then go on with the task as far as that is possible."
)
READ_FILES = ("text/plain", "application/x-directory")  # files that are read when they are attached, so no file is sent
INTERRUPTED = "[Tool execution was interrupted]"
MEDIA = "Attached is what the tool gives:"
READ_MOST = 2_000  # characters that the summariser reads of an output


def is_mark(message: Message) -> bool:
    """Return whether a user message asks for a compaction."""
    return message["role"] == "user" and any(part["type"] == "compaction" for part in message["parts"])


def find_summaries(messages: Sequence[Message]) -> dict[str, Message]:
    """Return finished summaries, by the id of the message that requested them."""
    done = (m for m in messages if m.get("summary") and m.get("finish", "stop") and not m.get("error"))
    return {m["parent"]: m for m in done}


def select_view(messages: Sequence[Message]) -> list[Message]:
    """Return the messages in force: from the newest finished compaction on, its tail after its summary."""
    done = find_summaries(messages)
    newest = next((i for i in range(len(messages) - 1, -1, -1) if is_mark(messages[i]) and messages[i]["id"] in done), None)
    start = newest or 0
    if newest is not None and (tail := _get_tail_start(messages[newest])):  # a tail whose start is missing: nothing is dropped
        start = next((i for i in range(newest, -1, -1) if messages[i]["id"] == tail), 0)
    shown = list(messages[start:])
    mark = next((i for i in range(len(shown) - 1, -1, -1) if is_mark(shown[i]) and _get_tail_start(shown[i])), -1)
    if mark < 0:
        return shown
    ids = [message["id"] for message in shown]
    first = ids.index(tail) if (tail := _get_tail_start(shown[mark])) in ids else mark
    answer = next((i for i in range(mark + 1, len(shown)) if _sums_up(shown[i], ids[mark])), -1)
    if first >= mark or answer < 0:  # a compaction that failed keeps the order of one before it from being restored
        return shown
    return [*shown[mark : answer + 1], *shown[first:mark], *shown[answer + 1 :]]


def _get_tail_start(mark: Message) -> Any:
    return next((part.get("tail_start") for part in mark["parts"] if part["type"] == "compaction"), None)


def _sums_up(message: Message, mark: Any) -> bool:
    return bool(message["role"] == "assistant" and message.get("summary") and message.get("parent") == mark)


def is_media(mime: str) -> bool:
    """Return whether files of this type are images or PDF, which a summariser does not get."""
    return mime.startswith("image/") or mime == "application/pdf"


def build_messages(messages: Sequence[Message], model: Any = None) -> list[dict[str, Any]]:
    """Return messages for the model, in the form of the library that opencode uses.

    Args:
        messages: Stored messages.
        model: The id of the model that is asked; None = the one that answered before.
    """
    made: list[dict[str, Any]] = []
    for message in messages:
        made += _build_user(message) if message["role"] == "user" else _build_answer(message, model)
    return made


def _build_user(message: Message) -> Iterator[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in message["parts"]:
        if part["type"] == "text" and part["text"] and not part.get("ignored"):
            content.append({"type": "text", "text": part["text"]})
        elif part["type"] == "file" and part["mime"] not in READ_FILES:
            content.append(_build_file(part))
        elif part["type"] == "compaction":
            content.append({"type": "text", "text": QUESTION})
    if content:
        yield {"role": "user", "content": content}


def _build_file(part: Mapping[str, Any]) -> dict[str, Any]:
    named = {"filename": part["filename"]} if part.get("filename") is not None else {}
    return {"type": "file", "mediaType": part["mime"], **named, "data": part["url"]}


def _build_answer(message: Message, model: Any) -> Iterator[dict[str, Any]]:
    parts = [part for part in message["parts"] if part["type"] not in ("step-start", "reasoning")]
    if message.get("error") and not (message["error"] == "MessageAbortedError" and parts):
        return
    foreign = message.get("model") not in (None, model)
    steps: list[list[Mapping[str, Any]]] = [[]]
    for part in message["parts"]:
        if part["type"] == "step-start":
            steps.append([])
        elif part["type"] != "reasoning" or not foreign:
            steps[-1].append(part)
        elif part["text"].strip():  # another model's thinking is sent as text
            steps[-1].append({**part, "type": "text"})
    files: list[dict[str, Any]] = []
    for step in filter(None, steps):
        content = [_build_part(part) for part in step if part["type"] in ("text", "reasoning", "tool")]
        calls = [part for part in step if part["type"] == "tool"]
        for part in calls:
            files += (_build_file(file) for file in _list_attachments(part) if is_media(file["mime"]))
        yield {"role": "assistant", "content": content}
        if calls:
            yield {"role": "tool", "content": [_build_tool_result(part) for part in calls]}
    if files:
        yield {"role": "user", "content": [{"type": "text", "text": MEDIA}, *files]}


def _build_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] != "tool":
        return {"type": part["type"], "text": part["text"]}
    return {"type": "tool-call", "toolCallId": part["call"], "toolName": part["tool"], "input": part.get("input") or {}}


def _build_tool_result(part: Mapping[str, Any]) -> dict[str, Any]:
    output: dict[str, Any] = {"type": "text" if part["status"] == "completed" else "error-text", "value": get_output(part)}
    if others := [file for file in _list_attachments(part) if not is_media(file["mime"])]:
        texts = [{"type": "text", "text": output["value"]}] if output["value"] else []
        data = [(file["mime"], file["url"]) for file in others if file["url"].startswith("data:") and "," in file["url"]]
        held = [{"type": "media", "mediaType": mime, "data": url.partition(",")[2]} for mime, url in data]
        output = {"type": "content", "value": [*texts, *held]}
    return {"type": "tool-result", "toolCallId": part["call"], "toolName": part["tool"], "output": output}


def _list_attachments(part: Mapping[str, Any]) -> Sequence[Any]:
    return part.get("attachments") or () if part["status"] == "completed" and not part.get("compacted") else ()


def get_output(part: Mapping[str, Any]) -> str:
    """Return the result of a call: its output, its error, or a replacement for either."""
    if part["status"] == "completed":
        return CLEARED if part.get("compacted") else str(part["output"])
    return str(part.get("error") or "") if part["status"] == "error" else INTERRUPTED


def estimate_size(messages: Sequence[Message], model: Any = None) -> int:
    """Estimate the tokens of some stored messages.

    Args:
        messages: Stored messages.
        model: See `build_messages`.
    """
    return estimate_tokens(count_units(_write_json(build_messages(messages, model))))


def find_tail_start(messages: Sequence[Message], most: int, turns: int | None = None, model: Any = None) -> int | None:
    """Return the number of the first message that stays after a summary; None if all are summarised.

    Args:
        messages: Stored messages.
        most: Tokens that may stay.
        turns: Turns that may stay.
        model: See `build_messages`.
    """
    starts = [i for i, m in enumerate(messages) if m["role"] == "user" and not is_mark(m)]
    recent = starts if turns is None else starts[max(0, len(starts) - turns) :]
    spans = list(pairwise([*recent, len(messages)]))
    # sizes are computed only as far as necessary: newest first, up to the first that does not fit
    sizes: list[int] = []
    for a, b in reversed(spans):
        sizes.insert(0, estimate_size(messages[a:b], model))
        if sum(sizes) > most:
            break
    kept, left = count_fitting(sizes, most)
    start = spans[len(spans) - kept][0] if kept else len(messages)
    if kept < len(spans):
        a, b = spans[len(spans) - kept - 1]
        start = next((i for i in range(a + 1, b) if estimate_size(messages[i:b], model) <= left), start)
    return start if 0 < start < len(messages) else None


def write_conversation(messages: Sequence[Message]) -> str:
    """Return a conversation as the summariser reads it."""
    return "\n\n".join(filter(None, map(_write_message, messages)))


def _write_message(message: Message) -> str:
    lines: list[str] = []
    if message["role"] == "user":
        texts = [p["text"] for p in message["parts"] if p["type"] == "text" and p["text"] and not p.get("ignored")]
        lines += ["[User]: " + "\n".join(texts)] if texts else []
        return "\n".join([*lines, *(format_attachment(part) for part in message["parts"] if part["type"] == "file")])
    for part in message["parts"]:
        if part["type"] == "text" and part["text"]:
            lines.append(f"[Assistant]: {part['text']}")
        elif part["type"] == "reasoning" and part["text"]:
            lines.append(f"[Assistant reasoning]: {part['text']}")
        elif part["type"] == "tool":
            lines.append(f"[Assistant tool call]: {part['tool']}({_write_json(part.get('input') or {})})")
            if part["status"] == "completed":
                held = "\n".join([get_output(part), *map(format_attachment, _list_attachments(part))])
                lines.append(f"[Tool result]: {_cut(held)}")
            elif part["status"] == "error":
                lines.append(f"[Tool error]: {part.get('error') or ''}")
    return "\n".join(lines)


def format_attachment(part: Mapping[str, Any]) -> str:
    """Return the text that stands for a file."""
    return f"[Attached {part['mime']}: {part.get('filename') or 'file'}]"


def _cut(text: str) -> str:
    if count_units(text) <= READ_MOST:
        return text
    kept = text.encode("utf-16-le", "surrogatepass")[: 2 * READ_MOST].decode("utf-16-le", "surrogatepass")
    return f"{kept}\n[truncated]"


def find_clearable(messages: Sequence[Message]) -> list[Any]:
    """Return the call parts whose outputs are old, oldest first; none if they are too few."""
    calls = list(takewhile(lambda part: not part.get("compacted"), _iter_older_calls(messages)))
    count = count_old([estimate_tokens(count_units(str(part["output"]))) for part in calls])
    return calls[::-1][:count]


def _iter_older_calls(messages: Sequence[Message]) -> Iterator[Any]:
    """Yield finished calls, newest first, without those of the two newest turns, back to a summary."""
    prompts = 0
    for message in reversed(messages):
        prompts += message["role"] == "user"
        if prompts < 2:
            continue
        if message.get("summary"):
            return
        for part in reversed(message["parts"]):
            if part["type"] == "tool" and part["status"] == "completed" and part["tool"] not in PROTECTED_TOOLS:
                yield part


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def estimate_from_characters(characters: int, messages: int) -> int:
    """Estimate the tokens of messages.

    Args:
        characters: Characters of their JSON.
        messages: How many they are, because brackets and commas count too.
    """
    return estimate_tokens(characters + max(1, messages + 1))


def count_message_units(role: str, blocks: Sequence[Block]) -> int:
    """Return the UTF-16 units of the JSON of a session's message as sent. A file counts with the text that names it.

    Args:
        role: The role of the message.
        blocks: Its blocks.
    """
    content: list[dict[str, Any]] = []
    for block in blocks:
        if block.kind == "tool_use":
            arguments = block.raw.get("input") if isinstance(block.raw, Mapping) else {}
            content.append(
                {"type": "tool-call", "toolCallId": _get_id(block, "id"), "toolName": block.name, "input": arguments or {}}
            )
        elif block.kind == "tool_result":
            output = {"type": "text", "value": block.text}
            result = {"toolCallId": _get_id(block, "tool_use_id"), "toolName": block.name, "output": output}
            content.append({"type": "tool-result", **result})
            role = "tool"
        else:
            content.append(
                {"type": "reasoning" if block.kind == "thinking" else "text", "text": block.text or f"[{block.kind}]"}
            )
    return count_units(_write_json({"role": role, "content": content}))


def _get_id(block: Block, name: str) -> str:
    return str(block.raw.get(name) or "") if isinstance(block.raw, Mapping) else ""
