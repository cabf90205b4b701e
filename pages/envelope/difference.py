"""The difference of any two requests: tokens by part, and the blocks that were added, removed and changed."""

from __future__ import annotations

import streamlit as st
from turnscope.numbering import format_request, index_request, number_request
from turnscope.views import detail
from turnscope.views import overview as views

from pages.parts import cards, opening
from pages.parts.formats import format_signed

OLD, NEW = "difference.old", "difference.new"


@st.fragment
def draw(shown: opening.ShownSession, n: int) -> None:
    """Two numbers, and what stands between them. They follow the request that is shown until somebody chooses others.

    Args:
        shown: the session that is shown.
        n: number of the request that is shown.
    """
    last = number_request(len(shown.view) - 1)
    if st.session_state.get("difference.of") != (shown.key, n):
        st.session_state["difference.of"] = (shown.key, n)
        st.session_state[OLD], st.session_state[NEW] = number_request(max(0, n - 1)), number_request(n)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="difference-choices"):
        # Without persist_state, the browser forgets a field that another pane takes away, and the session state does not.
        old = index_request(int(st.number_input("From request", 1, last, key=OLD, width=150, persist_state="session")))
        new = index_request(int(st.number_input("to request", 1, last, key=NEW, width=150, persist_state="session")))
    found = detail.compare_requests(shown.trace, shown.view, old, new)
    parts = (
        ("Added", cards.render_deltas(found.added, "+", "ts-up", 12), found.added, 1),
        ("Removed", cards.render_deltas(found.removed, "−", "ts-down", 12), found.removed, -1),
    )
    panels = "".join(
        cards.render_panel(name, body or '<div class="ts-empty">Nothing.</div>', _describe_items(items, sign))
        for name, body, items, sign in parts
    )
    if found.changed:
        moved = sum(after.tokens - before.tokens for before, after in found.changed)
        summary = f"{len(found.changed):,} blocks, {_format_change(moved)} tokens"
        panels += cards.render_panel("Changed in place", cards.render_resized(found.changed), summary)
    table = cards.render_panel("Tokens by part", _render_table(found), "both columns as the envelope has them")
    st.html(f'<div class="ts-panels even">{table}<div style="display:grid;gap:12px">{panels}</div></div>')


def _describe_items(items: tuple[detail.Item, ...], sign: int) -> str:
    tokens = sum(item.tokens for item in items)
    return f"{len(items):,} block{'' if len(items) == 1 else 's'}, {_format_change(sign * tokens)} tokens"


def _format_change(tokens: int) -> str:
    return f"+{tokens:,}" if tokens > 0 else format_signed(tokens)


def _render_table(found: detail.Difference) -> str:
    """Tokens by part in both requests; both columns sum to what the envelope shows."""
    before, after = found.cells
    rows = [
        (cards.render_swatch(name) + views.LABELS[name], before[i], after[i])
        for i, name in enumerate(views.CELLS)
        if before[i] or after[i]
    ]
    rows.append(("<b>Whole prompt</b>", *found.prompts))
    body = "".join(
        f"<tr><td>{name}</td><td>{format_signed(a)}</td><td>{format_signed(b)}</td><td>{_format_change(b - a)}</td></tr>"
        for name, a, b in rows
    )
    names = ("tokens", *(f"request {format_request(n)}" for n in (found.old, found.new)), "change")
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    return f'<table class="ts-table"><thead>{head}</thead><tbody>{body}</tbody></table>'
