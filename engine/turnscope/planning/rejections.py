"""What the provider would reject of every request of a trace: one function, one value per request.

The result equals `lint.lint` on the body of each plan, but only what changed since the previous request is checked: unchanged
messages are neither rendered nor checked again. Thinking that is bound to its prefix is left to `lint` itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from operator import attrgetter, is_
from typing import Any, NamedTuple

from turnscope.envelope.difference import find_alterations
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.calls import MAPPING, Calls, list_blocks
from turnscope.planning.lint import Problem, check_ends, check_head, check_message, has_cache_mark
from turnscope.planning.render import MID_PROMPT, Rendering, build_body, render_span
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import JSON, Session, Span

Wrong = tuple[tuple[str, str], ...]  # the rest of a path behind the message's number, and what is wrong


class _Row(NamedTuple):
    """One message as sent, wherever it is.

    Attributes:
        start: Address at which it begins.
        clean: No part of another message comes before it at that address.
        message: The message, without its texts (`_strip_texts`).
        tools: Tools in its stretch, which go to the head of the body.
        system: System prompt in its stretch, which goes to the head of the body.
        lead: Some of them come before the message.
        calls: Ids of calls in it.
        results: Ids of results in it.
        marked: It has a cache mark.
        wrong: What is wrong with it by itself.
        verbatim: No decision changed its blocks, so that other replays have it as well.
    """

    start: int
    clean: bool
    message: Any
    tools: tuple[JSON, ...]
    system: tuple[JSON, ...]
    lead: bool
    calls: frozenset[str]
    results: frozenset[str]
    marked: bool
    wrong: Wrong
    verbatim: bool


@dataclass(slots=True, eq=False)
class _Entry:
    """A message at its place. `tools`, `system`: of its row, except what the head takes; `pairs`: problems of pairs."""

    row: _Row
    tools: tuple[JSON, ...]
    system: tuple[JSON, ...]
    lead: bool
    pairs: Wrong = ()
    gone: bool = False


class _Messages(NamedTuple):
    """Messages, and their tools and system prompt; the first `front` of either come before the first message."""

    rows: tuple[_Row, ...]
    tools: tuple[JSON, ...] = ()
    system: tuple[JSON, ...] = ()
    front: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class SharedChecks:
    """What replays of one session share: messages by their verbatim blocks, problems of pairs by run of such messages."""

    made: dict[tuple[Span, ...], _Messages] = field(default_factory=dict)
    pairs: dict[tuple[bool, frozenset[str], tuple[int, ...]], tuple[list[_Row], tuple[Wrong, ...]]] = field(
        default_factory=dict
    )


@dataclass(slots=True)
class RequestChecker:
    """The last request of one conversation, message by message, and its problems. Requests must come in their order."""

    session: Session
    shared: SharedChecks = field(default_factory=SharedChecks)
    envelope: Envelope = field(default_factory=Envelope)
    entries: list[_Entry] = field(default_factory=list)
    calls: dict[str, list[_Entry]] = field(default_factory=dict)
    results: dict[str, list[_Entry]] = field(default_factory=dict)
    wrong: dict[int, _Entry] = field(default_factory=dict)
    front: tuple[int, tuple[JSON, ...], tuple[JSON, ...]] = (0, (), ())  # up to an address: its part of the head
    tools: tuple[JSON, ...] = ()
    system: tuple[JSON, ...] = ()
    marks: int = 0
    _head: tuple[Any, tuple[Problem, ...]] = ((), ())
    _found: tuple[Problem, ...] = ()

    def check(self, plan: Plan, prices: Prices) -> tuple[Problem, ...]:
        """Return what the provider would reject of the body of a plan, in the order of the body; see `lint.lint`.

        Args:
            plan: The plan.
            prices: Facts of models.
        """
        self._move(plan.after)
        if not self.entries:
            return (Problem("messages", "at least one message is required"),)
        found = [*self._check_head(plan, prices), *self._check_ends(plan, prices)]
        rows = sorted((self._find_place(entry), entry.row.wrong, entry.pairs) for entry in self.wrong.values())
        found += (Problem(f"messages.{n}{path}", what) for n, wrong, _ in rows for path, what in wrong)
        found += (Problem(f"messages.{n}{path}", what) for n, _, pairs in rows for path, what in pairs)
        if (*found,) != self._found:
            self._found = (*found,)
        return self._found

    def _check_head(self, plan: Plan, prices: Prices) -> tuple[Problem, ...]:
        """Problems of settings, tools, system prompt and cache marks. They rarely change; few logs have marks in messages."""
        made_of = (plan.model, plan.budget.max_output, plan.request.settings, self.tools, self.system)
        known = self._head[0]
        same = known[:3] == made_of[:3] and all(map(is_, known[3:], made_of[3:]))
        if not same or self.marks:
            messages = (*(entry.row.message for entry in self.entries),) if self.marks else ()
            sent = build_body(
                plan,
                self.session,
                rendering=Rendering(self.session, (), tools=self.tools, system=self.system, messages=messages, points=()),
            )
            self._head = made_of, (*check_head(sent, plan.model, prices),)
        return self._head[1]

    def _check_ends(self, plan: Plan, prices: Prices) -> Iterator[Problem]:
        messages = (entry.row.message for entry in self.entries)
        return check_ends(messages, self.entries[-1].row.message, len(self.entries), model=plan.model, prices=prices)

    def _find_place(self, entry: _Entry) -> int:
        place = bisect_left(self.entries, entry.row.start, key=_START)
        while self.entries[place] is not entry:
            place += 1
        return place

    def _move(self, envelope: Envelope) -> None:
        """Render and check the messages that an envelope changes, and those whose calls and results they affect."""
        spans, self.envelope = find_alterations(self.envelope, envelope), envelope
        doubtful = [entry for span in reversed([*self._find_ranges(spans)]) for entry in self._replace(*span)]
        done: set[int] = set()
        for entry in doubtful:
            if not entry.gone and id(entry) not in done:
                done.update(self._check_run(self._find_place(entry)))

    def _find_ranges(self, spans: Iterable[Span]) -> Iterator[tuple[int, int, int]]:
        """Entries that changed spans may affect, as ranges that do not touch, each with the address of its first change."""
        run: tuple[int, int, int] | None = None
        for start, stop in spans:
            first = max(bisect_left(self.entries, start, key=_START) - 1, 0)
            while first and not self.entries[first].row.clean:
                first -= 1
            last = self._find_clean(max(bisect_left(self.entries, max(stop, start + 1), key=_START), first + 1))
            if run and first <= run[1]:
                run = run[0], max(run[1], last), run[2]
                continue
            if run:
                yield run
            run = first, last, start
        if run:
            yield run

    def _find_clean(self, number: int) -> int:
        """The first entry from there on that begins at an address without a part of another message."""
        while number < len(self.entries) and not self.entries[number].row.clean:
            number += 1
        return min(number, len(self.entries))

    def _replace(self, first: int, stop: int, change: int) -> list[_Entry]:
        """Render the entries `[first, stop)` again, and more where they join what follows; return the entries to check."""
        start = self.entries[first].row.start if first else self._find_begin(change)
        made = self._render_messages(start, stop)
        while stop < len(self.entries) and (not made.rows or _get_role(made.rows[-1]) == _get_role(self.entries[stop].row)):
            stop = self._find_clean(stop + 1)
            made = self._render_messages(start, stop)
        same = sum(1 for _ in takewhile(_is_same, zip(self.entries[first:stop], made.rows, strict=False))) if start else 0
        first += same  # only what follows them changed
        old, new = self.entries[first:stop], [_Entry(row, row.tools, row.system, row.lead) for row in made.rows[same:]]
        self.entries[first:stop] = new
        fronts = not start and self._take_front(made, new)
        for entry in old:
            entry.gone = True
            self.wrong.pop(id(entry), None)
        for entry in (*old, *new):
            self.marks += entry.row.marked * (-1 if entry.gone else 1)
            for names, table in ((entry.row.calls, self.calls), (entry.row.results, self.results)):
                for name in names:
                    table.setdefault(name, []).append(entry)
                    if old:
                        table[name] = [known for known in table[name] if not known.gone]
        if fronts or any(entry.tools or entry.system for entry in (*old, *new)):
            tools = (*self.front[1], *(raw for entry in self.entries for raw in entry.tools))
            system = (*self.front[2], *(raw for entry in self.entries for raw in entry.system))
            self.tools = self.tools if tools == self.tools else tools
            self.system = self.system if system == self.system else system
        known = {name for entry in (*old, *new) for name in (*entry.row.calls, *entry.row.results)}
        touched = [entry for name in known for table in (self.calls, self.results) for entry in table.get(name, ())]
        before = self.entries[first - 1 : first] if same and old else []
        return [*before, *new, *self.entries[first + len(new) :][:1], *touched]

    def _find_begin(self, change: int) -> int:
        """An address at or before a change, before which no message begins and the head is known."""
        if not self.entries or change < self.front[0]:
            return 0
        return self.front[0] if self.entries[0].lead else min(change, self.entries[0].row.start)

    def _take_front(self, made: _Messages, new: list[_Entry]) -> bool:
        """Take what comes before the first message of a whole rendering from its entry."""
        if not new:
            self.front = (0, made.tools, made.system)
            return True
        entry, (tools, system) = new[0], made.front
        self.front = (entry.row.start, made.tools[:tools], made.system[:system])
        entry.tools, entry.system, entry.lead = entry.tools[tools:], entry.system[system:], False
        return True

    def _render_messages(self, start: int, stop: int) -> _Messages:
        """The messages of the blocks from `start` to entry `stop`; blocks rendered before are taken from the cache."""
        span = Span(start, self.entries[stop].row.start if stop < len(self.entries) else self.envelope.stop)
        stand: list[Span] = []
        for piece in self.envelope.iter_pieces_and_inserts(span):
            if piece.body:
                return _split_messages(render_span(self.envelope, self.session, span))
            if piece.body is None:
                stand.append(Span(max(piece.start, span.start), min(piece.stop, span.stop)))
        key = (*stand,)
        if key not in self.shared.made:
            self.shared.made[key] = _split_messages(render_span(self.envelope, self.session, span), verbatim=True)
        return self.shared.made[key]

    def _check_run(self, place: int) -> Iterable[int]:
        """Check the calls of a run of answers, and the results in the user's messages behind it; return what was checked."""
        entries, start, stop = self.entries, place, place + 1
        while start and not self._starts_run(start):
            start -= 1
        while stop < len(entries) and not self._starts_run(stop):
            stop += 1
        run = entries[start:stop]
        for entry, pairs in zip(run, self._check_pairs(run, begins=not start), strict=True):
            entry.pairs = pairs
            if entry.row.wrong or pairs:
                self.wrong[id(entry)] = entry
            else:
                self.wrong.pop(id(entry), None)
        return map(id, run)

    def _check_pairs(self, run: Sequence[_Entry], *, begins: bool) -> tuple[Wrong, ...]:
        """Problems of calls and results of each entry of a run. `begins`: the conversation begins with it."""
        names = [name for entry in run for name in (*entry.row.calls, *entry.row.results)]
        if not names:
            return ((),) * len(run)
        first = run[0].row.start
        known = frozenset(name for name in names for entry in self.calls.get(name, ()) if entry.row.start < first)
        key = (begins, known, tuple(id(entry.row) for entry in run))
        if key in self.shared.pairs:
            return self.shared.pairs[key][1]
        calls = Calls({*known}, {}, "" if begins else "user")
        found: list[list[tuple[str, str]]] = [[] for _ in run]
        for path, what in chain(
            (wrong for n, entry in enumerate(run) for wrong in calls.read(n, entry.row.message)), calls.find_unanswered()
        ):
            _, number, rest = path.split(".", 2)
            found[int(number)].append((f".{rest}", what))
        wrong = (*map(tuple, found),)
        if all(entry.row.verbatim for entry in run):  # ids of objects name the others only as long as their replay has them
            self.shared.pairs[key] = [entry.row for entry in run], wrong
        return wrong

    def _starts_run(self, number: int) -> bool:
        """Whether an entry is the first answer behind a user's message, so that earlier calls no longer wait."""
        if _get_role(self.entries[number].row) != "assistant":
            return False
        if number and (role := _get_role(self.entries[number - 1].row)) in ("user", "assistant"):
            return bool(role == "user")
        before = (_get_role(self.entries[n].row) for n in range(number - 1, -1, -1))
        return next((role for role in before if role in ("user", "assistant")), "") == "user"


def check_trace(trace: Trace, shared: SharedChecks | None = None) -> tuple[tuple[Problem, ...], ...]:
    """Return for each request of a trace what the provider would reject; () where nothing.

    Args:
        trace: The trace.
        shared: Checks of other replays of the same session.
    """
    looking = RequestChecker(trace.session, shared or SharedChecks())
    return tuple(looking.check(plan, trace.prices) for plan in trace.plans)


def _split_messages(made: Rendering, *, verbatim: bool = False) -> _Messages:
    """The messages of a rendering, each checked by itself."""
    rows: list[_Row] = []
    points = made.points
    for number, (message, point) in enumerate(zip(made.messages, points, strict=True)):
        begins = (point.tools, point.system) if number else (0, 0)
        ends = (points[number + 1].tools, points[number + 1].system) if number + 1 < len(points) else (None, None)
        kinds = [(str(block.get("type")), block) for block in list_blocks(message)]
        calls = frozenset(str(block.get("id")) for kind, block in kinds if kind.endswith("tool_use"))
        results = frozenset(str(block.get("tool_use_id")) for kind, block in kinds if kind.endswith("tool_result"))
        marked = has_cache_mark(message)
        clean = point.block != MID_PROMPT
        start = point.block if clean else made.pieces[point.piece].start
        rows.append(
            _Row(
                start=start,
                clean=clean,
                message=message if marked else _strip_texts(message),
                tools=made.tools[begins[0] : ends[0]],
                system=made.system[begins[1] : ends[1]],
                lead=not number and bool(point.tools or point.system),
                calls=calls,
                results=results,
                marked=marked,
                wrong=tuple(check_message(message)),
                verbatim=verbatim,
            )
        )
    return _Messages(tuple(rows), made.tools, made.system, (points[0].tools, points[0].system) if points else (0, 0))


def _strip_texts(message: Any) -> Any:
    """A message with what is read of it beside others: role, kinds, ids, inputs that are objects, and how a plain text ends."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": content.strip()[-1:] + content[-1:]}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_strip_block(block) for block in content if isinstance(block, MAPPING)]}


def _strip_block(block: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: block[name] for name in _PAIRED if name in block}
    return kept | {"input": {}} if isinstance(block.get("input"), MAPPING) else kept


def _is_same(pair: tuple[_Entry, _Row]) -> bool:
    """Whether a message is the same at the same place."""
    entry, row = pair
    was = (entry.row.start, entry.row.clean, entry.lead, entry.row.message, entry.row.wrong, entry.tools, entry.system)
    return was == (row.start, row.clean, row.lead, row.message, row.wrong, row.tools, row.system)


def _get_role(row: _Row) -> Any:
    return row.message["role"]


_START = attrgetter("row.start")
_PAIRED = ("type", "id", "tool_use_id")
