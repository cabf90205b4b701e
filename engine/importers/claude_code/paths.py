"""From lines to sessions: the path of the newest leaf, the branches that were left, and the messages along each.

Holds the knowledge of which lines make one message and one request. What was cut from the window is told by `edits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import structs

from engine.importers.claude_code.edits import Look, compacted, microcompacted, never_sent
from engine.importers.claude_code.lines import TITLES, Entry, File, string
from engine.session.builder import Builder, Draft, usage
from engine.session.content import text_of
from engine.session.model import Note, Session

NAME = "claude-code"
SYNTHETIC = "<synthetic>"  # model name of lines that the tool wrote itself: error texts, never sent
NOT_PROMPTS = ("<local-command-stdout>", "<bash-", "[Request interrupted", "<task-notification>")
REMINDERS = frozenset({"hook_additional_context", "skill_listing", "queued_command", "file", "directory", "nested_memory"})
BRANCHED = 200_000  # lines that all branches together may repeat of the paths they left


def paths_of(entries: list[Entry], file: File, name: str, known: Collection[str] = ()) -> list[Session]:
    """The path of the newest leaf first, then one session per branch that was left. `known`: see `_session`."""
    by = {entry.uuid: entry for entry in entries}
    left = {entry.uuid for entry in entries if entry.spoken}
    fragments: dict[str, list[Entry]] = {}
    results: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.spoken:
            for key in _belongs_to(entry):
                (fragments if entry.type == "assistant" else results).setdefault(key, []).append(entry)
    sessions: list[Session] = []
    billed: set[str] = set()
    room = BRANCHED
    for leaf in reversed([entry for entry in entries if entry.spoken]):
        if leaf.uuid not in left or room < 0:
            continue
        path = _complete(_chain(leaf, by), fragments, results)
        left.difference_update(entry.uuid for entry in path)
        if not sessions:
            sessions.append(session_of(path, file, name, notes=True, known=known))
            billed = {request.id for request in sessions[0].requests}
            continue
        room -= len(path)
        branch = session_of(path, file, f"{name}~{len(sessions)}", notes=False, known=known)
        at = _fork(sessions[0], branch)
        if at < len(branch.blocks) or {r.id for r in branch.requests} - billed:
            sessions.append(structs.replace(branch, parent=sessions[0].id, at=at))
        # else a copy of what the main path holds, as resuming a session leaves it
    if room < 0 and left:
        note = Note("warning", 0, f"more branches than can be laid out: {len(left)} lines of further ones were left out")
        sessions[0] = structs.replace(sessions[0], notes=(*sessions[0].notes, note))
    return sessions


def _belongs_to(entry: Entry) -> Iterator[str]:
    """Ids that tie a line to others: an answer's message id, the calls that its results answer."""
    if entry.type == "assistant":
        if entry.id:
            yield entry.id
        return
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str):
            yield block["tool_use_id"]


def _chain(leaf: Entry, by: dict[str, Entry]) -> list[Entry]:
    path: list[Entry] = []
    seen: set[str] = set()
    at: Entry | None = leaf
    while at is not None and at.uuid not in seen:
        seen.add(at.uuid)
        path.append(at)
        at = by.get(at.parent)
    path.reverse()
    return path


def _complete(path: list[Entry], fragments: dict[str, list[Entry]], results: dict[str, list[Entry]]) -> list[Entry]:
    """Add what one API exchange holds besides the chain: sibling fragments of a message, results of parallel calls.

    A message's fragments stand together and in file order, so that its last line is the last one here too.
    """
    on = {entry.uuid for entry in path}
    answered = {key for entry in path if entry.type == "user" and entry.spoken for key in _belongs_to(entry)}
    begun: set[str] = set()
    whole: list[Entry] = []
    for entry in path:
        if entry.type != "assistant" or not entry.spoken:
            whole.append(entry)
            continue
        if entry.id in begun:
            continue
        parts = [entry]
        if entry.id:
            begun.add(entry.id)
            parts = fragments[entry.id]
        if len(parts) > 1:  # what is not on the chain may be a copy that a resumed session wrote
            said = [part.message.get("content") for part in parts if part.uuid in on]
            parts = [part for part in parts if part.uuid in on or part.message.get("content") not in said]
        whole += parts
        for result in [result for part in parts for call in _calls(part) for result in results.get(call, ())]:
            if result.uuid not in on and not answered.issuperset(_belongs_to(result)):
                on.add(result.uuid)
                answered.update(_belongs_to(result))
                whole.append(result)
    return whole


def _calls(entry: Entry) -> Iterator[str]:
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("id"), str):
            yield block["id"]


def session_of(path: list[Entry], file: File, name: str, *, notes: bool, known: Collection[str]) -> Session:
    """Build one path. Answers whose id is in `known` were billed elsewhere: side questions repeat what the session said."""
    builder = Builder(name, NAME, _title(path, file), **file.about)
    looks: list[Look] = []
    drafts: dict[str, Draft] = {}
    kept: list[Draft] | None = None  # what the newest compaction preserved, its own summary last; None before the first
    before: float | None = None
    attempts = 1
    for entry in path:
        draft = None
        if entry.type == "system":
            attempts += entry.data.get("subtype") == "api_error"
            if entry.data.get("subtype") == "microcompact_boundary":
                looks.append(microcompacted(entry, builder, drafts, kept))
        elif entry.type == "attachment":
            draft = _reminder(builder, entry)
        elif entry.spoken:
            draft = _spoken(builder, entry, before, attempts, known)
            if entry.type == "assistant":
                attempts = 1
            if entry.summary:
                kept = [*(drafts[u] for u in file.preserved.get(entry.parent, ()) if u in drafts), draft]
                looks.append(compacted(file.entries.get(entry.parent), kept))
            if _unsent(entry):
                looks.append(never_sent(draft))
            before = entry.at if entry.type == "user" else before
        if draft is not None:
            drafts[entry.uuid] = draft
    if notes:
        builder.notes.extend(file.notes)
    session = builder.build(looks)
    stubs = sum(request.output_stub for request in session.requests)
    if stubs and notes:
        what = f"{stubs} answers record fewer output tokens than their text can have; those are counted instead"
        session = structs.replace(session, notes=(*session.notes, Note("warning", 0, what)))
    return session


def _spoken(builder: Builder, entry: Entry, before: float | None, attempts: int, known: Collection[str]) -> Draft:
    message, data = entry.message, entry.data
    content = message.get("content")
    content = content if isinstance(content, (str, list)) else ""
    if entry.type == "user":
        text = text_of(content[:1] if isinstance(content, list) else content).lstrip()
        aside = data.get("isMeta") is True or text.startswith(NOT_PROMPTS)
        origin = "summary" if entry.summary else "meta" if aside else ""
        return builder.message("user", content, origin=origin, kind="summary" if entry.summary else "", sent_at=entry.at)
    if _unsent(entry):
        builder.note("info", entry.line, f"a message of the tool itself, never sent: {text_of(content)[:80]}")
        return builder.message("assistant", content, kind="notice", sent_at=entry.at, origin="meta")
    draft = builder.message("assistant", content, id=entry.id or entry.uuid, sent_at=entry.at)
    found = usage(message.get("usage"))
    if found is not None and (not entry.id or entry.id not in known):
        earlier = draft.request
        builder.request(
            draft,
            id=entry.id,
            model=string(message.get("model")),
            usage=found,
            sent_at=earlier.sent_at if earlier else before,
            answered_at=entry.at,
            stop_reason=string(message.get("stop_reason")) or None,
            attempts=earlier.attempts if earlier else attempts,
        )
    return draft


def _unsent(entry: Entry) -> bool:
    return entry.type == "assistant" and (
        entry.message.get("model") == SYNTHETIC or entry.data.get("isApiErrorMessage") is True
    )


def _reminder(builder: Builder, entry: Entry) -> Draft | None:
    """Attachments that the tool puts into the prompt as reminders."""
    found = entry.meta("attachment")
    if string(found.get("type")) in REMINDERS:
        text = text_of(found.get("content") or found.get("prompt"))
        if text:
            return builder.message("user", text, origin="meta", kind="reminder", sent_at=entry.at)
    return None


def _title(path: list[Entry], file: File) -> str:
    given = [file.titles[kind] for kind in TITLES if kind in file.titles]
    named = given or [file.titles[e.uuid] for e in path if e.uuid in file.titles]
    if named:
        return named[-1]
    for entry in path:
        if entry.type == "user" and entry.spoken and entry.data.get("isMeta") is not True:
            text = " ".join(text_of(entry.message.get("content")).split())
            if text and not text.startswith("<"):
                return text[:80]
    return ""


def _fork(main: Session, branch: Session) -> int:
    """First block of `branch` that `main` does not share; past its end where `main` shares them all."""
    pairs = zip(main.blocks, branch.blocks, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.digest != b.digest), min(len(main.blocks), len(branch.blocks)))
