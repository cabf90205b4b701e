"""Outlines of files that a session read, as Roo adds them to a summary: one text per file, with a limit for all of them.

Roo parses the files on the disk with tree-sitter. Here the text is what the session shows of a file, and definitions are
recognised by their first words. So a file that was not read has no outline, and a definition ends where its indentation
ends. Order and limits are those of RooCodeInc/Roo-Code v3.52.1: core/condense/foldedFileContext.ts,
services/tree-sitter/index.ts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MOST = 50_000  # characters of all outlines (maxCharacters)
LEAST = 200  # with fewer characters left, no further outline begins
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
    """Return an outline of each file that has definitions, in order. The last one may be cut.

    Args:
        files: Path and text of each file.
        most: Characters of all outlines.
    """
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
    """Return the first line of each definition of at least four lines, as `first--last | line`."""
    rows = (_NUMBERED.sub("", text) if len(_NUMBERED.findall(text)) > text.count("\n") // 2 else text).split("\n")
    for at, row in enumerate(rows):
        begins = _BEGINS.match(row)
        if begins and (end := _find_end(rows, at, len(begins["indent"]))) - at + 1 >= LINES:
            yield f"{at + 1}--{end + 1} | {row}"


def _find_end(rows: list[str], at: int, indent: int) -> int:
    """Return the last line of the definition at line `at`: the lines with more indentation, and a closing bracket."""
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
