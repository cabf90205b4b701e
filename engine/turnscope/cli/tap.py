"""`turnscope tap`: record what an agent really sends, while it runs."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from secrets import token_urlsafe

import click

from turnscope.cli.open import HOST, is_loopback
from turnscope.cli.output import note
from turnscope.tap.apis import PORT


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--upstream", default="", metavar="URL", help="Where all requests go; default: where the tool sends them.")
@click.option("--port", type=click.IntRange(1, 65_535), help=f"The port; default: {PORT}, with a COMMAND any that is free.")
@click.option("--host", default=HOST, show_default=True, help="The address to listen on. Beyond this machine it wants a token.")
@click.option("--token", default="", help="What addresses have to name beyond this machine; default: one is made.")
@click.argument("command_line", nargs=-1, metavar="[-- COMMAND ...]", type=click.UNPROCESSED)
def command(upstream: str, port: int | None, host: str, token: str, command_line: tuple[str, ...]) -> int:
    """Record what an agent really sends, while it runs.

    Requests pass to their provider unchanged, and answers back. With a COMMAND, such as `claude`, the tap starts it with
    the variables that lead it here, and ends with it. Without one it runs until Ctrl-C.
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
    with run_tap(path, upstreams, host=host, port=at, token=wanted, command=command_line) as tap, suppress(KeyboardInterrupt):
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


def wait_until_interrupted() -> None:
    """Wait for Ctrl-C, which is a KeyboardInterrupt."""
    while True:
        time.sleep(3_600)
