"""The example package, installed for real, and a process that knows of no extension before and after a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from turnscope import extensions
from turnscope.planning import rule_registry
from turnscope.planning.packaged_policies import find_packaged_policies
from turnscope.reading.registry import find_importers

PLUGIN = ROOT / "tests" / "examples" / "plugin"


@pytest.fixture(scope="session")
def installed_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example package was installed into, by pip and without the network."""
    target = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target))
    command = [sys.executable, "-m", "pip", "install", *options, str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def fresh(data_folder: Path) -> Iterator[Path]:
    """The user's data folder, empty; extensions are looked for anew in the test and after it."""
    _forget()
    yield data_folder
    _forget()


@pytest.fixture
def plugin(installed_plugin: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example package on this process's path."""
    monkeypatch.syspath_prepend(installed_plugin)
    return installed_plugin


def _forget() -> None:
    for found in (extensions.find_extensions, extensions._find_entry_points, find_importers, find_packaged_policies):
        found.cache_clear()
    for found in (rule_registry.find_rule, rule_registry.load_rules, rule_registry._find_extensions):
        found.cache_clear()
    extensions._problems.clear()
    for name in [name for name in sys.modules if name.startswith(("turnscope_user_", "turnscope_diary"))]:
        del sys.modules[name]
