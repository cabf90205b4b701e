"""Tags that the user gave to sessions. A session is known by its source and its conversation, as in the index.

[{"path": "/logs/s1.jsonl", "entry": "", "tags": ["slow", "auth"]}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from turnscope.library.user_file import read_file, write_file
from turnscope.settings import find_library_file

MAX_CHARACTERS = 40  # of a tag
Key = tuple[str, str]  # source and conversation


class _Tagged(msgspec.Struct):
    path: str
    entry: str
    tags: tuple[str, ...]


def read_tags(path: Path | None = None) -> dict[Key, tuple[str, ...]]:
    """Read the tags of all sessions, by source and conversation.

    Args:
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
    """
    rows: list[_Tagged] = read_file(path or find_library_file("tags.json"), list[_Tagged], "tags are then gone")
    return {(row.path, row.entry): row.tags for row in rows}


def set_tags(sessions: Iterable[Key], tags: Iterable[str], path: Path | None = None) -> None:
    """Give sessions these tags in place of those they have.

    Args:
        sessions: source and conversation of each.
        tags: the tags; spaces around them do not count, nor does what stands twice.
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
        TurnscopeError: it cannot be written.
    """
    kept = tuple(dict.fromkeys(tag for tag in (" ".join(each.split())[:MAX_CHARACTERS] for each in tags) if tag))
    known = read_tags(path) | dict.fromkeys(sessions, kept)
    rows = [_Tagged(source, entry, tags) for (source, entry), tags in known.items() if tags]
    write_file(path or find_library_file("tags.json"), rows)


def group_by_tag(tags: Mapping[Key, tuple[str, ...]]) -> dict[str, tuple[Key, ...]]:
    """The sessions of each tag, the most used tag first.

    >>> group_by_tag({("a", ""): ("slow",), ("b", ""): ("auth", "slow")})
    {'slow': (('a', ''), ('b', '')), 'auth': (('b', ''),)}
    """
    found: dict[str, tuple[Key, ...]] = {}
    for key, names in tags.items():
        for name in names:
            found[name] = (*found.get(name, ()), key)
    return dict(sorted(found.items(), key=lambda each: (-len(each[1]), each[0])))
