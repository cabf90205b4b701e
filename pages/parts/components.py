"""Parts of pages that are drawn in the browser by scripts of the app's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def define_component(name: str, *, html: str = "", css: str | None = None, js: str) -> Callable[..., Any]:
    """Define a component; gives the function that draws it, which takes what Streamlit's own takes.

    The script receives `data` as the only item of a list, but bytes as they are. Streamlit looks for tables in a dictionary,
    and imports pandas and Arrow for it, which take 70 MB. What is in a list it sends as it is.

    Args:
        name: its name, which no other has.
        html: what stands in it at first.
        css: its style sheet; None = none.
        js: its script, a module.
    """
    mount = st.components.v2.component(name, html=html, css=css, js=js)

    def draw(*, data: Any = None, **options: Any) -> Any:
        return mount(data=data if data is None or isinstance(data, bytes) else [data], **options)

    return draw
