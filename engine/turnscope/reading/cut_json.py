"""What is whole of a JSON document that ends too early, as a copy or a download does that was interrupted.

It is closed after the last whole item of its outermost open list that has one: a conversation of an export, a message of a
chat. What is left of the next item goes, since half a message would pass for a whole one. Where no open list has one, it is
closed after the last whole field of the document itself, such as its messages. A note says where the file ends and how much of
it is lost. A document that breaks in its middle is not closed.
"""

from __future__ import annotations

import re

from turnscope.reading.json_forms import MAX_BYTES
from turnscope.reading.source import Source, parse_json
from turnscope.session.model import Note

BLANKS = b"\xef\xbb\xbf \t\r\n"  # before the first bracket, with a byte-order mark
LINES = (".jsonl", ".ndjson")  # ends of files whose last line is cut while a tool writes it
TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[][{},]', re.DOTALL)  # a text, even one cut off, or a mark
CLOSES = {b"[": b"]", b"{": b"}"}


def is_broken(source: Source) -> bool:
    """Whether a file begins as one JSON document and cannot be read as one, or as JSON lines."""
    if source.kind != "file" or source.head.lstrip(BLANKS)[:1] not in (b"{", b"["):
        return False
    return source.document is None and not any(isinstance(value, (dict, list)) for value in source.first)


def close_document(source: Source) -> Source | None:
    """Close a document that ends too early; None where it does not, or where nothing in it is whole.

    The new source says so in its `cut`.
    """
    if source.path.suffix in LINES or source.size > MAX_BYTES or not is_broken(source):
        return None
    data = source.data
    found = _find_end(data)
    if found is None:
        return None
    end, closes = found
    whole = Source(source.path, data[:end] + closes)
    if parse_json(whole.data) is None:  # it breaks before its end as well
        return None
    line, column = data.count(b"\n") + 1, len(data[data.rfind(b"\n") + 1 :].decode("utf-8", "replace"))
    where = f"the file ends too early, at line {line:,}, column {column:,}"
    whole.cut = Note("warning", line, f"{where}: its last {len(data) - end:,} bytes are no whole item and were left out")
    return whole


def _find_end(data: bytes) -> tuple[int, bytes] | None:
    """Where the last whole item of the outermost open list with one ends, or the document's last field, and what closes it."""
    marks: list[bytes] = []  # each open bracket
    ends: list[int] = []  # where the last whole item of each ends; 0 = it has none
    for token in TOKEN.finditer(data):
        mark = token[0]
        if mark in CLOSES:
            marks.append(mark)
            ends.append(0)
        elif mark in (b"]", b"}"):
            if not marks or CLOSES[marks.pop()] != mark:
                return None
            ends.pop()
            ends[-1:] = [token.end()] if ends else []
        elif mark == b"," and ends:
            ends[-1] = token.start()
    depth = next((n for n, (mark, end) in enumerate(zip(marks, ends, strict=True)) if mark == b"[" and end), 0)
    if not marks or not ends[depth]:
        return None
    return ends[depth], b"".join(CLOSES[mark] for mark in reversed(marks[: depth + 1]))
