"""What was lost at a cut of the window: what replaced it, what left by kind and file, what was needed again, and what it saved.

Pure functions of the session as recorded. Which sentence of a summary covers an item, and what later answers needed, are
matches of identifiers: lower bounds, and no facts of the log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from turnscope.envelope.identifiers import find_identifiers
from turnscope.envelope.pieces import Decision
from turnscope.planning.foreign_summaries import get_summary_block
from turnscope.planning.trace import Trace
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import Block, Session
from turnscope.views import decision_log
from turnscope.views.findings import CUT_ACTIONS
from turnscope.views.labels import find_subject, label_block
from turnscope.views.losses import LostReference, find_losses_of
from turnscope.views.overview import Overview
from turnscope.views.request_summary import Cut, find_cuts
from turnscope.views.window_cut_cost import CutCost, compute_cut_cost

MAX_SENTENCES = 80  # of a summary
MIN_SHARED = 2  # identifiers that a sentence and an item share, unless the sentence names the item's file
MIN_WORDS = 0.4  # of a message's own words; a sentence that has this share of them covers it
MAX_TEXT = 20_000  # characters of an item in which identifiers are looked for
GROUPS = {
    "user": "The user's messages",
    "summaries": "Earlier summaries",
    "files": "Files",
    "commands": "Command output",
    "searches": "Searches and pages",
    "results": "Other tool results",
    "assistant": "Assistant",
    "thinking": "Thinking",
    "injected": "Injected by the agent",
    "static": "System prompt and tools",
}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"“])|\n+")
_WORD = re.compile(r"[a-z]{4,}")
_BULLET = re.compile(r"^[\s\-*#>]*(?:\d+[.)]\s*)?")


Choice = Literal["all", "used", "back", "uncovered"]
"""All items; those that later answers used or fetched again; that the agent attached again; that no sentence covers."""
CHOICES: tuple[Choice, ...] = get_args(Choice)


@dataclass(frozen=True, slots=True)
class CutItem:
    """Content of one subject that left.

    Attributes:
        blocks: addresses of its blocks.
        tokens: the provider's, at the request before.
        text: of its largest block.
        sentences: numbers, from 1, of the sentences of the summary that cover it.
        needed: the identifiers in it that later answers used again, one for each use.
        needed_at: requests whose answers used them, in order.
        read_again: requests whose tool results have the same subject.
        returned: whether the agent attached it again.
    """

    label: str
    bucket: str
    blocks: tuple[int, ...]
    tokens: int
    text: str
    sentences: tuple[int, ...] = ()
    needed: tuple[str, ...] = ()
    needed_at: tuple[int, ...] = ()
    read_again: tuple[int, ...] = ()
    returned: bool = False


@dataclass(frozen=True, slots=True)
class CutGroup:
    """Items of one kind, the largest first."""

    name: str
    title: str
    items: tuple[CutItem, ...]

    @property
    def tokens(self) -> int:
        """The tokens of all items."""
        return sum(item.tokens for item in self.items)

    @property
    def blocks(self) -> int:
        """How many blocks left."""
        return sum(len(item.blocks) for item in self.items)


@dataclass(frozen=True, slots=True)
class WindowCut:
    """One cut of the window.

    Attributes:
        request: the first request without the content.
        number, count: which cut of the session it is, from 1, and of how many.
        stop: the request of the next cut, or the number of requests.
        spanned: blocks that its decisions are about; some had left the window before.
        step: of the first decision that cut, from 1, as the debugger counts it.
        before, after: provider tokens, as the debugger has them.
        summary: its text; "" where nothing took the place of what left.
        returned: what the agent attached again: label and tokens.
    """

    request: int
    number: int
    count: int
    stop: int
    kind: str
    because: str
    spanned: int
    step: int
    before: int
    after: int
    summary: str
    summary_tokens: int
    sentences: tuple[str, ...]
    groups: tuple[CutGroup, ...]
    returned: tuple[tuple[str, int], ...]
    cost: CutCost

    @property
    def items(self) -> tuple[CutItem, ...]:
        """All items that left."""
        return tuple(item for group in self.groups for item in group.items)

    @property
    def choices(self) -> dict[Choice, int]:
        """Which of its items can be looked at alone, and how many each choice has; those without any are left out."""
        sizes = {choice: sum(map(self._fits(choice), self.items)) for choice in CHOICES}
        return {choice: size for choice, size in sizes.items() if size}

    def select_groups(self, choice: Choice) -> tuple[CutGroup, ...]:
        """Its groups with the items of a choice alone.

        Args:
            choice: one of `CHOICES`.
        """
        fits = self._fits(choice)
        chosen = (replace(group, items=tuple(filter(fits, group.items))) for group in self.groups)
        return tuple(group for group in chosen if group.items)

    def _fits(self, choice: Choice) -> Callable[[CutItem], bool]:
        tests: dict[Choice, Callable[[CutItem], bool]] = {
            "all": lambda _item: True,
            "used": lambda item: bool(item.needed or item.read_again),
            "back": lambda item: item.returned,
            "uncovered": lambda item: bool(self.summary) and not item.sentences,
        }
        return tests[choice]


def build_window_cut(trace: Trace, view: Overview, request: int) -> WindowCut | None:
    """Build what was lost at a request; None where nothing was cut there.

    Args:
        trace: the session as recorded.
        view: its overview.
        request: the request.
    """
    cuts = list_cuts(view)
    number = next((i for i, cut in enumerate(cuts) if cut.request == request), None)
    plan = trace.plans[request]
    acted = [made for made in (*plan.decisions, *plan.server) if made.splice and made.action in CUT_ACTIONS]
    if number is None or not acted or not request:
        return None
    stop = next((cut.request for cut in cuts[number + 1 :]), len(view))
    summary, summary_at, counted = _find_summary(trace, acted)
    sentences = split_sentences(summary)
    items = _build_items(trace, request, sentences, stop)
    returned = tuple(_iter_returned(trace, request, summary_at))
    sizes = decision_log.count_tokens(trace, acted[0])[0], decision_log.count_tokens(trace, acted[-1])[1]
    scale = trace.get_terms(request).scale
    return WindowCut(
        request=request,
        number=number + 1,
        count=len(cuts),
        stop=stop,
        kind=cuts[number].kind,
        because=acted[0].edit.because,
        spanned=sum(made.edit.span.stop - made.edit.span.start for made in acted if made.edit.span),
        step=next((i for i, made in enumerate(plan.decisions, 1) if made is acted[0]), 0),
        before=sizes[0],
        after=sizes[1],
        summary=summary,
        summary_tokens=round(counted * scale),
        sentences=sentences,
        groups=tuple(_group_items(items)),
        returned=returned,
        cost=compute_cut_cost(trace, view, request, stop, removed=max(0, sizes[0] - sizes[1])),
    )


def list_cuts(view: Overview) -> tuple[Cut, ...]:
    """List the cuts of which the log holds what they took out, in order.

    Args:
        view: the overview of the session.
    """
    return tuple(cut for cut in find_cuts(view) if cut.request and cut.kind != "unlogged")


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a summary into its sentences and list points, without the marks before them; headings are left out.

    >>> split_sentences("## Files\\n- app.py holds the loop. It is done.")
    ('app.py holds the loop.', 'It is done.')
    """
    parts = (_BULLET.sub("", part).strip() for part in _SENTENCE.split(text) if not part.lstrip().startswith("#"))
    return tuple(part for part in parts if len(part) > 3 and not part.endswith(":"))[:MAX_SENTENCES]


def _find_summary(trace: Trace, acted: Sequence[Decision]) -> tuple[str, int, int]:
    """The text that took the place of what left, the address of its block (-1 = it is in none), and its counted tokens."""
    for made in acted:
        if (at := get_summary_block(made.edit)) >= 0:
            return trace.session.blocks[at].text, at, trace.ledger.count_tokens(at, at + 1)
    parts = [part for made in acted for part in made.edit.body or () if part.kind == "summary"]
    return "\n".join(part.text for part in parts), -1, trace.ledger.count_parts(parts)


def _list_removed(trace: Trace, request: int) -> list[Block]:
    """Blocks that stood in the request before, or came since, and are not in this one."""
    plans = trace.plans
    cut = plans[request].request.cut
    here, was = np.zeros(cut, dtype=bool), np.zeros(cut, dtype=bool)
    for plan, shown in ((plans[request], here), (plans[request - 1], was)):
        for piece in plan.seen.pieces:
            if piece.body is None:
                shown[piece.start : min(piece.stop, cut)] = True
    was[plans[request - 1].request.cut :] = True
    return [trace.session.blocks[at] for at in np.flatnonzero(was & ~here).tolist()]


def _find_losses(trace: Trace, removed: Sequence[Block], requests: range) -> Mapping[int, list[LostReference]]:
    """The lost references of requests to what left, by its block."""
    found: dict[int, list[LostReference]] = defaultdict(list)
    for hit in find_losses_of(trace, requests, {block.at for block in removed}):
        found[hit.block].append(hit)
    return found


def _build_items(trace: Trace, request: int, sentences: Sequence[str], stop: int) -> list[tuple[str, CutItem]]:
    """Items of what left, each with its group."""
    session, scale = trace.session, trace.get_terms(request - 1).scale
    members: dict[tuple[str, str], list[Block]] = defaultdict(list)
    removed = _list_removed(trace, request)
    lost = _find_losses(trace, removed, range(request, stop))
    for block in removed:
        members[_classify(session, block)].append(block)
    again = _find_results(trace, request, stop)
    attached = " ".join(block.text for block in _list_new(trace, request) if block.kind in INJECTED_KINDS)
    words = [(find_identifiers(sentence), set(_WORD.findall(sentence.lower())), sentence) for sentence in sentences]
    found = []
    for (group, label), blocks in members.items():
        hits = sorted((hit for block in blocks for hit in lost.get(block.at, ())), key=lambda hit: hit.request)
        largest = max(blocks, key=lambda block: trace.ledger.count_tokens(block.at, block.at + 1))
        path = label if group == "files" else ""
        item = CutItem(
            label=label,
            bucket=largest.bucket,
            blocks=tuple(block.at for block in blocks),
            tokens=round(sum(trace.ledger.count_tokens(block.at, block.at + 1) for block in blocks) * scale),
            text=largest.text,
            sentences=tuple(_match_sentences(words, label, blocks, group)),
            needed=tuple(hit.text for hit in hits),
            needed_at=tuple(hit.request for hit in hits),
            read_again=tuple(again.get((group, label), ())) if group != "assistant" else (),
            returned=bool(path) and f"{path}" in attached,
        )
        found.append((group, item))
    return found


def _classify(session: Session, block: Block) -> tuple[str, str]:
    """Group and subject of a block."""
    if block.kind in INJECTED_KINDS:
        return "injected", INJECTED_KINDS[block.kind]
    if block.bucket in ("system", "tools"):
        return "static", label_block(session, block)
    if block.bucket == "thinking":
        return "thinking", "thinking"
    if block.kind == "tool_result":
        call = session.blocks[block.pair] if block.pair >= 0 else block
        return _classify_call(call, block)
    if block.kind == "summary" or session.messages[block.message].origin == "summary":
        return "summaries", "summary of an earlier cut"
    if block.role == "user":
        return "user", " ".join(block.text.split())[:120] or block.kind
    return "assistant", f"calls of {block.name}" if block.kind == "tool_use" else "text"


def _classify_call(call: Block, result: Block) -> tuple[str, str]:
    """Group and subject of a tool result, by what its call names."""
    arguments = call.raw.get("input") if isinstance(call.raw, dict) else None
    keys = arguments if isinstance(arguments, dict) else {}
    path = next((str(keys[key]) for key in ("file_path", "path", "notebook_path") if isinstance(keys.get(key), str)), "")
    label = f"{result.name or call.name or 'tool'} {find_subject(call)}".strip()
    if "command" in keys:
        return "commands", label
    if any(key in keys for key in ("pattern", "query", "url")):
        return "searches", label
    return ("files", path) if path else ("results", label)


def _match_sentences(
    words: Sequence[tuple[set[str], set[str], str]], label: str, blocks: Sequence[Block], group: str
) -> Iterator[int]:
    """Numbers of the sentences that cover an item: that name its file, share identifiers with it, or its words."""
    text = "\n".join(block.text for block in blocks)[:MAX_TEXT]
    if group == "user":
        own = set(_WORD.findall(text.lower()))
        yield from (n for n, (_, vocabulary, _) in enumerate(words, 1) if own and len(own & vocabulary) >= MIN_WORDS * len(own))
        return
    if group not in ("files", "commands", "searches", "results"):
        return
    known, name = find_identifiers(text) | find_identifiers(label), label.rpartition("/")[2] if group == "files" else ""
    yield from (
        n for n, (ids, _, sentence) in enumerate(words, 1) if (name and name in sentence) or len(ids & known) >= MIN_SHARED
    )


def _find_results(trace: Trace, start: int, stop: int) -> Mapping[tuple[str, str], list[int]]:
    """By group and subject, the requests from `start` on that carry a new tool result with it."""
    session, found = trace.session, dict[tuple[str, str], list[int]]()
    for n in range(start, min(stop, len(session.requests)) - 1):
        for block in session.blocks[session.requests[n].cut : session.requests[n + 1].cut]:
            if block.kind == "tool_result":
                found.setdefault(_classify(session, block), []).append(n + 1)
    return found


def _list_new(trace: Trace, request: int) -> tuple[Block, ...]:
    before, now = trace.plans[request - 1].request, trace.plans[request].request
    return trace.session.blocks[before.stop : now.cut]


def _iter_returned(trace: Trace, request: int, summary: int) -> Iterator[tuple[str, int]]:
    """What the agent attached again: label and provider tokens."""
    scale = trace.get_terms(request).scale
    for block in _list_new(trace, request):
        if block.kind in INJECTED_KINDS and block.at != summary:
            words = " ".join(block.text.replace("<system-reminder>", "").split())[:90]
            tokens = round(trace.ledger.count_tokens(block.at, block.at + 1) * scale)
            yield f"{INJECTED_KINDS[block.kind]}: {words}", tokens


def _group_items(items: Iterable[tuple[str, CutItem]]) -> Iterator[CutGroup]:
    found: dict[str, list[CutItem]] = defaultdict(list)
    for group, item in items:
        found[group].append(item)
    for name, title in GROUPS.items():
        if name in found:
            yield CutGroup(name, title, tuple(sorted(found[name], key=lambda item: -item.tokens)))
