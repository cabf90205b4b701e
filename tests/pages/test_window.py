"""The window on a page: how it is known, and a click for another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnscope import settings

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def chips(app: AppTest) -> str:
    return " ".join(str(each.proto.body) for each in app.get("html"))


def test_one_click_overrides_the_window_and_another_takes_it_back(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert "a window of 200,000 tokens: " in chips(app)
    app.button(key="window.1000000").click().run()
    assert not app.exception
    assert "1.0M as you chose" in chips(app)
    assert "a window of 1,000,000 tokens, not 200,000: you chose it" in chips(app)
    app.button(key="window.evidence").click().run()
    assert "as you chose" not in chips(app)
    app.number_input[0].set_value(150_000).run()
    app.button(key="window.use").click().run()
    assert "150k as you chose" in chips(app)
    settings.find_windows_file().unlink()  # as by another process, or with another data folder
    app.run()
    assert "a window of 200,000 tokens: " in chips(app)
    assert "as you chose" not in chips(app)
