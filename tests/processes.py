"""The command line as a process of its own, for tests of signals, pipes and what a process imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from conftest import ROOT


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `turnscope` to its end, in the project's folder, with its output as text."""
    command = [sys.executable, "-m", "turnscope", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **more)


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    """Start `turnscope` in a process group of its own, as a terminal does."""
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "start_new_session": True} | more
    return subprocess.Popen([sys.executable, "-m", "turnscope", *arguments], cwd=ROOT, text=True, **options)
