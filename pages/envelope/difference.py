"""The difference of any two requests: tokens by part, and the blocks that came, went and changed."""

from __future__ import annotations

import streamlit as st
from turnscope.views import detail
from turnscope.views import overview as views

from pages.parts import cards, opening
from pages.parts.formats import signed

OLD, NEW = "difference.old", "difference.new"


@st.fragment
def draw(shown: opening.Shown, n: int) -> None:
    """Two numbers, and what stands between them. They follow the request that is shown until somebody chooses others."""
    last = len(shown.view) - 1
    if st.session_state.get("difference.of") != (shown.key, n):
        st.session_state["difference.of"] = (shown.key, n)
        st.session_state[OLD], st.session_state[NEW] = max(0, n - 1), n
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="difference-choices"):
        old = int(st.number_input("From request", 0, last, key=OLD, width=150))
        new = int(st.number_input("to request", 0, last, key=NEW, width=150))
    found = detail.compare_requests(shown.trace, shown.view, old, new)
    parts = (
        ("Came", cards.deltas(found.added, "+", "ts-up", 12), found.added, 1),
        ("Went", cards.deltas(found.removed, "−", "ts-down", 12), found.removed, -1),
    )
    panels = "".join(
        cards.panel(name, body or '<div class="ts-empty">Nothing.</div>', _many(items, sign))
        for name, body, items, sign in parts
    )
    if found.changed:
        moved = sum(after.tokens - before.tokens for before, after in found.changed)
        told = f"{len(found.changed):,} blocks, {_plus(moved)} tokens"
        panels += cards.panel("Changed where they stand", cards.moved(found.changed), told)
    table = cards.panel("Tokens by part", _table(found), "both columns as the envelope has them")
    st.html(f'<div class="ts-panels even">{table}<div style="display:grid;gap:12px">{panels}</div></div>')


def _many(items: tuple[detail.Item, ...], sign: int) -> str:
    tokens = sum(item.tokens for item in items)
    return f"{len(items):,} block{'' if len(items) == 1 else 's'}, {_plus(sign * tokens)} tokens"


def _plus(tokens: int) -> str:
    return f"+{tokens:,}" if tokens > 0 else signed(tokens)


def _table(found: detail.Difference) -> str:
    """Tokens by part in both requests; both columns sum to what the envelope shows."""
    before, after = found.cells
    rows = [
        (cards.swatch(name) + views.LABELS[name], before[i], after[i])
        for i, name in enumerate(views.CELLS)
        if before[i] or after[i]
    ]
    rows.append(("<b>Whole prompt</b>", *found.prompts))
    body = "".join(
        f"<tr><td>{name}</td><td>{signed(a)}</td><td>{signed(b)}</td><td>{_plus(b - a)}</td></tr>" for name, a, b in rows
    )
    head = f"<tr><th>tokens</th><th>request {found.old}</th><th>request {found.new}</th><th>change</th></tr>"
    return f'<table class="ts-table"><thead>{head}</thead><tbody>{body}</tbody></table>'
