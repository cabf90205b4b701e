"""Where a session shows what a file holds: results of tools that read files, and texts that hold files.

Pure readings of blocks, for rules that leave out, cut or fold what was read. It knows no disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from turnscope.envelope.conversation import find_path, get_call_input, get_result_text
from turnscope.session.model import Block, Session

READERS = ("Read", "read_file", "read", "view", "view_file", "open_file", "cat", "read_text_file", "get_file_contents")
STARTS = ("offset", "start_line")  # names of an input's first line
PARTS = (*STARTS, "limit", "end_line", "view_range", "line_range", "pages", "head", "tail")
SHOWN = re.compile(r'(<((?:final_)?file_content) path="([^"]+)">)(.*?)(</\2>)', re.DOTALL)
HEADED = re.compile(r"(\[(\S+) for '([^']+)'\] Result:\s?)(.+)", re.DOTALL)


class FileRead(NamedTuple):
    """Block `at` shows `path`; `part` says which part of the file ("" = all of it)."""

    at: int
    path: str
    part: str


def find_file_reads(block: Block, session: Session) -> Iterator[FileRead]:
    """What a block shows of files; a reading that failed shows nothing."""
    text = get_result_text(block) if block.kind == "tool_result" else block.text
    if not text or (isinstance(block.raw, Mapping) and block.raw.get("is_error")):
        return
    tool_input = get_call_input(session, block) if block.name in READERS else {}
    if path := find_path(tool_input):
        part = [(key, tool_input[key]) for key in PARTS if tool_input.get(key) is not None]
        yield FileRead(block.at, path, repr(part) if part else "")
    elif (headed := HEADED.match(text)) and headed[2] in READERS:
        yield FileRead(block.at, headed[3], "")
    elif "file_content path=" in text:
        for path in dict.fromkeys(match[3] for match in SHOWN.finditer(text)):
            yield FileRead(block.at, path, "")


def get_file_text(block: Block, path: str) -> str:
    """What a block shows of the file at `path`, as far as `readings` says that it does."""
    text = (get_result_text(block) or "") if block.kind == "tool_result" else block.text
    if headed := HEADED.match(text):
        return headed[4]
    return next((match[4] for match in SHOWN.finditer(text) if match[3] == path), text)
