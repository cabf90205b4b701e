"""A session as LibreChat's agents see it: system, human, ai and tool messages, numbered from the last summary on.

It only reads: roles, calls and results, reasoning, and the tokens of a message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct

from turnscope.counting.ledger import Ledger, make_text_key
from turnscope.ports.librechat.cuts import narrow_text, unpack, widen, write_json
from turnscope.ports.rows import Row, read_rows
from turnscope.session.content import extract_block_text
from turnscope.session.model import JSON, Block, Part, Session

TOGETHER = 128  # texts that are counted at once: so few run on one core, which needs half the CPU time of two
ROLES = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}
Bodies = Mapping[int, tuple[Part, ...]]
"""What stands for some blocks of a message, by address; () = nothing."""


class Cut(Struct, frozen=True, gc=False):
    """A shortened text, packed (see `cuts.pack`), its length, and the tokens of its message."""

    text: bytes
    length: int
    tokens: int


_text, _raw = vars(Part)["text"], vars(Part)["raw"]  # the stored fields, which the properties below replace


class Shortened(Part, frozen=True, gc=False):
    """A result with another text. The text is made when it is read: a replay keeps tens of thousands that nobody reads."""

    of: Block | None = None
    kept: bytes = b""  # see `cuts.pack`
    size: int = 0  # characters of the text, wide

    @property  # type: ignore[misc]
    def text(self) -> str:
        """The text, narrow."""
        value: str = _text.__get__(self)
        if value or not self.of:
            return value
        whole = get_result_text(self.of)[0] or ""
        text = unpack(self.kept, whole)
        return text if whole.isascii() else narrow_text(text)

    @property  # type: ignore[misc]
    def raw(self) -> JSON:
        """The block with the text."""
        value = _raw.__get__(self)
        return {**self.of.raw, "content": self.text} if value is None and self.of else value

    @property
    def key(self) -> str:
        """A key under which its token count is known."""
        return make_text_key(f"{self.of.digest} {self.kept.decode('utf-8', 'surrogatepass')}") if self.of else ""

    def __eq__(self, other: object) -> bool:
        if type(other) is Shortened and other.of is self.of:
            same = other.kept == self.kept
            if same or other.size != self.size or other.kept.split(b" ", 2)[:2] == self.kept.split(b" ", 2)[:2]:
                return same  # cut at the same places, so only the part between them may differ
        return isinstance(other, Part) and _describe_part(self) == _describe_part(other)

    def __hash__(self) -> int:
        return hash((self.role, self.kind, self.text))


def _describe_part(part: Part) -> tuple[object, ...]:
    return part.text, part.role, part.kind, part.raw, part.ref, part.place, part.fence


def replace_content(block: Block, text: str) -> Part:
    """Return a result with another text.

    Args:
        block: The result.
        text: Its new text, narrow.
    """
    return Part(block.role, "tool_result", text, {**block.raw, "content": text})


class Reading(Struct, frozen=True, gc=False):
    """All messages of a session, and where their parts are. Numbers are places in `rows`."""

    rows: tuple[Row, ...]
    starts: tuple[int, ...]
    roles: tuple[str, ...]
    tools: tuple[int, ...]
    answers: tuple[int, ...]  # ai messages
    spoken: tuple[int, ...]  # ai messages with text
    breaks: tuple[int, ...]  # messages that are neither ai nor tool
    humans: tuple[int, ...]
    thoughts: Mapping[str, tuple[int, ...]]  # ai messages with a reasoning block, by kind of reasoning
    reach: tuple[int, ...]  # the last result of any call before each message
    odd: tuple[int, ...]  # messages with calls without a result, results without a call, or repeated ids
    lengths: tuple[int, ...]  # characters of each result in `tools`; 0 if it holds anything but text
    longest: tuple[int, ...]  # characters of the longest arguments in each of `answers`


def read_session(session: Session, with_system: bool) -> Reading:
    """Read a session.

    Args:
        session: The session.
        with_system: Include its system messages.
    """
    rows = [row for row in read_rows(session).rows if with_system or row.role != "system"]
    roles = tuple(ROLES.get(row.role, "human") for row in rows)
    blocks = session.blocks
    number = {at: i for i, row in enumerate(rows) for at in range(row.start, row.stop)}
    ends, odd, seen = [-1] * (len(rows) + 1), set[int](), set[str]()
    for i, row in enumerate(rows):
        for block in blocks[row.start : row.stop]:
            if is_call(block) and roles[i] == "ai":
                ends[i + 1] = max(ends[i + 1], number.get(block.pair, -1))
                if block.pair < 0 or get_call_id(block) in seen or not get_call_id(block):
                    odd.add(i)
                seen.add(get_call_id(block))
            elif roles[i] == "tool" and not 0 <= block.pair < block.at:
                odd.add(i)
    places = {role: tuple(i for i, r in enumerate(roles) if r == role) for role in ("tool", "ai", "human")}
    kinds = ("thinking", "reasoning_content")
    answers = [blocks[rows[i].start : rows[i].stop] for i in places["ai"]]
    results = [blocks[rows[i].start] for i in places["tool"]]
    return Reading(
        rows=tuple(rows),
        starts=tuple(row.start for row in rows),
        roles=roles,
        tools=places["tool"],
        answers=places["ai"],
        spoken=tuple(i for i, answer in zip(places["ai"], answers, strict=True) if any(map(_has_text, answer))),
        breaks=tuple(i for i, r in enumerate(roles) if r not in ("ai", "tool")),
        humans=places["human"],
        thoughts={
            kind: tuple(i for i, answer in zip(places["ai"], answers, strict=True) if _find_reasoning(answer, kind) >= 0)
            for kind in kinds
        },
        reach=tuple(accumulate(ends, max)),
        odd=tuple(sorted(odd)),
        lengths=tuple(len(get_result_text(block)[0] or "") for block in results),
        longest=tuple(map(measure_longest_input, answers)),
    )


def is_call(block: Block) -> bool:
    """Return whether a block calls a tool whose result is a message of its own. Tools that the provider runs do not."""
    return isinstance(block.raw, Mapping) and block.raw.get("type") == "tool_use"


def get_call_id(block: Block) -> str:
    """Return the id of a call, or of the call that a result answers."""
    if not isinstance(block.raw, Mapping):
        return ""
    found = block.raw.get("id") if block.kind == "tool_use" else block.raw.get("tool_use_id")
    return found if isinstance(found, str) else ""


def get_result_text(block: Block) -> tuple[str | None, bool]:
    """Return the text of a result, wide, and whether it was a list of texts; None if it holds anything but text."""
    raw = block.raw
    content = raw.get("content") if type(raw) is dict or isinstance(raw, Mapping) else None
    if isinstance(content, str):
        return widen(content), False
    parts = content if isinstance(content, list) else []
    texts = [p["text"] for p in parts if isinstance(p, Mapping) and p.get("type") == "text" and isinstance(p.get("text"), str)]
    return (widen("\n".join(texts)), True) if texts and len(texts) == len(parts) else (None, False)


def measure_longest_input(blocks: Iterable[Block], inputs: Mapping[int, JSON] | None = None) -> int:
    """Return the characters of JSON of the longest arguments among calls.

    Args:
        blocks: The blocks of an answer.
        inputs: New arguments of some calls, by address.
    """
    texts = inputs or {}
    return max((len(write_json(texts.get(b.at, b.raw.get("input")))) for b in blocks if is_call(b)), default=0)


def _has_text(block: Block) -> bool:
    if isinstance(block.raw, str):
        return bool(block.raw.strip())
    text = block.raw.get("text") if isinstance(block.raw, Mapping) and block.raw.get("type") == "text" else None
    return isinstance(text, str) and bool(text.strip())


def _find_reasoning(blocks: Sequence[Block], kind: str) -> int:
    """Return the address of the first reasoning block in a list of content; -1 = none. `thinking` accepts both kinds."""
    wanted = {kind, "reasoning_content"}
    if any(isinstance(block.raw, str) for block in blocks):
        return -1
    return next((b.at for b in blocks if isinstance(b.raw, Mapping) and b.raw.get("type") in wanted), -1)


class History(Struct, frozen=True, gc=False):
    """The messages `since:there` of a reading, numbered from 0.

    `attached`: addresses of reasoning that was put before a message for good.
    """

    session: Session
    reading: Reading
    own: Ledger
    frame: int  # tokens of a message's frame
    there: int
    since: int = 0
    attached: Mapping[int, int] | None = None
    host: Sequence[int] = ()  # tokens of every message of the reading, as the host counts them
    memo: dict[tuple[int, bool], tuple[bytes | None, int, Cut]] = {}  # the last cuts: see fading
    whole: dict[int, Any] = {}  # what is known of all messages from one on: see `fading`

    def __len__(self) -> int:
        return self.there - self.since

    def get_role(self, i: int) -> str:
        return self.reading.roles[self.since + i]

    def get_row(self, i: int) -> Row:
        return self.reading.rows[self.since + i]

    def get_blocks(self, i: int) -> tuple[Block, ...]:
        row = self.get_row(i)
        return self.session.blocks[row.start : row.stop]

    @property
    def has_instructions(self) -> bool:
        """Whether the first message is a system message."""
        return len(self) > 0 and self.get_role(0) == "system"

    @property
    def first_tool(self) -> int:
        return bisect_left(self.reading.tools, self.since)

    @property
    def tools(self) -> int:
        """How many tool messages there are."""
        return bisect_left(self.reading.tools, self.there) - self.first_tool

    def get_tool(self, j: int) -> int:
        """Return the number of the message that is result `j`."""
        return self.reading.tools[self.first_tool + j] - self.since

    def count_tools_before(self, i: int) -> int:
        return bisect_left(self.reading.tools, self.since + i) - self.first_tool

    @property
    def first_answer(self) -> int:
        return bisect_left(self.reading.answers, self.since)

    @property
    def answers(self) -> int:
        """How many ai messages there are."""
        return bisect_left(self.reading.answers, self.there) - self.first_answer

    def get_answer(self, j: int) -> int:
        return self.reading.answers[self.first_answer + j] - self.since

    def count_answers_before(self, i: int) -> int:
        return bisect_left(self.reading.answers, self.since + i) - self.first_answer

    @property
    def results_before_text(self) -> int:
        """How many results come before an ai message with text."""
        first = bisect_left(self.reading.spoken, self.there)
        last = self.reading.spoken[first - 1] if first else -1
        return max(0, bisect_left(self.reading.tools, last) - self.first_tool)

    def get_result(self, i: int) -> tuple[str | None, bool]:
        """Return the text of a tool message, as `get_result_text` does."""
        return get_result_text(self.get_blocks(i)[0])

    def get_result_by_number(self, number: int) -> tuple[Block, str, bool]:
        """Return the block of result `number`, its text ("" if it holds anything but text), and whether that was a list."""
        block = self.session.blocks[self.reading.rows[self.reading.tools[number]].start]
        text, listed = get_result_text(block)
        return block, text or "", listed

    def list_calls(self, i: int) -> list[Block]:
        return [block for block in self.get_blocks(i) if is_call(block)] if self.get_role(i) == "ai" else []

    def find_reasoning(self, i: int, kind: str) -> int:
        """Return the address of a message's reasoning; -1 = none.

        Args:
            i: The number of the message.
            kind: The type of reasoning blocks, `thinking` or `reasoning_content`.
        """
        if self.attached and self.since + i in self.attached:
            return self.attached[self.since + i]
        return _find_reasoning(self.get_blocks(i), kind) if self.get_role(i) == "ai" else -1

    def find_last_reasoning(self, kind: str) -> int:
        """Return the number of the last message with a reasoning block; -1 = none."""
        known = self.reading.thoughts[kind]
        place = bisect_left(known, self.there)
        more = [i for i in self.attached or () if i < self.there]
        return max([known[place - 1] if place else -1, *more, self.since - 1]) - self.since

    @property
    def find_last_break(self) -> int:
        """The number of the last message that is neither ai nor tool; -1 = none."""
        place = bisect_left(self.reading.breaks, self.there)
        return max(self.reading.breaks[place - 1] if place else -1, self.since - 1) - self.since

    @property
    def list_turns(self) -> list[int]:
        """Return the numbers of the human messages."""
        humans = self.reading.humans
        return [i - self.since for i in humans[bisect_left(humans, self.since) : bisect_left(humans, self.there)]]

    def is_paired(self, start: int) -> bool:
        """Return whether the messages from `start` on certainly hold a result for each call, and a call for each result."""
        a, odd, reach = self.since + start, self.reading.odd, self.reading.reach
        same = bisect_left(odd, a) == bisect_right(odd, self.there - 1)
        return same and reach[a] < a and reach[self.there] < self.there

    def count_parts(self, parts: Iterable[Part]) -> int:
        """Count a message of these parts."""
        return self.frame + self.own.count_parts(parts)

    def count_each(self, parts: Sequence[Part]) -> list[int]:
        """Count messages of one part each."""
        batches = (parts[i : i + TOGETHER] for i in range(0, len(parts), TOGETHER))
        return [self.frame + tokens for batch in batches for tokens in self.own.count_each_part(batch)]

    def recount(self, i: int) -> int:
        """Count a message verbatim."""
        return self.frame + self.own.count_content(self.get_blocks(i))

    def build_parts(self, i: int, bodies: Bodies) -> list[Part]:
        """Return a message as parts, with other bodies for some of its blocks.

        Args:
            i: The number of the message.
            bodies: What replaces some of its blocks, by address.
        """
        parts: list[Part] = []
        for block in self.get_blocks(i):
            parts += bodies.get(block.at, (Part(block.role, block.kind, block.text, block.raw),))
        return parts

    def replace_text(self, i: int, packed: bytes, size: int) -> Bodies:
        """Return the placeholder of a tool message.

        Args:
            i: The number of the message.
            packed: The other text, packed.
            size: Its characters.
        """
        block = self.session.blocks[self.get_row(i).start]
        return {block.at: (Shortened(block.role, "tool_result", of=block, kept=packed, size=size),)}

    def replace_inputs(self, inputs: Mapping[int, JSON]) -> dict[int, tuple[Part, ...]]:
        """Return the placeholders of calls with other arguments.

        Args:
            inputs: The arguments, by address of the call.
        """
        bodies: dict[int, tuple[Part, ...]] = {}
        for at, value in inputs.items():
            block = self.session.blocks[at]
            raw = {**block.raw, "input": value}
            bodies[at] = (Part(block.role, "tool_use", extract_block_text("tool_use", raw), raw),)
        return bodies
