"""What a tool's own log does not show of what it sent: a session from the wire beside the same session from the log.

Pure functions of two sessions. Texts are compared whole, wherever they stand; a text of the log that stands within one that was
sent counts as far as it goes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from turnscope.session.model import BUCKETS, COUNT_REQUESTS, JSON, SIDE, Block, Bucket, Request, Session
from turnscope.views.phrases import format_usd
from turnscope.views.side_requests import describe_kind
from turnscope.views.total_cost import CostShare, TotalCost

LEAST_CHARS = 64  # a shorter text stands within another one by chance
NAMES = {
    "system": "system prompt",
    "tools": "tools",
    "messages": "messages",
    "tool_results": "tool results",
    "thinking": "thinking",
}


@dataclass(frozen=True, slots=True)
class BucketShare:
    """The texts of one bucket, each once, in characters: sent; of these in the log; in the log and not sent like that."""

    bucket: str
    sent: int
    logged: int
    unsent: int

    @property
    def share(self) -> float:
        """The share of what was sent that the log holds, from 0 to 1."""
        return self.logged / self.sent if self.sent else 1.0


@dataclass(frozen=True, slots=True)
class WireReport:
    """What was sent, beside what a log holds of it.

    Attributes:
        tool: Name of the log's importer.
        requests: Requests of the conversation and its subagents that were answered.
        logged: Of these, requests that the log has.
        side: Requests beside the conversation by kind, with their cost, and how many of them the log has.
        failed: Attempts that failed.
        counts: Requests for a count of tokens.
        buckets: Texts by bucket.
    """

    tool: str
    requests: int
    logged: int
    side: tuple[tuple[str, CostShare, int], ...]
    failed: int
    counts: int
    buckets: tuple[BucketShare, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the log does not tell, each as a sentence without its full stop; () = it tells all."""
        found = [f"it has {self.logged:,} of {self.requests:,} requests"] if self.logged < self.requests else []
        for one in self.buckets:
            if one.sent and one.share < 0.995:
                much = f"{one.share:.0%}" if one.logged else "nothing"
                found.append(f"it holds {much} of the {NAMES[one.bucket]}, {one.sent:,} characters")
            if one.unsent > max(LEAST_CHARS, one.sent // 100):
                found.append(f"it holds {one.unsent:,} characters of {NAMES[one.bucket]} that were not sent like that")
        for kind, share, logged in self.side:
            if logged < share.requests:
                number = f"{logged:,} of " if logged else "nothing of "
                found.append(f"it has {number}{describe_kind(kind, share.requests)}, {format_usd(share.usd)}")
        if self.failed:
            found.append(f"{self.failed:,} attempts failed before they were answered")
        if self.counts:
            found.append(f"{self.counts:,} requests were for a count of tokens")
        return tuple(found)


def report_wire(wire: Session, logs: Sequence[Session], bill: TotalCost) -> WireReport:
    """Report what a log does not show of a session that was recorded on the wire.

    Args:
        wire: The session as it passed a tap, with its subagents and side requests.
        logs: The sessions of the tool's own log that belong to it.
        bill: What the session cost.
    """
    sent = [one for one in _iter_sessions([wire]) if not one.about.get(SIDE)]
    side = [one for one in _iter_sessions([wire]) if one.about.get(SIDE)]
    known = [*_iter_sessions(logs)]
    requests = [request for one in known for request in one.requests]
    answered = [request for one in sent for request in one.requests if request.usage]
    left = _match(answered, requests)
    kinds = []
    for kind, share in bill.side:
        own = [request for one in side if one.about[SIDE] == kind for request in one.requests if request.usage]
        kinds.append((kind, share, len(own) - len(_match(own, requests))))
    counts = wire.about.get(COUNT_REQUESTS)
    return WireReport(
        tool=logs[0].source if logs else "",
        requests=len(answered),
        logged=len(answered) - len(left),
        side=tuple(kinds),
        failed=sum(request.attempts - 1 for one in sent for request in one.requests),
        counts=counts if isinstance(counts, int) else 0,
        buckets=tuple(_compare_texts(sent, side, known)),
    )


def _iter_sessions(sessions: Iterable[Session]) -> Iterator[Session]:
    for one in sessions:
        yield one
        yield from _iter_sessions((*one.subagents, *one.branches))


def _match(sent: Sequence[Request], known: Sequence[Request]) -> list[Request]:
    """The requests that a log does not have: neither by the id of the answer nor by what was billed."""
    ids = {request.id for request in known if request.id}
    billed = Counter(_read_billed(request) for request in known)
    left = []
    for request in sent:
        if request.id not in ids and billed[_read_billed(request)] <= 0:
            left.append(request)
        billed[_read_billed(request)] -= 1
    return left


def _read_billed(request: Request) -> tuple[int, int]:
    return (request.usage.prompt_tokens, request.usage.output_tokens) if request.usage else (-1, -1)


def _compare_texts(sent: Sequence[Session], side: Sequence[Session], known: Sequence[Session]) -> Iterator[BucketShare]:
    texts, others = _collect_texts(sent), _collect_texts(known)
    everywhere = {text for found in others.values() for text in found}
    sent_anywhere = {text for found in (texts, _collect_texts(side)) for some in found.values() for text in some}
    rest = [text for text in everywhere - sent_anywhere if len(text) >= LEAST_CHARS]
    for bucket in BUCKETS:
        own = texts[bucket]
        equal = sum(len(text) for text in own if text in everywhere)
        equal += sum(max((len(one) for one in rest if one in text), default=0) for text in own - everywhere)
        missed = others[bucket] - sent_anywhere
        unsent = sum(len(text) for text in missed if len(text) >= LEAST_CHARS and not any(text in one for one in own))
        yield BucketShare(bucket.value, sum(map(len, own)), equal, unsent)


def _collect_texts(sessions: Iterable[Session]) -> dict[str, set[str]]:
    """The texts of some sessions by bucket, each once."""
    found: dict[str, set[str]] = {bucket: set() for bucket in BUCKETS}
    for session in sessions:
        for block in session.blocks:
            found[block.bucket].update(_read(block))
    return found


def _read(block: Block) -> Iterator[str]:
    """The texts of a block. A tool's result may be an object, whose texts are looked at one by one."""
    text = block.text.strip()
    if block.bucket is Bucket.TOOL_RESULTS and text.startswith("{"):
        with suppress(ValueError, RecursionError):
            yield from (leaf.strip() for leaf in _iter_leaves(json.loads(text)) if leaf.strip())
            return
    if text:
        yield text


def _iter_leaves(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _iter_leaves(one)
