"""Logs of Inspect evaluations: `.eval` archives and `.json`, a session for each sample.

Each call of the model is an event with its whole input, whose texts may stand among the attachments or in a pool, so a sample's
calls are read as recorded API calls are. The conversation with the most calls is the sample's; graders and other agents are its
subagents. Longer than a mapping because of those two indirections, and of samples without events.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.errors import UnreadableFile
from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.messages import build_body, convert_message, make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Note, Session
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "inspect"
SAMPLE = re.compile(r"samples/(.+)_epoch_(\d+)\.json")
KEPT = "attachment://"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "zip":
        return (
            90
            if source.find_siblings("_journal/start.json")
            or (source.find_siblings("header.json") and source.find_siblings("samples/*.json"))
            else 0
        )
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("eval"), dict):
        return 0
    return 90 if {"task", "model"} <= document["eval"].keys() and {"samples", "plan", "status"} & document.keys() else 0


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind != "zip":
        for number, sample in enumerate(as_rows(as_mapping(source.document).get("samples"))):
            yield Entry(str(number), _make_title(sample), _find_start(sample), requests=len(_find_calls(sample)))
        return
    reported = _open_member(source, "summaries.json")
    about = {f"{row.get('id')}_{row.get('epoch')}": row for row in as_rows(reported.document if reported else None)}
    for file in source.find_siblings("samples/*.json"):
        name = file.path.relative_to(source.path).as_posix()
        if found := SAMPLE.fullmatch(name):
            summary = about.get(f"{found[1]}_{found[2]}", {})
            yield Entry(name, _make_title({"id": found[1], "epoch": found[2], **summary}), _find_start(summary), file.size)


def _open_member(source: Source, name: str) -> Source | None:
    """Open what a log holds beside its samples; None where it has none, or where it is damaged. Samples are read without it."""
    try:
        found = source.open_sibling(name)
        empty = found is None or not found.head  # unpacks it
    except UnreadableFile as error:
        source.unread[0, error.what] = Note("warning", 0, error.what)
        return None
    return None if empty else found


def read(source: Source, entry: Entry) -> Thread:
    if source.kind == "zip":
        file, start = (
            source.open_sibling(entry.id),
            _open_member(source, "header.json") or _open_member(source, "_journal/start.json"),
        )
        sample, log = as_mapping(file.document if file else None), as_mapping(start.document if start else None)
    else:
        log = as_mapping(source.document)
        sample = as_rows(log.get("samples"))[int(entry.id)]
    id = f"{source.path.stem}/{sample.get('id')}.{sample.get('epoch')}"
    evaluated = as_mapping(log.get("eval"))
    about = {
        "task": evaluated.get("task"),
        "sample": sample.get("id"),
        "epoch": sample.get("epoch"),
        "scores": sample.get("scores"),
    }
    about |= {key: sample[key] for key in ("limit", "error") if sample.get(key)}
    calls = _find_calls(sample)
    if not calls:
        return _build_without_events(id, entry.title, about, sample, as_text(evaluated.get("model")))
    attachments, notes = as_mapping(sample.get("attachments")), list(_make_notes(sample))
    messages = [_resolve(message, attachments) for message in as_rows(sample.get("messages"))]
    session = _build_session(group_calls([_convert_call(event, sample, attachments) for event in calls], id), messages)
    fields = {key: value for key, value in about.items() if value not in (None, "", {})}
    return Thread(structs.replace(session, title=entry.title, about=fields, notes=(*session.notes, *notes)))


def _build_without_events(id: str, title: str, about: Mapping[str, JSON], sample: Value, model: str) -> Thread:
    """A sample without events: each answer is taken to have seen all that stands before it."""
    builder, passed = Builder(id, NAME, title, **about), SkippedRecords()
    attachments = as_mapping(sample.get("attachments"))
    messages = [_resolve(message, attachments) for message in as_rows(sample.get("messages"))]
    nodes = list(make_nodes(messages, lambda message: {"model": as_text(message.get("model")) or model}, passed))
    builder.add_note("info", 0, "the log holds no event of a model's call: what was sent is taken from the list of messages")
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _build_session(found: Conversations, messages: list[Any]) -> Session:
    """The main conversation, the others hanging from the answers that were the newest when they began."""
    first, *more = (entry.id for entry in found.list_entries())
    main, others = found.build_session(first, NAME), [found.build_session(id, NAME) for id in more]
    answers = [n for n, message in enumerate(messages) if message.get("role") == "assistant"]
    last = main.messages[-1]
    rest = messages[answers[-1] + 1 :] if answers else []
    if rest and last.role == "assistant":  # results that no call saw any more
        blocks = [block.raw for block in main.blocks[last.start : last.stop]]
        if blocks == convert_message(messages[answers[-1]])[1]:
            main = found.build_session(first, NAME, build_body(rest)["messages"])
        else:
            what = f"the sample's last answer is not that of its last model event: {len(rest)} messages behind it are not shown"
            main = structs.replace(main, notes=(*main.notes, Note("warning", 0, what)))
    sent = [request.sent_at or 0 for request in main.requests]
    agents = []
    for agent in others:
        at = bisect_left(sent, agent.requests[0].sent_at or 0) - 1
        place = main.requests[at].stop - 1 if at >= 0 and main.requests[at].stop else 0
        agents.append(structs.replace(agent, parent=main.id, at=place))
    return structs.replace(main, subagents=tuple(agents))


def _make_title(sample: Value) -> str:
    prompt = sample.get("input")
    messages = as_rows(prompt) if isinstance(prompt, list) else []
    first = next((as_text(message.get("content")) for message in messages if message.get("role") == "user"), as_text(prompt))
    reported = " ".join(first.split())[:60] if not first.startswith(KEPT) else ""
    return f"{sample.get('id')} (epoch {sample.get('epoch')})" + (f": {reported}" if reported else "")


def _find_start(sample: Value) -> float | None:
    first = next(iter(as_rows(sample.get("events"))), {})
    return parse_time(sample.get("started_at") or first.get("timestamp"))


def _find_calls(sample: Value) -> list[Value]:
    return [event for event in as_rows(sample.get("events")) if event.get("event") == "model" and "output" in event]


def _make_notes(sample: Value) -> Iterator[Note]:
    """Compactions and limits as the log has them; what a compaction did is seen in the next input."""
    for event in as_rows(sample.get("events")):
        if event.get("event") == "compaction":
            sizes = f"{event.get('tokens_before')} tokens before, {event.get('tokens_after')} after"
            yield Note("info", 0, f"a compaction ({event.get('type') or 'summary'}): {sizes}")
        elif event.get("event") == "sample_limit":
            yield Note("info", 0, f"a limit ended the sample: {str(event.get('message') or event.get('type'))[:200]}")


def _convert_call(event: Value, sample: Value, attachments: Value) -> Call:
    output = as_mapping(event.get("output"))
    choice = next(iter(as_rows(output.get("choices"))), {})
    usage = as_mapping(output.get("usage"))
    raw = as_mapping(as_mapping(event.get("call")).get("response"))
    sent, retries = parse_time(event.get("timestamp")), event.get("retries")
    lasted = parse_usd(output.get("time"))  # seconds: any number that is none below zero
    about: dict[str, Any] = {
        "model": as_text(output.get("model")) or as_text(event.get("model")),
        "sent_at": sent,
        "answered_at": parse_time(event.get("completed")) or (sent + lasted if sent and lasted else None),
        "stop_reason": as_text(choice.get("stop_reason")) or None,
        "id": as_text(raw.get("id")),
        "usage": convert_usage(usage)
        if event.get("cache") != "read"
        else None,  # an answer from Inspect's own cache cost nothing
        "logged_usd": parse_usd(usage.get("total_cost")),
    }
    if isinstance(retries, int) and 0 < retries < 1000:
        about["attempts"] = 1 + retries
    tools = event.get("tools")
    messages = [_resolve(message, attachments) for message in _find_input(event, sample)]
    body = build_body(messages, [_resolve(tool, attachments) for tool in tools] if isinstance(tools, list) else ())
    content = convert_message({**as_mapping(_resolve(choice.get("message"), attachments)), "role": "assistant"})[1]
    error = as_text(event.get("error")) or as_text(output.get("error"))
    return Call(body, {"content": content} if content else None, about, (error or "no answer") if not content else "")


def _find_input(event: Value, sample: Value) -> list[Any]:
    """What was sent; in newer logs as ranges of the sample's pool of messages."""
    messages, pool = event.get("input"), as_mapping(sample.get("events_data")).get("messages")
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if messages or not isinstance(pool, list) or not isinstance(event.get("input_refs"), list):
        return messages if isinstance(messages, list) else []
    ranges = [part for part in event["input_refs"] if isinstance(part, list) and len(part) == 2]
    return [message for a, b in ranges if isinstance(a, int) and isinstance(b, int) for message in pool[max(0, a) : max(0, b)]]


def _resolve(value: Any, attachments: Value) -> Any:
    """A value with its attachments put in."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(KEPT), value) if value.startswith(KEPT) else value
    if isinstance(value, list):
        return [_resolve(one, attachments) for one in value]
    return {key: _resolve(one, attachments) for key, one in value.items()} if isinstance(value, dict) else value


IMPORTER = Importer(
    NAME,
    "Inspect log (.eval or .json)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".eval"),
    wants="Inspect log with `eval` and `samples`",
    right="a session for each sample, graders as its subagents; attachments and pools",
)
