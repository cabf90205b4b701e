"""mini-swe-agent trajectories: `{info, messages, trajectory_format}`; each answer carries the API's own response.

Commands stand in the text of answers (version 1) or are calls with ids (version 2); responses are of Chat Completions or of the
Responses API. The cost is the run's, except where an answer has its own. Longer than a mapping for those two and two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.commands import convert_commands
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_item
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "mini-swe-agent"
OUTPUTS = ("<returncode>", "<output>", "Observation:")  # how what a command gave begins
COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL)


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if isinstance(document, list):
        return 60 if _is_bare_run(document) else 0
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return 0
    named = as_text(document.get("trajectory_format")).startswith("mini-swe-agent")
    return 95 if named else 80 if "mini_version" in as_mapping(document.get("info")) else 0


def _is_bare_run(document: Sequence[Any]) -> bool:
    """Whether a list is what older versions wrote: messages alone, with a command in answers and what it gave behind it."""
    messages = document[:9]
    plain = [m for m in messages if isinstance(m, Mapping) and isinstance(m.get("content"), str) and as_text(m.get("role"))]
    answers = [m for m in plain if m["role"] == "assistant"]
    outputs = [m for m in plain[2:] if m["role"] == "user" and m["content"].lstrip().startswith(OUTPUTS)]
    return len(plain) == len(messages) and bool(outputs) and sum(map(bool, map(_find_command, answers))) * 2 > len(answers)


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping({"messages": [*source.document]} if isinstance(source.document, list) else source.document)
    info = as_mapping(document.get("info"))
    config, stats = as_mapping(info.get("config")), as_mapping(info.get("model_stats"))
    model = as_text(as_mapping(config.get("model")).get("model_name"))
    about: dict[str, Any] = {
        "exit_status": info.get("exit_status"),
        "mini_version": info.get("mini_version"),
        "model_stats": dict(stats),
    }
    builder, passed = Builder(source.path.name.split(".traj")[0].removesuffix(".json"), NAME, **about), SkippedRecords()
    if cost := parse_usd(stats.get("instance_cost")):
        builder.about["run_usd"] = cost
        builder.add_note(
            "info", 0, f"the log reports the run's cost: {stats['instance_cost']} USD for {stats.get('api_calls')} calls"
        )
    chat: list[Mapping[str, Any]] = []
    for message in as_rows(document.get("messages")):
        if message.get("role") == "exit":  # how the run ended; no message that was sent
            builder.add_note("info", 0, f"the run ended: {as_text(message.get('content'))[:200]}")
        elif (
            message.get("role")
            or message.get("object") == "response"
            or message.get("type") in ("function_call_output", "message")
        ):
            chat += _convert(message)
    nodes = list(make_nodes(list(convert_commands(chat, _find_command)), lambda message: _make_request(message, model), passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _find_command(message: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """The one command in an answer; an answer with none or several was refused."""
    found = list(COMMAND.finditer(extract_text(message.get("content"))))
    return (found[0].start(), found[0].end(), found[0][1]) if len(found) == 1 else None


def _convert(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A message; before what the tool says of an answer that it could not use, the request for that, which is in no message."""
    extra = as_mapping(message.get("extra"))
    if message.get("role") != "user" or not as_mapping(extra.get("response")):
        return [_simplify(message)]
    return [{"role": "assistant", "content": "", "extra": extra}, {**_simplify(message), "origin": "meta"}]


def _simplify(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of the Responses API as one with a role."""
    at = {
        "timestamp": message.get("timestamp") or as_mapping(message.get("extra")).get("timestamp"),
        "extra": message.get("extra"),
    }
    if message.get("object") == "response":
        blocks = [block for one in as_rows(message.get("output")) for block in convert_item(one)[1]]
        return {"role": "assistant", "content": blocks, **at, "response": message}
    if message.get("type") == "function_call_output":
        return {"role": "tool", "tool_call_id": message.get("call_id"), "content": message.get("output"), **at}
    return {**message, **at}


def _make_request(message: Mapping[str, Any], model: str) -> dict[str, Any]:
    extra = as_mapping(message.get("extra"))
    response = as_mapping(extra.get("response")) or as_mapping(message.get("response"))
    choice = next(iter(as_rows(response.get("choices"))), {})
    return {
        "model": as_text(response.get("model")) or model,
        "usage": convert_usage(response.get("usage")),
        "id": as_text(response.get("id")),
        "sent_at": parse_time(response.get("created") or response.get("created_at")),
        "stop_reason": as_text(choice.get("finish_reason")) or as_text(response.get("status")) or None,
        "logged_usd": parse_usd(extra.get("cost")),
    }


IMPORTER = Importer(
    NAME,
    "mini-swe-agent trajectory (JSON)",
    sniff,
    read,
    wants="`trajectory_format` of mini-swe-agent",
    right="commands in texts as calls, each with the API's own usage",
    version=4,
)
