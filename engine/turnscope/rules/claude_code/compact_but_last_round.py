"""Compaction of newer versions of Claude Code: a summary replaces all but the last round, and files come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pairs import as_mapping
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.claude_code import limits as port
from turnscope.ports.claude_code import returning
from turnscope.ports.claude_code.conversation import SLOT, sum_tokens
from turnscope.ports.claude_code.returning import Returning
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Request, Span

SOURCE = "claude-code"  # of sessions whose log says what became of a prompt that is sent whole


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original. A compaction that the user requested happens where the log shows it."""

    window: Annotated[
        int, "CLAUDE_CODE_AUTO_COMPACT_WINDOW, tokens (0 = not set: only a prompt that the provider refuses is compacted)"
    ] = 0
    percent: Annotated[
        int, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE, where the window is set; it can only lower the trigger (0 = not set)"
    ] = 0
    files: Annotated[int, "files that come back, those written last first"] = port.FILES
    file_tokens: Annotated[int, "tokens of a file that comes back whole; of a larger one only its name does"] = port.FILE
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


class Compacted(Struct, frozen=True, gc=False):
    """The last compaction: its request, and the files that came back."""

    request: int
    files: tuple[str, ...] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the log holds what this very compaction left, it is used."""
    state: Compacted | None = ctx.state
    last = -1 if state is None else state.request
    seen = recorded_compactions.find_compactions(ctx)
    manual = recorded_compactions.is_requested(seen)
    mark = _find_mark(ctx, params)
    size = _count_request(ctx, last)
    refused = False
    if not params.window and ctx.session.source == SOURCE and recorded_compactions.is_in_step(ctx, last):
        refused = _was_refused(ctx, seen)
        size = _correct_by_log(ctx, seen, size)
    if not (manual or refused or size >= mark):
        return state
    tokens = next((edit.facts["preTokens"] for edit in seen if "preTokens" in edit.facts), None)
    facts: dict[str, Any] = {"tokens": size, "mark": mark} | ({"recorded": tokens} if tokens else {})
    because = f"{size:,} tokens, the threshold is {mark:,}"
    because = "requested by the user" if manual else "the provider refused the prompt before" if refused else because
    stop = _find_last_round(ctx)
    files = _list_files(ctx, state, stop, params)
    now = Compacted(ctx.request.n, tuple(file.path for file in files))
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return now
    begin, _, fresh = find_leading_summary(envelope, ctx)
    if fresh >= stop or ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return state
    before = envelope
    front, behind = returning.list_context(ctx, stop)
    if manual:  # a command ends the turn: what the prompt after it carries is sent as in a new session
        front, behind = [], [*behind, *front]
    how = SummaryOptions("hand-over", cap=params.cap, lead=tuple(front))
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    if envelope is before:
        return state
    for at in _find_superseded(ctx, stop):
        why = f"{because}; this result stands again behind it, as it was sent from here on"
        envelope = yield Edit("condense", why, Span(at, at + 1), facts=facts)
    if parts := (*_build_files(files, params), *behind):
        why = f"{because}; files come back, those written last first, and what the first prompt carried"
        yield Edit("insert", why, Span(ctx.request.cut, ctx.request.cut), parts, slot=SLOT, facts={"files": len(files)})
    return now


def _find_mark(ctx: Ctx, params: Params) -> int:
    """Return the tokens from which on it compacts: what a window that is set leaves, or one more than the model's window."""
    if not params.window:
        return ctx.budget.window + 1
    return port.compute_trigger(params.window - port.RESERVE, percent=params.percent)


def _count_request(ctx: Ctx, last: int) -> int:
    """Return the tokens of the request: what was billed for the last response, and a quarter of the characters since."""
    sums, stop = sum_tokens(ctx), ctx.request.cut
    if ctx.previous is None:
        return sums[stop]
    request = ctx.previous.request
    answer = sums[request.stop] - sums[request.cut]
    return recorded_compactions.count_previous_usage(ctx, last, answer) + sums[stop] - sums[min(request.stop, stop)]


def _was_refused(ctx: Ctx, seen: list[Edit]) -> bool:
    """Return whether the tool compacted because the provider had refused the prompt, which the log shows without an answer."""
    before = ctx.previous.request if ctx.previous else None
    return bool(seen) and before is not None and _is_unanswered(before)


def _correct_by_log(ctx: Ctx, seen: list[Edit], size: int) -> int:
    """Return the tokens of this very prompt, which was sent as it is here: as billed, or 0 where it is still to be refused."""
    if _is_unanswered(ctx.request):
        return 0
    return ctx.request.usage.prompt_tokens if ctx.request.usage and not seen else size


def _is_unanswered(request: Request) -> bool:
    return request.stop == request.cut and request.stop_reason == "error"


def _find_last_round(ctx: Ctx) -> int:
    """Return where the newest answer begins, which stays with its results; the new prompt where there is none."""
    blocks, starts = ctx.session.blocks, ctx.index.messages
    number = count_before(starts, ctx.request.cut) - 1
    while number > 0 and blocks[starts[number]].role != "assistant":
        number -= 1
    return starts[number] if number > 0 else ctx.request.cut


def _find_superseded(ctx: Ctx, start: int) -> list[int]:
    """Return results of the last round that a later one of the same call replaces.

    A prompt that was refused carried the first, and the log of the next has the second, with the files that came back in it.
    """
    results = ctx.index.results[count_before(ctx.index.results, start) : count_before(ctx.index.results, ctx.request.cut)]
    newest = {as_mapping(ctx.session.blocks[at].raw).get("tool_use_id"): at for at in results}
    return [at for at in results if newest[as_mapping(ctx.session.blocks[at].raw).get("tool_use_id")] != at]


def _list_files(ctx: Ctx, state: Compacted | None, stop: int, params: Params) -> list[Returning]:
    """Return the files that come back at this request; `stop` is where the round begins that stays."""
    since = ctx.session.requests[state.request].cut if state else 0
    return returning.list_files(ctx, since, state.files if state else (), stop, params.files)


def _build_files(files: Sequence[Returning], params: Params) -> Iterator[Part]:
    """Return the files that come back; of those that are too large the names."""
    for path, text in files:
        fits = port.estimate(len(text)) <= params.file_tokens
        shown = (
            f"{path}, as it is now:\n{returning.number_lines(text)}"
            if fits
            else f"{path} was read; it is too large to come back."
        )
        yield Part("user", "files", shown)


RULE = Rule(
    "compact_but_last_round",
    "Replace all but the last round by a summary, once the provider refuses the prompt or a window that is set is nearly full.",
    edits,
    Params,
    source="requests that Claude Code 2.1.330 sent to a recording server, and the transcripts that it wrote",
    state=Compacted,
)
