"""What pages, notebooks and reports show, as data: pure functions of a trace. No Plotly, no Streamlit, no HTML.

The types of values that these functions take and return are named here, for annotations. They are loaded when they are used,
because a command that reads the index alone needs none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would cost the status line a fifth of its time
if TYPE_CHECKING:
    from typing import Any

    from turnscope.envelope.pieces import Decision
    from turnscope.envelope.plan import Plan
    from turnscope.planning.prompt_cache import CacheUse
    from turnscope.planning.trace import Cursor
    from turnscope.session.model import Answer, Block, Edit, Message

__all__ = ["Answer", "Block", "CacheUse", "Cursor", "Decision", "Edit", "Message", "Plan"]

_HOMES = {
    "CacheUse": "planning.prompt_cache",
    "Cursor": "planning.trace",
    "Decision": "envelope.pieces",
    "Plan": "envelope.plan",
    **dict.fromkeys(("Answer", "Block", "Edit", "Message"), "session.model"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"turnscope.{_HOMES[name]}"), name)
