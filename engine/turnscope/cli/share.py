"""`turnscope share`: a report of a session to hand on, without what its level leaves out."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options
from turnscope.cli.exit_codes import ExitCode
from turnscope.cli.output import write_error
from turnscope.cli.sessions import open_session
from turnscope.share.redact import LEVELS, Level, RedactionError
from turnscope.share.report import build_report

SHOWN = 8  # doubtful texts of each kind that are listed


@click.command()
@options.session_path
@click.argument(
    "target", type=options.OUTPUT, metavar="OUTPUT", help="The file to write; one that ends in .md gets the summary alone."
)
@click.option(
    "--level", type=click.Choice([*LEVELS]), default="no content", show_default=True, help="How much the report shows."
)
@options.removed_words
@options.conversation
def command(path: str, target: Path, level: Level, without: tuple[str, ...], names: bool, conversation: str) -> int:
    """Write a redacted report of a session.

    The report is one HTML file that opens without a network. Exits with 1, and writes nothing, where something that the level
    leaves out would stand in it.
    """
    try:
        with replace_file(target) as part:
            with open_session(path, conversation) as session:
                made = build_report(session, level, words=options.list_removed_words(session, without, names=names))
            part.write_text(made.markdown if target.suffix == ".md" else made.html, encoding="utf-8")
    except RedactionError as error:
        write_error(error.what, error.short_hint)
        return ExitCode.NEGATIVE
    taken = ", ".join(f"{count} × {kind}" for kind, count in made.removed)
    click.echo(f"{target}: {LEVELS[level]}{f' Taken out: {taken}.' if taken else ''}")
    if made.doubtful:
        click.echo("Still in it, and perhaps private; `--without WORD` takes out a word:")
        for kind, several in groupby(made.doubtful, key=lambda one: one.kind):
            shown = [*several]
            more = f", and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
            click.echo(f"  {kind}: {', '.join(one.text for one in shown[:SHOWN])}{more}")
    return 0
