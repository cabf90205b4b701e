"""Cut a long file that was read after a number of lines, and say how to read on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, get_call_input, get_previous_cut, get_result_text
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.file_reads import HEADED, STARTS, find_file_reads, get_file_text
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Block, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The notice may contain {tool}, {path}, {first}, {last}, {total} and {next}, the number of the first line that is cut."""

    lines: Annotated[int, "number of lines of a file to keep"] = 1_000
    notice: Annotated[str, "text in front of a file that was cut"] = (
        "[{tool} for '{path}']\n"
        "IMPORTANT: File content truncated.\n"
        "Status: Showing lines {first}-{last} of {total} total lines.\n"
        "To read more: Use the {tool} tool with offset={next}"
    )


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    most = max(1, params.lines)
    for block in ctx.session.blocks[get_previous_cut(ctx) : ctx.request.cut]:
        if block.role != "user" or envelope.find_piece(block.at).body is not None:
            continue
        whole, cut = (get_result_text(block) or "") if block.kind == "tool_result" else block.text, []
        for reading in find_file_reads(block, ctx.session):
            text = get_file_text(block, reading.path)
            lines = text.removesuffix("\n").split("\n")
            if len(lines) > most:
                values = _build_values(block, ctx.session, reading.path, most, len(lines))
                short = _fill_notice(params.notice, values) + "\n" + "\n".join(lines[:most])
                whole = short if HEADED.match(whole) else whole.replace(text, short, 1)
                cut.append(values)
        if cut:
            part = build_result(block, whole) if block.kind == "tool_result" else Part(block.role, block.kind, whole)
            files = ", ".join(f"{values['path']} has {values['total']:,} lines" for values in cut)
            because = f"{files}: {most:,} are sent"
            envelope = yield Edit("truncate", because, Span(block.at, block.at + 1), (part,), facts={"files": cut})


def _build_values(block: Block, session: Session, path: str, most: int, lines: int) -> dict[str, str | int]:
    """The values of the notice for a file of which `lines` lines were read."""
    first, headed = _get_first_line(block, session), HEADED.match(block.text)
    tool = headed[2] if headed else block.name or "read_file"
    last = first + most - 1
    return {"tool": tool, "path": path, "first": first, "last": last, "total": first + lines - 1, "next": last + 1}


def _fill_notice(notice: str, values: Mapping[str, str | int]) -> str:
    for key, value in values.items():
        notice = notice.replace(f"{{{key}}}", str(value))
    return notice


def _get_first_line(block: Block, session: Session) -> int:
    """The number of the first line that was read."""
    arguments = get_call_input(session, block)
    found = next((arguments[key] for key in STARTS if isinstance(arguments.get(key), int)), 1)
    return max(1, int(found))


RULE = Rule(
    "cut_long_files",
    "Send the first lines of a file that was read. A notice names them, their total, and how to read on.",
    edits,
    Params,
    "remembers",
    "a survey of memory patterns, section 1.7: lines 1-1000 of 5000, offset=1001",
)
