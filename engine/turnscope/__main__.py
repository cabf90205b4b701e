"""`python -m turnscope`, and the program `turnscope`: the command line (`turnscope.cli`), and what Ctrl-C does to it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from time import monotonic

AGAIN = 2.0  # seconds in which another Ctrl-C counts as the same one: the command is ending already
STATUS_LINE = "statusline"
_interrupted = float("-inf")


def main() -> int:
    """Run the command that this process was started with; gives its exit code (`turnscope.cli.ExitCode`)."""
    if sys.argv[1:2] == [STATUS_LINE] and (len(sys.argv) > 2 or not os.path.exists(STATUS_LINE)):  # noqa: PTH110 - as fast as can be
        from turnscope.statusline import print_line  # no other command has to be ready in milliseconds

        if print_line(sys.argv[2:]):
            return 0
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started it wants Ctrl-C ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from turnscope.cli import main as run  # here, so that Ctrl-C is one sentence while this loads, too
        from turnscope.skipped_imports import skip_pandas

        skip_pandas()
        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("turnscope: Stopped by Ctrl-C.\n")
        code = 130
    if code == 130:
        _exit_now(code)
    return code


def _exit_now(code: int) -> None:
    """End at once. What Python does at its end takes seconds where threads are at work, a second Ctrl-C would interrupt it,
    and it ends by the signal, not by the exit code, where Ctrl-C struck in code that was made from text (`exec`)."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _interrupt(_number: int, _frame: object) -> None:
    global _interrupted
    now, before = monotonic(), _interrupted
    _interrupted = now
    if now - before > AGAIN:
        raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
