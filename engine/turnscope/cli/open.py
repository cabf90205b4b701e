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
from pathlib import Path

import click

from turnscope.cli import forget
from turnscope.cli.commands import ENDING, end_on_signals
from turnscope.cli.options import STANDARD_INPUT
from turnscope.cli.output import note
from turnscope.errors import UnreadableFile
from turnscope.settings import OPEN_VARIABLE

PACKAGE = Path(__file__).resolve().parents[1]
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}  # of glibc: else what each thread has freed stays with it, some 70 MB after many replays
PATIENCE = 5.0  # seconds that the app has to end by itself
APP = PACKAGE / "_app" if (PACKAGE / "_app").is_dir() else PACKAGE.parents[1]  # in a wheel, else in a clone of the repository


@click.command()
@click.argument(
    "path", required=False, type=click.Path(), help="A session file or a folder; `-` reads standard input; default: a sample."
)
@click.option("--port", type=int, default=8501, show_default=True, help="The port on 127.0.0.1.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser window.")
@click.option("--forget", "forgets", is_flag=True, help="Deprecated: use `turnscope forget`.")
def command(path: str | None, port: int, no_browser: bool, forgets: bool) -> int:
    """Open the app on a session or a folder; the default command.

    Ctrl-C ends the app.
    """
    if forgets:
        note("--forget is deprecated; use `turnscope forget`.")
        return forget.delete()
    starts = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py"), "--server.port", str(port)]
    starts += ["--server.headless", "true"] if no_browser else []
    environment = ALLOCATOR | os.environ
    if path is None:
        return serve(starts, environment)
    if path != STANDARD_INPUT:
        if not Path(path).exists():
            raise UnreadableFile(f"{path} does not exist", hint="Check the path.")
        return serve(starts, environment | {OPEN_VARIABLE: str(Path(path).resolve())})
    from turnscope.cli.sessions import open_path  # who reads a path alone does not wait for every format

    with open_path(path) as file:
        return serve(starts, environment | {OPEN_VARIABLE: str(file)})


def serve(arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Run the app until it ends, or this process is told to end: the app never outlives it. Gives the app's exit code."""
    app = None
    with end_on_signals():
        try:
            app = subprocess.Popen(arguments, env=environment, cwd=APP)  # noqa: S603 - our own interpreter and app
            return app.wait()
        except KeyboardInterrupt:  # the app had it, too
            return 0
        finally:
            for number in (*ENDING, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # asked twice: it is ending
            if app is not None and app.poll() is None:
                app.terminate()
                with suppress(subprocess.TimeoutExpired):
                    app.wait(PATIENCE)
                app.kill()
                app.wait()
