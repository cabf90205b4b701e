"""`turnscope trace`: a session's requests and decisions, as recorded or replayed, as OpenTelemetry spans."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options
from turnscope.cli.sessions import open_session
from turnscope.library import opening
from turnscope.planning.assemble import AS_RECORDED
from turnscope.session.model import Session
from turnscope.session.thread import iter_descendants
from turnscope.share.redact import check_masked, redact
from turnscope.telemetry import export, replays
from turnscope.views.total_cost import freeze_estimates


@click.command()
@options.session_path
@click.argument("target", type=options.OUTPUT, metavar="OUTPUT", help="The file to write, as OTLP JSON lines.")
@options.policy("The policy that the session is replayed under.")
@options.conversation
@click.option("--content", is_flag=True, help="Write prompts and answers as well: the whole prompt in each span.")
@click.option("--masked", is_flag=True, help="Take secrets and personal data out of them, as a masked report does.")
@options.removed_words
def command(
    path: str,
    target: Path,
    policy: str,
    conversation: str,
    content: bool,
    masked: bool,
    without: tuple[str, ...],
    names: bool,
) -> int:
    """Write requests and decisions as OpenTelemetry spans.

    The file opens in Turnscope as the same requests. Under the record they include those of branches and subagents.
    """
    if not masked and (without or names):
        raise click.UsageError("--without and --names are for --masked.")
    chosen = options.load_policy(policy)
    with replace_file(target) as part, open_session(path, conversation) as session:
        trace, redacted = opening.replay(session, chosen), None
        if masked:
            words = options.list_removed_words(session, without, names=names)
            redacted = redact(freeze_estimates(trace), trace.ledger, "masked", words)  # counted before texts are taken out
            trace = opening.replay(redacted.session, chosen, ledger=redacted.ledger)
        below = replays.iter_spans_below(trace.session, opening.replay, content=content) if chosen.name == AS_RECORDED else ()
        count = export.write_spans(part, chain(replays.iter_spans(trace, content=content), below))
        if redacted:
            check_masked(part.read_text(encoding="utf-8"), redacted)
    click.echo(f"{count:,} spans of {_count_requests(session, chosen.name):,} requests are in {target}")
    return 0


def _count_requests(session: Session, policy: str) -> int:
    below = sum(len(each.own.requests) for each in iter_descendants(session)) if policy == AS_RECORDED else 0
    return len(session.requests) + below
