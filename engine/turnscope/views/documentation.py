"""The documentation that comes with the package, as HTML for the app's Help page.

The pages are Turnscope's own files, so their Markdown is trusted; links between them lead to the Help page, and links to files
outside the package become plain text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from turnscope.errors import UnknownEntry

FOLDER = Path(__file__).resolve().parents[1] / "docs"
FIRST = "README"
POLICIES = "../planning/policies/README.md"  # shown by the page about policies
DARK = "gh-dark-mode-only"  # behind the address of a picture: GitHub shows it in its dark theme alone, and so does the app
_COMMENT = re.compile(r"^<!-- .* -->$", re.MULTILINE)  # marks where a generated part begins or ends
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([a-z-]+)\.md\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page: its name in addresses, its title, its text as HTML."""

    name: str
    title: str
    html: str


@cache
def list_pages() -> Mapping[str, str]:
    """The pages in the order of their index: titles by name, the index first."""
    index = (FOLDER / f"{FIRST}.md").read_text(encoding="utf-8")
    return {FIRST: "Contents"} | {name: title for title, name in _ROW.findall(index)}


@cache
def read_page(name: str) -> DocPage:
    """A page of the documentation.

    Args:
        name: its file's name without the ending; see `list_pages`.

    Raises:
        UnknownEntry: there is no such page.
    """
    if name not in list_pages():
        raise UnknownEntry(f"there is no page {name!r} in the documentation", hint=f"There are: {', '.join(list_pages())}.")
    return DocPage(name, list_pages()[name], _render((FOLDER / f"{name}.md").read_text(encoding="utf-8")))


def _render(text: str) -> str:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _make_anchor(tokens[at + 1].content))
        if token.type == "th_open" and not tokens[at + 1].content:  # the corner of a table is no heading
            token.tag = tokens[at + 2].tag = "td"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _resolve(str(child.attrGet("href") or "")))
                child.attrSet("target", "_self")
            elif child.type == "image":
                name, _, mode = str(child.attrGet("src") or "").partition("#")
                child.attrSet("src", _embed(name))
                child.attrSet("class", "dark" if mode == DARK else "light")
    found: list[Token] = tokens
    html: str = parser.renderer.render(found, parser.options, {})
    return html


def _embed(name: str) -> str:
    """A picture beside the pages as an address that holds it."""
    return f"data:image/webp;base64,{b64encode((FOLDER / name).read_bytes()).decode()}"


def _make_anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _resolve(link: str) -> str:
    """Where a link of a page leads in the app: another page, a place on this one, or nowhere."""
    path, _, anchor = link.partition("#")
    if not path:
        return f"#{quote(anchor)}"
    if path == POLICIES:
        return "/policies"
    name = path.removesuffix(".md")
    return f"/help?page={quote(name)}{f'#{quote(anchor)}' if anchor else ''}" if name in list_pages() else "#"
