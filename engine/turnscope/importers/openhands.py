"""OpenHands: events as a list (`trajectories/ID.json`), `output.jsonl` of its benchmarks with a run on each line, and the SDK's
folders with a file for each event, and `base_state.json` next to that folder has model and usage.

An event is an action or an observation; the events of one answer share the id of the model's response. Newer events (`kind`)
are the SDK's. A condensation names the events that it forgot and where its summary stands in the view. Longer than a mapping
because both vocabularies occur, and views have to be kept to know what a condensation left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_call, make_image, make_result, make_text
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.messages import convert_content, convert_message, convert_tool
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Part
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "openhands"
KINDS = ("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "Condensation", "AgentErrorEvent")
SILENT = ("recall", "change_agent_state", "agent_state_changed", "null", "condensation_request", "CondensationRequest")
INNER = (
    "thought",
    "blocking",
    "hidden",
    "confirmation_state",
    "is_static",
    "security_risk",
    "cwd",
    "is_input",
    "wait_for_response",
)
RUNS = {"instance_id", "issue", "git_patch"}  # of a benchmark's run, and of the resolver of issues
ONE = re.compile(r"event-\d{5,}-[0-9a-f-]{32,36}\.json")  # the file of one event
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    document = source.document
    if _is_list(source) or (ONE.fullmatch(source.path.name) and _is_event(document)):
        return 90
    head = [peek_first(source, "runs")] if document is not None else source.first
    runs = [run for run in head if isinstance(run, dict) and RUNS & run.keys() and isinstance(run.get("history"), list)]
    return 90 if any(_is_event(next(iter(_flatten(run["history"])), None)) for run in runs) else 0


def _is_event(event: Any) -> bool:
    fields = as_mapping(event)
    if as_text(fields.get("kind")) in KINDS or (as_text(fields.get("kind")) and {"id", "timestamp", "source"} <= fields.keys()):
        return True
    acted = "action" in fields and ("args" in fields or "source" in fields)
    return acted or ("observation" in fields and "content" in fields and ("cause" in fields or "extras" in fields))


def _flatten(history: Any) -> list[Value]:
    """The events of a history, which may be pairs of an action and its observation."""
    found: list[Value] = []
    for row in history if isinstance(history, list) else ():
        found += as_rows(row) if isinstance(row, list) else [row] if isinstance(row, Mapping) else []
    return found


def _is_list(source: Source) -> bool:
    document = source.document
    if ONE.fullmatch(source.path.name):
        return _is_event(document)
    inner = document.get("trajectory") if isinstance(document, dict) else document
    return isinstance(inner, list) and _is_event(next(iter(inner[:1]), None))


def list_entries(source: Source) -> Iterator[Entry]:
    if _is_list(source):
        return iter([Entry(at=source.modified_at, size=source.size)])
    return make_entries(source, lambda run: Entry(str(run.get("instance_id") or ""), str(run.get("instance_id") or "")), "runs")


def read(source: Source, entry: Entry) -> Thread:
    run: Value = {} if _is_list(source) else get_conversation(source, entry, "runs")
    document = source.document
    inner = document.get("trajectory") if isinstance(document, dict) else document
    alone = bool(ONE.fullmatch(source.path.name))
    events = (
        _flatten([file.document for file in _list_files(source)])
        if alone
        else _flatten(run.get("history"))
        if run
        else _flatten(inner)
    )
    id = as_text(run.get("instance_id"))
    builder = Builder(f"{source.path.stem}/{id}" if id else source.path.stem, NAME, id)
    config = as_mapping(as_mapping(run.get("metadata")).get("llm_config")) or as_mapping(
        as_mapping(run.get("metadata")).get("llm")
    )
    metrics = as_mapping(run.get("metrics"))
    if alone:
        config, metrics = _read_state(source)
        builder = Builder(source.path.parent.parent.name or source.path.stem, NAME)
    builder.about |= {key: run[key] for key in ("instance_id", "error") if run.get(key)}
    if parse_usd(metrics.get("accumulated_cost")):
        builder.add_note("info", 0, f"the log reports the run's cost: {metrics['accumulated_cost']} USD")
    if run.get("error"):
        builder.add_note("warning", 0, f"the run ended with an error: {str(run['error'])[:200]}")
    events_read = _Events(as_text(config.get("model")), metrics)
    for number, event in enumerate(events):
        events_read.take(event, number)
    events_read.passed.add_notes(builder)
    return build_thread(builder, events_read.nodes, lead=events_read.lead)


def _list_files(source: Source) -> list[Source]:
    """The files of all events of a conversation, in their order."""
    return [file for file in source.find_siblings("event-*.json") if ONE.fullmatch(file.path.name)]


def _read_state(source: Source) -> tuple[Value, Value]:
    """The model's settings and what was used, as the conversation's state has them."""
    found = source.open_sibling("../base_state.json") or source.open_sibling("base_state.json")
    state = as_mapping(found.document) if found else {}
    used = as_mapping(as_mapping(state.get("stats")).get("usage_to_metrics"))
    return as_mapping(as_mapping(state.get("agent")).get("llm")), as_mapping(
        used.get("agent") or next(iter(used.values()), None)
    )


def find_related(source: Source) -> list[Source]:
    return [file for file in _list_files(source) if file.path != source.path] if ONE.fullmatch(source.path.name) else []


def find_main_path(path: Path) -> Path:
    return path.parent if ONE.fullmatch(path.name) else path


class _Events:
    """The nodes of a run while its events are read. `view`: the ids of the events that the model sees, None = a summary."""

    def __init__(self, model: str, metrics: Value) -> None:
        self.model = model
        self.reported = {as_text(row.get("response_id")): row for row in as_rows(metrics.get("token_usages"))}
        costs, self.spent = as_rows(metrics.get("costs")), 0.0
        same = len(costs) == len(self.reported)
        self.costs = dict(zip(self.reported, (parse_usd(row.get("cost")) for row in costs), strict=False)) if same else {}
        self.nodes, self.lead, self.passed = list[Node](), list[NodeMessage](), SkippedRecords()
        self.answers: dict[str, Node] = {}  # by the id of the model's response
        self.calls: dict[str, str] = {}  # the id of the call that an action is, by the event's
        self.homes: dict[str, str] = {}  # the node that an event stands in
        self.view: list[str | tuple[Part, ...]] = []
        self.before: float | None = None

    def take(self, event: Value, number: int) -> None:
        id = str(event.get("id", f"#{number}"))
        at = parse_time(event.get("timestamp"))
        kind = as_text(event.get("kind")) or as_text(event.get("action")) or as_text(event.get("observation"))
        count = len(self.nodes)
        if kind in ("condensation", "Condensation"):
            self._take_condensation(id, as_mapping(event.get("args")) or event, at)
        elif not (self._take_new(event, id, at) if event.get("kind") else self._take_old(event, id, at)) and kind not in SILENT:
            self.passed.add(kind or "without a kind", event)
        if id in self.homes:
            self.view.append(id)
        self.before = at if len(self.nodes) > count or id in self.homes else self.before

    def _take_old(self, event: Value, id: str, at: float | None) -> bool:
        args, agent = as_mapping(event.get("args")), event.get("source") == "agent"
        action = as_text(event.get("action"))
        if action == "system":
            return self._take_system(as_text(args.get("content")), args.get("tools"))
        if action == "message" and not agent:
            addresses = args.get("image_urls")
            images = [make_image(one) for one in (addresses if isinstance(addresses, list) else ()) if isinstance(one, str)]
            return self._add_node(
                id, NodeMessage("user", join_blocks([*make_text(as_text(args.get("content"))), *images]), "prompt"), at
            )
        if action and agent:
            return self._take_action(event, args, action, id, at)
        if not event.get("observation"):
            return False
        called = as_text(as_mapping(event.get("tool_call_metadata")).get("tool_call_id")) or self.calls.get(
            str(event.get("cause"))
        )
        if called:
            content, failed = event.get("content"), event.get("observation") == "error" or event.get("success") is False
            return self._take_result(id, make_result(called, content, failed), at)
        extras = as_mapping(event.get("extras"))
        known = [as_text(row.get("content")) for row in as_rows(extras.get("microagent_knowledge"))]
        known = [*(as_text(extras.get(key)) for key in ("repo_instructions", "additional_agent_instructions")), *known]
        reported = "\n\n".join(filter(None, known)) if event.get("observation") == "recall" else as_text(event.get("content"))
        silent = event.get("observation") in SILENT and not reported
        return not silent and bool(reported) and self._add_node(id, NodeMessage("user", reported, "meta"), at)

    def _take_action(self, event: Value, args: Value, action: str, id: str, at: float | None) -> bool:
        """An action of the agent: its call in the model's answer, or the answer itself."""
        about = as_mapping(event.get("tool_call_metadata"))
        response = as_mapping(about.get("model_response"))
        answer = as_text(response.get("id")) or id
        self.calls[id] = as_text(about.get("tool_call_id"))
        if answer in self.answers:
            self.homes[id] = self.answers[answer].id
            return True
        choice = next(iter(as_rows(response.get("choices"))), {})
        blocks = convert_message({**as_mapping(choice.get("message")), "role": "assistant"})[1]
        if not blocks and action == "message":
            blocks = make_text(as_text(args.get("content")))
            self.calls.pop(id)
        elif not blocks:  # the action alone is known
            self.calls[id] = self.calls[id] or f"event-{id}"
            arguments = {key: value for key, value in args.items() if key not in INNER and value not in (None, "")}
            thought = as_text(args.get("thought"))
            blocks = [*make_text(thought), make_call(self.calls[id], as_text(about.get("function_name")) or action, arguments)]
        spent = as_mapping(event.get("llm_metrics")).get("accumulated_cost")
        cost = self.costs.get(answer, max(0.0, spent - self.spent) if parse_usd(spent) is not None and spent else None)
        self.spent = parse_usd(spent) or self.spent
        request = {
            "model": as_text(response.get("model")) or self.model,
            "usage": convert_usage(response.get("usage") or self.reported.get(answer)),
            "id": as_text(response.get("id")),
            "stop_reason": as_text(choice.get("finish_reason")) or None,
            "logged_usd": cost,
        }
        return self._take_answer(answer, id, blocks, request, at)

    def _take_new(self, event: Value, id: str, at: float | None) -> bool:
        match as_text(event.get("kind")):
            case "SystemPromptEvent":
                prompt = event.get("system_prompt")
                more = event.get("dynamic_context")
                reported = "\n\n".join(
                    filter(None, (as_text(as_mapping(one).get("text")) or as_text(one) for one in (prompt, more)))
                )
                return self._take_system(reported, event.get("tools"))
            case "MessageEvent":
                role, blocks = convert_message(as_mapping(event.get("llm_message")))
                more = convert_content(event.get("extended_content")) if isinstance(event.get("extended_content"), list) else []
                answer = as_text(event.get("llm_response_id")) or id
                if role == "assistant":
                    return self._take_answer(answer, id, blocks, self._make_request(answer), at)
                return bool(role) and self._add_node(id, NodeMessage("user", join_blocks([*blocks, *more]), "prompt"), at)
            case "ActionEvent":
                answer, use = as_text(event.get("llm_response_id")) or id, as_mapping(event.get("tool_call"))
                blocks = convert_message({"role": "assistant", "tool_calls": [use]})[1]
                thoughts = {
                    "role": "assistant",
                    "content": event.get("thought"),
                    "reasoning_content": event.get("reasoning_content"),
                }
                signed = convert_content(as_rows(event.get("thinking_blocks")))
                thinking = convert_message({**thoughts, **({"reasoning_content": None} if signed else {})})[1]
                return self._take_answer(answer, id, [*signed, *thinking, *blocks], self._make_request(answer), at)
            case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent" if as_text(event.get("tool_call_id")):
                seen = as_mapping(event.get("observation"))
                content = next((seen[key] for key in ("content", "output") if seen.get(key)), None)
                content = content or event.get("error") or event.get("rejection_reason") or (dumps(dict(seen)) if seen else "")
                failed = seen.get("is_error") is True or event["kind"] != "ObservationEvent"
                return self._take_result(id, make_result(as_text(event["tool_call_id"]), content, failed), at)
        return False

    def _make_request(self, answer: str) -> dict[str, Any]:
        usage = convert_usage(self.reported.get(answer))
        return {"model": self.model, "usage": usage, "id": answer, "logged_usd": self.costs.get(answer)}

    def _take_system(self, reported: str, tools: Any) -> bool:
        if reported and not self.lead:
            self.lead = [NodeMessage("system", reported, "system")]
            if as_rows(tools):
                self.lead.insert(0, NodeMessage("tools", [convert_tool(tool) for tool in as_rows(tools)], "system"))
        return True

    def _take_answer(self, answer: str, id: str, blocks: list[JSON], request: dict[str, Any], at: float | None) -> bool:
        if answer in self.answers:
            node = self.answers[answer]
            node.messages[0].content = [*node.messages[0].content, *blocks]
            self.homes[id] = node.id
            return True
        fields = {**request, "sent_at": self.before}
        self._add_node(id, NodeMessage("assistant" if blocks else "", blocks, request=fields), at)
        self.answers[answer] = self.nodes[-1]
        return True

    def _take_result(self, id: str, block: JSON, at: float | None) -> bool:
        last = self.nodes[-1].messages if self.nodes else []
        if last and last[0].origin == "tool":
            last[0].content = [*last[0].content, block]
            self.homes[id] = self.nodes[-1].id
            return True
        return self._add_node(id, NodeMessage("user", [block], "tool"), at)

    def _add_node(self, id: str, message: NodeMessage, at: float | None) -> bool:
        node = Node(f"{id}.{len(self.nodes)}", None, [message], at)
        self.nodes.append(node)
        self.homes[id] = node.id
        return True

    def _take_condensation(self, id: str, args: Value, at: float | None) -> None:
        """What a condensation leaves of the view. An answer goes when all its events went."""
        listed_ = args.get("forgotten_event_ids")
        start, stop = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
        gone = {str(one) for one in listed_} if isinstance(listed_, list) else set()
        if isinstance(start, int) and isinstance(stop, int):
            gone |= {one for one in self.homes if one.isdecimal() and start <= int(one) <= stop}
        view = [one for one in self.view if not isinstance(one, str) or one not in gone]
        summary, offset = as_text(args.get("summary")), args.get("summary_offset")
        if summary:
            view = [one for one in view if isinstance(one, str)]
            # The system prompt is an event of the view, and stands ahead of all nodes here.
            place = offset - bool(self.lead) if isinstance(offset, int) and not isinstance(offset, bool) else 0
            view.insert(max(0, place), make_message_parts("user", make_text(summary)))
        self.view = view
        keep: list[str | tuple[Part, ...]] = []
        for one in view:
            home = self.homes[one] if isinstance(one, str) else one
            if not isinstance(home, str) or home not in keep:  # an answer with several calls is an event for each
                keep.append(home)
        because = "condensed" + (" into a summary" if summary else ": events were forgotten")
        self.nodes.append(Node(f"{id}.{len(self.nodes)}", None, [], at, Cut(because, keep, facts={"forgotten": len(gone)})))


IMPORTER = Importer(
    NAME,
    "OpenHands events (trajectory, output.jsonl)",
    sniff,
    read,
    list_entries,
    related=find_related,
    part_of=find_main_path,
    wants="list of actions and observations",
    right="what a condensation forgot; usage as logged",
)
