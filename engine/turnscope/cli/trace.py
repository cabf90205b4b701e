"""`turnscope trace`: a session's requests and decisions, as recorded or replayed, as OpenTelemetry spans."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnscope.atomic_file import replace_file
from turnscope.cli import options, output
from turnscope.cli.sessions import open_session
from turnscope.library import opening
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.policy import Policy
from turnscope.session.model import Session
from turnscope.session.thread import iter_descendants
from turnscope.share.redact import RedactedSession, check_masked, redact
from turnscope.telemetry import export, replays
from turnscope.views.total_cost import freeze_estimates

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def _parse_headers(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for at, (key, equals, _) in enumerate(pairs, 1):
        if not equals or not key.strip():  # what was given may hold a key, and an error may stand in a log
            raise click.BadParameter(f"the {at}. one is no header: NAME=VALUE is wanted.")
    return {key.strip(): value.strip() for key, _, value in pairs}


@click.command()
@options.session_path
@click.argument(
    "target", required=False, type=options.OUTPUT, metavar="[OUTPUT]", help="The file to write, as OTLP JSON lines."
)
@click.option("--endpoint", default="", metavar="URL", help=f"A server to send to; without OUTPUT, default: {VARIABLES[1]}.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_headers,
    help="A header for the server, such as a key; may be repeated. Others: OTEL_EXPORTER_OTLP_HEADERS.",
)
@options.policy("The policy that the session is replayed under.")
@options.conversation
@click.option("--content", is_flag=True, help="Write prompts and answers as well: each message once.")
@click.option("--whole-prompts", "whole", is_flag=True, help="With --content: the whole prompt in each span.")
@click.option("--expected", is_flag=True, help="Give requests that were not billed the tokens and the cost that are expected.")
@click.option("--masked", is_flag=True, help="Take secrets and personal data out of them, as a masked report does.")
@options.removed_words
def command(
    path: str,
    target: Path | None,
    endpoint: str,
    headers: Mapping[str, str],
    policy: str,
    conversation: str,
    without: tuple[str, ...],
    **flags: bool,
) -> int:
    """Write requests and decisions as OpenTelemetry spans.

    They go to a file, to a server, or both. The file opens in Turnscope as the same requests. The record includes those
    of branches and subagents.
    """
    masked, names = flags.pop("masked"), flags.pop("names")
    if not masked and (without or names):
        raise click.UsageError("--without and --names are for --masked.")
    if flags["whole"] and not flags["content"]:
        raise click.UsageError("--whole-prompts is for --content.")
    if target is None and not endpoint and not any(map(os.environ.get, VARIABLES)):
        raise click.UsageError("Name a file to write, or a server with --endpoint.")
    chosen, sends = options.load_policy(policy), bool(endpoint) or target is None
    with _open_target(target, needed=masked) as part, open_session(path, conversation) as session:
        words = options.list_removed_words(session, without, names=names) if masked else None
        made, redacted = _make_spans(session, chosen, replays.Wanted(**flags), words)
        spans = list(made) if sends else made
        count = export.write_spans(part, spans) if part else len([*spans])
        if redacted and part:
            check_masked(part.read_text(encoding="utf-8"), redacted)
        if sends:
            from turnscope.telemetry import sending  # only who sends waits for it

            sending.send_spans(spans, endpoint, headers)
    where = " and ".join([*([f"in {target}"] if target else []), *([f"at {export.name_server(endpoint)}"] if sends else [])])
    click.echo(f"{count:,} spans of {_count_requests(session, chosen.name):,} requests are {where}")
    if untimed := sum(request.sent_at is None for request in session.requests):
        output.note(f"The log has no time of {untimed:,} requests: their spans are a millisecond apart, and marked as untimed.")
    return 0


@contextmanager
def _open_target(target: Path | None, *, needed: bool) -> Iterator[Path | None]:
    """The file to write; where none is wanted, one that is removed, if it is needed."""
    if target is not None:
        with replace_file(target) as part:
            yield part
        return
    if not needed:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "spans.jsonl"


def _make_spans(
    session: Session, policy: Policy, wanted: replays.Wanted, words: tuple[str, ...] | None
) -> tuple[Iterator[ReadableSpan], RedactedSession | None]:
    """The spans, and what was taken out where words are given (masked)."""
    trace, redacted = opening.replay(session, policy), None
    if words is not None:
        redacted = redact(freeze_estimates(trace), trace.ledger, "masked", words)  # counted before texts are taken out
        trace = opening.replay(redacted.session, policy, ledger=redacted.ledger)
    recorded = policy.name == AS_RECORDED
    record = None if recorded or not wanted.expected else opening.replay(trace.session, AS_RECORDED, ledger=trace.ledger)
    below = replays.iter_spans_below(trace.session, opening.replay, wanted) if recorded else ()
    return chain(replays.iter_spans(trace, wanted, record=record), below), redacted


def _count_requests(session: Session, policy: str) -> int:
    below = sum(len(each.own.requests) for each in iter_descendants(session)) if policy == AS_RECORDED else 0
    return len(session.requests) + below
