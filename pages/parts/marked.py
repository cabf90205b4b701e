"""What a search found, as HTML: the excerpt with its words marked."""

from __future__ import annotations

from turnscope.library import index_queries

from pages.parts.formats import escape


def render_hit(hit: index_queries.Hit) -> str:
    """The excerpt as HTML, what was found in it marked."""
    parts, at = [], 0
    for begin, stop in hit.marks:
        parts += [escape(hit.excerpt[at:begin]), f"<mark>{escape(hit.excerpt[begin:stop])}</mark>"]
        at = stop
    return "".join((*parts, escape(hit.excerpt[at:])))
