"""What a dry run would have sent, as a session of its own: its requests are those that the policy planned."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from turnscope.importers import tap
from turnscope.reading.source import Entry, Source
from turnscope.reading.tap_log import is_tap_log, read_tap_log
from turnscope.session.model import Session


def is_dry_run(session: Session) -> bool:
    """Whether a recording says of a request that a policy would have cut or refused it."""
    return any(each.edit.because.startswith(tap.DRY_RUN) for each in session.observed)


def read_planned_session(path: Path, entry: str = "") -> Session | None:
    """Read the session that would have passed; None where the file is no log of a dry run.

    What was billed stays with the requests that left as they came: of the others nobody knows it.

    Args:
        path: The log.
        entry: Id of the session in it; "" = the first one.
    """
    source = Source(path)
    if not is_tap_log(source):
        return None
    calls = read_tap_log(source).calls
    planned = {call.sent_at for call in calls if call.sent and call.ruling.get("dry_run")}
    if not planned:
        return None
    for call in calls:
        call.ruling = {key: value for key, value in call.ruling.items() if key != "dry_run"}
    session = tap.read(source, Entry(entry)).session
    requests = [structs.replace(one, usage=None) if one.sent_at in planned else one for one in session.requests]
    return structs.replace(session, requests=tuple(requests))
