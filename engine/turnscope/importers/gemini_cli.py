"""Gemini CLI sessions: `~/.gemini/tmp/<project>/chats/session-*`, one JSON object, or JSON lines with patches; and what
`/chat save` keeps in the same folder: the contents as they are sent, without times, models and usage.

A line with an id seen before replaces that message where it stands; `$set.messages` replaces the history that is sent (masked
tool outputs, a compression), and so do lines that tell it anew, from its first message on; `$rewindTo` leaves a branch. Prompt,
tools and window are not stored.
Longer than a mapping for the patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    convert_google_part,
    join_blocks,
    make_call,
    make_result,
    make_text,
    make_thinking,
    make_usage,
)
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.recorded_body import find_common
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder, observe_drop
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON, RESUMED_AT, ObservedEdit, Part, Session, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count
from turnscope.settings import Machine

NAME = "gemini-cli"
COMPRESS = "/compress"  # begins the prompt that requests a compression
RESULTS = ":results"  # ends the id of the node with the results that an answer's record holds
CONTEXT = "<session_context>"  # begins the message about date, folder and files that the tool puts before the first prompt
IDS = ("id", "tool_use_id", "is_error")
THOUGHTS = ("thinking",)  # what stands in the log and is not sent again
COPIED = "$copied"  # key of a message that a history brought which was set
SNAPSHOT = "<state_snapshot>"  # begins the summary of a compression
MASKED, REPLACED = "old tool outputs were masked", "the history was replaced by a shorter one"
COMPRESSED = "compressed: a summary replaced the history"
REWRITTEN = "the history was written anew, and is longer"
Record = Mapping[str, Any]


def sniff(source: Source) -> int:
    first = source.document if source.document is not None else next(iter(source.first), None)
    if isinstance(first, dict) and {"sessionId", "projectHash"} <= first.keys():
        whole = sum("projectHash" in row and isinstance(row.get("messages"), list) for row in map(as_mapping, source.first))
        return 95 if whole < 2 else 0  # a whole session on each line: each is one
    head = _read_checkpoint(source)[:20]
    return 85 if head and all(isinstance(row, dict) and _is_content(row) for row in head) else 0


def _is_content(row: Record) -> bool:
    return row.get("role") in ("user", "model") and isinstance(row.get("parts"), list)


def _read_checkpoint(source: Source) -> Sequence[Any]:
    """The contents of a checkpoint: a list, or an object's history."""
    document = source.document if source.kind == "file" else None
    history = document.get("history") if isinstance(document, dict) else document
    return history if isinstance(history, list) else ()


def find_places(machine: Machine) -> Iterator[Place]:
    folder = machine.find_folder("GEMINI_CLI_HOME", machine.home) / ".gemini" / "tmp"
    yield Place(folder, "*/chats/**/*.json*")
    yield Place(folder, "*/checkpoint-*.json")


class _Chat:
    """Messages by id, the newest version of each, and the nodes that they make.

    `path`: what stands after rewinds; `sent`: what is sent of it, and placeholders. A history that was set is compared with the
    path when the next message comes: several may be set between two messages, and only the last one counts.
    A history that lines tell anew begins with what the path begins with, and its answers have neither model nor usage.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.rows: dict[str, Record] = {}
        self.nodes: dict[str, Node] = {}
        self.path: list[str] = []
        self.sent: list[str | tuple[Part, ...]] = []
        self.pending: list[Record] | None = None  # a history that was set
        self.retold: list[Record] = []  # lines that may tell the history anew; that they do is known from the first answer on
        self.first: list[Record] = []  # the first history that was set since the newest message
        self.cut: Cut | None = None  # what it changed, for the next node
        self.answered: set[str] = set()  # calls whose results are messages of their own

    def add_line(self, record: Record, line: int) -> None:
        if self._is_retold(record):
            self.retold.append(record)
            return
        if self.retold and ("type" in record or "$rewindTo" in record or "messages" in as_mapping(record.get("$set"))):
            self._end_retold()
        if "$rewindTo" in record:
            id = record["$rewindTo"]
            self.path = self.path[: self.path.index(id)] if id in self.path else []
            self.sent, self.pending = [one for one in self.sent if not isinstance(one, str) or one in self.path], None
        elif isinstance(record.get("$set"), Mapping):
            self._read_meta(record["$set"])
            if isinstance(record["$set"].get("messages"), list):
                self.pending = [row for row in record["$set"]["messages"] if _is_message(row)]
                self.first = self.first or self.pending
        elif "type" in record:
            self._add_message(record, line)
        else:
            self._read_meta(record)
            messages = record.get("messages")
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, Mapping):
                    self._add_message(message, line)
                else:
                    self.passed.add(type(message).__name__, message, line)

    def _read_meta(self, record: Record) -> None:
        self.builder.title = as_text(record.get("summary")) or self.builder.title
        self.builder.about |= {
            key: record[key] for key in ("sessionId", "projectHash", "kind", "directories") if record.get(key)
        }

    def _add_message(self, record: Record, line: int) -> None:
        if not _is_message(record):
            self.passed.add(record.get("type"), record, line)
        elif record.get("id") in self.path:
            self.rows[str(record["id"])] = record
        else:
            self._note_resumption(record)
            self.apply_history()
            self._append(record)

    def _note_resumption(self, record: Record) -> None:
        """A prompt is the first of a process where the whole history was set before it, up to the answer of the last one."""
        first, self.first = self.first, []
        last = self.rows.get(self.path[-1].removesuffix(RESULTS)) if self.path else None
        if not first or last is None or last["type"] != "gemini" or last.get("toolCalls") or record["type"] != "user":
            return
        ends = [_make_key(_make_messages(row, None)[0]) for row in (first[-1], last)]
        if ends[0] == ends[1]:
            self.builder.about.setdefault(RESUMED_AT, []).append(str(record.get("id")))

    def _is_retold(self, record: Record) -> bool:
        """Whether a line may be one of those that tell the history anew."""
        if not _is_message(record) or record.get("id") in self.path:
            return False
        if record["type"] == "gemini":
            return bool(self.retold) and not (record.get("tokens") or record.get("model"))
        first = self.rows.get(self.path[0]) if self.path else None
        return bool(self.retold) or (first is not None and _split_context(record)[0].get("content") == first.get("content"))

    def _end_retold(self) -> None:
        """Take the lines for the history that is sent from here on; without an answer among them, for new messages."""
        retold, self.retold = self.retold, []
        if any(record["type"] == "gemini" for record in retold):
            self.pending = retold
            return
        for record in retold:
            self._add_message(record, 0)

    def _append(self, record: Record) -> None:
        """A message behind all others. An answer has a second node for the results that it holds."""
        id = as_text(record.get("id")) or f"#{len(self.nodes)}"
        key = id if id not in self.nodes else f"{id}#{len(self.nodes)}"
        self.rows[key] = record
        self.answered |= _find_answered(record)
        self._add_node(key, parse_time(record.get("timestamp")))
        if record.get("type") == "gemini":
            self._add_node(key + RESULTS, None)

    def _add_node(self, key: str, at: float | None) -> None:
        self.nodes[key] = Node(key, self.path[-1] if self.path else "", [], at, self.cut)
        self.cut = None
        self.path.append(key)
        self.sent.append(key)

    def apply_history(self) -> None:
        """Lay the history that was set along the path: what stands as it was, what is masked, and what is new behind it."""
        if self.retold:
            self._end_retold()
        if self.pending is None:
            return
        messages, self.pending = [part for row in self.pending for part in _split_context(row)], None
        answered = self.answered.union(*map(_find_answered, messages))
        mine = [(id, one) for id in self.path if (one := self._make_message(id))]
        theirs = [(n, one) for n, row in enumerate(messages) for one in _make_messages(row, None, answered)]
        keys = [[_make_key(one) for _, one in side] for side in (mine, theirs)]
        same = {y: x for x, y in find_common(*keys)}
        known = {theirs[y][0] for y in same} | {n for n, row in enumerate(messages) if row.get("id") in self.path}
        new = max(known) + 1 if known else 0
        if new < len(messages) and _starts_summary(messages[new]):
            new = min(new + 2, len(messages))  # with the answer to it
        keep: list[str | tuple[Part, ...]] = [
            mine[same[y]][0] if y in same else make_message_parts(one.role, one.content, _find_kind(one))
            for y, (n, one) in enumerate(theirs)
            if n < new
        ]
        present = {id for id, _ in mine}
        now = [one for one in self.sent if not isinstance(one, str) or one in present]
        if now and now[-1] not in keep and str(now[-1]).endswith(RESULTS):  # they are behind the history, and sent next
            keep.append(now[-1])
        if keep != now:
            self.cut = Cut(REPLACED, keep, unsent=THOUGHTS)
            if any(one[0].kind == "summary" and one not in now for one in keep if one and not isinstance(one, str)):
                self.cut = Cut(COMPRESSED, keep, facts=self._find_trigger(), unsent=THOUGHTS)
            elif len(keep) > len(now):  # a resumed session holds results twice
                self.cut = Cut(REWRITTEN, keep, action="repair", unsent=THOUGHTS)
            elif len(keep) == len(now):
                self.cut = Cut(MASKED, keep, action="truncate", unsent=THOUGHTS)
            self.sent = keep
        for message in messages[new:]:
            self._append({**message, COPIED: True})

    def _find_trigger(self) -> dict[str, JSON]:
        """That a person requested a compression, where the newest prompt did."""
        prompts = (
            one for id in reversed(self.path) if (one := self._make_message(id)) and one.role == "user" and not one.origin
        )
        newest = next(prompts, None)
        return {"trigger": "manual"} if newest and extract_text(newest.content).startswith(COMPRESS) else {}

    def _make_message(self, id: str) -> NodeMessage | None:
        """What a node says, as far as it is known."""
        record = self.rows.get(id.removesuffix(RESULTS))
        messages = _make_messages(record, None, self.answered) if record else []
        wanted = "assistant" if record and record.get("type") == "gemini" and not id.endswith(RESULTS) else "user"
        return next((one for one in messages if one.role == wanted), None)

    def build_nodes(self) -> Iterator[Node]:
        """The nodes with what the newest version of each says."""
        before: float | None = None
        for id, node in self.nodes.items():
            if id in self.rows:
                messages = _make_messages(self.rows[id], before, self.answered)
                node.messages = messages[:1]
                if id + RESULTS in self.nodes:
                    self.nodes[id + RESULTS].messages = messages[1:]
                    self.nodes[id + RESULTS].at = node.at
                before = (messages[-1].at if messages else None) or node.at
        yield from self.nodes.values()


def _is_message(record: Any) -> bool:
    return isinstance(record, Mapping) and record.get("type") in ("user", "gemini")


def _split_context(record: Record) -> list[Record]:
    """A message as it was written first: what the tool put before the first prompt is a message of its own."""
    parts = record.get("content")
    if not isinstance(parts, list) or len(parts) < 2 or not as_text(as_mapping(parts[0]).get("text")).startswith(CONTEXT):
        return [record]
    return [{**record, "content": parts[:1]}, {**record, "id": f"{record.get('id')}#prompt", "content": parts[1:]}]


def _find_answered(record: Record) -> set[str]:
    """Calls whose results a message holds; those that an answer holds with its calls are a copy of them."""
    parts = record.get("content") if record.get("type") == "user" else None
    results = (as_mapping(part).get("functionResponse") for part in parts) if isinstance(parts, list) else ()
    return {id for result in results if (id := as_text(as_mapping(result).get("id")))}


def _starts_summary(record: Record) -> bool:
    return any(_find_kind(one) for one in _make_messages(record, None))


def _find_kind(message: NodeMessage) -> str:
    """What a message is that only a history holds: a summary by its beginning."""
    return "summary" if extract_text(message.content).startswith(SNAPSHOT) else ""


def _make_key(message: NodeMessage) -> str:
    """What of a message is sent: not its ids, which differ between copies, and not its thoughts."""
    blocks: Sequence[JSON] = make_text(message.content) if isinstance(message.content, str) else message.content
    kept = [{key: block[key] for key in block if key not in IDS} for block in blocks if block.get("type") not in THOUGHTS]
    return dumps([message.role, kept])


def _make_messages(record: Record, before: float | None, answered: AbstractSet[str] = frozenset()) -> list[NodeMessage]:
    """A record as messages: of an answer with calls, also those results that are no message of their own."""
    content = record.get("content")
    blocks = [block for part in (content if isinstance(content, list) else [content]) for block in convert_google_part(part)]
    if record.get("type") != "gemini":
        results = [block for block in blocks if block.get("type") == "tool_result"]
        origin = "tool" if results and len(results) == len(blocks) else ""
        origin = "meta" if extract_text(blocks[:1]).startswith(CONTEXT) else origin
        return [NodeMessage("user", blocks if results else join_blocks(blocks), origin)]
    kinds = {block.get("type") for block in blocks}
    calls = as_rows(record.get("toolCalls"))
    if "tool_use" not in kinds and "thinking" not in kinds:
        ahead = [
            b
            for t in as_rows(record.get("thoughts"))
            for b in make_thinking("\n".join(filter(None, (as_text(t.get(k)) for k in ("subject", "description")))))
        ]
        blocks = [*ahead, *blocks, *(make_call(as_text(c.get("id")), as_text(c.get("name")), c.get("args")) for c in calls)]
    messages = [NodeMessage("assistant", blocks, request=_make_request(record, before))]
    open_ = [c for c in calls if c.get("result") is not None and as_text(c.get("id")) not in answered]
    if open_:
        at = max(filter(None, (parse_time(c.get("timestamp")) for c in calls)), default=None)
        messages.append(NodeMessage("user", [_make_tool_result(c) for c in open_], "tool", at=at))
    return messages


def _make_request(record: Record, before: float | None) -> dict[str, Any] | None:
    """The request that an answer answered; None for what a history that was set says in the model's name."""
    if COPIED in record and not record.get("tokens"):
        return None
    usage = _convert_usage(as_mapping(record.get("tokens")))
    return {"model": as_text(record.get("model")), "usage": usage, "sent_at": before}


def _observe_thoughts(session: Session) -> Iterator[ObservedEdit]:
    """Thoughts are in the log, and in no later request."""
    for request in session.requests[:-1]:
        for block in session.blocks[request.cut : request.stop]:
            if block.kind in THOUGHTS:
                yield observe_drop(request.n + 1, block.at, block.at + 1, "thoughts are not sent again")


@measured
def _convert_usage(tokens: Mapping[str, Any]) -> Usage | None:
    """Thoughts are billed as output; what a tool use added stands apart from the prompt."""
    names = ("input", "tool", "output", "thoughts", "cached")
    prompt, tool, answer, thoughts, cached = (parse_count(tokens.get(name), name) for name in names)
    return make_usage(prompt + tool, answer + thoughts, cached)


def _make_tool_result(tool: Record) -> JSON:
    found = [
        block
        for part in (tool["result"] if isinstance(tool["result"], list) else [tool["result"]])
        for block in convert_google_part(part)
    ]
    answers = [
        extract_text(block.get("content")) if block.get("type") == "tool_result" else extract_text(block) for block in found
    ]
    media = [block for block in found if block.get("type") in ("image", "document")]
    whole = "\n".join(filter(None, answers))
    return make_result(as_text(tool.get("id")), [*make_text(whole), *media] if media else whole, tool.get("status") == "error")


def read(source: Source, _entry: Entry) -> Thread:
    chat = _Chat(Builder(source.path.stem, NAME))
    for content in (row for row in _read_checkpoint(source) if isinstance(row, dict) and _is_content(row)):
        chat.add_line({"type": "gemini" if content["role"] == "model" else "user", "content": content["parts"]}, 0)
    for record, line in iter_objects(() if chat.path else source.iter_values(), chat.builder, chat.passed):
        chat.add_line(record, line)
    chat.apply_history()
    chat.passed.add_notes(chat.builder)
    nodes, current = chat.build_nodes(), chat.path[-1] if chat.path else ""
    return build_thread(chat.builder, nodes, current, observers=[_observe_thoughts])


IMPORTER = Importer(
    NAME,
    "Gemini CLI session (JSON or JSON lines)",
    sniff,
    read,
    finds=find_places,
    wants="`sessionId` with a `projectHash`, and no list of contents",
    version=4,
    right="JSON, and JSON lines with their patches: masked outputs, compressions, rewinds as branches",
)
