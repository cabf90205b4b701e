"""The command line: `turnscope COMMAND ...`. One module per command; what a command does lies in `library` and `views`.

`commands` finds the commands and turns errors into sentences and exit codes; a command's module is imported only when it
runs, so that `turnscope --help` loads neither NumPy nor Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.cli.commands import command_line
from turnscope.cli.exit_codes import ExitCode

__all__ = ["ExitCode", "command_line", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with these arguments, None = those of the process. Gives the exit code (`ExitCode`); exits nothing."""
    return int(command_line.main(argv, prog_name="turnscope", standalone_mode=False))
