"""`turnscope export`: a session, or one branch of it, in another format."""

from __future__ import annotations

from pathlib import Path

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options, output
from turnscope.cli.sessions import name_errors, open_path, open_thread
from turnscope.errors import UnknownEntry, UnknownFormat
from turnscope.library import opening
from turnscope.reading.containers import open_source
from turnscope.reading.tap_log import encode_calls, is_tap_log, read_tap_log
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.share import export_formats
from turnscope.share.redact import check_masked, redact

FORMS = export_formats.list_formats()
CALLS = "calls"  # what a tap recorded as a log of plain API calls, each body as it was sent


@click.command()
@options.session_path
@click.option("--as", "form", type=click.Choice([*FORMS, CALLS]), default="json", show_default=True, help="The format.")
@options.conversation
@click.option("--branch", default="", metavar="ID", help="A branch, by the id of its leaf; default: the main path.")
@click.option("--masked", is_flag=True, help="Take secrets and personal data out, as a masked report does.")
@options.removed_words
@click.option("--output", "target", type=options.OUTPUT, help="The file to write; default: standard output.")
def command(
    path: str,
    form: str,
    conversation: str,
    branch: str,
    masked: bool,
    without: tuple[str, ...],
    names: bool,
    target: Path | None,
) -> int:
    """Write a session in another format.

    Every format opens in Turnscope again.
    """

    def make(thread: Thread) -> bytes:
        session = _find_session(thread, branch)
        if not masked and (without or names):
            raise click.UsageError("--without and --names are for --masked.")
        if not masked:
            return FORMS[form].encode(session)
        words = options.list_removed_words(session, without, names=names)
        redacted = redact(session, opening.count_session(session), "masked", words)
        made = FORMS[form].encode(redacted.session)
        check_masked(made.decode("utf-8", "replace"), redacted)
        return made

    if form == CALLS:
        if masked or branch or conversation:
            raise click.UsageError("--as calls writes every call as it was sent: no --masked, --branch or --conversation.")
        data = _encode_calls(path)
        if target is None:
            output.write(data)
            return 0
        with replace_file(target) as part:
            part.write_bytes(data)
        return 0
    if target is None:
        with open_thread(path, conversation) as thread:
            output.write(make(thread))
        return 0
    with replace_file(target) as part, open_thread(path, conversation) as thread:
        part.write_bytes(make(thread))
    return 0


def _encode_calls(path: str) -> bytes:
    with open_path(path) as file, name_errors(path):
        source = open_source(file)
        if not is_tap_log(source):
            raise UnknownFormat(f"{file.name} is no log of `turnscope tap`", hint="--as calls writes what a tap recorded.")
        return encode_calls(read_tap_log(source))


def _find_session(thread: Thread, branch: str) -> Session:
    if branch and branch not in thread.leaves:
        raise UnknownEntry(f"there is no branch {branch!r}", hint=f"There are: {', '.join(thread.leaves)}.")
    return thread.get_path(branch)
