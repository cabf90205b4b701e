"""What an agent sent beside its conversation, in words: how often, and for how much."""

from __future__ import annotations

from turnscope.session.model import COUNT_REQUESTS, Session
from turnscope.views.phrases import format_usd
from turnscope.views.total_cost import TotalCost

KINDS = {
    "title": ("title", "titles"),
    "summary": ("summary", "summaries"),
    "check": ("check", "checks"),
    "quota": ("check of the quota", "checks of the quota"),
    "retry": ("answer that broke off and was requested again", "answers that broke off and were requested again"),
    "other": ("other", "others"),
}


def describe_kinds(bill: TotalCost) -> str:
    """Describe the requests beside a conversation by kind, the dearest first: "11 summaries $0.310, 1 title $0.0004"."""
    dearest = sorted(bill.side, key=lambda one: (-(one[1].usd or 0), -one[1].requests))
    return ", ".join(f"{describe_kind(kind, share.requests)} {format_usd(share.usd)}" for kind, share in dearest)


def describe_kind(kind: str, count: int) -> str:
    """Describe how many requests of one kind there are: "11 summaries".

    Args:
        kind: The kind.
        count: How many.
    """
    return _count(count, *KINDS.get(kind, KINDS["other"]))


def describe_side_requests(bill: TotalCost, session: Session) -> str:
    """The same with what cost nothing: attempts that failed, and counts of tokens; "" where nothing stands beside.

    Args:
        bill: What the session cost.
        session: The session.
    """
    found = [text] if (text := describe_kinds(bill)) else []
    if again := sum(request.attempts - 1 for request in session.requests):
        found.append(_count(again, "failed attempt", "failed attempts"))
    counts = session.about.get(COUNT_REQUESTS)
    if isinstance(counts, int) and counts:
        found.append(f"{_count(counts, 'count of tokens', 'counts of tokens')}, free")
    return ", ".join(found) if bill.side or isinstance(counts, int) else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
