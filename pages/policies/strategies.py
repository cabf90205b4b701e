"""The strategies side by side: what stays, what they take, what they save and lose."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import streamlit as st
from turnscope import library
from turnscope.views import policy_figures, policy_traits

from pages.parts.formats import escape, shorten
from pages.policies import list as policy_list

WORDS = 160  # characters of a fact
STATES = {"kept": "sent verbatim", "cleared": "a placeholder", "summary": "a summary", "insert": "inserted"}
BUCKETS = {
    "system": "system",
    "tools": "tools",
    "messages": "messages",
    "tool_results": "tool results",
    "thinking": "thinking",
}
HEAD = ("strategy", "retention", "complexity", "cost × record", "saving", "loss", "when to use")


def draw(known: library.PolicyCatalog) -> None:
    """Draw the table, and the legend of all strips.

    Args:
        known: all policies.
    """
    cells = "".join(f"<th>{escape(each)}</th>" for each in HEAD)
    rows = "".join(map(_render_row, policy_traits.list_strategies(known)))
    note = (
        "Figures of cost and loss: measured on the bundled sample sessions, with the prompt cache; median and range of those "
        "whose every request could be sent. Words, and savings, are published ones: hover for their source."
    )
    swatches = "".join(f'<span><i style="background:{get_colour(key)}"></i>{name}</span>' for key, name in BUCKETS.items())
    shapes = "".join(f'<span><i class="{state}"></i>{escape(text)}</span>' for state, text in STATES.items() if state != "kept")
    st.html(
        f'<section class="policy-strategies"><h2>Strategies</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="Strategies"><table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<p class="legend">{swatches}{shapes}</p><p>{escape(note)}</p></section>'
    )


def _render_row(strategy: policy_traits.Strategy) -> str:
    figures = strategy.figures
    factors, lost = (figures.factors, figures.losses) if figures else ([], [])
    link = f'<a href="policies?policy={escape(strategy.policy)}" target="_self">{escape(strategy.title)}</a>'
    cost = f"×{median(factors):.2f} <small>{policy_list.format_factors(figures)}</small>" if factors else "does not fit"
    span = f" <small>{policy_list.format_losses(figures)}</small>" if any(lost) else ""
    measured = f"{median(lost):.0%}{span}" if lost else ""
    words = (strategy.retention, strategy.complexity, strategy.saving, strategy.use)
    retention, complexity, saving, use = (escape(shorten(each, WORDS)) for each in words)
    loss = f"{measured}<small class=words>{escape(shorten(strategy.loss, WORDS))}</small>"
    strip = _render_strip(figures.strip if figures else ())
    cells = zip(HEAD, (f"{link}{strip}", retention, complexity, cost, saving, loss, use), strict=True)
    hint = escape(strategy.sources)
    row = "".join(f'<td data-label="{name}" title="{hint}"><span>{cell}</span></td>' for name, cell in cells)
    return f"<tr>{row}</tr>"


def _render_strip(parts: Sequence[policy_figures.Segment]) -> str:
    """What is left of a full window: a segment for each bucket and how it is sent."""
    segments = "".join(
        f'<i class="{part.state}" style="width:{100 * part.share:.1f}%;--part:{get_colour(part.bucket)}" '
        f'title="{BUCKETS[part.bucket]}, {STATES[part.state]}: {part.share:.0%} of the window"></i>'
        for part in parts
    )
    return f'<span class="policy-strip">{segments}</span>'


def get_colour(bucket: str) -> str:
    """The colour of a bucket, as a variable of the page's style."""
    return f"var(--ts-{bucket.replace('_', '-')})"
