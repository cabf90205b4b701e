"""Outlines of files that a session read, as Roo adds them to a summary: one text per file, so many characters in all.

Roo parses the files on disk with tree-sitter. Here the text is what the session itself shows of a file, and definitions are
found by the words that begin them: what was never read has no outline, and a definition's end is where its indentation ends.
Order and limits are of RooCodeInc/Roo-Code v3.52.1: core/condense/foldedFileContext.ts, services/tree-sitter/index.ts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MOST = 50_000  # characters of all outlines (maxCharacters)
LEAST = 200  # characters below which no further outline is begun
LINES = 4  # lines that a definition must have (getMinComponentLines)
HEAD = "<system-reminder>\n## File Context: {}\n(An outline, made when this was condensed: read the file for more.)\n"
TAIL = "\n</system-reminder>"
CUT = "\n... (truncated)"

_NUMBERED = re.compile(r"^ *\d+ ?(?:\| ?|→|\t)", re.MULTILINE)
_BEGINS = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([^)]*\))?"
    r"|unsafe|override|virtual|sealed|data|inline|extern|declare)\s+)*"
    r"(?:(?:def|class|function\*?|interface|type|enum|struct|trait|impl|fn|func|mod|module|namespace|record|object|protocol)\b"
    r"|(?:const|let|var)\s+\w+\s*(?::[^=]*)?=\s*(?:async\s*)?(?:function\b|\(.*=>|\w+\s*=>))"
)


def build_outlines(files: Iterable[tuple[str, str]], most: int = MOST) -> list[str]:
    """An outline of each `(path, text)` that has definitions, in order, of `most` characters in all; the last may be cut."""
    found: list[str] = []
    room = most
    for path, text in files:
        head, lines = HEAD.format(path), "\n".join(find_definitions(text))
        if not lines:
            continue
        if len(head) + len(lines) + len(TAIL) > room:
            left = room - len(head) - len(CUT) - len(TAIL)
            return found + ([f"{head}{lines[:left]}{CUT}{TAIL}"] if room >= LEAST and left > 0 else [])
        found.append(f"{head}{lines}{TAIL}")
        room -= len(found[-1])
    return found


def find_definitions(text: str) -> Iterator[str]:
    """The first line of each definition of at least four lines, as `first--last | line`."""
    rows = (_NUMBERED.sub("", text) if len(_NUMBERED.findall(text)) > text.count("\n") // 2 else text).split("\n")
    for at, row in enumerate(rows):
        begins = _BEGINS.match(row)
        if begins and (end := _find_end(rows, at, len(begins["indent"]))) - at + 1 >= LINES:
            yield f"{at + 1}--{end + 1} | {row}"


def _find_end(rows: list[str], at: int, indent: int) -> int:
    """The last line that belongs to the definition that begins at line `at`: what is indented further, and its bracket."""
    end = at
    for place in range(at + 1, len(rows)):
        row = rows[place]
        if not row.strip():
            continue
        depth = len(row) - len(row.lstrip())
        if depth <= indent and not (depth == indent and row.lstrip()[0] in ")]}"):
            break
        end = place
        if depth == indent and row.lstrip()[0] == "}":
            break
    return end
