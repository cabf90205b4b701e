"""The documentation: its links lead somewhere, its index is whole, and README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

DOCS = ROOT / "engine" / "turnscope" / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((ROOT / ".github").glob("*.md")), ROOT / "tests" / "README.md"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_index_names_every_page() -> None:
    listed = set(LINK.findall((DOCS / "README.md").read_text("utf-8")))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= listed


def test_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 6_000


def test_every_module_that_the_docs_name_exists() -> None:
    named = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|json|toml))`")
    places = (ROOT / "engine" / "turnscope", ROOT, ROOT / "tests" / "examples" / "plugin")
    missing = [
        (page.name, path)
        for page in PAGES
        for path in named.findall(page.read_text("utf-8"))
        if not any((place / path).exists() for place in places)
    ]
    assert missing == []
