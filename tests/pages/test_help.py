"""The Help page: the documentation, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def test_a_page_of_the_documentation_is_shown_beside_the_list(app: AppTest) -> None:
    app.switch_page("pages/help.py")
    app.query_params["page"] = "glossary"
    app.run()
    assert not app.exception
    shown = "".join(block.proto.body for block in app.get("html"))
    assert "aria-current=page>Glossary" in shown
    assert "storage timeline" in shown


def test_an_unknown_page_says_so_and_shows_the_contents(app: AppTest) -> None:
    app.switch_page("pages/help.py")
    app.query_params["page"] = "nothing"
    app.run()
    assert not app.exception
    assert "documentation" in "".join(block.proto.body for block in app.get("html"))
