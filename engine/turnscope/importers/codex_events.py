"""What `codex exec --json` printed until September 2025: the events of Codex's protocol (`{"id", "msg": {"type": ...}}`).

The prompt is a line of its own. Each response's usage is an event behind it. What was printed piece by piece is left out where
the whole follows. From the source of that time; no real sample was at hand. Longer than a mapping because a call and what it
gave are two events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, make_call, make_result, make_text, make_thinking, make_usage
from turnscope.reading.nodes import SkippedRecords, iter_objects, make_title
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder, Draft
from turnscope.session.model import JSON, Usage
from turnscope.session.thread import Thread

NAME = "codex-events"
KNOWN = ("task_started", "agent_message", "token_count", "exec_command_begin", "agent_reasoning", "session_configured")
REPEATS = ("_delta", "_section_break", "task_complete", "agent_reasoning_raw_content", "turn_diff")
Event = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    return 85 if any("id" in row and as_mapping(row.get("msg")).get("type") in KNOWN for row in rows) else 0


class _Events:
    """The session while its events are read. `answer`: the answer that goes on until a result comes."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.model = ""
        self.answer: Draft | None = None
        self.total: JSON = None

    def add_event(self, event: Event, line: int) -> None:
        msg = as_mapping(event.get("msg"))
        kind = as_text(msg.get("type"))
        if "prompt" in event:
            self.builder.add_message("user", as_text(event["prompt"]))
            self.answer = None
        elif not msg:
            self.model = as_text(event.get("model")) or self.model
            self.builder.about |= {key: event[key] for key in event if isinstance(event[key], str) and event[key]}
        elif kind == "token_count":
            self._add_usage(msg, line)
        elif kind == "session_configured":
            self.model = as_text(msg.get("model")) or self.model
            self.builder.id = as_text(msg.get("session_id")) or self.builder.id
        elif kind == "task_started":
            window = msg.get("model_context_window")
            self.builder.window = window if isinstance(window, int) and window > 0 else self.builder.window
        elif kind in ("error", "stream_error"):
            self.builder.add_note("warning", line, f"a request failed: {as_text(msg.get('message'))}"[:300])
        elif not self._add_item(kind, msg) and not kind.endswith(REPEATS):
            self.passed.add(kind, msg, line)

    def _add_item(self, kind: str, msg: Event) -> bool:
        """A text, a call or a result. False for anything else."""
        id = as_text(msg.get("call_id"))
        match kind:
            case "user_message":
                self.builder.add_message("user", as_text(msg.get("message")))
            case "agent_message":
                self._say(make_text(as_text(msg.get("message"))))
            case "agent_reasoning":
                self._say(make_thinking(as_text(msg.get("text"))))
            case "exec_command_begin":
                self._say([make_call(id, "shell", {key: msg[key] for key in ("command", "cwd") if key in msg})])
            case "patch_apply_begin":
                self._say([make_call(id, "apply_patch", {"changes": msg.get("changes")})])
            case "mcp_tool_call_begin":
                called = as_mapping(msg.get("invocation"))
                self._say([make_call(id, as_text(called.get("tool")), called.get("arguments"))])
            case "web_search_end":
                self._say([make_call(id, "web_search", {"query": msg.get("query")})])
            case "exec_command_end" | "patch_apply_end":
                texts = (as_text(msg.get(key)) for key in ("aggregated_output", "formatted_output"))
                streams = "\n".join(filter(None, (as_text(msg.get(key)) for key in ("stdout", "stderr"))))
                failed = msg.get("exit_code") not in (0, None) or msg.get("success") is False
                self._answer(make_result(id, next(filter(None, texts), streams), failed))
            case "mcp_tool_call_end":
                gave = as_mapping(msg.get("result"))
                failed = "Err" in gave or as_mapping(gave.get("Ok")).get("is_error") is True
                self._answer(make_result(id, gave.get("Err") or as_mapping(gave.get("Ok")).get("content"), failed))
            case "web_search_begin":
                pass
            case _:
                return False
        return True

    def _say(self, blocks: list[JSON]) -> None:
        if self.answer is None:
            self.answer = self.builder.add_message("assistant", [], id=f"answer {len(self.builder.drafts)}")
            self.builder.set_request(self.answer, model=self.model)
        self.builder.add_message("assistant", blocks, id=self.answer.id)

    def _answer(self, result: JSON) -> None:
        self.builder.add_message("user", [result], origin="tool")
        self.answer = None

    def _add_usage(self, msg: Event, line: int) -> None:
        """Usage of the newest answer. The total that was there before is the count before, printed again."""
        info = as_mapping(msg.get("info"))
        total = as_mapping(info.get("total_token_usage")).get("total_tokens")
        last = next((draft for draft in reversed(self.builder.drafts) if draft.request), None)
        if total is not None and total == self.total:
            return
        self.total = total
        if info and last is not None and last.request is not None and last.request.usage is None:
            self.builder.set_request(last, model=self.model, usage=_convert_usage(as_mapping(info.get("last_token_usage"))))
        elif info:
            self.passed.add("token_count without its answer", msg, line)


def _convert_usage(used: Event) -> Usage | None:
    return make_usage(used.get("input_tokens"), used.get("output_tokens"), used.get("cached_input_tokens"))


def read(source: Source, _entry: Entry) -> Thread:
    events = _Events(Builder(source.path.stem, NAME))
    for event, line in iter_objects(source.iter_records(), events.builder, events.passed):
        events.add_event(event, line)
    events.builder.title = make_title(events.builder)
    events.passed.add_notes(events.builder)
    return Thread(events.builder.build())


IMPORTER = Importer(
    NAME,
    "Codex exec --json before October 2025",
    sniff,
    read,
    suffixes=(".jsonl", ".json"),
    wants="events with an `id` and a `msg` of Codex's protocol",
    right="calls with results; usage of each response",
    sample=False,
)
