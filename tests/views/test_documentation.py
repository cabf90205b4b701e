"""The documentation in the app: every page is listed, drawn, and links to pages that are there."""

from __future__ import annotations

import re

import pytest
from turnscope.errors import UnknownEntry
from turnscope.views import documentation


@pytest.mark.parametrize("name", [path.stem for path in sorted(documentation.FOLDER.glob("*.md"))])
def test_every_page_is_listed_and_its_links_lead_to_pages(name: str) -> None:
    page = documentation.read_page(name)
    assert "<h1" in page.html
    assert "&lt;!--" not in page.html, "a mark of a generated part is no text"
    links = re.findall(r'href="([^"]*)"', page.html)
    assert [link for link in links if not link.startswith(("/help?page=", "/policies", "#", "http"))] == []


def test_a_page_that_is_not_there_is_said() -> None:
    with pytest.raises(UnknownEntry, match="no page 'nothing'"):
        documentation.read_page("nothing")
