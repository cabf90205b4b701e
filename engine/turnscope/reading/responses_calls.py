"""A recorded call of OpenAI's Responses API in Anthropic's shape: input and output, chains of calls, compactions, streams.

Any recorder may have written it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.reading.calls import TIME_KEYS, as_text, parse_time, unwrap_body
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_item
from turnscope.reading.conversations import Call
from turnscope.reading.messages import build_body
from turnscope.reading.nodes import SkippedRecords
from turnscope.reading.streams import join_response, parse_events
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Note

SETTINGS = ("reasoning", "text", "temperature", "truncation", "max_output_tokens", "tool_choice", "store", "stream", "metadata")
COMPACTION = "response.compaction"
Value = Mapping[str, Any]


class ResponseChains:
    """Converts the calls of a log, in order: a call may go on from what an earlier one sent and answered."""

    def __init__(self) -> None:
        self.passed = SkippedRecords()
        self._known: dict[str, list[JSON]] = {}  # the conversation up to the end of a response

    def convert(self, body: Value, response: Value, record: Value, line: int) -> Iterator[Call | Note]:
        """Convert a call, with a note where its beginning is not known.

        Args:
            body: The request's body.
            response: The response; empty where there is none.
            record: What stands beside them, such as times.
            line: Its line number.
        """
        before = as_text(body.get("previous_response_id"))
        if before and before not in self._known:
            yield Note("warning", line, "a call goes on from a response that the log does not hold: its beginning is not known")
        messages = [*self._known.get(before, ()), *_make_messages(body.get("input"), self.passed)]
        answers = _make_messages(response.get("output"), self.passed)
        if id := as_text(response.get("id")):
            self._known[id] = [*messages, *answers]
        yield _make_call(body, response, record, line, messages, answers)

    def list_notes(self) -> list[Note]:
        """List notes about what was skipped."""
        builder = Builder("", "")
        self.passed.add_notes(builder)
        return builder.notes


def is_response(fields: Value) -> bool:
    """Whether a value is a response of this API."""
    return fields.get("object") in ("response", COMPACTION) and isinstance(fields.get("output"), list)


def find_response(value: Any) -> Value:
    """Find the response in what an answer's body is: an object, JSON text or a stream; an empty one where there is none."""
    body = unwrap_body(value)
    if isinstance(body, str) and "data:" in body:
        body = join_response(parse_events(body))
    return as_mapping(body) if is_response(as_mapping(body)) else {}


def _make_messages(items: Any, passed: SkippedRecords) -> list[JSON]:
    """Items as messages: neighbours of one role are one message."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}] if items else []
    found: list[dict[str, Any]] = []
    for one in as_rows(items):
        role, blocks = convert_item(one)
        if one.get("type") in ("compaction", "context_compaction"):  # an answer, known again where it is sent back
            role, blocks = "assistant", [{key: value for key, value in blocks[0].items() if key not in ("id", "created_by")}]
        results = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
        last = found[-1] if found else {}
        if last.get("role") == role == "assistant" or (results and last.get("results")):
            last["content"] = [*last["content"], *blocks]
        elif role:
            found.append({"role": role, "content": blocks, "results": results})
        else:
            passed.add(one.get("type") or "item", one)
    return [{"role": one["role"], "content": one["content"]} for one in found]


def _make_call(body: Value, response: Value, record: Value, line: int, messages: list[JSON], answers: list[JSON]) -> Call:
    """One call. A compaction answers with what stands for the history; the prompts in it are no words of the model."""
    lead: list[JSON] = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    settings = {key: body[key] for key in SETTINGS if body.get(key) is not None}
    tools = body.get("tools")
    whole = build_body([*lead, *messages], tools if isinstance(tools, list) else (), **settings)
    compacted = response.get("object") == COMPACTION
    content = [block for message in answers for block in message["content"]]
    content = [block for block in content if not compacted or block.get("type") == "compaction"]
    about: dict[str, Any] = {
        "model": as_text(response.get("model")) or as_text(body.get("model")),
        "id": as_text(response.get("id")),
        "usage": convert_usage(response.get("usage")),
        "stop_reason": "compaction" if compacted else as_text(response.get("status")) or None,
        "sent_at": parse_time(response.get("created_at"))
        or next((at for k in TIME_KEYS if (at := parse_time(record.get(k)))), None),
        "answered_at": parse_time(response.get("completed_at")),
    }
    failed = as_text(as_mapping(response.get("error")).get("message")) or ("" if content else "no answer is logged")
    return Call(whole, {"content": content} if content else None, about, "" if content else failed, line)
