"""`turnscope tap`: record what an agent really sends, while it runs."""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import click

from turnscope.cli import options
from turnscope.cli.open import HOST, is_loopback
from turnscope.cli.output import note
from turnscope.tap.apis import PORT

if TYPE_CHECKING:
    from turnscope.tap.enforcement import Rules


class _Usd(click.ParamType[Decimal]):
    """A sum of money."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """See click."""
        try:
            found = Decimal(str(value).removeprefix("$"))
        except InvalidOperation:
            found = Decimal(-1)
        if not found.is_finite() or found < 0:
            self.fail(f"{value!r} is no sum in USD, such as 2.50", param, ctx)
        return found


USD = _Usd()


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--upstream", default="", metavar="URL", help="Where all requests go; default: where the tool sends them.")
@click.option("--port", type=click.IntRange(1, 65_535), help=f"The port; default: {PORT}, with a COMMAND any that is free.")
@click.option("--host", default=HOST, show_default=True, help="The address to listen on. Beyond this machine it wants a token.")
@click.option("--token", default="", help="What addresses have to name beyond this machine; default: one is made.")
@click.option(
    "--policy",
    default="",
    metavar="NAME",
    help="Hold each request to this policy: a name, or a TOML file.",
    shell_complete=options.complete_policies,
)
@click.option(
    "--window",
    type=click.IntRange(1_000),
    metavar="TOKENS",
    help="The window to hold them to; default: the model's.",
)
@click.option("--dry-run", is_flag=True, help="Change and refuse nothing; the log says what would have been done.")
@click.option("--budget-session", type=USD, metavar="USD", help="Refuse requests of a session that has cost so much.")
@click.option("--budget-day", type=USD, metavar="USD", help="Refuse requests once those of today have cost so much.")
@click.argument("command_line", nargs=-1, metavar="[-- COMMAND ...]", type=click.UNPROCESSED)
def command(upstream: str, port: int | None, host: str, token: str, command_line: tuple[str, ...], **limits: Any) -> int:
    """Record what an agent really sends, while it runs.

    Requests pass to their provider unchanged, and answers back. With a COMMAND, such as `claude`, the tap starts it with
    the variables that lead it here, and ends with it. Without one it runs until Ctrl-C. With a policy or a budget, requests
    are edited or refused on their way.
    """
    from turnscope.settings import find_tap_folder
    from turnscope.tap.server import make_log_path, run_command, run_tap
    from turnscope.tap.tools import BASE_VARIABLES, read_upstreams

    if upstream and not upstream.startswith(("http://", "https://")):
        raise click.UsageError("--upstream is an address that begins with http:// or https://.")
    if token and is_loopback(host):
        raise click.UsageError("--token is for --host beyond this machine.")
    wanted = token or ("" if is_loopback(host) else token_urlsafe(24))
    upstreams = read_upstreams(upstream, os.environ)
    path = make_log_path(find_tap_folder(), command_line)
    at = port if port is not None else 0 if command_line else PORT
    rules = make_rules(**limits)
    gc.freeze()  # what is loaded by now stays: looking through it again for what is unused took 8 % of a stream's time
    running = run_tap(path, upstreams, host=host, port=at, token=wanted, command=command_line, rules=rules)
    with running as tap, suppress(KeyboardInterrupt):
        note(f"`turnscope {path}` opens what passes here, while it passes.")
        if command_line:
            code = run_command(tap, command_line, os.environ)
            if not tap.recorder.calls:
                note("no request passed: the tool may read its address from its own settings (see the page Tap of the docs).")
            return code
        for variable, name in BASE_VARIABLES.items():
            note(f"    export {variable}={upstreams.make_base(tap.address, name)}")
        wait_until_interrupted()
    return 0


def make_rules(
    policy: str, window: int | None, budget_session: Decimal | None, budget_day: Decimal | None, *, dry_run: bool
) -> Rules | None:
    """Make what requests are held to; None where nothing was named.

    Args:
        policy: Name of the policy; "" = none.
        window: The window in tokens; None = the model's.
        budget_session: Budget of a session in USD.
        budget_day: Budget of a day in USD.
        dry_run: Nothing is changed or refused.

    Raises:
        PolicyError: There is no such policy.
    """
    session, day = budget_session, budget_day
    if not policy and (window or (dry_run and session is None and day is None)):
        raise click.UsageError("--window and --dry-run are for --policy.")
    if not policy and session is None and day is None:
        return None
    from turnscope.library.opening import load_prices
    from turnscope.tap.enforcement import Rules
    from turnscope.tap.spending import Budgets

    chosen = options.load_policy(policy) if policy else None
    return Rules(chosen, window or 0, dry_run, Budgets(session, day), load_prices())


def wait_until_interrupted() -> None:
    """Wait for Ctrl-C, which is a KeyboardInterrupt."""
    while True:
        time.sleep(3_600)
