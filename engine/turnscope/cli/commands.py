"""The group of all commands: which there are, which one runs, and what becomes of an error.

Where no command is named, `open` runs, so that `turnscope FILE` opens a file. A single argument that exists as a path is
always opened, even if it is named like a command.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import click
from click.shell_completion import CompletionItem

from turnscope import __version__
from turnscope.cli.exit_codes import ExitCode
from turnscope.cli.output import write_error
from turnscope.errors import TurnscopeError

COMMANDS = {
    "open": "Open the app on a session or a folder; the default command.",
    "demo": "Walk through a sample session in seven stops.",
    "usage": "Add up what all sessions of this machine were billed.",
    "context": "Say what fills the window of a request.",
    "cache": "Say why prompt caches were cold, and what that cost.",
    "statusline": "Print one line about a session for Claude Code.",
    "mcp": "Answer an agent's questions about its own session.",
    "compare": "Compare policies on a session.",
    "check": "Check sessions against a context budget.",
    "fleet": "Read the sessions of a team into tables, and watch over their costs.",
    "tokens": "Count the tokens of prompt and tool files.",
    "calculate": "Calculate what policies do to a planned conversation.",
    "advise": "Search the parameters of a policy over sessions.",
    "share": "Write a redacted report of a session.",
    "export": "Write a session in another format.",
    "tap": "Record what an agent really sends, while it runs.",
    "unlogged": "Say what a tool's own log does not tell of a session.",
    "trace": "Write requests and decisions as OpenTelemetry spans.",
    "forget": "Delete what Turnscope remembers of opened sessions.",
    "completion": "Print the script for shell completion.",
}
"""Every command with its line in `turnscope --help`. The module of the same name holds it as `command`."""

DEFAULT = "open"
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))  # the second: a closed window


class Interrupted(click.ClickException):
    """Ctrl-C stopped a command. The message says what that means for whoever runs it again."""

    exit_code = ExitCode.INTERRUPTED


class CommandLine(click.Group):
    """A group whose commands are imported when they run, and whose errors are one sentence on standard error."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"turnscope.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Group`. Words that name no command are arguments of `open`."""
        return super().parse_args(ctx, args if self._names_command(ctx, args) else [DEFAULT, *args])

    def _names_command(self, ctx: click.Context, args: Sequence[str]) -> bool:
        if not args:
            return ctx.resilient_parsing  # while a shell completes, nothing is chosen yet
        if len(args) == 1 and Path(args[0]).exists():
            return False
        return args[0] in (*COMMANDS, *ctx.help_option_names, "--version")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            return ExitCode.PIPE_CLOSED
        except (KeyboardInterrupt, RuntimeError) as error:
            # Before Python 3.12 an exception while a class gets its names, as in an import, is the cause of a RuntimeError.
            stopped = error.__cause__ if isinstance(error, RuntimeError) else error
            if not isinstance(stopped, KeyboardInterrupt):
                raise
            raise Interrupted(str(stopped) or "Stopped by Ctrl-C; no file was written.") from None
        return code

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> int:
        """See `click.Group`. Gives the exit code of the command, or exits with it in standalone mode; no error passes."""
        with end_on_signals():
            code = self._exit_code(args, prog_name, **extra)
        if standalone_mode:
            sys.exit(code)
        return code

    def _exit_code(self, args: Sequence[str] | None, prog_name: str | None, **extra: Any) -> int:
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.Abort:  # Ctrl-C while the arguments were read
            write_error("Stopped by Ctrl-C")
            return ExitCode.INTERRUPTED
        except Interrupted as error:
            write_error(error.message)
            return ExitCode.INTERRUPTED
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "turnscope"
            write_error(" ".join(error.format_message().split()), f"See `{path} --help`.")
        except TurnscopeError as error:
            write_error(error.what, error.short_hint)
        except OSError as error:
            write_error(f"{error.filename or 'a file'}: {error.strerror or error}", "Check the path and its permissions.")
        except Exception as error:  # noqa: BLE001 - a defect must not look like a check that failed
            traceback.print_exception(error)
            write_error(f"Turnscope has a defect ({type(error).__name__})", "Please report it with the lines above.")
            return ExitCode.DEFECT
        else:
            return int(code or 0)
        return ExitCode.ERROR

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`. One line without a command and one with it."""
        formatter.write_usage(ctx.command_path, "[PATH] [--port PORT] [--no-browser]")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix=" " * len("Usage: "))

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, what `open` takes where none is named, and the exit codes."""
        with formatter.section("Commands (`turnscope COMMAND --help` says more)"):
            formatter.write_dl([*COMMANDS.items()])
        default = self._default()
        records = (param.get_help_record(click.Context(default)) for param in default.params)
        with formatter.section("Without a command, as `turnscope open`"):
            formatter.write_dl([record for record in records if record])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code.value), code.meaning) for code in ExitCode])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """See `click.Group`. Commands by name, without importing one, and files; options of the group and of `open`."""
        if incomplete.startswith("-"):
            default = self._default()
            options = click.Command.shell_complete(self, ctx, incomplete)
            return [*options, *default.shell_complete(click.Context(default), incomplete)]
        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file"), *names]

    def _default(self) -> click.Command:
        command = self.get_command(click.Context(self), DEFAULT)
        assert command is not None
        return command


@contextmanager
def end_on_signals() -> Iterator[None]:
    """End by an exception where the process receives SIGTERM, so that temporary files are removed."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    ours = ENDING if current_thread() is main_thread() else ()
    before = {number: signal.signal(number, end) for number in ours}
    if ours:
        before[signal.SIGINT] = signal.getsignal(signal.SIGINT)  # `open` ignores it at its end
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drop_output() -> None:
    """Send what is still to be written nowhere: Python would complain when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


command_line = CommandLine(
    "turnscope",
    help="A debugger for LLM context windows.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="turnscope", message="%(prog)s %(version)s")(command_line)
