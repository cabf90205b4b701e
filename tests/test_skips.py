"""In CI a skip that nobody expects fails the run; on one's own machine it is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import skips

HERE = Path(__file__).parent
CASES = {
    "in the test": "import pytest\ndef test_it(): pytest.skip('the moon is full')",
    "on the test": "import pytest\n@pytest.mark.skipif(True, reason='the moon is full')\ndef test_it(): pass",
    "of the file": "import pytest\npytest.skip('the moon is full', allow_module_level=True)",
    "without cases": "import pytest\n@pytest.mark.parametrize('n', [])\ndef test_it(n): pass",
}


def run(folder: Path, text: str, *arguments: str, ci: str = "1") -> subprocess.CompletedProcess[str]:
    """Run a file of tests in a process of its own."""
    (folder / "test_it.py").write_text(text + "\ndef test_other(): pass\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment |= {"PYTHONPATH": path, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", *arguments, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("case", CASES)
def test_a_skip_that_is_not_expected_fails_a_run_in_ci_and_is_named(tmp_path: Path, case: str) -> None:
    done = run(tmp_path, CASES[case])
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "which fails the run" in done.stdout
    assert ("got empty parameter set" if case == "without cases" else "the moon is full: test_it.py") in done.stdout


@pytest.mark.thorough
def test_it_fails_where_workers_run_the_tests_too(tmp_path: Path) -> None:
    for case in ("in the test", "of the file"):
        done = run(tmp_path, CASES[case], "-p", "xdist", "-n", "2")
        assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
        assert done.stdout.count("the moon is full: test_it.py") == 1


def test_elsewhere_it_is_named_and_the_run_passes(tmp_path: Path) -> None:
    done = run(tmp_path, CASES["in the test"], ci="")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "which would fail the run in CI" in done.stdout


def test_an_expected_skip_and_an_expected_failure_pass(tmp_path: Path) -> None:
    here = "these golden cases are others" if skips.SHARED.is_dir() else "shared/data is not beside the project"
    text = f"import pytest\ndef test_it(): pytest.skip({here!r})\ndef test_that(): pytest.xfail('on purpose')"
    done = run(tmp_path, text)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "does not expect" not in done.stdout


def test_material_that_lies_beside_the_project_is_no_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "shared/data/open is not beside the project"
    assert skips.is_expected(reason) is not skips.SHARED.is_dir()
    assert not skips.is_expected("shared/data/open is not beside the project, or something else")
