"""A stream of the Messages API, event by event: what it says so far, whatever is missing, doubled, empty or out of order in it.

Holds no network and no SDK. Events are values of JSON. What cannot be understood is left out; what was said is never lost:
text keeps its order of arrival, and a block that was never begun is begun by its first piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.live.events import TextDelta, ThinkingDelta
from turnscope.live.secrets import StreamScrubber, scrub
from turnscope.session.builder import parse_applied_edits, parse_usage
from turnscope.session.content import replace_surrogates
from turnscope.session.model import JSON, AppliedEdit, Usage

_DELTA_KINDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
    "compaction_delta": "compaction",
}
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")  # calls of tools that run at the provider
PAUSED = "pause_turn"  # the answer goes on, and so may a call
_TEXT_KEYS = {"text": "text", "thinking": "thinking"}
FINISH_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""What servers of OpenAI's API call the reasons why an answer ended; some say so on the Messages API, too."""


@dataclass(slots=True)
class StreamAssembler:
    """What a stream has said so far."""

    id: str = ""
    stop_reason: str = ""
    raw_usage: dict[str, JSON] = field(default_factory=dict)
    blocks: dict[object, _Block] = field(default_factory=dict)  # by the index that the server gives, in order of arrival
    is_complete: bool = False  # it said that this is all
    applied: tuple[AppliedEdit, ...] = ()  # context edits that the provider made in the prompt

    def add_event(self, event: Any) -> Iterator[TextDelta | ThinkingDelta]:
        """One more event; gives what it adds to what is shown."""
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
        """What was held back of the texts, at the end of the stream."""
        for block in self.blocks.values():
            yield from block.emit(block.scrubber.flush())

    @property
    def content(self) -> tuple[JSON, ...]:
        """The blocks as they can be sent back; those that say nothing are left out."""
        made = [said for block in self.blocks.values() if (said := block.build())]
        return tuple(made) if self.stop_reason == PAUSED else _replace_lost_calls(made)

    @property
    def usage(self) -> Usage | None:
        """The usage as far as it was told; None where no number of it was."""
        return parse_usage(self.raw_usage) if any(isinstance(value, int) for value in self.raw_usage.values()) else None

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
        if known and known.started:  # said twice
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
        match kind:
            case "text_delta" | "thinking_delta":
                piece = delta.get("text" if kind == "text_delta" else "thinking")
                yield from block.add(piece if isinstance(piece, str) else "")
            case "signature_delta" if isinstance(delta.get("signature"), str):
                block.raw["signature"] = delta["signature"]
            case "input_json_delta" if isinstance(delta.get("partial_json"), str):
                block.json += delta["partial_json"]
            case "compaction_delta":  # the summary comes whole, and goes back as it came
                block.raw |= {name: value for name, value in delta.items() if name != "type"}
            case "citations_delta" if delta.get("citation"):
                block.raw["citations"] = [*list_blocks(block.raw.get("citations")), delta["citation"]]

    def _find_open_block(self, index: Any, kind: str) -> _Block:
        """The block of a piece whose index nobody began: the newest of its kind that has not ended, else a new one."""
        newest = next((block for block in reversed(self.blocks.values()) if block.kind == kind), None)
        return newest if newest and newest.open else self._make_block(index, kind)

    def _make_block(self, index: Any, kind: str) -> _Block:
        number = self.blocks[_make_key(index)].number if _make_key(index) in self.blocks else len(self.blocks)
        block = self.blocks[_make_key(index)] = _Block(kind, number, {"type": kind})
        return block

    def _read_stop_reason(self, said: Any) -> None:
        if not isinstance(said, Mapping):
            return
        reason, finish = said.get("stop_reason"), said.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.stop_reason = FINISH_REASONS.get(reason, reason)
        elif isinstance(finish, str) and finish:
            self.stop_reason = FINISH_REASONS.get(finish, finish)

    def _read_applied_edits(self, said: Mapping[str, Any]) -> None:
        self.applied = parse_applied_edits(said.get("context_management")) or self.applied

    def _read_usage(self, told: Any) -> None:
        if isinstance(told, Mapping):
            self.raw_usage |= {name: value for name, value in told.items() if value is not None}


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
    half_character: str = ""  # of a character that comes in two pieces

    def add(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """More of the text."""
        piece, self.half_character = self.half_character + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self.half_character = piece[:-1], piece[-1]
        yield from self.emit(self.scrubber(repair_text(piece)))

    def emit(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """A piece that nothing is held back of."""
        if piece:
            self.text += piece
            yield ThinkingDelta(piece) if self.kind == "thinking" else TextDelta(piece, self.number)

    def build(self) -> JSON:
        """The block as it can be sent back; None where it says nothing."""
        raw: dict[str, JSON] = scrub(repair_text(self.raw))
        if self.kind == "text":
            return {**raw, "text": self.text} if self.text.strip() else None
        if self.kind == "thinking":
            return {"signature": "", **raw, "thinking": self.text} if self.text or raw.get("signature") else None
        if self.kind != "tool_use":
            return raw
        return build_tool_call({**raw, "input": _parse_input(self.json) if self.json else raw.get("input")}, self.number)


def _replace_lost_calls(content: Sequence[JSON]) -> tuple[JSON, ...]:
    """Content without calls of the provider's own tools whose result never came: it takes none of those back."""
    results = {block.get("tool_use_id") for block in content}
    lost = [block.get("type") in _SERVER_CALLS and block.get("id") not in results for block in content]
    words = "[The provider called its own tool {}, and no result of it came.]"
    told = ({"type": "text", "text": words.format(block.get("name") or "without a name")} for block in content)
    return tuple(note if gone else block for block, note, gone in zip(content, told, lost, strict=True))


def build_tool_call(raw: Mapping[str, JSON], number: int) -> JSON:
    """A tool call that can be sent back: with an id, and an object for its input. Without a name it can only be told."""
    given = scrub(repair_text(raw.get("input")))
    if not isinstance(raw.get("name"), str) or not raw["name"]:
        return {"type": "text", "text": f"[A tool call came without a name. Its input: {json.dumps(given)}]"}
    made = given if isinstance(given, dict) else {} if given is None else {"input": given}
    return {**raw, "type": "tool_use", "id": str(raw.get("id") or f"call_without_id_{number}"), "input": made}


def assemble_message(raw: Any) -> StreamAssembler:
    """A whole answer that came in one piece."""
    heard = StreamAssembler()
    for _ in heard.add_event({"type": "message_start", "message": raw}):
        pass
    for _ in heard.flush():
        pass
    return heard


def find_stop_reason(answer: StreamAssembler, max_tokens: int) -> str:
    """Why the answer ended. One that was cut below its own limit of `most` tokens was cut by the window."""
    if answer.stop_reason == "max_tokens" and answer.usage and 0 < answer.usage.output_tokens < max_tokens - 1:
        return "model_context_window_exceeded"
    return str(scrub(answer.stop_reason))


def repair_text(value: Any) -> Any:
    """A value without halves of characters: two that belong together become one, a lone one the sign for what is missing."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {repair_text(name): repair_text(held) for name, held in value.items()}
    return [repair_text(held) for held in value] if isinstance(value, list) else value


def list_blocks(content: Any) -> list[JSON]:
    """Content as blocks, whatever it is: a string is one text, nothing is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list) else [content] if isinstance(content, Mapping) else []


def _make_key(index: Any) -> object:
    return index if isinstance(index, int | str) else None


def _parse_input(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"input": text}  # it broke off, or was never JSON: the tool says what it misses
