"""`turnscope export`: a session, or one branch of it, in another format."""

from __future__ import annotations

from pathlib import Path

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options, output
from turnscope.cli.sessions import open_thread
from turnscope.errors import UnknownEntry
from turnscope.session.thread import Thread
from turnscope.share import export_formats

FORMS = export_formats.list_formats()


@click.command()
@options.session_path
@click.option("--as", "form", type=click.Choice([*FORMS]), default="json", show_default=True, help="The format.")
@options.conversation
@click.option("--branch", default="", metavar="ID", help="A branch, by the id of its leaf; default: the main path.")
@click.option("--output", "target", type=options.OUTPUT, help="The file to write; default: standard output.")
def command(path: str, form: str, conversation: str, branch: str, target: Path | None) -> int:
    """Write a session in another format.

    Every format opens in Turnscope again.
    """
    if target is None:
        with open_thread(path, conversation) as thread:
            output.write(_export(thread, form, branch))
        return 0
    with replace_file(target) as part, open_thread(path, conversation) as thread:
        part.write_bytes(_export(thread, form, branch))
    return 0


def _export(thread: Thread, form: str, branch: str) -> bytes:
    if branch and branch not in thread.leaves:
        raise UnknownEntry(f"there is no branch {branch!r}", hint=f"There are: {', '.join(thread.leaves)}.")
    return FORMS[form].encode(thread.get_path(branch))
