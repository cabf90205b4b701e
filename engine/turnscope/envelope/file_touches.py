"""Which files the calls of a conversation read and wrote, and what is known of their text. Nothing is read from the disk."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from turnscope.envelope.conversation import find_path, get_call_input, get_result_text
from turnscope.session.index import Index
from turnscope.session.model import Session

_NUMBERED = re.compile(r"\s*\d+[\t→](.*)")  # a line of a file, shown behind its number


class Touch(NamedTuple):
    """A result that read or wrote a file: its address, the file, whether it wrote, the file's text since (None: not known)."""

    at: int
    path: str
    wrote: bool
    text: str | None


def iter_touches(session: Session, index: Index, reads: Collection[str], writes: Collection[str]) -> Iterator[Touch]:
    """Yield the results that read or wrote a file, in order. Calls that failed are left out.

    Args:
        session: The session.
        index: Its index.
        reads: Names of the tools that read a file.
        writes: Names of the tools that write one, as a whole or by replacing a text.
    """
    texts: dict[str, str] = {}
    for at in index.results:
        block = session.blocks[at]
        given = get_call_input(session, block) if block.name in reads or block.name in writes else {}
        path, result = find_path(given), get_result_text(block)
        if not path or result is None or (isinstance(block.raw, Mapping) and block.raw.get("is_error")):
            continue
        text = _read_text(result) if block.name in reads else _write_text(texts.get(path), given)
        if text is not None and not (path in texts and block.name in reads and _is_part(given)):
            texts[path] = text
        yield Touch(at, path, block.name in writes, texts.get(path))


def _is_part(given: Mapping[str, Any]) -> bool:
    return given.get("offset") is not None or given.get("limit") is not None


def _read_text(result: str) -> str:
    """The file in a result: its numbered lines without what stands behind them; a result without any as it is."""
    found: list[str] = []
    for line in result.split("\n"):
        match = _NUMBERED.fullmatch(line)
        if match is None:
            break
        found.append(match[1])
    return "\n".join(found) if found else result


def _write_text(text: str | None, given: Mapping[str, Any]) -> str | None:
    """The file after a call that wrote it; None where the conversation does not tell it."""
    if isinstance(content := given.get("content"), str):
        return content
    edits = given.get("edits") if isinstance(given.get("edits"), list) else [given]
    for edit in edits or ():
        old, new = (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, Mapping) else (None, None)
        if text is None or not isinstance(old, str) or not isinstance(new, str) or not old:
            return text
        text = text.replace(old, new, -1 if edit.get("replace_all") else 1)
    return text
