"""The example package, installed for real and used by a process of its own: what somebody gets who installs a package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

USE = """
import sys
import turnscope
assert "turnscope_diary" not in sys.modules, "a package is loaded before it is needed"
assert "importlib.metadata" not in sys.modules, "packages are looked for before they are needed"
(first, second) = turnscope.entries(sys.argv[1])
session = turnscope.load(sys.argv[1], second)
trace = turnscope.replay(session, "remind-of-task")
from turnscope.planning.rule_registry import load_rules
from turnscope.reading.registry import find_importers
from turnscope.views.formats import list_formats
from turnscope.planning.policy_catalog import load_catalog
from turnscope.views.policy_pages import to_markdown
from pathlib import Path
page = to_markdown(load_catalog(Path("nowhere")))
table = list_formats()
print(session.title, len(trace.plans), "say_the_task_again" in load_rules(), sep=" | ")
print([line for line in table.splitlines() if "iary" in line])
print([line for line in page.splitlines() if "turnscope-diary" in line])
from turnscope.extensions import list_problems
print(list_problems())
"""


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    days = [{"day": f"2026-01-0{day}", "said": [["me", "Hello"], ["it", "Hi.", 12, 3]]} for day in (2, 3)]
    path.write_text(json.dumps({"diary": 1, "days": days}))
    return path


def run(folder: Path, *command: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder` with the engine, the example package where `packages` is its folder, and an empty home."""
    path = [*([str(packages)] if packages else []), str(ROOT / "engine")]
    home = {name: str(folder) for name in ("HOME", "USERPROFILE", "TURNSCOPE_DATA", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    env = os.environ | home | {"PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_what_the_package_brings_is_loaded_when_needed_listed_opened_replayed_and_shown(
    installed_plugin: Path, diary: Path
) -> None:
    done = run(diary.parent, "-c", USE, str(diary), packages=installed_plugin)
    assert done.stderr == ""
    said, formats, pages, problems = done.stdout.splitlines()
    assert said == "Diary of 2026-01-02 | 1 | True"
    assert formats == "['| Diary (JSON), of turnscope-diary 1.0 | as its schema says |']"
    assert "- **Package turnscope-diary 1.0**: [Remind of the task](#remind-of-task)" in pages
    assert "- Package: turnscope-diary 1.0" in pages
    assert problems == "()"


def test_the_command_line_opens_and_replays_what_the_package_brings(installed_plugin: Path, diary: Path) -> None:
    command = ("-m", "turnscope", "compare", str(diary), "--policies", "remind-of-task", "--conversation", "2026-01-02")
    done = run(diary.parent, *command, packages=installed_plugin)
    assert (done.returncode, done.stderr) == (0, "")
    assert "remind-of-task" in done.stdout


def test_without_the_package_the_command_line_says_what_is_unknown(diary: Path) -> None:
    done = run(diary.parent, "-m", "turnscope", "compare", str(diary))
    assert done.returncode > 0
    assert "is in no format that Turnscope knows" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_package_is_one_sentence_on_standard_error(tmp_path: Path, diary: Path) -> None:
    (tmp_path / "importers").mkdir()
    (tmp_path / "importers" / "mine.py").write_text("import no_such_module")
    sample = ROOT / "sample_sessions" / "thinking-grows.jsonl"
    done = run(tmp_path, "-c", f"import turnscope; print(len(turnscope.load({str(sample)!r}).requests))")
    assert int(done.stdout) > 0
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(
        f"The importer 'mine' of {tmp_path / 'importers' / 'mine.py'} cannot be loaded: ModuleNotFoundError"
    )
