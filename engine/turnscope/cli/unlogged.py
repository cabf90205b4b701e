"""`turnscope unlogged`: what a tool's own log does not tell of a session that passed the tap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnscope.cli.output import write

if TYPE_CHECKING:
    from turnscope.session.model import Session
    from turnscope.views.wire_report import WireReport


@click.command()
@click.argument("log", type=click.Path())
@click.argument("transcript", nargs=-1, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def command(log: str, transcript: tuple[str, ...], as_json: bool) -> int:
    """Say what a tool's own log does not tell of a session.

    LOG is what `turnscope tap` recorded. The TRANSCRIPT is found on this machine where the requests name their session;
    else name it.
    """
    from turnscope.library.loading import entries, load
    from turnscope.library.transcripts import report_unlogged

    found = []
    for entry in entries(log):
        wire = load(log, entry)
        found.append((wire, report_unlogged(wire, map(Path, transcript))))
    made = [_describe(wire, report) for wire, report in found]
    write(json.dumps(made, indent=2) + "\n" if as_json else "\n".join(map(_format, made)))
    return 0


def _describe(wire: Session, report: WireReport | None) -> dict[str, Any]:
    if report is None:
        return {"session": wire.title, "id": wire.id, "tool": None, "unlogged": None}
    buckets = {one.bucket: {"sent": one.sent, "logged": one.logged, "unsent": one.unsent} for one in report.buckets}
    kinds = {
        kind: {"requests": share.requests, "logged": logged, "usd": None if share.usd is None else float(share.usd)}
        for kind, share, logged in report.side
    }
    return {
        "session": wire.title,
        "id": wire.id,
        "tool": report.tool,
        "requests": report.requests,
        "logged": report.logged,
        "side_requests": kinds,
        "failed": report.failed,
        "count_requests": report.counts,
        "characters": buckets,
        "unlogged": [*report.sentences],
    }


def _format(made: dict[str, Any]) -> str:
    from turnscope.views.text_tables import clean_line

    title = clean_line(made["session"])[:100] or made["id"]
    if made["unlogged"] is None:
        return f"{title}\n  No log of this session was found on this machine: name it behind the recording.\n"
    lines = [f"What the log of {made['tool']} does not tell of: {title}"]
    lines += [f"  - {text[:1].upper()}{text[1:]}." for text in made["unlogged"]] or ["  It tells all that was sent."]
    return "\n".join(lines) + "\n"
