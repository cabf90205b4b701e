"""Exports that hold many conversations in one list: listed by what each says of itself, read one by one. Knows no format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.source import Entry, Source
from turnscope.session.model import Note

Conversation = Mapping[str, Any]


def list_conversations(source: Source, key: str = "conversations") -> Sequence[Any]:
    """List the conversations of a file: a list, a list under `key`, JSON lines, or the one object.

    Args:
        source: The file.
        key: The key of the list.
    """
    if "list" not in source.cache:
        document = source.document
        if isinstance(document, dict):
            source.cache["list"] = document[key] if isinstance(document.get(key), list) else [document]
        elif isinstance(document, list):
            source.cache["list"] = document
        else:
            source.cache["list"] = [value for value, _ in source.iter_records() if not isinstance(value, Note)]
    found: Sequence[Any] = source.cache["list"]
    return found


def peek_first(source: Source, key: str = "conversations") -> Conversation:
    """Get the first object of an export, to see what it is; an empty one where there is none. Reads no further.

    Args:
        source: The file.
        key: The key of the list.
    """
    document = source.document
    if document is None:
        return as_mapping(next(iter(source.first), None))
    if isinstance(document, dict) and not isinstance(document.get(key), list):
        return document
    items = document[key] if isinstance(document, dict) else document
    return next((item for item in items[:20] if isinstance(item, dict)), {})


def make_entries(source: Source, describe: Callable[[Conversation], Entry], key: str = "conversations") -> Iterator[Entry]:
    """Make an entry for each conversation, in the file's order. An only conversation has the id "".

    Args:
        source: The file.
        describe: Gives id, title and time of a conversation.
        key: The key of the list.
    """
    if "entries" not in source.cache:
        places: dict[str, int] = {}
        entries: list[Entry] = []
        for number, value in enumerate(list_conversations(source, key)):
            if isinstance(value, Mapping):
                entry = describe(value)
                id = entry.id if entry.id and entry.id not in places else f"{entry.id}#{number}"
                places[id] = number
                entries.append(structs.replace(entry, id=id))
        source.cache["places"] = places
        alone = len(list_conversations(source, key)) == 1
        source.cache["entries"] = [structs.replace(entry, id="") for entry in entries] if alone else entries
    return iter(source.cache["entries"])


def get_conversation(source: Source, entry: Entry, key: str = "conversations") -> Conversation:
    """Get the conversation of an entry.

    Args:
        source: The file.
        entry: One of `make_entries`.
        key: The key of the list.
    """
    return as_mapping(list_conversations(source, key)[source.cache["places"][entry.id] if entry.id else 0])
