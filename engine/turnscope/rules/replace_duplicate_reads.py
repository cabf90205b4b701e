"""Replace older reads of a file by a notice: only the newest read shows the file's content."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, find_replaceable, get_previous_cut, get_result_text, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.file_reads import HEADED, SHOWN, FileRead, find_file_reads
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import Index
from turnscope.session.model import Block, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """When to act, and the notice."""

    trigger: Annotated[float, "act once the previous request filled this part of the limit (0 to 1; 0 = always)"] = 0.0
    notice: Annotated[str, "text in place of an older read; {path} is the file's path"] = (
        "[An older reading of {path} was here. A newer one stands further below.]"
    )


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    done: int | None = ctx.state  # reads before this address were handled
    if ctx.previous_usage < params.trigger * ctx.budget.limit:
        return done
    stale = _find_outdated(ctx)
    begin = done if done is not None else 0 if params.trigger else get_previous_cut(ctx)
    started = envelope.tokens
    for i in range(bisect_left(stale, (begin,)), bisect_left(stale, (ctx.request.cut,))):
        newer, old = stale[i]
        piece = find_replaceable(envelope, old.at)
        part = _replace_shown(ctx.session.blocks[old.at], piece.body, old.path, params) if piece else None
        if part is None or (piece and piece.body == (part,)):
            continue
        saved = ctx.ledger.count_tokens(old.at, old.at + 1) - sum(ctx.ledger.count_placeholder((part,)))
        if saved > 0:
            facts = {"path": old.path, "newer": newer, "tokens": saved, "saved": round(saved / max(1, started), 4)}
            because = f"{old.path} was read again later; the {saved:,} tokens of the older read are dropped"
            envelope = yield Edit("clear", because, Span(old.at, old.at + 1), (part,), facts=facts)
    return ctx.request.cut


@memoize
def _find_outdated(session: Session, _index: Index) -> tuple[tuple[int, FileRead], ...]:
    """Every read that a later one repeats, as `(address of the later one, read)`, in order of the later one."""
    standing: dict[str, list[FileRead]] = {}
    found: list[tuple[int, FileRead]] = []
    for block in session.blocks:
        if block.role != "user" or block.kind not in ("tool_result", "text"):
            continue
        for new in find_file_reads(block, session):
            known = standing.setdefault(new.path, [])
            old = [reading for reading in known if new.part in ("", reading.part)]
            found += [(new.at, reading) for reading in old]
            standing[new.path] = [*(reading for reading in known if reading not in old), new]
    return tuple(found)


def _replace_shown(block: Block, body: tuple[Part, ...] | None, path: str, params: Params) -> Part | None:
    """The block with the notice in place of what it shows of `path`. Other files in it stay."""
    text = body[0].text if body else (get_result_text(block) or "") if block.kind == "tool_result" else block.text
    notice = params.notice.replace("{path}", path)
    if (headed := HEADED.match(text)) and headed[3] == path:
        text = headed[1] + notice
    elif any(match[3] == path for match in SHOWN.finditer(text)):
        text = SHOWN.sub(lambda match: match[1] + notice + match[5] if match[3] == path else match[0], text)
    else:
        text = notice if block.kind == "tool_result" else text
    return build_result(block, text) if block.kind == "tool_result" else Part(block.role, block.kind, text)


RULE = Rule(
    "replace_duplicate_reads",
    "Keep only the newest read of a file. A notice replaces each older one.",
    edits,
    Params,
    "remembers",
    "Cline getPossibleDuplicateFileReads (ContextManager.ts, v3.89.2), with tool calls and partial readings kept apart",
    state=int,
)
