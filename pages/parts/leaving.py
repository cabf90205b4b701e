"""The way from a text of the session to the compare page, which says when it left the window under each policy."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from pages.parts import components, state
from pages.parts.formats import esc, short


def selected(shown: state.Shown) -> None:
    """Whatever text of a session is selected on the page, a link beside it leads there."""
    with st.container(key="quiet-selecting"):
        components.selecting(_session(shown))


def of_block(shown: state.Shown, at: int, words: str = "When does it leave, under any policy?") -> str:
    """A link for block `at`, as HTML."""
    return f'<a href="{esc(link(shown, "compare", text=f"#{at}"))}#left" target="_self">{esc(words)}</a>'


def link(shown: state.Shown, page: str, **asked: object) -> str:
    """The address of a page that shows the same session. `asked`: what else stands in it."""
    return f"/{page}?{urlencode(_session(shown) | asked)}"


def ahead(shown: state.Shown, policies: Sequence[str]) -> None:
    """From a comparison to what is planned: the same policies in a conversation that is not there yet, and their parameters."""
    budget = link(shown, "plan", what="budget", policies=",".join(policies))
    advise = link(shown, "plan", what="advise", **({"policy": policies[0]} if policies else {}))
    st.html(
        f'<div class="ts-empty">Plan ahead: <a href="{esc(budget)}" target="_self">these policies in a conversation that is '
        f'only planned</a>, or <a href="{esc(advise)}" target="_self">which parameters this session speaks for</a>.</div>'
    )


def back(shown: state.Shown | None, policies: Sequence[str]) -> None:
    """From what is planned to a comparison of the same policies on the session that is shown."""
    if shown and len(shown.view):
        there = link(shown, "compare", policies=",".join(("as-recorded", *policies)))
        what = "this policy with the record" if len(policies) == 1 else "these policies"
        name = shown.view.title or shown.view.session_id
        st.html(
            f'<div class="ts-empty"><a href="{esc(there)}" target="_self">Compare {what}</a> on this session: '
            f"{esc(short(name, 80))}</div>"
        )


def _session(shown: state.Shown) -> dict[str, object]:
    return {"session": shown.entry.id, **({"part": str(shown.part)} if shown.part else {})}
