"""What a page shows when it cannot be drawn: a sentence, what to do, and a report to copy. The rest of the app goes on."""

from __future__ import annotations

import logging
import platform
import traceback

import streamlit as st
import turnscope
from turnscope import TurnscopeError

from pages.parts import widgets

SENTENCE = "This page could not be drawn, because Turnscope has a defect here. Your sessions and chats are as they were."
HINT = "Reload the page, or open another one. If it comes again, report it with the text below; it may quote your session."


def draw(error: Exception) -> None:
    """Draw an error in the place of a page, or of the rest of it.

    Args:
        error: What the page raised. An error with a sentence of its own is shown with that sentence.
    """
    if isinstance(error, TurnscopeError):
        widgets.draw_notice(error.what, error.hint)
        return
    from turnscope.live import secrets  # most pages never need it

    report = secrets.scrub("".join(traceback.format_exception(error)))
    logging.getLogger(__name__).error("a page failed\n%s", report)
    error.args = secrets.scrub(error.args)
    widgets.draw_notice(SENTENCE, HINT)
    st.exception(error)
    with st.expander("Report to copy"):
        st.code(
            f"Turnscope {turnscope.__version__}, Python {platform.python_version()}, {platform.system()}\n\n{report}", "text"
        )
