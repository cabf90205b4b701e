"""`turnscope usage`: what all sessions of this machine were billed, by day, project or model."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from turnscope.cli import indexed, options
from turnscope.cli.output import write_rows
from turnscope.storage import library_index
from turnscope.views.usage import Period, sum_usage


@click.command()
@click.argument("by", type=click.Choice(get_args(Period)), default="daily")
@indexed.selection
@options.rows
def command(by: Period, paths: tuple[Path, ...], as_json: bool, as_csv: bool, **chosen: Any) -> int:
    """Add up what all sessions of this machine were billed.

    Tokens by kind, and USD at list prices. BY is daily, weekly, monthly, sessions, projects, tools, models or blocks (of five
    hours). PATHS are files and folders; without them it is all that the tools known to Turnscope keep on this machine. Each
    request counts once, with branches and subagents.
    """
    for name in ("since", "until"):
        chosen[name] = chosen[name] and chosen[name].date()
    index = indexed.find_index()
    sources = indexed.find_indexed(index, paths)
    found = sum_usage(library_index.list_usage(index, sources), by, now=time.time(), **chosen)
    unread = indexed.note_unread(index, sources)
    write_rows(replace(found, unread=unread), as_json=as_json, as_csv=as_csv)
    return 0
