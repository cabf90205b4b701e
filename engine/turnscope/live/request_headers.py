"""The headers that name a conversation on every request of it: one id, or Helicone's session and the path within it."""

from __future__ import annotations

from collections.abc import Mapping

from turnscope import settings
from turnscope.session.model import Session

HELICONE_HEADERS = "Helicone-Session-Id", "Helicone-Session-Path"
"""A gateway's names: https://docs.helicone.ai/features/sessions. A branch stands below the conversation that it left."""


def list_header_names() -> tuple[str, ...]:
    """The headers' names, as the environment says; none where it says that there shall be none."""
    said = settings.read_conversation_header()
    return HELICONE_HEADERS if said.lower() == "helicone" else (said,) if said else ()


def build_headers(session: Session) -> Mapping[str, str]:
    """Those of a conversation's requests."""
    above = str(session.parent or session.about.get("from") or "")
    path = "".join(f"/{_sanitize_id(id)}" for id in (above, session.id) if id)
    first = _sanitize_id(above or session.id) if len(list_header_names()) > 1 else _sanitize_id(session.id)
    return dict(zip(list_header_names(), (first, path), strict=False))


def _sanitize_id(id: str) -> str:
    """An id that a header can hold: another tool's may be any text."""
    return "".join(char if char.isascii() and char.isprintable() and char != "/" else "_" for char in id)
