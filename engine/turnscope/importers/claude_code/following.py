"""A session's file read as a whole, and read on where it grew: only new lines are parsed, only what they add is laid out.

Where the main path goes on at its end, that is added to it. Whatever else happened (a rewind, a lost line that came late,
another title), the lines that are known are laid out anew. Both give what reading the whole file gives.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from msgspec import structs

from turnscope.importers.claude_code.agents import Agents, attach_agents, find_agent_files, find_agents
from turnscope.importers.claude_code.exact import attach_exact_requests
from turnscope.importers.claude_code.limits import hand_windows_down
from turnscope.importers.claude_code.lines import Entry, File, feed
from turnscope.importers.claude_code.paths import NAME, Layout, add_notes, extend_session, lay_out
from turnscope.reading.source import Source
from turnscope.reading.tail import Tail
from turnscope.session.model import Note, Session
from turnscope.session.thread import Thread

GROWN = 4  # the known lines are laid out anew when a quarter as many have been added since


class SessionReading:
    """What was laid out of a file so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.layout: Layout | None = None
        self.laid = 0  # lines that the layout holds
        self.lines = 0  # lines that were looked at
        self.since: list[Entry] = []  # those of the main path that the layout does not hold
        self.heard: tuple[object, ...] = ()  # what the layout depends on besides its lines
        self.agents = Agents()
        self.agents_key: tuple[object, ...] = ()  # the same for the subagents
        self.known: set[str] = set()

    def build_thread(self, file: File, last: tuple[Note, ...] = ()) -> Thread:
        """What the lines say as they are now.

        Args:
            file: The lines, those of the call before among them.
            last: Notes about a last line that is not whole yet.
        """
        apart = any(entry.spoken and not entry.side for entry in file.entries.values())
        stem = self.source.path.stem
        name = stem if stem in file.sessions or not apart else next(reversed(file.sessions), stem)
        session = self._build_main(file, name, apart)
        if session is None:
            return Thread(Session(name, source=NAME))
        self._find_agents(file, apart)
        session = add_notes(session, file, last)
        session = structs.replace(session, notes=(*session.notes, *self.agents.notes))
        session = attach_exact_requests(session, file, self.source)
        return Thread(hand_windows_down(attach_agents(session, self.agents, file.spawned)))

    def _build_main(self, file: File, name: str, apart: bool) -> Session | None:
        """The main path with its branches: gone on with, or laid out anew."""
        heard = (name, apart, file.chain, dict(file.titles), dict(file.about), dict(file.replaced))
        new = [entry for entry in islice(file.entries.values(), self.lines, None) if not (apart and entry.side)]
        self.lines = len(file.entries)
        if self.layout is not None and heard == self.heard:
            self.since += new
            for entry in new:
                self.layout.tree.add(entry)
            leaf = next((entry for entry in reversed(self.since) if entry.spoken), self.layout.main.limb.chain[-1])
            if not any(entry.uuid in self.layout.tree.keys for entry in self.since):
                return self.layout.session
            if len(self.since) * GROWN < self.laid and (session := extend_session(self.layout, file, self.since, leaf)):
                return session
        main = [entry for entry in file.entries.values() if not (apart and entry.side)]
        self.layout, self.laid, self.since, self.heard = lay_out(main, file, name), len(main), [], heard
        return self.layout.session if self.layout else None

    def _find_agents(self, file: File, apart: bool) -> None:
        """The subagents: those found before, where nothing has changed that they depend on."""
        entries = file.entries.values()
        sides = [entry for entry in entries if entry.side] if apart else []
        known = {entry.id for entry in entries if entry.type == "assistant" and not (apart and entry.side)}
        files = tuple((agent.path, agent.version) for agent in find_agent_files(self.source))
        inside = (len(sides), sum(map(len, file.progress.values())), len(file.sessions), len(file.about))
        key = (apart, file.chain, files, *inside)
        if key != self.agents_key or not self.agents.billed_ids.isdisjoint(known - self.known):
            self.agents = find_agents(self.source, file, sides, set(known))
        self.agents_key, self.known = key, known


class SessionFollower:
    """A session's file that may grow."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.file = File()
        self.reading = SessionReading(Source(path))

    def thread(self) -> Thread:
        """The session as the file holds it now. `TurnscopeError`s where it cannot be read any more."""
        added = self.tail.read()
        if added.replaced:
            self.file, self.reading = File(), SessionReading(Source(self.tail.path))
        feed(self.file, added.records)
        if any(
            not isinstance(value, Note) for value, _ in added.unfinished
        ):  # it lacks only its line break: it may go on, or not
            whole = Source(self.tail.path)
            file = File()
            feed(file, whole.iter_records())
            return SessionReading(whole).build_thread(file)
        return self.reading.build_thread(self.file, tuple(note for note, _ in added.unfinished))
