"""`turnscope cache`: why prompt caches were cold, what that cost, and which are still warm."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import click

from turnscope.cli import indexed, options
from turnscope.cli.output import write_rows
from turnscope.storage import library_index
from turnscope.views.cache_misses import CacheMisses, Grouping, select
from turnscope.views.usage import sum_usage


@click.command()
@click.argument("by", type=click.Choice(get_args(Grouping)), default="causes")
@indexed.selection
@options.rows
def command(by: Grouping, paths: tuple[Path, ...], as_json: bool, as_csv: bool, **chosen: Any) -> int:
    """Say why prompt caches were cold, and what that cost.

    BY is causes, days, sessions, misses (one by one, with their evidence) or warm (sessions whose cache is still held). PATHS
    are files and folders; without them it is all that the tools known to Turnscope keep on this machine.
    """
    index, now = indexed.find_index(), time.time()
    sources = indexed.find_indexed(index, paths)
    project, tool, zone = chosen["project"].casefold(), chosen["tool"].casefold(), chosen["zone"]
    until = chosen["until"] and chosen["until"] + timedelta(days=1)

    def accepts(of_project: str, of_tool: str) -> bool:
        return project in of_project.casefold() and tool in of_tool.casefold()

    rows = select(
        library_index.list_misses(index, sources),
        lambda row: accepts(row.project, row.tool),
        _find_midnight(chosen["since"], zone),
        _find_midnight(until, zone),
    )
    days = {name: chosen[name] and chosen[name].date() for name in ("since", "until")}
    spent = sum_usage(library_index.list_usage(index, sources), "models", **(chosen | days)).total.usd or 0.0
    warm = library_index.list_warm(index, sources, now)
    indexed.note_unread(index, sources)
    write_rows(CacheMisses(by, rows, warm, spent, zone, now), as_json=as_json, as_csv=as_csv)
    return 0


def _find_midnight(day: datetime | None, zone: Any) -> float | None:
    """The moment at which a day begins; None = no day is wanted."""
    return day.replace(tzinfo=zone).timestamp() if day else None
