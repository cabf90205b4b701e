"""Recorded calls become sessions: which calls belong together, which are retries, and each session's title.

The module reads calls in Anthropic's shape (`Call`). `alignment` aligns the bodies of one conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from turnscope.reading.alignment import Alignment, Reason
from turnscope.reading.calls import Exchange, describe_failure, read_exchanges
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.recorded_body import ParsedBody, RecordedBody, RecordedMessage, count_same, parse_body
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Note, Session

TITLE_CHARACTERS = 80  # characters of the first prompt that make a title
LEAST_CHARS = 20  # a shorter text is found in another one by chance
DISTINCTIVE_CHARACTERS = 64  # a message of so many characters in two calls is no coincidence


@dataclass(slots=True)
class Call:
    """One call in Anthropic's shape. `about`: fields of `model.Request`. Nothing in a body changes once it was made.

    `believed`: the messages that its client believes it sent, where something else was sent in their place. `reasons`: why it
    was, or what was not done.
    """

    body: dict[str, JSON]
    answer: dict[str, JSON] | None
    about: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    line: int = 0
    believed: Sequence[JSON] = ()
    reasons: Sequence[Reason] = ()


@dataclass(slots=True)
class ParsedCall:
    """A call with its body split. Equal messages of several calls are one value."""

    body: RecordedBody
    answer: RecordedMessage | None
    call: Call
    believed: Sequence[RecordedMessage] = ()


@dataclass(slots=True)
class Conversation:
    """Calls that belong together, in order. `number`: 1 = the conversation that began first."""

    number: int
    title: str
    sent: list[ParsedCall] = field(default_factory=list)

    def build_session(self, stem: str, source: str, after: Sequence[Mapping[str, Any]] = ()) -> Session:
        """Build the session that the calls add up to.

        Args:
            stem: Name of the log's file; it becomes the session's id.
            source: Name of the importer.
            after: Messages after the last call, which no call sent.
        """
        name = stem if self.number == 1 else f"{stem}~{self.number - 1}"
        line = Alignment(Builder(name, source, self.title))
        for sent in self.sent:
            call, about = sent.call, dict(sent.call.about)
            if call.error:
                line.builder.add_note("warning", call.line, f"the request was not answered: {call.error}")
                about["stop_reason"] = about.get("stop_reason") or "error"
            line.learn(sent.believed, call.reasons)
            line.add_request(sent.body, sent.answer, **about)
        for message in after:
            line.builder.add_message(message["role"], message["content"])
        return line.build()


@dataclass(slots=True)
class Conversations:
    """What a log of calls holds, in the order in which it began. `notes` are about the log as a whole.

    `one_conversation`: the log itself says that all calls are one conversation, whatever they share.
    """

    stem: str
    one_conversation: bool = False
    all: list[Conversation] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _knows: dict[Hashable, set[int]] = field(default_factory=dict)
    _same: dict[Hashable, RecordedMessage] = field(default_factory=dict)
    _newest: ParsedBody | None = None
    _newest_at: int = -1  # the conversation that it belongs to

    def list_entries(self) -> Iterator[Entry]:
        """List the conversations, the one with the most calls first."""
        for one in self._sort():
            yield Entry(str(one.number), one.title, one.sent[0].call.about.get("sent_at"), requests=len(one.sent))

    def build_session(self, id: str, source: str, after: Sequence[Mapping[str, Any]] = ()) -> Session:
        """Build the session of one conversation.

        Args:
            id: Number of the conversation as text; "" = the first one, which gets the log's notes.
            source: Name of the importer.
            after: Messages after the last call, which no call sent.
        """
        ordered = self._sort()
        one = next(one for one in ordered if id in ("", str(one.number)))
        session = one.build_session(self.stem, source, after)
        return structs.replace(session, notes=(*session.notes, *self.notes)) if one is ordered[0] else session

    def add_call(self, call: Call) -> None:
        """Add a call to the conversation that it belongs to."""
        before = self._newest
        body = parse_body(call.body, before)
        known = count_same(before.split.messages, body.messages) if before else 0
        shared = map(self._share_message, body.messages[known:])
        body.messages = messages = [*body.messages[:known], *shared]
        self._newest = ParsedBody(call.body, body)
        body.system, body.tools = (self._share_message(head) if head else None for head in (body.system, body.tools))
        believed = [self._share_message(message) for message in parse_body({"messages": call.believed}).messages]
        at = self._find_conversation(believed or messages)
        if at is None:
            at = len(self.all)
            self.all.append(Conversation(at + 1, _make_title(believed or messages)))
        reply = {"role": "assistant", "content": (call.answer or {}).get("content") or []}
        answer = parse_body({"messages": [reply]}).messages[0] if call.answer else None
        kept = Call({}, None, call.about, call.error, call.line, reasons=call.reasons)
        self.all[at].sent.append(ParsedCall(body, answer, kept, believed))
        for message in (*messages[known if at == self._newest_at else 0 :], *believed, *([answer] if answer else ())):
            self._knows.setdefault(message.key, set()).add(at)
        self._newest_at = at

    def _sort(self) -> list[Conversation]:
        return sorted(self.all, key=lambda one: -len(one.sent))

    def _share_message(self, message: RecordedMessage) -> RecordedMessage:
        """Give the equal message that was seen before: a log repeats the whole conversation in each of its calls."""
        return message if message.extra else self._same.setdefault((message.key, message.bare), message)

    def _find_conversation(self, messages: list[RecordedMessage]) -> int | None:
        """Find the conversation that shares the most with a body: its first message, or one that is no coincidence."""
        if self.one_conversation and self.all:
            return 0
        first = self._knows.get(messages[0].key, ()) if messages else ()
        if len(first) == 1:
            return next(iter(first))
        shared: dict[int, int] = {}
        for number, message in enumerate(messages):
            telling = number == 0 or message.role == "assistant" or len(extract_text(message.parts)) >= DISTINCTIVE_CHARACTERS
            for at in self._knows.get(message.key, ()) if telling else ():
                shared[at] = shared.get(at, 0) + 1
        return max(shared, key=lambda at: (shared[at], at)) if shared else None


def group_calls(calls: Iterable[Call | Note], stem: str, *, one_conversation: bool = False) -> Conversations:
    """Group the calls that belong together. A call that failed and was sent again with the same body has several attempts.

    Args:
        calls: The calls of a log, in order, and notes.
        stem: Name of the log's file.
        one_conversation: All calls are one conversation.
    """
    found = Conversations(stem, one_conversation)
    failed: list[Call] = []
    for call in calls:
        if isinstance(call, Note):
            found.notes.append(call)
            continue
        if failed and failed[-1].body == call.body:  # a retry: the same body sent again
            call.about["attempts"] = 1 + len(failed)
        else:
            for lost in failed[-1:]:
                found.add_call(lost)
            failed = []
        if call.error:
            failed.append(call)
        else:
            found.add_call(call)
            failed = []
    for lost in failed[-1:]:
        found.add_call(lost)
    return found


def hang_below_call(agent: Session, main: Session) -> Session:
    """Hang a subagent below the call that gave it its prompt; below none where no call did.

    Tools name the prompt differently, and put words around it: it is a text of the call that stands in the first request.

    Args:
        agent: The subagent's session.
        main: The session that called it.
    """
    first = {block.text for block in agent.blocks[: agent.requests[0].cut] if block.role == "user"}
    calls = ((block, as_mapping(as_mapping(block.raw).get("input"))) for block in main.blocks if block.kind == "tool_use")
    given = [(block.at, value) for block, inputs in calls for value in inputs.values() if isinstance(value, str)]
    same = (at for at, value in given if value in first)
    within = (at for at, value in given if len(value) >= LEAST_CHARS and any(value in text for text in first))
    at = next(same, next(within, -1))
    return structs.replace(agent, parent=main.id, at=at)


def read_conversations(source: Source, convert: Callable[[Exchange], Call]) -> Conversations:
    """Read the conversations of a file of recorded calls. They are read once per source.

    Args:
        source: The file.
        convert: Converts a call into Anthropic's shape.
    """
    if "conversations" not in source.cache:
        source.cache["conversations"] = group_calls(_iter_calls(source, convert), source.path.stem)
    found: Conversations = source.cache["conversations"]
    return found


def _iter_calls(source: Source, convert: Callable[[Exchange], Call]) -> Iterator[Call | Note]:
    for item in read_exchanges(source):
        if isinstance(item, Note):
            yield item
        else:
            item.error = item.error or describe_failure(item)
            yield from _convert_call(item, convert)


def _convert_call(item: Exchange, convert: Callable[[Exchange], Call]) -> Iterator[Call | Note]:
    """Convert a call: without its response where that has an unknown shape, or not at all where the body has one too."""
    for response in (item.response, None):
        try:
            call = convert(replace(item, response=response))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            part = "body" if response is None else "response"
            yield Note("error", item.line, f"the {part} of a call has an unknown shape and was left out: {error}")
        else:
            yield replace(call, about={**call.about, "logged_usd": item.usd} if item.usd is not None else call.about)
            return


def _make_title(messages: list[RecordedMessage]) -> str:
    """How the first prompt begins, without what a tool put before it in tags."""
    texts = (extract_text([part]) for message in messages if message.role == "user" for part in message.parts)
    plain = (" ".join(text.split()) for text in texts if not text.lstrip().startswith("<system-reminder>"))
    return next((text[:TITLE_CHARACTERS] for text in plain if text), "")
