"""SWE-agent trajectories (`.traj`): the chat as `history`, and `trajectory`, whose steps repeat it.

New files have calls with ids and results in role `tool`; older ones say commands in texts. The totals of the run are all that
is known of its usage and cost. Examples that stand before the task (`is_demo`) were sent with every request. A step's `query`
is what was sent: where it differs from the history, the tool elided that. Longer than a mapping for commands in texts and that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.commands import convert_commands
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import Edit, ObservedEdit, Session, Span
from turnscope.session.thread import Thread
from turnscope.session.timeline import STATIC_ROLES
from turnscope.session.usage import parse_usd

NAME = "swe-agent"
ABOUT = ("exit_status", "swe_agent_version", "model_stats", "early_exit")


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("trajectory"), list):
        return 0
    steps = document["trajectory"][:1]
    stepped = all({"action", "observation"} <= as_mapping(step).keys() for step in steps)
    ended = (
        isinstance(document.get("info"), dict) or source.cut is not None
    )  # what was known at the end stands behind the steps
    return 90 if stepped and ended and ("history" in document or steps) else 0


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    info = as_mapping(document.get("info"))
    config = as_mapping(
        as_mapping(parse_if_json(as_text(document.get("replay_config"))) or document.get("replay_config")).get("agent")
    )
    model = as_text(as_mapping(config.get("model")).get("name"))
    name = as_text(document.get("environment"))
    about = {key: info[key] for key in ABOUT if info.get(key)}
    builder, passed = (
        Builder(source.path.name.removesuffix(".traj"), NAME, config=config.get("name"), **about),
        SkippedRecords(),
    )
    history, stepped = as_rows(document.get("history")), as_rows(document.get("trajectory"))
    if not history or source.cut is not None:  # a file that ends too early may have more of its steps
        history = max(history, _list_steps(stepped), key=len)
    answers = sum(message.get("role") == "assistant" and not message.get("is_demo") for message in history)
    stats = as_mapping(info.get("model_stats"))
    if stats:
        builder.about |= {"run_usd": paid} if (paid := parse_usd(stats.get("instance_cost"))) else {}
        cost = f", {stats['instance_cost']} USD" if isinstance(stats.get("instance_cost"), (int, float)) else ""
        sizes = f"{stats.get('tokens_sent', 0)} tokens sent, {stats.get('tokens_received', 0)} received"
        builder.add_note(
            "info", 0, f"the log reports the run's totals alone: {stats.get('api_calls', answers)} calls, {sizes}{cost}"
        )
    marked = [{**message, "origin": "meta"} if message.get("is_demo") else message for message in history]
    messages = [_convert_message(message) for message in convert_commands(marked, _find_command, "command")]
    nodes = list(make_nodes(messages, lambda message: None if message.get("is_demo") else {"model": model}, passed))
    builder.about |= {"environment": name} if name and name != "main" else {}
    passed.add_notes(builder)
    queries = [as_rows(step.get("query")) for step in as_rows(document.get("trajectory"))]
    return build_thread(builder, nodes, observers=[lambda session: _observe_elided(session, queries)] if any(queries) else ())


def _observe_elided(session: Session, queries: list[list[Mapping[str, Any]]]) -> Iterator[ObservedEdit]:
    """What queries hold in place of messages; only where they hold every message before the request."""
    shown: dict[int, str] = {}
    for request, query in zip(session.requests, queries, strict=False):
        before = [message for message in session.messages if message.stop <= request.cut]
        for message, sent in zip(before, query if len(query) == len(before) else (), strict=False):
            if sent.get("role") == "assistant" or message.role in ("assistant", *STATIC_ROLES):
                continue
            blocks, reported = session.blocks[message.start : message.stop], extract_text(sent.get("content"))
            if shown.setdefault(message.start, reported) == reported or not reported:  # sent as in the history
                continue
            shown[message.start], raw = reported, blocks[0].raw
            body = {**raw, "content": reported} if isinstance(raw, dict) and raw.get("type") == "tool_result" else reported
            span = Span(message.start, message.stop)
            yield ObservedEdit(
                request.n, Edit("clear", "the query held something else here", span, make_message_parts(message.role, [body]))
            )


def _convert_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the history; the model's thoughts and its command repeat the content."""
    fields = {key: value for key, value in message.items() if key not in ("thought", "action", "agent", "message_type")}
    blocks = as_rows(message.get("thinking_blocks"))
    if blocks:
        content = message.get("content")
        fields["content"] = [*blocks, *(content if isinstance(content, list) else [{"type": "text", "text": as_text(content)}])]
    return fields


def _find_command(message: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Where the command that was run stands in an answer: in a fence, in `<command>`, or bare at its end."""
    action, reported = as_text(message.get("action")).strip(), extract_text(message.get("content"))
    start = reported.rfind(action) if action else -1
    if start < 0:
        return None
    stop = start + len(action)
    before = re.search(r"(```[^\n`]*\n|<command>)\s*$", reported[:start])
    after = re.match(r"\s*(```|</command>)", reported[stop:])
    return (before.start(), stop + after.end(), action) if before and after else (start, stop, action)


def _list_steps(steps: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The chat as the steps have it: what each held first of a message, and of the last step its answer and what came back.

    `query` was sent; older files have `messages`, which end in the step's own answer and result.
    """
    messages: list[Mapping[str, Any]] = []
    known = 0  # how many of them some step holds as they were sent
    for step in steps:
        for held in (as_rows(step.get("query")), as_rows(step.get("messages"))):
            if len(held) >= len(messages):
                messages[known:] = held[known:]
                known = len(held)
        if not step.get("messages"):
            answer = as_text(step.get("response")) or dumps(step.get("action"))
            messages.append({"role": "assistant", "content": answer, "action": step.get("action")})
            messages.append({"role": "user", "content": as_text(step.get("observation"))})
    return [message for message in messages if message.get("content")]


IMPORTER = Importer(
    NAME,
    "SWE-agent trajectory (.traj)",
    sniff,
    read,
    suffixes=(".traj", ".json"),
    wants="`history` and `trajectory` of SWE-agent",
    right="commands in texts as calls, what came back as results",
    version=4,
)
