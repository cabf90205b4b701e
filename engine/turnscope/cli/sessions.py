"""Sessions that commands are given: a path or standard input, one of several conversations, errors that name the path."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from turnscope import importers
from turnscope.cli.options import STANDARD_INPUT
from turnscope.cli.output import note
from turnscope.errors import TurnscopeError, UnreadableFile
from turnscope.library.loading import read
from turnscope.reading.holders import open_source
from turnscope.session.model import Session
from turnscope.session.thread import Thread

SPOOLED = "standard-input"  # name of the temporary file
LISTED = 1_000  # conversations that are counted; of more it is said that there are more


@contextmanager
def open_path(path: str) -> Iterator[Path]:
    """The file or folder at `path`; for `-` a temporary file with all of standard input, removed at the end."""
    if path != STANDARD_INPUT:
        yield Path(path)
        return
    if sys.stdin.isatty():
        note("reading a session from standard input; end it with Ctrl-D.")
    with TemporaryDirectory(prefix="turnscope-") as folder:
        file = Path(folder, SPOOLED)
        with file.open("wb") as out:
            shutil.copyfileobj(click.get_binary_stream("stdin"), out)
        if not file.stat().st_size:
            raise UnreadableFile("standard input is empty", hint="Pipe a session into the command, or name its file.")
        yield file


@contextmanager
def open_thread(path: str, conversation: str = "") -> Iterator[Thread]:
    """The conversation with this id at `path`, "" = the main one; a note says which one where there are several.

    TurnscopeError, naming the path, where it cannot be read.
    """
    with open_path(path) as file:
        with naming(path):
            source = open_source(file)
            thread = read(source, conversation)
            listed = [] if conversation else [entry.id for entry in islice(importers.entries(source), LISTED + 1)]
        if len(listed) > 1:
            many = f"{len(listed):,}" if len(listed) <= LISTED else f"more than {LISTED:,}"
            note(
                f"{shown(path)} holds {many} conversations; this is {listed[0]!r}. "
                f"Choose another with --conversation ID, such as --conversation {listed[1]!r}."
            )
        yield thread


@contextmanager
def open_session(path: str, conversation: str = "") -> Iterator[Session]:
    """The main branch of a conversation, as `open_thread` finds it."""
    with open_thread(path, conversation) as thread:
        yield thread.session


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Make an error of reading name the path as the user wrote it, where it names the file alone."""
    try:
        yield
    except TurnscopeError as error:
        name, where = SPOOLED if path == STANDARD_INPUT else Path(path).name, shown(path)
        if where not in error.what:
            of_file = bool(name) and error.what.startswith(f"{name} ")
            error.what = f"{where}{error.what.removeprefix(name)}" if of_file else f"{where}: {error.what}"
        raise


def shown(path: str) -> str:
    """A path as messages show it."""
    return path if path != STANDARD_INPUT else "standard input"
