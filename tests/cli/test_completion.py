"""Shell completion: the scripts, and what they are answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from turnscope.cli import command_line, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_that_its_shell_reads(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_TURNSCOPE_COMPLETE={shell}_complete" in script
    if path := shutil.which(shell):
        subprocess.run([path, "-n"], input=script, text=True, check=True, timeout=20)
    assert main(["completion", "tcsh"]) == 2


def complete(*words: str) -> list[str]:
    """What completes the last word."""
    *before, last = words
    return [item.value for item in BashComplete(command_line, {}, "turnscope", "X").get_completions(before, last)]


def test_commands_options_values_and_policies_complete() -> None:
    assert {"open", "compare", "check"} <= {*complete("")}
    assert complete("com") == ["com", "compare", "completion"]  # the first: a file
    assert complete("compare", "--pol") == ["--policies"]
    assert complete("--no") == complete("--port", "1", "--no") == complete("open", "--no") == ["--no-browser"]
    assert complete("export", "x", "--as", "mark") == ["markdown"]
    assert complete("check", "--policy", "last-") == ["last-20-messages", "last-5-pairs"]
    assert complete("compare", "x", "--policies", "balanced,last-2") == ["balanced,last-20-messages"]


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on this machine")
def test_bash_completes_the_program(tmp_path: Path) -> None:
    program = tmp_path / "turnscope"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom turnscope.__main__ import main\nsys.exit(main())\n")
    program.chmod(0o755)
    lines = 'eval "$(turnscope completion bash)"; COMP_WORDS=(turnscope com); COMP_CWORD=1; _turnscope_completion turnscope'
    script = f'compopt() {{ :; }}; {lines}; echo "${{COMPREPLY[@]}}"'
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.split(), done.stderr) == (["compare", "completion"], "")
