"""Sessions that commands are given: a path or standard input, one of several conversations, errors that name the path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

from turnscope.cli.options import STANDARD_INPUT
from turnscope.cli.output import note
from turnscope.errors import BrokenFile, UnknownEntry, UnknownFormat, UnreadableFile
from turnscope.library.loading import read_thread
from turnscope.reading import contents
from turnscope.reading.containers import open_source
from turnscope.reading.source import Source
from turnscope.session.model import Session
from turnscope.session.thread import Thread

SPOOLED = "standard input"  # name of the temporary file, and of `-` in messages
COUNTED = 1_000  # conversations; a note says that there are more
LISTED = 20  # ids that an error names


@contextmanager
def open_path(path: str) -> Iterator[Path]:
    """The file or folder at `path`; for `-` a temporary file with all of standard input, removed at the end."""
    if path != STANDARD_INPUT:
        yield Path(path)
        return
    if sys.stdin.isatty():
        note("reading a session from standard input; end it with Ctrl-D.")
    folder = Path(gettempdir(), f"turnscope-{token_hex(8)}")  # known before it exists: no signal leaves it behind
    file = folder / SPOOLED
    try:
        folder.mkdir(mode=0o700)
        with file.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        if not file.stat().st_size:
            raise UnreadableFile("standard input is empty", hint="Pipe a session into the command, or name its file.")
        yield file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_thread(path: str, conversation: str = "") -> Iterator[Thread]:
    """The conversation at a path; a note says which one where there are several and none is named.

    Args:
        path: A file or a folder, or `-` for standard input.
        conversation: The conversation's id; "" = the main one.

    Raises:
        TurnscopeError: It cannot be read. The message names the path.
    """
    with open_path(path) as file:
        with name_errors(path):
            source = open_source(file)
            try:
                thread = read_thread(source, conversation)
            except UnknownEntry as error:
                error.hint = f"Of {_count(ids := _ids(source))}, the first are: {', '.join(map(repr, ids[:LISTED]))}."
                raise
            ids = [] if conversation else _ids(source)
        if len(ids) > 1:
            note(
                f"{format_path(path)} holds {_count(ids)} conversations; this is {ids[0]!r}. "
                f"Choose another with --conversation ID, such as --conversation {ids[1]!r}."
            )
        yield thread


def _ids(source: Source) -> list[str]:
    """The ids of its conversations, the main one first; one more than `COUNTED` where there are more."""
    return [entry.id for entry in islice(contents.list_entries(source), COUNTED + 1)]


def _count(ids: Sequence[str]) -> str:
    return f"{len(ids):,}" if len(ids) <= COUNTED else f"more than {COUNTED:,}"


@contextmanager
def open_session(path: str, conversation: str = "") -> Iterator[Session]:
    """The main branch of a conversation, as `open_thread` finds it.

    Args:
        path: A file or a folder, or `-` for standard input.
        conversation: The conversation's id; "" = the main one.
    """
    with open_thread(path, conversation) as thread:
        yield thread.session


@contextmanager
def name_errors(path: str) -> Iterator[None]:
    """Make an error of reading name the path as the user wrote it, where it names the file alone."""
    try:
        yield
    except (UnreadableFile, UnknownFormat, UnknownEntry, BrokenFile) as error:
        error.what = name_path(error.what, path)
        raise


def name_path(what: str, path: str) -> str:
    """A sentence about a file with the path as the user wrote it, instead of the file's name or before all.

    Args:
        what: The sentence.
        path: The path as the user wrote it.
    """
    where = format_path(path)
    name = Path(where).name
    if where in what:
        return what
    return f"{where}{what.removeprefix(name)}" if name and what.startswith(f"{name} ") else f"{where}: {what}"


def format_path(path: str) -> str:
    """A path as messages show it."""
    return path if path != STANDARD_INPUT else SPOOLED
