"""`turnscope check`: whether sessions keep to a context budget; for CI."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options, output
from turnscope.cli.exit_codes import ExitCode
from turnscope.cli.sessions import format_path, name_errors, name_path, open_path
from turnscope.library import checking
from turnscope.library.check_report import to_markdown
from turnscope.views.text_tables import clean_line


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(),
    metavar="PATH...",
    help="Session files, or folders of them; `-` reads standard input.",
)
@options.policy("The policy that they are replayed under.")
@click.option("--max-fill", type=options.Amount(), metavar="PERCENT", help="The share of its window that a request may fill.")
@click.option(
    "--max-usd",
    type=options.Amount(),
    metavar="USD",
    help="What a session may cost: as billed, else with its prompt cache simulated.",
)
@click.option("--no-reject", is_flag=True, help="No request may be rejected, refused, or too long.")
@click.option(
    "--exact", is_flag=True, help="Every request must be in the log whole, and have the digest that the log records of it."
)
@click.option("--junit", type=options.OUTPUT, metavar="FILE", help="Write the outcome to this file as JUnit XML, too.")
@click.option("--markdown", type=options.OUTPUT, metavar="FILE", help="Write a comment for a pull request to this file, too.")
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the same paths lie as they were before.",
)
@options.rows
def command(
    paths: tuple[str, ...],
    policy: str,
    junit: Path | None,
    markdown: Path | None,
    base: Path | None,
    as_json: bool,
    as_csv: bool,
    **limits: Any,
) -> int:
    """Check sessions against a context budget.

    Exits with 1 where a session breaks a limit, with 2 where one cannot be read.
    """
    required = checking.Limits(**limits)
    if base is not None and markdown is None:
        raise click.UsageError("--base is for --markdown.")
    with ExitStack() as written:
        report, comment = (written.enter_context(replace_file(file)) if file else None for file in (junit, markdown))
        found = _check(paths, required, policy, tools=markdown is not None)
        if report:
            report.write_text(checking.to_junit(found.results, policy), encoding="utf-8")
        if comment:
            before = _check_base(paths, base, policy) if base else {}
            after = {_name(each.path): each for each in found.results}
            comment.write_text(to_markdown(after, before, policy), encoding="utf-8")
    output.write_rows(found, as_json=as_json, as_csv=as_csv)
    if as_json or as_csv or not output.is_terminal():  # a table says it itself
        for each in found.results:
            for wrong in filter(None, (each.error, *each.violations)):
                output.note(clean_line(name_path(wrong, each.path)))
    if required == checking.Limits():
        output.note("No limit was given, so only whether the sessions can be read was checked; see `turnscope check --help`.")
    if any(each.error for each in found.results):
        return ExitCode.ERROR
    return ExitCode.DONE if all(each.ok for each in found.results) else ExitCode.NEGATIVE


def _check_base(paths: tuple[str, ...], base: Path, policy: str) -> dict[str, checking.CheckResult]:
    """The same paths below another folder, by the names that they have here. What is not there was added since."""
    there = tuple(str(base / _name(path)) for path in paths if path != options.STANDARD_INPUT)
    found = _check(tuple(path for path in there if Path(path).exists()), checking.Limits(), policy, tools=True)
    return {Path(os.path.relpath(each.path, base)).as_posix(): each for each in found.results}


def _name(path: str) -> str:
    """A path from here, as it is the same on every machine."""
    return Path(os.path.relpath(path)).as_posix()


def _check(paths: tuple[str, ...], limits: checking.Limits, policy: str, *, tools: bool = False) -> checking.CheckResults:
    """Every session of every path."""
    results: list[checking.CheckResult] = []
    chosen = options.load_policy(policy)
    for path in paths:
        with open_path(path) as file:
            with name_errors(path):
                ids = checking.list_entries(file)
            found = [checking.check(file, limits, chosen, id, tools=tools) for id in ids]
        results += [replace(each, path=format_path(path)) for each in found] if path == options.STANDARD_INPUT else found
    return checking.CheckResults(tuple(results))
