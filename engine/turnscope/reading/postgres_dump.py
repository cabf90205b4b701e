"""Reads rows of a table from a plain dump of PostgreSQL, as `pg_dump` writes it: COPY blocks, or INSERT statements.

The text format of COPY is that of PostgreSQL's manual ("COPY", File Formats). Values come as texts; NULL is None. A dump of
data alone (`--data-only --inserts`) names no column: whoever reads it says them. The module knows no table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

HEADS = (b"--", b"\\restrict", b"SET ", b"COPY ", b"INSERT ", b"CREATE ")  # what a dump may begin with
_NAME = r'(?:"?[\w$]+"?\.)?"?(?P<table>[\w$]+)"?'
_STATEMENT = re.compile(
    rf"^(?:(?P<copy>COPY)|INSERT INTO) {_NAME} (?:\((?P<listed>[^()\n]*)\) )?"
    r"(?(copy)FROM stdin;\n|(?:OVERRIDING \w+ VALUE )?VALUES\s*)",
    re.MULTILINE,
)
_CREATE = re.compile(rf"^CREATE TABLE (?:IF NOT EXISTS )?{_NAME}\s*\(\n((?:[^;]*\n)??)\)", re.MULTILINE | re.IGNORECASE)
_VALUE = re.compile(r"\s*(?:(E?)'([^']*(?:''[^']*)*)'|([^\s',()][^',()]*))\s*([,)])")
_NEXT = re.compile(r"\s*,\s*")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE", "LIKE")
_BLANKS = b"\xef\xbb\xbf \r\n"
Row = dict[str, str | None]
Values = list[str | None]


class UnknownColumns(ValueError):
    """A dump holds values whose columns nothing names."""


def has_rows(dump: bytes, table: str) -> bool:
    """Whether a file is a dump with rows of a table.

    Args:
        dump: The file.
        table: The table's name, without its schema.
    """
    statement = rb'^(?:COPY|INSERT INTO) (?:"?[\w$]+"?\.)?"?%b"?[ (]' % table.encode()
    return dump.lstrip(_BLANKS).startswith(HEADS) and re.search(statement, dump, re.MULTILINE) is not None


def list_columns(dump: str, table: str) -> list[str]:
    """List the columns that a dump's CREATE TABLE statement names; none where it has none.

    Args:
        dump: The dump.
        table: The table's name, without its schema.
    """
    return next((_list_columns(found[2]) for found in _CREATE.finditer(dump) if found[1] == table), [])


def iter_rows(dump: str, table: str, guess: Callable[[Values], Sequence[str]]) -> Iterator[Row | None]:
    """Iterate over the rows of a table, in the dump's order. None stands for a row that cannot be read.

    Args:
        dump: The dump.
        table: The table's name, without its schema.
        guess: Gives the columns of a row where the dump names none.

    Raises:
        UnknownColumns: `guess` gave none.
    """
    columns: Sequence[str] = list_columns(dump, table)
    at = 0
    while found := _STATEMENT.search(dump, at):  # one after the other: a text may hold what looks like a statement
        listed = _split_names(found["listed"]) if found["listed"] else ()
        rows, at = (_read_copied if found["copy"] else _read_inserted)(dump, found.end())
        for row in rows if found["table"] == table else ():
            columns = columns if listed else columns or guess(row)
            names = listed or columns
            if not names:
                raise UnknownColumns(table)
            yield dict(zip(names, row, strict=True)) if len(row) == len(names) else None


def _read_copied(dump: str, at: int) -> tuple[list[Values], int]:
    """The rows of a COPY block, which a line of its own ends, and where the block ends.

    Without that line its last row may be cut: an empty one stands for it.
    """
    rows: list[Values] = []
    while at < len(dump):
        stop = dump.find("\n", at)
        line = dump[at : stop if stop >= 0 else len(dump)].removesuffix("\r")
        at = stop + 1 if stop >= 0 else len(dump)
        if line == "\\.":
            return rows, at
        rows.append([None if value == "\\N" else _unescape(value) for value in line.split("\t")])
    return [*rows[:-1], []], at


def _unescape(value: str) -> str:
    return _ESCAPE.sub(_read_escape, value) if "\\" in value else value


def _read_escape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _LETTERS.get(code, code)


def _read_inserted(dump: str, at: int) -> tuple[list[Values], int]:
    """The rows of an INSERT statement, and where it ends; a row that cannot be read ends it, as far as it goes."""
    rows: list[Values] = []
    while dump[at : at + 1] == "(":
        at += 1
        values: Values = []
        while found := _VALUE.match(dump, at):
            at = found.end()
            values.append(_read_value(found))
            if found[4] == ")":
                break
        rows.append(values)
        more = _NEXT.match(dump, at)
        at = more.end() if more else at
    return rows, at


def _read_value(found: re.Match[str]) -> str | None:
    if found[2] is None:
        plain = found[3].strip()
        return None if plain.upper() == "NULL" else plain
    text = found[2].replace("''", "'")
    return _unescape(text) if found[1] else text


def _split_names(listed: str) -> list[str]:
    return [name.strip().strip('"') for name in listed.split(",")]


def _list_columns(body: str) -> list[str]:
    """The columns that a CREATE TABLE statement names, one a line."""
    names = (line.strip().split(" ")[0].strip('"') for line in body.splitlines() if line.strip())
    return [name for name in names if name.upper() not in _CONSTRAINTS]
