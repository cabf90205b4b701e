"""Lost references: identifiers that a recorded answer reuses and that its request no longer carries under a policy.

Identifiers are paths and file names, names of code, ids of calls, numbers of four digits or more, and quoted strings. A number
that is the whole value of a parameter (a timeout, a limit) is none, nor is a year, nor a call of Python's own functions, such
as `range`. Identifiers are compared by their letters, so the result is a lower bound: reuse in other words is not seen, and
whatever stands in the body of a request counts as present, also inside a longer word, or in a placeholder. The texts of a
session are read once for all policies.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import ahocorasick
import numpy as np
import numpy.typing as npt

from turnscope.envelope.difference import find_changed_spans
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.identifiers import RUN, find_quoted, remove_escapes, split_run
from turnscope.envelope.pieces import Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import BlockStatus, Trace
from turnscope.session.model import JSON, Block, Part, Request, Session, Span, select_model_output

_PLAIN_NUMBER = re.compile(r"\s*[-+]?[\d.,_]+\s*")
# Of UTF-8 every byte beyond ASCII is part of a word.
_BETWEEN_RUNS = bytes(n if n >= 128 or chr(n).isalnum() or chr(n) in "_.@+~/-(" else 32 for n in range(256))  # of `_RUN`
Numbers = npt.NDArray[np.int32]
_MORE, _LESS = np.int32(1), np.int32(-1)  # of the same type as what they are added to: else adding is slow
_NO_NUMBERS: Numbers = np.empty(0, np.int32)


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


class StringSearch:
    """Finds those of some strings that a text holds, also inside longer words: all of them in one pass over the text.

    Attributes:
        strings: the strings, by number.

    Args:
        strings: the strings.

    >>> sorted(StringSearch(["app.py", "app", "run"]).find({"path": "src/app.py"}))
    [0, 1]
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = (*strings,)
        # Indentation stands in so many places that one search for each width is faster.
        self._spaces = [(number, string) for number, string in enumerate(self.strings) if string.isspace()]
        self._automaton = ahocorasick.Automaton()
        for number, string in enumerate(self.strings):
            if not string.isspace():
                self._automaton.add_word(string, number)
        self._automaton.make_automaton()

    def __reduce__(self) -> tuple[type[StringSearch], tuple[Sequence[str]]]:
        return StringSearch, (self.strings,)  # building it anew is faster than to hand it to another process

    def find(self, raw: JSON) -> frozenset[int]:
        """The numbers of the strings in what a block or part sends, with and without its escapes."""
        text = "\n".join(_iter_strings(raw))
        if (plain := remove_escapes(text)) != text:
            text += f"\n{plain}"  # identifiers are taken from texts without escapes
        found = {number for number, string in self._spaces if string in text}
        if len(self._automaton):
            found.update(map(itemgetter(1), self._automaton.iter(text)))
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class References:
    """The references of a session's answers.

    Attributes:
        places: blocks of which each is an identifier, in order.
        uses: by request, the identifiers that its answer reuses, each with the first block of the answer that has it.
        search: finds all reused identifiers, by number.
        held: by block that a request may have, those that it holds.
        numbers: those of each of `uses`.
    """

    places: Mapping[str, Sequence[int]]
    uses: tuple[Mapping[str, int], ...]
    search: StringSearch = field(default_factory=lambda: StringSearch(()))
    held: Mapping[int, Numbers] = field(default_factory=dict)
    numbers: Sequence[Numbers] = field(init=False)

    @property
    def reused(self) -> Sequence[str]:
        """All reused identifiers, by number."""
        return self.search.strings

    def __post_init__(self) -> None:
        known = {word: number for number, word in enumerate(self.reused)}
        numbers = tuple(np.fromiter(map(known.__getitem__, words), np.int32, len(words)) for words in self.uses)
        object.__setattr__(self, "numbers", numbers)


@dataclass(slots=True)
class _IdentifierReader:
    """Finds the identifiers in the blocks of a session, or those of them that are `wanted`; each run of characters once."""

    wanted: set[str] | None = None
    runs: set[bytes] = field(default_factory=set)  # that were read
    holding: dict[bytes, list[str]] = field(default_factory=dict)  # runs with identifiers

    def find(self, block: Block) -> set[str]:
        """What `find_identifiers` finds in a block; of a call in its arguments, not in the names of its parameters."""
        plain, wanted = remove_escapes(_get_text(block)), self.wanted
        encoded = plain.encode("utf-8", "surrogatepass").translate(_BETWEEN_RUNS)
        runs = {*encoded.replace(b"(", b"( ").split()}
        for run in runs - self.runs:
            words = chain.from_iterable(map(split_run, RUN.findall(run.decode("utf-8", "surrogatepass"))))
            if here := [word for word in words if wanted is None or word in wanted]:
                self.holding[run] = here
        self.runs |= runs
        found = set().union(*map(self.holding.__getitem__, self.holding.keys() & runs))
        if '"' in plain or "`" in plain or "'" in plain:
            quoted = find_quoted(plain)
            found.update(quoted if wanted is None else wanted.intersection(quoted))
        return found


def _get_text(block: Block) -> str:
    """The text of a block that may hold identifiers; of a call its arguments, without those that are numbers alone."""
    if block.kind != "tool_use" or not isinstance(block.raw, Mapping):
        return block.text
    values = _iter_strings(block.raw.get("input"), names=False)
    return "\n".join(value for value in values if not _PLAIN_NUMBER.fullmatch(value))


def _iter_strings(value: JSON, *, names: bool = True) -> Iterator[str]:
    """Iterate over all values of a JSON value as strings, with the names of its fields. Media and signatures are no text."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, Mapping):
            if each.get("type") == "base64":
                continue
            if names:
                yield from map(str, each)
            stack += (inner for key, inner in each.items() if key != "signature")
        elif isinstance(each, list):
            stack += each
        elif each is not None:
            yield str(each)


def find_references(session: Session) -> References:
    """Find the references of a session's answers, once for all policies.

    What only a tool's own summary says is derived, so it is no reference.
    """
    known, answered = dict[int, set[str]](), _IdentifierReader()
    for request in session.requests:
        known |= _read_answer(session, request, answered)
    answers = [_find_answer_words(session, request, known) for request in session.requests]
    wanted = {word for has in answers for word in has}
    places: dict[str, list[int]] = {word: [] for word in wanted}
    first: dict[str, int] = {}
    reader = _IdentifierReader(wanted)
    for block in session.blocks:
        here = wanted & known[block.at] if block.at in known else reader.find(block)
        for word in here:
            places[word].append(block.at)
        if _is_source(session, block):
            first.update(dict.fromkeys(here.difference(first), block.at))
    uses = tuple(
        {word: at for word, at in has.items() if first.get(word, request.cut) < request.cut}
        for request, has in zip(session.requests, answers, strict=True)
    )
    search = StringSearch(dict.fromkeys(chain.from_iterable(uses)))
    return References(places, uses, search, _find_held(search, session.blocks))


def _find_held(search: StringSearch, blocks: Iterable[Block]) -> dict[int, Numbers]:
    """The numbers of the strings that blocks hold, by address."""
    found = ((block.at, search.find(block.raw)) for block in blocks)
    return {at: _to_numbers(numbers) for at, numbers in found}


def _read_answer(session: Session, request: Request, reader: _IdentifierReader) -> dict[int, set[str]]:
    """The identifiers of each block of an answer, by address."""
    blocks = select_model_output(session.blocks[request.cut : request.stop])
    return {block.at: reader.find(block) for block in blocks}


def _find_answer_words(session: Session, request: Request, known: Mapping[int, set[str]]) -> dict[str, int]:
    """The identifiers of an answer, each with the first block that has it. `known`: those of each block."""
    has: dict[str, int] = {}
    for block in select_model_output(session.blocks[request.cut : request.stop]):
        for word in sorted(known[block.at]):  # a set has another order in each process
            has.setdefault(word, block.at)
    return has


def _is_source(session: Session, block: Block) -> bool:
    """Whether a block can be what an answer refers to: a summary is derived."""
    return session.messages[block.message].origin != "summary" and block.kind != "summary"


def find_losses(trace: Trace, used: References) -> Losses:
    """Find the lost references of a replay.

    Args:
        trace: the replay.
        used: the references of its session.
    """
    reader = LossReader(trace.session, used)
    for plan, come, gone in iter_changes(trace.plans, len(trace.session.blocks)):
        reader.read(plan, come, gone)
    return reader.build_losses(trace)


def find_losses_of(trace: Trace, requests: range, blocks: Collection[int]) -> list[LostReference]:
    """Find those lost references of a replay that some requests make to some blocks, without reading the rest of the session.

    Args:
        trace: the replay.
        requests: the requests, which follow each other.
        blocks: addresses of the blocks.
    """
    if not requests or not blocks:
        return []
    session, plans = trace.session, [trace.plans[n] for n in requests]
    shown = np.zeros(len(session.blocks), dtype=bool)
    for _, come, _ in iter_changes(plans, len(shown)):
        shown[come] = True
    picked = [session.requests[n] for n in requests]
    reader = LossReader(session, _find_references_to(session, picked, blocks, shown))
    for plan, come, gone in iter_changes(plans, len(shown)):
        reader.read(plan, come, gone)
    return reader.hits


def _find_references_to(
    session: Session, picked: Sequence[Request], blocks: Collection[int], shown: npt.NDArray[np.bool_]
) -> References:
    """The references of some answers of which the last earlier place is one of `blocks`.

    `shown`: by block, whether any of their requests has it.
    """
    start = min(blocks)
    read = [block for block in session.blocks[: picked[-1].cut] if block.at >= start or shown[block.at]]
    answered = _IdentifierReader()
    answers = [_find_answer_words(session, request, _read_answer(session, request, answered)) for request in picked]
    wanted = {word for has in answers for word in has}
    reader = _IdentifierReader(wanted)
    places: dict[str, list[int]] = {word: [] for word in wanted}
    first: dict[str, int] = {}
    for block in read:
        here = reader.find(block)
        for word in here:
            places[word].append(block.at)
        if _is_source(session, block):
            first.update(dict.fromkeys(here.difference(first), block.at))
    uses = [
        {word: at for word, at in has.items() if _find_last(places[word], request.cut) in blocks}
        for request, has in zip(picked, answers, strict=True)
    ]
    pairs = [*zip(picked, uses, strict=True)]
    derived = {word for request, has in pairs for word in has if first.get(word, request.cut) >= request.cut}
    first |= dict.fromkeys(_find_in_sources(session, derived, start), -1)
    held = [{word: at for word, at in has.items() if first.get(word, request.cut) < request.cut} for request, has in pairs]
    search = StringSearch(dict.fromkeys(chain.from_iterable(held)))
    return References(places, tuple(held), search, _find_held(search, (block for block in session.blocks if shown[block.at])))


def _find_last(places: Sequence[int], cut: int) -> int:
    """The last place before a cut; -1 where there is none."""
    return places[found - 1] if (found := bisect_left(places, cut)) else -1


def _find_in_sources(session: Session, words: set[str], stop: int) -> set[str]:
    """Those of some identifiers that a block before `stop` holds which is no summary."""
    reader, found = _IdentifierReader({*words}), set[str]()
    for block in reversed(session.blocks[:stop]):
        if len(found) == len(words):
            break
        if _is_source(session, block):
            found |= reader.find(block)
    return found


class LossReader:
    """Finds the lost references of requests, which it is given in order.

    Attributes:
        hits: those that were found.

    Args:
        session: the session.
        used: the references of the answers to these requests.
    """

    def __init__(self, session: Session, used: References) -> None:
        self.hits: list[LostReference] = []
        self._used, self._pairs = used, iter(zip(used.uses, used.numbers, strict=True))
        self._carriers = np.zeros(len(used.reused), np.int32)  # how many blocks that hold each word the request has verbatim
        self._placeholders = _Placeholders(session, used.held, used.search)

    def read(self, plan: Plan, come: Sequence[int], gone: Sequence[int]) -> None:
        """Find those of the next request.

        Args:
            plan: its plan.
            come: blocks that it has verbatim and the request before it has not.
            gone: the other way round.
        """
        words, numbers = next(self._pairs, ({}, _NO_NUMBERS))
        if not self._used.reused:
            return
        for blocks, change in ((come, _MORE), (gone, _LESS)):
            if blocks:
                np.add.at(self._carriers, np.concatenate([self._used.held[at] for at in blocks]), change)
        missing = numbers[self._carriers[numbers] == 0]
        if not len(missing):
            return
        lost = missing[self._placeholders.count_carriers(plan.seen)[missing] == 0].tolist()
        n, cut, makers = plan.request.n, plan.request.cut, dict[int, int]()
        for word in map(self._used.reused.__getitem__, lost):
            block = _find_last(self._used.places[word], cut)
            if block not in makers:
                makers[block] = plan.after.find_piece(block).by
            self.hits.append(LostReference(n, word, words[word], block, makers[block]))

    def build_losses(self, trace: Trace) -> Losses:
        """What a whole replay lost.

        Args:
            trace: the replay whose requests were read.
        """
        made: dict[int, tuple[int, int]] = {}
        for number in {hit.by for hit in self.hits if hit.by >= 0}:
            request = trace.find_deciding_request(number)
            made[number] = request, number - trace.outlines[request].first + 1
        uses = tuple(len(words) for words in self._used.uses[: len(trace.plans)])
        return Losses(tuple(self.hits), uses, made)


def iter_changes(plans: Iterable[Plan], blocks: int) -> Iterator[tuple[Plan, list[int], list[int]]]:
    """Yield each plan with the blocks that its request has verbatim and the one before it has not, and the other way round.

    Args:
        plans: plans of requests, in order.
        blocks: how many blocks the session has.
    """
    shown = ShownBlocks(blocks)
    for plan in plans:
        yield plan, *shown.move(plan.seen)


class ShownBlocks:
    """Which blocks a request has verbatim, and what becomes of them from each request to the next.

    Args:
        blocks: how many blocks the session has.
    """

    def __init__(self, blocks: int) -> None:
        self._shown, self._envelope = np.zeros(blocks, dtype=bool), Envelope()

    def move(self, envelope: Envelope) -> tuple[list[int], list[int]]:
        """Go on to the next request; return the blocks that it has verbatim and the one before it has not, and the others.

        Args:
            envelope: what the model sees of it.
        """
        before, self._envelope = self._envelope, envelope
        spans = find_changed_spans(before, envelope)
        if not spans:
            return [], []
        if len(spans) == 1 and spans[0].start == before.stop and envelope.find_piece(before.stop).stop == envelope.stop:
            return self._grow(spans[0])
        start, stop = min(span.start for span in spans), max(span.stop for span in spans)
        shown, was = self._shown, self._shown[start:stop].copy()
        for span in spans:
            for piece in envelope.iter_pieces(span):
                shown[max(piece.start, span.start) : min(piece.stop, span.stop)] = piece.body is None
        changed = np.flatnonzero(shown[start:stop] != was) + start
        come = shown[changed]
        return changed[come].tolist(), changed[~come].tolist()

    def _grow(self, span: Span) -> tuple[list[int], list[int]]:
        """Go on to a request with new blocks alone, in one piece."""
        if self._envelope.find_piece(span.start).body is not None:
            return [], []
        self._shown[span.start : span.stop] = True
        return [*range(*span)], []


@dataclass(slots=True)
class _Placeholders:
    """The strings in placeholders. Requests share chunks and pieces: only what a request does not share is read."""

    session: Session
    held: Mapping[int, Numbers]
    search: StringSearch
    chunks: dict[int, Chunk] = field(default_factory=dict)  # of the last envelope, by id
    carriers: Numbers = field(init=False)  # in how many of its parts each string stands
    parts: dict[object, tuple[Part, Numbers]] = field(default_factory=dict)  # by text or block, else by id

    def __post_init__(self) -> None:
        self.carriers = np.zeros(len(self.search.strings), np.int32)

    def count_carriers(self, envelope: Envelope) -> Numbers:
        """In how many parts of the placeholders of an envelope each string stands."""
        before, self.chunks = self.chunks, {id(chunk): chunk for chunk in envelope.chunks}
        gone = _collect_placeholders(before[number] for number in before.keys() - self.chunks.keys())
        come = _collect_placeholders(self.chunks[number] for number in self.chunks.keys() - before.keys())
        for pieces, others, change in ((come, gone, _MORE), (gone, come, _LESS)):
            bodies = (pieces[number].body or () for number in pieces.keys() - others.keys())
            if found := [self._read_part(part) for body in bodies for part in body]:
                np.add.at(self.carriers, np.concatenate(found), change)
        return self.carriers

    def _read_part(self, part: Part) -> Numbers:
        """The strings in a part's text. A part that refers to a block has the block's."""
        structured = part.raw is not None and part.ref is None
        key = part.ref if part.ref is not None else (id(part),) if structured else part.text
        if key not in self.parts:
            self.parts[key] = part, self._find_strings(part, structured=structured)
        return self.parts[key][1]

    def _find_strings(self, part: Part, *, structured: bool) -> Numbers:
        if part.ref is None:
            return _to_numbers(self.search.find(part.raw if structured else part.text))
        known = self.held.get(part.ref)
        return _to_numbers(self.search.find(self.session.blocks[part.ref].raw)) if known is None else known


def _collect_placeholders(chunks: Iterable[Chunk]) -> dict[int, Piece]:
    """The placeholders in some chunks, by id."""
    return {id(piece): piece for chunk in chunks for piece in chunk.pieces if piece.body}


def _to_numbers(found: Collection[int]) -> Numbers:
    return np.fromiter(found, np.int32, len(found))


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
