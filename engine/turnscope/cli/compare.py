"""`turnscope compare`: policies side by side on a session."""

from __future__ import annotations

import click

from turnscope.cli import options
from turnscope.cli.output import write_rows
from turnscope.cli.sessions import open_session
from turnscope.library.comparing import COMPARED_POLICIES, compare


@click.command()
@options.session_path
@options.policies(COMPARED_POLICIES)
@options.conversation
@click.option("--model", default="", help="Replay as if this model had been asked; default: those of the record.")
@click.option("--window", type=int, default=0, metavar="TOKENS", help="Its context window; default: the model's own.")
@click.option("--limit", type=int, default=0, metavar="TOKENS", help="The largest prompt; default: as each policy says.")
@options.rows
def command(
    path: str, policies: list[str], conversation: str, model: str, window: int, limit: int, as_json: bool, as_csv: bool
) -> int:
    """Compare policies on a session.

    A row per policy: its cost with the prompt cache simulated, how full the window got, what it refused, and how many
    references of later answers it lost. JSON also has the tokens of every request and every lost reference.
    """
    with open_session(path, conversation) as session:
        found = compare(session, policies, model=model, window=window, limit=limit)
    write_rows(found, as_json=as_json, as_csv=as_csv)
    return 0
