"""One request on a page: the way to the others, its blocks and what changed; and a range of requests, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st
from turnscope.numbering import format_request, format_requests
from turnscope.views import ranges, request_summary, window_cuts
from turnscope.views.detail import Detail
from turnscope.views.detail import build_detail as detail_of

from pages.parts import cards, opening, theme, url, widgets
from pages.parts.components import define_component
from pages.parts.formats import format_percent, format_tokens, format_usd

STATIC, STATIC_ROWS = ("system", "tools"), 40  # the buckets of what stands before all messages; rows that are listed
_SOUGHT = "transcript.sought"  # in the session state: why somebody came for that block
_BROWSER = Path(__file__).parent / "browser"
_navigator = define_component(
    "turnscope_navigator",
    html=theme.read_files(_BROWSER, "navigator.html"),
    css=theme.read_files(_BROWSER, "navigator.css"),
    js=theme.NUMBERING + theme.read_files(_BROWSER, "navigator.js"),
)


def draw_navigator(
    shown: opening.ShownSession, chart: str, at: int, more: Callable[[tuple[int, int]], None] | None = None
) -> None:
    """Previous, next, go to, and the chart's clicks.

    Args:
        shown: the session that is shown.
        chart: key of the chart.
        at: number of the request.
        more: draws what else can be done with the range that is drawn.
    """
    marks = sorted({marker.request for marker in shown.view.markers if marker.kind not in ("subagent", "side")})
    span = url.get_span("range", len(shown.view))
    _mount_navigator(
        chart,
        session=f"{shown.entry.id}:{shown.part}",
        at=at,
        marks=marks,
        sizes=shown.view.prompts.tolist(),
        go=url.go_to_request,
        span=span,
        mark=lambda start, stop: url.set_span("range", (start, stop)),
    )
    _draw_range(shown, more)


def find_next_cut(shown: opening.ShownSession, at: int) -> request_summary.Cut | None:
    """The next request at which something was taken out of the window; None after the last of them.

    Args:
        shown: the session that is shown.
        at: number of the request.
    """
    return next((cut for cut in request_summary.find_cuts(shown.view) if cut.request > at), None)


def find_lost_link(shown: opening.ShownSession, at: int) -> str:
    """The address of what was lost at the cut of this request, else at the next one; "" = nothing is cut from here on.

    Args:
        shown: the session that is shown.
        at: number of the request.
    """
    ahead = next((cut.request for cut in window_cuts.list_cuts(shown.view) if cut.request >= at), None)
    return "" if ahead is None else url.make_link(shown, "lost", request=ahead)


def summarize(shown: opening.ShownSession, at: int) -> request_summary.RequestSummary:
    """Numbers of the request.

    Args:
        shown: the session that is shown.
        at: number of the request.
    """
    return request_summary.summarize_request(shown.view, shown.trace, at)


def draw_blocks(shown: opening.ShownSession, now: request_summary.RequestSummary) -> None:
    """What filled the request, what changed, what was answered, and the exact body.

    Args:
        shown: the session that is shown.
        now: numbers of the request.
    """
    detail = detail_of(shown.trace, shown.view, now.n)
    largest = cards.render_panel(
        "Largest blocks",
        cards.render_largest(request_summary.group_items(detail.items, now.prompt, 10**9)),
        "tokens, by tool and file",
    )
    changed = cards.render_panel("Changes since the previous request", cards.render_changes(detail), "tokens added and removed")
    answer = cards.render_panel("Output", cards.render_answer(detail), f"{format_tokens(now.answer)} tokens")
    static = _render_static(detail, now)
    st.html(f'<div class="ts-panels">{largest}<div style="display:grid;gap:12px">{changed}{answer}{static}</div></div>')


def _render_static(detail: Detail, now: request_summary.RequestSummary) -> str:
    """The system prompt and each tool with its tokens; "" where the log does not hold them."""
    items = [item for item in detail.items if item.bucket in STATIC]
    if not items:
        return ""
    groups, whole = request_summary.group_items(items, now.prompt, 10**9), sum(item.tokens for item in items)
    body = cards.render_largest(groups, STATIC_ROWS)
    return cards.render_panel("System prompt and tools", body, f"{format_tokens(whole)} tokens")


def _draw_range(shown: opening.ShownSession, more: Callable[[tuple[int, int]], None] | None) -> None:
    """The range in numbers, with a way to the request where it grew most; nothing where none is drawn."""
    span = url.get_span("range", len(shown.view))
    if span is None:
        return
    found = ranges.summarize_range(shown.view, *span)
    only = found.requests == 1
    where = f"Request{'' if only else 's'} {format_requests(found.start, found.stop)}{'' if only else f' ({found.requests:,})'}"
    facts = [
        f"{format_tokens(found.tokens)} tokens sent",
        f"{format_percent(found.repeated_share)} repeated input",
        f"peak {format_tokens(found.peak)}",
    ]
    facts.insert(1, format_usd(found.usd) + (f", {found.unpriced:,} without a price" if found.unpriced and found.usd else ""))
    body = "".join(f"<span>{fact}</span>" for fact in (*facts, *found.events))
    if found.growth_request >= 0:
        n = found.growth_request
        link = f'<button type="button" class="ts-go" data-request="{n}">request {format_request(n)} →</button>'
        body += f"<span>grew most at {link} by {format_tokens(found.growth)}</span>"
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="range"):
        st.html(f'<div class="ts-range" data-range="{found.start}-{found.stop}"><b>{where}</b>{body}</div>', width="stretch")
        if more:
            more(span)
        st.button("Clear", key="range.clear", type="tertiary", on_click=url.set_span, args=("range", None))


def _mount_navigator(
    chart: str,
    *,
    session: str,
    at: int,
    marks: Sequence[int],
    sizes: Sequence[int],
    go: Callable[[int], None],
    span: tuple[int, int] | None = None,
    mark: Callable[[int, int], None] | None = None,
) -> None:
    """Previous, next and go to; arrow keys; a cursor on the chart with key `chart`, its clicks, and ranges drawn on it.

    `session`: as `url.read_session` gives it; what the browser says of another one is too late. `span`: requests [start, stop)
    that are marked on the chart; `mark` is called with others.
    """

    key = f"{chart}-navigator"

    def follow_range() -> None:
        sent = widgets.read_report(key, "range")
        if sent and mark and sent["session"] == url.read_session():
            mark(int(sent["start"]), int(sent["stop"]))

    def follow_step() -> None:
        sent = widgets.read_report(key, "go")
        if sent and sent["session"] == url.read_session():
            go(int(sent["request"]))

    colours = theme.get_palette()
    data: dict[str, object] = {
        "session": session,
        "chart": chart,
        "at": at,
        "count": len(sizes),
        "marks": list(marks),
        "sizes": list(sizes),
        "range": span,
    }
    data |= {"colour": colours["text"], "ink": colours["ground"]}
    _navigator(key=key, data=data, default={"go": None, "range": None}, on_go_change=follow_step, on_range_change=follow_range)


def choose_block(shown: opening.ShownSession, at: int, why: str = "") -> None:
    """Choose a block of the transcript.

    Args:
        shown: the session that is shown.
        at: number of the block.
        why: names why somebody came for it; the page scrolls there once for each name.
    """
    url.set_view("block", str(at))
    st.session_state[_SOUGHT] = (shown.key, at, why)


def get_chosen_block(shown: opening.ShownSession, otherwise: int) -> tuple[int, str]:
    """The block of the transcript that the address names, and why somebody came for it, "" = for no reason.

    Args:
        shown: the session that is shown.
        otherwise: number of the block where none is named.
    """
    at = url.get_block(len(shown.trace.session.blocks))
    if at is None:
        return otherwise, ""
    key, sought, why = st.session_state.get(_SOUGHT, ("", 0, ""))
    return at, str(why) if (key, sought) == (shown.key, at) else f"address {at}"
