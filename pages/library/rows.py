"""Every session that is known, as a row: found by its metadata, opened before, or indexed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st
from turnscope.library import (
    CatalogueRow,
    IndexRow,
    get_chat_source,
    get_dropped_source,
    get_tool_title,
    index_queries,
    is_current,
    tags,
)

from pages.parts import cache, registry, url
from pages.parts.registry import Entry

LIVE_SECONDS = 120  # since a file was written last
Key = tuple[str, str]  # source and conversation, as the index has them


@dataclass(frozen=True, slots=True)
class Row:
    """A session in the list. What is not `read` yet is known by its metadata alone: no model, cost, or count of requests.

    `line`: its row of the index. `recordings`: names of those of a tap that it was joined with. `curve`: fill in percent over
    its requests. `sample`: no session of the user's.
    """

    id: str
    path: str
    name: str
    title: str
    tool: str
    project: str
    size: int
    at: float | None
    entry: str = ""
    read: bool = False
    models: str = ""
    requests: int = 0
    fill: float = 0.0
    usd: float | None = None
    cuts: int = 0
    line: IndexRow | None = None
    sample: bool = False
    live: bool = False
    recordings: tuple[str, ...] = ()
    tags: tuple[str, ...] = field(default=())

    @property
    def key(self) -> Key:
        """As the index knows it, and tags do."""
        return self.path, self.entry

    @property
    def words(self) -> str:
        """What a filter looks through."""
        marks = ("recorded",) if self.recordings else ()
        return " ".join((*marks, self.title, self.name, self.tool, self.project, self.models, *self.tags)).casefold()


def list_rows() -> tuple[Row, ...]:
    """All of them. TurnscopeError where what is remembered cannot be read."""
    store, entries, tagged = cache.open_store(), cache.list_entries(), tags.read_tags()
    version = index_queries.read_version(store.index_path)
    opened = store.list_recent(url.NEWEST)
    live = frozenset(entry.id for entry in entries.values() if _is_live(entry))
    lines = cache.list_index_rows(str(store.index_path), version)
    # numbers: Streamlit takes a tenth of a second over twenty thousand names
    known = (version, *map(hash, (tuple(entries), opened, tuple(tagged.items()), live)))
    return _build_rows(entries, lines, opened, tagged, live, known)


def _is_live(entry: Entry) -> bool:
    return entry.origin in ("found", "given") and time.time() - entry.modified < LIVE_SECONDS


@st.cache_resource(max_entries=2, show_spinner=False)
def _build_rows(
    _entries: Mapping[str, Entry],
    _lines: Sequence[IndexRow],
    _opened: Sequence[CatalogueRow],
    _tagged: Mapping[Key, tuple[str, ...]],
    _live: frozenset[str],
    version: object,  # noqa: ARG001
) -> tuple[Row, ...]:
    files = {_get_source(entry): entry for entry in _entries.values()}
    found: dict[Key, Row] = {}
    for line in _lines:
        if entry := files.get(line.path):
            found[line.path, line.entry] = _build_indexed_row(entry.select(line.entry) if line.entry else entry, line)
    for one in _opened:
        dropped = files.get(get_dropped_source(one.key))
        entry, path = files.get(one.path) or dropped, one.path if one.path in files else get_dropped_source(one.key)
        if entry and (path, one.entry) not in found and (path, "") not in found:
            found[path, one.entry] = _build_recent_row(entry if entry is dropped else entry.select(one.entry), one, path)
    taken = {path for path, _ in found}
    shown = {(line.path, line.entry) for line in index_queries.drop_joined(_lines)}
    found = {key: row for key, row in found.items() if row.line is None or key in shown}  # a recording is in its tool's log
    rest = (entry for path, entry in files.items() if path not in taken and entry.origin not in ("sample", "chat"))
    every = (*found.values(), *map(_build_found_row, rest))
    return tuple(
        replace(row, tags=_tagged.get(row.key, ()), live=row.id in _live) if row.key in _tagged or row.id in _live else row
        for row in every
    )


def _get_source(entry: Entry) -> str:
    """As the index knows it."""
    if entry.origin == "chat":
        return get_chat_source(entry.key)
    return get_dropped_source(entry.key) if entry.origin == "recent" else str(entry.path)


def _build_indexed_row(entry: Entry, line: IndexRow) -> Row:
    return Row(
        id=entry.id,
        path=line.path,
        name=line.name,
        title=line.title or line.name or entry.name,
        tool=line.tool,
        project=line.project,
        size=line.size,
        at=line.ended,
        entry=line.entry,
        read=True,
        models=line.models,
        requests=line.requests,
        fill=line.peak / line.window if line.window else 0.0,
        usd=line.usd,
        cuts=line.cuts,
        line=line,
        recordings=line.recordings,
        sample=_is_sample(entry),
    )


def _build_recent_row(entry: Entry, one: CatalogueRow, path: str) -> Row:
    row = replace(
        _build_found_row(entry), path=path, entry=one.entry, title=one.title, size=one.size, at=one.started or one.opened
    )
    if not is_current(one):  # what was found by another reading, or at other prices, is not shown as if it were so now
        return row
    return replace(
        row,
        name=one.name,
        title=one.title or one.name,
        tool=entry.tool or get_tool_title(one.source),
        read=True,
        models=one.models,
        requests=one.requests,
        fill=one.peak / one.window if one.window else 0.0,
        usd=float(one.usd) if one.usd is not None else None,
        cuts=one.cuts,
    )


def _build_found_row(entry: Entry) -> Row:
    return Row(
        id=entry.id,
        path=_get_source(entry),
        name=entry.name,
        title="",
        tool=entry.tool,
        project=entry.folder,
        size=entry.size,
        at=entry.modified,
        entry=entry.inside,
        sample=_is_sample(entry),
    )


def _is_sample(entry: Entry) -> bool:
    return entry.path.parent == registry.SAMPLES
