"""The headers that name a conversation on every request of it: one id, or Helicone's session and the path within it."""

from __future__ import annotations

from collections.abc import Mapping

from turnscope import settings
from turnscope.session.model import Session

HELICONE = "Helicone-Session-Id", "Helicone-Session-Path"
"""A gateway's names: https://docs.helicone.ai/features/sessions. A branch stands below the conversation that it left."""


def names() -> tuple[str, ...]:
    """The headers' names, as the environment says; none where it says that there shall be none."""
    said = settings.read_conversation_header()
    return HELICONE if said.lower() == "helicone" else (said,) if said else ()


def headers(session: Session) -> Mapping[str, str]:
    """Those of a conversation's requests."""
    above = str(session.parent or session.about.get("from") or "")
    path = "".join(f"/{_plain(id)}" for id in (above, session.id) if id)
    first = _plain(above or session.id) if len(names()) > 1 else _plain(session.id)
    return dict(zip(names(), (first, path), strict=False))


def _plain(id: str) -> str:
    """An id that a header can hold: another tool's may be any text."""
    return "".join(char if char.isascii() and char.isprintable() and char != "/" else "_" for char in id)
