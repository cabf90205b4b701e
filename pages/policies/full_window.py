"""A policy on a conversation that outgrows its window: at which sizes it acts, and what becomes of the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from turnscope.views.policy_figures import Act, Fate, FullWindow, PolicyFigures

from pages.parts.formats import escape, format_tokens
from pages.policies.strategies import BUCKETS, get_colour

STEP = 50_000  # tokens between two numbers of the axis
ROOM = 30.0  # percent of the ruler that a label takes at least
VERBS = {
    "drop": "drops from",
    "clear": "clears from",
    "strip": "strips from",
    "truncate": "truncates from",
    "condense": "condenses from",
    "warn": "warns from",
    "fallback": "larger model from",
    "refuse": "refuses from",
}
WORDS = {"kept": "", "cleared": "cleared", "dropped": "dropped", "summary": "replaced by a summary", "insert": "inserted"}
SENT = WORDS | {"cleared": "placeholders", "summary": "summary"}


def render(figures: PolicyFigures | None) -> str:
    """The ruler of thresholds, and the strip of what stays; "" where nothing was measured.

    Args:
        figures: the figures of the policy.
    """
    if figures is None or figures.full is None:
        return ""
    full = figures.full
    return (
        f"<h3>Thresholds in a window of {full.window:,} tokens</h3>{_render_ruler(full)}"
        f"<h3>What becomes of a conversation of {format_tokens(sum(fate.before for fate in full.fates))} tokens</h3>"
        f"{_render_fates(full.fates)}<small>Measured on a made conversation with tool results of 3,000 tokens; the "
        f"strips show the request that is shortened most.</small>"
    )


def _render_ruler(full: FullWindow) -> str:
    """The window with a mark at each size at which the policy began to act, and its limit."""
    marks, rows = _place_marks(full)
    first = min((act.before for act in full.acts if act.action != "warn"), default=0)
    bar = f'<i style="width:{100 * first / full.window:.2f}%"></i>' if first else ""
    if full.limit < full.window:
        bar += f'<i class="beyond" style="width:{100 - 100 * full.limit / full.window:.2f}%"></i>'
        bar += f'<u class="limit" style="left:{100 * full.limit / full.window:.2f}%"></u>'
    bar += "".join(f'<u style="left:{100 * min(1, act.before / full.window):.2f}%"></u>' for act in full.acts)
    limit = f"limit of the policy {format_tokens(full.limit)}" if full.limit < full.window else "window"
    free = full.limit - full.window * ROOM / 100, full.limit + full.window * ROOM / 400  # where the limit's label stands
    ticks = [n for n in range(0, full.window, STEP) if not free[0] < n < free[1]]
    axis = "".join(
        f'<span style="left:{100 * n / full.window:.2f}%">{format_tokens(n).replace(".0", "")}</span>' for n in ticks
    )
    axis += f'<span class="limit" style="left:{100 * full.limit / full.window:.2f}%">{limit}</span>'
    words = "; ".join(_describe(act) for act in full.acts) or "it does not act"
    marks = f'<div class="marks" style="--rows:{rows}">{marks}</div>'
    label = escape(f"{words}; {limit}")
    return (
        f'<div class="policy-ruler" role="img" aria-label="{label}">{marks}<div class="bar">{bar}</div>'
        f'<div class="axis">{axis}</div></div>'
    )


def _describe(act: Act) -> str:
    to = f" to {format_tokens(act.after)}" if act.after != act.before else ""
    return f"{VERBS[act.action]} {format_tokens(act.before)}{to}"


def _place_marks(full: FullWindow) -> tuple[str, int]:
    """The labels over the ruler, and in how many rows: those near each other stand in several."""
    if not full.acts:
        return '<span style="left:0;--row:0">does not act on this conversation</span>', 1
    text, ends = "", list[float]()
    for act in full.acts:
        place = 100 * min(1.0, act.before / full.window)
        right = place > 60
        start = place - ROOM if right else place
        row = next((n for n, end in enumerate(ends) if end <= start), len(ends))
        ends[row:] = [start + ROOM, *ends[row + 1 :]]
        side = "right" if right else ""
        text += f'<span class="{side}" style="left:{place:.2f}%;--row:{row}">{_describe(act)}</span>'
    return text, len(ends)


def _render_fates(fates: Sequence[Fate]) -> str:
    """The conversation above, what is sent of it below, to one scale, and bands from each part to what is left of it."""
    whole = sum(fate.before for fate in fates)
    sent = sum(fate.after for fate in fates)
    above = "".join(_render_part(fate, fate.before, whole, WORDS) for fate in fates if fate.before)
    below = "".join(_render_part(fate, fate.after, whole, SENT) for fate in fates if fate.after)
    bands = "".join(_list_bands(fates, whole))
    listed = "".join(f"<li><b>{_name(fate, WORDS)}</b> {_describe_change(fate)}</li>" for fate in fates)
    label = f"{whole:,} tokens become {sent:,}"
    return (
        f'<div class="policy-fates"><div role="img" aria-label="{label}"><div class="strip before">{above}</div>'
        f'<div class="bands">{bands}</div>'
        f'<div class="strip after">{below}</div></div><ul>{listed}<li><b>sent</b> {format_tokens(sent)}</li></ul></div>'
    )


def _render_part(fate: Fate, tokens: int, whole: int, words: dict[str, str]) -> str:
    width = 100 * tokens / whole
    name = _name(fate, words)
    shown = name if width * 6 > 6 * len(name) + 14 and fate.state in ("dropped", "summary", "cleared") else ""
    style = f"width:{width:.2f}%;--part:{get_colour(fate.bucket or 'messages')}"
    thin = "" if shown else " thin"
    return f'<i class="{fate.state}{thin}" style="{style}" title="{name}: {tokens:,} tokens">{shown}</i>'


def _name(fate: Fate, words: dict[str, str]) -> str:
    """A part in words: "tool results, cleared"."""
    word = "rewritten" if fate.state == "cleared" and fate.after > fate.before else words[fate.state]
    return ", ".join(filter(None, (BUCKETS.get(fate.bucket, "older blocks"), word)))


def _describe_change(fate: Fate) -> str:
    if fate.before == fate.after:
        return f"{format_tokens(fate.before)} verbatim"
    return f"{format_tokens(fate.before)} → {format_tokens(fate.after)}" if fate.before else format_tokens(fate.after)


def _list_bands(fates: Sequence[Fate], whole: int) -> Iterator[str]:
    """A band from each part of the upper strip to what is left of it in the lower one."""
    tops, lows = [0], [0]
    for fate in fates:
        tops.append(tops[-1] + fate.before)
        lows.append(lows[-1] + fate.after)
    for fate, (a, b), (c, d) in zip(fates, pairwise(tops), pairwise(lows), strict=True):
        if fate.before and fate.after:
            (left, right), (end, start) = ([100 * edge / whole for edge in edges] for edges in ((a, b), (d, c)))
            shape = f"{left:.2f}% 0,{right:.2f}% 0,{end:.2f}% 100%,{start:.2f}% 100%"
            tone = f"background:{get_colour(fate.bucket or 'messages')};opacity:{0.28 if fate.state == 'kept' else 0.14}"
            yield f'<i style="clip-path:polygon({shape});{tone}"></i>'
