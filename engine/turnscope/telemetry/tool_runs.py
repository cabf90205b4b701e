"""The runs of tools between a request and the next one, as the session has them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from turnscope.reading.content_blocks import as_mapping
from turnscope.session.model import Request, Session
from turnscope.telemetry.prompts import dumps

MAX_CHARACTERS = 4_000  # of arguments and of a result; both stand in full in the messages of the next request


class ToolRun(Struct, frozen=True):
    """One run of a tool: `at` is the address of its call. Arguments and result are "" where content is not exported."""

    at: int
    id: str
    name: str
    failed: bool
    arguments: str = ""
    result: str = ""


def iter_tool_runs(session: Session, request: Request, *, content: bool = False) -> Iterator[ToolRun]:
    """Yield the runs of the tools that the answer to a request called, and of which the session has a result.

    Args:
        session: the session.
        request: the request.
        content: whether they hold arguments and results.
    """
    for call in session.blocks[request.cut : request.stop]:
        if call.kind != "tool_use" or not request.stop <= call.pair < len(session.blocks):
            continue
        call_block, result = as_mapping(call.raw), session.blocks[call.pair]
        yield ToolRun(
            call.at,
            str(call_block.get("id") or ""),
            call.name or "unknown",
            failed=as_mapping(result.raw).get("is_error") is True,
            arguments=_cut(dumps(call_block.get("input"))) if content else "",
            result=_cut(result.text) if content else "",
        )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
