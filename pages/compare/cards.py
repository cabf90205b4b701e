"""A card for each policy, on shared scales: cost against the record, lost references, peak fill, cache, rejected requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from turnscope import figures
from turnscope.views import comparison

from pages.parts import policies
from pages.parts.formats import escape, format_factor, format_percent, format_usd

MAX_CARDS = 10  # policies; of more, chart and table show all
MAX_PEAK = 1.25  # the end of the scale of peak fills
MAX_SPARK = 1.1  # share of the window at the top of a sparkline
MAX_PERCENT = 10  # factor of the record up to which the difference stands in percent
_POINTS = 120  # of a sparkline
_EDGE = 4  # percent of its height that its upper edge has
_LOST = "names, paths and numbers that answers use again and that no longer stand in their request"


def render_cards(rows: Sequence[comparison.Row], marks: Sequence[figures.Mark], best: Collection[str]) -> str:
    """All cards, each with the same lines, so that eyes run across.

    Args:
        rows: a row per policy.
        marks: colour and shape of each policy.
        best: names of those that are Pareto-optimal; none while replays are under way.
    """
    most = max((len(row.losses.hits) for row in rows), default=0)
    record = next((len(row.losses.hits) for row in rows if row.policy == policies.RECORDED), None)
    tick = "" if record is None or not most else f'<i class="tick" style="left:{100 * record / most:.1f}%"></i>'
    shown = zip(rows[:MAX_CARDS], marks, strict=False)
    cards = "".join(_render_card(row, mark, row.policy in best, (most, tick)) for row, mark in shown)
    return f'<div class="cmp-cards">{cards}</div>'


def _render_card(row: comparison.Row, mark: figures.Mark, optimal: bool, lost_scale: tuple[int, str]) -> str:
    most, tick = lost_scale
    own = row.policy == policies.RECORDED
    bad = not (row.sendable or own)
    tag = "baseline" if own else '<span class="bad">does not fit</span>' if bad else ""
    tag = '<span class="star">★ optimal</span>' if optimal and not own else tag
    lost, fill = len(row.losses.hits), row.peak[0]
    tone = "bad" if fill > 1 else ""
    name = (
        f'<b class="mark" style="color:{mark.colour}">{mark.text}</b><h2 title="{escape(row.title)}">{escape(row.title)}</h2>'
    )
    return (
        f'<article class="cmp-card{" optimal" if optimal else ""}{" over" if bad else ""}" style="--mark:{mark.colour}">'
        f"<header>{name}<small>{tag}</small></header>{_render_cost(row)}{_render_spark(row)}"
        f'<p title="{_LOST}">lost references <span><b>{lost:,}</b> {format_percent(row.losses.rate)}</span></p>'
        f'<div class="meter"><i style="width:{100 * lost / max(1, most):.1f}%"></i>{tick}</div>'
        f'<p>peak fill <span><b class="{tone}">{fill:.0%}</b></span></p>'
        f'<div class="meter"><i class="{tone}" style="width:{100 * min(fill, MAX_PEAK) / MAX_PEAK:.1f}%"></i>'
        f'<i class="limit" style="left:{100 / MAX_PEAK:.1f}%"></i></div>'
        f"{_render_drops(row)}"
        f"<footer><span>from cache <b>{row.cost.cache_share:.0%}</b></span>{_render_rejected(row)}</footer></article>"
    )


def _render_cost(row: comparison.Row) -> str:
    """Dollars, the factor, and the difference in percent."""
    if row.usd is None:
        return '<div class="cost"><span>no known price</span></div>'
    if row.factor is None:
        return f'<div class="cost"><b>{format_usd(row.usd)}</b></div>'
    change = row.factor - 1
    if row.billed is not None:
        more = "<em>billed</em>"
    elif row.factor > MAX_PERCENT:  # the factor says it
        more = ""
    elif abs(change) < 0.005:
        more = "<em>as the record</em>"
    else:
        tone, sign = ("down", "▼") if change < 0 else ("up", "▲")
        more = f'<em class="{tone}">{sign} {abs(change):.0%}</em>'
    factor = f'<small title="of what the session cost">{format_factor(row.factor)}</small>'
    return f'<div class="cost"><b>{format_usd(row.usd)}</b>{factor}{more}</div>'


def _render_spark(row: comparison.Row) -> str:
    """Prompt sizes as shares of the window, with its limit; what is beyond stands out. An area and its upper edge."""
    shares = [size / max(1, window) for size, window in zip(row.sizes, row.windows, strict=True)]
    step = max(1, -(-len(shares) // _POINTS))
    shown = [max(shares[at : at + step]) for at in range(0, len(shares), step)] or [0.0]
    places = [
        (100 * n / max(1, len(shown) - 1), 100 * (1 - min(share, MAX_SPARK) / MAX_SPARK)) for n, share in enumerate(shown)
    ]
    upper = ",".join(f"{x:.1f}% {y:.1f}%" for x, y in places)
    edge = ",".join(f"{x:.1f}% {y - _EDGE:.1f}%" for x, y in reversed(places))
    limit = 100 * (1 - 1 / MAX_SPARK)
    first = next((x for (x, _), share in zip(places, shown, strict=True) if share > 1), None)
    beyond = "" if first is None else f'<i class="beyond" style="left:{first:.1f}%;height:{limit:.1f}%"></i>'
    return (
        f'<div class="spark" role="img" aria-label="prompt sizes over the session">'
        f'<i class="area" style="clip-path:polygon({upper},100% 100%,0 100%)"></i>'
        f'<i class="edge" style="clip-path:polygon({upper},{edge})"></i>{beyond}'
        f'<i class="limit" style="top:{limit:.1f}%"></i></div>'
    )


def _render_rejected(row: comparison.Row) -> str:
    """Requests that could not be sent, and on hovering why."""
    parts = (
        (row.over_window, "over the window"),
        (len(row.rejected), "with a body that the API rejects"),
        (row.refusals, "refused by the policy"),
    )
    why = "; ".join(f"{many:,} {what}" for many, what in parts if many) or "every request could be sent"
    number = f'<b class="bad">{len(row.unsent):,} of {len(row.sizes):,}</b>' if row.unsent else "<b>0</b>"
    return f'<span title="{escape(why)}">rejected {number}</span>'


def _render_drops(row: comparison.Row) -> str:
    """Why a policy that keeps everything drops something all the same."""
    many = row.foreign_summaries
    if not many or row.decisions.get("drop", 0) != many:
        return ""
    drops, what = ("1 drop", "summary") if many == 1 else (f"{many:,} drops", "summaries")
    hint = "The recorded tool wrote these summaries. This policy decides itself what happens to the messages behind them."
    return f'<p class="note" title="{hint}">{drops}: the recorded tool\'s own {what}</p>'
