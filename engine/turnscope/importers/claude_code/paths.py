"""From lines to sessions: the path of the newest leaf, the branches that were left, and the messages along each.

Holds the knowledge of which lines make one message and one request. `tree` finds the paths; what was cut from the window is
reported by `edits`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from msgspec import Struct, structs

from turnscope.importers.claude_code.attachments import add_notices, read_snapshot
from turnscope.importers.claude_code.edits import (
    observe_compaction,
    observe_microcompaction,
    observe_superseded,
    observe_unsent,
)
from turnscope.importers.claude_code.limits import THINKING_STAYS, keeps_thinking
from turnscope.importers.claude_code.lines import TITLES, Entry, File, as_string
from turnscope.importers.claude_code.stored import keep_stored_forms, replace_inputs, replace_results
from turnscope.importers.claude_code.tree import END, Limb, Tree
from turnscope.session.builder import Builder, Draft, Observer
from turnscope.session.content import extract_text
from turnscope.session.model import BEGINS_MID_CONVERSATION, JSON, MODEL_WINDOWS, RUN_USD, Fork, Note, Session, Usage, join_path
from turnscope.session.usage import parse_applied_edits, parse_cache_miss, parse_usage, parse_usd

NAME = "claude-code"
SYNTHETIC = "<synthetic>"  # model name of lines that the tool wrote itself: error texts, never sent
TITLE_CHARS = 80
UNANSWERED = "the last request has no answer in the log: it was interrupted or refused, or the answer is still to come"
COMMANDS = ("<command-name>", "<command-message>")  # how what the tool notes of a slash command begins: no request by itself
STOPPED = "[Request interrupted by user for tool use"  # a call was declined: its result was not sent
NOT_PROMPTS = ("<local-command-stdout>", "<bash-", "[Request interrupted", "<task-notification>")


class State(Struct, frozen=True, gc=False):
    """What the next line needs to know of those before it on its path."""

    newest: Draft | None = None
    looks: int = 0  # how many looks the limb that it stands on has made
    attempts: int = 1
    before: float | None = None  # when the newest message of the user was sent
    kept: tuple[Draft, ...] | None = None  # what the newest compaction preserved, its own summary last; None before the first
    named: str = ""  # the newest title that a line of the path was given
    opening: str = ""  # how the first prompt begins
    static: tuple[tuple[str, Draft], ...] = ()  # the system prompt and the tools in force, by role

    @property
    def messages(self) -> int:
        return self.newest.ordinal + 1 if self.newest else 0


@dataclass(slots=True, eq=False)
class Path:
    """A limb as messages: `states[k]` stands before line `k` of its `whole`, the last one at its end."""

    limb: Limb
    base: Path | None
    builder: Builder
    states: list[State]
    drafts: dict[str, Draft] = field(default_factory=dict)  # by line
    looks: list[tuple[Draft | None, Observer]] = field(default_factory=list)  # with the newest message of the time
    at: int = END  # the first block that the main path does not share
    unbilled: int = END  # the first request that the main path does not hold
    same: int = END  # how many messages are as on the main path; END = the path was kept
    shared: int = 0  # how many messages of its base it goes on from
    notices: dict[str, str] = field(default_factory=dict)  # by call: what is part of its result as sent
    billed: tuple[object, Usage | None] = (None, None)  # the newest usage, as the log has it and as it was read

    def get_state(self, depth: int) -> State:
        """Before the chain's line at a depth of its own."""
        at = depth - self.limb.at
        return self.states[self.limb.cuts[at] if at < len(self.limb.cuts) else -1]

    def find_draft(self, uuid: str) -> Draft | None:
        """The message of a line on the path."""
        path: Path | None = self
        stop = END
        while path is not None:
            found = path.drafts.get(uuid)
            if found is not None and found.ordinal < stop:
                return found
            stop, path = min(stop, path.shared), path.base
        return None

    def list_observers_since(self, address: int) -> list[Observer]:
        """Its looks, and those before it that are made from messages that reach to a block address; oldest first."""
        found = [look for _, look in reversed(self.looks)]
        path = self
        while path.base is not None:
            stop, path = path.states[0].looks, path.base
            for newest, look in reversed(path.looks[:stop]):
                if newest is not None and newest.stop <= address:
                    return found[::-1]
                found.append(look)
        return found[::-1]


@dataclass(slots=True)
class Layout:
    """A file's paths laid out: the main one, and what the others add."""

    tree: Tree
    main: Path
    session: Session
    known: Collection[str]
    copies: int = 0  # block up to which paths were left out, being copies of the main one


def lay_out(entries: Iterable[Entry], file: File, name: str, known: Collection[str] = ()) -> Layout | None:
    """The path of the newest leaf, with a fork for each branch that was left; None where there is no message.

    Args:
        entries: The lines that are laid out, in the file's order.
        file: The whole file.
        name: The id of the session. Its forks are `name~1` and so on.
        known: Ids of answers that were billed elsewhere.
    """
    tree, spoken = Tree(), list[Entry]()
    for entry in entries:
        tree.add(entry)
        if entry.spoken:
            spoken.append(entry)
    if not spoken:
        return None
    left = {entry.uuid for entry in spoken}
    limb = tree.make_limb(spoken[-1])
    left.difference_update(entry.uuid for entry in limb.whole)
    main = _lay_path(limb, None, Builder(name, NAME, **file.about), file, known)
    session = main.builder.build([look for _, look in main.looks])
    billed = {request.id for request in session.requests}
    laid, kept, forks, copies = {limb: main}, [main], list[Fork](), 0
    for leaf in reversed(spoken):
        if leaf.uuid not in left:
            continue
        limb = tree.make_limb(leaf)
        left.difference_update(entry.uuid for entry in limb.whole)
        base = laid[limb.base] if limb.base else None
        path = _lay_path(limb, base, _start_branch(main, base, limb.at, f"{name}~{len(kept)}"), file, known)
        fork = path.builder.build_fork(session, forks, path.list_observers_since(path.builder.last_cut))
        laid[limb] = path
        left_from = kept[fork.of]
        path.at = left_from.at if left_from.at < fork.start else _find_divergence(session, fork)
        unbilled = (request.n for request in fork.own.requests if request.id not in billed)
        path.unbilled = left_from.unbilled if left_from.unbilled < path.builder.first else next(unbilled, END)
        if path.at < path.builder.line.end or path.unbilled < END:
            forks.append(structs.replace(fork, own=structs.replace(fork.own, parent=session.id, at=path.at)))
            kept.append(path)
        else:  # a copy of what the main path holds, as resuming a session leaves it
            path.same = _count_shared(session, fork, path.builder)
            copies = max(copies, path.builder.line.end)
    return Layout(tree, main, structs.replace(session, forks=tuple(forks)), known, copies)


def extend_session(layout: Layout, file: File, since: list[Entry], leaf: Entry) -> Session | None:
    """The session with lines that were added: the main path goes on, all else is as it was.

    None where that is not so, and everything has to be laid out anew.

    Args:
        layout: What was laid out before.
        file: The whole file.
        since: The lines that were added, in the file's order.
        leaf: The line in which the main path now ends.
    """
    main, old = layout.main, layout.session
    limb = layout.tree.make_limb(leaf, since, kept=False)
    if limb.base is not main.limb:
        return None
    on = {entry.uuid for entry in limb.whole}
    cut = main.limb.cuts[limb.at] if limb.at < len(main.limb.cuts) else len(main.limb.whole)
    if any(entry.spoken and entry.uuid not in on for entry in (*main.limb.whole[cut:], *since)):
        return None  # a path was left
    if any(put.inside and (limb.find("answered", put.call, limb.at) is not None) for e in limb.whole if (put := e.put)):
        return None  # a notice is part of a result that is laid out already
    messages = main.get_state(limb.at).messages
    builder = main.builder.start_branch(messages, old.id)
    start = builder.line.start
    ends = ((fork.own.at, fork.start, fork.start + len(fork.own.blocks)) for fork in old.forks)
    if layout.copies > start or any(at >= min(start, end) or left > start for at, left, end in ends):
        return None
    path = _lay_path(limb, main, builder, file, layout.known)
    fork = builder.build_fork(old, old.forks, path.list_observers_since(builder.last_cut))
    session = join_path(old, (*old.forks, fork), len(old.forks) + 1)
    again = {entry.line for entry in main.limb.whole[cut:]}
    notes = (*(note for note in old.notes if note.line not in again), *fork.own.notes)
    return structs.replace(session, notes=notes, forks=old.forks)


def add_notes(session: Session, file: File, last: Iterable[Note] = ()) -> Session:
    """The session of a file, with its notes and what it says of windows and costs.

    Args:
        session: The session, as it was laid out.
        file: The file.
        last: Notes about a last, unfinished line.
    """
    stubs = sum(request.output_stub for request in session.requests)
    what = f"{stubs} answers record fewer output tokens than their text can have; those are counted instead"
    notes = (*session.notes, *file.make_notes(last), *([Note("warning", 0, what)] if stubs else ()))
    if _ends_unanswered(session):
        notes = (*notes, Note("info", 0, UNANSWERED))
    windows = file.windows.describe()
    facts: dict[str, JSON] = {MODEL_WINDOWS: windows, RUN_USD: file.run_usd}
    about = {**session.about, **{key: value for key, value in facts.items() if value}}
    return structs.replace(session, notes=notes, about=about)


def _ends_unanswered(session: Session) -> bool:
    """Whether the path ends in something that the tool sends, and that nothing in the log answers."""
    for message in reversed(session.messages):
        opening = session.blocks[message.start].text.lstrip() if message.stop > message.start else ""
        if message.origin in ("answer", "summary") or opening.startswith(STOPPED):
            return False
        if message.origin == "tool" or (message.origin == "prompt" and not opening.startswith(COMMANDS)):
            return True
    return False


def build_alone(lines: list[Entry], name: str, known: Collection[str]) -> Session:
    """A session of lines that follow each other, whatever they say of their parents.

    Args:
        lines: The lines, in their order.
        name: The id of the session.
        known: Ids of answers that were billed elsewhere.
    """
    limb = Limb(None, 0, lines, lines, list(range(len(lines))))
    path = _lay_path(limb, None, Builder(name, NAME), File(), known)
    return path.builder.build([look for _, look in path.looks])


def _start_branch(main: Path, base: Path | None, depth: int, id: str) -> Builder:
    """A builder that goes on from a path's line at `depth`; from the main path where that path is a copy of it."""
    messages = base.get_state(depth).messages if base else 0
    if base is None or messages <= base.same < END:
        return main.builder.start_branch(messages, id)
    builder = base.builder
    if base.same == END or builder.base is None or messages <= builder.shared:
        return builder.start_branch(messages, id)
    branch = builder.base.start_branch(builder.shared, id)
    branch.drafts = [replace(draft) for draft in builder.drafts[: messages - builder.shared]]
    return branch


def _lay_path(limb: Limb, base: Path | None, builder: Builder, file: File, known: Collection[str]) -> Path:
    """The messages of a limb, which go on from what `builder` has."""
    state = base.get_state(limb.at) if base else State()
    path = Path(limb, base, builder, [state], shared=state.messages, notices=_collect_notices(limb))
    state = structs.replace(state, looks=0)
    for entry in limb.whole:
        state = _advance(path, state, entry, file, known)
        path.states.append(state)
    titles = [file.titles[kind] for kind in TITLES if kind in file.titles]
    builder.title = titles[-1] if titles else state.named or state.opening
    if base is None and _begins_mid_conversation(limb.chain[0], file):
        builder.about[BEGINS_MID_CONVERSATION] = True
    return path


def _advance(path: Path, state: State, entry: Entry, file: File, known: Collection[str]) -> State:
    """Add one line; gives what the line after it needs to know."""
    builder, draft = path.builder, None
    attempts, before, kept, opening, static = state.attempts, state.before, state.kept, state.opening, state.static
    if entry.type == "system":
        attempts += entry.data.get("subtype") == "api_error"
        if entry.data.get("subtype") == "microcompact_boundary":
            path.looks.append((state.newest, observe_microcompaction(entry, state.newest, path.find_draft, kept)))
    elif entry.type == "attachment":
        draft = _add_injection(path, entry)
        static = _add_snapshot(path, static, entry)
    elif entry.spoken:
        draft = _add_message(path, entry, before, attempts, file, known)
        if entry.type == "assistant":
            attempts = 1
        else:
            before, opening = entry.at, opening or _get_opening(entry)
        if entry.summary:
            boundary = file.boundary_of(entry)
            stays = (*file.preserved_lines.get(boundary.uuid, ()), *_between(boundary, entry, file)) if boundary else ()
            preserved = (found for uuid in stays if (found := path.find_draft(uuid)))
            kept = (*(message for _, message in static), *preserved, draft)
            path.looks.append((draft, observe_compaction(boundary, kept)))
        if _is_unsent(entry):
            path.looks.append((draft, observe_unsent(draft)))
    if draft is not None:
        path.drafts[entry.uuid] = draft
    newest = builder.drafts[-1] if builder.drafts else state.newest
    named = file.titles.get(entry.uuid, state.named)
    return State(newest, len(path.looks), attempts, before, kept, named, opening, static)


def _between(boundary: Entry, summary: Entry, file: File) -> Iterator[str]:
    """Lines that the tool injected anew between a compaction and its summary."""
    at = summary.parent
    while at != boundary.uuid:
        yield at
        at = file.entries[at].parent


def _add_message(path: Path, entry: Entry, before: float | None, attempts: int, file: File, known: Collection[str]) -> Draft:
    """Add a line's message. Answers whose id is in `known` were billed elsewhere: side questions repeat the conversation."""
    builder, message, data = path.builder, entry.message, entry.data
    stored = message.get("content")
    sent = replace_inputs(stored, data) if entry.type == "assistant" else replace_results(stored, file.replaced)
    keep_stored_forms(builder.about, stored, sent)
    content = add_notices(sent, path.notices) if isinstance(sent, (str, list)) else ""
    if entry.type == "user":
        text = extract_text(content[:1] if isinstance(content, list) else content).lstrip()
        aside = data.get("isMeta") is True or text.startswith(NOT_PROMPTS)
        origin = "summary" if entry.summary else "meta" if aside else ""
        return builder.add_message("user", content, origin=origin, kind="summary" if entry.summary else "", sent_at=entry.at)
    if _is_unsent(entry):
        builder.add_note("info", entry.line, f"a message of the tool itself, never sent: {extract_text(content)[:80]}")
        return builder.add_message("assistant", content, kind="notice", sent_at=entry.at, origin="meta")
    draft = builder.add_message("assistant", content, id=entry.id or entry.uuid, sent_at=entry.at)
    billed, earlier = message.get("usage"), draft.request
    found = path.billed[1] if billed == path.billed[0] else parse_usage(billed)  # each fragment of an answer says it again
    path.billed = billed, found
    if found is not None and (not entry.id or entry.id not in known):
        builder.set_request(
            draft,
            id=entry.id,
            model=as_string(message.get("model")),
            usage=found,
            settings=THINKING_STAYS if keeps_thinking(as_string(data.get("version"))) else {},
            sent_at=earlier.sent_at if earlier else before,
            answered_at=entry.at,
            stop_reason=as_string(message.get("stop_reason")) or None,
            attempts=earlier.attempts if earlier else attempts,
            logged_usd=parse_usd(data.get("costUSD"), earlier.logged_usd if earlier else None),
            cache_miss=parse_cache_miss(message.get("diagnostics")) or (earlier.cache_miss if earlier else None),
            applied=parse_applied_edits(message.get("context_management")) or (earlier.applied if earlier else ()),
        )
    return draft


def _is_unsent(entry: Entry) -> bool:
    return entry.type == "assistant" and (
        entry.message.get("model") == SYNTHETIC or entry.data.get("isApiErrorMessage") is True
    )


def _add_injection(path: Path, entry: Entry) -> Draft | None:
    """Add what the tool injected; what was sent as part of a result is there already."""
    put = entry.put
    if put is None or (put.inside and put.call in path.notices):
        return None
    origin = "inferred" if put.inferred else "meta"
    return path.builder.add_message("user", list(put.parts), origin=origin, kind=put.kind, sent_at=entry.at)


def _add_snapshot(path: Path, static: tuple[tuple[str, Draft], ...], entry: Entry) -> tuple[tuple[str, Draft], ...]:
    """Add the system prompt and the tools that a line records, where they are not those in force already."""
    snapshot = dict(static)
    for role, blocks in read_snapshot(entry.data).items():
        old = snapshot.get(role)
        if old is None or [raw for raw, _ in old.parts] != blocks:
            snapshot[role] = path.builder.add_message(role, blocks, origin="system", sent_at=entry.at)
            if old is not None:
                path.looks.append((snapshot[role], observe_superseded(role, old, snapshot[role])))
    return tuple(snapshot.items())


def _collect_notices(limb: Limb) -> dict[str, str]:
    """What was sent as part of results: their call is on the path, and so is the result that the line hangs from."""
    found = [put for entry in limb.whole if (put := entry.put) and put.inside and limb.find("marks", put.call) is not None]
    return {put.call: "\n".join(map(extract_text, put.parts)) for put in found if limb.find("answered", put.call) is not None}


def _begins_mid_conversation(root: Entry, file: File) -> bool:
    """Whether a path begins with a line that follows another one, which is in another file. A compaction begins anew."""
    alone = root.side or root.agent or root.summary or root.data.get("subtype") == "compact_boundary"
    return bool(root.given) and root.given not in file.entries and not alone


def _get_opening(entry: Entry) -> str:
    """How a prompt begins; "" where it is none of the user's own words."""
    if entry.data.get("isMeta") is True:
        return ""
    text = " ".join(extract_text(entry.message.get("content")).split())
    if text.startswith("<"):
        return ""
    return text if len(text) <= TITLE_CHARS else f"{text[: TITLE_CHARS - 1].rstrip()}…"


def _find_divergence(main: Session, fork: Fork) -> int:
    """First block of a fork that the main path does not share; past its end where that shares them all."""
    pairs = zip(main.blocks[fork.start :], fork.own.blocks, strict=False)
    end = min(len(main.blocks), fork.start + len(fork.own.blocks))
    return next((a.at for a, b in pairs if a.digest != b.digest), end)


def _count_shared(main: Session, fork: Fork, builder: Builder) -> int:
    """How many messages of a copy are as on the main path, with everything that is known of them."""
    first, own = builder.shared, fork.own
    pairs = zip(main.messages[first:], own.messages, strict=False)
    count = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(main.messages) - first, len(own.messages)))
    stop = own.messages[count - 1].stop if count else fork.start
    turns = all(a.turn == b.turn for a, b in zip(main.blocks[fork.start : stop], own.blocks, strict=False))
    requests = tuple(request for request in own.requests if request.stop <= stop)
    end = builder.first + len(requests)
    observed = [[o for o in one.observed if builder.first <= o.request < end] for one in (main, own)]
    alike = turns and requests == main.requests[builder.first : end] and observed[0] == observed[1]
    return first + count if fork.of == 0 and alike else 0
