"""`turnscope trace`: a session's requests and decisions, as recorded or replayed, as OpenTelemetry spans."""

from __future__ import annotations

from pathlib import Path

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options
from turnscope.cli.sessions import open_session
from turnscope.library import opening
from turnscope.telemetry import export, replays


@click.command()
@options.session_path
@click.argument("target", type=options.OUTPUT, metavar="OUTPUT", help="The file to write, as OTLP JSON lines.")
@options.policy("The policy that the session is replayed under.")
@options.conversation
@click.option("--content", is_flag=True, help="Write prompts and answers as well: the whole prompt in each span.")
def command(path: str, target: Path, policy: str, conversation: str, content: bool) -> int:
    """Write requests and decisions as OpenTelemetry spans.

    The file opens in Turnscope as the same requests.
    """
    with replace_file(target) as part, open_session(path, conversation) as session:
        trace = opening.replay(session, policy)
        count = export.write_spans(part, replays.iter_spans(trace, content=content))
    click.echo(f"{count:,} spans of {len(trace.plans):,} requests are in {target}")
    return 0
