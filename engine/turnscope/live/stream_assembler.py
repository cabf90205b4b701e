"""Assemble the answer from the events of a Messages API stream, even if events are missing, doubled, empty or out of order.

Uses no network and no SDK; events are JSON values. Events that cannot be understood are skipped. No text is lost: it keeps
its order of arrival, and a block without a start event begins with its first delta.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.live.events import TextDelta, ThinkingDelta
from turnscope.live.secrets import StreamScrubber, scrub
from turnscope.session.content import replace_surrogates
from turnscope.session.model import JSON, AppliedEdit, Usage
from turnscope.session.usage import InvalidUsage, parse_applied_edits, parse_usage

_DELTA_KINDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
    "compaction_delta": "compaction",
    "provider_delta": "text",
}
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")  # calls of tools that run at the provider
PAUSED = "pause_turn"  # the provider will go on with the answer, and with its tool calls
_TEXT_KEYS = {"text": "text", "thinking": "thinking"}
FINISH_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Finish reasons of OpenAI's API as stop reasons. Some servers use them on the Messages API too."""


@dataclass(slots=True)
class StreamAssembler:
    """The answer so far.

    Args:
        id: The provider's id of the answer.
        stop_reason: Why the answer ended; "" = not reported yet.
        raw_usage: The usage as reported so far.
        invalid: A usage of another API that cannot be right.
        blocks: The content blocks by the server's index, in order of arrival.
        is_complete: Whether the stream reported its end.
        applied: Context edits that the provider made in the prompt.
    """

    id: str = ""
    stop_reason: str = ""
    raw_usage: dict[str, JSON] = field(default_factory=dict)
    invalid: InvalidUsage | None = None
    blocks: dict[object, _Block] = field(default_factory=dict)
    is_complete: bool = False
    applied: tuple[AppliedEdit, ...] = ()

    def add_event(self, event: Any) -> Iterator[TextDelta | ThinkingDelta]:
        """Add an event and yield the text and thinking that it brings."""
        if not isinstance(event, Mapping):
            return
        match event.get("type"):
            case "message_start":
                yield from self._start_message(event.get("message"))
            case "content_block_start":
                yield from self._start_block(event.get("index"), event.get("content_block"))
            case "content_block_delta":
                yield from self._add_delta(event.get("index"), event.get("delta"))
            case "content_block_stop" if block := self.blocks.get(_make_key(event.get("index"))):
                block.open = False
            case "message_delta":
                self._read_stop_reason(event.get("delta"))
                self._read_stop_reason(event)
                self._read_usage(event.get("usage"))
                self._read_applied_edits(event)
            case "message_stop":
                self.is_complete = True

    def flush(self) -> Iterator[TextDelta | ThinkingDelta]:
        """Yield the text that was held back by scrubbing. Call it at the end of the stream."""
        for block in self.blocks.values():
            yield from block.emit(block.scrubber.flush())

    @property
    def content(self) -> tuple[JSON, ...]:
        """The blocks as they can be sent back. Empty ones are left out."""
        content = [built for block in self.blocks.values() if (built := block.build())]
        return tuple(content) if self.stop_reason == PAUSED else _replace_lost_calls(content)

    @property
    def usage(self) -> Usage | None:
        """The usage reported so far; None if no number was reported, or one that cannot be right."""
        found = self._parse_usage()
        return None if isinstance(found, InvalidUsage) else found

    @property
    def wrong_usage(self) -> str:
        """Which number of the usage cannot be right; "" = none."""
        found = self._parse_usage()
        return found.what if isinstance(found, InvalidUsage) else ""

    def _parse_usage(self) -> Usage | None:
        if self.invalid:
            return self.invalid
        return parse_usage(self.raw_usage) if any(isinstance(value, int | float) for value in self.raw_usage.values()) else None

    def _start_message(self, message: Any) -> Iterator[TextDelta | ThinkingDelta]:
        if not isinstance(message, Mapping):
            return
        self.id = self.id or str(scrub(repair_text(message.get("id"))) or "")
        self._read_stop_reason(message)
        self._read_usage(message.get("usage"))
        self._read_applied_edits(message)
        for number, block in enumerate(list_blocks(message.get("content"))):
            if number not in self.blocks:
                yield from self._start_block(number, block)

    def _start_block(self, index: Any, raw: Any) -> Iterator[TextDelta | ThinkingDelta]:
        if not isinstance(raw, Mapping):
            return
        known = self.blocks.get(_make_key(index))
        if known and known.started:  # a second start event of the same block
            return
        block = known or self._make_block(index, str(raw.get("type") or "text"))
        block.raw, block.started = {**raw, "type": raw.get("type") or block.kind}, True
        part = _TEXT_KEYS.get(block.kind, "")
        yield from block.add(str(raw.get(part) or "") if part else "")

    def _add_delta(self, index: Any, delta: Any) -> Iterator[TextDelta | ThinkingDelta]:
        if not isinstance(delta, Mapping):
            return
        kind = str(delta.get("type") or "")
        if kind not in _DELTA_KINDS and kind != "citations_delta":
            return
        block = self.blocks.get(_make_key(index)) or self._find_open_block(index, _DELTA_KINDS.get(kind, "text"))
        if kind in ("text_delta", "thinking_delta") and block.kind != _DELTA_KINDS[kind]:
            block = self._find_other_block(index, _DELTA_KINDS[kind])
        match kind:
            case "text_delta" | "thinking_delta":
                piece = delta.get("text" if kind == "text_delta" else "thinking")
                yield from block.add(piece if isinstance(piece, str) else "")
            case "signature_delta" if isinstance(delta.get("signature"), str):
                block.raw["signature"] = delta["signature"]
            case "input_json_delta" if isinstance(delta.get("partial_json"), str):
                block.json += delta["partial_json"]
            case "compaction_delta" | "provider_delta":  # a summary, or what a provider wants back, comes in one delta
                block.raw |= {name: value for name, value in delta.items() if name != "type"}
            case "citations_delta" if delta.get("citation"):
                block.raw["citations"] = [*list_blocks(block.raw.get("citations")), delta["citation"]]

    def _find_open_block(self, index: Any, kind: str) -> _Block:
        """Return the block for a delta whose index has no start event: the newest open block of its kind, or a new one."""
        newest = next((block for block in reversed(self.blocks.values()) if block.kind == kind), None)
        return newest if newest and newest.open else self._make_block(index, kind)

    def _find_other_block(self, index: Any, kind: str) -> _Block:
        """Return the block for text that comes inside a block of another kind: it is shown, so it is kept."""
        key = f"{kind} in {_make_key(index)!r}"
        return self.blocks.get(key) or self._make_block(key, kind)

    def _make_block(self, index: Any, kind: str) -> _Block:
        number = self.blocks[_make_key(index)].number if _make_key(index) in self.blocks else len(self.blocks)
        block = self.blocks[_make_key(index)] = _Block(kind, number, {"type": kind})
        return block

    def _read_stop_reason(self, event: Any) -> None:
        if not isinstance(event, Mapping):
            return
        reason, finish = event.get("stop_reason"), event.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.stop_reason = FINISH_REASONS.get(reason, reason)
        elif isinstance(finish, str) and finish:
            self.stop_reason = FINISH_REASONS.get(finish, finish)

    def _read_applied_edits(self, event: Mapping[str, Any]) -> None:
        self.applied = parse_applied_edits(event.get("context_management")) or self.applied

    def _read_usage(self, usage: Any) -> None:
        if isinstance(usage, InvalidUsage):  # of another API, which was converted before
            self.invalid = usage
        elif isinstance(usage, Mapping):
            self.raw_usage |= {name: value for name, value in usage.items() if value is not None}


@dataclass(slots=True)
class _Block:
    kind: str
    number: int  # in order of arrival
    raw: dict[str, JSON]
    text: str = ""
    json: str = ""
    started: bool = False
    open: bool = True
    scrubber: StreamScrubber = field(default_factory=StreamScrubber)
    half_character: str = ""  # the first half of a surrogate pair; the next delta brings the second

    def add(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """Add text, and yield what of it can be shown."""
        piece, self.half_character = self.half_character + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self.half_character = piece[:-1], piece[-1]
        yield from self.emit(self.scrubber(repair_text(piece)))

    def emit(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """Yield text that is scrubbed already."""
        if piece:
            self.text += piece
            yield ThinkingDelta(piece) if self.kind == "thinking" else TextDelta(piece, self.number)

    def build(self) -> JSON:
        """Return the block as it can be sent back; None if it is empty."""
        raw: dict[str, JSON] = scrub(repair_text(self.raw))
        if self.kind == "text":
            return {**raw, "text": self.text} if self.text.strip() else None
        if self.kind == "thinking":
            return {"signature": "", **raw, "thinking": self.text} if self.text or raw.get("signature") else None
        if self.kind != "tool_use":
            return raw
        return build_tool_call({**raw, "input": _parse_input(self.json) if self.json else raw.get("input")}, self.number)


def _replace_lost_calls(content: Sequence[JSON]) -> tuple[JSON, ...]:
    """Replace calls of the provider's own tools that never got a result: the provider rejects them when they are sent back."""
    results = {block.get("tool_use_id") for block in content}
    lost = [block.get("type") in _SERVER_CALLS and block.get("id") not in results for block in content]
    words = "[The provider called its own tool {}, and no result of it came.]"
    notes = ({"type": "text", "text": words.format(block.get("name") or "without a name")} for block in content)
    return tuple(note if is_lost else block for block, note, is_lost in zip(content, notes, lost, strict=True))


def build_tool_call(raw: Mapping[str, JSON], number: int) -> JSON:
    """Return a tool call that can be sent back: with an id, and an object as input. A call without a name becomes a text.

    Args:
        raw: The call as the provider sent it.
        number: Makes an id if the call has none.
    """
    arguments = scrub(repair_text(raw.get("input")))
    if not isinstance(raw.get("name"), str) or not raw["name"]:
        return {"type": "text", "text": f"[A tool call came without a name. Its input: {json.dumps(arguments)}]"}
    value = arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}
    return {**raw, "type": "tool_use", "id": str(raw.get("id") or f"call_without_id_{number}"), "input": value}


def assemble_message(raw: Any) -> StreamAssembler:
    """Assemble an answer that came as one JSON object."""
    assembler = StreamAssembler()
    for _ in assembler.add_event({"type": "message_start", "message": scrub(raw)}):
        pass
    for _ in assembler.flush():
        pass
    return assembler


def find_stop_reason(answer: StreamAssembler, max_tokens: int) -> str:
    """Return why an answer ended.

    Args:
        answer: The assembled answer.
        max_tokens: The limit of the request. An answer that was cut below it was cut by the window.
    """
    if answer.stop_reason == "max_tokens" and answer.usage and 0 < answer.usage.output_tokens < max_tokens - 1:
        return "model_context_window_exceeded"
    return str(scrub(answer.stop_reason))


def repair_text(value: Any) -> Any:
    """Make a JSON value one that can be sent, with a mark where it could not.

    Of surrogates in its texts a pair becomes its character, and a lone half the replacement character. A number that JSON does
    not have becomes its name as a text.
    """
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {repair_text(name): repair_text(item) for name, item in value.items()}
    return [repair_text(item) for item in value] if isinstance(value, list) else value


def list_blocks(content: Any) -> list[JSON]:
    """Return message content as a list of blocks. A string is one text block, nothing is no block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list) else [content] if isinstance(content, Mapping) else []


def _make_key(index: Any) -> object:
    return index if isinstance(index, int | str) else None


def _parse_input(text: str) -> JSON:
    try:
        return json.loads(text, parse_constant=str, parse_float=_parse_float)
    except (ValueError, RecursionError):
        return {"input": text}  # cut off, or never JSON: the tool reports which argument is missing


def _parse_float(text: str) -> float | str:
    """A number; its text as received where it is too large for one."""
    return value if math.isfinite(value := float(text)) else text
