"""A page that fails shows a sentence and a report without keys, and the rest of the app goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import turnscope
from turnscope.live.secrets import register_key

from pages.help import page as help_page

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

KEY = "sk-canary-5up3r/s3cret+k3y=Zz"


def test_a_defect_is_a_sentence_with_a_report_and_other_pages_work(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    register_key(KEY)

    def fail() -> None:
        raise ZeroDivisionError(f"a request with {KEY} failed")

    with monkeypatch.context() as patch:
        patch.setattr(help_page, "draw", fail)
        app.switch_page("pages/help.py").run()
    assert "Turnscope has a defect here" in "".join(one.body for one in app.get("html"))
    assert "ZeroDivisionError" in app.code[-1].value
    assert KEY not in app.code[-1].value + str([one.message for one in app.exception])
    app.switch_page("pages/help.py").run()
    assert not app.exception


def test_an_error_with_a_sentence_is_that_sentence(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise turnscope.TurnscopeError("the file is <b>gone</b>", hint="Open another one.")

    monkeypatch.setattr(help_page, "draw", fail)
    app.switch_page("pages/help.py").run()
    text = "".join(one.body for one in app.get("html"))
    assert "the file is &lt;b&gt;gone&lt;/b&gt;" in text
    assert "Open another one." in text
    assert not app.exception
