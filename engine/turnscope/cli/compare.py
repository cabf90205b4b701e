"""`turnscope compare`: policies side by side on a session."""

from __future__ import annotations

import click

from turnscope.cli import options
from turnscope.cli.output import is_terminal, note, write, write_rows
from turnscope.cli.sessions import open_session
from turnscope.library.comparing import COMPARED_POLICIES, compare
from turnscope.views.comparison import RowPrinter, format_assumptions
from turnscope.views.policy_differences import find_differences
from turnscope.views.recommendation import recommend


@click.command()
@options.session_path
@options.policies(COMPARED_POLICIES)
@options.conversation
@click.option("--model", default="", help="Replay as if this model had answered; default: those of the record.")
@click.option("--window", type=click.IntRange(0), default=0, metavar="TOKENS", help="Its window; default: the model's own.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="TOKENS", help="The largest prompt; default: by policy.")
@click.option("--differences", is_flag=True, help="Print in what two policies differ, such as two versions of an agent.")
@options.rows
def command(  # noqa: PLR0913, PLR0917 - an option each
    path: str,
    policies: list[str],
    conversation: str,
    model: str,
    window: int,
    limit: int,
    differences: bool,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Compare policies on a session.

    A row per policy: its cost in dollars of the bill with the prompt cache simulated, how full the window got, what it
    refused, and how many references of later answers it lost. JSON also has the tokens of every request and every lost
    reference. With --differences instead: in what two policies differ, and what that comes to on the session.
    """
    if differences and len(policies) != 2:
        raise click.UsageError("--differences needs two policies: --policies A,B.")
    chosen = [options.load_policy(name) for name in policies]
    with open_session(path, conversation) as session:
        if differences:
            found = compare(session, chosen, model=model, window=window, limit=limit)
            write_rows(find_differences(chosen[0], chosen[1], found.rows), as_json=as_json, as_csv=as_csv)
            return 0
        if as_json or as_csv or not is_terminal():
            found = compare(session, chosen, model=model, window=window, limit=limit)
            write_rows(found, as_json=as_json, as_csv=as_csv)
            return 0
        printer = RowPrinter([each.title for each in chosen])
        write(f"{printer.heading}\n")
        found = compare(
            session, chosen, model=model, window=window, limit=limit, on_row=lambda row: write(f"{printer.format(row)}\n")
        )
    write(f"\n{format_assumptions()}\n")
    if answer := recommend(found.rows, model):
        note(f"{answer.text} {answer.more}".rstrip())
    return 0
