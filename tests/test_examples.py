"""The examples in the docstrings of the whole package run and give what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import turnscope
from conftest import ROOT

ENGINE = ROOT / "engine"
WITH_EXAMPLES = sorted(path for path in (ENGINE / "turnscope").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ENGINE).as_posix())
def test_examples_give_what_they_say(path: Path, monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CONTEXT_MESSAGE_PAIRS", raising=False)
    module = importlib.import_module(".".join(path.relative_to(ENGINE).with_suffix("").parts))
    output: list[str] = []
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(module, extraglobs={"turnscope": turnscope}):
        runner.run(example, out=output.append)
    assert runner.failures == 0, "".join(output)
    assert runner.tries > 0
