"""The policies: found by tool, kind and proof, each in a line; the strategies that they follow; and the details of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st
from turnscope.extensions import list_problems
from turnscope.views import policy_traits

from pages.parts import header, opening, policies, theme, widgets
from pages.parts.formats import escape, shorten
from pages.policies import list as policy_list
from pages.policies import on_sessions, policy_page, strategies

SHEET = Path(__file__).parent / "browser" / "policies.css"
MAX_PICKED = 20  # that an address names


def draw() -> None:
    """Draw the page."""
    known = policies.load_policies()
    traits = policy_traits.list_traits(known)
    shown = header.draw_optional_header(middle=False, title=_render_title(len(traits)))
    theme.add_sheet(SHEET)
    name = st.query_params.get("policy", "")
    picked = [each for each in st.query_params.get("picked", "").split(",") if each in known.policies][:MAX_PICKED]
    with st.container(key="policies-picked"):  # always there: what stands below keeps its place, and so its state
        if picked:
            _draw_comparison(picked, shown)
    for problem in list_problems():
        widgets.draw_notice(problem)
    if name and name not in known.policies:
        st.html(f'<div class="ts-card nothing" role="status"><b>There is no policy {escape(shorten(name, 60))} here.</b></div>')
        name = ""
    if _is_on_sessions():
        on_sessions.draw(known)
        return
    found = _filter(traits)
    with st.container(key="policies-main"):
        left, right = st.columns([1, 1], gap="medium")
    with left:
        heads = ("a full window, and what is left of it", "cost × record", "lost")
        st.html(f'<div class="policy-head">{"".join(f"<span>{each}</span>" for each in heads)}</div>')
        policy_list.draw(found, name, picked)
    with right:
        if name:
            policy_page.draw(known, next(each for each in traits if each.name == name))
        strategies.draw(known)


def _is_on_sessions() -> bool:
    """Whether the policies are measured on one's own sessions instead of listed; part of the address."""
    views = {"list": "List", "sessions": "On your sessions"}
    wanted = st.query_params.get("view", "")
    chosen = st.segmented_control(
        "Show",
        [*views],
        default=wanted if wanted in views else "list",
        format_func=views.__getitem__,
        key="policies.view",
        label_visibility="collapsed",
        required=True,
    )
    if chosen == "sessions":
        st.query_params["view"] = chosen
    else:
        st.query_params.pop("view", None)
    return chosen == "sessions"


def _render_title(many: int) -> str:
    return (
        '<div class="ts-title"><h1>Policies</h1>'
        f'<span class="ts-faint">{many:,} ways to keep a conversation inside its window</span></div>'
    )


def _draw_comparison(picked: Sequence[str], shown: opening.ShownSession | None) -> None:
    """A way to compare what is chosen on the session that is shown."""
    query = {"session": shown.entry.id} if shown else {}
    link = f"/compare?{urlencode(query | {'policies': ','.join((policies.RECORDED, *picked))})}"
    where = f" on {shorten(shown.view.title or shown.view.session_id, 60)}" if shown else ""
    st.html(
        f'<div class="policy-title"><span>{len(picked):,} chosen</span>'
        f'<a class="policy-compare" href="{escape(link)}" target="_self">Compare{escape(where)}</a></div>'
    )


def _filter(traits: Sequence[policy_traits.Traits]) -> tuple[policy_traits.Traits, ...]:
    """The policies that the filters leave; what is chosen is part of the address."""
    words, system, kinds, proofs, lossless = _draw_filters(traits)
    chosen = {"find": words, "tool": system, "kind": ",".join(kinds), "proof": ",".join(proofs), "lossless": "1" * lossless}
    for key, value in chosen.items():
        if value:
            st.query_params[key] = value
        else:
            st.query_params.pop(key, None)
    return tuple(
        each
        for each in traits
        if each.matches(words)
        and system in (None, each.system)
        and (not kinds or {*kinds} & {*each.kinds})
        and (not proofs or each.proof in proofs)
        and (not lossless or each.is_lossless)
    )


def _draw_filters(traits: Sequence[policy_traits.Traits]) -> tuple[str, str | None, list[str], list[str], bool]:
    """Draw the filters, and give words, tool, kinds, proofs, and whether only lossless policies are listed."""
    systems = list(dict.fromkeys(each.system for each in traits))
    query = st.query_params
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="policies-filters"):
        words = st.text_input("Search", query.get("find", ""), key="policies.find", placeholder="name, tool, words", width=220)
        system = st.selectbox(
            "Tool", systems, _find(systems, query.get("tool", "")), key="policies.tool", placeholder="all tools", width=200
        )
        kinds = st.pills(
            "Kind",
            list(policy_traits.KINDS),
            selection_mode="multi",
            default=[each for each in query.get("kind", "").split(",") if each in policy_traits.KINDS],
            format_func=policy_traits.KINDS.__getitem__,
            key="policies.kind",
        )
        counts = {proof: sum(each.proof == proof for each in traits) for proof in policy_traits.PROOFS}
        proofs = st.pills(
            "Proof",
            list(policy_traits.PROOFS),
            selection_mode="multi",
            default=[each for each in query.get("proof", "").split(",") if each in policy_traits.PROOFS],
            format_func=lambda proof: f"{policy_traits.PROOFS[proof]} {counts[proof]}",
            key="policies.proof",
        )
        lossless = st.toggle(
            "Lossless",
            query.get("lossless") == "1",
            key="policies.lossless",
            help="lost no reference on any of the bundled samples",
        )
    return words, system, kinds, proofs, lossless


def _find(names: Sequence[str], wanted: str) -> int | None:
    return names.index(wanted) if wanted in names else None
