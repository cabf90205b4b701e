"""The Help page: the documentation, without a network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from turnscope.views import documentation

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


def test_a_picture_of_a_page_is_in_it_once_for_each_theme() -> None:
    html = documentation.read_page("which-policy").html
    assert re.findall(r'<img src="data:image/webp;base64,[\w+/=]+" alt="[^"]+" class="(\w+)"', html) == ["light", "dark"]
