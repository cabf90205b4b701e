"""The conversations of a path or source: listed, found by id, and read. Raises `TurnscopeError`s only.

A folder or an archive that no importer recognises as a whole holds the files that importers recognise. The same holds for a
file that is a list of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePath

from msgspec import structs

from turnscope.errors import BrokenFile, ImporterError, TurnscopeError
from turnscope.reading.claims import claim, recognize
from turnscope.reading.containers import open_source
from turnscope.reading.guards import guard_own
from turnscope.reading.import_errors import (
    make_cut_error,
    make_nesting_error,
    make_no_message_error,
    make_no_session_error,
    make_no_such_entry_error,
)
from turnscope.reading.importer import Importer
from turnscope.reading.nesting import find_files, may_hold_files, open_file
from turnscope.reading.source import Entry, Source
from turnscope.session.model import Note, Session
from turnscope.session.thread import Thread, iter_descendants

SKIPPED_SHARE = 0.05  # of a conversation's bytes: more than this in skipped records is reported first
INSIDE = "#"  # between the name of a file in a folder or archive, and the id of a conversation in that file


def list_entries(source: Source) -> Iterator[Entry]:
    """List the conversations of a source, the main one first. None is read for it. BrokenFile where it holds none."""
    whole, importer = recognize(source)
    if importer is not None:
        first = next(entries := guard_own(importer).entries(whole), None)
        if first is None:
            raise make_no_message_error(source, importer, whole.cut)
        yield first
        yield from entries
        return
    if not may_hold_files(source):
        claim(source)  # says what would be read
    empty = True
    for entry in _list_inside(source):
        empty = False
        yield entry
    if empty and source.kind == "zip":
        claim(source)
    elif empty:
        raise make_no_session_error(source)


def _list_inside(source: Source) -> Iterator[Entry]:
    """List the conversations of the files inside, each once: what another listed file holds as well comes from that one."""
    names = set[str]()
    held: list[tuple[str, Entry]] = []  # each with the name of the file that may hold it as well
    for name, file, importer in find_files(source):
        names.add(PurePath(name).name)
        repeated = guard_own(importer).repeats(file)
        if "" in repeated:
            held.append((repeated[""], Entry(name, name, file.modified_at, file.size)))
            continue
        for entry in _list_nested(file, importer):
            id = f"{name}{INSIDE}{entry.id}" if entry.id else name
            named = structs.replace(entry, id=id, title=entry.title or name)
            if entry.id in repeated:
                held.append((repeated[entry.id], named))
            else:
                yield named
    yield from (entry for whole, entry in held if whole not in names)


def _list_nested(file: Source, importer: Importer) -> Iterator[Entry]:
    """List the conversations of a file inside. A file that cannot be listed, or holds none, is one entry.

    Its error comes when it is read.
    """
    listed = 0
    try:
        for entry in guard_own(importer).entries(file):
            listed += 1
            yield entry
    except (RecursionError, TurnscopeError):  # a broken file must not hide the others
        pass
    if not listed:
        yield Entry(at=file.modified_at, size=file.size)


def locate_entry(source: Source, id: str) -> tuple[Source, Importer, str]:
    """Locate an entry: the file that holds it, its importer, and the entry's id in that file.

    Args:
        source: The source.
        id: Id of the entry.
    """
    whole, importer = recognize(source)
    if importer is not None:
        whole.on_text = source.on_text
        return whole, importer, id
    if not may_hold_files(source):
        claim(source)
    id = id or next(list_entries(source)).id
    at = len(id)
    while at > 0:  # a file's name may hold the mark as well
        file = open_file(source, id[:at])
        if file is not None:
            opened, importer = recognize(file)
            return opened, importer or claim(opened), id[at + 1 :]
        at = id.rfind(INSIDE, 0, at)
    raise make_no_such_entry_error(source, id)


def read_entry(source: Source, id: str = "") -> Thread:
    """Read one conversation of a source.

    Args:
        source: The source.
        id: Id of its entry; "" = the main one.

    Raises:
        UnknownEntry: The source has no such entry.
        BrokenFile: The conversation holds no message, or is nested too deep.
    """
    try:
        file, importer, inner = locate_entry(source, id)
        guarded = guard_own(importer)
        entry = next((entry for entry in guarded.entries(file) if inner in ("", entry.id)), None)
        thread = _read(guarded, file, entry) if entry else None
    except RecursionError as error:
        raise make_nesting_error(source) from error
    if entry is None and inner:
        raise make_no_such_entry_error(source, id)
    if thread is None or not thread.session.blocks:
        raise make_no_message_error(source, importer, file.cut)
    thread = add_unread(thread, file.unread.values())
    return warn_of_skipped(thread, file.size if file.kind == "file" and entry and not entry.id else 0)


def _read(importer: Importer, file: Source, entry: Entry) -> Thread:
    """Read a conversation, and say first what is lost where the file ends too early."""
    if file.cut is None:
        return importer.read(file, entry)
    try:
        thread = importer.read(file, entry)
    except ImporterError:  # an importer that fails is no fault of the file
        raise
    except BrokenFile as error:
        raise make_cut_error(error, file.cut) from error
    return Thread(structs.replace(thread.session, notes=(file.cut, *thread.session.notes)))


def add_unread(thread: Thread, unread: Collection[Note]) -> Thread:
    """Add the notes on what of the file cannot be read, as far as the importer did not: by the line, or the words.

    Args:
        thread: The conversation.
        unread: The notes.
    """
    if not unread:
        return thread
    session = thread.session
    paths = (session, *(found.own for found in iter_descendants(session)))
    noted = {note.line or note.what for path in paths for note in path.notes}
    lost = (note for note in unread if (note.line or note.what) not in noted)
    return Thread(structs.replace(session, notes=(*session.notes, *lost)))


def warn_of_skipped(thread: Thread, size: int) -> Thread:
    """Say how much of a conversation is not shown, where that is more than little.

    Args:
        thread: The conversation.
        size: Bytes of its file; 0 = others stand in it as well, and the texts that were read count as the rest.
    """
    session = thread.session
    skipped = sum(note.skipped for note in session.notes)
    if not skipped:
        return thread
    read = sum(len(block.text) for block in session.blocks)
    share = skipped / max(skipped + read, size)
    if share <= SKIPPED_SHARE:
        return thread
    what = f"{share:.0%} of what the log holds of this session ({skipped:,} bytes) is in records that are not shown"
    return Thread(structs.replace(session, notes=(*session.notes, Note("warning", 0, what))))


def read_path(path: Path | str) -> tuple[Session, ...]:
    """Read every session of a path, the main one first."""
    return read_source(open_source(Path(path)))


def _leave(thread: Thread, _entry: str) -> Thread:
    return thread


def read_source(source: Source, complete: Callable[[Thread, str], Thread] = _leave) -> tuple[Session, ...]:
    """Read every session of a source. Sessions without a message are left out where there are others.

    Args:
        source: The source.
        complete: Adds to a conversation what stands elsewhere; it is given the id of its entry as well.
    """
    try:
        ids = [entry.id for entry in list_entries(source)]
    except RecursionError as error:
        raise make_nesting_error(source) from error
    if len(ids) < 2:
        return (complete(read_entry(source), "").session,)
    found: list[Session] = []
    for id in ids:
        with suppress(BrokenFile):
            found.append(complete(read_entry(source, id), id).session)
    return tuple(found) or (read_entry(source).session,)
