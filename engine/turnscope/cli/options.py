"""Arguments and options that several commands share, and the completion of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from turnscope.settings import find_data_folder

if TYPE_CHECKING:
    from turnscope.planning.policy import Policy
    from turnscope.session.model import Session

F = TypeVar("F", bound=Callable[..., Any])

STANDARD_INPUT = "-"
AS_RECORDED = "as-recorded"
OUTPUT = click.Path(path_type=Path)


class Amount(click.ParamType[float]):
    """A number that a limit can be: finite, and not negative."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType`."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            self.fail(f"{value!r} is no amount: a number from 0 on is wanted.", param, ctx)
        return number


def complete_policies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Names of built-in policies and of the user's own; where several stand with commas between them, of the last one."""
    from turnscope.planning import policy  # only who completes a policy waits for it

    before, comma, last = incomplete.rpartition(",")
    names = dict.fromkeys((*policy.list_policies(), *policy.list_policies(find_data_folder() / "policies")))
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]


def load_policy(name: str) -> Policy:
    """Load a policy that an option names: see `library.opening.load_policy`, whose errors it raises."""
    from turnscope.library import opening  # only who needs a policy waits for it

    return opening.load_policy(name)


def session_path(function: F) -> F:
    """The argument `path`: one session, as `sessions.open_thread` takes it."""
    text = "A session file, folder, archive or database; `-` reads standard input."
    return click.argument("path", type=click.Path(), help=text)(function)


def conversation(function: F) -> F:
    """The option `--conversation`."""
    text = "The id of one of several conversations; default: the main one."
    return click.option("--conversation", default="", metavar="ID", help=text)(function)


def policy(text: str, default: str | None = AS_RECORDED) -> Callable[[F], F]:
    """The option `--policy`: one name or path; required where there is no default.

    Args:
        text: Its line of help.
        default: The policy where none is named; None = one has to be named.
    """
    return click.option(
        "--policy",
        **({"required": True} if default is None else {"default": default}),  # click takes a default of None for a value
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


def removed_words(function: F) -> F:
    """The options `--without` and `--names`: what else is taken out of masked texts."""
    function = click.option(
        "--names", is_flag=True, help="Take out names of people, places and organisations too, as presidio recognises them."
    )(function)
    text = "A further word to take out of masked texts, such as a name; may be repeated."
    return click.option("--without", multiple=True, metavar="WORD", help=text)(function)


def list_removed_words(session: Session, without: Sequence[str], *, names: bool) -> tuple[str, ...]:
    """List what is taken out of masked texts beside secrets and personal data.

    Args:
        session: The session.
        without: The words of `--without`.
        names: Whether names are recognised, too.

    Raises:
        TurnscopeError: The recogniser of names is not installed.
    """
    from turnscope.share import names as recognised  # only who asks for it loads a recogniser

    return (*without, *(recognised.find_names(session, recognised.load_recogniser()) if names else ()))
