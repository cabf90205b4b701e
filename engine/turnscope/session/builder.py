"""Builds a `Session` from what an importer reads. The builder does what every importer would otherwise repeat.

It numbers requests, sets where each prompt was cut, merges fragments of one streamed message, and shares the beginning of
branches. `timeline` gives messages their addresses, turns and pairs. The module knows no file format.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turnscope.numbering import format_request
from turnscope.session.content import UNRECORDED
from turnscope.session.model import (
    JSON,
    Bucket,
    Edit,
    Fork,
    Note,
    ObservedEdit,
    Part,
    Request,
    Session,
    Span,
    check_time,
    join_path,
    select_model_output,
)
from turnscope.session.timeline import Timeline, make_block
from turnscope.session.usage import MAX_COUNT, InvalidUsage
from turnscope.session.usage import parse_usage as parse_usage  # noqa: PLC0414 - importers of other packages find it here

Observer = Callable[[Session], Iterable[ObservedEdit]]  # finds what the original tool changed; runs once addresses are known

STUB_CHARACTERS = 10  # characters per recorded output token; more means that the usage was recorded at the start of the stream
STUB_FLOOR = 200  # characters; the usage of a shorter answer is taken as correct
# What a stream reports when it begins, before the answer is written: one to eight tokens at Anthropic. A log that stores each
# block of an answer as it ends stores this number with it, and misses the final one where the stream's end was not written.
START_TOKENS, START_FLOOR = 8, 20  # tokens; characters of an answer that they may be right for


@dataclass(slots=True)
class Draft:
    """A message while it is collected. Its addresses are known after `Builder.build`."""

    role: str
    origin: str
    parts: list[tuple[JSON, str]]  # raw block (or bare string) and its kind ("" = from its type)
    id: str = ""
    sent_at: float | None = None
    fence: bool = False
    extra: Mapping[str, JSON] = field(default_factory=dict)
    request: Request | None = None
    ordinal: int = -1  # position among the messages of the whole path
    start: int = -1
    stop: int = -1


class Builder:
    """Collects messages in order, then builds the session or one branch of it.

    `drafts` are this path's own messages. A branch shares the first `shared` messages of the path of `base`.

    >>> from turnscope.session.model import Usage
    >>> builder = Builder("demo", "example")
    >>> prompt = builder.add_message("user", "What is 2 + 2?")
    >>> answer = builder.add_message("assistant", "4")
    >>> builder.set_request(answer, model="claude-haiku-4-5", usage=Usage(input_tokens=14, output_tokens=5))
    >>> builder.build().requests[0]
    <Request 0 of turn 0 to claude-haiku-4-5: 14 + 5 tokens>
    """

    def __init__(self, id: str, source: str, title: str = "", **about: JSON) -> None:
        self.id, self.source, self.title = id, source, title
        self.about: dict[str, JSON] = {key: value for key, value in about.items() if value}
        self.base: Builder | None = None
        self.shared = 0
        self.drafts: list[Draft] = []
        self.notes: list[Note] = []
        self.window: int | None = None
        self._by_id: dict[str, Draft] = {}
        self._unanswered: dict[int, list[Request]] = {}
        self.line = Timeline()
        self.number = 0  # number of this path: 0 = the session, k = its k-th fork
        self.first = 0  # number of the first request that this path does not share
        self.requests: tuple[Request, ...] = ()  # the path's own requests, once it is built

    def add_message(
        self,
        role: str,
        content: str | Sequence[JSON],
        *,
        id: str = "",
        origin: str = "",
        kind: str = "",
        sent_at: float | None = None,
        fence: bool = False,
        extra: Mapping[str, JSON] | None = None,
    ) -> Draft:
        """Add one message. A second message with the same `id` adds its content to the first one.

        Args:
            role: user | assistant | system | tools.
            content: A string, or a list of blocks in Anthropic's shape.
            id: The provider's or the tool's id of the message; "" = none.
            origin: prompt | tool | meta | answer | summary. Found from role and content where it is "".
            kind: Replaces the kind of the message's text blocks (summary, reminder, ...).
            sent_at: Seconds since the Unix epoch.
            fence: Never merge this message with a neighbour of the same role when a request is rendered.
            extra: Further keys of the message, sent as they are.

        Returns:
            The draft, to pass to `set_request`.
        """
        parts = [(content, kind)] if isinstance(content, str) else [(part, kind) for part in content]
        draft = self._by_id.get(id) if id else None
        if draft is None:
            at = None if sent_at is None else check_time(sent_at)
            draft = Draft(role, origin or infer_origin(role, parts), [], id, at, fence, extra or {})
            draft.ordinal = self.shared + len(self.drafts)
            self.drafts.append(draft)
            if id:
                self._by_id[id] = draft
        draft.parts.extend(parts)
        return draft

    def set_request(self, answer: Draft, **fields: Any) -> None:
        """Say that `answer` answered a request. A second call for the same answer replaces the first.

        Args:
            answer: The draft of the assistant's message.
            **fields: Fields of `model.Request` other than its numbers and addresses.
        """
        answer.request = _make_request(fields)

    def add_unanswered(self, **fields: Any) -> None:
        """Say that a request was sent here whose answer is not in the file. `fields` are those of `model.Request`."""
        self._unanswered.setdefault(len(self.drafts), []).append(_make_request(fields))

    def add_note(self, severity: Any, line: int, what: str) -> None:
        """Record something that a person should know about the file.

        Args:
            severity: info | warning | error.
            line: Line of the file, counted from 1; 0 = the file as a whole.
            what: One sentence.
        """
        self.notes.append(Note(severity, line, what))

    def start_branch(self, messages: int, id: str, title: str = "") -> Builder:
        """Start a builder that continues after the first messages of this path, which must be built already.

        Args:
            messages: How many messages of this path the branch shares.
            id: Id of the branch.
            title: Its title.
        """
        if self.base is not None and messages <= self.shared:
            return self.base.start_branch(messages, id, title)
        branch = Builder(id, self.source, title)
        branch.about = dict(self.about)
        branch.base, branch.shared, branch.line = self, messages, self.line.fork(messages)
        branch.first = self._count_requests_before(branch.line.start)
        return branch

    @property
    def last_cut(self) -> int:
        """Address where the prompt of the newest shared request was cut; 0 where the branch shares no request."""
        base = self.base
        while base is not None and self.first <= base.first:
            base = base.base
        return base.requests[self.first - base.first - 1].cut if base else 0

    def build(self, observe: Iterable[Observer] = ()) -> Session:
        """Build the session, with the edits that the observers find in it."""
        session = self._lay_out()
        observed = sorted((o for look in observe for o in look(session)), key=lambda o: o.request)
        return structs.replace(session, observed=tuple(observed)) if observed else session

    def build_fork(self, trunk: Session, forks: Sequence[Fork], observe: Sequence[Observer] = ()) -> Fork:
        """Build what this branch adds to the path that it left.

        Args:
            trunk: The main path, built before.
            forks: The branches built so far; this one comes next.
            observe: Observers of edits. Each sees the whole path.
        """
        assert self.base is not None
        fork = Fork(self._lay_out(), self.base.number, self.line.start, tuple(self.line.relinked.values()))
        self.number = len(forks) + 1
        if observe:
            path = join_path(trunk, (*forks, fork), self.number)
            seen = sorted((o for look in observe for o in look(path) if o.request >= self.first), key=lambda o: o.request)
            fork = structs.replace(fork, own=structs.replace(fork.own, observed=tuple(seen)))
        return fork

    def _lay_out(self) -> Session:
        """Append the drafts after what is shared."""
        line = self.line
        requests: list[Request] = []
        for ordinal, draft in enumerate(self.drafts):
            self._add_pending(requests, ordinal)
            message = line.append(
                draft.role,
                draft.parts,
                origin=draft.origin,
                id=draft.id,
                sent_at=draft.sent_at,
                fence=draft.fence,
                extra=draft.extra,
            )
            draft.start, draft.stop = message.start, message.stop
            if draft.request is not None:
                stub = _is_stub(draft, line)
                about = {"n": self.first + len(requests), "turn": line.turn, "cut": draft.start, "stop": draft.stop}
                requests.append(structs.replace(draft.request, **about, output_stub=stub or draft.request.output_stub))
        self._add_pending(requests, len(self.drafts))
        self.requests = tuple(map(self._drop_invalid_usage, requests))
        if self.window is not None and not 0 <= self.window < MAX_COUNT:
            self.add_note("warning", 0, f"the log's context window cannot be right and was left out: {self.window:.3g} tokens")
            self.window = None
        return Session(
            self.id,
            self.title,
            self.source,
            tuple(line.blocks),
            tuple(line.messages),
            self.requests,
            (),
            tuple(self.notes),
            self.about,
            self.window,
        )

    def _add_pending(self, requests: list[Request], ordinal: int) -> None:
        at, turn = self.line.end, max(0, self.line.turn)
        for request in self._unanswered.get(ordinal, ()):
            requests.append(structs.replace(request, n=self.first + len(requests), turn=turn, cut=at, stop=at))

    def _drop_invalid_usage(self, request: Request) -> Request:
        """A request without its usage where that is invalid, which is noted: its tokens are counted then, and not zero."""
        if not isinstance(request.usage, InvalidUsage):
            return request
        self.add_note(
            "warning", 0, f"usage of request {format_request(request.n)} cannot be right and was left out: {request.usage.what}"
        )
        return structs.replace(request, usage=None)

    def _count_requests_before(self, start: int) -> int:
        """Count the requests of this path that ended before block `start`."""
        return self.first + bisect_right(self.requests, start, key=lambda request: request.stop)


def _make_request(fields: Mapping[str, Any]) -> Request:
    """A request whose numbers and addresses are not known yet."""
    times = {name: check_time(fields[name]) for name in ("sent_at", "answered_at") if fields.get(name) is not None}
    return Request(n=0, turn=0, cut=0, stop=0, **{**fields, **times})


def observe_drop(request: int, start: int, stop: int, because: str, action: Any = "drop", **facts: JSON) -> ObservedEdit:
    """Make the observed edit "the original tool left blocks `[start, stop)` out of request `request` and all later ones".

    Args:
        request: Number of the first request without these blocks.
        start: Address of the first block.
        stop: Address after the last block.
        because: The reason, for people.
        action: drop, or a finer word of `model.Action`.
        **facts: JSON values that explain the edit.
    """
    return ObservedEdit(request, Edit(action, because, Span(start, stop), (), facts=facts))


def make_part(role: str, raw: JSON, place: Any = "own", fence: bool = False) -> Part:
    """Make a part of a placeholder.

    Args:
        role: Role of the message that the part belongs to.
        raw: A block in Anthropic's shape, a bare string, or None for no content.
        place: Where the part goes: own | before | after | system.
        fence: Never merge the part's message with a neighbour.
    """
    block = make_block(0, 0, 0, role, "", raw)
    return Part(role, block.kind, block.text, raw, place=place, fence=fence)


def infer_origin(role: str, parts: Sequence[tuple[JSON, str]]) -> str:
    """Infer where a message comes from (see `Message.origin`).

    Args:
        role: Its role.
        parts: Its content blocks, each with its kind.
    """
    if role != "user":
        return "answer" if role == "assistant" else "system"
    results = [isinstance(raw, Mapping) and (raw.get("type") == "tool_result" or _states_results(raw)) for raw, _ in parts]
    return "tool" if results and all(results) else "prompt"


def _states_results(raw: Mapping[str, JSON]) -> bool:
    """Whether a block states only the size of tool results."""
    return raw.get("type") == UNRECORDED and raw.get("bucket") == Bucket.TOOL_RESULTS


def _is_stub(draft: Draft, line: Timeline) -> bool:
    """Whether the recorded output tokens are too few for the text that the model wrote."""
    use = draft.request.usage if draft.request else None
    if use is None:
        return False
    written = select_model_output(map(line.get_block, range(draft.start, draft.stop)))
    characters = sum(len(block.text) for block in written)
    if use.output_tokens == 1 and any(block.kind == "tool_use" for block in written):
        return True  # no call has so few
    floor = START_FLOOR if 0 < use.output_tokens <= START_TOKENS else STUB_FLOOR
    return characters > floor and use.output_tokens * STUB_CHARACTERS < characters
