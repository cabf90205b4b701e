"""Lost references: identifiers that a recorded answer reuses and that its request no longer carries under a policy.

Identifiers are paths and file names, names of code, ids of calls, numbers of four digits or more, and quoted strings. They are
compared by their letters, so the result is a lower bound: reuse in other words is not seen, and a placeholder that repeats an
identifier counts as present. The identifiers of a session are read once; the losses of a policy then need no texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import BlockStatus, Trace
from turnscope.session.model import JSON, Block, Part, Session, Span, select_model_output

MAX_IDENTIFIER = 120  # characters of an identifier, at most
_WORDS = re.compile(
    r"(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w"  # paths
    r"|\b[\w-]{3,}\.[a-z]{1,4}\b(?!\()"  # file names
    r"|\b[A-Za-z]\w*_\w+\b|\b[A-Za-z]?[a-z]+[A-Z]\w+\b|\b[A-Za-z]\w{4,}(?=\()"  # names of code, ids of calls
    r"|(?<![\w.])\d+\.\d{2,}\b|\b\d{4,}\b"  # numbers
)
_RUN = re.compile(r"[\w.@+~/-]{4,}\(?")
_QUOTED = re.compile(
    r"\"([^\"\n]{4,80})\"|`([^`\n]{4,80})`|'(?<!\w')([^'\n]{4,80})'(?!\w)"
)  # each begins with a literal character, which is fast
_ESCAPES = re.compile(r"\\[ntr\"\\/]")  # in the JSON of a call's input


class LostReference(NamedTuple):
    """An identifier that an answer reuses and that its request lacks.

    Attributes:
        answer: the block that reuses it.
        block: the last earlier block that holds it, which is not in the request.
        by: number of the decision that removed the block; -1 = the provider removed it.
    """

    request: int
    text: str
    answer: int
    block: int
    by: int


@dataclass(frozen=True, slots=True)
class Losses:
    """All lost references of a replay, in the order of its requests.

    Attributes:
        hits: the lost references.
        uses: identifiers that each answer reuses, by request.
        decisions: request and step of each decision that removed one of them, by its number.
    """

    hits: tuple[LostReference, ...] = ()
    uses: tuple[int, ...] = ()
    decisions: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Lost references as a share of all reused ones, 0 to 1."""
        return len(self.hits) / max(1, sum(self.uses))

    @property
    def per_request(self) -> tuple[int, ...]:
        """How many references each request lost."""
        found = [0] * len(self.uses)
        for hit in self.hits:
            found[hit.request] += 1
        return tuple(found)


@dataclass(frozen=True, slots=True)
class References:
    """The references of a session's answers.

    Attributes:
        places: blocks that hold each identifier, in order.
        uses: by request, the identifiers that its answer reuses, each with the first block of the answer that has it.
    """

    places: Mapping[str, Sequence[int]]
    uses: tuple[Mapping[str, int], ...]


def find_identifiers(text: str) -> set[str]:
    """Find the identifiers in a text.

    >>> sorted(find_identifiers("See src/app.py: parse_args() returns 4096 for `--all`."))
    ['--all', '4096', 'parse_args', 'src/app.py']
    """
    plain = _ESCAPES.sub(" ", text) if "\\" in text else text
    found = set().union(*map(_split_run, {*_RUN.findall(plain)}))
    quoted = (next(filter(None, groups)) for groups in _QUOTED.findall(plain))
    found.update(text for text in quoted if not text.isalpha())  # a word in quotes is no identifier
    return found


@lru_cache(maxsize=1 << 17)
def _split_run(run: str) -> tuple[str, ...]:
    """Find the identifiers in a run of characters. The same runs occur in many blocks, so the result is cached."""
    return tuple(word for word in _WORDS.findall(run) if len(word) <= MAX_IDENTIFIER)


def _find_block_identifiers(block: Block) -> set[str]:
    """Find the identifiers in a block."""
    return _find_content_identifiers(block.kind, block.raw, block.text)


def _find_content_identifiers(kind: str, raw: JSON, text: str) -> set[str]:
    """Find the identifiers in a text; of a call those in its arguments, not the names of its parameters."""
    if kind != "tool_use" or not isinstance(raw, Mapping):
        return find_identifiers(text)
    return set().union(*map(find_identifiers, _iter_leaves(raw.get("input"))))


def _iter_leaves(value: JSON) -> Iterator[str]:
    held = [value]
    while held:
        each = held.pop()
        if isinstance(each, Mapping):
            held += each.values()
        elif isinstance(each, list):
            held += each
        elif each is not None:
            yield str(each)


def find_references(session: Session) -> References:
    """Find the references of a session's answers, once for all policies.

    What only a tool's own summary says is derived, so it is no reference.
    """
    answers: list[dict[str, int]] = []
    known: dict[int, set[str]] = {}
    for request in session.requests:
        has: dict[str, int] = {}
        for block in select_model_output(session.blocks[request.cut : request.stop]):
            known[block.at] = _find_block_identifiers(block)
            for word in known[block.at]:
                has.setdefault(word, block.at)
        answers.append(has)
    wanted = {word for has in answers for word in has}
    places: dict[str, list[int]] = {word: [] for word in wanted}
    first: dict[str, int] = {}
    for block in session.blocks:
        here = wanted & (known[block.at] if block.at in known else _find_block_identifiers(block))
        for word in here:
            places[word].append(block.at)
        if session.messages[block.message].origin != "summary" and block.kind != "summary":
            first.update(dict.fromkeys(here.difference(first), block.at))
    uses = tuple(
        {word: at for word, at in has.items() if first.get(word, request.cut) < request.cut}
        for request, has in zip(session.requests, answers, strict=True)
    )
    return References(places, uses)


def find_losses(trace: Trace, used: References) -> Losses:
    """Find the lost references of a replay.

    Args:
        trace: the replay.
        used: the references of its session.
    """
    said = _PlaceholderIndex(trace.session, used.places.keys())
    hits: list[LostReference] = []
    for plan, words in zip(trace.plans, used.uses, strict=False):
        if words:
            hits += _find_missing(plan, words, used.places, said)
    made: dict[int, tuple[int, int]] = {}
    for number in {hit.by for hit in hits if hit.by >= 0}:
        request = trace.get_decision(number).request
        made[number] = request, number - trace.plans[request].first + 1
    return Losses(tuple(hits), tuple(len(words) for words in used.uses[: len(trace.plans)]), made)


def _find_missing(
    plan: Plan, words: Mapping[str, int], places: Mapping[str, Sequence[int]], said: _PlaceholderIndex
) -> Iterator[LostReference]:
    cut, seen, repeated = plan.request.cut, plan.seen, None
    for word, answer in words.items():
        last = bisect_left(places[word], cut) - 1
        if _is_present(seen, places[word], last):
            continue
        repeated = said.find_in(seen) if repeated is None else repeated
        if any(word in each for each in repeated):
            continue
        block = places[word][last]
        yield LostReference(request=plan.request.n, text=word, answer=answer, block=block, by=plan.after.find_piece(block).by)


def _is_present(envelope: Envelope, places: Sequence[int], last: int) -> bool:
    """Whether one of the first `last` + 1 places is in the envelope verbatim. A piece that is not is skipped as a whole."""
    while last >= 0:
        piece = envelope.find_piece(places[last])
        if piece.body is None:
            return True
        last = bisect_left(places, piece.start, 0, last) - 1
    return False


@dataclass(slots=True)
class _PlaceholderIndex:
    """The wanted identifiers that placeholders hold. Requests share chunks, so each chunk is read once."""

    session: Session
    wanted: Collection[str]
    chunks: dict[int, tuple[Chunk, frozenset[str]]] = field(default_factory=dict)
    parts: dict[object, tuple[Part, frozenset[str]]] = field(default_factory=dict)  # by text or block; a call by its id

    def find_in(self, envelope: Envelope) -> list[frozenset[str]]:
        """The wanted identifiers in the placeholders of an envelope."""
        return [found for chunk in envelope.chunks if (found := self._read_chunk(chunk))]

    def _read_chunk(self, chunk: Chunk) -> frozenset[str]:
        found = self.chunks.get(id(chunk))
        if found is None:
            parts = (part for piece in chunk.pieces for part in piece.body or ())
            found = self.chunks[id(chunk)] = chunk, frozenset().union(*map(self._read_part, parts))
        return found[1]

    def _read_part(self, part: Part) -> frozenset[str]:
        """The wanted identifiers in a part of a placeholder. A part that refers to a block has those of the block."""
        structured = part.kind == "tool_use" and part.ref is None
        key = part.ref if part.ref is not None else (id(part),) if structured else part.text
        if key not in self.parts:
            moved = self.session.blocks[part.ref] if part.ref is not None else None
            found = _find_block_identifiers(moved) if moved else _find_content_identifiers(part.kind, part.raw, part.text)
            self.parts[key] = part, frozenset(word for word in found if word in self.wanted)
        return self.parts[key][1]


class Departure(NamedTuple):
    """The requests that carried a text verbatim under one policy. A placeholder that repeats the text does not count.

    `out`: how its last carrier left; None while a request still carries it.
    """

    policy: str
    spans: tuple[Span, ...]
    out: BlockStatus | None


def find_departures(traces: Iterable[Trace], text: str) -> tuple[Departure, ...]:
    """Find when a text left the window under each policy.

    Args:
        traces: replays of one session.
        text: the text; "#214" is block 214 as a whole, if there is one.
    """
    found: list[Departure] = []
    blocks: tuple[int, ...] | None = None
    for trace in traces:
        if blocks is None:
            blocks = find_blocks(trace.session, text)
        spans = _join_spans(span for each in trace.iter_shown_spans(blocks) for span in each)
        many = len(trace.plans)
        gone = bool(blocks) and bool(many) and (not spans or spans[-1].stop < many)
        at = spans[-1].stop if spans else trace.find_first_request(blocks[0]) if blocks else many
        here = [block for block in blocks if at < many and block < trace.plans[at].request.cut]
        found.append(Departure(trace.policy.name, spans, trace.explain(here[-1], at) if gone and here else None))
    return tuple(found)


def find_blocks(session: Session, text: str) -> tuple[int, ...]:
    """Find the blocks that hold a text, in order, as `find_departures` does.

    Args:
        session: the session.
        text: the text, or "#" and the number of a block.
    """
    number = text.removeprefix("#").replace(",", "")
    if text.startswith("#") and number.isascii() and number.isdigit() and len(number) < 9 and int(number) < len(session.blocks):
        return (int(number),)
    return tuple(block.at for block in session.blocks if text in block.text) if text else ()


def _join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join overlapping spans, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].stop:
            found[-1] = Span(found[-1].start, max(found[-1].stop, span.stop))
        else:
            found.append(span)
    return tuple(found)
