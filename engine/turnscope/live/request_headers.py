"""The headers that name the conversation in each of its requests: one id, or Helicone's session id and path."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from turnscope import settings
from turnscope.session.model import Session

HELICONE_HEADERS = "Helicone-Session-Id", "Helicone-Session-Path"
"""The names of a gateway (https://docs.helicone.ai/features/sessions). The path of a branch begins with the session it left."""


def list_header_names() -> tuple[str, ...]:
    """Return the names of the headers, as the environment sets them; none if it switches them off."""
    name = settings.read_conversation_header()
    return HELICONE_HEADERS if name.lower() == "helicone" else (name,) if name else ()


def build_headers(session: Session) -> Mapping[str, str]:
    """Return the headers for the requests of a session."""
    above = str(session.parent or session.about.get("from") or "")
    path = "".join(f"/{_sanitize_id(id)}" for id in (above, session.id) if id)
    first = _sanitize_id(above or session.id) if len(list_header_names()) > 1 else _sanitize_id(session.id)
    return dict(zip(list_header_names(), (first, path), strict=False))


def build_cache_key(session: Session) -> str:
    """Return what names the conversation for a prompt cache. A branch shares the key of the session that it left."""
    above = str(session.parent or session.about.get("from") or "") or session.id
    return blake2b(above.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _sanitize_id(id: str) -> str:
    """Replace the characters that a header cannot hold. The id of another tool may be any text."""
    return "".join(char if char.isascii() and char.isprintable() and char != "/" else "_" for char in id)
