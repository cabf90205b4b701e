"""HTML for notebooks: the pieces that `_repr_html_` methods use. Standard library and palette only.

The module lies below the packages, because values of many of them use it. It escapes every text that it did not make itself:
titles, reasons and names come from session files. Each piece sets its own background, so light and dark notebooks look alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import ClassVar, TypeVar

from turnscope.palette import PALETTES, choose_ink

COLOURS = PALETTES["light"]
MAX_CHARACTERS = 300  # characters shown of one text
MAX_LISTED = 60  # rows of a list
MIN_LABEL_PERCENT = 12  # percent of the bar's width; a narrower part has no label inside


SHOW = "for (const one of this.parentNode.querySelectorAll('[data-n]')) one.hidden = one.dataset.n !== this.value"
"""What a slider does when it is moved. It names nothing of a session, so no text can get into it."""

T = TypeVar("T")


class Listed(tuple[T, ...]):
    """A tuple that draws itself as a table in a notebook; its elements say their cells by `_list_cells`."""

    __slots__ = ()
    head: ClassVar[tuple[str, ...]] = ()
    noun: ClassVar[str] = ""

    def _list_cells(self, value: T) -> Sequence[object]:
        """The cells of one element."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """A row for each element, the first ones where there are many."""
        table = render_table(self.head, map(self._list_cells, self[:MAX_LISTED]))
        more = [render_line(f"and {len(self) - MAX_LISTED:,} more")] if len(self) > MAX_LISTED else []
        return render_card(f"{len(self):,} {self.noun}", table, *more)


class Markup(str):
    """HTML that was made here. Every other text is escaped when it is inserted."""

    __slots__ = ()


def render_card(title: object, *parts: Markup, note: object = "") -> str:
    """Render a titled box.

    Args:
        title: The title.
        *parts: The box's content.
        note: A short text next to the title.
    """
    body = "".join(parts)
    frame = f"background:{COLOURS['ground']};color:{COLOURS['text']};border:1px solid {COLOURS['border']}"
    return (
        f'<div style="{frame};border-radius:8px;padding:10px 14px;max-width:960px;font:13px/1.5 system-ui,sans-serif">'
        f"<div><b>{_escape(title)}</b> {_render_faint(note)}</div>{body}</div>"
    )


def render_line(text: object) -> Markup:
    """Render a line of text."""
    return Markup(f"<div>{_escape(text)}</div>")


def render_bar(parts: Mapping[str, int], whole: int = 0, *, slim: bool = False) -> Markup:
    """Render tokens by bucket as one bar.

    Args:
        parts: Tokens by bucket.
        whole: Tokens of the full width; 0 = the sum of the parts.
        slim: Draw a thin bar without labels.
    """
    shown = {name: tokens for name, tokens in parts.items() if tokens > 0}
    whole = max(whole, sum(shown.values()), 1)
    body = "".join(_render_part(name, tokens, 100 * tokens / whole, slim) for name, tokens in shown.items())
    height = 9 if slim else 26
    drawn = (
        f'<div style="display:flex;height:{height}px;min-width:160px;background:{COLOURS["free"]};border-radius:4px;'
        f'overflow:hidden;margin:3px 0">{body}</div>'
    )
    return Markup(drawn if slim else f"{drawn}<div>{''.join(_render_label(*part) for part in shown.items())}</div>")


def render_slider(frames: Sequence[Markup], start: int = 0) -> Markup:
    """Render frames of which one is seen, and a slider that chooses it. Nothing is loaded, and no script of its own is needed.

    Where a notebook is not trusted and takes the slider's handler out, the first frame that is seen stays.

    Args:
        frames: The frames, in order.
        start: The one that is seen first.
    """
    drawn = "".join(f'<div data-n="{n}"{"" if n == start else " hidden"}>{frame}</div>' for n, frame in enumerate(frames))
    control = (
        f'<input type="range" min="0" max="{max(len(frames) - 1, 0)}" value="{start}" step="1" aria-label="Request" '
        f'style="width:100%" oninput="{escape(SHOW)}">'
    )
    return Markup(f"<div>{control}{drawn}</div>")


def render_frame(html: str, height: int = 560) -> str:
    """Render HTML in a frame of its own, from which nothing reaches the page around it.

    Args:
        html: The HTML, made by these functions.
        height: The height of the frame in pixels.
    """
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(html)}"></iframe>'


def _render_part(name: str, tokens: int, width: float, slim: bool) -> str:
    colour = COLOURS.get(name, COLOURS["faint"])
    inside = "" if slim or width < MIN_LABEL_PERCENT else _escape(tokens)
    style = (
        f"width:{width:.2f}%;background:{colour};color:{choose_ink(colour)};text-align:center;line-height:26px;overflow:hidden"
    )
    return f'<div style="{style}" title="{_escape(_format_name(name))}: {tokens:,} tokens">{inside}</div>'


def _render_label(name: str, tokens: int) -> str:
    swatch = f'<span style="color:{COLOURS.get(name, COLOURS["faint"])}">■</span>'
    label = f"{swatch} {_escape(_format_name(name))} {_render_faint(tokens)}"
    return f'<span style="margin-right:14px;white-space:nowrap">{label}</span>'


def render_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Render a table. Whole numbers are aligned to the right, with commas.

    Args:
        head: Titles of the columns.
        rows: Values of each row: text, numbers or `Markup`.
    """
    listed = list(rows)
    sides = ["right" if isinstance(value, int) else "left" for value in (listed[0] if listed else head)]
    lines = [
        _render_row("th", head, sides, COLOURS["faint"]),
        *(_render_row("td", row, sides, COLOURS["text"]) for row in listed),
    ]
    return Markup(f'<table style="border-collapse:collapse;font:inherit;margin:6px 0">{"".join(lines)}</table>')


def _render_row(tag: str, values: Sequence[object], sides: Sequence[str], colour: str) -> str:
    style = f"color:{colour};background:{COLOURS['ground']};padding:1px 14px 1px 0;font-weight:400;vertical-align:top"
    cells = (
        f'<{tag} style="text-align:{side};{style}">{_escape(value)}</{tag}>' for value, side in zip(values, sides, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _render_faint(value: object) -> str:
    return f'<span style="color:{COLOURS["faint"]}">{_escape(value)}</span>'


def _format_name(name: str) -> str:
    return name.replace("_", " ")


def _escape(value: object) -> str:
    if isinstance(value, Markup):
        return value
    text = f"{value:,}" if isinstance(value, int) else str(value)
    text = text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
    return escape(text.encode("utf-8", "replace").decode(), quote=True)  # a title may hold lone surrogates
