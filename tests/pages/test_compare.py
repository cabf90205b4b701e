"""The compare page in Streamlit's own test runner."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def test_policies_are_put_side_by_side_parted_and_searched(app: AppTest) -> None:
    app.query_params["policies"] = "as-recorded,last-5-pairs,no-such"
    app.switch_page("pages/compare.py").run()
    for _ in range(40):
        if len(app.dataframe) and len(app.dataframe[0].value) == 2:
            break
        time.sleep(0.25)
        app.run()
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table["policy"]) == ["As recorded", "Last 5 pairs"]
    assert app.query_params["policies"] == "as-recorded,last-5-pairs"
    assert table["lost references"][1] > 0
    assert any("Answers are taken as recorded" in html.proto.body for html in app.get("html"))
    assert any("They first part at request" in text.value for text in app.text)
    app.text_input(key="compare.text").set_value("nowhere in this session").run()
    assert not app.exception
    assert list(app.dataframe[-1].value["left"]) == ["it is nowhere", "it is nowhere"]
