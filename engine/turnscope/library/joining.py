"""Joins the sessions of tools' own logs with what a tap recorded of them, whenever one is opened or indexed.

The recordings in the data folder are looked at, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from turnscope.errors import TurnscopeError
from turnscope.reading import contents
from turnscope.reading.recordings import Recording, find_recordings
from turnscope.reading.source import Source
from turnscope.reading.tap_log import CACHE_KEY, TapLog, read_tap_log
from turnscope.reading.wire_join import join_recording
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.views.exactness import API_LOGS

NAMELESS = 4  # recordings that are looked through for a session that no request names, the newest first


def join_thread(thread: Thread, source: Source, entry: str = "") -> Thread:
    """Join a conversation with what a tap recorded of it; the same one where nothing was.

    Args:
        thread: The conversation, as its importer read it.
        source: The source that it comes from.
        entry: Id of its entry there; "" = the main one.
    """
    if not find_recordings(source):
        return thread
    file = contents.locate_entry(source, entry)[0] if source.kind == "folder" else source
    session = join_session(thread.session, file)
    return thread if session is thread.session else Thread(session)


def join_session(session: Session, source: Source) -> Session:
    """Join a session with what a tap recorded of it; the same one where nothing was.

    Recordings that name it are one: a session may be resumed behind another tap. Else each one that was written at the time is
    looked at.

    Args:
        session: The session, as its importer read it.
        source: The file that holds it.
    """
    found = [] if session.source in API_LOGS else find_recordings(source)  # these hold the bodies themselves
    named = tuple(each for each in found if each.names(session, source.path))
    others = [(each,) for each in found if each not in named and each.saw(session)]
    for recordings in [named] if named else others[: -NAMELESS - 1 : -1]:
        with suppress(TurnscopeError, OSError):
            where = [each.path.name for each in recordings]
            joined = join_recording(session, _open(recordings, tuple(Source(each.path).version for each in recordings)), where)
            if joined is not session:
                return joined
    return session


@lru_cache(maxsize=2)
def _open(recordings: Sequence[Recording], _versions: Sequence[str]) -> tuple[Session, ...]:
    """The sessions of some recordings, read as one log."""
    return contents.read_source(open_recordings([each.path for each in recordings]))


def open_recordings(paths: Sequence[Path]) -> Source:
    """Open recordings of a tap as one log.

    Args:
        paths: The recordings, at least one.

    Raises:
        TurnscopeError: One of them cannot be read.
    """
    first = Source(paths[0])
    if len(paths) > 1:
        logs = sorted((read_tap_log(Source(path)) for path in paths), key=_find_begin)
        calls, notes = [call for log in logs for call in log.calls], [note for log in logs for note in log.notes]
        lost, why = sum(log.lost for log in logs), next((log.lost_because for log in logs if log.lost), "")
        first.cache[CACHE_KEY] = TapLog(calls, notes, "", lost, why)
    return first


def _find_begin(log: TapLog) -> float:
    return next((call.sent_at for call in log.calls if call.sent_at is not None), 0.0)
