"""Commands that read the index of all sessions: which sources count, and the index brought up to date.

Where nothing has changed since the last time, nothing but the index is read and no importer is loaded: that is fast.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from turnscope import __version__
from turnscope.cli.output import note
from turnscope.settings import find_database, find_prices_file, find_windows_file
from turnscope.storage import library_index
from turnscope.storage.folder_digest import digest_folders

if TYPE_CHECKING:
    from turnscope.library.index_job import IndexJob

F = TypeVar("F", bound=Callable[..., Any])

POLL = 0.05  # seconds between two looks at a job
PATIENCE = 1.0  # seconds that a job may take before its progress is shown
PLACES = re.compile(r"(?<!^)(HOME|DIR|PATH|ROOT|DATA)$|^HOME$")  # environment variables that name folders of tools


class Day(click.DateTime):
    """A day as 2026-11-28 or 20261128."""

    name = "day"

    def __init__(self) -> None:
        super().__init__(("%Y-%m-%d", "%Y%m%d"))


class Zone(click.ParamType[ZoneInfo]):
    """A time zone by its name."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ZoneInfo:
        """See `click.ParamType`."""
        try:
            return value if isinstance(value, ZoneInfo) else ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is no time zone: write it as UTC or Europe/Berlin.", param, ctx)


def selection(function: F) -> F:
    """The argument `paths`, and the options that choose days, projects, tools and the time zone."""
    for option in (
        click.option("--timezone", "zone", type=Zone(), metavar="NAME", help="Where days begin; default: this machine's zone."),
        click.option("--tool", default="", metavar="TEXT", help="Count tools alone whose name holds this, such as codex."),
        click.option("--project", default="", metavar="TEXT", help="Count projects alone whose path holds this."),
        click.option("--until", type=Day(), metavar="DAY", help="The last day that counts."),
        click.option("--since", type=Day(), metavar="DAY", help="The first day that counts, such as 2026-11-01."),
        click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path)),
    ):
        function = option(function)
    return function


def find_index(folder: Path | None = None) -> Path:
    """Return where the index lies.

    Args:
        folder: The folder of Turnscope's data; None = that of the user.
    """
    return (folder / library_index.FILE) if folder else find_database().with_name(library_index.FILE)


def note_unread(index: Path, sources: frozenset[str]) -> int:
    """Say how many sources could not be read, and return their number.

    Args:
        index: The index.
        sources: The sources.
    """
    unread = sum(problem.path in sources for problem in library_index.list_problems(index))
    if unread:
        note(f"{unread:,} of {len(sources):,} files could not be read; the page Library of the app says why.")
    return unread


def find_indexed(index: Path, paths: Iterable[Path]) -> frozenset[str]:
    """Bring the index up to date with some files and folders, and return the sources that they hold.

    Args:
        index: The index.
        paths: The files and folders; none = what tools keep on this machine.

    Raises:
        StorageError: The index cannot be written.
    """
    where = [str(path.resolve()) for path in paths]
    key, state = "\0".join(where), _get_state()
    if (known := library_index.find_unchanged(index, key, state)) is not None:
        return frozenset(known)
    from turnscope.library import discovery, index_job, loading  # these load every importer

    folders = where or [*dict.fromkeys(map(str, loading.list_tool_folders()))]
    digest = digest_folders(folders)  # before anything is read: what changes meanwhile is read the next time
    kept = (source for _, place in loading.find_places() for source in place.paths())
    named = (source for path in where for source in discovery.find_sources(Path(path)))
    sources: list[Path] = [*dict.fromkeys(named if where else kept)]
    _wait(index_job.IndexJob(index, sources))
    library_index.keep_snapshot(index, key, state, folders, digest, [*map(str, sources)])
    return frozenset(map(str, sources))


def _get_state() -> str:
    """A text that changes with all that decides where sessions are looked for, and how they are read and priced."""
    here = Path(__file__).parents[1]
    files = (Path(sysconfig.get_path("purelib")), find_prices_file(), find_windows_file())  # the first: installed packages
    times = [path.stat().st_mtime_ns for path in files if path and path.exists()]
    folders = sorted((name, value) for name, value in os.environ.items() if name != "PATH" and PLACES.search(name))
    code = digest_folders(str(here / name) for name in ("importers", "pricing", "reading"))
    return f"{__version__} {sys.version} {code} {times} {folders}"


def _wait(job: IndexJob) -> None:
    """Wait for a job, and raise its error. Its progress is shown on a terminal where it takes long; Ctrl-C stops it."""
    begun, shown = time.monotonic(), sys.stderr.isatty()
    try:
        while job.state == "running":
            job.wait(POLL)
            if shown and time.monotonic() - begun > PATIENCE:
                click.echo(f"\rreading {job.done:,} of {job.count:,} ", err=True, nl=False)
        job.poll()
    finally:
        job.cancel()
        if shown and time.monotonic() - begun > PATIENCE:
            click.echo("\r\033[K", err=True, nl=False)
