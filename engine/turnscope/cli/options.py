"""Arguments and options that several commands share, and the completion of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

STANDARD_INPUT = "-"
AS_RECORDED = "as-recorded"
OUTPUT = click.Path(path_type=Path)


def complete_policies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Names of built-in policies; where several stand with commas between them, of the last one."""
    from turnscope.planning import policy  # only who completes a policy waits for it

    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in policy.list_policies() if name.startswith(last)]


def session_path(function: F) -> F:
    """The argument `path`: one session, as `sessions.open_thread` takes it."""
    text = "A session file, folder, archive or database; `-` reads standard input."
    return click.argument("path", type=click.Path(), help=text)(function)


def conversation(function: F) -> F:
    """The option `--conversation`."""
    text = "The id of one of several conversations; default: the main one."
    return click.option("--conversation", default="", metavar="ID", help=text)(function)


def policy(text: str, default: str | None = AS_RECORDED) -> Callable[[F], F]:
    """The option `--policy`: one name; required where there is no default."""
    return click.option(
        "--policy",
        default=default,
        required=default is None,
        show_default=True,
        metavar="NAME",
        help=text,
        shell_complete=complete_policies,
    )


def policies(default: tuple[str, ...]) -> Callable[[F], F]:
    """The option `--policies`: a list of names."""
    return click.option(
        "--policies",
        default=",".join(default),
        show_default=True,
        metavar="NAMES",
        callback=_names,
        help="Names, separated by commas.",
        shell_complete=complete_policies,
    )


def _names(_ctx: click.Context, _param: click.Parameter, value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def rows(function: F) -> F:
    """The options `--json` and `--csv` of a command that prints rows (`output.write_rows`)."""
    function = click.option(
        "--csv", "as_csv", is_flag=True, callback=_one_form, help="Print CSV, as a pipe gets it; a terminal gets a table."
    )(function)
    return click.option("--json", "as_json", is_flag=True, callback=_one_form, help="Print JSON.")(function)


def _one_form(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    if value and (ctx.params.get("as_json") or ctx.params.get("as_csv")):
        raise click.UsageError("--json and --csv exclude each other.", ctx)
    return value
