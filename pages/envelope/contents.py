"""What the request consists of, part by part: tokens and dollars in it and over the session; next to it changes and output."""

from __future__ import annotations

import streamlit as st
from turnscope.views import detail, request_contents, request_summary
from turnscope.views.cache_layout import CacheLayout, Shares
from turnscope.views.request_contents import ContentGroup, ContentPart, SessionContents

from pages.parts import cards, opening
from pages.parts.formats import escape, format_percent, format_tokens, format_usd, shorten

FOLDED = ("thinking",)  # groups that are closed at first
COLUMNS = ("Part of the request", "Tokens", "Share", "This request", "Session", "Cache", "All requests")
STATES = {"read": "read", "written": "written", "uncached": "not cached"}
CACHE = "Whether it was read from the prompt cache, written to it, or neither. Its place in the prompt tells."


def draw(shown: opening.ShownSession, now: request_summary.RequestSummary, layout: CacheLayout) -> None:
    """Draw the table, and next to it what changed and what was answered.

    Args:
        shown: the session that is shown.
        now: numbers of the request.
        layout: where its prompt was read from the cache and written to it.
    """
    found = detail.build_detail(shown.trace, shown.view, now.n)
    groups = request_contents.list_contents(_build(shown, shown.key), now.n, found.items, layout=layout)
    place = 100 * (now.n + 0.5) / max(1, len(shown.view))
    head = "".join(f"<span{_describe_column(name)}>{name}</span>" for name in COLUMNS)
    body = "".join(_render_group(group, now.prompt, place) for group in groups)
    table = cards.render_panel(
        "What is in the request",
        f'<div class="ts-parts"><div class="row head">{head}</div>{body}</div>',
        f"{now.prompt:,} tokens{_describe_cost(now)}",
    )
    changed = cards.render_panel("Changes since the previous request", cards.render_changes(found), "tokens added and removed")
    answer = cards.render_panel("Output", cards.render_answer(found), f"{format_tokens(now.answer)} tokens")
    st.html(f'<div style="display:grid;gap:12px">{table}<div class="ts-panels even">{changed}{answer}</div></div>')


def _describe_column(name: str) -> str:
    return f' title="{CACHE}"' if name == "Cache" else ""


@st.cache_resource(max_entries=8, show_spinner="Adding up what each part cost")
def _build(_shown: opening.ShownSession, key: str) -> SessionContents:  # noqa: ARG001  what the cache goes by
    return request_contents.build_contents(_shown.trace, _shown.view)


def _describe_cost(now: request_summary.RequestSummary) -> str:
    spent = sum(segment.usd for segment in now.segments)
    return f" · {format_usd(spent)} of input" if spent else ""


def _render_group(group: ContentGroup, whole: int, place: float) -> str:
    swatch = cards.render_swatch(group.parts[0].bucket)
    cells = _render_cells(group.tokens, whole, usd=group.usd, session=group.session_usd, bucket=group.parts[0].bucket)
    cells += _render_state(group.billed)
    curve = _render_curve(_sum_curves(group), group.parts[0].bucket, place)
    head = f"<summary class='row group'><span>{swatch} <b>{escape(group.title)}</b></span>{cells}{curve}</summary>"
    rows = "".join(_render_part(part, whole, place) for part in group.parts)
    return f"<details {'' if group.name in FOLDED else 'open'}>{head}{rows}</details>"


def _render_part(part: ContentPart, whole: int, place: float) -> str:
    note = f"<small>{escape(part.note)}</small>" if part.note else ""
    hint = escape(shorten(f"{part.label}: {part.text}" if part.text else part.label, 500))
    cells = _render_cells(part.tokens, whole, usd=part.usd, session=part.session_usd, bucket=part.bucket)
    cells += _render_state(part.billed)
    label = _shorten_label(part.label)
    curve = _render_curve(part.curve, part.bucket, place)
    return f'<div class="row"><span title="{hint}">{escape(label)} {note}</span>{cells}{curve}</div>'


def _shorten_label(label: str) -> str:
    """A tool with the last parts of its path, anything else by its beginning."""
    name, _, path = label.partition(" ")
    parts = path.split("/")
    return f"{name} …/{'/'.join(parts[-3:])}" if len(parts) > 4 and " " not in path else shorten(label, 70)


def _render_cells(tokens: int, whole: int, *, usd: float | None, session: float | None, bucket: str) -> str:
    share = tokens / max(1, whole)
    meter = f'<i style="width:{max(1.0, 100 * share):.1f}%;{cards.fill_style(bucket)}"></i>'
    money = "".join(
        f"<span>{'' if amount is None else format_usd(amount)}</span>" for amount in (usd if tokens else None, session)
    )
    if not tokens:
        return f"<span></span><span></span>{money}"
    return f'<span>{tokens:,}</span><span class="share"><em>{meter}</em>{format_percent(share)}</span>{money}'


def _render_state(billed: Shares) -> str:
    """How a part was billed: a dot in the colours of the strip under the bar, and the word."""
    mostly, _, state = billed.state.rpartition(" ")
    hint = ", ".join(f"{tokens:,.0f} {STATES[name]}" for name, tokens in billed._asdict().items() if round(tokens))
    word = f"{mostly} {STATES[state]}".strip() if state else ""
    return f'<span class="state {state}" title="{hint}">{word}</span>'


def _sum_curves(group: ContentGroup) -> tuple[int, ...]:
    size = max(len(part.curve) for part in group.parts)
    return tuple(map(sum, zip(*(part.curve for part in group.parts if len(part.curve) == size), strict=True)))


def _render_curve(curve: tuple[int, ...], bucket: str, place: float) -> str:
    """The tokens of a part over all requests, with a line at the one that is shown."""
    most, last = max(curve, default=0) or 1, max(1, len(curve) - 1)
    edge = "".join(f"{100 * i / last:.1f}% {100 - 92 * tokens / most:.1f}%," for i, tokens in enumerate(curve))
    shape = f"clip-path:polygon(0% 100%,{edge}100% 100%);background:var(--ts-{bucket.replace('_', '-')})"
    return f'<span class="curve"><i style="{shape}"></i><u style="left:{place:.1f}%"></u></span>'
