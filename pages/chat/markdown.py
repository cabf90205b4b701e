"""Answers as Markdown: HTML of our own tags alone, which loads nothing and runs nothing.

Links and images are text with their address. Raw HTML, formulas and directives are text as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from pages.parts.formats import escape

LONG = 20_000  # characters of a text shown
DEEP = 40  # lists and quotes in each other; what nests deeper is shown as it was written
FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
MARKS = "-=*_#|:>`~+. \t0123456789"  # a line that begins so may still become anything
_HOLDERS = ("list_item_open", "blockquote_open")


@lru_cache(256)
def render_answer(text: str) -> str:
    """A text as HTML, to its first `LONG` characters."""
    return _render_start(text)


def _render_start(text: str) -> str:
    head = text[:LONG]
    more = len(text) - LONG
    rest = f'<p class="md-more">… {more:,} more characters: the exports, under Chats, have all of them</p>' if more > 0 else ""
    return (_render_markdown(head) or _render_plain(head)) + rest


def render_growing(text: str) -> str:
    """A text that is still growing: its newest part, without a last line of which only marks have come."""
    start = 0
    if len(text) > LONG:  # by steps, so that what is shown does not move with every character
        start = text.find("\n", (len(text) - LONG // 2) // (LONG // 4) * (LONG // 4)) + 1
    inside = _find_open_fence(text[:start])
    shown = text[start:]
    if not (last := shown[shown.rfind("\n") + 1 :]).strip(MARKS):
        shown = shown[: len(shown) - len(last)]
    before = f'<p class="md-more">{start:,} characters before this</p>' if start else ""
    return before + _render_start(f"{inside}\n{shown}" if inside else shown)


def _find_open_fence(text: str) -> str:
    """The fence in which a text ends; "" where it ends in none."""
    opened = ""
    for mark in FENCE.findall(text):
        if not opened:
            opened = mark
        elif mark[0] == opened[0] and len(mark) >= len(opened):
            opened = ""
    return opened


def _render_markdown(text: str) -> str:
    """The HTML; "" where the text nests deeper than `DEEP`: the parser leaves out what is there."""
    parser = _build_parser()
    try:
        tokens = parser.parse(text)
    except RecursionError:
        return ""
    if any(token.level >= DEEP - 1 and token.type in _HOLDERS for token in tokens):
        return ""
    return str(parser.renderer.render(tokens, parser.options, {}))


def _render_plain(text: str) -> str:
    return f'<div class="chat-text">{escape(text)}</div>' if text.strip() else ""


@cache
def _build_parser() -> MarkdownIt:
    """Definitions of links stay in the text, where they can be read: nothing of an answer is left out."""
    made = _Parser("commonmark", {"html": False, "breaks": True, "maxNesting": DEEP}, renderer_cls=_Safe)
    return made.enable(["table", "strikethrough"]).disable("reference")


class _Parser(MarkdownIt):
    """Every link is one, and shown as it was written: none of them can be followed."""

    def validateLink(self, url: str) -> bool:  # noqa: ARG002, N802 - the library's names
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802
        return link


class _Safe(RendererHTML):
    """The library's renderer (markdown-it-py 4.3), but for what would load, lead away or disturb the page's outline."""

    def link_open(self, *_: Any) -> str:
        return "<u>"

    def link_close(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        start = next(n for n in range(idx, -1, -1) if tokens[n].type == "link_open")
        text = "".join(token.content for token in tokens[start:idx])
        return f"</u>{_render_address(tokens[start], 'href', text)}"

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        token = tokens[idx]
        label = f" {escape(token.content)}" if token.content else ""
        return f'<span class="md-image">image not loaded:{label}{_render_address(token, "src", token.content)}</span>'

    def heading_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f'<p class="md-head" role="heading" aria-level="{min(6, 4 + int(tokens[idx].tag[1]))}">'

    def heading_close(self, *_: Any) -> str:
        return "</p>"

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return render_code(tokens[idx].content, tokens[idx].info.strip())

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return render_code(tokens[idx].content)

    def table_open(self, *_: Any) -> str:
        return '<div class="md-table"><table>'

    def table_close(self, *_: Any) -> str:
        return "</table></div>"


def _render_address(token: Token, name: str, text: str) -> str:
    address, title = str(token.attrs.get(name) or ""), token.attrs.get("title")
    place = f'{address} "{title}"' if title else address
    return f' <span class="md-url">({escape(place)})</span>' if place and address.removeprefix("mailto:") != text else ""


def render_code(text: str, language: str = "") -> str:
    """A block of code with a button that copies it (`typing_box`).

    Args:
        text: the code.
        language: its language; "" = unknown.
    """
    name = f"<span>{escape(language)}</span>"
    button = '<button type="button" class="md-copy">Copy</button>'
    return f'<div class="md-code"><div>{name}{button}</div><pre class="ts-text">{escape(text)}</pre></div>'
