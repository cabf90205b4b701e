"""Which policy of a comparison to take, in a sentence or two: the answer before the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.comparison import Row
from turnscope.views.phrases import format_usd

MIN_SHARE = Decimal("0.01")  # of what the record cost; a smaller difference is none


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer of a comparison.

    Attributes:
        best: the row of the cheapest policy that loses no more than the record and is cheaper; None = there is none.
        text: the sentence.
        more: the cheapest of all that could be sent, where that is another one; "" = nothing to add.
    """

    best: Row | None
    text: str
    more: str = ""


def recommend(rows: Sequence[Row], model: str = "") -> Recommendation | None:
    """Recommend one of the policies of a comparison; None where there is nothing to compare.

    Args:
        rows: rows of a comparison, one of which is the record.
        model: the model that all of them ask in place of the recorded one; "" = none.
    """
    record = next((row for row in rows if row.policy == AS_RECORDED), None)
    others = [row for row in rows if row is not record]
    if record is None or not others:
        return None
    sent = [row for row in others if row.sendable]
    if not sent:
        return Recommendation(None, "None of these policies keeps every request within the window.")
    if not record.usd or not any(row.usd is not None for row in sent):
        least = min(sent, key=lambda row: len(row.losses.hits))
        return Recommendation(None, f"{least.title} loses least: {_count_lost(least)}. No price is known for this session.")
    lost, most = len(record.losses.hits), record.usd * (1 - MIN_SHARE)
    cheaper = sorted(
        (row for row in sent if row.usd is not None and row.usd <= most), key=lambda row: (row.usd or 0, len(row.losses.hits))
    )
    best = next((row for row in cheaper if len(row.losses.hits) <= lost), None)
    text = "No policy here is cheaper than the record without losing more."
    if best:
        text = f"{best.title} would have cost {_describe_cost(best, record.usd)}, and lost {_count_lost(best)}."
    more = ""
    if cheaper and cheaper[0] is not best:
        first = cheaper[0]
        cost = format_usd(first.usd) if best else _describe_cost(first, record.usd)
        more = f"{first.title} is cheapest ({cost}), but loses {_count_lost(first)}; the record lost {lost:,}."
    on = f"With {model}, where the record would have cost {format_usd(record.usd)}: " if model else ""
    return Recommendation(best, f"{on}{text}", more)


def _describe_cost(row: Row, was: Decimal) -> str:
    return f"{format_usd(row.usd)}, {1 - float((row.usd or 0) / was):.0%} less"


def _count_lost(row: Row) -> str:
    many = len(row.losses.hits)
    if not many:
        return "no reference"
    return f"{many:,} reference{'' if many == 1 else 's'} ({row.losses.rate:.0%})"
