"""`turnscope statusline`: one line about a session for Claude Code; its setting, and what it reads in the background.

`turnscope.statusline` prints the line itself before any of this is loaded.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click

from turnscope import statusline
from turnscope.cli import indexed
from turnscope.cli.output import note
from turnscope.settings import detect_machine, find_data_folder


@click.command(
    epilog="Fields of a template: " + ", ".join(f"{{{name}}} {text}" for name, text in statusline.FIELDS.items()) + "."
)
@click.option("--install", "step", flag_value="install", help="Write it into Claude Code's settings; a copy of them is kept.")
@click.option("--uninstall", "step", flag_value="uninstall", help="Put back what was there before.")
@click.option("--template", metavar="TEXT", help="The line; parts between | are left out where a field is unknown.")
@click.option("--no-color", is_flag=True, help="Without colours, as with NO_COLOR.")
@click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Turnscope's data; naming it saves time.")
@click.option("--refresh", type=click.Path(path_type=Path), hidden=True)
@click.option("--session", default="", hidden=True)
def command(
    step: str | None, template: str | None, no_color: bool, data: Path | None, refresh: Path | None, session: str
) -> int:
    """Print one line about a session for Claude Code.

    Claude Code describes the session on standard input. The line says how full the window is and how that is known, what
    fills it most, USD of the session and of the day, when the cache goes cold, tokens until Claude Code compacts by itself.
    """
    if unknown := statusline.find_unknown_fields(template or ""):
        raise click.UsageError(f"{unknown[0]!r} is no field of a template: there are {', '.join(statusline.FIELDS)}.")
    if refresh is not None:
        _refresh(data or find_data_folder(), refresh, session)
    elif step is None:
        note("Claude Code runs this command and writes JSON to it; `turnscope statusline --install` tells it to.")
    else:
        _change_settings(step, template, no_color=no_color, data=data)
    return 0


def _refresh(folder: Path, transcript: Path, id: str) -> None:
    from turnscope.library import status_record  # this loads every importer

    try:
        if hasattr(os, "nice"):
            os.nice(10)
        status_record.refresh(indexed.find_index(folder), folder, transcript, id)
    finally:
        statusline.unlock_refresh(str(folder), id)


def _change_settings(step: str, template: str | None, *, no_color: bool, data: Path | None) -> None:
    from turnscope.library import claude_settings

    path = claude_settings.find_settings(detect_machine())
    if step == "uninstall":
        done = claude_settings.uninstall(path)
        click.echo(f"{path} {'is as it was before' if done else 'has no status line of Turnscope; it was not changed'}.")
        return
    words = [*_find_program(), "statusline", "--data", str((data or find_data_folder()).resolve())]
    words += ["--template", template] if template else []
    words += ["--no-color"] if no_color else []
    shown = subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
    if before := claude_settings.install(path, shown):
        click.echo(f"It replaces: {before}")
    click.echo(f"Claude Code shows the status line from its next step on. It stands in {path};")
    click.echo("`turnscope statusline --uninstall` puts back what was there before.")


def _find_program() -> list[str]:
    """The words that start Turnscope wherever Claude Code runs."""
    script = Path(sys.argv[0])
    if script.stem == "turnscope" and (found := shutil.which(str(script.resolve()))):
        return [found]
    return [sys.executable, "-m", "turnscope"]
