"""Codex CLI rollouts: JSON lines under `~/.codex/sessions/YYYY/MM/DD`, in an envelope of `{timestamp, type, payload}` or flat.

Events repeat what the items say, so items make the timeline. One answer is several items, and no item shows its end:
`token_count` does, which stands before them in 0.40 and behind them later, or a `token_usage_record` for each response.
`compacted` replaces the history from there on; `thread_rolled_back` leaves a branch; `world_state` repeats what messages say.
A fork and a subagent that got the history begin with a copy of it, usage included, up to a turn of their own: none of its
requests is theirs. Longer than a mapping for the ends of answers and copies, compactions and rollbacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, convert_item, join_blocks, make_usage
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.recorded_body import find_common
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import Part, Session
from turnscope.session.thread import Thread
from turnscope.session.usage import InvalidCount, parse_count
from turnscope.settings import Machine

NAME = "codex"
ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record")
FLAT = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "local_shell_call")
ASIDE = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<turn_aborted>", "<permissions", "<INSTRUCTIONS>")
REPEATS = (
    *("user_message", "agent_", "item_", "task_", "thread_settings", "turn_"),
    *("exec_", "patch_", "mcp_tool", "web_search", "context_compacted"),
)
ABOUT = ("id", "cwd", "cli_version", "originator", "source", "forked_from_id", "parent_thread_id")
REQUEST = "## My request for Codex:"  # what an editor's context ends with
AGENT_PATH = "agent_path"  # a subagent's name among those of its root, which newer versions answer its call with
_GIVEN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # of a thread, at the end of its file's name
TIME_CHARS = 13  # of an id: the time in milliseconds
KEPT = 20_000  # tokens of prompts, by a quarter of their bytes, that a compaction without a list of its own kept


def sniff(source: Source) -> int:
    records = [record for record in source.first[:20] if isinstance(record, dict)]
    if any(r.get("type") in ENVELOPES and isinstance(r.get("payload"), dict) and "timestamp" in r for r in records):
        return 95
    bare = bool(records) and "type" not in records[0] and {"id", "timestamp"} <= records[0].keys()
    states = any(r.get("record_type") == "state" for r in records)
    return 90 if (bare or states) and any(r.get("type") in FLAT for r in records) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    root = machine.find_folder("CODEX_HOME", machine.home / ".codex")
    yield from (Place(root / name, "**/rollout-*.jsonl") for name in ("sessions", "archived_sessions"))


class _Rollout:
    """The nodes of a rollout while its lines are read; `path` is what stands after rollbacks."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed, self.lead = builder, SkippedRecords(), list[NodeMessage]()
        self.nodes, self.path = list[Node](), list[Node]()
        self.open: Node | None = None  # the answer that is being read
        self.model = ""
        self.total: Any = -1
        self.ahead: Any = None  # usage that stood before its answer
        self.after = False  # whether usage stands behind answers in this file
        self.recorded = False  # whether it stands in records of its own
        self.behind = self.broken = False  # whether the open answer's usage stood behind it; whether results stand behind it
        self.before: float | None = None
        self.id = ""  # of the thread
        self.copied = False  # whether what is read was copied from another thread
        self.begun = False  # whether a turn began, and no prompt stands in it yet
        self.alone: dict[str, Any] | None = None  # facts of a compaction that is all of its turn so far

    def add_line(self, record: Mapping[str, Any], line: int) -> None:
        fields = record.get("payload")
        enveloped = record.get("type") in ENVELOPES and isinstance(fields, Mapping)
        payload: Mapping[str, Any] = fields if enveloped and isinstance(fields, Mapping) else record
        kind, at = as_text(record.get("type")) if enveloped else "response_item", parse_time(record.get("timestamp"))
        if kind == "session_meta" or (line == 1 and "type" not in record):
            self._read_meta(payload, line)
        elif kind == "turn_context":
            if self.copied and self._is_own_turn(as_text(payload.get("turn_id"))):
                self.end_copy(line)
            self.model = as_text(payload.get("model")) or self.model
        elif kind == "compacted":
            self._add_compaction(payload, at)
        elif kind == "token_usage_record":
            self._read_usage_record(payload, at)
        elif kind == "event_msg":
            self._read_event(payload, line, at)
        elif kind != "world_state" and (kind != "response_item" or not self._read_item(payload, at)):
            self.passed.add(payload.get("type") or record.get("record_type") or kind, record, line)

    def _read_meta(self, meta: Mapping[str, Any], line: int) -> None:
        id, spawn = as_text(meta.get("id")), _get_spawn(meta)
        if not self.id:
            self.id, self.copied = id, bool(meta.get("forked_from_id") or spawn)
            self.builder.about |= {AGENT_PATH: spawn[AGENT_PATH]} if as_text(spawn.get(AGENT_PATH)) else {}
        elif id != self.id:
            self.copied = True
        elif self.copied:
            self.end_copy(line)
        self.builder.about = {**{key: meta[key] for key in ABOUT if meta.get(key)}, **self.builder.about}
        reported = meta.get("base_instructions") or meta.get("instructions")
        if reported and not self.lead:
            self.lead.append(NodeMessage("system", extract_text(reported), "system"))
            if isinstance(meta.get("dynamic_tools"), list) and meta["dynamic_tools"]:
                self.lead.insert(0, NodeMessage("tools", meta["dynamic_tools"], "system"))

    def _is_own_turn(self, turn: str) -> bool:
        """Whether a turn is no older than the thread: ids begin with their time. One of another form says nothing."""
        timed = all(map(_GIVEN_ID.fullmatch, (turn, self.id)))
        return not timed or turn[:TIME_CHARS] >= self.id[:TIME_CHARS]

    def end_copy(self, line: int) -> None:
        """What was read so far is a copy: requests of another thread answered it.

        Args:
            line: Where the thread's own lines begin.
        """
        count = sum(message.request is not None for node in self.nodes for message in node.messages)
        for node in self.nodes:
            node.messages = [replace(message, request=None) for message in node.messages if message.role]
        self.copied, self.open, self.ahead = False, None, None
        if count:
            self.builder.add_note(
                "info", line, f"the lines before were copied from another thread, which sent their {count} requests"
            )

    def _read_event(self, event: Mapping[str, Any], line: int, at: float | None) -> None:
        kind = as_text(event.get("type"))
        if kind == "token_count":
            self._read_usage(event.get("info"), at, line)
        elif kind == "thread_rolled_back" and isinstance(event.get("num_turns"), int):
            prompts = [n for n, node in enumerate(self.path) if node.messages and _is_prompt(node.messages[0])]
            self.path = self.path[: prompts[-event["num_turns"]]] if 0 < event["num_turns"] <= len(prompts) else []
            self.open = None
        elif kind == "task_complete" and self.alone is not None:
            self.alone["trigger"] = "manual"  # a person requested it: it is a turn of its own, without a prompt
        elif kind == "turn_aborted":
            self.builder.add_note("info", line, f"a turn was aborted: {as_text(event.get('reason')) or 'no reason is logged'}")
        elif not kind.startswith(REPEATS):
            self.passed.add(kind, event, line)
        if kind in ("task_started", "task_complete", "turn_aborted"):
            self.begun, self.alone = kind == "task_started", None

    def _read_usage(self, info: Any, at: float | None, line: int) -> None:
        """Usage of the newest request. What only repeats the total is news of rate limits."""
        total, last = (info.get(f"{which}_token_usage") for which in ("total", "last")) if isinstance(info, Mapping) else (0, 0)
        if not isinstance(total, Mapping) or not isinstance(last, Mapping):
            return
        window = info.get("model_context_window")
        self.builder.window = window if isinstance(window, int) else self.builder.window
        if total.get("total_tokens") != self.total and not self.recorded:
            self.total = total.get("total_tokens")
            self._note_total(line)
            self._add_usage(last, at)

    def _note_total(self, line: int) -> None:
        """Say so where the total is no count: then nothing tells whether this record repeats the one before."""
        try:
            parse_count(self.total, "total_tokens")
        except InvalidCount as wrong:
            self.builder.add_note("warning", line, f"{wrong}: its usage is read as a request's, and may be told twice")

    def _read_usage_record(self, record: Mapping[str, Any], at: float | None) -> None:
        """Usage of one response, by its id. From here on `token_count` only repeats it, perhaps with another total."""
        self.total, self.after, self.recorded = None, True, True
        self._add_usage(
            as_mapping(record.get("usage")), at, **{"id": record["response_id"]} if as_text(record.get("response_id")) else {}
        )

    def _add_usage(self, record: Mapping[str, Any], at: float | None, **about: Any) -> None:
        """Give usage to the open answer, or to a request without one."""
        kinds = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
        usage = make_usage(*map(record.get, kinds))
        request = self.open.messages[0].request if self.open else None
        if isinstance(request, dict) and "usage" not in request:
            request |= {"usage": usage, "answered_at": at, **about}
            self.behind = self.after = True
        elif self.after:  # of a request whose answer is no item, as a compaction's
            about |= {"model": self.model, "usage": usage, "sent_at": self.before}
            self._add_node([NodeMessage("", request=about)], at)
        else:
            self.ahead = usage

    def _read_item(self, record: Mapping[str, Any], at: float | None) -> bool:
        role, blocks = convert_item(record)
        result = bool(blocks) and blocks[0].get("type") == "tool_result"
        if not role:
            return False
        if role == "assistant":
            self._add_answer_item(blocks, at)
        elif result and self.path and [message.origin for message in self.path[-1].messages] == ["tool"]:
            self.path[-1].messages[0].content = [*self.path[-1].messages[0].content, *blocks]
        else:
            aside = extract_text(blocks).lstrip().startswith(ASIDE)
            system = role in ("developer", "system")
            origin = "tool" if result else "system" if system else "meta" if aside else ""
            message = NodeMessage(
                "system" if system else "user", blocks if result else join_blocks(blocks), origin, fence=system
            )
            self._add_node([message], at)
            self.open = self.open if result else None
            self.begun &= not _is_prompt(message)
            if _is_prompt(message) and not self.builder.title:
                self.builder.title = " ".join(extract_text(blocks).rpartition(REQUEST)[2].split())[:80]
        self.broken |= result
        self.before = at if role != "assistant" else self.before
        self.alone = None
        return True

    def _add_answer_item(self, blocks: list[Any], at: float | None) -> None:
        """An item that the model made: the next one of its answer, or the first of a new one."""
        uncounted = self.total == -1 and self.ahead is None
        ended = self.recorded and self.open is not None and "usage" in (self.open.messages[0].request or {})
        if self.open is None or ended or (self.broken and (self.behind or uncounted or self.ahead is not None)):
            request = {"model": self.model, "sent_at": self.before}
            if self.ahead is not None:
                request["usage"], self.ahead = self.ahead, None
            self.open, self.behind = self._add_node([NodeMessage("assistant", [], request=request)], at), False
        self.broken = False
        self.open.messages[0].content = [*self.open.messages[0].content, *blocks]
        self.open.at = at

    def _add_compaction(self, payload: Mapping[str, Any], at: float | None) -> None:
        reported, history = as_text(payload.get("message")), payload.get("replacement_history")
        keep: list[str | tuple[Part, ...]] = []
        if isinstance(history, list):
            items = [convert_item(record) for record in history if isinstance(record, Mapping)]
            items = [found for found in items if not reported or extract_text(found[1]) != reported]
            mine = [(n.messages[0].role, extract_text(n.messages[0].content)) if n.messages else ("", "") for n in self.path]
            roles = [("system" if role in ("developer", "system") else role, blocks) for role, blocks in items]
            same = {y: x for x, y in find_common(mine, [(role, extract_text(join_blocks(blocks))) for role, blocks in roles])}
            keep = [
                self.path[same[n]].id if n in same else make_message_parts(role, blocks)
                for n, (role, blocks) in enumerate(roles)
            ]
        else:
            keep = [node.id for node in self._iter_recent_prompts()]
        messages = [NodeMessage("user", reported, "summary", "summary")] if reported else []
        self._mark_summary(reported)
        node = self._add_node(messages, at)
        facts = {key: payload[key] for key in ("window_id",) if payload.get(key)}
        self.alone = facts if self.begun else None
        named = isinstance(history, list)
        node.cut = Cut("compacted: the history was replaced", keep, node.id if reported else "", facts, names_all=named)
        self.open = None

    def _mark_summary(self, reported: str) -> None:
        """Mark the newest answer as the summary that a compaction requested, where its text stands in what came of it."""
        answer = self.path[-1].messages[0] if self.path and self.path[-1].messages else None
        text = extract_text(answer.content).strip() if answer and answer.role == "assistant" and answer.request else ""
        if answer and text and text in reported:
            self.path[-1].messages[0] = replace(answer, origin="summary", kind="summary")

    def _iter_recent_prompts(self) -> Iterator[Node]:
        """What a compaction keeps that lists nothing: the context at the start, and the newest prompts."""
        left, kept = KEPT, set[str]()
        for node in reversed(self.path):
            if (
                node.messages
                and _is_prompt(node.messages[0])
                and (left := left - len(dumps(node.messages[0].content)) // 4) >= 0
            ):
                kept.add(node.id)
        return (n for n in self.path if n.id in kept or (n.messages and n.messages[0].origin in ("meta", "system")))

    def _add_node(self, messages: list[NodeMessage], at: float | None) -> Node:
        node = Node(str(len(self.nodes)), self.path[-1].id if self.path else "", messages, at)
        self.nodes.append(node)
        self.path.append(node)
        return node


def _is_prompt(message: NodeMessage) -> bool:
    return message.role == "user" and not message.origin


def _get_spawn(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a thread was started as a subagent; empty where it was not."""
    return as_mapping(as_mapping(as_mapping(meta.get("source")).get("subagent")).get("thread_spawn"))


def read_parent(source: Source) -> str:
    """The thread that started this one as a subagent, as its first record says; "" where none did."""
    first = next((record for record, _ in source.iter_records(limit=1) if isinstance(record, dict)), {})
    meta = as_mapping(first.get("payload"))
    parent = as_text(meta.get("parent_thread_id")) or as_text(_get_spawn(meta).get("parent_thread_id"))
    return parent if parent != as_text(meta.get("id")) else ""


def find_agents(source: Source) -> list[Source]:
    """Rollouts of the subagents that a session started, in its folder: one folder holds those of a day."""
    return [agent for agent, _ in _list_agents(source)]


def _list_agents(source: Source) -> list[tuple[Source, str]]:
    """The rollouts that belong to a session, each with the id of the thread that started it, parents first."""
    found = _GIVEN_ID.search(source.path.stem)
    if source.kind != "file" or found is None:
        return []
    begun = [(one, read_parent(one)) for one in source.find_siblings("rollout-*.jsonl") if one.path.name != source.path.name]
    above, listed = [found[0]], list[tuple[Source, str]]()
    for id in above:  # grows by those that are found
        for agent, parent in begun:
            own = _GIVEN_ID.search(agent.path.stem)
            if parent == id and own and own[0] not in above:
                above.append(own[0])
                listed.append((agent, parent))
    return listed


def find_main_path(path: Path) -> Path:
    """A subagent's rollout opens with the session that started it, where that is in the same folder."""
    seen = {path}
    while path.name.startswith("rollout-") and path.is_file() and (parent := read_parent(Source(path))):
        above = next(path.parent.glob(f"rollout-*-{escape(parent)}.jsonl"), path)
        if above in seen:
            break
        seen.add(above)
        path = above
    return path


def read(source: Source, _entry: Entry) -> Thread:
    """A session with the subagents that it started; each is at the call whose result names it."""
    thread = _read_rollout(source)
    agents: dict[str, list[Session]] = {}
    for agent, parent in reversed(_list_agents(source)):  # the innermost first
        own = _read_rollout(agent).session
        id = _get_id(own)
        if own.blocks:
            agents.setdefault(parent, []).insert(0, structs.replace(own, subagents=_hang(own, agents.pop(id, []))))
    hung = _hang(thread.session, agents.get(_get_id(thread.session), []))
    return Thread(structs.replace(thread.session, subagents=hung)) if hung else thread


def _get_id(session: Session) -> str:
    found = _GIVEN_ID.search(session.id)
    return found[0] if found else session.id


def _hang(home: Session, agents: list[Session]) -> tuple[Session, ...]:
    results = [block for block in home.blocks if block.kind == "tool_result" and block.pair >= 0]
    names = [{_get_id(agent), f'"{agent.about.get(AGENT_PATH)}"'} for agent in agents]
    calls = [next((block.pair for block in results if any(name in block.text for name in own)), -1) for own in names]
    return tuple(structs.replace(agent, parent=home.id, at=at) for agent, at in zip(agents, calls, strict=True))


def _read_rollout(source: Source) -> Thread:
    rollout = _Rollout(Builder(source.path.stem, NAME))
    for record, line in iter_objects(source.iter_records(), rollout.builder, rollout.passed):
        rollout.add_line(record, line)
    if rollout.copied:
        rollout.end_copy(0)
    rollout.passed.add_notes(rollout.builder)
    return build_thread(rollout.builder, rollout.nodes, rollout.path[-1].id if rollout.path else "", rollout.lead)


IMPORTER = Importer(
    NAME,
    "Codex CLI rollout (JSON lines)",
    sniff,
    read,
    finds=find_places,
    related=find_agents,
    part_of=find_main_path,
    suffixes=(".jsonl",),
    version=4,
    wants="record of a rollout (`payload` and `timestamp`, or `record_type`)",
    right="old flat rollouts and new envelopes; compactions; rollbacks as branches; subagents; forks without the requests that "
    "they copy",
)
