"""What a dry run would have sent, beside what went out: conversations whose requests are those that the policy planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from turnscope.importers import tap
from turnscope.library.joining import open_recordings
from turnscope.reading.source import Source
from turnscope.reading.tap_log import is_tap_log, read_tap_log
from turnscope.session.model import FROM_WIRE, Session
from turnscope.session.thread import iter_descendants
from turnscope.settings import find_tap_folder

Times = tuple[float | None, ...]  # when the requests of a conversation were sent, in seconds since the Unix epoch


def is_dry_run(session: Session) -> bool:
    """Whether a recording says of a request that a policy would have cut or refused it."""
    return any(each.edit.because.startswith(tap.DRY_RUN) for each in session.observed)


def find_recordings(session: Session, path: Path) -> tuple[tuple[str, str], ...]:
    """Find the recordings that a session was read from: its file, or those that its tool's own log is joined with.

    Gives the path of each, and a text that changes when it does.

    Args:
        session: The session, with all that hangs from it.
        path: The file that it was opened from.
    """
    facts = session.about.get(FROM_WIRE)
    names = facts.get("recordings", ()) if isinstance(facts, dict) else ()
    places = [find_tap_folder() / name for name in names if isinstance(name, str)] or [path]
    sources = [Source(place) for place in places if place.is_file()]
    return tuple((str(source.path), source.version) for source in sources if is_tap_log(source))


def read_conversations(paths: Sequence[Path]) -> list[tuple[Session, Session]]:
    """Read the conversations of a dry run, subagents among them: each as it went out, and as it would have.

    What was billed stays with the requests that left as they came: of the others nobody knows it.

    Args:
        paths: The recordings, at least one.

    Raises:
        TurnscopeError: One of them cannot be read.
    """
    planned = {list_times(session): session for session in _read_planned(open_recordings(paths))}
    sent = (session for session in _list_conversations(open_recordings(paths)) if is_dry_run(session))
    return [(session, planned[list_times(session)]) for session in sent if list_times(session) in planned]


def list_times(session: Session) -> Times:
    """List when the requests of a conversation were sent: no other one has the same times."""
    return tuple(request.sent_at for request in session.requests)


def _read_planned(source: Source) -> Iterator[Session]:
    calls = read_tap_log(source).calls
    planned = {call.sent_at for call in calls if call.sent and call.ruling.get("dry_run")}
    for call in calls:
        call.ruling = {key: value for key, value in call.ruling.items() if key != "dry_run"}
    for session in _list_conversations(source):
        requests = (structs.replace(one, usage=None) if one.sent_at in planned else one for one in session.requests)
        yield structs.replace(session, requests=tuple(requests))


def _list_conversations(source: Source) -> Iterator[Session]:
    for entry in tap.list_entries(source):
        session = tap.read(source, entry).session
        yield session
        yield from (each.own for each in iter_descendants(session))
