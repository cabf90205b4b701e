"""Pages name what packages bring, and say what is wrong with an extension."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from tests.pages.test_pages import bodies, open_page

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def test_the_policies_page_lists_a_packages_policy_and_shows_its_rule(plugin: Path, app: AppTest) -> None:
    st.cache_resource.clear()
    assert "Package turnscope-diary 1.0" in open_page(app, "policies").selectbox(key="policies.tool").options
    shown = bodies(open_page(app, "policies", policy="remind-of-task"))
    assert "<h2>Remind of the task</h2>" in shown
    assert "<b>say the task again</b>" in shown
    assert "an example, in turnscope-diary 1.0" in shown
    st.cache_resource.clear()


def test_what_is_wrong_with_an_extension_is_said_on_the_policies_page_and_in_the_library(fresh: Path, app: AppTest) -> None:
    st.cache_resource.clear()
    for kind in ("rules", "importers"):
        (fresh / kind).mkdir()
        (fresh / kind / "broken.py").write_text("import no_such_module")
    for page, kind in (("policies", "rule"), ("library", "importer")):
        shown = bodies(open_page(app, page))
        assert not app.exception
        assert f"The {kind} &#x27;broken&#x27; of " in shown
        assert "No module named &#x27;no_such_module&#x27;" in shown
    st.cache_resource.clear()
