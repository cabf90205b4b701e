"""What left the window, as the task's files have it: Cline's mask and rewritten texts, Roo's tags, summaries and markers.

Gives `Observed` edits over the addresses of a built session. Where the files do not say at which request a change first showed,
the screen's events and their times decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnscope.importers.task_folder.folder import Call, Folder, as_number, as_string
from turnscope.importers.task_folder.markup import join_texts
from turnscope.session.builder import Draft, make_part, observe_drop
from turnscope.session.model import JSON, Block, Edit, ObservedEdit, Part, Session, Span

_ANSWERING = frozenset({"text", "reasoning", "completion_result", "tool", "command"})  # events that an answer causes
_TEXTS = {"text", "thinking", "reminder", "tool_use"}  # kinds of blocks that were one stored text


@dataclass(frozen=True, slots=True)
class Placed:
    """A message of the timeline: its stored position (-1 = none) and, per block, the stored blocks that it came from.

    `place`: its position in the conversation with the API, stored or not.
    """

    stored: int
    message: Mapping[str, JSON]
    draft: Draft
    blocks: tuple[range, ...]
    place: int = -1

    @property
    def span(self) -> Span:
        return Span(self.draft.start, self.draft.stop)


def observe_changes(folder: Folder, rows: Sequence[Placed], session: Session) -> Iterator[ObservedEdit]:
    """Every change that the files record.

    Args:
        folder: The task.
        rows: Its timeline as messages, in order.
        session: The session that was built of them.
    """
    if folder.is_roo:
        yield from _observe_roo(folder, rows, session)
    else:
        masks = _read_masks(folder)
        yield from _observe_masks(masks, rows, session)
        yield from _observe_rewrites(folder, masks, rows, session)


# --- Cline ------------------------------------------------------------------------------------------------------------------


def _read_masks(folder: Folder) -> list[tuple[int, int] | None]:
    """The deleted range of each request: it stands on the screen's first event after it."""
    found: list[tuple[int, int] | None] = []
    for call in folder.calls:
        mask = call.after[0].get("conversationHistoryDeletedRange") if call.after else None
        before = found[-1] if found else _read_range(call.event.get("conversationHistoryDeletedRange"))
        found.append(_read_range(mask) if call.after else before)
    return found


def _read_range(mask: JSON) -> tuple[int, int] | None:
    usable = isinstance(mask, list) and len(mask) == 2 and all(isinstance(end, int) for end in mask)
    return (mask[0], mask[1]) if usable and 0 <= mask[0] <= mask[1] else None


def _observe_masks(masks: Sequence[tuple[int, int] | None], rows: Sequence[Placed], session: Session) -> Iterator[ObservedEdit]:
    mask_before: tuple[int, int] | None = None
    for n, mask in enumerate(masks[: len(session.requests)]):
        if mask == mask_before:
            continue
        cut = session.requests[n].cut
        old, new = mask_before or (mask or (2, 1))[:1] * 2, mask or (mask_before or (2, 1))[:1] * 2
        held_end, end = (mask_before[1] if mask_before else old[0] - 1), (mask[1] if mask else new[0] - 1)
        text = f"Cline hides messages {new[0]} to {end} of its history" if mask else "Cline shows its whole history again"
        for span in _find_spans(rows, end + 1, held_end, cut):
            yield ObservedEdit(n, Edit("restore", text, span, restore=True))
        for span in _find_spans(rows, max(new[0], held_end + 1), end, cut):
            yield observe_drop(n, *span, text, messages=end - new[0] + 1)
        yield from _observe_orphans(n, rows, end, session)
        mask_before = mask


def _find_spans(rows: Sequence[Placed], first: int, last: int, cut: int) -> list[Span]:
    """Blocks of the messages at positions `first` to `last`, both included, as far as a request could send them."""
    there = [s.span for s in rows if first <= s.place <= last and s.draft.start < cut]
    return [Span(there[0].start, min(there[-1].stop, cut))] if there else []


def _observe_orphans(n: int, rows: Sequence[Placed], end: int, session: Session) -> Iterator[ObservedEdit]:
    """Results in the first message behind the mask: Cline leaves them out, as their calls are hidden."""
    first = next((s for s in rows if s.place == end + 1), None)
    if first is None or end < 2 or first.draft.role != "user" or first.draft.stop > session.requests[n].cut:
        return
    for block in session.blocks[first.draft.start : first.draft.stop]:
        if block.kind == "tool_result" and 0 <= block.pair < block.at:
            yield observe_drop(n, block.at, block.at + 1, "Cline leaves a result out whose call is hidden", "repair")


def _observe_rewrites(
    folder: Folder, masks: Sequence[tuple[int, int] | None], rows: Sequence[Placed], session: Session
) -> Iterator[ObservedEdit]:
    """Texts of `context_history.json`: [[message, [type, [[block, [[time, "text", [text], files], ...]], ...]]], ...]."""
    by_position = {s.stored: s for s in rows if s.stored >= 0}
    for message, block, time, text in _iter_entries(folder.edits):
        place = by_position.get(message)
        n = _find_first_shown(folder.calls, masks, time)
        if place is None or n >= min(len(masks), len(session.requests)) or place.draft.stop > session.requests[n].cut:
            continue
        mask = masks[n]
        if mask and mask[0] <= message <= mask[1]:
            continue
        found = [place.draft.start + i for i, blocks in enumerate(place.blocks) if block in blocks]
        parts = session.blocks[found[0] : found[-1] + 1] if found else ()
        if parts and (body := _replace_text(parts, place, block, text)):
            span = Span(found[0], found[-1] + 1)
            yield ObservedEdit(n, Edit("clear", f"Cline put another text into message {message}", span, body))


def _iter_entries(edits: JSON) -> Iterator[tuple[int, int, float, str]]:
    """(message, block, time, text) of each stored edit, oldest first."""
    found = []
    for message, entry in _iter_pairs(edits):
        for block, updates in _iter_pairs(entry[1] if isinstance(entry, list) and len(entry) == 2 else None):
            for update in updates if isinstance(updates, list) else ():
                texts = update[2] if isinstance(update, list) and len(update) > 2 else None
                if isinstance(texts, list) and texts and isinstance(texts[0], str) and update[1] == "text":
                    found.append((message, block, as_number(update[0]), texts[0]))
    return iter(sorted(found, key=lambda row: row[2]))


def _iter_pairs(rows: JSON) -> Iterator[tuple[int, Any]]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], int) and row[0] >= 0:
            yield row[0], row[1]


def _find_first_shown(calls: Sequence[Call], masks: Sequence[tuple[int, int] | None], time: float) -> int:
    """The request that first shows an edit: edits carry the time of the request before, unless an error forced them."""
    n = sum(call.ts <= time for call in calls)
    forced = 0 < n <= len(masks) and calls[n - 1].ts < time and masks[n - 1] != (masks[n - 2] if n > 1 else None)
    return n - 1 if forced else n


def _replace_text(parts: Sequence[Block], place: Placed, block: int, text: str) -> tuple[Part, ...]:
    raw = parts[0].raw
    if isinstance(raw, Mapping) and raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        content = [part for part in raw["content"] if isinstance(part, Mapping)]
        if (
            block > place.blocks[parts[0].at - place.draft.start].start and content
        ):  # older versions: the header is a block of its own and stays
            header = as_string(content[0].get("text")).partition("\n")[0]
            text = f"{header}\n{text}"
        new = [{"type": "text", "text": text}, *content[1:]]
        return (make_part(parts[0].role, {**raw, "content": join_texts(new)}),)
    kinds = {part.kind for part in parts}
    return (make_part(parts[0].role, {"type": "text", "text": text}),) if kinds <= _TEXTS else ()


# --- Roo --------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cut:
    """One condensation or truncation: the entry that stands for it, what it hid, and the request that first showed it."""

    entry: Mapping[str, JSON]
    id: str
    request: int
    hidden: list[Placed] = field(default_factory=list)
    place: int = 0  # stored position of the entry


def _observe_roo(folder: Folder, rows: Sequence[Placed], session: Session) -> Iterator[ObservedEdit]:
    cuts = sorted(_iter_cuts(folder), key=lambda cut: cut.request)
    after: dict[str, list[Placed]] = {}
    for cut in cuts:
        summary = bool(cut.entry.get("isSummary"))
        tag = "condenseParent" if summary else "truncationParent"
        tagged = [s for s in rows if cut.id and s.message.get(tag) == cut.id]
        for other in cuts:  # what an earlier summary stood for goes with it
            if cut.id and other is not cut and other.entry.get(tag) == cut.id:
                tagged += after.get(other.id, [])
        if not cut.id:  # before 3.36 nothing was tagged: what the screen alone knows was deleted by a summary
            tagged = [s for s in rows if s.stored < 0]
        if not summary:  # a truncation counts messages that a summary stands for, and hides them once more
            covered = {s.draft.start for group in after.values() for s in group}
            tagged = [s for s in tagged if s.draft.start not in covered]
        tagged.sort(key=lambda s: s.draft.start)
        after[cut.id] = tagged
        yield from _observe_hidden(cut, tagged, rows, session)


def _observe_hidden(cut: _Cut, tagged: Sequence[Placed], rows: Sequence[Placed], session: Session) -> Iterator[ObservedEdit]:
    """The runs of messages that a cut hides; its summary or marker stands in the last of them."""
    summary = bool(cut.entry.get("isSummary"))
    role = as_string(cut.entry.get("role")) or "user"
    content = cut.entry.get("content")
    raws: Iterable[JSON] = content if isinstance(content, list) else [content]
    body = tuple(make_part(role, raw, fence=not summary) for raw in raws if isinstance(raw, (str, dict)))
    text = f"Roo condensed {len(tagged)} messages" if summary else f"Roo hid {len(tagged)} messages"
    runs = _group_runs([s.span for s in tagged])
    start = next((s.draft.start for s in rows if s.stored > cut.place), None)
    if not runs and start is None:
        return
    reach = runs[-1].stop if runs else start or 0
    n = next((r.n for r in session.requests[cut.request :] if r.cut >= reach), None)
    if n is None:
        return
    for span in runs:
        parts = body if span == runs[-1] else ()
        yield ObservedEdit(n, Edit("condense" if summary else "drop", text, span, parts, facts={"messages": len(tagged)}))
    if not runs and body:
        slot = f"{'summary' if summary else 'marker'} {cut.id}".strip()
        text += "; they are no longer in its files"
        yield ObservedEdit(n, Edit("insert", text, Span(reach, reach), body, slot=slot))


def _iter_cuts(folder: Folder) -> Iterator[_Cut]:
    """Summaries and markers in the stored history, each with its request."""
    reported = [(n, event) for n, call in enumerate(folder.calls) for event in call.after]
    for place, entry in enumerate(folder.history):
        if not entry.get("isSummary") and not entry.get("isTruncationMarker"):
            continue
        summary = bool(entry.get("isSummary"))
        key, say, what = (
            ("condenseId", "condense_context", "contextCondense")
            if summary
            else ("truncationId", "sliding_window_truncation", "contextTruncation")
        )
        id = as_string(entry.get(key))
        shown = [(n, e) for n, e in reported if e.get("say") == say]
        own = [(n, e) for n, e in shown if id and isinstance(e.get(what), dict) and e[what].get(key) == id]
        n, event = (own or shown or [(max(0, len(folder.calls) - 1), {})])[-1]
        yield _Cut(
            entry,
            id,
            min(n + _is_answered_before(folder.calls[n], event), len(folder.calls) - 1) if folder.calls else 0,
            place=place,
        )


def _is_answered_before(call: Call, event: Mapping[str, JSON]) -> bool:
    """Whether a request was already answered when it happened: then the next request is the first to show it."""
    for other in call.after:
        if other is event:
            return False
        if _ANSWERING & {as_string(other.get("say")), as_string(other.get("ask"))}:
            return True
    return False


def _group_runs(spans: Sequence[Span]) -> list[Span]:
    """Rising spans, neighbours joined."""
    runs: list[Span] = []
    for span in spans:
        if runs and runs[-1].stop == span.start:
            runs[-1] = Span(runs[-1].start, span.stop)
        else:
            runs.append(span)
    return runs
