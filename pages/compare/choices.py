"""Which policies are compared, on which model, in which window and budget.

`?policies=a,b&model=m&window=n&limit=n`, with what `url` reads.
"""

from __future__ import annotations

import streamlit as st
from turnscope import library

from pages.parts import url
from pages.parts.policies import load_policies
from pages.parts.replays import PolicyChoice


def choose() -> PolicyChoice:
    """Which policies, on which model, in which window and budget; all of it stands in the URL."""
    known = load_policies().policies
    named = [name for name in url.get_view("policies").split(",") if name in known]
    named = named or [name for name in library.COMPARED_POLICIES if name in known]
    picked = st.multiselect(
        "Policies",
        [*known],
        named,
        key="compare.policies",
        format_func=lambda name: known[name].title or name,
        on_change=url.follow("policies", "compare.policies", named),
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-choices"):
        model = _draw_model()
        window = st.selectbox(
            "Window",
            (0, *library.WINDOWS),
            key="compare.window",
            width=190,
            format_func=_format_window,
            index=_find_window_index(),
            on_change=url.follow("window", "compare.window", (0, *library.WINDOWS)[_find_window_index()]),
        )
        limit = st.number_input(
            "Prompt limit, tokens",
            0,
            2_000_000,
            _read_limit("limit"),
            10_000,
            key="compare.limit",
            width=190,
            help="what a prompt may have under every policy; 0 = as each policy says",
            on_change=url.follow("limit", "compare.limit", _read_limit("limit")),
        )
    for name, value in (("policies", ",".join(picked)), ("model", model), ("window", window), ("limit", limit)):
        url.write(name, f"compare.{name}", str(value) if value else "")
    return PolicyChoice({name: library.resize_budget(known[name], window, int(limit)) for name in picked}, model)


def _draw_model() -> str:
    """The model that is chosen; "" = as recorded. One that only the URL names is offered, too."""
    models, wanted = list(library.list_models()), url.get_view("model")[:80]
    if wanted and wanted not in models:
        models.insert(0, wanted)
    chosen = st.selectbox(
        "Model",
        ("", *models),
        models.index(wanted) + 1 if wanted else 0,
        key="compare.model",
        width=230,
        format_func=lambda name: name or "as recorded",
        on_change=url.follow("model", "compare.model", wanted),
    )
    return chosen or ""


def _format_window(tokens: int) -> str:
    return f"{tokens:,} tokens" if tokens else "as the model's"


def _find_window_index() -> int:
    wanted = url.get_view("window")
    sizes = [str(size) for size in library.WINDOWS]
    return 1 + sizes.index(wanted) if wanted in sizes else 0


def _read_limit(name: str) -> int:
    text = url.get_view(name)
    return min(2_000_000, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 0
