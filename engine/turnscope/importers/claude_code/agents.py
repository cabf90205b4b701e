"""Subagents, in the four layouts that versions have used, each hung from the tool call that started it.

Up to 1.0 side chains in the session's file; then files in its folder; since 2.1 a folder of the session; at times `progress`
lines that carry whole messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import escape

from msgspec import structs

from turnscope.errors import UnreadableFile
from turnscope.importers.claude_code.exact import attach_exact_requests
from turnscope.importers.claude_code.lines import Chain, Entry, File, as_string, scan
from turnscope.importers.claude_code.paths import add_notes, build_alone, lay_out
from turnscope.reading.source import Source
from turnscope.session.model import Note, Session

Place = tuple[int, int]  # number of a session, block


@dataclass(slots=True)
class Agents:
    """The subagents of a session, in no place yet, and what their own files say of the calls that started them."""

    sessions: dict[str, Session] = field(default_factory=dict)
    spawned: dict[str, str] = field(default_factory=dict)  # agent id -> tool_use id
    notes: list[Note] = field(default_factory=list)

    @property
    def billed_ids(self) -> set[str]:
        """Ids of what they were billed for."""
        ones = (one for agent in self.sessions.values() for one in (agent, *(fork.own for fork in agent.forks)))
        return {request.id for one in ones for request in one.requests}


def find_agents(source: Source, file: File, inline: list[Entry], known: set[str]) -> Agents:
    """Every subagent of a session.

    Args:
        source: The session's file; subagents may have files of their own in its folder.
        file: Its lines.
        inline: Its side chains.
        known: Ids of the answers that it was billed for.
    """
    agents = Agents()
    for agent in (*_build_inline(inline, file, known), *_read_agent_files(source, file, known, agents)):
        agents.sessions.setdefault(agent.id, agent)
    for id, found in file.progress.items():
        if found and id not in agents.sessions:
            agents.sessions[id] = build_alone(found, id, known)
    return agents


def _build_inline(entries: list[Entry], file: File, known: set[str]) -> list[Session]:
    """Subagents of versions up to 1.0: side chains inside the file, one per root."""
    by = {entry.uuid: entry for entry in entries}
    groups: dict[str, list[Entry]] = {}
    roots: dict[str, str] = {}
    for entry in entries:
        root = entry.agent or (roots.get(entry.parent, entry.uuid) if entry.parent in by else entry.uuid)
        roots[entry.uuid] = root
        groups.setdefault(root, []).append(entry)
    sessions = []
    for root, group in groups.items():
        if any(entry.spoken for entry in group):
            chain = Chain(preserved=file.preserved_lines)
            own = File(about=file.about, entries=file.entries, chain=chain, replaced=file.replaced)
            layout = lay_out(group, own, root, known)
            assert layout is not None
            sessions.append(add_notes(layout.session, own))
    return sessions


def find_agent_files(source: Source) -> list[Source]:
    """Files of subagents that may belong to a session's: in a folder of its own, and in its folder."""
    if source.path.stem.startswith("agent-"):
        return []
    return [
        *source.find_siblings(f"{escape(source.path.stem)}/subagents/agent-*.jsonl"),
        *source.find_siblings("agent-*.jsonl"),
    ]


def _read_agent_files(source: Source, file: File, known: set[str], agents: Agents) -> Iterator[Session]:
    """Subagents in files of their own: `SESSION/subagents/agent-ID.jsonl`, or `agent-ID.jsonl` in its folder."""
    for agent in find_agent_files(source):
        if agent.path.parent == source.path.parent and _read_owner(agent) not in file.sessions:
            continue
        try:
            scanned = scan(agent)
        except UnreadableFile as error:
            agents.notes.append(Note("warning", 0, f"a subagent's file could not be read: {error.what}"))
            continue
        name = agent.path.stem.removeprefix("agent-")
        if layout := lay_out(scanned.entries.values(), scanned, name, known):
            for id, call in (*_read_meta(agent, name), *scanned.spawned.items()):
                agents.spawned.setdefault(id, call)
            forks = (fork.own for fork in layout.session.forks)
            known.update(r.id for one in (layout.session, *forks) for r in one.requests)  # a fork repeats what another was sent
            yield attach_exact_requests(add_notes(layout.session, scanned), scanned, source)


def _read_meta(source: Source, agent: str) -> list[tuple[str, str]]:
    meta = source.open_sibling(f"{source.path.stem}.meta.json")
    call = meta.document.get("toolUseId") if meta and isinstance(meta.document, dict) else None
    return [(agent, call)] if isinstance(call, str) else []


def _read_owner(source: Source) -> str:
    """The session that a subagent's file names in its first lines."""
    named = (as_string(record.get("sessionId")) for record, _ in source.iter_records(limit=5) if isinstance(record, dict))
    return next(filter(None, named), "")


def attach_agents(main: Session, found: Agents, spawned: dict[str, str]) -> Session:
    """Hang each subagent from the session that holds the call that started it: by id, else by the prompt that both hold.

    That session may be the main one, a branch of it, or another subagent.

    Args:
        main: The session, with its branches.
        found: Its subagents.
        spawned: Calls of the session's own lines by the id of the subagent that they started.
    """
    if not found.sessions:
        return main
    agents, spawned = list(found.sessions.values()), {**found.spawned, **spawned}
    homes = [main, *(fork.own for fork in main.forks), *agents]
    starts = [0, *(max(0, fork.own.at - fork.start) for fork in main.forks), *(0 for _ in agents)]
    calls, prompts = _index_calls(homes, starts)
    taken = {calls[spawned[agent.id]] for agent in agents if spawned.get(agent.id) in calls}
    under: dict[int, int] = {}
    inside: dict[int, list[int]] = {}
    for number, agent in enumerate(agents, 1 + len(main.forks)):
        place = calls.get(spawned.get(agent.id, ""))
        if place is None and agent.id not in spawned and agent.blocks:
            same = (p for p in prompts.get(agent.blocks[0].text, ()) if p not in taken)
            place = next(same, None)
        if place is None or _is_within(place[0], number, under):
            place = (0, -1)
        taken.add(place)
        under[number] = place[0]
        inside.setdefault(place[0], []).append(number)
        homes[number] = structs.replace(agent, parent=homes[place[0]].id, at=place[1])

    def attach(number: int) -> Session:
        hung = inside.get(number)
        return structs.replace(homes[number], subagents=tuple(map(attach, hung))) if hung else homes[number]

    forks = tuple(structs.replace(fork, own=attach(number)) for number, fork in enumerate(main.forks, 1))
    return structs.replace(attach(0), forks=forks)


def _index_calls(homes: list[Session], starts: list[int]) -> tuple[dict[str, Place], dict[str, list[Place]]]:
    """Where each tool call stands, by its id, and by the prompt that it gives. A branch counts from where it parted."""
    calls: dict[str, Place] = {}
    prompts: dict[str, list[Place]] = {}
    for number, (home, start) in enumerate(zip(homes, starts, strict=True)):
        for block in home.blocks[start:]:
            if block.kind == "tool_use" and isinstance(block.raw, dict):
                calls.setdefault(as_string(block.raw.get("id")), (number, block.at))
                arguments = block.raw.get("input")
                if isinstance(arguments, dict) and isinstance(arguments.get("prompt"), str):
                    prompts.setdefault(arguments["prompt"], []).append((number, block.at))
    return calls, prompts


def _is_within(home: int, number: int, under: dict[int, int]) -> bool:
    """Whether `home` is `number` itself or hangs from it."""
    while home != number and home in under:
        home = under[home]
    return home == number
