"""The values that everything else uses: blocks, requests, sessions, and the edits that were seen in them.

The module holds data types only: no parsing, counting, assembling or I/O. Addresses (`at`, `Span`) are positions in
`Session.blocks` and never change. Token counts are integers. Times are seconds since the Unix epoch, UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple, overload

from msgspec import Struct, field
from msgspec.structs import replace

from turnscope import notebook
from turnscope.session.content import extract_block_text, is_text
from turnscope.session.transcript import Transcript

LATEST_SECONDS = 32_503_680_000.0  # since the Unix epoch, the year 3000: what is later is no time of a log
MAX_ROWS = 12  # rows of a session in a notebook
CHAT = "turnscope-chat"  # `Session.source` of chats that were held in Turnscope
RESUMED_AT = "resumed_at"  # key of `Session.about`: ids of the first messages of processes that resumed the session
MODEL_WINDOWS = "model_windows"
"""Key of `Session.about`: what a log says of context windows. An object with any of

models: tokens by model, without `[1m]`; refused: list of (when, tokens of the prompt, limit that the provider named);
switches: list of (when, whether a model was chosen with `[1m]`, the families that the choice names; none = any model);
main: in a branch or a subagent, what the main path shows, by model. An object with any of betas: list of (from when, name of
the beta that asks for the larger window, "" = none); refused: (tokens of the prompt, limit); compacted: (how often the tool did
so by itself, the most tokens that it left alone, the least that it compacted); prompt: tokens of the largest answered prompt,
where it is beyond the standard window.

Times are seconds since the Unix epoch, in order.
"""
EXACT_REQUESTS = "exact_requests"
"""Key of `Session.about`: what a log that records requests whole holds of them. An object with

requests: how many it holds whole; proven: of these, by their digests; inferred: numbers of the requests without a record.
"""
STATED_HIDDEN = "stated_hidden"
"""Key of `Session.about`: where a log states how the tokens of each request split, those of content that its source did not
hold either, by request."""
PROMPT_PRIOR = "prompt_prior"  # key of Session.about: {"tokens", "source"}: system prompt and tools as other sessions have them
STORED_INPUTS = "stored_inputs"  # key of Session.about: inputs of tool calls as stored, by call, where another was sent
STORED_RESULTS = "stored_results"  # the same for results: {"text": ...}, or {"file": path from the log's folder}
RUN_USD = "run_usd"  # key of Session.about: what the tool says that the whole run cost
BEGINS_MID_CONVERSATION = (
    "begins_mid_conversation"  # key of Session.about: true where the earlier conversation is in no line of the log
)
SIDE = "side"
"""Key of `Session.about` of what hangs below a session as its subagents do: the kind of these requests beside it.

One of title, summary, check, quota, retry, other; see `reading.side_requests`.
"""
COUNT_REQUESTS = "count_requests"  # key of Session.about: how many requests for a count of tokens its tool sent; they are free
UNRECORDED = "unrecorded"  # key of Session.about: requests that passed a tap without being recorded: {"requests", "why"}
FROM_WIRE = "from_wire"
"""Key of `Session.about` where a tool's own log was joined with the recording of a tap: an object with

recordings: their names; session: its id there; matched: how many requests both have; unlogged: how many only the recording
has; side: how many of the recorded ones stand beside the conversation.
"""
SHAPE = "_shape"  # key of Request.settings: how this request writes content that other requests write differently

JSON = Any  # a value as `json` reads it; provider data keeps the provider's shape


class Bucket(StrEnum):
    """One of the five parts of a request, in the order in which providers bill them."""

    SYSTEM = "system"
    TOOLS = "tools"
    MESSAGES = "messages"
    TOOL_RESULTS = "tool_results"
    THINKING = "thinking"


BUCKETS: tuple[Bucket, ...] = tuple(Bucket)

Counts = tuple[int, int, int, int, int]
"""Tokens per bucket, in the order of `BUCKETS`."""

ZERO: Counts = (0, 0, 0, 0, 0)


class Span(NamedTuple):
    """Half-open range of block addresses."""

    start: int
    stop: int


class LazyContent:
    """Content that is fetched when it is first read. It equals what it stands for. The blocks of a stored session hold it."""

    __slots__ = ("_at", "_fetch")

    def __init__(self, fetch: Callable[[int], JSON], at: int) -> None:
        self._fetch, self._at = fetch, at

    def read(self) -> JSON:
        """Fetch the content."""
        return self._fetch(self._at)

    def __eq__(self, other: object) -> bool:
        return bool(self.read() == (other.read() if isinstance(other, LazyContent) else other))

    def __hash__(self) -> int:
        return hash(self.read())


class Block(Struct, frozen=True, gc=False):
    """The smallest unit that is counted, kept or dropped: one content block at a fixed address."""

    at: int
    message: int  # ordinal in Session.messages
    turn: int
    role: str  # system | user | assistant
    bucket: Bucket
    kind: str  # text, image, document, tool_use, tool_result, thinking, summary, system, tool, ...; see `INJECTED_KINDS`
    digest: str  # digest of all that the provider would see of this block
    pair: int = -1  # address of the result of this call, or of the call of this result; -1 = none
    name: str = ""  # the tool's name, on tool, tool_use and tool_result blocks
    content: JSON | LazyContent = field(default=None, name="raw")  # `raw`, or the value that fetches it

    @property
    def raw(self) -> JSON:
        """The block as sent, in Anthropic's shape; a str where the message's content was a bare string."""
        content = self.content
        return content.read() if type(content) is LazyContent else content

    @property
    def text(self) -> str:
        """What a person would read and a tokenizer would count. Media have no text."""
        raw = self.raw
        return raw if isinstance(raw, str) else extract_block_text(self.kind, raw)

    @property
    def in_tags(self) -> bool:
        """Whether the block is thinking that is sent as text, in tags. A provider takes it for text."""
        return self.kind == "thinking" and is_text(self.raw)

    def __repr__(self) -> str:
        head = self.text[:40].replace("\n", " ")
        return f"<Block {self.at} {self.role}/{self.kind}{' ' + self.name if self.name else ''} turn {self.turn}: {head!r}>"


def check_time(seconds: float) -> float | None:
    """Seconds since the Unix epoch; None before it, where Go writes the year 1 for no time, and after the year 3000."""
    return seconds if 0 <= seconds < LATEST_SECONDS else None


def select_model_output(blocks: Iterable[Block]) -> list[Block]:
    """Select the blocks of an answer that the model itself wrote: those that its output tokens can count.

    Results of the provider's own tools (searches, code execution, MCP) are in the answer but are no output. A summary that the
    provider made is billed as a pass of its own.
    """
    return [block for block in blocks if block.bucket is not Bucket.TOOL_RESULTS and block.kind != "compaction"]


class Message(Struct, frozen=True, gc=False):
    """One message of the storage timeline: the blocks `start:stop`."""

    start: int
    stop: int
    role: str
    origin: str = ""  # prompt | tool | meta | inferred (meta whose wording is not in the log) | answer | summary | system
    id: str = ""
    sent_at: float | None = None
    fence: bool = False  # never merged with a neighbour of the same role when a request is rendered
    extra: Mapping[str, JSON] = {}  # further keys of the message, sent unchanged


class Usage(Struct, frozen=True, gc=False):
    """What a provider billed for one request, in tokens, under Anthropic's field names.

    `input_tokens` is the uncached part alone. `cache_creation_1h_input_tokens` is the part of `cache_creation_input_tokens`
    that was written for one hour. `iterations` are further billed passes of the same request (server-side compaction, an
    advisor); the other fields do *not* contain them. Of such a pass `kind` says what it did and `model` which model did it
    ("" = the request's model). `context`: tokens of the prompt that was answered last, where the other fields add up several
    answers (a loop of the server's own tools); 0 = there was one answer.
    """

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_1h_input_tokens: int = 0
    iterations: tuple[Usage, ...] = ()
    kind: str = ""
    model: str = ""
    context: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt: uncached + written + read."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    @property
    def answered_prompt_tokens(self) -> int:
        """Prompt tokens of the envelope that was answered: the last one's, where several answers are billed together."""
        return self.context or self.prompt_tokens

    @property
    def passes(self) -> tuple[Usage, ...]:
        """All that is billed, each once: the answer, then the further passes."""
        return (self, *self.iterations)


class AppliedEdit(Struct, frozen=True, gc=False):
    """A context edit that the provider reports to have made before its model read the request.

    `edit`: the edit's type; `cleared`: how many tool uses or thinking turns; `tokens`: how many input tokens. The provider does
    not report which ones.
    """

    edit: str
    cleared: int = 0
    tokens: int = 0


class CacheMiss(Struct, frozen=True, gc=False):
    """Why a prompt was not read from the cache, as the provider reports it: its word for the reason, and how many tokens."""

    reason: str
    tokens: int = 0


class Request(Struct, frozen=True, gc=False):
    """One call of the model: sent when `blocks[:cut]` existed, answered by `blocks[cut:stop]`."""

    n: int
    turn: int
    cut: int
    stop: int
    model: str = ""
    usage: Usage | None = None
    sent_at: float | None = None
    answered_at: float | None = None
    stop_reason: str | None = None
    id: str = ""  # id that the provider gave the answer
    output_stub: bool = False  # recorded output_tokens cannot be true (a start-of-stream value): they are counted instead
    attempts: int = 1
    settings: Mapping[str, JSON] = {}  # the rest of the request body, and its shape (see `planning.render`)
    logged_usd: float | None = None  # cost in the log itself; a price computed here is never stored
    requested_model: str = field(default="", name="asked")  # set where a policy sent the request to another one (`model`)
    window: int = 0  # the model's window in tokens, as its server or a person reported it; 0 = not reported
    estimate: Usage | None = None  # counted here, where the provider may have billed more than it reported
    applied: tuple[AppliedEdit, ...] = ()  # context edits that the provider reports
    cache_miss: CacheMiss | None = None  # the provider's own diagnosis

    def __repr__(self) -> str:
        used = f"{self.usage.prompt_tokens:,} + {self.usage.output_tokens:,} tokens" if self.usage else "no usage"
        ended = f", {self.stop_reason}" if self.stop_reason else ""
        return f"<Request {self.n} of turn {self.turn} to {self.model or 'an unnamed model'}: {used}{ended}>"


class Note(Struct, frozen=True):
    """Something that an importer found and a person should know. `line` counts from 1; 0 = the file as a whole.

    `skipped`: bytes of the records that the note is about, where nothing else is shown of them.
    """

    severity: Literal["info", "warning", "error"]
    line: int
    what: str
    skipped: int = 0


class Part(Struct, frozen=True, gc=False):
    """One part of a placeholder: new text, a structured block (`raw`), or a block that stands elsewhere (`ref`)."""

    role: str = "user"
    kind: str = "text"
    text: str = ""
    raw: JSON = None
    ref: int | None = None
    place: Literal["own", "before", "after", "system"] = "own"
    fence: bool = False

    @property
    def key(self) -> str:
        """A key for the count of its text that is known without the text; "" = the text is the key."""
        return ""


Placeholder = tuple[Part, ...] | None
"""What stands for a span: None = the blocks themselves, () = nothing, parts = a placeholder."""


Action = Literal[
    "keep",
    "drop",
    "clear",
    "strip",
    "truncate",
    "condense",
    "insert",
    "restore",
    "repair",
    "retrieve",
    "warn",
    "fallback",
    "refuse",
]


class Edit(Struct, frozen=True, gc=False):
    """What a rule wants: `span` (or the insert in `slot` at address `span.start`) becomes `body`, for the reason `because`.

    `restore` brings the span's own blocks back verbatim. An edit without a span changes nothing; it records what a rule saw.
    """

    action: Action
    because: str
    span: Span | None = None
    body: Placeholder = ()
    restore: bool = False
    slot: str = ""
    facts: Mapping[str, JSON] = {}
    model: str = ""  # with action `fallback`: the model to send to instead

    @property
    def is_unlocated_cut(self) -> bool:
        """Whether it reports content that was cleared and that the log does not hold, so it has no span."""
        return self.action == "clear" and self.span is None


AskKind = Literal["summary", "count", "recall", "rank", "fold", "compact", "expect", "provide", "extract"]
"""What an ask is about.

compact: a summary that the provider makes on demand; expect: one that it will make by itself, so no model is called now;
provide: context to attach to a question (`envelope.context_items`); extract: facts in an answer, requested once it is there.
"""


class Ask(Struct, frozen=True):
    """A question that needs I/O. `key` is a digest of content, prompt and model, so that a recorded answer is found again.

    `source`: the content, a text or a transcript that shares its lines with others. Read it as `content`.
    `max_tokens`: limit of the answer, 0 = the driver's choice. `body`: the conversation as it is sent, for a provider that
    summarises it itself. `model`: the model that a policy names for it, "" = the driver's choice.
    """

    kind: AskKind
    key: str
    prompt: str
    source: str | Transcript
    max_tokens: int = 0
    body: Mapping[str, JSON] = {}
    model: str = ""

    @property
    def content(self) -> str:
        """The content as a text; that of a transcript is built anew each time."""
        return self.source if isinstance(self.source, str) else self.source.text


class Answer(Struct, frozen=True):
    """The answer to an ask. `source`: recorded | model | offline. An `offline` text is a placeholder and is marked as one."""

    text: str = ""
    items: tuple[str, ...] = ()
    failed: str = ""
    model: str = ""
    usage: Usage | None = None
    source: str = "offline"


class Wish(Struct, frozen=True):
    """An edit that a person requested in chat `session` when it had `blocks` blocks. `blocks_digest`: digest of those."""

    edit: Edit
    session: str
    blocks: int
    blocks_digest: str = field(name="told")


class AnswerFact(Struct, frozen=True, tag="answered"):
    """An ask was answered."""

    key: str
    answer: Answer


class CountFact(Struct, frozen=True, tag="counted"):
    """The provider's own count of a planned prompt, in tokens. `seen` is what the plan counted, in the ledger's units."""

    request: int
    seen: int
    tokens: int
    model: str = ""


class WishFact(Struct, frozen=True, tag="wished"):
    """All edits that a person has requested up to a request."""

    request: int
    wishes: tuple[Wish, ...]


class RatingFact(Struct, frozen=True, tag="rated"):
    """A person's rating of the text with this digest: up, down, or "" for none."""

    digest: str
    rating: str


Fact = AnswerFact | CountFact | WishFact | RatingFact
"""What is recorded with a session in addition to its messages, so that a replay needs no I/O."""


class RecordedFacts(Struct, frozen=True):
    """The facts of a session, each kind under the key that finds it. `facts.add_facts` adds to it."""

    answers: Mapping[str, Answer] = {}  # by the ask's key
    counts: Mapping[int, tuple[CountFact, ...]] = {}  # by request
    wishes: Mapping[int, tuple[Wish, ...]] = {}  # by request
    ratings: Mapping[str, str] = {}  # by digest of the text


class ObservedEdit(Struct, frozen=True):
    """What the original tool really did to the envelope. Request `request` is the first that shows it."""

    request: int
    edit: Edit


FORKED = "forked"  # key of `Session.about` on a branch of a branch: where each path before it left another


class Session(Struct, frozen=True, weakref=True):
    """One path of a thread, root to leaf: the storage timeline, append-only. It holds what happened, never an opinion about it.

    >>> session = turnscope.load("sample_sessions/cache-goes-cold.jsonl")
    >>> session.requests[0], session.requests[0].usage.prompt_tokens
    (<Request 0 of turn 0 to claude-opus-4-5-20251101: 18,251 + 78 tokens>, 18251)
    >>> session.blocks[3]
    <Block 3 assistant/tool_use Glob turn 0: 'Glob {"pattern":"src/**/*.ts"}'>
    """

    id: str
    title: str = ""
    source: str = ""  # name of the importer
    blocks: tuple[Block, ...] = ()
    messages: tuple[Message, ...] = ()
    requests: tuple[Request, ...] = ()
    observed: tuple[ObservedEdit, ...] = ()
    notes: tuple[Note, ...] = ()
    about: Mapping[str, JSON] = {}  # version, cwd, ... from the log
    window: int | None = None  # in tokens, where the log itself states it; 0: unknown, and not what the tables say
    recorded: RecordedFacts = RecordedFacts()
    parent: str = ""  # id of the session that this one belongs to
    at: int = -1  # block of the parent that started it (subagent), or first block not shared with it (branch)
    subagents: tuple[Session, ...] = ()
    forks: tuple[Fork, ...] = ()

    @property
    def branches(self) -> Branches:
        """The paths that were left, each as a session of its own. A session is built when it is read."""
        return Branches(self)

    def count_branch_requests(self, number: int) -> int:
        """Count the requests on the whole path of branch `number`."""
        fork = self.forks[number]
        own, stop = fork.own.requests, fork.start
        while not own and fork.of:
            fork = self.forks[fork.of - 1]
            own, stop = tuple(request for request in fork.own.requests if request.stop <= stop), min(stop, fork.start)
        return own[-1].n + 1 if own else sum(request.stop <= stop for request in self.requests)

    def __repr__(self) -> str:
        models = sorted({r.model for r in self.requests if r.model})
        more = "".join(
            f", {len(group)} {name}" for name, group in (("subagents", self.subagents), ("branches", self.forks)) if group
        )
        return (
            f"<Session {self.title or self.id!r} from {self.source}: {len(self.requests)} requests, "
            f"{len(self.blocks)} blocks, {', '.join(models) or 'no model named'}{more}>"
        )

    def _repr_html_(self) -> str:
        """What the log holds, and requests from first to last with what was billed."""
        rows = [
            (request.n, request.turn, request.model, *_list_tokens(request.usage), request.stop_reason or "")
            for request in _pick_evenly(self.requests, MAX_ROWS)
        ]
        kinds = Counter(block.kind for block in self.blocks)
        held = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in kinds.most_common())
        about = [notebook.render_line(f"{len(self.blocks):,} blocks: {held}")] if held else []
        about += [notebook.render_line(f"{len(self.subagents):,} subagents, {len(self.forks):,} branches")]
        about += [notebook.render_line(f"{note.severity}: {note.what}") for note in self.notes[:MAX_ROWS]]
        head = ("requests[n]", "turn", "model", "prompt tokens", "from the cache", "output tokens", "")
        note = f"{self.source} · {len(self.requests):,} requests"
        return notebook.render_card(self.title or self.id, *about, notebook.render_table(head, rows), note=note)


class Sessions(notebook.Listed[Session]):
    """Sessions of one file, the main one first."""

    __slots__ = ()
    head = ("", "title", "tool", "requests", "blocks", "models")
    noun = "sessions"

    def _list_cells(self, value: Session) -> Sequence[object]:
        models = sorted({request.model for request in value.requests if request.model})
        return (value.id, value.title, value.source, len(value.requests), len(value.blocks), ", ".join(models))


def _list_tokens(usage: Usage | None) -> tuple[object, object, object]:
    """Tokens of prompt, cache and answer as recorded; blank where nothing was."""
    return ("", "", "") if usage is None else (usage.prompt_tokens, usage.cache_read_input_tokens, usage.output_tokens)


def _pick_evenly(requests: Sequence[Request], most: int) -> list[Request]:
    """The first and the last request, and others between them at even distances."""
    if len(requests) <= most:
        return list(requests)
    return [requests[round(n * (len(requests) - 1) / (most - 1))] for n in range(most)]


class Fork(Struct, frozen=True):
    """A branch as what it adds to the path that it left. It shares that path up to block `start`.

    `own` holds its blocks, messages, requests, observed edits and notes from there on, with the addresses and numbers of the
    whole path. `relinked`: blocks before `start` that have another call or result on this path.
    """

    own: Session
    of: int = 0  # number of the path that it left: 0 = the session itself, k = its k-th fork, which comes earlier
    start: int = 0
    relinked: tuple[Block, ...] = field(default=(), name="mended")


class Branches(Sequence[Session]):
    """The branches of a session. Each is built from what it shares and what it adds when it is read."""

    __slots__ = ("_trunk",)

    def __init__(self, trunk: Session) -> None:
        self._trunk = trunk

    def __len__(self) -> int:
        return len(self._trunk.forks)

    @overload
    def __getitem__(self, number: int) -> Session: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Session, ...]: ...
    def __getitem__(self, number: int | slice) -> Session | tuple[Session, ...]:
        if isinstance(number, slice):
            return tuple(self[n] for n in range(*number.indices(len(self))))
        return join_path(self._trunk, self._trunk.forks, range(1, 1 + len(self))[number])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (Branches, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(len(self))


def list_fork_points(session: Session) -> tuple[int, ...]:
    """List the addresses at which the path of a branch left another path, the first one first; none for a main path."""
    if not session.parent or session.at < 0 or session.id == session.parent or "agent" in session.about:
        return ()
    earlier = session.about.get(FORKED)
    return (*(at for at in (earlier if isinstance(earlier, list) else ()) if isinstance(at, int)), session.at)


def get_block(trunk: Session, forks: Sequence[Fork], number: int, at: int) -> Block:
    """Get the block at an address of a path.

    Args:
        trunk: The main path.
        forks: Its branches.
        number: Number of the path: 0 = the main path, k = the k-th branch.
        at: Block address.
    """
    while number and at < forks[number - 1].start:
        number = forks[number - 1].of
    return forks[number - 1].own.blocks[at - forks[number - 1].start] if number else trunk.blocks[at]


def join_path(trunk: Session, forks: Sequence[Fork], number: int) -> Session:
    """Build the whole session of a path. It shares its blocks with the other paths.

    Args:
        trunk: The main path.
        forks: Its branches.
        number: Number of the path: 0 = the main path, k = the k-th branch.
    """
    line: list[Fork] = []
    while number:
        line.append(forks[number - 1])
        number = line[-1].of
    blocks, messages = list(trunk.blocks), list(trunk.messages)
    requests, observed = list(trunk.requests), list(trunk.observed)
    for fork in reversed(line):
        del blocks[fork.start :]
        del messages[bisect_left(messages, fork.start, key=lambda message: message.start) :]
        del requests[next((n for n, request in enumerate(requests) if request.stop > fork.start), len(requests)) :]
        del observed[bisect_left(observed, len(requests), key=lambda seen: seen.request) :]
        for block in fork.relinked:
            blocks[block.at] = block
        blocks += fork.own.blocks
        messages += fork.own.messages
        requests += fork.own.requests
        observed += fork.own.observed
    last = line[0].own if line else trunk
    if len(line) > 1:
        last = replace(last, about={**last.about, FORKED: [fork.start for fork in line[:0:-1]]})
    return replace(last, blocks=tuple(blocks), messages=tuple(messages), requests=tuple(requests), observed=tuple(observed))
