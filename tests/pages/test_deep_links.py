"""Nested addresses lead to the flat one of their page; nothing else is led away, and nothing to another host."""

from __future__ import annotations

import pytest

from pages.parts.deep_links import find_address


@pytest.mark.parametrize(
    ("path", "query", "address"),
    [
        ("/debugger/request/5", "", "/debugger?request=5"),
        ("/debugger/request/5/", "session=a&request=6", "/debugger?request=6&session=a"),
        ("/debugger/5", "", "/debugger?request=5"),
        ("/request/5", "", "/?request=5"),
        ("/session/cache-goes-cold/request/5", "", "/?session=cache-goes-cold&request=5"),
        ("/heatmap/nothing/known", "", "/heatmap"),
        ("/debugger", "request=5", ""),
        ("/debugger/", "", ""),
        ("/", "", ""),
        ("/_stcore/health", "", ""),
        ("/static/js/index.js", "", ""),
        ("//evil.example/request/5", "", "/?request=5"),
        ("/q/a b&c", "", "/?q=a+b%26c"),
        ("/evil/https://evil.example", "", "/"),
    ],
)
def test_a_nested_address_is_the_page_with_a_query(path: str, query: str, address: str) -> None:
    assert find_address(path, query) == address
