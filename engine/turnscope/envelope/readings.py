"""Where a session shows what a file holds: results of tools that read files, and texts that hold files.

Pure readings of blocks, for rules that leave out, cut or fold what was read. It knows no disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from turnscope.envelope.conversation import call_input, path_in, result_text
from turnscope.session.model import Block, Session

READERS = ("Read", "read_file", "read", "view", "view_file", "open_file", "cat", "read_text_file", "get_file_contents")
STARTS = ("offset", "start_line")  # names of an input's first line
PARTS = (*STARTS, "limit", "end_line", "view_range", "line_range", "pages", "head", "tail")
SHOWN = re.compile(r'(<((?:final_)?file_content) path="([^"]+)">)(.*?)(</\2>)', re.DOTALL)
HEADED = re.compile(r"(\[(\S+) for '([^']+)'\] Result:\s?)(.+)", re.DOTALL)


class Reading(NamedTuple):
    """Block `at` shows `path`; `part` says which part of the file ("" = all of it)."""

    at: int
    path: str
    part: str


def readings(block: Block, session: Session) -> Iterator[Reading]:
    """What a block shows of files; a reading that failed shows nothing."""
    text = result_text(block) if block.kind == "tool_result" else block.text
    if not text or (isinstance(block.raw, Mapping) and block.raw.get("is_error")):
        return
    given = call_input(session, block) if block.name in READERS else {}
    if path := path_in(given):
        part = [(key, given[key]) for key in PARTS if given.get(key) is not None]
        yield Reading(block.at, path, repr(part) if part else "")
    elif (headed := HEADED.match(text)) and headed[2] in READERS:
        yield Reading(block.at, headed[3], "")
    elif "file_content path=" in text:
        for path in dict.fromkeys(match[3] for match in SHOWN.finditer(text)):
            yield Reading(block.at, path, "")


def shown(block: Block, path: str) -> str:
    """What a block shows of the file at `path`, as far as `readings` says that it does."""
    text = (result_text(block) or "") if block.kind == "tool_result" else block.text
    if headed := HEADED.match(text):
        return headed[4]
    return next((match[4] for match in SHOWN.finditer(text) if match[3] == path), text)
