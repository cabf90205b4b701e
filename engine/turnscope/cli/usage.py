"""`turnscope usage`: what all sessions of this machine were billed, by day, project, model ..., from the index of the library.

Where nothing has changed since the last time, nothing but the index is read and no importer is loaded: that is fast.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from turnscope import __version__
from turnscope.cli import options
from turnscope.cli.output import note, write_rows
from turnscope.settings import find_database, find_prices_file, find_windows_file
from turnscope.storage import library_index
from turnscope.storage.folder_digest import digest_folders
from turnscope.views.usage import Period, sum_usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnscope.library.index_job import IndexJob

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


@click.command()
@click.argument("by", type=click.Choice(get_args(Period)), default="daily")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--since", type=Day(), metavar="DAY", help="The first day that counts, such as 2026-11-01.")
@click.option("--until", type=Day(), metavar="DAY", help="The last day that counts.")
@click.option("--project", default="", metavar="TEXT", help="Count projects alone whose path holds this.")
@click.option("--tool", default="", metavar="TEXT", help="Count tools alone whose name holds this, such as codex.")
@click.option("--timezone", "zone", type=Zone(), metavar="NAME", help="Where days begin; default: this machine's time zone.")
@options.rows
def command(by: Period, paths: tuple[Path, ...], as_json: bool, as_csv: bool, **chosen: Any) -> int:
    """Add up what all sessions of this machine were billed.

    Tokens by kind, and USD at list prices. BY is daily, weekly, monthly, sessions, projects, models or blocks (of five
    hours). PATHS are files and folders; without them it is all that the tools known to Turnscope keep on this machine. Each
    request counts once, with branches and subagents.
    """
    for name in ("since", "until"):
        chosen[name] = chosen[name] and chosen[name].date()
    index = find_database().with_name(library_index.FILE)
    sources = find_indexed(index, paths)
    found = sum_usage(library_index.list_usage(index, sources), by, now=time.time(), **chosen)
    unread = sum(problem.path in sources for problem in library_index.list_problems(index))
    write_rows(replace(found, unread=unread), as_json=as_json, as_csv=as_csv)
    if unread:
        note(f"{unread:,} of {len(sources):,} files could not be read; the page Library of the app says why.")
    return 0


def find_indexed(index: Path, paths: Iterable[Path]) -> frozenset[str]:
    """Bring the index up to date with some files and folders, and return the sources that they hold.

    Args:
        index: The index.
        paths: The files and folders; none = what tools keep on this machine.
    """
    where = [str(path.resolve()) for path in paths]
    key = "\0".join((_get_state(), *where))
    if (known := library_index.find_unchanged(index, key)) is not None:
        return frozenset(known)
    from turnscope.library import discovery, index_job, loading  # these load every importer

    folders = where or [*dict.fromkeys(map(str, loading.list_tool_folders()))]
    digest = digest_folders(folders)  # before anything is read: what changes meanwhile is read the next time
    kept = (source for _, place in loading.find_places() for source in place.paths())
    named = (source for path in where for source in discovery.find_sources(Path(path)))
    sources: list[Path] = [*dict.fromkeys(named if where else kept)]
    _wait(index_job.IndexJob(index, sources))
    library_index.keep_snapshot(index, key, folders, digest, [*map(str, sources)])
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
    """Wait for a job. Its progress is shown on a terminal where it takes long; Ctrl-C stops it."""
    begun, shown = time.monotonic(), sys.stderr.isatty()
    try:
        while job.state == "running":
            job.wait(POLL)
            if shown and time.monotonic() - begun > PATIENCE:
                click.echo(f"\rreading {job.done:,} of {job.count:,} ", err=True, nl=False)
    finally:
        job.cancel()
        if shown and time.monotonic() - begun > PATIENCE:
            click.echo("\r\033[K", err=True, nl=False)
