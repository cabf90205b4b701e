"""Why a test may be skipped, and where. In CI any other skip fails the run, so that nothing stops being tested unseen.

A pytest plugin, registered by `conftest.py`. Skips are gathered from the reports, so it also works where workers run the tests.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
# A reason from its first letter to its last, and whether it may be given here: a reason that is not true is none.
EXPECTED: dict[str, bool] = {
    # material beside the project, which a clone does not have
    r"shared/\S+ is not beside the project": not SHARED.is_dir(),
    r"the (open sessions|golden cases) are not beside the project": not SHARED.is_dir(),
    # what some files of that material are
    r"the newest leaf decides what the main path is": SHARED.is_dir(),
    r"MANIFEST\.tsv is no session that can be opened": SHARED.is_dir(),
    r"these golden cases are others": SHARED.is_dir(),
    # packages: ctok refuses Python 3.11, the others come with extras
    r"ctok is not installed \(it needs Python 3\.12 or newer\)": sys.version_info < (3, 12),
    r"litellm, whose wheel carries tiktoken's vocabularies, is not installed": find_spec("litellm") is None,
    r"litellm cannot be imported: .+": find_spec("litellm") is None,
    r"langchain-core cannot be imported: .+": find_spec("langchain_core") is None,
    r"llama-index-core cannot be imported: .+": find_spec("llama_index") is None,
    r"its model of OpenAI wants an older openai than ours": find_spec("llama_index") is not None,
    r"presidio is an extra: turnscope\[names\]": find_spec("presidio_analyzer") is None,
    # servers with environments of their own, which the variables name
    r"PHOENIX_PYTHON names no Python that has Phoenix": "PHOENIX_PYTHON" not in os.environ,
    r"MLFLOW_PYTHON names no Python that has MLflow": "MLFLOW_PYTHON" not in os.environ,
    r"NOTEBOOK_PYTHON names no Python that has nbconvert and ipykernel": "NOTEBOOK_PYTHON" not in os.environ,
    r"the action runs on Linux and macOS": os.name == "nt",
    # what Windows does not have
    r"no named pipes on this system": os.name == "nt",
    r"this system has no priorities of that kind": os.name == "nt",
    r"such a name cannot be written there": os.name == "nt",
}


def is_expected(reason: str) -> bool:
    return any(here and re.fullmatch(pattern, reason, re.DOTALL) for pattern, here in EXPECTED.items())


class Skips:
    """Notes each skip of a run whose reason is not expected here; in CI these fail it."""

    def __init__(self) -> None:
        self.strange: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = str(report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not is_expected(reason):
            self.strange.setdefault(reason, []).append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.strange and os.environ.get("CI") and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.strange:
            fails = "which fails the run" if os.environ.get("CI") else "which would fail the run in CI"
            terminalreporter.section(f"skipped for reasons that tests/skips.py does not expect here, {fails}", red=True)
            for line in self.lines():
                terminalreporter.line(line)

    def lines(self) -> Iterator[str]:
        for reason, tests in self.strange.items():
            more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
            yield f"{reason}: {tests[0]}{more}"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker sends its reports to the process that started it
        config.pluginmanager.register(Skips())
