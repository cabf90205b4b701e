"""Where a session shows the content of a file: results of tools that read files, and texts that contain files.

Pure functions of blocks, for rules that drop, cut or outline what was read. No file on disk is opened.
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
    """Block `at` shows the file `path`. `part` names the part of the file that it shows; "" = the whole file."""

    at: int
    path: str
    part: str


def find_file_reads(block: Block, session: Session) -> Iterator[FileRead]:
    """Yield the files that a block shows. A read that failed shows none.

    Args:
        block: A tool result, or a prompt that shows files.
        session: Its session, which holds the call.
    """
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
    """Return what a block shows of the file at `path`, one of those that `find_file_reads` gives for it.

    Args:
        block: The block.
        path: Path of the file, as the block names it.
    """
    text = (get_result_text(block) or "") if block.kind == "tool_result" else block.text
    if headed := HEADED.match(text):
        return headed[4]
    return next((match[4] for match in SHOWN.finditer(text) if match[3] == path), text)
