"""Planning ahead in Streamlit's own test runner: the budget calculator, and advice searched, shown and saved."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from turnscope.library.calculating import Shape
from turnscope.planning import policy as policies

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def bodies(app: AppTest) -> str:
    """All HTML that a page shows."""
    return "\n".join(element.proto.body for element in app.get("html"))


def test_a_conversation_is_planned_from_its_address_and_its_fields(app: AppTest) -> None:
    app.query_params.update(
        {"turns": "20", "window": "40000", "policies": "keep-everything,last-5-pairs,no-such", "answer": "x"}
    )
    app.switch_page("pages/plan.py").run()
    assert not app.exception
    made = turnscope.calculate(Shape(turns=20, window=40_000), ["keep-everything", "last-5-pairs"])
    table = app.dataframe[0].value
    assert [*table["policy"]] == [each.row.title for each in made.outlooks]
    assert [*table["cost"]] == [float(each.row.usd or 0) for each in made.outlooks]
    assert table["overflows at turn"][0] == made.outlooks[0].ends
    assert "1 of 2 policies get through all 20 turns. Last 5 pairs is the cheapest" in bodies(app)
    assert "policies=as-recorded%2Ckeep-everything%2Clast-5-pairs" in bodies(app)  # to the comparison
    app.number_input(key="plan.turns").set_value(4).run()
    assert app.query_params["turns"] == "4"
    assert "window" in app.query_params
    assert "answer" not in app.query_params
    assert "2 of 2 policies get through all 4 turns" in bodies(app)
    app.number_input(key="plan.turns").set_value(0).run()
    assert not app.exception
    assert "turns is 0" in bodies(app)


def test_advice_is_searched_shown_and_saved(app: AppTest, data_folder: Path) -> None:
    name = "clear-tool-results"
    app.query_params.update({"what": "advise", "session": "cache-goes-cold", "policy": name, "trials": "6"})
    app.switch_page("pages/plan.py").run()
    assert not app.exception
    app.multiselect(key=f"advise.turn.{name}").set_value(["1.keep"]).run()
    app.button(key="advise.go").click().run()
    from pages.plan import advice

    job = next(job for (task, _), job in advice._get_jobs().items() if task.folder.startswith(str(data_folder)))
    job.wait(60)
    app.run()
    assert not app.exception
    found = job.advice
    assert found is not None, job.error
    assert found.chosen
    assert found.because in bodies(app)
    assert "No session was held out" in bodies(app)
    assert "advise.go" not in [button.key for button in app.button]
    assert found.to_toml(found.chosen).rstrip() in [code.value for code in app.code]
    app.text_input(key=f"advise.name.{name}").set_value("mine").run()
    app.button(key="advise.save").click().run()
    assert policies.load("mine", data_folder / "policies").to_toml() == found.to_toml(found.chosen)
    assert f"/compare?policies={name}%2Cmine&amp;session=cache-goes-cold" in bodies(app)


def test_without_optuna_the_page_says_what_to_install(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search runs in a process of its own, which finds a package that cannot be imported in optuna's place."""
    (tmp_path / "optuna.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    app.query_params.update({"what": "advise", "session": "cache-goes-cold", "policy": "balanced", "trials": "6"})
    app.switch_page("pages/plan.py").run()
    app.button(key="advise.go").click().run()
    until = time.monotonic() + 60
    while "Optuna" not in bodies(app) and time.monotonic() < until:
        time.sleep(0.2)
        app.run()
    assert not app.exception
    assert "this search needs Optuna, which is not installed" in bodies(app)
    assert "pip install &#x27;turnscope[advise]&#x27;" in bodies(app)
