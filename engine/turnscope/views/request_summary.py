"""One request as a page shows it: its bar, its cards, its blocks in groups, and a sentence about it.

Pure functions of an `Overview`, a `Trace` and the items of `views.detail`. No HTML: session text stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from turnscope.counting.reconciliation import HIDDEN_CELLS, Ints, Terms
from turnscope.planning.first_request import get_prompt_prior
from turnscope.planning.trace import Trace
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import BUCKETS
from turnscope.views import slots
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.columns import WARN_AT
from turnscope.views.detail import Item
from turnscope.views.events import CUT_KINDS, describe_event
from turnscope.views.findings import Finding, format_headline, mark_breaks, rank_findings
from turnscope.views.overview import CELLS, Overview
from turnscope.views.summary_requests import infer_summary_requests

SEGMENT_ORDER = (
    *HIDDEN_CELLS,
    "system",
    "tools",
    "messages",
    "tool_results",
    "thinking",
    "unattributed",
)  # from left to right in the bar
MIN_OVERCOUNT = 0.005  # of the prompt, counted beyond what was billed; less needs no note


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a request.

    Attributes:
        tokens: reconciled tokens, never negative; those of a request sum to its prompt.
        usd: what this part of the prompt cost.
        change: tokens against the previous request.
        mark: measured, estimated or inferred.
    """

    name: str
    tokens: int
    share: float
    usd: float
    change: int
    mark: str


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """One request in numbers: provider tokens and USD.

    Attributes:
        window, reserve: 0 where unknown.
        previous_segments: those of the previous request, where something was cut in between; else empty.
        total: USD of the prompt and the answer.
        counted: the answer was counted here, because its record cannot be true or is missing.
        logged_usd: USD that the log states.
        read, written, uncached: prompt tokens by how they were billed.
        events: kind and description of what happened.
        notes: caveats about these numbers, in sentences.
        injected: what the tool injected: word and tokens, the largest first.
        inserts: what the policy inserted: slot, bucket and tokens, the largest first.
        seconds: from sending to the end of the answer; 0 where the log does not say.
    """

    n: int
    turn: int
    model: str
    prompt: int
    recorded: bool
    window: int
    reserve: int
    segments: tuple[Segment, ...]
    previous_segments: tuple[Segment, ...]
    total: Decimal | None
    answer: int
    answer_usd: float
    counted: bool
    logged_usd: float | None
    read: int
    written: int
    uncached: int
    events: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    sentence: str
    injected: tuple[tuple[str, int], ...] = ()
    inserts: tuple[tuple[str, str, int], ...] = ()
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        """Tokens of the answer per second; 0 where the log has no duration."""
        return self.answer / self.seconds if self.seconds else 0.0

    @property
    def free(self) -> int:
        """Tokens of the window that the prompt leaves free; 0 without a known window."""
        return max(0, self.window - self.prompt)

    @property
    def fill(self) -> float:
        """The prompt as a share of the window; 0 without a known window."""
        return self.prompt / self.window if self.window else 0.0

    @property
    def warn_at(self) -> int:
        """Tokens from which a prompt is close to being cut."""
        return round(self.window * WARN_AT)


def summarize_request(view: Overview, trace: Trace, n: int) -> RequestSummary:
    """Summarize one request.

    Args:
        view: the overview of the session.
        trace: the trace of the same session.
        n: number of the request.
    """
    request = trace.plans[n].request
    events = [marker for marker in view.markers if marker.request == n]
    cut = any(marker.kind in CUT_KINDS for marker in events)
    reserve = request.settings.get("max_tokens") or request.settings.get("max_completion_tokens")
    billed = view.billed[n].sum(axis=0)
    return RequestSummary(
        n=n,
        turn=int(view.turns[n]),
        model=view.models[n],
        prompt=view.get_prompt(n),
        recorded=bool(view.recorded[n] >= 0),
        window=int(view.windows[n]),
        reserve=reserve if isinstance(reserve, int) else 0,
        segments=_build_segments(view, n),
        previous_segments=_build_segments(view, n - 1) if cut and n else (),
        total=view.totals[n],
        answer=int(view.answers[n]),
        answer_usd=float(view.answer_usd[n]),
        counted=request.output_stub or request.usage is None,
        logged_usd=request.logged_usd,
        read=int(billed[0]),
        written=int(billed[1]),
        uncached=int(billed[2]),
        events=tuple((marker.kind, describe_event(marker.kind, marker.what)) for marker in events),
        notes=list_notes(trace, n),
        sentence=format_headline(view, n),
        injected=_count_injected(view, trace, n),
        inserts=slots.describe_slots(trace.plans[n].seen, view.list_bucket_scales()[n].tolist()),
        seconds=max(0.0, (request.answered_at or 0) - request.sent_at) if request.sent_at is not None else 0.0,
    )


def list_notes(trace: Trace, n: int) -> tuple[str, ...]:
    """List caveats about the numbers of a request: how far off they may be, and why.

    Args:
        trace: the trace.
        n: number of the request.
    """
    terms, counted = trace.get_terms(n), trace.plans[n].seen.tokens
    caveats = []
    if terms.cut:
        caveats.append(
            f"about {terms.cut:,} tokens of what the log holds were cut by the tool; its log does not say which,"
            " so every part of the conversation is drawn smaller"
        )
    over, usage = terms.overcounted / max(1, terms.predict(counted)), trace.plans[n].request.usage
    if usage and usage.iterations:
        caveats.append("the provider worked in several passes; the recorded prompt is that of the last one")
    elif over >= MIN_OVERCOUNT:
        caveats.append(f"counted {over:.1%} more than was billed; the parts are drawn that much smaller")
    caveats += [each.sentence for each in infer_summary_requests(trace) if each.request == n]
    if (prior := get_prompt_prior(trace.session))[0] and terms.prefix:
        caveats.append(f"system prompt and tools are taken from {prior[1]}: about {prior[0]:,} tokens")
    if terms.error:
        caveats.append(f"estimated ±{terms.error:.1%}{_describe_uncut(terms)}")
    elif terms.error is None:
        caveats.append("estimated; the log records no tokens to compare it with")
    return tuple(caveats)


def _describe_uncut(terms: Terms) -> str:
    """What an estimate holds that the tool had already cut."""
    if not terms.max_overestimate:
        return ""
    return (
        f"; the tool had cut about {terms.max_overestimate:,} tokens here that its log does not name: it may be that much less"
    )


def _count_injected(view: Overview, trace: Trace, n: int) -> tuple[tuple[str, int], ...]:
    counted: dict[str, int] = {}
    for piece in trace.plans[n].seen.pieces:
        if piece.body is None:
            for block in trace.session.blocks[piece.start : piece.stop]:
                if block.kind in INJECTED_KINDS:
                    counted[block.kind] = counted.get(block.kind, 0) + trace.ledger.count_tokens(block.at, block.at + 1)
    scale = float(view.scales[n])
    return tuple(
        (INJECTED_KINDS[kind], round(count * scale)) for kind, count in sorted(counted.items(), key=lambda row: -row[1])
    )


def _build_segments(view: Overview, n: int) -> tuple[Segment, ...]:
    prompt = max(1, view.get_prompt(n))
    found: list[Segment] = []
    for name in SEGMENT_ORDER:
        i = CELLS.index(name)
        tokens = int(view.cells[n, i])
        change = tokens - int(view.cells[n - 1, i]) if n else tokens
        inferred = name in HIDDEN_CELLS or (name == "tools" and view.inferred_tools)
        mark = "inferred" if inferred else "measured" if name == "unattributed" else "estimated"
        found.append(
            Segment(name=name, tokens=tokens, share=tokens / prompt, usd=float(view.usd[n, i]), change=change, mark=mark)
        )
    return tuple(found)


def find_opening_request(view: Overview) -> int:
    """Find the request to show first: the fullest one before the largest cut, else the fullest of all."""
    largest = find_largest_cut(view)
    prompts = view.prompts[: largest.request] if largest else view.prompts
    since = max((cut.request for cut in find_cuts(view) if largest and cut.request < largest.request), default=0)
    return since + int(prompts[since:].argmax()) if len(prompts) else 0


def find_largest_cut(view: Overview) -> Cut | None:
    """Find the cut that removed most. Clearings count only where there is no other cut. None = nothing was cut."""
    found = [cut for cut in find_cuts(view) if cut.request]
    return max([cut for cut in found if cut.kind != "clear"] or found, key=lambda cut: cut.before - cut.after, default=None)


def annotate(trace: Trace, view: Overview) -> tuple[Overview, tuple[Finding, ...]]:
    """Add cache misses to the markers of an overview, and find what stands out in the session.

    Args:
        trace: the session as recorded.
        view: its overview.
    """
    broken = find_breaks(trace)
    marks = sorted((*view.markers, *mark_breaks(broken)), key=lambda marker: marker.request)
    return replace(view, markers=tuple(marks)), rank_findings(trace, view, broken)


def describe_buckets(trace: Trace, requests: Sequence[int], most: int = 3) -> list[tuple[str, str, str, str, str]]:
    """Describe the content of each bucket of some requests, the largest first: "Read 41,200 · Bash 9,800".

    Reads every piece of these requests, so pass only the requests on the screen.

    Args:
        trace: the trace.
        requests: numbers of the requests.
        most: kinds of content per bucket.
    """
    blocks = trace.session.blocks
    names = sorted({(BUCKETS.index(block.bucket), block.name or block.kind) for block in blocks})
    column = {name: i for i, name in enumerate(names)}
    sums = np.zeros((len(blocks) + 1, len(names)), dtype=np.int64)
    for block in blocks:
        sums[block.at + 1, column[BUCKETS.index(block.bucket), block.name or block.kind]] = trace.ledger.count_tokens(
            block.at, block.at + 1
        )
    sums = sums.cumsum(axis=0)
    found = []
    for n in requests:
        counted, stood = np.zeros(len(names), dtype=np.int64), np.zeros(5, dtype=np.int64)
        for piece in trace.plans[n].seen.pieces:
            if piece.body is None:
                counted += sums[piece.stop] - sums[piece.start]
            else:
                stood += piece.counts
        found.append(_format_buckets(names, counted, stood=stood, terms=trace.get_terms(n), most=most))
    return found


def _format_buckets(
    names: list[tuple[int, str]], counted: Ints, stood: Ints, terms: Terms, most: int
) -> tuple[str, str, str, str, str]:
    sizes: list[list[tuple[int, str]]] = [[] for _ in BUCKETS]
    for (bucket, name), tokens in zip(names, counted.tolist(), strict=True):
        sizes[bucket].append((tokens, INJECTED_KINDS.get(name, name.replace("_", " "))))
    for bucket, tokens in enumerate(stood.tolist()):
        sizes[bucket].append((tokens, "placeholders"))
    texts = [
        " · ".join(
            f"{name} {round(size * terms.get_scale(bucket)):,}" for size, name in sorted(row, reverse=True)[:most] if size
        )
        for bucket, row in enumerate(sizes)
    ]
    return (texts[0], texts[1], texts[2], texts[3], texts[4])


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks of one request with the same tool and subject, or of the same kind. `text` is that of the largest block."""

    label: str
    bucket: str
    count: int
    tokens: int
    share: float
    state: str
    text: str


def group_items(items: Iterable[Item], whole: int, most: int = 12) -> tuple[Group, ...]:
    """Group items, the largest groups first.

    Args:
        items: those of `views.detail`.
        whole: tokens that shares refer to.
        most: groups.
    """
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        label = f"{item.label} (call)" if item.kind == "tool_use" else item.label
        groups.setdefault((label, item.bucket), []).append(item)
    ranked = sorted(groups.items(), key=lambda pair: -sum(item.tokens for item in pair[1]))
    return tuple(_build_group(label, bucket, members, whole) for (label, bucket), members in ranked[:most])


def _build_group(label: str, bucket: str, members: list[Item], whole: int) -> Group:
    tokens = sum(item.tokens for item in members)
    largest = max(members, key=lambda item: item.tokens)
    return Group(
        label=label,
        bucket=bucket,
        count=len(members),
        tokens=tokens,
        share=tokens / max(1, whole),
        state=largest.state,
        text=largest.text,
    )


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut or a clearing: prompt tokens of the previous request and of this one."""

    request: int
    kind: str
    what: str
    before: int
    after: int


def find_cuts(view: Overview) -> tuple[Cut, ...]:
    """List every cut and clearing of a session, in order. Several at one request count once."""
    found: dict[int, Cut] = {}
    prompts = view.prompts
    for marker in view.markers:
        if marker.kind in CUT_KINDS and marker.request not in found:
            before, after = int(prompts[max(0, marker.request - 1)]), int(prompts[marker.request])
            found[marker.request] = Cut(request=marker.request, kind=marker.kind, what=marker.what, before=before, after=after)
    return tuple(found.values())
