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
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from turnscope.envelope.difference import find_changed_spans
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.identifiers import RUN, find_identifiers, find_quoted, remove_escapes, split_run
from turnscope.envelope.plan import Plan
from turnscope.planning.trace import BlockStatus, Trace
from turnscope.session.model import JSON, Block, Part, Request, Session, Span, select_model_output

GRAM = 4  # bytes of a word by which the words that it is a part of are found
FEW_TEXTS = 32  # texts that are read faster than chosen
RAREST = 3  # words of a string by which texts are chosen; more cost more than they rule out
_PLAIN_NUMBER = re.compile(r"\s*[-+]?[\d.,_]+\s*")
_LINE = b"\n"
# Of UTF-8 every byte beyond ASCII is part of a word.
_BETWEEN_WORDS = bytes(n if n >= 128 or chr(n).isalnum() or chr(n) == "_" else 32 for n in range(256))
_BETWEEN_RUNS = bytes(n if n >= 128 or chr(n).isalnum() or chr(n) in "_.@+~/-(" else 32 for n in range(256))  # of `_RUN`


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


@dataclass(slots=True)
class TextIndex:
    """Texts as they are sent, by the words in them, so that those which may hold a string are found without reading all.

    Attributes:
        texts: the texts, by number.
        numbers: of the texts that have each word, in UTF-8.
    """

    texts: list[str] = field(default_factory=list)
    numbers: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _lines: dict[bytes, list[bytes]] = field(default_factory=dict)  # words between line ends, by each run of `GRAM` bytes
    _short: dict[bytes, list[bytes]] = field(default_factory=dict)  # words that a part of fewer bytes is in
    _selected: dict[str, Sequence[int]] = field(default_factory=dict)

    def add(self, raw: JSON) -> int:
        """Add what one block or part sends; returns its number."""
        text, number = "\n".join(_iter_strings(raw)), len(self.texts)
        if (plain := remove_escapes(text)) != text:
            text += f"\n{plain}"  # identifiers are taken from texts without escapes
        self.texts.append(text)
        lists = map(self.numbers.__getitem__, {*_encode_words(text).split()})
        deque(map(list.append, lists, repeat(number)), maxlen=0)  # a loop without a step in Python: half the time
        self._lines.clear()
        self._short.clear()
        self._selected.clear()
        return number

    def select(self, string: str) -> Sequence[int]:
        """The numbers of all texts that hold a string, also inside a longer word, and of some that do not; in order."""
        found = self._selected.get(string)
        if found is None:
            found = self._selected[string] = self._select(string)
        return found

    def _select(self, string: str) -> Sequence[int]:
        """The texts with the words inside a string; where it has none, with words that go on from those at its two ends."""
        first, *inside = _split_words(string)
        last = inside.pop() if inside else None
        exact: list[Sequence[int]] = [self.numbers.get(word, []) for word in inside if word]
        found: list[Iterable[int]] = [*sorted(exact, key=len)[:RAREST]]
        if not found:
            ends = (first,) if last is None else (first and first + _LINE, last and _LINE + last)
            longest = sorted(filter(None, ends), key=len, reverse=True)
            parts = [part for part in longest if len(part) >= GRAM] or longest[:1]
            found = [chain.from_iterable(map(self.numbers.__getitem__, self._iter_containing(part))) for part in parts]
        if not found:
            return range(len(self.texts))
        chosen = set(found[0])
        for other in found[1:]:
            if len(chosen) <= FEW_TEXTS:
                break
            chosen.intersection_update(other)
        return sorted(chosen)

    def _iter_containing(self, part: bytes) -> Iterable[bytes]:
        """The words that a part of a word is in; with a line end before or after it, those that begin or end with it."""
        if len(part) < GRAM:
            if part not in self._short:
                self._short[part] = [word for word in self.numbers if part in _LINE + word + _LINE]
            return self._short[part]
        if not self._lines:  # built when it is first needed
            for line in (_LINE + word + _LINE for word in self.numbers):
                for run in _iter_runs(line):
                    self._lines.setdefault(run, []).append(line)
        lines = min((self._lines.get(run, []) for run in _iter_runs(part)), key=len)
        return (line[1:-1] for line in lines if part in line)


@dataclass(frozen=True, slots=True)
class References:
    """The references of a session's answers.

    Attributes:
        places: blocks of which each is an identifier, in order.
        uses: by request, the identifiers that its answer reuses, each with the first block of the answer that has it.
        texts: the texts of all blocks, by address.
    """

    places: Mapping[str, Sequence[int]]
    uses: tuple[Mapping[str, int], ...]
    texts: TextIndex = field(default_factory=TextIndex)


def _iter_runs(line: bytes) -> Iterable[bytes]:
    return {line[at : at + GRAM] for at in range(len(line) - GRAM + 1)}


def _split_words(text: str) -> list[bytes]:
    """The words of a text in UTF-8; b"" between two characters that are in none."""
    return _encode_words(text).split(b" ")


def _encode_words(text: str) -> bytes:
    """A text in UTF-8 with a space for each character that is in no word."""
    return text.encode("utf-8", "surrogatepass").translate(_BETWEEN_WORDS)


@dataclass(slots=True)
class _WantedIdentifiers:
    """Finds those identifiers of texts that are among the `wanted`: what `find_identifiers` finds of them, faster."""

    wanted: set[str]
    runs: set[bytes] = field(default_factory=set)  # that were read
    holding: dict[bytes, list[str]] = field(default_factory=dict)  # runs with wanted identifiers

    def find(self, block: Block) -> set[str]:
        """The wanted identifiers in a block."""
        if block.kind == "tool_use":
            return self.wanted & _find_block_identifiers(block)
        plain = remove_escapes(block.text)
        encoded = plain.encode("utf-8", "surrogatepass").translate(_BETWEEN_RUNS)
        runs = {*encoded.replace(b"(", b"( ").split()}
        for run in runs - self.runs:
            parts = map(split_run, RUN.findall(run.decode("utf-8", "surrogatepass")))
            if here := [word for word in chain.from_iterable(parts) if word in self.wanted]:
                self.holding[run] = here
        self.runs |= runs
        found = set().union(*map(self.holding.__getitem__, self.holding.keys() & runs))
        found.update(self.wanted.intersection(find_quoted(plain)))
        return found


def _find_block_identifiers(block: Block) -> set[str]:
    """Find the identifiers in a block."""
    return _find_content_identifiers(block.kind, block.raw, block.text)


def _find_content_identifiers(kind: str, raw: JSON, text: str) -> set[str]:
    """Find the identifiers in a text; of a call those in its arguments, not the names of its parameters."""
    if kind != "tool_use" or not isinstance(raw, Mapping):
        return find_identifiers(text)
    values = (value for value in _iter_strings(raw.get("input"), names=False) if not _PLAIN_NUMBER.fullmatch(value))
    return set().union(*map(find_identifiers, values))


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
    known: dict[int, set[str]] = {}
    for request in session.requests:
        known |= _read_answer(session, request)
    answers = [_find_answer_words(session, request, known) for request in session.requests]
    wanted = {word for has in answers for word in has}
    places: dict[str, list[int]] = {word: [] for word in wanted}
    first: dict[str, int] = {}
    texts, reader = TextIndex(), _WantedIdentifiers(wanted)
    for block in session.blocks:
        texts.add(block.raw)
        here = wanted & known[block.at] if block.at in known else reader.find(block)
        for word in here:
            places[word].append(block.at)
        if _is_source(session, block):
            first.update(dict.fromkeys(here.difference(first), block.at))
    uses = tuple(
        {word: at for word, at in has.items() if first.get(word, request.cut) < request.cut}
        for request, has in zip(session.requests, answers, strict=True)
    )
    return References(places, uses, texts)


def _read_answer(session: Session, request: Request) -> dict[int, set[str]]:
    """The identifiers of each block of an answer, by address."""
    blocks = select_model_output(session.blocks[request.cut : request.stop])
    return {block.at: _find_block_identifiers(block) for block in blocks}


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
    hits = _find_hits(trace.session, trace.plans, used)
    made: dict[int, tuple[int, int]] = {}
    for number in {hit.by for hit in hits if hit.by >= 0}:
        request = trace.find_deciding_request(number)
        made[number] = request, number - trace.outlines[request].first + 1
    return Losses(tuple(hits), tuple(len(words) for words in used.uses[: len(trace.plans)]), made)


def find_losses_of(trace: Trace, requests: range, blocks: Collection[int]) -> list[LostReference]:
    """Find those lost references of a replay that some requests make to some blocks, without reading the rest of the session.

    Args:
        trace: the replay.
        requests: the requests, which follow each other.
        blocks: addresses of the blocks.
    """
    if not requests or not blocks:
        return []
    session, plans, texts = trace.session, [trace.plans[n] for n in requests], TextIndex()
    shown, start = np.zeros(len(session.blocks), dtype=bool), min(blocks)
    for _, here in _iter_shown(plans, len(shown)):
        shown |= np.frombuffer(here, dtype=bool)
    for block, stands in zip(session.blocks, shown.tolist(), strict=True):
        texts.add(block.raw if stands else None)
    read = [block for block in session.blocks[: plans[-1].request.cut] if block.at >= start or shown[block.at]]
    picked = [session.requests[n] for n in requests]
    return _find_hits(session, plans, _find_references_to(session, picked, blocks, read, texts))


def _find_references_to(
    session: Session, picked: Sequence[Request], blocks: Collection[int], read: Iterable[Block], texts: TextIndex
) -> References:
    """The references of some answers of which the last earlier place is one of `blocks`.

    `read`: what may hold the last place, or a shown one. `texts`: of all blocks that are shown, by address.
    """
    answers = [_find_answer_words(session, request, _read_answer(session, request)) for request in picked]
    reader = _WantedIdentifiers({word for has in answers for word in has})
    places: dict[str, list[int]] = {word: [] for word in reader.wanted}
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
    first |= dict.fromkeys(_find_in_sources(session, derived, min(blocks)), -1)
    held = ({word: at for word, at in has.items() if first.get(word, request.cut) < request.cut} for request, has in pairs)
    return References(places, tuple(held), texts)


def _find_last(places: Sequence[int], cut: int) -> int:
    """The last place before a cut; -1 where there is none."""
    return places[found - 1] if (found := bisect_left(places, cut)) else -1


def _find_in_sources(session: Session, words: set[str], stop: int) -> set[str]:
    """Those of some identifiers that a block before `stop` holds which is no summary."""
    reader, found = _WantedIdentifiers({*words}), set[str]()
    for block in reversed(session.blocks[:stop]):
        if len(found) == len(words):
            break
        if _is_source(session, block):
            found |= reader.find(block)
    return found


def _find_hits(session: Session, plans: Iterable[Plan], used: References) -> list[LostReference]:
    """The lost references of requests. `used.uses`: of these requests."""
    missing = (
        (plan, [*_find_missing(plan, shown, words, used)])
        for (plan, shown), words in zip(_iter_shown(plans, len(session.blocks)), used.uses, strict=False)
        if words
    )
    placeholders = _Placeholders(session)
    carried = [(placeholders.list_numbers(plan.seen), hits) for plan, hits in missing if hits]
    return [hit for numbers, found in carried for hit in found if not placeholders.has_text(numbers, hit.text)]


def _find_missing(plan: Plan, shown: bytearray, words: Mapping[str, int], used: References) -> Iterator[LostReference]:
    """The identifiers that stand in no block which the request has verbatim (`shown`)."""
    cut, texts = plan.request.cut, used.texts.texts
    for word, answer in words.items():
        places = used.places[word]
        if _find_present(shown, places, last := bisect_left(places, cut) - 1) >= 0:
            continue
        chosen = used.texts.select(word)
        present = _find_present(shown, chosen, bisect_left(chosen, cut) - 1)
        while present >= 0 and word not in texts[chosen[present]]:
            present = _find_present(shown, chosen, present - 1)
        if present < 0:
            block = places[last]
            by = plan.after.find_piece(block).by
            yield LostReference(request=plan.request.n, text=word, answer=answer, block=block, by=by)


def _find_present(shown: bytearray, places: Sequence[int], last: int) -> int:
    """The last of the first `last` + 1 places that is shown, by its number; -1 where none is."""
    while last >= 0 and not shown[at := places[last]]:
        last = bisect_left(places, shown.rfind(1, 0, at) + 1, 0, last) - 1
    return last


def _iter_shown(plans: Iterable[Plan], blocks: int) -> Iterator[tuple[Plan, bytearray]]:
    """Yield each plan with a byte per block: 1 = the request has it verbatim. The bytes change with the next plan."""
    before, shown = Envelope(), bytearray(blocks)
    for plan in plans:
        for span in find_changed_spans(before, plan.seen):
            for piece in plan.seen.iter_pieces(span):
                start, stop = max(piece.start, span.start), min(piece.stop, span.stop)
                shown[start:stop] = (b"\0" if piece.body is not None else b"\1") * (stop - start)
        before = plan.seen
        yield plan, shown


@dataclass(slots=True)
class _Placeholders:
    """The texts of placeholders. Requests share chunks, so each chunk is read once, and so is a text that many parts have."""

    session: Session
    texts: TextIndex = field(default_factory=TextIndex)
    chunks: dict[int, tuple[Chunk, frozenset[int]]] = field(default_factory=dict)
    parts: dict[object, tuple[Part, int]] = field(default_factory=dict)  # by text or block; a structured one by its id

    def list_numbers(self, envelope: Envelope) -> list[frozenset[int]]:
        """The texts in an envelope, by chunk."""
        return [found for chunk in envelope.chunks if (found := self._read_chunk(chunk))]

    def has_text(self, numbers: Sequence[frozenset[int]], string: str) -> bool:
        """Whether one of these texts holds a string."""
        if sum(map(len, numbers)) > FEW_TEXTS:
            chosen = self.texts.select(string)
            numbers = [each.intersection(chosen) for each in numbers]
        return any(string in self.texts.texts[n] for each in numbers for n in each)

    def _read_chunk(self, chunk: Chunk) -> frozenset[int]:
        found = self.chunks.get(id(chunk))
        if found is None:
            parts = (part for piece in chunk.pieces for part in piece.body or ())
            found = self.chunks[id(chunk)] = chunk, frozenset(map(self._read_part, parts))
        return found[1]

    def _read_part(self, part: Part) -> int:
        """The number of a part's text. A part that refers to a block has the block's."""
        structured = part.raw is not None and part.ref is None
        key = part.ref if part.ref is not None else (id(part),) if structured else part.text
        if key not in self.parts:
            raw = self.session.blocks[part.ref].raw if part.ref is not None else part.raw if structured else part.text
            self.parts[key] = part, self.texts.add(raw)
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
