"""`turnscope open`, the default command: start the app as a child process and end with it.

Streamlit runs in the child; the engine itself imports none of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from socket import gethostname

import click

from turnscope.cli import forget
from turnscope.cli.commands import ENDING, end_on_signals
from turnscope.cli.options import STANDARD_INPUT
from turnscope.cli.output import note
from turnscope.errors import UnreadableFile
from turnscope.settings import OPEN_VARIABLE, TOKEN_VARIABLE
from turnscope.typed_path import parse_path

HOST = "127.0.0.1"
PACKAGE = Path(__file__).resolve().parents[1]
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}  # of glibc: else what each thread has freed stays with it, some 70 MB after many replays
port_option = click.option("--port", type=click.IntRange(1, 65_535), default=8501, show_default=True, help="The port.")
host_option = click.option(
    "--host", default=HOST, show_default=True, help="The address to listen on. Other machines need the link that is printed."
)
browser_option = click.option("--no-browser", is_flag=True, help="Do not open a browser window.")
PATIENCE = 5.0  # seconds that the app has to end by itself
APP = PACKAGE / "_app" if (PACKAGE / "_app").is_dir() else PACKAGE.parents[1]  # in a wheel, else in a clone of the repository


@click.command()
@click.argument(
    "path", required=False, type=click.Path(), help="A session file or a folder; `-` reads standard input; default: a sample."
)
@port_option
@host_option
@browser_option
@click.option("--forget", "forgets", is_flag=True, help="Deprecated: use `turnscope forget`.")
def command(path: str | None, port: int, host: str, no_browser: bool, forgets: bool) -> int:
    """Open the app on a session or a folder; the default command.

    Ctrl-C ends the app.
    """
    if forgets:
        note("--forget is deprecated; use `turnscope forget`.")
        return forget.delete()
    starts, environment = build_start(port, no_browser=no_browser, host=host)
    if path is None:
        return serve(starts, environment)
    if path != STANDARD_INPUT:
        if not (found := parse_path(path)).exists():
            raise UnreadableFile(f"{path} does not exist", hint="Check the path.")
        return serve(starts, environment | {OPEN_VARIABLE: str(found)})
    from turnscope.cli.sessions import open_path  # who reads a path alone does not wait for every format

    with open_path(path) as file:
        return serve(starts, environment | {OPEN_VARIABLE: str(file)})


def build_start(port: int, *, no_browser: bool, host: str = HOST) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of the app's process. Where other machines can reach it, it wants a token.

    Args:
        port: The port.
        no_browser: Do not open a browser window.
        host: The address to listen on.
    """
    starts = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py"), "--server.port", str(port)]
    environment = ALLOCATOR | os.environ
    if not is_loopback(host):
        token = environment.setdefault(TOKEN_VARIABLE, token_urlsafe(24))
        starts += ["--server.address", host, "--server.allowedHosts", "*", "--browser.serverAddress", _name_host(host)]
        note(f"Other machines can open http://{_name_host(host)}:{port}/?token={token} and read every session opened here.")
    return starts + (["--server.headless", "true"] if no_browser else []), environment


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _name_host(host: str) -> str:
    """The address for a link: this machine's name where the app listens on all of its addresses."""
    bare = host.strip("[]")
    return gethostname() if bare in ("0.0.0.0", "::") else f"[{bare}]" if ":" in bare else bare  # noqa: S104 - nothing is bound


def serve(arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Run the app until it ends, or this process receives SIGTERM: the app never outlives it. Gives the app's exit code.

    Args:
        arguments: The app's command line, the program first.
        environment: The app's environment variables.
    """
    app = None
    with end_on_signals():
        try:
            app = subprocess.Popen(arguments, env=environment, cwd=APP)  # noqa: S603 - our own interpreter and app
            return app.wait()
        except KeyboardInterrupt:  # the app had it, too
            return 0
        finally:
            for number in (*ENDING, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # interrupted twice: it is ending
            if app is not None and app.poll() is None:
                app.terminate()
                with suppress(subprocess.TimeoutExpired):
                    app.wait(PATIENCE)
                app.kill()
                app.wait()
