"""`turnscope fleet`: the sessions of a team, from files of any storage to tables, on one machine or a cluster."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options, output
from turnscope.cli.exit_codes import ExitCode
from turnscope.cli.indexed import Day
from turnscope.errors import TurnscopeError

if TYPE_CHECKING:
    from turnscope.fleet.dataset import Fleet
    from turnscope.fleet.run import RunReport
    from turnscope.fleet.sources import SourceUnit
    from turnscope.fleet.warehouse import Warehouse

DEFAULT = "read"
SHOWN_EVERY = 0.2, 30.0  # seconds between two lines of progress: on a terminal, where it is drawn over, and elsewhere
STOPPED = "Stopped by Ctrl-C. What was read is stored; the next run goes on from there."


class FleetCommands(click.Group):
    """A group whose first words are sources where they name none of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Group`. Words that name no command are arguments of `read`."""
        named = not args or args[0] in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if named else [DEFAULT, *args])

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`. One line for reading and one for the commands."""
        formatter.write_usage(ctx.command_path, "SOURCE... --out DEST")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix=" " * len("Usage: "))


@click.group(cls=FleetCommands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Read the sessions of a team into tables, and watch over their costs.

    Without a command, `read` runs. See `turnscope fleet read --help`.
    """


key_file = click.option(
    "--hash-key-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hash people and paths with the key in this file; the same key gives the same hashes.",
)


@command.command(DEFAULT)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", help="Folders, files or patterns, as paths or URLs.")
@click.option("--out", "dest", required=True, metavar="DEST", help="The folder of the tables, as a path or a URL.")
@click.option("--scheduler", default="", metavar="ADDRESS", help="A scheduler of Dask; default: processes of this machine.")
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Processes of this machine; 0 = none but this one.")
@options.policies(())
@click.option("--since", type=Day(), metavar="DAY", help="Leave out sources that were written last before this day.")
@click.option("--layout", default="", metavar="PATH", help="Whose sessions a path holds, as {team}/{person}/**.")
@click.option("--with-text", is_flag=True, help="Store titles, findings and reasons, which may quote sessions.")
@key_file
@click.option(
    "--limit", type=options.Amount(), default=600.0, show_default=True, metavar="SECONDS", help="Time for one source."
)
@click.option(
    "--tries", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Tries of a source that crashes."
)
@click.option("--retry", is_flag=True, help="Try sources again that could not be read.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def read(
    sources: tuple[str, ...], dest: str, since: datetime | None, hash_key_file: Path | None, as_json: bool, **given: Any
) -> int:
    """Read what is new of some sources into tables.

    Exits with 1 where a source could not be read. Tables are Parquet; the app's page Fleet shows them.
    """
    from msgspec.structs import replace

    from turnscope.fleet.cluster import Cluster, SerialCluster
    from turnscope.fleet.dataset import open_fleet
    from turnscope.fleet.known_fleets import remember_fleet
    from turnscope.fleet.privacy import read_key
    from turnscope.fleet.run import FleetRun, build_options

    key = read_key(hash_key_file) if hash_key_file else None
    chosen = build_options(given["policies"], with_text=given["with_text"], key=key, layout=given["layout"])
    fleet = open_fleet(dest)
    units = [unit for unit in _list_units(sources, given["layout"], key, since) if not _lies_in(unit, fleet)]
    run = FleetRun(fleet, replace(chosen, limit=given["limit"]), key, given["tries"])
    many = (os.cpu_count() or 1) if given["workers"] is None else given["workers"]
    progress = _Progress()
    cluster = Cluster(given["scheduler"], many, say=progress.say) if many or given["scheduler"] else SerialCluster()
    try:
        report = run.run(units, cluster, progress, retry=given["retry"])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(STOPPED) from None
    finally:
        if sys.stderr.isatty():
            click.echo("\r\033[K", err=True, nl=False)
    with suppress(TurnscopeError):  # a convenience, for which no run fails
        remember_fleet(run.fleet)
    output.write(report.to_json() if as_json else f"{report!r}\n")
    return ExitCode.NEGATIVE if report.failed else ExitCode.DONE


def _list_units(sources: tuple[str, ...], layout: str, key: bytes | None, since: datetime | None) -> list[SourceUnit]:
    """The sources at all URLs, each once, those that were written first before the others."""
    from functools import partial

    from turnscope.fleet.privacy import hash_name
    from turnscope.fleet.rows import digest
    from turnscope.fleet.sources import list_sources

    identify = partial(hash_name, key) if key else digest
    found = {unit.id: unit for source in sources for unit in list_sources(source, layout, identify)}
    least = since.replace(tzinfo=UTC).timestamp() if since else float("-inf")
    return sorted((unit for unit in found.values() if unit.at >= least), key=lambda unit: (unit.at, unit.url))


def _lies_in(unit: SourceUnit, fleet: Fleet) -> bool:
    """Whether a source is a file of the tables, which may lie below the sources."""
    from turnscope.fleet.dataset import COMMITS, SUMS
    from turnscope.fleet.run import RUNS
    from turnscope.fleet.tables import TABLES

    return any(
        unit.url.startswith(fleet.storage.make_url(fleet.storage.join(name, ""))) for name in (COMMITS, SUMS, RUNS, *TABLES)
    )


class _Progress:
    """Says how far a run is, on standard error."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def say(self, text: str) -> None:
        """Say something on a line of its own."""
        if sys.stderr.isatty():
            click.echo("\r\033[K", err=True, nl=False)
        output.note(text)

    def __call__(self, report: RunReport) -> None:
        terminal = sys.stderr.isatty()
        if time.monotonic() - self._shown < SHOWN_EVERY[0 if terminal else 1]:
            return
        self._shown = time.monotonic()
        failed = f", {report.failed:,} failed" if report.failed else ""
        text = f"{report.read:,} read, {report.left:,} left{failed}"
        with suppress(OSError):
            if terminal:
                click.echo(f"\r\033[K{text}", err=True, nl=False)
            else:
                output.note(text)


@command.command()
@click.argument("dest", metavar="DEST", help="The folder of the tables, as a path or a URL.")
@click.option("--person", required=True, metavar="NAME", help="The person, by the name that the logs have.")
@key_file
def forget(dest: str, person: str, hash_key_file: Path | None) -> int:
    """Delete all rows of a person, now and in later runs.

    Logs are not touched.
    """
    from turnscope.fleet.dataset import open_fleet
    from turnscope.fleet.privacy import has_hashed_people, hash_name, read_key
    from turnscope.fleet.writing import forget_person

    name, fleet = hash_name(read_key(hash_key_file), person) if hash_key_file else person, open_fleet(dest)
    if not hash_key_file and has_hashed_people(fleet):
        raise TurnscopeError(f"people are hashed in {dest}", hint="Give the key, too: `--hash-key-file FILE`.")
    _, gone = forget_person(fleet, name)
    done = f"Deleted {gone:,} sessions of {person}." if gone else f"The tables hold no session of {person}: check the name."
    click.echo(f"{done} Later runs leave this person's sessions out.")
    return ExitCode.DONE


@command.command()
@click.argument("dest", metavar="DEST", help="The folder of the tables, as a path or a URL.")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    required=True,
    metavar="BUDGET",
    help="As team:search=500, person:*=100 or total=9000.",
)
@click.option("--since", type=Day(), metavar="DAY", help="The first day that counts, in UTC.")
@click.option("--until", type=Day(), metavar="DAY", help="The last day that counts.")
@click.option("--junit", type=options.OUTPUT, metavar="FILE", help="Write the outcome to this file as JUnit XML, too.")
@options.rows
def check(
    dest: str,
    budgets: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    junit: Path | None,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Check what was spent against budgets, in USD.

    Exits with 1 where a budget is exceeded.
    """
    from turnscope.fleet.budgets import check_budgets, parse_budget
    from turnscope.fleet.warehouse import Selection

    wanted = [parse_budget(each) for each in budgets]
    chosen = Selection(since=since.date() if since else None, until=until.date() if until else None)
    found = check_budgets(_open_warehouse(dest), wanted, chosen)
    if junit is not None:
        with replace_file(junit) as part:
            part.write_text(found.to_junit(), encoding="utf-8")
    output.write_rows(found, as_json=as_json, as_csv=as_csv)
    return ExitCode.DONE if all(each.ok for each in found.results) else ExitCode.NEGATIVE


@command.command()
@click.argument("dest", metavar="DEST", help="The folder of the tables, as a path or a URL.")
@click.option("--week", default="", metavar="WEEK", help="The week, as 2026-W48; default: the last whole one.")
@click.option("--out", "file", type=options.OUTPUT, metavar="FILE", help="An .html or .md file; default: Markdown is printed.")
def report(dest: str, week: str, file: Path | None) -> int:
    """Write the report of a week."""
    from turnscope.fleet.weekly import parse_week, to_html, write_report

    today = datetime.now(UTC).date()
    monday = parse_week(week) if week else today - timedelta(days=today.weekday() + 7)
    text = write_report(_open_warehouse(dest), monday)
    if file is None:
        output.write(text)
        return ExitCode.DONE
    with replace_file(file) as part:
        part.write_text(to_html(text) if file.suffix.lower() in (".html", ".htm") else text, encoding="utf-8")
    return ExitCode.DONE


def _open_warehouse(dest: str) -> Warehouse:
    """The tables, to be asked. TurnscopeError: there are none."""
    from turnscope.fleet.dataset import open_fleet
    from turnscope.fleet.warehouse import Warehouse

    fleet = open_fleet(dest)
    if not fleet.number:
        raise TurnscopeError(f"{dest} holds no tables", hint="Run `turnscope fleet SOURCE --out DEST` first.")
    return Warehouse(fleet)
