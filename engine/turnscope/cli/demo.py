"""`turnscope demo`: the app, beginning with its demo."""

from __future__ import annotations

import click

from turnscope.cli import open as opening
from turnscope.settings import DEMO_VARIABLE


@click.command()
@click.option("--play", is_flag=True, help="Let the demo play by itself; it stops when somebody clicks or types.")
@opening.port_option
@opening.browser_option
def command(play: bool, port: int, no_browser: bool) -> int:
    """Walk through a sample session in seven stops.

    It takes two minutes, needs no key and no network, and can be left and resumed at any stop. Ctrl-C ends the app.
    """
    arguments, environment = opening.build_start(port, no_browser=no_browser)
    return opening.serve(arguments, environment | {DEMO_VARIABLE: "play" if play else "1"})
