"""From what is planned to a comparison on the session that is open."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts import opening, url
from pages.parts.formats import escape, shorten


def link_comparison(shown: opening.ShownSession | None, policies: Sequence[str]) -> None:
    """From what is planned to a comparison of the same policies on the session that is shown.

    Args:
        shown: the session that is shown; None = none is.
        policies: names of the policies.
    """
    if shown and len(shown.view):
        there = url.make_link(shown, "compare", policies=",".join(("as-recorded", *policies)))
        what = "this policy with the record" if len(policies) == 1 else "these policies"
        name = shown.view.title or shown.view.session_id
        st.html(
            f'<div class="ts-empty"><a href="{escape(there)}" target="_self">Compare {what}</a> on this session: '
            f"{escape(shorten(name, 80))}</div>"
        )
