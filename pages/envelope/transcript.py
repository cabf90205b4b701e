"""Next to the envelope: every block of the session in order, in or out of the request that is shown; one of them in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import streamlit as st
from turnscope import TurnscopeError
from turnscope.numbering import format_requests, format_turn
from turnscope.views import text_search, transcript
from turnscope.views.stored_forms import find_stored_form
from turnscope.views.text_search import Query

from pages.parts import cards, opening, request, search, theme, url, widgets
from pages.parts.components import define_component
from pages.parts.formats import escape, shorten

PAGE = 100
WHICH = {"": "All blocks", "in": "In this request", "out": "Not in it"}
WORDS: dict[transcript.State, str] = {
    "here": "in",
    "replaced": "replaced",
    "absent": "out",
    "unseen": "sent, not seen",
    "later": "later",
}
_BROWSER = Path(__file__).parent / "browser"
_lines = define_component(
    "turnscope_lines",
    html='<div class="list" role="group" aria-label="Transcript"></div>',
    css=theme.read_files(_BROWSER, "lines.css"),
    js=theme.REDRAW + theme.NUMBERING + theme.read_files(_BROWSER, "lines.js"),
)


@st.fragment
def draw(shown: opening.ShownSession, n: int) -> None:
    """The list on the left, the chosen block on the right. A filter or a click draws this alone.

    Args:
        shown: the session that is shown.
        n: number of the request that is shown.
    """
    query = _read_query(shown, n)
    try:
        places = text_search.find_matches(shown.trace, query)
    except TurnscopeError as error:
        st.html(f'<div class="ts-card ts-notice" role="alert"><b>{escape(error.what)}</b><p>{escape(error.hint)}</p></div>')
        return
    newest = max(0, shown.trace.plans[n].request.cut - 1)
    first = sum(at <= newest for at in places) - 1  # the page on which the request ends
    key = f"transcript.start.{shown.key}.{n}.{query}"
    begin = widgets.find_page_start(key, len(places), PAGE, first)
    chosen, sought = request.get_chosen_block(shown, newest)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        widgets.draw_pager(key, len(places), PAGE, begin, "blocks")
        colours = theme.get_palette()
        lines = transcript.build_lines(shown.trace, n, places[begin : begin + PAGE])
        items = [_build_item(line, colours[line.bucket]) for line in lines]
        _draw_lines("transcript-lines", items, at=chosen, choose=lambda at: request.choose_block(shown, at), sought=sought)
    with right:
        _draw_block(shown, n, chosen)


def _read_query(shown: opening.ShownSession, n: int) -> Query:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="transcript-choices"):
        text = st.text_input(
            "Filter the transcript",
            key="transcript.text",
            placeholder="Filter by text",
            label_visibility="collapsed",
            width=190,
            persist_state="session",
        )
        pattern = st.toggle("Regex", key="transcript.regex", persist_state="session")
        role, tool = search.draw_filters("transcript", shown)
        chosen = st.segmented_control(
            "Which blocks",
            list(WHICH),
            default="",
            required=True,
            format_func=WHICH.__getitem__,
            key="transcript.which",
            label_visibility="collapsed",
            persist_state="session",
        )
    which: Literal["", "in", "out"] = "in" if chosen == "in" else "out" if chosen == "out" else ""
    return Query((text or "").strip(), pattern, role, tool, n, which)


def _build_item(line: transcript.Line, colour: str) -> dict[str, object]:
    return {
        "at": line.at,
        "turn": line.turn,
        "role": line.role,
        "kind": line.kind.replace("_", " "),
        "label": line.label if line.tool else "",
        "text": line.text,
        "tokens": f"{line.tokens:,}",
        "state": line.state,
        "word": WORDS[line.state],
        "why": line.because,
        "colour": colour,
    }


def _draw_block(shown: opening.ShownSession, n: int, at: int) -> None:
    """One block in full: where it stands, over which requests the model saw it, and its text."""
    blocks = shown.trace.session.blocks
    if not 0 <= at < len(blocks):
        st.html('<div class="ts-empty">No block yet.</div>')
        return
    line = transcript.build_lines(shown.trace, n, [at])[0]
    spans = next(shown.trace.iter_shown_spans([at]))
    ranges = (format_requests(a, b) for a, b in spans[:6])
    seen = ", ".join(ranges) + (f" and {len(spans) - 6:,} more ranges" if len(spans) > 6 else "")
    several = "s" if len(spans) > 1 or any(b - a > 1 for a, b in spans) else ""
    leaves = cards.render_departure_link(url.make_link(shown, "compare", text=f"#{at}"))
    head = (
        f"#{at:,} · {escape(shorten(line.label, 120))} · {line.role} · turn {format_turn(line.turn)} · {line.tokens:,} tokens"
    )
    sentence = f"Seen by request{several} {seen}." if seen else "No request showed it to the model."
    why = f' <span class="ts-warned">{escape(line.because[:1].upper() + line.because[1:])}</span>' if line.because else ""
    st.html(
        f'<div class="ts-closeup" data-block="{at}"><b title="{escape(line.label)}">{head}</b>'
        f'<div class="ts-small ts-faint">{sentence}{why} {leaves}</div></div>'
    )
    stored = find_stored_form(shown.trace.session, blocks[at], shown.entry.path)
    widgets.draw_text(blocks[at].text, "(no text)", height=260 if stored else 430)
    if stored:
        where = f"in {stored.where}" if stored.where else "in the log"
        size = "which is not in the log's folder" if stored.missing else f"{len(stored.text):,} characters"
        st.html(f'<div class="ts-small ts-faint">Above as sent; below as stored {escape(where)}, {size}</div>')
        if not stored.missing:
            widgets.draw_text(stored.text, height=260)


def _draw_lines(
    key: str, items: Sequence[dict[str, object]], *, at: int, choose: Callable[[int], None], sought: str = ""
) -> None:
    """Lines of the transcript, of which a click chooses one; `at`: the block that is chosen.

    `sought`: names why somebody came for that block; the page scrolls to it, once for each such name.
    """

    def choose_line() -> None:
        sent = widgets.read_report(key, "choose")
        if sent:
            choose(int(sent["at"]))

    _lines(
        key=key,
        data={"items": list(items), "at": at, "sought": sought, "warn": theme.get_palette()["warn"]},
        default={"choose": None},
        on_choose_change=choose_line,
    )
