"""What the provider would reject of every request of a trace: one function, one value per request.

It is what `lint.lint` finds in the body of each plan, read on what changed against the request before alone: messages that
stand as they stood are neither made nor looked at again. Thinking that is bound to its prefix is left to `lint` itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from engine.envelope.difference import altered
from engine.envelope.envelope import Envelope
from engine.envelope.plan import Plan
from engine.planning.calls import Calls, blocks
from engine.planning.lint import Problem, alone, ends, head, marked
from engine.planning.render import AMID, Rendered, body, stretch
from engine.planning.trace import Trace
from engine.pricing.prices import Prices
from engine.session.model import JSON, Session, Span

Wrong = tuple[tuple[str, str], ...]  # the rest of a path behind the message's number, and what is wrong


@dataclass(slots=True, eq=False)
class _Entry:
    """One message as sent. `start`: the address where it begins; `clean`: nothing of another message stands there before it.

    `tools`, `system`: what stands in its stretch and goes to the head of the body; `lead`: some of it before the message.
    `calls`, `results`: the ids in it. `wrong`: by itself; `pairs`: in its calls and results.
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
    pairs: Wrong = ()
    gone: bool = False


class _Known(set[str]):
    """Ids of calls: those that were read, and those of entries that begin before an address."""

    def __init__(self, calls: Mapping[str, list[_Entry]], start: int) -> None:
        super().__init__()
        self.calls, self.start = calls, start

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or any(entry.start < self.start for entry in self.calls.get(str(name), ()))


@dataclass(slots=True)
class Looking:
    """One conversation's last request, message by message, and what is wrong with it. For requests in their order."""

    session: Session
    envelope: Envelope = field(default_factory=Envelope)
    entries: list[_Entry] = field(default_factory=list)
    calls: dict[str, list[_Entry]] = field(default_factory=dict)
    results: dict[str, list[_Entry]] = field(default_factory=dict)
    wrong: dict[int, _Entry] = field(default_factory=dict)
    front: tuple[int, tuple[JSON, ...], tuple[JSON, ...]] = (0, (), ())  # up to an address: what stands there of the head
    tools: tuple[JSON, ...] = ()
    system: tuple[JSON, ...] = ()
    marks: int = 0
    _head: tuple[Any, tuple[Problem, ...]] = ((), ())
    _found: tuple[Problem, ...] = ()

    def look(self, plan: Plan, prices: Prices) -> tuple[Problem, ...]:
        """What the provider would reject of the body that a plan is sent with, in the order of that body; see `lint.lint`."""
        self._move(plan.after)
        if not self.entries:
            return (Problem("messages", "at least one message is required"),)
        found = [*self._heading(plan, prices), *self._ends(plan, prices)]
        rows = sorted((self._place(entry), entry.wrong, entry.pairs) for entry in self.wrong.values())
        found += (Problem(f"messages.{n}{path}", what) for n, wrong, _ in rows for path, what in wrong)
        found += (Problem(f"messages.{n}{path}", what) for n, _, pairs in rows for path, what in pairs)
        if (*found,) != self._found:
            self._found = (*found,)
        return self._found

    def _heading(self, plan: Plan, prices: Prices) -> tuple[Problem, ...]:
        """Of settings, tools, system prompt and cache marks: they rarely change, and few logs hold marks in messages."""
        made_of = (plan.model, plan.budget.max_output, id(plan.request.settings), id(self.tools), id(self.system))
        if self._head[0] != made_of or self.marks:
            messages = (*(entry.message for entry in self.entries),) if self.marks else ()
            sent = body(plan, self.session, made_of=Rendered(self.session, (), self.tools, self.system, messages, ()))
            self._head = made_of, (*head(sent, plan.model, prices),)
        return self._head[1]

    def _ends(self, plan: Plan, prices: Prices) -> Iterator[Problem]:
        messages = (entry.message for entry in self.entries)
        return ends(messages, self.entries[-1].message, len(self.entries), plan.model, prices)

    def _place(self, entry: _Entry) -> int:
        place = bisect_left(self.entries, entry.start, key=_START)
        while self.entries[place] is not entry:
            place += 1
        return place

    def _move(self, envelope: Envelope) -> None:
        """Make the messages that an envelope changes anew, and look at them and at what their calls and results touch."""
        spans, self.envelope = altered(self.envelope, envelope), envelope
        doubtful = [entry for span in reversed([*self._ranges(spans)]) for entry in self._replace(*span)]
        done: set[int] = set()
        for entry in doubtful:
            if not entry.gone and id(entry) not in done:
                done.update(self._pair(self._place(entry)))

    def _ranges(self, spans: Iterable[Span]) -> Iterator[tuple[int, int, int]]:
        """The entries that changed spans may have changed, as ranges that do not touch, each with where its changes begin."""
        held: tuple[int, int, int] | None = None
        for start, stop in spans:
            first = max(bisect_left(self.entries, start, key=_START) - 1, 0)
            while first and not self.entries[first].clean:
                first -= 1
            last = self._clean(max(bisect_left(self.entries, max(stop, start + 1), key=_START), first + 1))
            if held and first <= held[1]:
                held = held[0], max(held[1], last), held[2]
                continue
            if held:
                yield held
            held = first, last, start
        if held:
            yield held

    def _clean(self, number: int) -> int:
        """The first entry from there on that begins where nothing of another one stands."""
        while number < len(self.entries) and not self.entries[number].clean:
            number += 1
        return min(number, len(self.entries))

    def _replace(self, first: int, stop: int, change: int) -> list[_Entry]:
        """Make the entries `[first, stop)` anew, and more where they now join what follows; gives those to be looked at."""
        start = self.entries[first].start if first else self._begin(change)
        made = self._made(start, stop)
        while stop < len(self.entries) and (not made.messages or _role(made.messages[-1]) == _role(self.entries[stop].message)):
            stop = self._clean(stop + 1)
            made = self._made(start, stop)
        old, new = self.entries[first:stop], [*_entries(made)]
        self.entries[first:stop] = new
        fronts = not start and self._front(made, new)
        for entry in old:
            entry.gone = True
            self.wrong.pop(id(entry), None)
        for entry in (*old, *new):
            self.marks += entry.marked * (-1 if entry.gone else 1)
            for names, held in ((entry.calls, self.calls), (entry.results, self.results)):
                for name in names:
                    held.setdefault(name, []).append(entry)
                    held[name] = [known for known in held[name] if not known.gone]
        if fronts or any(entry.tools or entry.system for entry in (*old, *new)):
            tools = (*self.front[1], *(raw for entry in self.entries for raw in entry.tools))
            system = (*self.front[2], *(raw for entry in self.entries for raw in entry.system))
            self.tools = self.tools if tools == self.tools else tools
            self.system = self.system if system == self.system else system
        known = {name for entry in (*old, *new) for name in (*entry.calls, *entry.results)}
        touched = [entry for name in known for held in (self.calls, self.results) for entry in held.get(name, ())]
        return [*new, *self.entries[first + len(new) :][:1], *touched]

    def _begin(self, change: int) -> int:
        """An address at or before a change before which no message begins, and all that goes to the head is known."""
        if not self.entries or change < self.front[0]:
            return 0
        return self.front[0] if self.entries[0].lead else min(change, self.entries[0].start)

    def _front(self, made: Rendered, new: list[_Entry]) -> bool:
        """Take what stands before the first message of a whole rendering from the entry that has it."""
        if not new:
            self.front = (0, made.tools, made.system)
            return True
        entry, (_, _, tools, system) = new[0], made.points[0]
        self.front = (entry.start, made.tools[:tools], made.system[:system])
        entry.tools, entry.system, entry.lead = entry.tools[tools:], entry.system[system:], False
        return True

    def _made(self, start: int, stop: int) -> Rendered:
        end = self.entries[stop].start if stop < len(self.entries) else self.envelope.stop
        return stretch(self.envelope, self.session, Span(start, end))

    def _pair(self, place: int) -> Iterable[int]:
        """Look at the calls of a run of answers and the results in the user's messages behind it; gives what was looked at."""
        entries, start, stop = self.entries, place, place + 1
        while start and not self._parts(start):
            start -= 1
        while stop < len(entries) and not self._parts(stop):
            stop += 1
        pairs: dict[int, list[tuple[str, str]]] = {}
        if any(entry.calls or entry.results for entry in entries[start:stop]):
            calls = Calls(_Known(self.calls, entries[start].start), {}, "user" if start else "")
            read = (wrong for number in range(start, stop) for wrong in calls.read(number, entries[number].message))
            for path, what in chain(read, calls.unanswered()):
                _, number, rest = path.split(".", 2)
                pairs.setdefault(int(number), []).append((f".{rest}", what))
        for n in range(start, stop):
            entry = entries[n]
            entry.pairs = tuple(pairs.get(n, ()))
            if entry.wrong or entry.pairs:
                self.wrong[id(entry)] = entry
            else:
                self.wrong.pop(id(entry), None)
        return map(id, entries[start:stop])

    def _parts(self, number: int) -> bool:
        """Whether an entry is the first answer behind a user's message: what was called before it waits no longer."""
        if _role(self.entries[number].message) != "assistant":
            return False
        before = (_role(self.entries[n].message) for n in range(number - 1, -1, -1))
        return next((role for role in before if role in ("user", "assistant")), "") == "user"


def rejections(trace: Trace) -> tuple[tuple[Problem, ...], ...]:
    """For each request of a trace what the provider would reject of it; empty where nothing is."""
    looking = Looking(trace.session)
    return tuple(looking.look(plan, trace.prices) for plan in trace.plans)


def _entries(made: Rendered) -> Iterator[_Entry]:
    points = made.points
    for number, (message, point) in enumerate(zip(made.messages, points, strict=True)):
        begins = (point.tools, point.system) if number else (0, 0)
        ends = (points[number + 1].tools, points[number + 1].system) if number + 1 < len(points) else (None, None)
        static = (made.tools[begins[0] : ends[0]], made.system[begins[1] : ends[1]])
        kinds = [(str(block.get("type")), block) for block in blocks(message)]
        calls = frozenset(str(block.get("id")) for kind, block in kinds if kind.endswith("tool_use"))
        results = frozenset(str(block.get("tool_use_id")) for kind, block in kinds if kind.endswith("tool_result"))
        clean = point.block != AMID
        start = point.block if clean else made.pieces[point.piece].start
        lead = not number and bool(point.tools or point.system)
        yield _Entry(start, clean, message, *static, lead, calls, results, marked(message), tuple(alone(message)))


def _role(message: Any) -> Any:
    return message["role"]


_START = attrgetter("start")
