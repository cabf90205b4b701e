"""`python -m turnscope`, and the program `turnscope`: the command line (`turnscope.cli`) and nothing else."""

from __future__ import annotations

import signal
import sys

from turnscope.cli import ExitCode
from turnscope.cli import main as run


def main() -> int:
    """Run the command that this process was started with; gives its exit code."""
    code = run()
    if code == ExitCode.INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C: the process is ending already
    return code


if __name__ == "__main__":
    sys.exit(main())
