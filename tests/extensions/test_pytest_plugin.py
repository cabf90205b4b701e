"""The pytest fixture is opt-in: an installed Turnscope changes nothing in a project that does not ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that Turnscope itself was installed into as a wheel."""
    target = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target", str(target))
    command = [sys.executable, "-m", "pip", "install", *options, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def run(folder: Path, path: str, files: Mapping[str, str], *options: str) -> str:
    """What pytest prints for a project of these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False).stdout


@pytest.mark.thorough
def test_a_project_with_a_folder_of_its_own_called_engine_is_tested_as_without_turnscope(
    installed: Path, tmp_path: Path
) -> None:
    assert sorted(path.name for path in installed.iterdir() if path.suffix != ".dist-info") == ["bin", "turnscope"]
    (metadata,) = installed.glob("turnscope-*.dist-info")
    assert "pytest" not in (metadata / "entry_points.txt").read_text()
    files = {
        "engine/__init__.py": "SIZE = 3\n",
        "engine/live.py": "from engine import SIZE\n",
        "tests/test_engine.py": "import sys\nimport engine.live\n\n"
        "def test_it():\n    assert engine.SIZE == 3\n    assert not [name for name in sys.modules if 'turnscope' in name]\n",
    }
    printed = run(tmp_path, str(installed), files, "--trace-config")
    assert "1 passed" in printed
    assert "turnscope" not in printed.replace(str(installed), "")
    fixtures = run(tmp_path, str(installed), {}, "--fixtures")
    assert "context_budget" not in fixtures


@pytest.mark.thorough
def test_a_test_that_asks_for_the_fixture_gets_it_and_fails_where_the_session_breaks_its_budget(
    installed: Path, tmp_path: Path
) -> None:
    files = {
        "conftest.py": 'pytest_plugins = ["turnscope.pytest_plugin"]\n',
        "engine/__init__.py": "SIZE = 3\n",
        "test_mine.py": "import engine\n\n"
        f"def test_kept(context_budget):\n    assert context_budget({str(COLD)!r}, max_fill=90).policy == 'as-recorded'\n"
        f"def test_broken(context_budget):\n    context_budget({str(COLD)!r}, max_fill=10)\n"
        f"def test_missing(context_budget):\n    context_budget('none.jsonl', max_fill=10)\n"
        f"def test_other():\n    assert engine.SIZE == 3\n",
    }
    printed = run(tmp_path, str(installed), files)
    assert "2 failed, 2 passed" in printed
    assert "of its window, more than 10 %" in printed
    assert "none.jsonl cannot be read" in printed
    assert "Traceback" not in printed
